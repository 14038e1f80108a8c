"""An interpreter of its own in the image: unpacked, compiled by itself, the same in every recipe."""

from __future__ import annotations

import ast
import gzip
import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import msgspec
import pytest

from reprobuild.builders.native import build_image
from reprobuild.compare.images.attribute import BASE, INTERPRETER, TREE, Origins, candidate_inputs
from reprobuild.errors import BuildError
from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.infra.untrusted.elf import read_elf, read_search_path
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.diff import compare_locks
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Interpreter
from reprobuild.realise.base import _key
from reprobuild.realise.interpreter import finish_tree, realise_interpreter
from reprobuild.realise.realise import is_realised, realise
from reprobuild.realise.standalone import unpack_standalone
from reprobuild.realise.uninstall import remove_replaced
from reprobuild.recipe.payload import pack_runtime
from reprobuild.recipe.render import render_recipe
from reprobuild_portable.hashing import hash_file
from tests.image.made import EPOCH, Made, file, folder, make_tar, symlink
from tests.interpreters import MINOR, PROGRAM, SYSCONFIG, VERSION, fake_build, make_build, small_root
from tests.recipe.test_install import install, native, seen
from tests.untrusted.elves import elf

ONLY = ("encodings", "collections", "importlib", "json", "re", "lib-dynload")
HOME = "opt/python"
ODD = "take a build of the kind install_only, of this version of Python"
SITE = f"{HOME}/lib/python{MINOR}/site-packages"
CONFIG = f"lib/python{MINOR}/_sysconfigdata__linux_x86_64-linux-gnu.py"
MORE = {
    f"python/lib/python{MINOR}/site-packages/one/__init__.py": b"ONE = 1\n",
    f"python/{CONFIG}": SYSCONFIG,
    "python/lib/pkgconfig/python3.pc": b"prefix=/install\nlibdir=${exec_prefix}/lib\n",
}


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    old = {f"python/lib/python{MINOR}/__pycache__/os.cpython-{MINOR.replace('.', '')}.pyc": b"shipped"}
    return make_build(tmp_path_factory.mktemp("build") / "python.tar.gz", more={**MORE, **old}, only=ONLY)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_root(tmp_path_factory.mktemp("root"))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "made")


def standalone(made: Made, build: Path) -> Interpreter:
    executable = f"/{HOME}/bin/python{MINOR}"
    return Interpreter(
        version=VERSION, executable=executable, evidence="made", kind="standalone", file=made.keep(build)
    )


def unsealed(made: Made, build: Path, root: Path) -> Lock:
    """Return a lock with an interpreter of its own, whose base is in the store."""
    lock = made.unsealed_lock(interpreter=standalone(made, build))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(root, "")
    made.store.remember(_key(lock.base, lock.epoch), {"tree": made.store.add(packed.getvalue())})
    return lock


def listed(made: Made, tar: str) -> dict[str, TarEntry]:
    with made.store.blob(tar).open("rb") as stream:
        return {entry.path: entry for entry in list_tar(stream)}


def test_the_tree_is_the_archive_with_bytecode_of_its_own(made: Made, build: Path, root: Path) -> None:
    lock = unsealed(made, build, root)
    tar = realise_interpreter(lock, lambda: Root(folder=root), made.store)
    tree = listed(made, tar)
    assert tree[f"{HOME}/bin/python3"].target == f"python{MINOR}"
    assert tree[f"{HOME}/bin/python{MINOR}"].mode == 0o755
    assert {(entry.uid, entry.gid) for entry in tree.values()} == {(0, 0)}
    assert {entry.mode for entry in tree.values() if entry.type == "file"} == {0o644, 0o755}
    tag = f"cpython-{MINOR.replace('.', '')}.pyc"
    assert f"{SITE}/one/__pycache__/__init__.{tag}" in tree
    assert tree[f"{HOME}/lib/python{MINOR}/__pycache__/os.{tag}"].size > 10_000  # not what was shipped
    modules = [path for path in tree if path.endswith(".py")]
    code = [path for path in tree if path.endswith(".pyc")]
    assert len(code) == len(modules) > 200
    with tarfile.open(made.store.blob(tar)) as opened:
        assert {info.mtime for info in opened} == {lock.epoch}


