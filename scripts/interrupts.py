"""How soon Ctrl-C stops a kernel: scripts/interrupts.py [ROUNDS [WAY…]], seconds from the signal to the next line of the program, per way.

The exit status is 1 where a launch took longer than half a second to stop, did not say where its kernel was, or the next one was wrong.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "python"))
import test_interrupt as ways  # noqa: E402

SOON = 0.5  # seconds


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    programs = {name: lambda way=way: ways.interrupted(ways.stopped(*way)) for name, way in ways.WAYS.items()}
    programs["notebook"] = ways.interrupted_notebook
    good = True
    for name in sys.argv[2:] or programs:
        took = []
        for _ in range(rounds):
            seconds, lines = programs[name]()
            if "stopped True" not in lines or "next True True" not in lines:
                print("\n".join(lines))
                return 1
            took.append(seconds)
        soon = sum(t <= SOON for t in took)
        good = good and soon == rounds
        print(f"{name:12} {soon} of {rounds} stopped within {SOON} s, the next launch right; {' '.join(f'{t:.2f}' for t in took)} s", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
