"""Locks that do not come out as they say, wheels that harm, and programs that fail in the sandbox."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.model import Lock, RealisedOutputs, seal, unseal
from reprobuild.lock.python import Building, Interpreter, Sdist, Source
from reprobuild.lock.system import Artefact, BaseImage, EnvVar
from reprobuild.realise.base import _key
from reprobuild.realise.bytecode import bytecode_key, compile_wheels, compiled_key
from reprobuild.realise.normalise import rewrite
from reprobuild.realise.realise import realise
from reprobuild.realise.runtime import PLACE
from reprobuild.realise.wheels import build_wheel, wheel_key
from reprobuild.recipe.payload import pack_runtime, payload_files
from tests.image.made import EPOCH, Made, file, make_tar


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root that holds no more than `true`, `false` and what the sandbox needs to start them."""
    root = tmp_path / "root"
    programs = [Path(f"/usr/bin/{name}") for name in ("env", "true", "false")]
    needed = subprocess.run(["ldd", *map(str, programs)], check=True, capture_output=True, text=True).stdout
    for path in {*programs, *(Path(name) for name in re.findall(r"(/\S+) \(0x", needed))}:
        place = root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return root


def python(program: str) -> Interpreter:
    """Return an interpreter that does not do its work."""
    return Interpreter(version="3.11.2", executable=program, evidence="made")


def by(made: Made, program: str) -> Lock:
    """Return a lock whose interpreter does not do its work."""
    return made.lock(interpreter=python(program))


def remembered(made: Made, **realised: str) -> Lock:
    """Return a sealed lock whose base and runtime are in the store, so that nothing has to be run for it."""
    lock = made.unsealed_lock()
    made.store.remember(_key(lock.base, EPOCH), {"tree": made.base})
    runtime = pack_runtime(made.store)
    made.store.remember(compiled_key(runtime, PLACE, lock.base, lock.interpreter), runtime)
    sealed = RealisedOutputs(**{"base": made.base, "runtime": runtime, **realised}, wheels=(), bytecode=())
    return seal(lock, sealed)


def test_what_the_store_has_is_taken_as_it_is(made: Made) -> None:
    lock = remembered(made)
    assert realise(unseal(lock), made.store) == lock


def test_the_runtime_package_of_another_version(made: Made) -> None:
    with pytest.raises(BuildError, match="sealed by another version of reprobuild") as caught:
        realise(remembered(made, runtime="1" * 64), made.store)
    assert caught.value.hint == "use that version, or make a new lock"


def test_a_base_that_comes_out_otherwise(made: Made) -> None:
    words = f"the base came out as {made.base[:12]}, and the lock says 111111111111"
    with pytest.raises(BuildError, match=words) as caught:
        realise(remembered(made, base="1" * 64), made.store)
    assert caught.value.hint == (
        "another kernel or another reprobuild made it; take the first one's store, or make a new lock"
    )


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "pkg/../../evil.py"])
def test_a_wheel_that_leads_out(made: Made, root: Path, name: str) -> None:
    wheel = made.wheel("pkg", {name: b""})
    with pytest.raises(
        BuildError, match=f"the wheel pkg-1.0-py3-none-any.whl holds the unsafe path {name!r}"
    ) as caught:
        compile_wheels([wheel], made.lock().base, python("/usr/bin/true"), Root(folder=root), made.store)
    assert caught.value.hint == HOSTILE


def test_a_compiler_that_fails(made: Made, root: Path) -> None:
    wheel = made.wheel("pkg", {"pkg.py": b""})
    with pytest.raises(BuildError, match="could not compile the modules of the environment") as caught:
        compile_wheels([wheel], made.lock().base, python("/usr/bin/false"), Root(folder=root), made.store)
    assert caught.value.hint == "is the disk full?"


def test_a_backend_that_fails(made: Made, root: Path) -> None:
    source = made.source("proj", [file("a.py", b"")])
    with pytest.raises(BuildError, match="could not build proj") as caught:
        build_wheel(source, [], by(made, "/usr/bin/false"), Root(folder=root), made.store)
    assert caught.value.hint == ("build proj by hand with its backend; there is no network while it is built")


