"""Which captured system packages the environment needs: libraries, and programs that its code calls."""

from __future__ import annotations

import io
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from reprobuild.errors import BuildError
from reprobuild.lock.python import Source, Wheel
from reprobuild.lock.system import Artefact
from reprobuild.resolve.system.calls import find_callers, find_wheel_calls, make_python_search
from reprobuild.resolve.system.needed import (
    find_programs,
    is_library_or_data,
    programs_of,
    select_called_packages,
)
from reprobuild.resolve.system.packages import list_uncalled_packages, resolve_base
from reprobuild.store.store import Store
from tests.system.samples import index, package, stanza


@pytest.mark.parametrize(
    "name",
    ["libgl1", "libsm6", "libsndfile1", "libmagic1", "libcudnn8", "cuda-toolkit-12-4", "fonts-dejavu", "tzdata",
     "ca-certificates", "tesseract-ocr-deu", "rocm-libs", "libpython3.11"],
)  # fmt: skip
def test_libraries_and_data_need_no_call(name: str) -> None:
    assert is_library_or_data(name)


@pytest.mark.parametrize(
    "name",
    ["libssl-dev", "libreoffice-writer", "libreoffice", "libpam-runtime", "libc-bin", "python3-dev", "git", "chromium",
     "google-cloud-cli", "openjdk-17-jdk", "libdbi-perl", "libxml2-utils"],
)  # fmt: skip
def test_programs_and_headers_need_a_call(name: str) -> None:
    assert not is_library_or_data(name)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("ffmpeg", ("ffmpeg", "ffprobe", "ffplay")),
        ("graphviz", ("dot", "neato", "fdp", "sfdp", "twopi", "circo")),
        ("gcc-12", ("gcc", "cc", "gcov")),
        ("emacs-28.2", ("emacs-28.2", "emacs")),
        ("git", ("git",)),
        ("python3.11-dev", ("gcc", "g++", "cc", "c++", "clang", "nvcc")),
        ("openjdk-17-jre-headless", ("java", "javac")),
    ],
)
def test_the_programs_of_a_package(name: str, found: tuple[str, ...]) -> None:
    assert programs_of(name) == found


PROGRAMS = {"git", "ffmpeg", "node", "dot", "gs", "gcc", "nvidia-smi", "pdftoppm"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('subprocess.run(["git", "status"])', {"git"}),
        ("cmd = 'ffmpeg -i %s' % path", {"ffmpeg"}),
        ('_get_command_path("pdftoppm", poppler_path)', {"pdftoppm"}),
        ('shutil.which("/usr/bin/nvidia-smi")', {"nvidia-smi"}),
        ('cc = os.environ.get("CC", "gcc")', {"gcc"}),
        ('EXE = "ffmpeg.exe"', {"ffmpeg"}),
        ('{"kind": "node"}', set()),
        ('edges = ["node", "edge"]', set()),
        ('run(["node", script])', {"node"}),
        ("check_output(args=['node', '--version'])", {"node"}),
        ('["gs", "-dNOPAUSE", path]', {"gs"}),
        ('subprocess.Popen("gs -q", shell=True)', {"gs"}),
        ("dot_cmd = ['dot', fmt]", {"dot"}),
        ("product = x.dot(y)  # the 'dot'", set()),
        ('"github.example/git-lfs"', set()),
        ("git = 1", set()),
        ('"a git clone"', set()),
    ],
)
def test_what_a_text_in_python_calls(text: str, found: set[str]) -> None:
    assert make_python_search(PROGRAMS)(text.encode()) == found


def make_wheel(store: Store, folder: Path, members: dict[str, str]) -> Wheel:
    path = folder / "tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    file = Artefact(filename=path.name, sha256=store.add(path.read_bytes()), size=path.stat().st_size)
    return Wheel(name="tool", version="1.0", role="environment", file=file)