def test_it_knows_its_place_and_compilers_that_are_there(made: Made, build: Path, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / HOME).mkdir(parents=True)
    unpack_standalone(standalone(made, build), made.store, tree)
    said = (tree / HOME / CONFIG).read_text()
    variables = ast.literal_eval(said.partition(" = ")[2])
    assert variables == {
        "AR": "ar", "CC": "cc -pthread", "CFLAGS": "-O3 -I/opt/python/include -I/opt/installed", "CXX": "c++ -pthread",
        "INCLUDEPY": "/opt/python/include/python3.11", "LDSHARED": "cc -pthread -shared", "LIBDIR": "/opt/python/lib",
        "LINKCC": "", "prefix": "/opt/python",
    }  # fmt: skip
    assert (tree / HOME / "lib/pkgconfig/python3.pc").read_text().startswith("prefix=/opt/python\n")


CAPTURED = {
    f"python/lib/python{MINOR}/_sysconfigdata__linux_x86_64-linux-gnu.py": b"""build_time_vars = {'AR': '/tools/ar',
 'CC': 'gcc -pthread',
 'CXX': '/apps/gcc/bin/g++ -pthread',
 'LDSHARED': 'gcc -shared -L/sw/python/3.11.7/lib -Wl,-rpath,/sw/python/3.11.7/lib',
 'prefix': '/sw/python/3.11.7'}
""",
    f"python/lib/python{MINOR}/config-x/Makefile": b"prefix=/sw/python/3.11.7\n",
    f"python/bin/python{MINOR}-config": f"#!/sw/python/3.11.7/bin/python{MINOR}\n".encode(),
    "python/lib/pkgconfig/python3.pc": b"prefix=/sw/python/3.11.7\nother=/install\n",
    "python/lib/libmine.so.1": elf(["libz.so.1"], search="/sw/python/3.11.7/lib:/usr/lib"),
    f"python/lib/python{MINOR}/lib-dynload/_x.so": elf(["libmine.so.1"], old_search="/sw/python/3.11.7/lib"),
    "python/lib/libshort.so": elf(search="/other/lib"),
}


def test_a_captured_one_is_told_its_new_place(made: Made, tmp_path: Path) -> None:
    path, tree = tmp_path / "python.tar.gz", tmp_path / "tree"
    members = [
        file(f"python/bin/python{MINOR}", b"", 0o755),
        *(file(name, text) for name, text in CAPTURED.items()),
    ]
    path.write_bytes(gzip.compress(make_tar(members)))
    (tree / HOME).mkdir(parents=True)
    interpreter = msgspec.structs.replace(standalone(made, path), kind="captured")
    unpack_standalone(interpreter, made.store, tree)
    place = tree / HOME
    assert ast.literal_eval((place / CONFIG).read_text().partition(" = ")[2]) == {
        "AR": "ar", "CC": "gcc -pthread", "CXX": "c++ -pthread", "prefix": "/opt/python",
        "LDSHARED": "gcc -shared -L/opt/python/lib -Wl,-rpath,/opt/python/lib",
    }  # fmt: skip
    assert (place / f"lib/python{MINOR}/config-x/Makefile").read_text() == "prefix=/opt/python\n"
    assert (place / f"bin/python{MINOR}-config").read_text() == f"#!/opt/python/bin/python{MINOR}\n"
    assert (place / "lib/pkgconfig/python3.pc").read_text() == "prefix=/opt/python\nother=/install\n"
    for name, search in {
        "lib/libmine.so.1": b"/opt/python/lib:/usr/lib", f"lib/python{MINOR}/lib-dynload/_x.so": b"/opt/python/lib",
        "lib/libshort.so": b"/other/lib",
    }.items():  # fmt: skip
        before, after = CAPTURED[f"python/{name}"], (place / name).read_bytes()
        found = read_search_path(io.BytesIO(after))
        assert found is not None
        assert found.text == search
        assert len(after) == len(before)
        assert read_elf(io.BytesIO(after)) == read_elf(io.BytesIO(before))