def test_a_backend_that_leaves_no_wheel(made: Made, root: Path) -> None:
    source = made.source("proj", [file("a.py", b"")])
    with pytest.raises(BuildError, match="the backend of proj left no wheel") as caught:
        build_wheel(source, [], by(made, "/usr/bin/true"), Root(folder=root), made.store)
    assert caught.value.hint == "build it by hand with `python -m build --wheel`"


ODD = "a package or source that does so is hostile, or broken; leave it out"


@pytest.fixture
def shell(root: Path) -> Path:
    """The root with a shell and a few programs, that do what a hostile interpreter would."""
    programs = [
        Path(shutil.which(name) or "")
        for name in ("sh", "ln", "mkdir", "mkfifo", "rm", "cat", "tr", "truncate")
    ]
    needed = subprocess.run(["ldd", *map(str, programs)], check=True, capture_output=True, text=True).stdout
    for path in {*programs, *(Path(name) for name in re.findall(r"(/\S+) \(0x", needed))}:
        place = root / "usr/bin" / path.name if path in programs else root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return root


def program(root: Path, script: str) -> Interpreter:
    """Return an interpreter of the root that runs a script of the shell, whatever it is asked for."""
    place = root / "usr/bin/hostile"
    place.write_text(f"#!/usr/bin/sh\n{script}\n")
    place.chmod(0o755)
    return python("/usr/bin/hostile")


@pytest.mark.parametrize("script", ["ln -s {secret} {wheel}", "mkfifo {wheel}"])
def test_a_backend_that_leaves_a_link_or_a_pipe_for_its_wheel(
    made: Made, shell: Path, tmp_path: Path, script: str
) -> None:
    """It would be followed, made read-only and moved, or waited for, outside of the sandbox."""
    secret = tmp_path / "secret"
    secret.write_text("s")
    before = secret.stat().st_mode
    source, wheel = made.source("proj", [file("a.py", b"")]), "/mnt/out/a-1.0-py3-none-any.whl"
    hostile = program(shell, script.format(secret=secret, wheel=wheel))
    with pytest.raises(
        BuildError, match=r"the backend of proj left a-1\.0-py3-none-any\.whl as something"
    ) as err:
        build_wheel(source, [], made.lock(interpreter=hostile), Root(folder=shell), made.store)
    assert err.value.hint == ODD
    assert (secret.read_text(), secret.stat().st_mode) == ("s", before)
    assert not list((made.store.root / "tmp").iterdir())


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("ln -s {secret} /mnt/to/{wheel}/x.pyc", "left x.pyc as something else than a file"),
        ("rm -r /mnt/to/{wheel}; ln -s {folder} /mnt/to/{wheel}", "left a link in the place of a directory"),
    ],
)
def test_an_interpreter_that_leaves_links_for_bytecode(
    made: Made, shell: Path, tmp_path: Path, script: str, words: str
) -> None:
    secret = tmp_path / "secret.pyc"
    secret.write_text("s")
    wheel = made.wheel("pkg", {"pkg.py": b""})
    given = {"secret": secret, "folder": tmp_path, "wheel": wheel.file.sha256}
    with pytest.raises(BuildError, match=words) as err:
        compile_wheels(
            [wheel], made.lock().base, program(shell, script.format(**given)), Root(folder=shell), made.store
        )
    assert err.value.hint in (
        ODD, "the interpreter in the image is hostile, or broken; get its package from where it was published"
    )  # fmt: skip


