"""Code stands in one place: scripts/duplicates.py finds few blocks in two, each with its reason."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import duplicates  # noqa: E402


def test_blocks_have_reasons():
    said = subprocess.run([sys.executable, ROOT / "scripts" / "duplicates.py", "--check"], capture_output=True, text=True)
    assert said.returncode == 0, said.stdout


def test_a_block_is_found_whatever_its_comments_and_spaces(tmp_path):
    block = [f"  total += weights[{i}] * values[{i}];" for i in range(7)]
    a, b = tmp_path / "a.cc", tmp_path / "b.cc"
    a.write_text("int a() {\n" + "\n".join(block) + "\n  return total;\n}\n")
    b.write_text("// another\nint b() {\n" + "\n\n".join(f"  {line}  // as above" for line in block[:6]) + "\n  return 0;\n}\n")
    (found,) = duplicates.blocks([a, b])
    assert found == (a, 2, 7, b, 3, 13)
    b.write_text("\n".join(block[:5]) + "\n")
    assert list(duplicates.blocks([a, b])) == []
