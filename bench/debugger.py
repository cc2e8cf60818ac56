"""What stops and steps of the debugger cost behind a long run: `python bench/debugger.py`.

Kernels with 256 MiB of operands and 10^6 steps (stop points included) behind the place where they stand: one that works in its scratch, one that writes another
part of its output in each trip, all of it again and again. Times are those of an editor, protocol included.
"""
from __future__ import annotations

import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "python"))
from dap_client import Client  # noqa: E402

from pallasim import _program  # noqa: E402

TRIPS = 120_000
SCRATCH = f"""pallasim-ir 1
module "long_run" {{machine = tpu}}
input "x_ref" : f32[32768,1024] {{space = any}}
output "o_ref" : f32[32768,1024] {{space = any}}
scratch "acc_ref" : ref<f32[8,128], vmem>
body (%0 "x_ref": ref<f32[32768,1024], any>, %1 "o_ref": ref<f32[32768,1024], any>, %2 "acc_ref": ref<f32[8,128], vmem>) {{
  %3 = constant {{value = i32 0x0}} : i32[]
  %4 = constant {{value = i32 0x1}} : i32[]
  %5 = constant {{value = i32 {TRIPS + 10:#x}}} : i32[]
  %6 = constant {{value = f32 0x0}} : f32[]
  %7 = broadcast_in_dim %6 {{dims = []}} : f32[8,128] @0
  store %2, %7 @0
  for %3, %5, %4 (%8: i32[]) {{
    %9 = get %2 : f32[8,128] @1
    %10 = add %9, %9 : f32[8,128] @2
    store %2, %10 @3
    %11 = rem %8, %5 : i32[] @4
    %12 = mul %11, %11 : i32[] @5
    yield
  }} @6
  yield
}}
loc 0 {{file = "long.py", line = 2, column = 4, function = "kernel", text = "acc_ref[...] = zeros"}}
loc 1 {{file = "long.py", line = 5, column = 4, function = "body", text = "a = acc_ref[...]"}}
loc 2 {{file = "long.py", line = 6, column = 4, function = "body", text = "b = a + a"}}
loc 3 {{file = "long.py", line = 7, column = 4, function = "body", text = "acc_ref[...] = b"}}
loc 4 {{file = "long.py", line = 8, column = 4, function = "body", text = "j = i % n"}}
loc 5 {{file = "long.py", line = 9, column = 4, function = "body", text = "k = j * j"}}
loc 6 {{file = "long.py", line = 4, column = 4, function = "kernel", text = "@pl.loop(0, n)"}}
"""


def memory_of(process: int) -> int:
    text = pathlib.Path(f"/proc/{process}/status").read_text()
    return int(text.split("VmHWM:")[1].split()[0]) >> 10


# The output's rows in turn, 32 KiB in a trip, which differ from what was there.
OUTPUT = (SCRATCH.replace("ref<f32[8,128], vmem>", "ref<f32[8,1024], vmem>").replace(": f32[8,128]", ": f32[8,1024]").replace("%8: i32[]", "%8 \"i\": i32[]")
          .replace("    %10 = add %9, %9 : f32[8,1024] @2\n", """    %17 = convert %8 : f32[] @2
    %18 = broadcast_in_dim %17 {dims = []} : f32[8,1024] @2
    %10 = add %9, %18 : f32[8,1024] @2
""")
          .replace("    %12 = mul %11, %11 : i32[] @5\n", """    %13 = constant {value = i32 0x1000} : i32[]
    %14 = constant {value = i32 0x8} : i32[]
    %15 = rem %8, %13 : i32[] @5
    %16 = mul %15, %14 : i32[] @5
    store %1, %10, %16 {view = [index(slice($2, 8), slice(0, 1024))]} @5
"""))


def main() -> None:
    for what, kernel in (("works in its scratch", SCRATCH), ("writes its output all along", OUTPUT)):
        measure(what, kernel)


def measure(kind: str, kernel: str) -> None:
    print(f"a kernel that {kind}:")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "long.psir"
        path.write_text(kernel)
        run = ["/usr/bin/env", "python3", "-c", "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)", _program.path(), "run", str(path)]
        print(f"  a run without a debugger: {subprocess.check_output(run, env=_program.environment(), text=True).strip()} MiB")
        with Client() as c:
            c.start(path, [("long.py", [{"line": 6, "condition": f"%8 == {TRIPS}"}])])
            took = c.milliseconds("continue", threadId=1)
            assert c.frame()["line"] == 6
            print(f"  to 10^6 steps: {took:.0f} ms")
            c.ask("setBreakpoints", source={"path": "long.py"}, breakpoints=[])
            for what, command in (("step", "stepIn"), ("step back", "stepBack"), ("next", "next")):
                times = [c.milliseconds(command, threadId=1) for _ in range(40)]
                print(f"  {what}: median {statistics.median(times):.2f} ms, most {max(times):.2f} ms")
            c.ask("setBreakpoints", source={"path": "long.py"}, breakpoints=[{"line": 6, "condition": f"%8 == {TRIPS // 2}"}])
            print(f"  reverse-continue over half of it: {c.milliseconds('reverseContinue', threadId=1):.0f} ms")
            times = [c.milliseconds("stepBack", threadId=1) for _ in range(40)]
            print(f"  step back there: median {statistics.median(times):.2f} ms, first {times[0]:.2f} ms, most {max(times):.2f} ms")
            print(f"  memory: {memory_of(c.process.pid)} MiB")


if __name__ == "__main__":
    main()