def make_source(store: Store, folder: Path, members: dict[str, str]) -> Source:
    path = folder / "job.tar"
    with tarfile.open(path, "w") as archive:
        for name, text in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    file = Artefact(filename=path.name, sha256=store.add(path.read_bytes()), size=path.stat().st_size)
    return Source(
        name="job", url="https://git.example.org/job.git", commit="1" * 40, tree="2" * 40, patch=None,
        path="/src/job", editable=False, file=file, epoch=0, installed=False,
    )  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def test_the_first_that_calls_a_program_is_named(store: Store, tmp_path: Path) -> None:
    wheel = make_wheel(
        store, tmp_path,
        {
            "tool/video.py": 'run(["ffmpeg", "-i", path]); run(["git", "log"])',
            "tool/tests/test_video.py": 'run(["node"])',
            "tool/data.txt": '"gs"',
        },
    )  # fmt: skip
    source = make_source(
        store, tmp_path,
        {"prepare.sh": "set -e\ngit clone x\n/usr/bin/dot -T png graph\n", "Makefile": "all:\n\tgcc -o a a.c\n",
         "notes.md": "gs"},
    )  # fmt: skip
    found = find_callers([wheel], [source], ["nvidia-smi --query-gpu=name"], PROGRAMS, store)
    assert found == {
        "nvidia-smi": "the workload", "git": "job", "dot": "job", "gcc": "job", "ffmpeg": "tool 1.0",
    }  # fmt: skip


def test_the_calls_of_a_wheel_are_remembered_for_the_programs_asked_for(store: Store, tmp_path: Path) -> None:
    wheel = make_wheel(store, tmp_path, {"tool.py": 'run(["ffmpeg"]); run(["git"])'})
    assert find_wheel_calls(wheel.file, {"git"}, store) == ("git",)
    store.blob(wheel.file.sha256).unlink()
    assert find_wheel_calls(wheel.file, {"git"}, store) == ("git",)
    with pytest.raises(BuildError, match="is not a zip archive"):
        find_wheel_calls(wheel.file, {"git", "ffmpeg"}, store)


def test_a_hostile_wheel_is_refused(store: Store, tmp_path: Path) -> None:
    wheel = make_wheel(store, tmp_path, {"../tool.py": ""})
    with pytest.raises(BuildError, match="unsafe path"):
        find_callers([wheel], [], [], PROGRAMS, store)


def test_a_damaged_wheel_is_an_error_with_its_place(store: Store, tmp_path: Path) -> None:
    wheel = make_wheel(store, tmp_path, {"tool.py": "first = 1\n" * 2000})
    data = store.blob(wheel.file.sha256).read_bytes()
    damaged = data[:15_000] + b"#" + data[15_001:]
    file = Artefact(filename=wheel.file.filename, sha256=store.add(damaged), size=len(damaged))
    with pytest.raises(
        BuildError, match=r"^tool-1\.0-py3-none-any\.whl is damaged at tool\.py: Bad CRC-32"
    ) as caught:
        find_wheel_calls(file, {"git"}, store)
    assert caught.value.hint


def test_many_words_that_are_no_calls_take_no_time() -> None:
    text = (b"check_call(" + b" " * 60 + b"x" + b"'node'" * 6) * 8000
    start = time.process_time()
    assert make_python_search({"node"})(text) == {"node"}  # more words than are looked at
    assert make_python_search({"node"})((b"check_call(" + b" " * 60 + b"x'node'") * 900) == set()
    assert time.process_time() - start < 2


def test_packages_whose_programs_are_called() -> None:
    names = ["git", "libgl1", "graphviz", "gcc", "python3-dev", "chromium"]
    assert find_programs(names) >= {"git", "dot", "gcc", "chromium"}
    assert "libgl1" not in find_programs(names)
    found = dict(select_called_packages(names, {"dot": "pydot 3.0", "gcc": "triton 3.1"}))
    assert found == {
        "graphviz": "pydot 3.0, which calls dot",
        "gcc": "triton 3.1, which calls gcc",
        "python3-dev": "triton 3.1, which calls gcc",
    }


