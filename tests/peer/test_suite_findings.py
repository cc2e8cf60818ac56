"""What the table of findings in JAX's suites counts, and which findings it asks a reason for."""
import pathlib

import pytest

from suite_findings import reasons, summary


def case(name, *findings, launches=1):
    return {"id": f"some_test.py::A::{name}", "launches": launches, "outcome": "passed",
            "findings": [{"code": c, "severity": s, "text": f"{s}[{c}]: words\n  at somewhere"} for c, s in findings]}


def test_findings_without_a_reason_are_named():
    known = [("PS-OUT-001", "tpu:v6e  :: some_test.py::A::test_one*")]
    row = summary("some_test.py@tpu:v6e", "tpu:v6e ", [
        case("test_one3", ("PS-OUT-001", "warning")), case("test_two", ("PS-OUT-001", "warning"), ("PS-OUT-001", "warning")),
        case("test_one4", ("PS-RACE-002", "warning")), case("test_note", ("PS-OUT-003", "note")), case("test_quiet"), case("test_static", launches=0)], known)
    assert (row.cases, row.with_findings) == (5, 3)
    assert row.codes == {"PS-OUT-001": 2, "PS-RACE-002": 1, "PS-OUT-003(note)": 1}
    assert [text.split()[0] + " " + text.split("::")[-1].split()[0] for text in row.unexplained] == [
        "PS-OUT-001 test_two", "PS-RACE-002 test_one4", "PS-OUT-003(note) test_note"]


def test_a_reason_may_hold_for_notes_alone():
    cases = [case("test_note", ("PS-RACE-002", "note")), case("test_race", ("PS-RACE-002", "warning"))]
    for code, unexplained in (("PS-RACE-002(note)", ["PS-RACE-002"]), ("PS-RACE-002", [])):
        row = summary("some_test.py@tpu:v6e", "tpu:v6e ", cases, [(code, "* :: *")])
        assert [text.split()[0] for text in row.unexplained] == unexplained


def test_a_line_above_the_first_reason_is_refused(tmp_path):
    file = tmp_path / "findings.txt"
    file.write_text("PS-OUT-001 none  :: a_test.py::A::test_b\n")
    with pytest.raises(ValueError, match="has no reason above it"):
        reasons(file)


def test_the_list_names_codes_and_cases():
    known = reasons(pathlib.Path(__file__).parent / "findings.txt")
    assert known and all(code.startswith("PS-") and " :: " in case for code, case in known)
