"""What a SARIF 2.1.0 file must be (docs.oasis-open.org/sarif/sarif/v2.1.0): the rules that code hosts hold files to, and ours."""
from __future__ import annotations

import re
from urllib.parse import urlsplit

LEVELS = {"none", "note", "warning", "error"}


def _uri(artifact, bases):
    parts = urlsplit(artifact["uri"])
    if "uriBaseId" in artifact:
        assert not parts.scheme and not artifact["uri"].startswith("/") and ".." not in parts.path.split("/"), artifact
        assert artifact["uriBaseId"] in bases
    else:
        assert parts.scheme == "file" and parts.path.startswith("/"), artifact
    assert re.fullmatch(r"[A-Za-z0-9._~:/%-]+", artifact["uri"]), artifact


def _location(location, bases):
    physical = location["physicalLocation"]
    _uri(physical["artifactLocation"], bases)
    region = physical.get("region", {"startLine": 1})
    assert region["startLine"] >= 1 and region.get("startColumn", 1) >= 1


def checked(document):
    """The run of a file that holds to the format. Raises AssertionError or KeyError for what does not."""
    assert document["version"] == "2.1.0" and document["$schema"].endswith("sarif-schema-2.1.0.json")
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "Pallasim" and re.fullmatch(r"\d+\.\d+\.\d+", driver["semanticVersion"])
    for base in run["originalUriBaseIds"].values():
        assert base["uri"].startswith("file:///") and base["uri"].endswith("/")
    assert all(isinstance(i["executionSuccessful"], bool) for i in run["invocations"])
    assert run["columnKind"] in ("utf16CodeUnits", "unicodeCodePoints")
    ids = [rule["id"] for rule in driver["rules"]]
    assert len(ids) == len(set(ids)) and set(ids) == {r["ruleId"] for r in run["results"]}
    for rule in driver["rules"]:
        assert rule["shortDescription"]["text"] and rule["fullDescription"]["text"]
        assert rule["help"]["text"] and rule["help"]["markdown"].startswith(f"# {rule['id']}: {rule['shortDescription']['text']}")
        assert rule["defaultConfiguration"]["level"] in LEVELS
    prints = [r["partialFingerprints"]["pallasim/v1"] for r in run["results"]]
    assert len(prints) == len(set(prints)) and all(re.fullmatch("[0-9a-f]{16}", p) for p in prints)
    for result in run["results"]:
        assert ids[result["ruleIndex"]] == result["ruleId"] and result["level"] in LEVELS and result["message"]["text"]
        assert result.get("occurrenceCount", 1) >= 1
        for location in result.get("locations", []):
            _location(location, run["originalUriBaseIds"])
        related = result.get("relatedLocations", [])
        assert [r["id"] for r in related] == list(range(1, len(related) + 1))
        for location in related:
            _location(location, run["originalUriBaseIds"])
        for suppression in result.get("suppressions", []):
            assert suppression["kind"] in ("inSource", "external") and suppression["status"] in ("accepted", "underReview", "rejected")
    return run


def place(result):
    """(path, line) of a result."""
    physical = result["locations"][0]["physicalLocation"]
    return physical["artifactLocation"]["uri"], physical.get("region", {}).get("startLine")
