"""Snapshot: what was captured, line by line, each with the place it came from."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from reprobuild.snapshot.capture_model import Captured

RequirementKind = Literal[
    "index",  # name==version, name===version
    "archive",  # name @ https://.../x.whl, name @ file:///.../x.whl
    "vcs",  # name @ git+https://...@commit
    "editable",  # -e git+https://...@commit#egg=name; -e /path under pip's comment
    "conda",  # name @ file:///croot/... and other build paths of conda: no version in it
    "directory",  # name @ file:///some/folder: installed from a local source folder, not editable
    "leftover",  # -umpy==...: what an interrupted uninstall left behind
]
Mark = Literal["manual", "automatic", "auto-removable", "local", "upgradable", "residual"]


class Place(Struct, frozen=True, order=True):
    """Where a captured line stands: file name in the snapshot and line number, from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Requirement(Struct, frozen=True, kw_only=True):
    """One distribution of a freeze.

    `name` is as captured; compare by `packaging.utils.canonicalize_name`. `version` is None where the
    freeze does not tell it. `url` carries no user name and no password (but the `git@` of ssh), no
    fragment and no `@commit`; its scheme is as captured (`git+https`). `path` is the local directory
    of an editable install without a known remote, or a local file or folder. `version_from` is where the
    version of a `conda` line was read, if not in the line itself. `hashes` are the sha256 (hex) of which its file must
    have one, of an archive only where they are several or contradict `sha256`; `marker` tells for which environments
    the line is, as `packaging` writes it.
    """

    place: Place
    text: str
    kind: RequirementKind
    name: str
    version: str | None = None
    url: str | None = None
    commit: str | None = None
    subdirectory: str | None = None
    sha256: str | None = None
    path: str | None = None
    version_from: Place | UnsetType = UNSET  # UNSET is not written: digests of older snapshots stay
    hashes: tuple[str, ...] | UnsetType = UNSET
    marker: str | UnsetType = UNSET


class Package(Struct, frozen=True, kw_only=True):
    """One installed system package, as `apt list --installed` or `dpkg -l` shows it.

    `suites` are the archives that apt named for it, without `now`; empty where none is known.
    `upgrade` is the version that apt offered instead.
    """

    place: Place
    text: str
    name: str
    version: str
    architecture: str
    mark: Mark
    suites: tuple[str, ...] = ()
    upgrade: str | None = None


class AptList(Struct, frozen=True, kw_only=True):
    """One Release file that apt had fetched. `file` is its name: the address, with `_` for `/`.

    `date` is its own Date, `fetched` when it was last found or made new, both in seconds since 1970; None where they
    are not told. The others are its fields of these names, empty where it has none.
    """

    file: str
    date: int | None = None
    fetched: int | None = None
    origin: str = ""
    suite: str = ""
    codename: str = ""


class RpmPackage(Struct, frozen=True, kw_only=True):
    """One installed package of rpm. `version` is `[EPOCH:]VERSION-RELEASE`."""

    place: Place
    text: str
    name: str
    version: str
    architecture: str


class CondaPackage(Struct, frozen=True, kw_only=True):
    """One package of a conda environment, as one of conda's lists or exports shows it.

    `build` and `channel` are None where the list does not tell them; `channel` is `pypi` for what pip installed.
    `url` carries no credential and no fragment. `md5` and `sha256` are of the package file. `among` are the channels
    of the whole environment, where a file names them beside the packages.
    """

    place: Place
    text: str
    name: str
    version: str
    build: str | None = None
    channel: str | None = None
    url: str | None = None
    md5: str | None = None
    sha256: str | None = None
    among: tuple[str, ...] | UnsetType = UNSET  # UNSET is not written: digests of older snapshots stay


class Fact(Struct, frozen=True, kw_only=True):
    """One statement of a report, in its own words. `value` is None for a secret; see `Variable` for `lines`."""

    place: Place
    name: str
    value: str | None
    lines: int = 1


