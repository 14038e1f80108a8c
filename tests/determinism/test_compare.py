"""The comparison of artefacts: every format, every kind of difference, what is excused, and what is no such format."""

from __future__ import annotations

import gzip
import io
import json
import math
import pickle
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from reprobuild_runtime.artefacts.compare import answer
from tests.conftest import ROOT

PROGRAM = ROOT / "reprobuild_runtime" / "artefacts" / "compare.py"
NOW = 1_790_000_000.25  # seconds since 1970
RUNS = [
    {"began": NOW - 600, "ended": NOW, "host": "abc123", "pid": 17, "zone": 7200},
    {"began": NOW - 60, "ended": NOW, "host": "def456", "pid": 18},
]


def compare(tmp_path: Path, name: str, one: bytes, two: bytes, *ignored: str) -> dict[str, Any]:
    """Return what is said of two contents of one file."""
    document = answer(asked(tmp_path, name, one, two, *ignored))
    assert document["ran"], document
    (found,) = document["files"]
    return dict(found)


def asked(tmp_path: Path, name: str, one: bytes, two: bytes, *ignored: str) -> str:
    """Write two contents of one file, and return the options that ask for their comparison."""
    for which, data in (("one", one), ("two", two)):
        (tmp_path / which).mkdir(exist_ok=True)
        (tmp_path / which / "0").write_bytes(data)
    options = {
        "one": str(tmp_path / "one"), "two": str(tmp_path / "two"), "runs": RUNS, "ignore": ignored,
        "files": [{"name": name, "one": "0", "two": "0"}],
    }  # fmt: skip
    return json.dumps(options)


