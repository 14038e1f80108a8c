"""Lines that name an address repeat if the image has that very file or commit, and not otherwise."""

from __future__ import annotations

import msgspec
import pytest

from reprobuild.lock.model import Lock, RealisedOutputs
from reprobuild.lock.python import Sdist
from reprobuild.lock.system import Artefact
from reprobuild.verify.roundtrip.compare import compare_freeze
from tests.verify.samples import artefact, frozen, make_lock, ruling, source, wheel
from tests.verify.test_round_trip import said

URL, H, C = "https://files.test/tool-1.0-py3-none-any.whl", "a" * 64, "c" * 40
FILE = "that very file, by its hash"


def lock_of(captured: str, **more: object) -> Lock:
    return make_lock(rulings=(ruling("Tool", captured),), **{"wheels": (), "sources": (), **more})


def found(lock: Lock, image: str) -> tuple[str, str]:
    (difference,) = compare_freeze(lock, said(frozen({"name": "tool", "freeze": image, "tree": None})))
    assert difference.captured.startswith(lock.rulings[0].captured)
    return difference.code, difference.reason


@pytest.mark.parametrize(
    ("captured", "file", "image", "code"),
    [
        (f"Tool @ {URL}#sha256={H}", artefact("x"), "tool==1.0", "other-spelling"),
        (f"Tool @ {URL}#sha256={'b' * 64}", artefact("x"), "tool==1.0", "unexplained"),
        (f"Tool @ {URL}", Artefact(filename="x", sha256=H, size=1, url=URL), "tool==1.0", "other-spelling"),
        (
            f"Tool @ {URL}",
            Artefact(filename="x", sha256=H, size=1, url="https://o.test/x"),
            "tool==1.0",
            "unexplained",
        ),
        (f"Tool @ {URL}#sha256={H}", artefact("x"), "tool==1.1", "unexplained"),
        (f"Tool @ {URL}#sha256={H}", artefact("x"), "tool @ file:///tmp/x", "unexplained"),
        ("Tool==2.0", artefact("x"), "tool==1.0", "unexplained"),
    ],
)
def test_a_wheel_at_an_address(captured: str, file: Artefact, image: str, code: str) -> None:
    lock = lock_of(captured, wheels=(wheel("tool", file=file),))
    shown, reason = found(lock, image)
    assert shown == code
    assert reason.startswith(FILE if code == "other-spelling" else "")
    assert bool(reason) == (code == "other-spelling")


def test_a_source_at_an_address() -> None:
    made = RealisedOutputs(base="", runtime="", wheels=(wheel("tool", "1.0"),), bytecode=())
    sdist = Sdist(name="tool", version="", file=artefact("v1.tar.gz"))
    line = f"Tool @ https://git.test/o/tool/archive/v1.tar.gz#sha256={H}&subdirectory=py"
    assert found(lock_of(line, sdists=(sdist,), realised=made), "tool==1.0")[0] == "other-spelling"
    assert found(lock_of(line, sdists=(sdist,)), "tool==1.0")[0] == "unexplained"


@pytest.mark.parametrize(
    ("commit", "code"), [(C, "other-spelling"), (C[:12], "other-spelling"), ("d" * 40, "unexplained")]
)
def test_a_commit_of_a_repository(commit: str, code: str) -> None:
    made = RealisedOutputs(base="", runtime="", wheels=(wheel("tool", "1.0"),), bytecode=())
    tree = msgspec.structs.replace(source("tool", "7" * 40), editable=False)
    line = f"Tool @ git+https://git.test/o/tool@{commit}#subdirectory=py"
    assert found(lock_of(line, sources=(tree,), realised=made), "tool==1.0")[0] == code
    editable = lock_of(line, sources=(source("tool", "7" * 40),), realised=made)
    assert found(editable, "tool==1.0")[0] == "unexplained"


def test_a_directory_whose_repository_was_named() -> None:
    made = RealisedOutputs(base="", runtime="", wheels=(wheel("tool", "1.0"),), bytecode=())
    tree = msgspec.structs.replace(source("tool", "7" * 40), editable=False)
    line = "Tool @ file:///home/ada/tool"
    assert found(lock_of(line, sources=(tree,), realised=made), "tool==1.0") == (
        "other-spelling", "built from the repository that --source names; the image records no directory of it",
    )  # fmt: skip
    assert found(lock_of(line, realised=made), "tool==1.0")[0] == "unexplained"