def test_nothing_is_written_through_a_link_of_the_sandbox(made: Made, shell: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s")
    wheel = made.wheel("pkg", {"pkg.py": b""})
    hostile = program(shell, f"ln -s {secret} /mnt/to/{wheel.file.sha256}.tar")
    compile_wheels([wheel], made.lock().base, hostile, Root(folder=shell), made.store)
    assert secret.read_text() == "s"


def test_a_damaged_wheel_is_named_before_anything_is_compiled(made: Made, root: Path) -> None:
    content = b"no zip"
    wheel = made.wheel("pkg", {"pkg.py": b""})
    file_ = msgspec.structs.replace(wheel.file, sha256=made.store.add(content))
    wheel = msgspec.structs.replace(wheel, file=file_)
    source = made.source("p", [file("a.py", b"")])
    for use in (
        lambda: compile_wheels(
            [wheel], made.lock().base, python("/usr/bin/true"), Root(folder=root), made.store
        ),
        lambda: build_wheel(source, [wheel], by(made, "/usr/bin/true"), Root(folder=root), made.store),
    ):
        with pytest.raises(
            BuildError, match=r"the wheel pkg-1.0-py3-none-any.whl is not a zip archive"
        ) as caught:
            use()
        assert caught.value.hint == HOSTILE


def test_build_requirements_that_cannot_stand_together(made: Made, root: Path) -> None:
    needs = [made.wheel("one", {"a.py": b""}), made.wheel("two", {"a.py/b.py": b""})]
    source = made.source("p", [file("a.py", b"")])
    with pytest.raises(
        BuildError, match=r"two-1.0-py3-none-any.whl and another both write a.py/b.py"
    ) as caught:
        build_wheel(source, needs, by(made, "/usr/bin/true"), Root(folder=root), made.store)
    assert caught.value.hint == (
        "the projects that are needed to build cannot stand in one directory; mend the pyproject.toml"
    )


def test_a_runtime_package_that_is_none(made: Made) -> None:
    lock = remembered(made, runtime=made.store.add(b"no tar" * 200))
    with pytest.raises(BuildError, match="the runtime package of the lock is none") as caught:
        payload_files(lock, made.store)
    assert caught.value.hint == "seal the lock again: build from the unsealed one"


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (TarEntry(path="dev2/null", type="char", mode=0o666, device=(1, 3)), "holds /dev2/null, a device"),
        (TarEntry(path="run2/p", type="fifo", mode=0o666), "holds /run2/p, a pipe"),
        (TarEntry(path="a/../../b", type="directory", mode=0o755), "holds the unsafe path 'a/../../b'"),
        (TarEntry(path="usr/.wh.bin", type="directory", mode=0o755), "which engines read as a deletion"),
    ],
)
def test_a_tree_of_hostile_packages(tmp_path: Path, entry: TarEntry, words: str) -> None:
    found = tmp_path / "found.tar"
    found.write_bytes(make_tar([(entry, b"")]))
    with pytest.raises(BuildError, match=f"the tree that the packages made .*{words}") as caught:
        rewrite(found, tmp_path / "tree.tar", 0)
    assert caught.value.hint in (
        HOSTILE, "one of the packages makes it, which none of Debian's does; leave it out with `--drop NAME`"
    )  # fmt: skip
    found.write_bytes(b"no tar" * 200)
    with pytest.raises(BuildError, match="the tree that the packages made cannot be read") as caught:
        rewrite(found, tmp_path / "tree.tar", 0, "choose another image")
    assert caught.value.hint == "choose another image"


def test_the_rights_that_packages_set_stay(tmp_path: Path) -> None:
    """`sudo` and `su` are set-user-id: dpkg sets it, and the base keeps it."""
    found, tree = tmp_path / "found.tar", tmp_path / "tree.tar"
    found.write_bytes(make_tar([file("usr/bin/su", b"", 0o4755), file("usr/bin/chage", b"", 0o2755, gid=42)]))
    rewrite(found, tree, 0)
    with tree.open("rb") as stream:
        assert [oct(entry.mode) for entry in list_tar(stream)] == ["0o4755", "0o2755"]


def test_the_sizes_of_wheels_are_those_of_their_files_whatever_the_index_said(made: Made) -> None:
    made.wheel("pkg", {"pkg/__init__.py": b"x = 1\n"})
    lock = remembered(made)
    (wheel,) = lock.wheels
    made.store.remember(bytecode_key(wheel, lock.base, lock.interpreter), made.store.add(b"a tar"))
    real, sealed = made.store.blob(wheel.file.sha256).stat().st_size, []
    for size in (0, real, real + 1):
        file = msgspec.structs.replace(wheel.file, size=size)
        told = msgspec.structs.replace(unseal(lock), wheels=(msgspec.structs.replace(wheel, file=file),))
        sealed.append(realise(told, made.store))
    assert sealed[0] == sealed[1] == sealed[2]
    assert sealed[0].wheels[0].file.size == real
    assert realise(sealed[0], made.store) == sealed[0]