def test_a_captured_program_without_a_search_path_gets_one(made: Made, tmp_path: Path) -> None:
    """As one has that a site's module sets LD_LIBRARY_PATH for; one without libraries of its own stays as it is."""
    needed = read_elf(io.BytesIO(PROGRAM.read_bytes()))
    assert needed is not None
    for own, search in ((True, b"/opt/python/lib"), (False, None)):
        path, tree = tmp_path / f"{own}.tar.gz", tmp_path / f"tree-{own}"
        members = [file(f"python/bin/python{MINOR}", PROGRAM.read_bytes(), 0o755)]
        members += [file(f"python/lib/{needed.needed[0]}", b"")] if own else []
        path.write_bytes(gzip.compress(make_tar(members)))
        (tree / HOME).mkdir(parents=True)
        unpack_standalone(msgspec.structs.replace(standalone(made, path), kind="captured"), made.store, tree)
        program = tree / HOME / "bin" / f"python{MINOR}"
        found = read_search_path(io.BytesIO(program.read_bytes()))
        assert (found and found.text) == search
        assert program.stat().st_mode & 0o777 == 0o755


def test_a_link_of_a_captured_one_moves_nothing_outside(made: Made, tmp_path: Path) -> None:
    outside, tree, path = tmp_path / "outside", tmp_path / "tree", tmp_path / "python.tar.gz"
    library = elf(search="/sw/python/3.11.7/lib")
    outside.write_bytes(library)
    members = [
        file(f"python/bin/python{MINOR}", b"", 0o755), symlink("python/lib/libx.so", str(outside)),
        *(file(name, text) for name, text in CAPTURED.items() if "sysconfig" in name),
    ]  # fmt: skip
    path.write_bytes(gzip.compress(make_tar(members)))
    (tree / HOME).mkdir(parents=True)
    unpack_standalone(msgspec.structs.replace(standalone(made, path), kind="captured"), made.store, tree)
    assert outside.read_bytes() == library


def test_the_machines_own_paths_change_nothing(made: Made, build: Path, root: Path, tmp_path: Path) -> None:
    """A store behind a link, as where /tmp or a home is one, gives the same tree."""
    first = realise_interpreter(unsealed(made, build, root), lambda: Root(folder=root), made.store)
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to("disk")
    linked = Made(tmp_path / "link" / "made")
    second = realise_interpreter(unsealed(linked, build, root), lambda: Root(folder=root), linked.store)
    assert second == first