class Report(Struct, frozen=True, kw_only=True):
    """What a program told about the machine: evidence, of which nothing is installed.

    Fields are empty where the report does not tell them. `python` has two or three parts. `gpus` are models, one for
    each device. `cuda` is what torch was built with, or for nvidia-smi the newest that the driver knows.
    `free_threaded` is CPython's build without the global lock (PEP 703); `machine` is in the kernel's words.
    """

    file: str
    kind: Literal["capture", "collect_env", "nvidia-smi", "python"]
    facts: tuple[Fact, ...]
    python: str = ""
    torch: str = ""
    cuda: str = ""
    cudnn: str = ""
    gpus: tuple[str, ...] = ()
    driver: str = ""
    os: str = ""
    libc: str = ""
    free_threaded: bool | UnsetType = UNSET  # UNSET is not written: digests of older snapshots stay
    machine: str | UnsetType = UNSET

    def place(self, name: str) -> Place:
        """Return where the fact of this name stands; the first line if there is none."""
        return next((fact.place for fact in self.facts if fact.name == name), Place(self.file, 1))


class Variable(Struct, frozen=True, kw_only=True):
    """One environment variable. `value` is None for a secret: it is never kept.

    `suspect` says why the value cannot be trusted (a sorted dump cut a multi-line value apart, ...);
    empty when it can. `lines` is how many lines of the file it takes.
    """

    place: Place
    name: str
    value: str | None
    secret: str = ""
    suspect: str = ""
    lines: int = 1


class Module(Struct, frozen=True, kw_only=True):
    """One loaded environment module, `name/version` as the list shows it."""

    place: Place
    name: str
    version: str | None = None


class PatchedFile(Struct, frozen=True, kw_only=True):
    """One file of a diff: paths inside the repository, git blob ids (may be abbreviated; all zeros for none).

    Modes are git's (`100644`, `120000` for a symlink, `160000` for a submodule) where the diff tells them.
    `missing` is true where the diff only says that binary files differ: the content was not captured.
    """

    line: int
    old_path: str | None
    new_path: str | None
    old_blob: str | None = None
    new_blob: str | None = None
    old_mode: str | None = None
    new_mode: str | None = None
    missing: bool = False


class Patch(Struct, frozen=True, kw_only=True):
    """One captured `git diff`. `name` is the file name without `.diff`; `content` are its exact bytes.

    `strip` is what `git apply -p` needs: 0 where the diff was made with `diff.noprefix`, else 1.
    """

    file: str
    name: str
    content: bytes
    files: tuple[PatchedFile, ...]
    strip: int = 1


class Remark(Struct, frozen=True, kw_only=True):
    """A line that carries nothing to pin: a header, a comment, a prompt, or a line nobody understands.

    `understood` is False for the last kind, which is always shown to the user. `text` is fit to print:
    no control characters, no secret. `lines` is how many lines of the file it takes.
    """

    place: Place
    text: str
    reason: str
    understood: bool = True
    lines: int = 1


class Snapshot(Struct, frozen=True, kw_only=True):
    """All that was captured. Secrets are not in it: names stay, values are dropped while reading.

    `digest` is the sha256 (hex) of the captured content without its secrets. `absent` names the kinds of
    file (`requirements.txt`, ...) that the chapter's recipe writes and the folder does not hold. `captured` is what
    `reprobuild capture` wrote beside them: whole repositories, and where things lay. `unlisted` are the lines that
    `pip freeze --all` adds to the freeze. `unfrozen` are names of distributions that the capture found in the
    environment and the freeze does not list.
    """

    digest: str
    requirements: tuple[Requirement, ...] = ()
    packages: tuple[Package, ...] = ()
    variables: tuple[Variable, ...] = ()
    modules: tuple[Module, ...] = ()
    patches: tuple[Patch, ...] = ()
    remarks: tuple[Remark, ...] = ()
    absent: tuple[str, ...] = ()
    captured: Captured | None = None
    conda: tuple[CondaPackage, ...] = ()
    rpms: tuple[RpmPackage, ...] = ()
    reports: tuple[Report, ...] = ()
    apt_lists: tuple[AptList, ...] = ()
    unlisted: tuple[Requirement, ...] = ()
    unfrozen: tuple[str, ...] = ()
