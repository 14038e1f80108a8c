"""The answer of an image may be anything: it is read strictly, and what does not fit is no answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprobuild.verify.determinism.document import LARGEST, Document, read_document
from reprobuild.verify.determinism.judge import judge_smoke
from tests.verify.samples import EXPECTED, changed, control, document, encode, probe

FIRST = EXPECTED["cpu"].probes[0]
DEEP = b'{"a":' * 5000 + b"1" + b"}" * 5000


def reason(data: bytes) -> str:
    """Return why it is no answer; the judge takes it for none, too."""
    found = read_document(data, "cpu")
    assert isinstance(found, str)
    assert len(found) < 1000
    for pair in ((found, found), (found, read_document(encode(document(quick=True)), "cpu"))):
        assert judge_smoke("cpu", *pair, EXPECTED["cpu"], controls=True).verdict == "inconclusive"
    return found


def test_a_document() -> None:
    found = read_document(encode(document()), "cpu")
    assert isinstance(found, Document)
    assert [answer.name for answer in found.probes] == list(EXPECTED["cpu"].probes)
    assert isinstance(read_document(b'{"format": 2, "ran": false}', "cpu"), Document)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"null", b"[]", b"3", b'"text"', b"{}", b"\xff\xfe", b"Segmentation fault", b"[" * 100_000, DEEP,
        b'{"format": 1, "ran": true}', b'{"format": 2}', b'{"format": "2", "ran": true}',
        b'{"format": 2, "ran": "yes"}', b'{"format": 2, "ran": true, "seconds": NaN}',
        b'{"format": 2, "ran": true, "seconds": 1e999}', b'{"format": 2, "ran": true, "seconds": -1}',
        b'{"format": 2, "ran": true, "device": "tpu"}', b'{"format": 2, "ran": true, "fingerprint": []}',
        b'{"format": 2, "ran": true, "fingerprint": ' + DEEP + b"}",
        b'{"format": 2, "ran": true, "start": {"a": 1' + b"0" * 100_000 + b"}}",
        encode(document())[:-20], encode(document()) + b"{}",
    ],
)  # fmt: skip
def test_what_is_no_document(data: bytes) -> None:
    assert reason(data).startswith("the answer is no document of the determinism test: ")


@pytest.mark.parametrize(
    "fields",
    [
        {"verdict": "GOOD"}, {"verdict": None}, {"digest": "short"}, {"digest": "A" * 64}, {"digest": "a" * 64 + "\n"},
        {"digest": 3}, {"distinct": -1}, {"distinct": True}, {"repeats": 1.5}, {"repeats": 10**12}, {"processes": "2"},
        {"why": "x" * 30_000}, {"why": ["a"]},
    ],
)  # fmt: skip
def test_a_mode_that_is_none(fields: dict[str, Any]) -> None:
    reason(encode(changed(document(), FIRST, **fields)))


@pytest.mark.parametrize("name", ["", "a\n", "\x1b[31m", "a\x00b", "<script>", "x" * 200, "\u202egnp", " a"])
def test_a_name_that_is_none(name: str) -> None:
    reason(encode(document(probes=[probe(name, ["strict"])])))
    reason(encode(document(comparator={name: True})))
    reason(encode(document(controls=[{**control("cpu a"), "name": name}])))


def test_modes_that_there_are_not() -> None:
    reason(encode(document(probes=[probe("a", ["strict", "other"])])))
    reason(encode(document(probes=[probe("a", [])] * 600)))
    many = {
        **control("cpu a"),
        "modes": {f"m{number}": probe("a", ["strict"])["modes"]["strict"] for number in range(9)},
    }
    reason(encode(document(controls=[many])))


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"probes": [probe(FIRST, ["strict"])] * 2}, "a name stands in it twice"),
        ({"controls": [control("cpu a"), control("cpu a")]}, "a name stands in it twice"),
        ({"device": "cuda"}, "it was asked about cpu and answers about cuda"),
        ({"fingerprint": {"a": list(range(5000))}}, "a part of it has more than 2000 values"),
        ({"start": {"a": [[]] * 5000}}, "a part of it has more than 2000 values"),
        ({"start": {"a" * 4000: [0] * 100}}, "the names in a part of it have more than 200000 characters"),
    ],
)
def test_a_document_that_contradicts_itself(fields: dict[str, Any], why: str) -> None:
    assert reason(encode(document(**fields))) == f"the answer contradicts itself: {why}"


@pytest.mark.parametrize("part", ["fingerprint", "start"])
def test_free_parts_have_bounds(part: str) -> None:
    for value in ({"a": {"b": {"c": {"d": {"e": {"f": {"g": 1}}}}}}}, {"a": "x" * 5000}, {"x" * 5000: 1}):
        reason(encode(document(**{part: value})))


def test_one_control_on_two_devices_is_two() -> None:
    found = read_document(encode(document(controls=[control("cpu a"), control("cuda a")])), "cpu")
    assert isinstance(found, Document)


def test_an_answer_without_end() -> None:
    assert (
        reason(b" " * (LARGEST + 1))
        == f"the answer has {LARGEST + 1} bytes; no determinism test gives more than {LARGEST}"
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(part=st.sampled_from(sorted(document())), value=JSON, where=st.integers(0, 3))
@settings(max_examples=300, deadline=None)
def test_no_part_can_be_replaced_to_pass_or_to_crash(part: str, value: Any, where: int) -> None:
    """Whatever stands in one place of one document, judging ends; what is essential cannot be lost and pass."""
    found = document()
    if where and isinstance(found[part], list) and found[part]:
        item = found[part][0]
        target = item["modes"]["strict"] if where > 1 and "modes" in item else item
        key = sorted(target)[len(str(value)) % len(target)]
        target[key] = value
    else:
        found[part] = value
    first, second = (
        read_document(json.dumps(each).encode(), "cpu") for each in (found, document(quick=True))
    )
    smoke = judge_smoke("cpu", first, second, EXPECTED["cpu"], controls=True)
    if (
        not where
        and part in ("probes", "controls", "comparator", "start", "format", "ran", "device")
        and value != document()[part]
    ):
        assert smoke.verdict != "identical"
