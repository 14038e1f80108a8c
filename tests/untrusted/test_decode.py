"""Types are prepared by one thread, as msgspec's own preparation ends a process of several."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each round has new types, and four threads that use them at once for the first time.
PROGRAM = """
import sys, threading, typing, msgspec
from reprobuild.infra.untrusted.decode import decode_json, decode_value, json_decoder

sys.setswitchinterval(1e-6)
FIELDS = {f"f{number}": "x" for number in range(20)}
DATA = msgspec.json.encode({"inner": FIELDS})
Word = typing.Annotated[str, msgspec.Meta(max_length=9)]

def use(outer, inner, start):
    start.wait()
    answers.append(DECODE(outer, inner))

for _ in range(300):
    inner = msgspec.defstruct("Inner", [(name, Word) for name in FIELDS])
    outer = msgspec.defstruct("Outer", [("inner", inner)])
    start, answers = threading.Barrier(4), []
    threads = [threading.Thread(target=use, args=(outer, inner, start)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["x"] * 4, answers
"""
DECODES = {
    "decode_json": "decode_json(DATA, outer).inner.f19",
    "decode_value": "decode_value(FIELDS, inner).f19",
    "json_decoder": "json_decoder(outer).decode(DATA).inner.f19",
}


def run(decode: str) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.replace("DECODE(outer, inner)", decode)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)


@pytest.mark.parametrize("decode", DECODES.values(), ids=DECODES)
def test_threads_use_a_new_type_at_once(decode: str) -> None:
    done = run(decode)
    assert done.returncode == 0, done.stderr


def test_msgspec_alone_fails() -> None:
    """Without the lock the same program ends by a signal, or reads a type that is not ready."""
    assert run("msgspec.json.decode(DATA, type=outer).inner.f19").returncode != 0
