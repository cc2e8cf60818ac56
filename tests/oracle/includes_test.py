"""The judge shares nothing with the engine but the reference table of arithmetic, and stays small."""

import pathlib
import re

HERE = pathlib.Path(__file__).parent
TESTS = {"oracle_test.cc", "teams_test.cc", "agrees_test.cc"}
OWN = [p for p in sorted(HERE.glob("*.cc")) + sorted(HERE.glob("*.h")) if p.name not in TESTS]
OF_INTERP = {
    "reference_kernels", "compute_type", "byte_size", "contract", "Contraction", "GemmBackend", "CType", "Semantics",
    "StripParams", "StripFn", "StoreFn", "ConvertFn", "ReduceFn", "ArgReduceFn", "CumulativeFn",
}
# What switches between the stacks of threads.
SWITCHES = {"sys/mman.h", "ucontext.h", "unistd.h", "sanitizer/common_interface_defs.h", "sanitizer/tsan_interface.h"}


def test_includes():
    assert len(OWN) >= 8
    for path in OWN:
        for name in re.findall(r'#\s*include\s*[<"]([^>"]+)[>"]', path.read_text()):
            standard = "/" not in name and "." not in name
            system = path.name == "fibers.cc" and name in SWITCHES
            own = (HERE / name).exists() and "/" not in name
            allowed = name.startswith("pallasim/ir/") or name in ("pallasim/interp/kernels.h", "fmt/format.h")
            assert standard or system or own or allowed, f"{path.name} includes {name}"


def test_only_the_reference_arithmetic():
    for path in OWN:
        text = path.read_text()
        for name in re.findall(r"interp::(\w+)", text):
            assert name in OF_INTERP, f"{path.name} uses interp::{name}"
        assert not re.search(r"using namespace", text), path.name
        for call in re.findall(r"interp::contract\(.*", text):
            assert "GemmBackend::Reference" in call, f"{path.name}: {call}"


def test_size():
    lines = {p.name: len(p.read_text().splitlines()) for p in OWN}
    assert sum(lines.values()) < 3500, lines
    assert all(n < 500 for n in lines.values()), lines