def test_the_program_prints_one_document(tmp_path: Path) -> None:
    options = tmp_path / "options.json"
    for text in (asked(tmp_path, "a.json", b"{}", b"[]"), "{", '{"runs": 3}'):
        options.write_text(text)
        argv = [sys.executable, "-I", str(PROGRAM), str(options)]
        done = subprocess.run(argv, capture_output=True, check=True, timeout=120)
        document = json.loads(done.stdout)
        assert document["ran"] is ('"files"' in text)
        assert document["ran"] or document["why"]


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def safetensors(arrays: dict[str, tuple[str, list[int], bytes]], **metadata: str) -> bytes:
    header: dict[str, Any] = {"__metadata__": metadata} if metadata else {}
    body = b""
    for name, (dtype, shape, data) in arrays.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def npy(code: str, shape: tuple[int, ...], data: bytes) -> bytes:
    header = repr({"descr": code, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def packed(members: dict[str, bytes], moment: int = 1980, method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as made:
        for name, data in members.items():
            info = zipfile.ZipInfo(name, (moment, 1, 1, 0, 0, 0))
            info.compress_type = method
            made.writestr(info, data)
    return stream.getvalue()


def floats(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


BASE = floats(1.0, 2.0, 0.0, math.nan, 5.0, 6.0)


def changed(at: int, bits: int) -> bytes:
    """Return the base with other bits in one element."""
    return BASE[: 4 * at] + struct.pack("<I", bits) + BASE[4 * at + 4 :]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (changed(1, 0x40000001), "1 of 6 elements differ, the first at [0, 1], at most 1 ULP"),
        (changed(2, 0x80000000), "1 zeros with another sign"),
        (changed(3, 0x7FC00001), "1 NaNs with other payloads"),
        (changed(4, 0x7FC00000), "1 NaN in one run only"),
        (changed(5, 0x7F800000), "1 infinite in one run only"),
        (BASE[4:8] + BASE[:4] + BASE[8:], "2 of 6 elements differ, the first at [0, 0], at most 8388608 ULP"),
    ],
)  # fmt: skip
def test_what_differs_in_an_array(tmp_path: Path, other: bytes, words: str) -> None:
    forms = {
        "a.safetensors": lambda data: safetensors({"w": ("F32", [2, 3], data)}),
        "a.npy": lambda data: npy("<f4", (2, 3), data),
        "a.npz": lambda data: packed({"w.npy": npy("<f4", (2, 3), data)}),
        "b.npz": lambda data: packed({"w.npy": npy("<f4", (2, 3), data)}, method=zipfile.ZIP_DEFLATED),
    }
    for name, make in forms.items():
        assert compare(tmp_path, name, make(BASE), make(BASE))["verdict"] == "identical"
        found = compare(tmp_path, name, make(BASE), make(other))
        assert (found["verdict"], found["count"]) == ("drift", 1), name
        assert words in found["details"][0], name


@pytest.mark.parametrize(
    ("dtype", "one", "two", "words"),
    [
        ("F64", struct.pack("<d", 1.0), struct.pack("<d", 1.0000000000000002), "at most 1 ULP, 2.22e-16 absolute"),
        ("F64", struct.pack("<d", -1.7e308), struct.pack("<d", 1.7e308), "18436757907005404908 ULP, inf absolute"),
        ("F16", b"\x00\x3c", b"\x01\x3c", "at most 1 ULP, 0.000977 absolute"),
        ("BF16", b"\x80\x3f", b"\x82\x3f", "at most 2 ULP, 0.0156 absolute"),
        ("F8_E4M3", b"\x38", b"\x39", "at most 1 ULP, 0.125 absolute"),
        ("F8_E4M3", b"\x38", b"\x7f", "1 NaN in one run only"),
        ("F8_E5M2", b"\x7b", b"\x7c", "1 infinite in one run only"),
        ("I8", b"\x80", b"\x7f", "at most 255 apart"),
        ("I64", struct.pack("<q", -(2**63)), struct.pack("<q", 2**63 - 1), f"at most {2**64 - 1} apart"),
        ("U64", struct.pack("<Q", 0), struct.pack("<Q", 2**64 - 1), f"at most {2**64 - 1} apart"),
        ("BOOL", b"\0", b"\1", "1 of 1 elements differ"),
        ("C64", floats(1, 2), floats(1, 3), "the first at [0]"),
        ("F4", b"\1", b"\2", "1 of 1 elements differ"),
    ],
)  # fmt: skip
def test_types_of_elements(tmp_path: Path, dtype: str, one: bytes, two: bytes, words: str) -> None:
    files = [safetensors({"w": (dtype, [1], data)}) for data in (one, two)]
    found = compare(tmp_path, "a.safetensors", files[0], files[1])
    assert found["verdict"] == "drift"
    assert words in found["details"][0]


def test_numpy_and_plain_python_count_the_same(torch_python: Path, tmp_path: Path) -> None:
    """Both ways of counting give one answer, over every type and over bits of every kind."""
    program = f"""
import random, struct, sys
sys.path.insert(0, {str(ROOT)!r})
from reprobuild_runtime.artefacts import ulp
draw = random.Random(5)
for name, kind in ulp.KINDS.items():
    pieces = [bytearray(draw.randbytes(16384)) for _ in range(2)]
    pieces[1][:8192] = pieces[0][:8192]
    for special in (b"\\0" * 8, b"\\x80" * 8, b"\\xff" * 8, b"\\0" * 7 + b"\\x80"):
        at = 8 * draw.randrange(1100, 2000)
        pieces[draw.randrange(2)][at : at + 8] = special
    told = []
    for numpy in (True, False):
        ulp._found[:] = [] if numpy else [None]
        tally = ulp.Tally(kind)
        tally.add(0, bytes(pieces[0]), bytes(pieces[1]))
        assert ulp._found[0] is not None or not numpy
        told.append({{key: value for key, value in vars(tally).items() if key != "kind"}})
    assert told[0] == told[1], (name, told)
    assert told[0]["differing"] > 900, name
print("same")
"""
    done = subprocess.run([torch_python, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "same\n", done.stderr


def test_keys_types_and_shapes(tmp_path: Path) -> None:
    one = safetensors(
        {"a": ("F32", [2], floats(1, 2)), "b": ("F32", [2], floats(1, 2)), "c": ("F32", [1], floats(1))}
    )
    two = safetensors(
        {"b": ("F32", [1, 2], floats(1, 2)), "c": ("I32", [1], floats(1)), "d": ("F32", [0], b"")}
    )
    found = compare(tmp_path, "a.safetensors", one, two)
    assert found["details"] == [
        "a: only in the first run", "d: only in the second run", "b: another shape: (2,) and (1, 2)",
        "c: another type: float32 and int32",
    ]  # fmt: skip
    one, two = (safetensors({name: ("F32", [1], floats(1)) for name in names}) for names in ("ab", "ba"))
    assert compare(tmp_path, "a.safetensors", one, two)["details"] == [
        "at the top: the same keys in another order"
    ]


def test_containers_that_differ_in_nothing_but_themselves(tmp_path: Path) -> None:
    members = {"a.npy": npy("<i4", (1,), b"1234"), "b.npy": npy("<f4", (2,), floats(1, 2))}
    turned = dict(reversed(members.items()))
    for other in (packed(members, 1999), packed(turned), packed(members, method=zipfile.ZIP_DEFLATED)):
        found = compare(tmp_path, "a.npz", packed(members), other)
        assert (found["verdict"], found["count"]) == ("identical", 0)
        assert found["notes"] == ["the members are equal; times, order or packing of the containers are not"]
    text = b'{"step": 1}\n'
    found = compare(tmp_path, "a.jsonl.gz", gzip.compress(text, mtime=1), gzip.compress(text, mtime=2))
    assert (found["verdict"], found["format"]) == ("identical", "gzip")
    other = gzip.compress(b'{"step": 2}\n', mtime=1)
    found = compare(tmp_path, "a.jsonl.gz", gzip.compress(text, mtime=1), other)
    assert (found["format"], found["details"]) == ("gzip, JSON lines", ["line 1 (step 1).step: 1 and 2"])


def test_the_first_line_that_differs_is_the_step(tmp_path: Path) -> None:
    one = lines(*({"step": n, "loss": 0.5, "lr": 0.1} for n in range(30)))
    two = lines(*({"step": n, "loss": 0.5 if n < 12 else 0.5000000000000001, "lr": 0.1} for n in range(31)))
    found = compare(tmp_path, "log.jsonl", one, two)
    assert found["details"][0] == "line 13 (step 12).loss: 0.5 and 0.5000000000000001 (1 ULP)"
    assert found["details"][-1] == "line 31: only in the second run (step 30)"
    assert (found["count"], found["notes"]) == (19, ["19 of 31 lines differ"])


EXCUSED = [
    ("time", NOW - 30, NOW - 20), ("timestamp", int(NOW) - 30, int(NOW)), ("hostname", "abc123", "def456"),
    ("pid", 17, 18), ("saved_at", "2026-09-21T14:13:00Z", "2026-09-21T14:13:05.5Z"),
    ("message", "<A object at 0x7f00aabbccdd>", "<A object at 0x7f00aabbcc00>"),
    ("run", "0b1f6f0c8ad94d0e9b7d2f6f3c1c7a11", "d1f0c2ab77e34c95a0cc81f4b2d90e37"),
]  # fmt: skip
NOT_EXCUSED = [
    ("loss", 0.5, 0.6), ("step", 1, 2), ("time_step", 1, 2), ("lr", 0.1, 0.2), ("timesteps", 3, 4), ("seed", 1, 2),
    ("time", NOW - 30, NOW - 10**6), ("elapsed", 1.5, 5000.0), ("hostname", "abc123", "abc123x"), ("time", True, False),
    ("elapsed", 1.5, math.nan), ("message", "loss=0.5s", "loss=0.6s"), ("message", "0x7f00aabbccdd", "0x7f00aabbcc00"),
    ("date", "2020-01-01T00:00:00", "2020-01-02T00:00:00"), ("pid", 1.5, 2.5), ("weights", [0.1], [0.2]),
    ("sample", "a1b2", "a1b3"), ("time", None, 1.0), ("run_id", [1], [2.5]), ("momentum", 0.1, 0.2),
    ("elapsed", 1.5, 1.25), ("step_time_ms", 15, 12.0), ("train_runtime", 3.0, 4.0), ("times", [1.0, 2.0], [1.5, 2.5]),
    ("train/samples_per_second", 1e9, 2e9), ("pid", 18, 17), ("run_id", "x1", "y2"), ("output_dir", "/tmp/a", "/tmp/b"),
    ("epochDuration", 1.0, 2.0), ("message", "took 1.5s", "took 2.5 s"), ("run", "a" * 32, "b" * 32),
    ("uuid", "0b1f6f0c8ad94d0e9b7d2f6f3c1c7a11", "d1f0c2ab77e34c95a0cc81f4b2d90e37"),
    ("message", "on abc123", "on def456"), ("message", "on a0x1", "on b0x1"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "one", "two"), EXCUSED)
def test_what_may_differ_is_excused_and_told(tmp_path: Path, key: str, one: object, two: object) -> None:
    found = compare(tmp_path, "a.jsonl", lines({key: one}), lines({key: two}))
    assert (found["verdict"], found["details"]) == ("identical", [])
    assert len(found["excused"]) == 1
    assert key in found["excused"][0]


@pytest.mark.parametrize(("key", "one", "two"), NOT_EXCUSED)
def test_what_may_not_differ_is_drift(tmp_path: Path, key: str, one: object, two: object) -> None:
    found = compare(tmp_path, "a.jsonl", lines({key: one}), lines({key: two}))
    assert (found["verdict"], found["excused"]) == ("drift", [])


def stamp(seconds: float, form: str) -> str:
    return time.strftime(form, time.gmtime(seconds))


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M:%S,123",
        "%Y-%m-%dT%H:%M:%SZ",
        "[%H:%M:%S]",
        "%a %b %d %H:%M:%S %Y",
        "%Y/%m/%d %H:%M:%S",
    ],
)
def test_times_in_a_log(tmp_path: Path, form: str) -> None:
    one, two, far = (
        f"{stamp(when, form)} INFO step 3 loss=0.5\n".encode()
        for when in (NOW - 40, NOW - 20, NOW - 400 * 86400 - 450)
    )
    found = compare(tmp_path, "run.log", one, two)
    assert (found["verdict"], len(found["excused"])) == ("identical", 1)
    assert compare(tmp_path, "run.log", one, far)["verdict"] == "drift"
    assert compare(tmp_path, "run.log", one, two.replace(b"0.5", b"0.6"))["verdict"] == "drift"
    assert compare(tmp_path, "run.log", one, two.replace(b"step 3", b"step 4"))["verdict"] == "drift"


RICH = "[%m/%d/%y %H:%M:%S]"
OMITTED = " " * len("[09/21/26 14:13:20]")
BLANK_SEAMS = [
    # The second of the clock ended between the lines in the first run only.
    (("-90", "loss 0.5000"), ("-89", "loss 0.4000"), "", "0.4000", "identical"),
    (("-90", "loss 0.5000"), ("-89", "loss 0.4000"), "", "0.4001", "drift"),
    (("-90", "loss 0.5000"), ("-900", "loss 0.4000"), "", "0.4000", "drift"),  # before the run began
    (("-90", "loss 0.5000"), ("-89", "loss 0.4000"), "x", "0.4000", "drift"),
]


@pytest.mark.parametrize(("first", "seam", "mark", "result", "verdict"), BLANK_SEAMS)
def test_a_time_that_rich_leaves_out(
    tmp_path: Path, first: tuple[str, str], seam: tuple[str, str], mark: str, result: str, verdict: str
) -> None:
    """RichHandler leaves a time out that equals the one above; the seconds of two runs end at other lines."""
    one = "".join(f"{stamp(NOW + float(at), RICH)} INFO     {text}\n" for at, text in (first, seam))
    two = f"{stamp(NOW - 20, RICH)} INFO     {first[1]}\n{mark or ' '}{OMITTED[1:]} INFO     loss {result}\n"
    for texts in ((one, two), (two, one))[: 1 if verdict == "identical" else 2]:
        found = compare(tmp_path, "run.log", *(text.encode() for text in texts))
        assert found["verdict"] == verdict, found
    if verdict == "identical":
        assert found["counts"] == {"time": 2}


def test_progress_bars_are_compared_as_they_stand(tmp_path: Path) -> None:
    one = b"\r 10%|#  | 1/9 [00:00<00:08,  1.1it/s]\r100%|###| 9/9 [00:09<00:00,  1.0it/s]\nend\n"
    two = b"\r100%|###| 9/9 [00:07<00:00,  1.3it/s]\nend\n"
    assert compare(tmp_path, "run.log", one, two)["verdict"] == "identical"
    assert compare(tmp_path, "run.log", one, two.replace(b"9/9", b"8/9"))["verdict"] == "drift"


def test_the_user_ignores_keys(tmp_path: Path) -> None:
    one, two = lines({"lr": 1, "gpuMem": 5, "loss": 1}), lines({"lr": 1, "gpuMem": 6, "loss": 1})
    assert compare(tmp_path, "a.jsonl", one, two)["verdict"] == "drift"
    for key in ("gpuMem", "gpu_mem", "gpu*"):
        found = compare(tmp_path, "a.jsonl", one, two, key)
        assert (found["verdict"], len(found["excused"])) == ("identical", 1)
        assert "--ignore-key" in found["excused"][0]
    assert compare(tmp_path, "x.log", b"mem=5 loss=1\n", b"mem=6 loss=1\n", "mem")["verdict"] == "identical"
    assert compare(tmp_path, "x.log", b"mem=5 loss=1\n", b"mem=6 loss=2\n", "mem")["verdict"] == "drift"
    one, two = lines({"a": {"t": [1, 2]}}), lines({"a": {"t": [1, 3]}})
    assert compare(tmp_path, "a.jsonl", one, two, "t")["counts"] == {"ignored": 1}
    one, two = (safetensors({"w": ("F32", [1], floats(value))}) for value in (1, 2))
    assert compare(tmp_path, "a.safetensors", one, two, "w")["verdict"] == "drift"  # never a tensor


@pytest.mark.parametrize(
    ("one", "two", "key", "same"),
    [
        ("x mfu 3.4% loss 1", "x mfu 3.5% loss 1", "mfu", True),
        ("x mfu 3.4% loss 1", "x mfu 3.5% loss 2", "mfu", False),
        ("mfu: 3.4, loss 1", "mfu: 13.5, loss 1", "MFU", True),
        ("xmfu 3", "xmfu 4", "mfu", False),
        ("step 5 637.9/s loss 2", "step 5 1638.9/s loss 2", "#/s", True),
        ("step 5 637.9/s loss 2", "step 6 637.9/s loss 2", "#/s", False),
        ("Time  0.050 ( 0.050)\tLoss 2", "Time 10.051 ( 0.052)\tLoss 2", "Time # ( #)", True),
        ("Time  0.050 ( 0.050)\tLoss 2", "Time 10.051 ( 0.052)\tLoss 3", "Time # ( #)", False),
        ("elapsed time (ms): 12.5 | a 1", "elapsed time (ms): 13.5 | a 1", "elapsed time (ms)", True),
        ("done at 06:12:01", "done at 06:12:02", "#:#:#", True),
        ("took 12.5ms", "took 13.5ms", "took #ms", True),
        ("took 12.5ms", "took 13.5s", "took #ms", False),
        ("a_per_second 3 b 1", "a_per_second 4 b 1", "*_per_second", True),
    ],
)
def test_the_user_names_a_number_of_a_text(tmp_path: Path, one: str, two: str, key: str, same: bool) -> None:
    found = compare(tmp_path, "x.log", f"{one}\n".encode(), f"{two}\n".encode(), key)
    assert found["verdict"] == ("identical" if same else "drift"), found
    assert ("ignored" in found["counts"]) is same


def test_json_is_told_from_safetensors(tmp_path: Path) -> None:
    """Both begin with a brace at the ninth byte; only a length that the file has makes a header."""
    pairs = [("a.json", b'{"eval":{"time":"2026-09-21T14:13:0%dZ"}}' % second, "JSON") for second in (0, 5)]
    assert compare(tmp_path, "a.json", pairs[0][1], pairs[1][1])["format"] == "JSON"
    log = [b'[train] {"loss": 0.5} %d\n' % number for number in (1, 2)]
    assert compare(tmp_path, "a.log", *log)["format"] == "text"
    one, two = (safetensors({"w": ("F32", [1], floats(value))}) for value in (1, 2))
    assert compare(tmp_path, "weights", one, two)["format"] == "safetensors"
    assert compare(tmp_path, "a.json", b'{"meta":{"a":1}}', b'{"meta":{"a":2}}')["details"] == [
        "meta.a: 1 and 2"
    ]


@pytest.mark.parametrize(
    ("name", "data", "verdict", "words"),
    [
        ("a.npy", npy("<f4", (4,), floats(1, 2, math.nan, 4)), "identical", "array: 1 NaN of 4"),
        ("a.npy", npy("<f4", (2,), floats(1, -math.inf)), "identical", "array: 1 infinite of 2"),
        ("a.npy", npy("<f4", (2,), floats(math.nan, math.nan)), "inconclusive", "array: 2 NaN of 2"),
        ("a.npy", npy("<f8", (600,), struct.pack("<d", math.nan) * 600), "inconclusive", "array: 600 NaN of 600"),
        ("a.safetensors", safetensors({"w": ("BF16", [2], b"\xc0\x7f\x80\x3f"), "v": ("F32", [2], floats(1, 2))}),
         "identical", "w: 1 NaN of 2"),
        ("a.safetensors", safetensors({"w": ("F8_E4M3", [2], b"\xff\x01")}), "inconclusive", "w: 1 NaN of 2"),
        ("a.pkl", pickle.dumps({"loss": math.nan, "step": 3}), "identical", "loss: 1 NaN of 1"),
        ("a.jsonl", b'{"loss": NaN, "a": 1}\n', "identical", "line 1: 1 NaN of 1"),
        ("a.csv", b"loss,a\nnan,inf\n", "identical", "row 2: 1 NaN, 1 infinite of 2"),
        ("a.log", b"step 1 loss nan\nnumber of nan iterations: 0\ngain: -inf\n", "identical", "line 1: 1 NaN of 1"),
        ("a.pkl", pickle.dumps({}), "inconclusive", ""),
        ("a.npz", packed({"w.npy": npy("<f4", (0,), b"")}), "inconclusive", ""),
    ],
)  # fmt: skip
def test_equal_files_are_looked_through(
    tmp_path: Path, name: str, data: bytes, verdict: str, words: str
) -> None:
    """Two runs that both come to nothing, or to NaN, are equal whatever they computed."""
    found = compare(tmp_path, name, data, data)
    assert (found["verdict"], found["warnings"]) == (verdict, [words] if words else [])
    assert (found["notes"], found["count"]) == ([], 0)


def test_tables_and_documents(tmp_path: Path) -> None:
    head = b"step,loss,elapsed\n"
    found = compare(tmp_path, "a.csv", head + b"1,0.5,1.5\n", head + b"1,0.5,1.25\n", "elapsed")
    assert (found["verdict"], len(found["excused"])) == ("identical", 1)
    found = compare(tmp_path, "a.csv", head + b"1,0.5,1.5\n", head + b"1,0.6,1.5\n2,1,1\n")
    assert found["details"] == [
        "row 2 loss: 0.5 and 0.6 (900719925474099 ULP)",
        "row 3: only in the second run",
    ]
    found = compare(tmp_path, "a.json", b'{"a": [1, {"b": 2}]}', b'{"a": [1, {"b": 3}, 4]}')
    assert found["details"] == ["a: 2 and 3 entries", "a[1].b: 2 and 3"]
    found = compare(tmp_path, "a.json", b'{"a": 1}', b'{ "a": 1 }\n')
    assert (found["verdict"], found["notes"]) == (
        "identical",
        ["written differently, and equal in what it says"],
    )
    assert compare(tmp_path, "a.json", b'{"a": 0.0}', b'{"a": -0.0}')["verdict"] == "drift"
    assert compare(tmp_path, "a.json", b'{"a": 1, "b": 2}', b'{"b": 2, "a": 1}')["verdict"] == "drift"


class Config:
    """Something of the user's, which the comparison never makes."""

    def __init__(self, value: object) -> None:
        self.value = value


class Bomb:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("/tmp/reprobuild-bomb-went-off"),))