def test_what_links_of_an_archive_lead_to_is_not_told_its_place(made: Made, tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    outside.mkdir()
    (outside / "x.pc").write_text("prefix=/install\n")
    path = tmp_path / "python.tar.gz"
    members = [file(f"python/bin/python{MINOR}", b"", 0o755), symlink("python/lib/pkgconfig", str(outside))]
    path.write_bytes(gzip.compress(make_tar(members)))
    (tree / HOME).mkdir(parents=True)
    unpack_standalone(standalone(made, path), made.store, tree)
    assert (outside / "x.pc").read_text() == "prefix=/install\n"


def test_it_comes_out_the_same_and_is_made_once(made: Made, build: Path, root: Path, tmp_path: Path) -> None:
    lock = unsealed(made, build, root)
    first = realise_interpreter(lock, lambda: Root(folder=root), made.store)
    said: list[str] = []
    assert realise_interpreter(lock, lambda: Root(folder=root), made.store, said.append) == first
    assert said == []
    other = Made(tmp_path / "other")
    again = realise_interpreter(
        unsealed(other, build, root), lambda: Root(folder=root), other.store, said.append
    )
    assert again == first
    assert said == [f"unpacking Python {VERSION}, and compiling its modules"]


def test_a_base_that_lacks_its_libraries(made: Made, build: Path, root: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(root, bare)
    for path in bare.rglob("libexpat.so*"):
        path.unlink()
    with pytest.raises(BuildError, match="error while loading shared libraries: libexpat") as caught:
        realise_interpreter(unsealed(made, build, root), lambda: Root(folder=bare), made.store)
    assert caught.value.hint == (
        "the base lacks what this Python needs: take another base with `--base`, or another Python with `--python`"
    )


def test_what_is_made_depends_on_the_tree(made: Made, build: Path, root: Path) -> None:
    """Bytecode, and the whole realisation, by an interpreter that the base does not have."""
    made.wheel("two", {"two.py": b"TWO = 2\n"})
    lock = unsealed(made, build, root)
    assert not is_realised(lock, made.store)
    sealed = realise(lock, made.store)
    assert sealed.realised.interpreter
    assert is_realised(lock, made.store)
    assert is_realised(sealed, made.store)
    (code,) = sealed.realised.bytecode
    assert f"opt/env/lib/python{MINOR}/site-packages/__pycache__/two" in str(listed(made, code.tar))
    changed = make_build(made.root / "other.tar.gz", more={**MORE, "python/NEW": b""}, only=ONLY)
    assert not is_realised(msgspec.structs.replace(lock, interpreter=standalone(made, changed)), made.store)
    made.store.blob(sealed.realised.interpreter).unlink()
    assert not is_realised(sealed, made.store)


def test_another_tree_than_the_sealed_one_is_an_error(made: Made, build: Path, root: Path) -> None:
    sealed = realise(unsealed(made, build, root), made.store)
    wrong = msgspec.structs.replace(sealed.realised, interpreter="f" * 64)
    with pytest.raises(BuildError, match="the tree of the interpreter came out as") as caught:
        realise(msgspec.structs.replace(sealed, realised=wrong), made.store)
    assert "another reprobuild made it" in caught.value.hint


def test_what_differs_is_told_by_its_input(made: Made, build: Path) -> None:
    """Files of the tree come from the interpreter; two builds of one version are two interpreters."""
    lock = made.lock(interpreter=standalone(made, build))
    origins = Origins({}, {}, {}, lock)
    assert candidate_inputs(f"{HOME}/lib/python{MINOR}/os.py", origins) == [INTERPRETER, TREE]
    assert candidate_inputs("usr/bin/cat", origins) == [BASE]
    other = made.lock(interpreter=standalone(made, fake_build(made.root / "python.tar.gz")))
    (change,) = compare_locks(lock, other)
    assert (change.kind, change.name) == ("interpreter", "python")
    assert change.one != change.other


def conda_tree(*more: tuple[TarEntry, bytes]) -> bytes:
    """Return what conda's packages could be, linked into the prefix."""
    return make_tar(
        [
            folder("opt"),
            folder("opt/env"),
            folder("opt/env/bin"),
            file(f"opt/env/bin/python{MINOR}", b"ELF", 0o755),
            symlink("opt/env/bin/python", f"python{MINOR}"),
            file("opt/env/conda-meta/history", b""),
            file(f"{CONDA_SITE}/shared/__init__.py", b"same", 0o755),
            *more,
        ]
    )


CONDA_SITE = f"opt/env/lib/python{MINOR}/site-packages"


def over_conda(made: Made, *more: tuple[TarEntry, bytes]) -> Lock:
    python = Interpreter(
        version=VERSION, executable=f"/opt/env/bin/python{MINOR}", evidence="made", kind="conda"
    )
    lock = made.lock(interpreter=python)
    tree, runtime = made.store.add(conda_tree(*more)), pack_runtime(made.store)
    realised = msgspec.structs.replace(lock.realised, interpreter=tree, runtime=runtime)
    return msgspec.structs.replace(lock, realised=realised)


def unpacked(made: Made, lock: Lock, root: Path) -> Path:
    """Return a root directory with the interpreter's tree, as `ADD` leaves it."""
    root.mkdir()
    subprocess.run(["tar", "-xf", made.store.blob(lock.realised.interpreter), "-C", root], check=True)
    return root


def test_wheels_go_on_top_of_conda_in_every_recipe(made: Made, tmp_path: Path) -> None:
    """No virtual environment is made over conda's, and what is there already with the same content stays."""
    made.wheel("one", {"shared/__init__.py": b"same", "one.py": b"1\n"})
    lock = over_conda(made)
    place = unpacked(made, lock, tmp_path / "root")
    done = install(made, lock, place)
    assert done.returncode == 0, done.stderr
    found = seen(place)
    assert found == native(made, lock)
    assert "opt/env/pyvenv.cfg" not in found
    assert found["opt/env/bin/python"][2] == f"python{MINOR}"
    assert found[f"{CONDA_SITE}/shared/__init__.py"][1] == 0o755
    assert f"{CONDA_SITE}/one-1.0.dist-info/RECORD" in found
    (recipe,) = (made.root / "out/context").glob("interpreter-*.tar")
    assert hash_file(recipe) == lock.realised.interpreter


def test_a_wheel_that_changes_a_file_of_conda_is_an_error_in_every_recipe(made: Made, tmp_path: Path) -> None:
    made.wheel("one", {"shared/__init__.py": b"other"})
    lock = over_conda(made)
    done = install(made, lock, unpacked(made, lock, tmp_path / "root"))
    assert done.returncode == 1
    assert f"/{CONDA_SITE}/shared/__init__.py is there already, with different content" in done.stderr
    with pytest.raises(BuildError, match="both write") as caught:
        build_image(lock, made.store, tmp_path, files={}, reference="x")
    assert "leave one out with `--drop NAME`" in caught.value.hint


def test_a_standalone_interpreter_has_a_layer_of_its_own(made: Made, tmp_path: Path) -> None:
    made.wheel("one", {"one.py": b"1\n"})
    executable = f"/{HOME}/bin/python{MINOR}"
    python = Interpreter(version=VERSION, executable=executable, evidence="made", kind="standalone")
    lock = made.lock(interpreter=python)
    tree = made.store.add(make_tar([folder(HOME), file(executable[1:], b"ELF", 0o755)]))
    realised = msgspec.structs.replace(lock.realised, interpreter=tree, runtime=pack_runtime(made.store))
    lock = msgspec.structs.replace(lock, realised=realised)
    place = unpacked(made, lock, tmp_path / "root")
    assert install(made, lock, place).returncode == 0
    assert seen(place) == native(made, lock)
    assert seen(place)["opt/env/bin/python"][2] == executable
    assert f"home = /{HOME}/bin\n" in (place / "opt/env/pyvenv.cfg").read_text()
    texts = render_recipe(lock)
    assert f"ADD interpreter-{tree[:12]}.tar /\n" in texts["Dockerfile"]
    assert f"--file /mnt/interpreter-{tree[:12]}.tar " in texts["Apptainer.def"]


def test_distributions_that_wheels_replace_are_removed_whole(tmp_path: Path) -> None:
    """As pip uninstalls them: by RECORD, with their scripts; and nothing outside, whatever RECORD says."""
    library = f"lib/python{MINOR}/site-packages"
    outside = tmp_path / "outside.txt"
    outside.write_text("the host's")
    prefix = tmp_path / "env"
    info = "Some_Thing-1.0.dist-info"
    files = {
        f"{library}/thing/__init__.py": "", f"{library}/thing/deep/er/x.py": "", f"{library}/other/mine.py": "",
        f"{library}/thing/__pycache__/__init__.cpython-311.pyc": "", "bin/thing": "", "bin/thing-gui": "",
        "bin/other": "", f"{library}/other-2.dist-info/RECORD": "other/mine.py,,\n",
        f"{library}/{info}/entry_points.txt": "[console_scripts]\nthing = thing:main\n[gui_scripts]\nthing-gui = t:g\n",
        f"{library}/{info}/RECORD": "thing/__init__.py,,\nthing/deep/er/x.py,,\n../../../../outside.txt,,\n"
        f"{outside},,\nout/outside.txt,,\n{info}/RECORD,,\n",
    }  # fmt: skip
    for name, content in files.items():
        (prefix / name).parent.mkdir(parents=True, exist_ok=True)
        (prefix / name).write_text(content)
    (prefix / library / "out").symlink_to(tmp_path)
    assert remove_replaced(prefix, library, ["some-thing", "absent"]) == ["some-thing"]
    left = {path.relative_to(prefix).as_posix() for path in prefix.rglob("*") if path.is_file()}
    assert left == {"bin/other", f"{library}/other/mine.py", f"{library}/other-2.dist-info/RECORD"}
    assert not (prefix / library / "thing").exists()
    assert outside.read_text() == "the host's"


@pytest.mark.parametrize(
    ("content", "complaint", "hint"),
    [
        (b"no archive", "cannot be unpacked", "damaged or made to harm"),
        ([file("python/bin/evil", b"")], f"holds no python/bin/python{MINOR}", ODD),
        ([file("cpython/bin/python3", b"")], "'cpython' instead of one directory python", ODD),
        ([symlink("python", "/etc")], "'python' instead of one directory python", ODD),
        ([file("python/../../evil", b"")], "leaves its directory", "find out where it came from"),
        ([symlink("python", "/tmp"), file("python/evil", b"")], "leaves its directory", "find out where it came"),
        ([file(f"python/bin/python{MINOR}", b"", 0o755)], "holds no modules",
         "take another build of Python: `--python X.Y.Z`"),
    ],
)  # fmt: skip
def test_archives_that_are_no_such_build(
    made: Made, tmp_path: Path, content: bytes | list[tuple[TarEntry, bytes]], complaint: str, hint: str
) -> None:
    path = tmp_path / "python.tar.gz"
    path.write_bytes(content if isinstance(content, bytes) else gzip.compress(make_tar(content)))
    lock = made.unsealed_lock(interpreter=standalone(made, path))
    with pytest.raises(BuildError, match=re.escape(complaint)) as caught:
        realise_interpreter(lock, lambda: Root(folder=tmp_path), made.store)
    assert hint in caught.value.hint
    assert not (tmp_path / "evil").exists()


@pytest.mark.parametrize("kind", ["standalone", "conda"])
def test_no_image_is_made_with_a_free_threaded_python(made: Made, tmp_path: Path, kind: str) -> None:
    """Modules would stand in directories that it does not look into."""
    python = Interpreter(
        version="3.13.1", executable="/opt/python/bin/python3.13t", evidence="made", kind=kind
    )  # type: ignore[arg-type]  # one of the two
    lock = made.unsealed_lock(interpreter=python)
    with pytest.raises(
        BuildError, match=r"Python 3\.13\.1 of the lock is free-threaded, and no image"
    ) as caught:
        realise_interpreter(lock, lambda: Root(folder=tmp_path), made.store)
    assert caught.value.hint == (
        "the lock names every file, and can be compared with others; capture the job on an ordinary Python to make an "
        "image of it"
    )


def test_no_link_of_an_archive_is_followed(made: Made, build: Path, root: Path, tmp_path: Path) -> None:
    """A module that is a link to a file of the machine is not read; it stays a link, of the image."""
    tree = tmp_path / "tree"
    tree.mkdir()
    subprocess.run(["tar", "-xf", build, "-C", tree], check=True)
    (tree / "opt").mkdir()
    (tree / "python").rename(tree / HOME)
    (tree / SITE / "one" / "shadow.py").symlink_to("/etc/passwd")
    found = listed(made, finish_tree(tree, standalone(made, build), EPOCH, Root(folder=root), made.store))
    assert found[f"{SITE}/one/shadow.py"].target == "/etc/passwd"
    assert not [path for path in found if "shadow." in path and path.endswith(".pyc")]


@pytest.mark.parametrize("link", ["lib", f"lib/python{MINOR}"])
def test_a_library_that_is_a_link_is_not_read(
    made: Made, build: Path, root: Path, tmp_path: Path, link: str
) -> None:
    """Modules of the machine would be compiled into the image; an archive, and a script of conda's, can leave such."""
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    (outside / f"python{MINOR}").mkdir(parents=True)
    for name in ("secret.py", f"python{MINOR}/secret.py"):
        (outside / name).write_text("KEY = 1\n")
    (tree / HOME / link).parent.mkdir(parents=True)
    (tree / HOME / link).symlink_to(outside)
    with pytest.raises(BuildError, match=f"holds a link on the way to /{HOME}/lib/python{MINOR}") as caught:
        finish_tree(tree, standalone(made, build), EPOCH, Root(folder=root), made.store)
    assert caught.value.hint == HOSTILE
