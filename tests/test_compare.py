"""Differences of locks, input by input: what `diff` explains images with."""

from __future__ import annotations

import msgspec
import pytest

from reprobuild.lock.diff import ORDER, compare_locks
from reprobuild.lock.model import Bytecode, Lock, RealisedOutputs
from reprobuild.lock.system import BaseImage, EnvVar, ImagePackage
from tests.verify.samples import SHA, artefact, deb, make_lock, source, wheel


def test_a_lock_and_itself() -> None:
    assert compare_locks(make_lock(), make_lock()) == []


@pytest.mark.parametrize(
    ("fields", "kind", "name"),
    [
        (
            {"environment": (EnvVar(name="A", value="2"), EnvVar(name="LINES", value="one\ntwo"))},
            "environment",
            "A",
        ),
        ({"wheels": (wheel("torch", "1.1"),)}, "python", "torch"),
        ({"wheels": (wheel("torch", file=artefact("torch-1.0-other.whl")),)}, "python", "torch"),
        ({"wheels": (wheel("torch"), wheel("hatch", role="build"))}, "python", "hatch (build)"),
        ({"sources": (source("mylib", "8" * 40),)}, "source", "mylib"),
        ({"sources": ()}, "source", "mylib"),
        ({"seed": 3}, "other", "seed"),
        ({"epoch": 3}, "other", "epoch"),
        ({"workdir": "/"}, "other", "workdir"),
        ({"profile": "x"}, "other", "profile"),
        ({"platform": "linux/arm64"}, "other", "platform"),
        ({"snapshot": "6" * 64}, "other", "snapshot"),
    ],
)
def test_one_field_of_a_lock(fields: dict[str, object], kind: str, name: str) -> None:
    (change,) = compare_locks(make_lock(), make_lock(**fields))
    assert (change.kind, change.name) == (kind, name)
    (back,) = compare_locks(make_lock(**fields), make_lock())
    assert (back.one, back.other) == (change.other, change.one)


def test_a_package_of_a_foreign_architecture() -> None:
    def lock(version: str) -> Lock:
        foreign = msgspec.structs.replace(deb("bash", version), architecture="i386")
        base = make_lock().base
        return make_lock(base=msgspec.structs.replace(base, packages=(*base.packages, foreign)))

    (change,) = compare_locks(lock("1"), lock("2"))
    assert (change.kind, change.name) == ("system", "bash:i386")


def test_interpreter_packages_and_what_was_realised() -> None:
    one = make_lock(realised=RealisedOutputs(base="0" * 64, runtime="2" * 64, wheels=(), bytecode=()))
    realised = RealisedOutputs(
        base="1" * 64, runtime="2" * 64, wheels=(wheel("mylib"),),
        bytecode=(Bytecode(artefact=SHA, tar="3" * 64), Bytecode(artefact="f" * 64, tar="4" * 64)),
    )  # fmt: skip
    other = make_lock(
        interpreter=msgspec.structs.replace(one.interpreter, version="3.12.1"),
        base=msgspec.structs.replace(one.base, packages=(deb("bash", "2"), deb("zsh"))),
        realised=realised,
    )
    found = [(change.kind, change.name) for change in compare_locks(one, other)]
    assert found[0] == ("interpreter", "python")
    assert found[1:4] == [("system", "bash"), ("system", "dpkg"), ("system", "zsh")]
    assert {kind for kind, _ in found[4:]} == {"realised"}
    assert ("realised", "wheel of mylib") in found
    assert ("realised", "base tree") in found
    kinds = [kind for kind, _ in found]
    assert kinds == sorted(kinds, key=ORDER.index)


def test_images_of_registries() -> None:
    def on(digest: str, version: str) -> Lock:
        image = BaseImage(
            reference="registry.test/x:1", digest=digest, config=artefact("config"), layers=(),
            packages=(ImagePackage(name="coreutils", version=version, architecture="amd64"),),
        )  # fmt: skip
        return make_lock(base=msgspec.structs.replace(make_lock().base, image=image))

    one, other = on("sha256:" + "a" * 64, "1"), on("sha256:" + "b" * 64, "2")
    found = [(change.kind, change.name, change.one) for change in compare_locks(one, other)]
    assert found == [("system", "coreutils", "1"), ("other", "base image", "sha256:" + "a" * 64)]
    assert [change.name for change in compare_locks(make_lock(), one)] == ["coreutils", "base image"]
