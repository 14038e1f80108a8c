"""The snapshot: captured lines, each with its place."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, Struct, UnsetType

from reprobuild.snapshot.capture_model import CaptureFacts
from reprobuild.snapshot.import_facts import ImportFacts

RequirementKind = Literal[
    "index",  # name==version, name===version
    "archive",  # name @ https://.../x.whl, name @ file:///.../x.whl
    "vcs",  # name @ git+https://...@commit
    "editable",  # -e git+https://...@commit#egg=name; -e /path under pip's comment
    "conda",  # name @ file:///croot/... and other build paths of conda: no version in it
    "directory",  # name @ file:///some/folder: installed from a local source directory, not editable
    "leftover",  # -umpy==...: left by an interrupted uninstall
]
Mark = Literal["manual", "automatic", "auto-removable", "local", "upgradable", "residual"]


class SourceLocation(Struct, frozen=True, order=True):
    """The place of a captured line.

    It is the file name in the snapshot and the line number, from 1.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class Requirement(Struct, frozen=True, kw_only=True):
    """One distribution of a freeze.

    `name` is as captured; compare by `packaging.utils.canonicalize_name`. `version` is None if the freeze does not have
    it. `url` carries no user name and no password (but the `git@` of ssh), no fragment and no `@commit`; its scheme is
    as captured (`git+https`). `path` is the local directory of an editable install without a known remote, or a local
    file or directory. `version_from` is the place of the version of a `conda` line, if it is not in the line itself.
    `hashes` are the accepted sha256 (hex) of its file, of an archive only if they are several or contradict `sha256`;
    `marker` is the environment marker of the line, as `packaging` writes it. `digests` are the other hashes of an
    archive that its address states, as `sha512:HEX`. `extras` are those that the line names in brackets, in the form of
    PEP 503; those of its repetitions are among them.
    """

    place: SourceLocation
    text: str
    kind: RequirementKind
    name: str
    version: str | None = None
    url: str | None = None
    commit: str | None = None
    subdirectory: str | None = None
    sha256: str | None = None
    path: str | None = None
    version_from: SourceLocation | UnsetType = UNSET  # UNSET is not written: digests of older snapshots stay
    hashes: tuple[str, ...] | UnsetType = UNSET
    marker: str | UnsetType = UNSET
    digests: tuple[str, ...] | UnsetType = UNSET
    extras: tuple[str, ...] | UnsetType = UNSET


class SystemPackage(Struct, frozen=True, kw_only=True):
    """One installed system package of `apt list --installed` or `dpkg -l`.

    `suites` are the archives that apt named for it, without `now`; empty if unknown. `upgrade` is the version that apt
    offered instead.
    """

    place: SourceLocation
    text: str
    name: str
    version: str
    architecture: str
    mark: Mark
    suites: tuple[str, ...] = ()
    upgrade: str | None = None


class AptList(Struct, frozen=True, kw_only=True):
    """One Release file that apt had fetched.

    `file` is its name: the address, with `_` for `/`.

    `date` is its own Date, `fetched` the time of its last check or change, both in seconds since 1970; None if unknown.
    The others are its fields of these names, empty if it lacks them.
    """

    file: str
    date: int | None = None
    fetched: int | None = None
    origin: str = ""
    suite: str = ""
    codename: str = ""


class RpmPackage(Struct, frozen=True, kw_only=True):
    """One installed package of rpm.

    `version` is `[EPOCH:]VERSION-RELEASE`.
    """

    place: SourceLocation
    text: str
    name: str
    version: str
    architecture: str


class CapturedCondaPackage(Struct, frozen=True, kw_only=True):
    """One package of a conda environment, from a list or export.

    `build` and `channel` are None if the list does not have them; `channel` is `pypi` for packages that pip installed.
    `url` carries no credential and no fragment. `md5` and `sha256` are of the package file. `among` are the channels of
    the whole environment, if a file names them beside the packages.
    """

    place: SourceLocation
    text: str
    name: str
    version: str
    build: str | None = None
    channel: str | None = None
    url: str | None = None
    md5: str | None = None
    sha256: str | None = None
    among: tuple[str, ...] | UnsetType = UNSET  # UNSET is not written: digests of older snapshots stay


class CondaRequest(Struct, frozen=True, kw_only=True):
    """A package that a file asks conda for.

    `text` is the requirement in conda's form, without credentials, and fit to print; `digest` is the sha256 of the
    whole requirement before that, or empty if a secret was removed from it. `version` is set if it is a version without
    conditions. `channels` are those of the whole file, and `nodefaults` is whether they exclude all others. `is_open`
    is False for a Python and for installers that the image has without conda, too.
    """

    place: SourceLocation
    text: str
    name: str
    version: str | None = None
    channels: tuple[str, ...] = ()
    is_open: bool = True
    digest: str = ""
    nodefaults: bool = False