def answering(shell: Path, *requires: str) -> Interpreter:
    """Return a Python 3.9 whose back end asks for what it needs, and fails."""
    answer = json.dumps({"requires": requires})
    hostile = program(shell, f"cat > /mnt/out/answer.json <<'END'\n{answer}\nEND\nexit 1")
    return msgspec.structs.replace(hostile, version="3.9.1")


def test_what_a_back_end_asks_for_is_judged_by_the_python_that_builds(made: Made, shell: Path) -> None:
    source = made.source("proj", [file("a.py", b"")])
    asks = (
        "old; python_version < '3.10'", "new; python_version >= '3.10'", "own; implementation_version == '3.9.1'",
        "kernel; platform_release != ''", "arm; platform_machine == 'aarch64'",
    )  # fmt: skip
    lock = made.lock(interpreter=answering(shell, *asks), platform="linux/arm64")
    words = (
        'the back end of proj asks for old; python_version < "3.10", own; implementation_version == "3.9.1", '
        'arm; platform_machine == "aarch64", which its files did not tell'
    )
    with pytest.raises(BuildError, match=re.escape(words)):
        build_wheel(source, [], lock, Root(folder=shell), made.store)


def test_what_nobody_can_judge_is_not_asked_for(made: Made, shell: Path) -> None:
    """The back end has come to its own end with it, which is what the error tells."""
    source, deep = made.source("proj", [file("a.py", b"")]), 5000
    asks = ("x; os_name ~= 'posix'", f"x; {'(' * deep}os_name == 'posix'{')' * deep}", "no requirement")
    lock = made.lock(interpreter=answering(shell, *asks))
    with pytest.raises(BuildError, match="could not build proj"):
        build_wheel(source, [], lock, Root(folder=shell), made.store)


@pytest.mark.parametrize(
    "script",
    [
        "truncate --size=60G /mnt/out/answer.json",
        "printf '{\"x\":' > /mnt/out/answer.json; printf '%0500000d' 0 | tr 0 '[' >> /mnt/out/answer.json",
        'printf \'{"requires":["\\377"]}\' > /mnt/out/answer.json',
    ],
)
def test_an_answer_that_is_none(made: Made, shell: Path, script: str) -> None:
    """One with a hole of many gigabytes is not read into memory; a larger one cannot be made."""
    source = made.source("proj", [file("a.py", b"")])
    lock = made.lock(interpreter=program(shell, script))
    with pytest.raises(BuildError, match="the backend of proj left no wheel"):
        build_wheel(source, [], lock, Root(folder=shell), made.store)


def test_a_wheel_is_recalled_only_for_all_that_it_was_made_of(made: Made) -> None:
    """What a build sees: its files and their place, the variables of the image that it runs in, what it must become."""
    replace = msgspec.structs.replace
    archive = Artefact(filename="p-1.0.tar.gz", sha256="1" * 64, size=1)
    sdist, source = Sdist(name="p", version="1.0", file=archive), made.source("p", [])
    lock = made.lock()
    image = BaseImage(reference="x", digest="sha256:" + "2" * 64, config=archive, layers=())
    shown = replace(image, environment=(EnvVar(name="CFLAGS", value="-O3"),))
    based, told = (replace(lock, base=replace(lock.base, image=one)) for one in (image, shown))
    devel = replace(lock, build_base=told.base)
    cases: list[tuple[Sdist | Source, Lock]] = [
        (sdist, lock), (sdist, based), (sdist, told), (replace(sdist, version="2.0"), lock),
        (replace(sdist, version=""), lock),
        (replace(sdist, subdirectory="py"), lock), (replace(sdist, file=replace(archive, filename="p.zip")), lock),
        (replace(sdist, name="q"), lock), (replace(sdist, building=Building(compiles=True)), lock),
        (replace(sdist, building=Building(compiles=True)), devel), (source, lock), (replace(source, name="q"), lock),
    ]  # fmt: skip
    assert len({wheel_key(one, [], of, "") for one, of in cases}) == len(cases)
