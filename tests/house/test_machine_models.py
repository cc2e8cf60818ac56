"""What differs between machines is a field of their models: nobody who compiles, runs or shows a kernel asks which machine it is."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ("interp", "capsule", "cli", "memory_model")
# An enumerator of ir::Machine, a comparison with its name, or with a chip's.
ASKED = re.compile(r'\bMachine::(Generic|Tpu|Triton|MosaicGpu)\b|"(tpu|triton|mosaic_gpu)"|compute_capability|\bname\s*[=!]=\s*"(tpu|gpu)-')


def asked(text):
    return [line.strip() for line in text.splitlines() if ASKED.search(line)]


def test_nobody_asks_which_machine_it_is():
    found = []
    for folder in FOLDERS:
        for path in sorted(p for suffix in ("*.h", "*.cc") for p in (ROOT / folder).rglob(suffix)):
            if path.is_relative_to(ROOT / "interp" / "tools"):  # writes the table of what each machine has
                continue
            found += [f"{path.relative_to(ROOT)}: {line}" for line in asked(path.read_text())]
    assert not found, "\n".join(found)


def test_a_question_is_seen():
    assert asked("if (m.machine == ir::Machine::Tpu) return;\n  using ir::Machine;\n  x = Machine::MosaicGpu;") == [
        "if (m.machine == ir::Machine::Tpu) return;", "x = Machine::MosaicGpu;"]
    assert asked('unit.aligned = chip->compute_capability == "9.0";') and asked('if (chip->name == "gpu-h100")')
    assert not asked("if (!model.in_order()) return; // see ir::Machine")
