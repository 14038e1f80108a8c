"""Mounts that would lead the sandbox's set-up out of its root, where code of others would run with all rights."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.errors import EngineError
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.sandbox import command, launch
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.infra.sandbox.mounts import resolve_targets
from tests.system.samples import EPOCH
from tests.system.test_sandbox import CHECKOUT, run_as_ordinary_user

BOTH = pytest.mark.parametrize("layered", [False, True])
HINT = "leave out the package that made it, or unpack the root again"


def programs(folder: Path, mark: Path) -> Path:
    """Fill a source tree with programs of the names that a set-up may look for; they write a mark."""
    for name in ("dirname", "hostname", "ln", "mkdir", "mount", "sh"):
        (folder / name).write_text(f'#!/bin/sh\necho {name} >> {mark}\nexec /usr/bin/{name} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


class Case:
    """A root, a source tree of others, and what is not to be touched."""

    def __init__(self, top: Path) -> None:
        self.root, self.tree, self.out, self.victim = (top / n for n in ("root", "tree", "out", "victim"))
        for folder in (self.root, self.tree, self.out, self.victim):
            folder.mkdir()
        (self.root / "tmp").mkdir()  # a layer stands there
        self.file = top / "script.py"
        self.file.write_text("")
        self.mark = top / "mark"

    def binds(self, place: str) -> list[Bind]:
        """Return the binds of a build whose source stands in a place."""
        return [
            Bind(source=self.tree, target=place, writable=True), Bind(source=self.out, target="/opt/build"),
            Bind(source=self.file, target="/mnt/build_wheel.py"),
        ]  # fmt: skip


def by_process(case: Case) -> list[Bind]:
    """Make a directory anywhere."""
    return case.binds(f"/proc/self/root{case.victim}/deep")


def by_programs(case: Case) -> list[Bind]:
    """Stand where the set-up looks for its programs."""
    programs(case.tree, case.mark)
    return case.binds("/proc/self/root/usr/local/sbin")


def by_tree_of_folder(case: Case) -> list[Bind]:
    """Lead the environment of the build, by a link in the source, over a directory of programs."""
    programs(case.out, case.mark)
    (case.tree / "build").symlink_to("/usr/local/sbin")
    return case.binds("/opt")


def by_tree_of_file(case: Case) -> list[Bind]:
    """Lead the script of the build, by a link in the source, to a file that is not there yet."""
    (case.tree / "build_wheel.py").symlink_to(case.victim / "made")
    return case.binds("/mnt")


def by_link_to_process(case: Case) -> list[Bind]:
    """Lead a fixed place, by a link in the root, to a directory of the machine: on the disk, /proc is empty."""
    (case.root / "proc").mkdir()
    (case.root / "mnt").symlink_to(f"proc/self/root{case.victim}")
    return case.binds("/src/project")


def by_link_to_tree(case: Case) -> list[Bind]:
    """Lead a fixed place, by a link in the root, into the source and by a link there out."""
    (case.root / "src/project").mkdir(parents=True)
    (case.root / "mnt").symlink_to("src/project")
    (case.tree / "build_wheel.py").symlink_to(case.victim / "made")
    return case.binds("/src/project")


def by_place_of_sandbox(case: Case) -> list[Bind]:
    """Lead an empty directory of the sandbox to a directory of the machine."""
    (case.root / f"proc/self/root{case.victim}").mkdir(parents=True)
    (case.root / "run").symlink_to(f"proc/self/root{case.victim}")
    return [*case.binds("/src/project"), Bind(source=case.out, target="/run/deep")]


NAMES: tuple[Callable[[Case], list[Bind]], ...] = (
    by_process, by_programs, by_tree_of_folder, by_tree_of_file,
)  # fmt: skip
LINKS = (by_link_to_process, by_link_to_tree, by_place_of_sandbox)


def attempt(case: Case, binds: list[Bind], *, layered: bool) -> None:
    run_in_root(
        Root(folder=case.root, layered=layered), ["/bin/true"], epoch=EPOCH, purpose="try", binds=binds
    )


def is_untouched(case: Case) -> bool:
    return not list(case.victim.iterdir()) and not case.mark.exists()


@BOTH
@pytest.mark.parametrize("make", [*NAMES, *LINKS])
def test_no_mount_leads_out(make: Callable[[Case], list[Bind]], tmp_path: Path, layered: bool) -> None:
    case = Case(tmp_path)
    binds = make(case)
    with pytest.raises((ValueError, EngineError, ProcessFailedError)) as caught:
        attempt(case, binds, layered=layered)
    assert is_untouched(case)
    assert caught.type is (ValueError if make in NAMES else EngineError)


@BOTH
@pytest.mark.parametrize("make", [*NAMES, by_link_to_process, by_link_to_tree])
def test_the_set_up_follows_no_link_by_itself(
    make: Callable[[Case], list[Bind]], tmp_path: Path, layered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What refuses above is not there: each mount point is opened without a link, before a tree of others is there."""
    monkeypatch.setattr(command, "resolve_targets", lambda _, targets: list(targets))
    case = Case(tmp_path)
    binds = make(case)
    with pytest.raises(ProcessFailedError):
        attempt(case, binds, layered=layered)
    assert is_untouched(case)