def test_pickles_are_read_without_running_anything(tmp_path: Path) -> None:
    one, two = (pickle.dumps({"a": Config([1, value]), "s": {"x", "y"}}) for value in (2, 3))
    found = compare(tmp_path, "a.pkl", one, two)
    assert (found["format"], found["count"]) == ("pickle", 1)
    assert "value" in found["details"][0]
    assert "2 and 3" in found["details"][0]
    bombs = [pickle.dumps((Bomb(), value)) for value in (1, 2)]
    assert compare(tmp_path, "a.pkl", *bombs)["verdict"] == "drift"
    assert not Path("/tmp/reprobuild-bomb-went-off").exists()


SAFE = safetensors({"w": ("F32", [1], floats(1))})
HOSTILE = [
    ("a.safetensors", struct.pack("<Q", 2**63) + SAFE[8:]), ("a.safetensors", SAFE[:-1]), ("a.safetensors", SAFE[:5]),
    ("a.safetensors", SAFE.replace(b"[0, 4]", b"[0, 9]")), ("a.safetensors", SAFE.replace(b"[1]", b"[7]")),
    ("a.safetensors", SAFE.replace(b"[0, 4]", b"[-4,0]")), ("a.safetensors", struct.pack("<Q", 9000) + b"[" * 9000),
    ("a.npy", npy("<f4", (9,), b"1234")), ("a.npy", npy("<f4", (-1,), b"1234")),
    ("a.npy", b"\x93NUMPY\x01\x00\xff\xff"),
    ("a.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 8000) + b"(" * 8000), ("a.zip", packed({"a": b"1"})[:-30]),
    ("a.pt", packed({"x/data.pkl": b"\x80\x02}.", "x/version": b"3"})[:40]),
    ("a.pt", packed({"x/data.pkl": b"no", "x/version": b"3"})),
    ("a.pt", packed({"x/data.pkl": b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".", "x/version": b"3"})),
    ("a.json", b"[" * 100000), ("a.json", b'{"a": 1, "a": 2}'), ("a.json", b"\xff\xfe"), ("a.jsonl", b"{broken\n"),
    ("a.json", b"9" * 100000), ("a.pkl", b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f."),
    ("a.gz", b"\x1f\x8b\x08broken"),
    ("a.csv", b'"' + b"x" * 300000 + b"\n"), ("a.bin", b"\0\1\2"),
    ("a.pt", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.junk"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "data"), HOSTILE)
def test_what_is_not_what_it_seems_is_compared_all_the_same(tmp_path: Path, name: str, data: bytes) -> None:
    found = compare(tmp_path, name, data, data + b"!")
    assert found["verdict"] == "drift"
    assert all(len(line) < 1000 and line.isprintable() for line in (*found["details"], *found["notes"]))


MAKE = """
import collections, random, sys, torch, numpy
change, folder = float(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)  # a library may choose another number of threads on a busy machine
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(10, 300), torch.nn.Dropout(0.5), torch.nn.Linear(300, 3))
optimizer = torch.optim.Adam(model.parameters())
model(torch.randn(4, 10)).sum().backward()
optimizer.step()
with torch.no_grad():
    optimizer.state[model[0].weight]["exp_avg"][3, 4] += change
made = {
    "model": model.state_dict(), "optimizer": optimizer.state_dict(), "torch_rng": torch.get_rng_state(),
    "numpy_rng": numpy.random.RandomState(1).get_state(), "python_rng": random.Random(1).getstate(), "epoch": 3,
    "half": torch.ones(5).bfloat16() + change, "turned": (torch.arange(6.0).reshape(2, 3) + change).t(),
    "part": torch.cat([torch.zeros(9), torch.rand(9) if change else torch.zeros(9)])[:9],
    "scalar": 1.0, "none": None, "size": torch.Size([1]), "type": torch.float32, "sparse": torch.eye(3).to_sparse(),
    "parameter": model[0].bias, "names": {"a", "b"}, "counts": collections.Counter("ab"),
    "saved_at": float(sys.argv[3]),
    "eight": torch.ones(3).to(torch.float8_e4m3fn), "pairs": torch.ones(2, dtype=torch.complex64),
}
torch.save(made, folder + "/new.pt")
torch.save(made, folder + "/old.pt", _use_new_zipfile_serialization=False)
"""


@pytest.fixture(scope="module")
def checkpoints(torch_python: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three directories of checkpoints: the second is made again, the third has changes."""
    folders = []
    for number, change in enumerate(("0", "0", "0.125")):
        folders.append(tmp_path_factory.mktemp("made"))
        subprocess.run(
            [torch_python, "-c", MAKE, change, folders[-1], str(NOW - 30 + number)],
            check=True,
            capture_output=True,
        )
    return folders


@pytest.mark.parametrize("name", ["new.pt", "old.pt"])
def test_checkpoints_of_torch(checkpoints: list[Path], tmp_path: Path, name: str) -> None:
    first, again, other = ((folder / name).read_bytes() for folder in checkpoints)
    found = compare(tmp_path, name, first, again)
    assert (found["verdict"], found["details"]) == ("identical", [])
    assert found["format"] == (
        "torch checkpoint" if name == "new.pt" else "torch checkpoint of the format before 1.6"
    )
    assert [line.partition(" ")[0] for line in found["excused"]] == ["saved_at"]
    found = compare(tmp_path, name, first, other)
    assert [line.partition(":")[0] for line in found["details"]] == [
        "optimizer.state.0.exp_avg",
        "half",
        "turned",
    ]
    assert "1 of 3000 elements differ, the first at [3, 4]" in found["details"][0]
    assert "bfloat16 [5]: 5 of 5 elements differ, the first at [0], at most 16 ULP" in found["details"][1]


def test_a_checkpoint_that_was_not_written_to_its_end(checkpoints: list[Path], tmp_path: Path) -> None:
    for name in ("new.pt", "old.pt"):
        whole = (checkpoints[0] / name).read_bytes()
        found = compare(tmp_path, name, whole, whole[:-2000])
        assert (found["verdict"], found["format"]) == ("drift", "bytes")
        assert found["notes"][0].startswith("not read as ")