class ReportedValue(Struct, frozen=True, kw_only=True):
    """One statement of a report, in its original text.

    `value` is None for a secret; see `Variable` for `lines`.
    """

    place: SourceLocation
    name: str
    value: str | None
    lines: int = 1


class MachineReport(Struct, frozen=True, kw_only=True):
    """A program's report on the machine.

    It is evidence, and lists no packages to install.

    Fields are empty if the report does not have them. `python` has two or three parts. `gpus` are models, one for each
    device. `cuda` is the version that torch was built with, or for nvidia-smi the newest that the driver supports.
    `free_threaded` is CPython's build without the global lock (PEP 703); `machine` is in the kernel's spelling.
    """

    file: str
    kind: Literal["capture", "collect_env", "nvidia-smi", "python"]
    facts: tuple[ReportedValue, ...]
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

    def place(self, name: str) -> SourceLocation:
        """Return the place of a fact; the first line if it is absent."""
        return next((fact.place for fact in self.facts if fact.name == name), SourceLocation(self.file, 1))


class Variable(Struct, frozen=True, kw_only=True):
    """One environment variable.

    `value` is None for a secret, which is never kept.

    `suspect` is the reason for doubts about the value (a sorted dump cut a multi-line value apart, ...); empty without
    doubts. `lines` is its number of lines in the file.
    """

    place: SourceLocation
    name: str
    value: str | None
    secret: str = ""
    suspect: str = ""
    lines: int = 1


class Module(Struct, frozen=True, kw_only=True):
    """One loaded environment module, `name/version` in the list."""

    place: SourceLocation
    name: str
    version: str | None = None


class PatchedFile(Struct, frozen=True, kw_only=True):
    """One file of a diff.

    It has paths inside the repository, and git blob ids (may be abbreviated; all zeros for no file).

    Modes are git's (`100644`, `120000` for a symlink, `160000` for a submodule) if the diff has them. `missing` is true
    if the diff only says that binary files differ: the content was not captured.
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
    """One captured `git diff`.

    `name` is the file name without `.diff`; `content` are its exact bytes.

    `strip` is the value for `git apply -p`: 0 if the diff was made with `diff.noprefix`, else 1.
    """

    file: str
    name: str
    content: bytes
    files: tuple[PatchedFile, ...]
    strip: int = 1


class ParseNote(Struct, frozen=True, kw_only=True):
    """A line with no content to pin.

    It is a header, a comment, a prompt, or a line that is not understood.

    `understood` is False for the last kind, which is always shown to the user. `text` is fit to print: no control
    characters, no secret. `lines` is its number of lines in the file.
    """

    place: SourceLocation
    text: str
    reason: str
    understood: bool = True
    lines: int = 1


class Snapshot(Struct, frozen=True, kw_only=True):
    """A captured environment, without values of secrets.

    Names of secrets stay, and values are dropped while reading.

    `digest` is the sha256 (hex) of the captured content without its secrets. `absent` names the kinds of file
    (`requirements.txt`, ...) that the chapter's recipe writes and the directory does not hold. `captured` is the
    document of `reprobuild capture`: whole repositories, and original paths. `unlisted` are the lines that `pip freeze
    --all` adds to the freeze. `unfrozen` are names of distributions that the capture found in the environment and the
    freeze does not list. `imported` are the facts of `import.json`, None for a captured snapshot. `conda_requests` are
    those of a file that does not say what conda installed; `conda_beside` are those that a freeze beside the file does
    not answer.
    """

    digest: str
    requirements: tuple[Requirement, ...] = ()
    packages: tuple[SystemPackage, ...] = ()
    variables: tuple[Variable, ...] = ()
    modules: tuple[Module, ...] = ()
    patches: tuple[Patch, ...] = ()
    remarks: tuple[ParseNote, ...] = ()
    absent: tuple[str, ...] = ()
    captured: CaptureFacts | None = None
    conda: tuple[CapturedCondaPackage, ...] = ()
    rpms: tuple[RpmPackage, ...] = ()
    reports: tuple[MachineReport, ...] = ()
    apt_lists: tuple[AptList, ...] = ()
    unlisted: tuple[Requirement, ...] = ()
    unfrozen: tuple[str, ...] = ()
    imported: ImportFacts | None = None
    conda_requests: tuple[CondaRequest, ...] = ()
    conda_beside: tuple[CondaRequest, ...] = ()

    def __str__(self) -> str:
        """Return a line for `print`: all values, as `repr` has them, take pages."""
        return (
            f"<Snapshot {self.digest[:12]}: {len(self.requirements)} requirements, "
            f"{len(self.packages)} system packages, {len(self.conda)} conda packages, "
            f"{len(self.variables)} variables, {len(self.patches)} patches>"
        )