_AS_USER = """
import sys
from pathlib import Path
from reprobuild.infra.sandbox import command
from tests.system import test_places as cases
if sys.argv[2] == "bare":
    command.resolve_targets = lambda _, targets: list(targets)
top = Path(sys.argv[1])
for make in (*cases.NAMES, *cases.LINKS[:2]):
    for layered in (False, True):
        place = top / f"{make.__name__}-{layered}"
        place.mkdir()
        case = cases.Case(place)
        try:
            cases.attempt(case, make(case), layered=layered)
            print(make.__name__, "went on")
        except Exception as err:
            print(make.__name__, type(err).__name__, "" if cases.is_untouched(case) else "and left the root")
"""


def test_no_mount_leads_out_for_an_ordinary_user(shared_tmp: Path) -> None:
    said = run_as_ordinary_user(_AS_USER, shared_tmp, Path("checked")).splitlines()
    wanted = [(make, "ValueError") for make in NAMES] + [(make, "EngineError") for make in LINKS[:2]]
    assert said == [f"{make.__name__} {wrong} " for make, wrong in wanted for _ in range(2)]


def test_the_set_up_follows_no_link_by_itself_for_an_ordinary_user(shared_tmp: Path) -> None:
    said = run_as_ordinary_user(_AS_USER, shared_tmp, Path("bare")).splitlines()
    assert said == [f"{make.__name__} ProcessFailedError " for make in (*NAMES, *LINKS[:2]) for _ in range(2)]


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (["/proc"], "a place of the sandbox's own: '/proc'"),
        (["/dev/shm/x"], "a place of the sandbox's own"),
        (["/sys/x"], "a place of the sandbox's own"),
        (["/run"], "a place of the sandbox's own"),
        (["/tmp"], "a place of the sandbox's own"),
        (["/"], "not an absolute path inside"),
        (["//proc"], "not an absolute path inside"),
        (["/a/./b"], "not an absolute path inside"),
        (["/a/"], "not an absolute path inside"),
        (["/a\0"], "not an absolute path inside"),
        ([""], "not an absolute path inside"),
        (["/a", "/a"], "would hide the other"),
        (["/a", "/b", "/a/c"], "would hide the other"),
        (["/a/c", "/a"], "would hide the other"),
        (["/run/a", "/run/a/b"], "would hide the other"),
    ],
)
def test_places_that_are_refused(targets: list[str], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        resolve_targets(tmp_path, targets)


def test_places_that_are_not(tmp_path: Path) -> None:
    targets = ["/src/a", "/src/ab", "/run/a", "/tmp/a", "/process", "/opt/env", "/mnt/x", "/devices"]
    assert resolve_targets(tmp_path, targets) == targets


def test_links_inside_the_root_are_followed(tmp_path: Path) -> None:
    (tmp_path / "var/opt").mkdir(parents=True)
    (tmp_path / "opt").symlink_to("var/opt")
    (tmp_path / "var/temporary").mkdir()
    (tmp_path / "tmp").symlink_to("var/temporary")
    (tmp_path / "run").mkdir()
    (tmp_path / "run/x").symlink_to("/etc")  # an empty directory hides it
    places = resolve_targets(tmp_path, ["/opt/build", "/tmp/a", "/run/x/y", "/never/there"])
    assert places == ["/var/opt/build", "/var/temporary/a", "/run/x/y", "/never/there"]


@pytest.mark.parametrize(
    ("link", "leads", "targets", "said"),
    [
        ("mnt", "proc/self/root", ["/mnt/x"], "leads /mnt/x to /proc/self/root/x, where /proc stands"),
        ("mnt", "run", ["/mnt/x"], "leads /mnt/x to /run/x, where /run stands"),
        ("mnt", "opt", ["/opt/x", "/mnt/x"], "leads /mnt/x to /opt/x, where /opt/x stands"),
        ("tmp", "run/x", [], "leads /tmp to /run/x, where /run stands"),
        ("tmp", "var", ["/var/x"], "leads /var/x to /var/x, where /tmp stands"),
        ("mnt", ".", ["/mnt"], "/mnt is a symbolic link out of the root"),
        ("mnt", "mnt", ["/mnt/x"], "/mnt/x is a symbolic link out of the root"),
        ("mnt", "/etc", ["/mnt/x"], "/mnt/x is a symbolic link out of the root"),
    ],
)
def test_links_that_are_refused(link: str, leads: str, targets: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / link).symlink_to(leads)
    with pytest.raises(EngineError, match=re.escape(said)) as caught:
        resolve_targets(tmp_path, targets)
    assert caught.value.hint == HINT


@BOTH
def test_a_command_sees_what_stands_behind_a_link(root: Path, tmp_path: Path, layered: bool) -> None:
    place = tmp_path / "root"
    shutil.copytree(root, place, symlinks=True, copy_function=os.link)
    shutil.rmtree(place / "opt")
    (place / "opt").symlink_to("var/opt")
    (tmp_path / "in").mkdir()
    (tmp_path / "in/file").write_text("seen")
    said = run_in_root(
        Root(folder=place, layered=layered), ["/bin/cat", "/opt/new/file"], epoch=EPOCH, purpose="look",
        binds=[Bind(source=tmp_path / "in", target="/opt/new")],
    )  # fmt: skip
    assert said == b"seen"


def test_a_mount_point_is_made_without_following_links(tmp_path: Path) -> None:
    (tmp_path / "top/a").mkdir(parents=True)
    (tmp_path / "victim").mkdir()
    (tmp_path / "top/a/link").symlink_to(tmp_path / "victim")
    (tmp_path / "top/a/new").symlink_to(tmp_path / "victim/new")
    (tmp_path / "top/a/proc").symlink_to("/proc/self/root")
    top = os.open(tmp_path / "top", os.O_PATH)
    try:
        for place in ("/a/link/x", "/a/link", "/a/new", f"/a/proc{tmp_path}/victim/x", "/a/../../victim/x"):
            for folder in (True, False):
                with pytest.raises(OSError, match=r"something else than a directory or file|it is no name"):
                    launch.open_point(top, place, folder)
        assert not list((tmp_path / "victim").iterdir())
        for place, folder in (("/b/c/folder", True), ("/b/c/file", False)):
            for point in launch.open_point(top, place, folder):
                os.close(point)
    finally:
        os.close(top)
    assert (tmp_path / "top/b/c/folder").is_dir()
    assert (tmp_path / "top/b/c/file").is_file()


def test_the_set_up_finds_its_programs_before_it_mounts() -> None:
    """A mount could stand over a directory of programs."""
    text = (CHECKOUT / "reprobuild/infra/sandbox/setup.sh").read_text()
    code = re.sub(r"(?m)^#.*", "", text)
    names = set(re.findall(r"\$\(find_program (\w+)\)", code))
    assert names == {"hostname", "ln", "mkdir", "mount"}
    assert code.rindex("$(find_program") < code.index('\n"$hostname"') < code.index('"$mount" -n -t')
    # What begins a command: a word of the shell, a function of the file, or a program by its variable.
    first = re.findall(r"(?m)^\s*(?:(?:if|then|!|else) )*([^\s\"]+|\"\$\w+\")", code)
    shell = {"set", "for", "if", "do", "done", "fi", "else", "echo", "exit", "cd", ":", "}", "command", "["}
    odd = [
        word
        for word in first
        if word not in shell and not re.fullmatch(r'"\$\w+"|\w+\(\)|\w+=.*|make_read_only|modules', word)
    ]
    assert odd == []