HAVING = index(
    stanza("base-files", "1", "", "Essential: yes"),
    stanza("git", "2", "libcurl4"), stanza("libcurl4", "3"), stanza("tmux", "1", "libevent2"), stanza("libevent2", "1"),
    stanza("libgl1", "1"), stanza("nodejs", "18"),
    stanza("fakeroot", "1"), stanza("libfakeroot", "1"),
)  # fmt: skip
CAPTURED = (
    package("base-files", "1", line=2), package("git", "2", "manual", line=3), package("libcurl4", "3", line=4),
    package("tmux", "1", "manual", line=5), package("libevent2", "1", line=6), package("libgl1", "1", "manual", line=7),
    package("nodejs", "20-1vendor", "manual", line=8), package("google-cloud-cli", "528", "local", line=9),
)  # fmt: skip


def test_what_no_code_calls_is_left_out_and_is_no_error() -> None:
    base, rulings = resolve_base(
        CAPTURED, index=HAVING, roots=[], called={"git": "wandb 0.2, which calls git"}
    )
    assert [deb.name for deb in base.packages] == ["base-files", "git", "libcurl4", "libgl1"]
    found = {ruling.subject: (ruling.outcome, ruling.kind) for ruling in rulings}
    left = ("excluded", "not-needed")
    assert found == {
        "base-files": ("pinned", ""), "git": ("pinned", ""), "libcurl4": ("pinned", ""), "libgl1": ("pinned", ""),
        "tmux": left, "libevent2": left, "nodejs": left, "google-cloud-cli": left,
    }  # fmt: skip
    reasons = {ruling.subject: ruling.reason for ruling in rulings}
    assert reasons["git"].endswith("needed by wandb 0.2, which calls git")
    assert list_uncalled_packages(rulings) == ["tmux", "nodejs", "google-cloud-cli"]


def test_all_that_was_asked_for_is_taken_on_request() -> None:
    base, rulings = resolve_base(CAPTURED, index=HAVING, roots=[], called=None)
    assert {"tmux", "libevent2", "nodejs"} <= {deb.name for deb in base.packages}
    found = {ruling.subject: ruling.kind for ruling in rulings if ruling.outcome == "unresolved"}
    assert found == {"nodejs": "unknown-version", "google-cloud-cli": "local-build"}
    assert list_uncalled_packages(rulings) == []


def test_what_the_user_or_the_environment_names_is_taken() -> None:
    base, rulings = resolve_base(CAPTURED, index=HAVING, roots=["tmux"], called={})
    assert [deb.name for deb in base.packages] == ["base-files", "libevent2", "libgl1", "tmux"]
    assert list_uncalled_packages(rulings) == ["git", "nodejs", "google-cloud-cli"]


# Debian 12 and Ubuntu 22.04 pack `distutils` and `lib2to3` apart; TensorFlow 2.15 imports `distutils.spawn`.
PARTED = index(
    stanza("base-files", "1", "", "Essential: yes"), stanza("python3.11", "3.11.2"), stanza("python3-venv", "3.11.2"),
    stanza("python3-distutils", "3.11.2"), stanza("python3-lib2to3", "3.11.2"), stanza("python3.9-tk", "3.9.2"),
    stanza("fakeroot", "1"), stanza("libfakeroot", "1"),
)  # fmt: skip
PARTS = (
    package("python3.11", "3.11.2", line=2), package("python3-venv", "3.11.2", "manual", line=3),
    package("python3-distutils", "3.11.2", line=4), package("python3-lib2to3", "3.11.2", line=5),
    package("python3.9-tk", "3.9.2", line=6), package("python3-gdbm", "3.11.2", line=7),
)  # fmt: skip


def test_captured_parts_of_the_standard_library_belong_to_the_interpreter() -> None:
    base, _ = resolve_base(PARTS, index=PARTED, roots=["python3.11"], called={})
    names = ["base-files", "python3-distutils", "python3-lib2to3", "python3.11"]
    assert [deb.name for deb in base.packages] == names


def test_an_interpreter_that_is_not_the_systems_has_its_own_standard_library() -> None:
    base, _ = resolve_base(PARTS, index=PARTED, roots=[], called={})
    assert [deb.name for deb in base.packages] == ["base-files"]


def test_a_dropped_part_of_the_standard_library_stays_out() -> None:
    base, _ = resolve_base(PARTS, index=PARTED, roots=["python3.11"], drop=["python3-distutils"], called={})
    assert "python3-distutils" not in [deb.name for deb in base.packages]
