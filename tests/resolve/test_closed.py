"""A list that lacks what its distributions require is no freeze, and that is said before it becomes an image."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import reprobuild
from reprobuild.errors import LockError
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Wheel
from reprobuild.lock.requirements import find_missing_names
from reprobuild.lock.system import Artefact
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.completeness import rule_list
from reprobuild.snapshot.capture_model import CaptureFacts
from reprobuild.snapshot.import_facts import PARTIAL_FORMATS, ImportFacts
from reprobuild.snapshot.model import Snapshot, SourceLocation, Variable
from reprobuild.snapshot.parsers import pip_freeze
from tests.verify.samples import make_lock

IMPORTERS = Path(reprobuild.__file__).parent / "snapshot" / "importers"
NEEDS = ("contourpy", "cycler", "fonttools", "kiwisolver", "numpy", "pillow")


def wheel(name: str, *requires: str) -> Wheel:
    file = Artefact(filename=f"{name}-1.0-py3-none-any.whl", sha256="0" * 64, size=1)
    return Wheel(name=name, version="1.0", role="environment", file=file, requires=requires)


def made(*wheels: Wheel) -> tuple[Snapshot, Lock]:
    """Return a snapshot whose freeze pins these wheels, and a lock that has them alone."""
    text = "".join(f"{one.name}==1.0\n" for one in wheels)
    lines, _ = pip_freeze.parse(text.encode())
    lock = msgspec.structs.replace(make_lock(), wheels=wheels, sources=(), sdists=(), rulings=())
    variable = Variable(name="LANG", value="C", place=SourceLocation(file="env.txt", line=1))
    return Snapshot(digest="0" * 64, requirements=lines, variables=(variable,)), lock


def test_a_list_of_wishes_is_refused_and_may_be_accepted() -> None:
    (ruling,) = rule_list(*made(wheel("matplotlib", *NEEDS)))
    assert (ruling.file, ruling.outcome, ruling.kind) == ("requirements.txt", "unresolved", "no-freeze")
    assert ruling.reason == (
        "it is no freeze: its 1 distributions require 6 that it does not list, and that the image will not have "
        "(contourpy, cycler, fonttools, kiwisolver, numpy and 1 more); write all of the environment that ran with "
        "`pip freeze > requirements.txt`; if it is gone, `--as-of DATE` chooses the versions of that day"
    )
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling], [])
    assert caught.value.hint == "to go on without exactly these: --accept no-freeze"
    assert accept_deviations([ruling], ["no-freeze"])[0].accepted


def test_a_freeze_has_all_that_it_requires() -> None:
    whole = (wheel("matplotlib", *NEEDS), *(wheel(name) for name in NEEDS))
    assert rule_list(*made(*whole)) == ()


def test_a_few_gaps_are_conflicts_of_a_freeze() -> None:
    few = wheel("matplotlib", *NEEDS[:4])
    assert find_missing_names(made(few)[1]) == set(NEEDS[:4])
    assert rule_list(*made(few)) == ()
    large = (wheel("matplotlib", *NEEDS), *(wheel(f"other{number}") for number in range(40)))
    assert rule_list(*made(*large)) == ()


def test_what_pip_leaves_out_and_what_was_left_out_is_no_gap() -> None:
    snapshot, lock = made(wheel("matplotlib", *NEEDS, "setuptools", "pip", "wheel"))
    lines, _ = pip_freeze.parse("\n".join(["matplotlib==1.0", *NEEDS[:2]]).encode())
    assert rule_list(msgspec.structs.replace(snapshot, requirements=lines), lock) == ()
    assert not {"setuptools", "pip", "wheel"} & find_missing_names(lock)


def test_a_base_image_may_bring_what_the_list_lacks() -> None:
    snapshot, lock = made(wheel("matplotlib", *NEEDS))
    interpreter = msgspec.structs.replace(lock.interpreter, shared=True)
    assert rule_list(snapshot, msgspec.structs.replace(lock, interpreter=interpreter)) == ()


def test_a_list_that_capture_wrote_is_a_freeze() -> None:
    snapshot, lock = made(wheel("matplotlib", *NEEDS))
    document = CaptureFacts(repositories=())
    assert rule_list(msgspec.structs.replace(snapshot, captured=document), lock) == ()


@pytest.mark.parametrize(("started", "day"), [("", "DATE"), ("2024-01-15T12:00:00Z", "2024-01-15T12:00:00Z")])
def test_an_imported_list_lacks_nothing(started: str, day: str) -> None:
    """One requirement that is missing is enough to ask, and the first answer adds it."""
    snapshot, lock = made(wheel("markdown-it-py", "mdurl"))
    facts = ImportFacts(format="a file (requirements.txt)", started=started, started_from="a line")
    (ruling,) = rule_list(msgspec.structs.replace(snapshot, imported=facts), lock)
    add = f"to add them, with the versions of the day of the run: --as-of {day}"
    assert (ruling.kind, ruling.outcome) == ("no-freeze", "unresolved")
    assert ruling.reason == f"the list is not complete: mdurl is required and missing; {add}"
    with pytest.raises(LockError) as caught:
        accept_deviations([ruling], [])
    assert caught.value.hint.splitlines() == [add, "to go on without exactly these: --accept no-freeze"]
    assert accept_deviations([ruling], ["no-freeze"])[0].accepted


def test_a_list_alone_in_a_directory_lacks_nothing() -> None:
    """As a file, the same list is an import."""
    snapshot, lock = made(wheel("scikit-learn", "scipy"))
    assert rule_list(snapshot, lock) == ()
    (ruling,) = rule_list(msgspec.structs.replace(snapshot, variables=()), lock)
    add = "to add them, with the versions of the day of the run: --as-of DATE"
    assert ruling.reason == f"the list is not complete: scipy is required and missing; {add}"


@pytest.mark.parametrize("name", ["uv.lock", "W&B run"])
def test_a_lock_file_or_the_freeze_of_a_run_may_lack_a_few(name: str) -> None:
    snapshot, lock = made(wheel("matplotlib", *NEEDS[:4]))
    assert rule_list(msgspec.structs.replace(snapshot, imported=ImportFacts(format=name)), lock) == ()


def test_formats_of_lists_that_may_be_short_are_formats() -> None:
    sources = "".join(path.read_text() for path in IMPORTERS.glob("*.py"))
    drafts = re.findall(r'"([^"]+)"', "".join(re.findall(r"Draft\(.*", sources)))
    files = {f"a file ({name})" for name in ("requirements.txt", "environment.yml")}
    assert PARTIAL_FORMATS - files <= set(drafts)
