"""What the table of JAX's race tests says of a case."""
import pytest

from race_cases import show, verdict


def case(expected, *codes, **other):
    return {"id": "some_test.py::A::test_one0", "expected": expected, "codes": dict.fromkeys(codes, 1), "stopped": False, "skipped": False, "failed": "", **other}


@pytest.mark.parametrize("record, what", [
    (case(True, "PS-RACE-002"), "found"), (case(True, "PS-UNINIT-003"), "missed"), (case(False), "quiet"), (case(False, "PS-OUT-001"), "quiet"),
    (case(False, "PS-PAR-002"), "false"), (case(True, "PS-DEAD-001", stopped=True), "found"), (case(None, skipped=True), "skipped")])
def test_verdicts(record, what):
    assert verdict(record) == what


def test_what_is_not_as_expected_is_named(capsys):
    total = show("some_test.py", "gpu:sm_90a", [case(True), case(False, "PS-RACE-001"), case(True, "PS-RACE-001"), case(False, failed="3 is not 4\nmore")])
    out = capsys.readouterr().out
    assert (total["missed"], total["false"], total["found"], total["failed"]) == (1, 1, 1, 1)
    assert "MISSED test_one0: nothing" in out and "FALSE test_one0: PS-RACE-001 1" in out and "QUIET test_one0: nothing; 3 is not 4\n" in out
