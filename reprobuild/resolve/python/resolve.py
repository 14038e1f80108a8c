"""Resolution of a freeze's lines to exact files.

The files have the captured version, for the captured interpreter.

A freeze is closed: versions are not resolved again, and dependencies are not followed. `classify` decides the source of
a line, `ecosystems.pypi.choose` the file of an index, `archives` the lines that name one file, and `rulings` has the
texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType

import msgspec
from msgspec import UNSET, Struct
from packaging.utils import canonicalize_name

from reprobuild.config.services import Service
from reprobuild.ecosystems.pypi.choose import ChosenFile, choose_file, filter_by_hash, with_hash
from reprobuild.ecosystems.pypi.files import Bring, FileLists, IndexOffer
from reprobuild.ecosystems.pypi.simple_api import NoListError
from reprobuild.ecosystems.pypi.target import WheelTarget as WheelTarget
from reprobuild.errors import FetchError
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Sdist, Wheel
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.resolve.python.archives import HashFile, resolve_archive
from reprobuild.resolve.python.base_distributions import Below, rule_base_distribution
from reprobuild.resolve.python.classify import Lookup, look_up_line
from reprobuild.resolve.python.python_versions import common_pythons
from reprobuild.resolve.python.rulings import (
    BROUGHT,
    BUILT,
    UNFIT,
    describe_choice,
    describe_missing_version,
    describe_yank,
    find_unlabelled_version,
    rule_ambiguous_index,
    rule_missing_hash,
    rule_other_hash,
    rule_unfit_files,
    rule_unknown_version,
    rule_unlisted_index,
)
from reprobuild.resolve.python.system_lines import rule_system_line
from reprobuild.snapshot.model import Requirement
from reprobuild.snapshot.parsers.conda_names import TORCH

WORKERS = 16  # most of the time is that of the remote index


class ResolvedLines(Struct, frozen=True, kw_only=True):
    """The resolution of a freeze: wheels, sources, and reasons.

    Sources are built once. Each line has one resolution.

    `pythons` are the `X.Y` with a file for every pinned release, if one has no file for the target. `lost` are the
    machine's own indexes without a list: the resolutions lack the lines that could not be looked up.
    """

    wheels: tuple[Wheel, ...]
    sdists: tuple[Sdist, ...]
    rulings: tuple[Resolution, ...]
    pythons: tuple[str, ...] = ()
    lost: tuple[NoListError, ...] = ()


class LineContext(Struct, frozen=True, kw_only=True):
    """Context for resolving the lines of a freeze.

    `packages` are the captured system packages, `base` those of the image, each with its version; `image` is the image
    that the base begins with, if any, and `below` are the distributions that pip installed into it. `bring` fetches a
    file of unknown hash, and `hash_file` returns another hash of it; `earlier` describes files of a distribution and
    version in earlier locks.
    """

    services: Mapping[str, Service]
    bring: Bring
    packages: Mapping[str, str] = MappingProxyType({})
    base: Mapping[str, str] = MappingProxyType({})
    image: str = ""
    apart: bool = False
    below: Below = Below()
    earlier: Callable[[str, str], str] = lambda name, version: ""
    hash_file: HashFile = lambda sha256, algorithm: ""


def resolve_requirements(
    requirements: Iterable[Requirement], files: FileLists, target: WheelTarget, context: LineContext
) -> ResolvedLines:
    """Find the files of all lines with a version on an index.

    conda's own build of a distribution is on no index. If its version is known, the wheel of the same version replaces
    it, which must be accepted (`conda-build`).

    Args:
        requirements: lines of every kind but `editable` and `vcs`, which are sources.
        files: the file lists of the machine's indexes.
        target: the target that the wheels must fit.
        context: the system packages, the services, and the function that fetches a file.

    Raises:
        FetchError: the network is forbidden.
    """
    lines = tuple(requirements)
    finder = _Finder(files, target, context)
    with ThreadPoolExecutor(WORKERS) as pool:
        answers = [answer for answer in pool.map(finder.find, lines) if answer is not None]
    unfit = any(ruling.kind in UNFIT for _, ruling in answers)
    return ResolvedLines(
        wheels=tuple(wheel for wheel, _ in answers if isinstance(wheel, Wheel)),
        sdists=tuple(sdist for sdist, _ in answers if isinstance(sdist, Sdist)),
        rulings=tuple(ruling for _, ruling in answers),
        pythons=common_pythons(lines, files, target) if unfit else (),
        lost=finder.lost(),
    )


Answer = tuple["Wheel | Sdist | None", Resolution]
_WITHOUT_FILE = {
    "source": "is locked as a source, which needs its repository",
    "folder": "it was installed from a directory, which is in no file of the snapshot; if that is a repository, "
    "name it with --source NAME=PATH@COMMIT",
    "conda": "conda wrote its own build path; the version is in no file of the snapshot",
}


class _Finder:
    def __init__(self, files: FileLists, target: WheelTarget, context: LineContext) -> None:
        self._files, self._target, self._context = files, target, context
        self._unasked: list[
            tuple[str, NoListError]
        ] = []  # names of lines, and the index that gave no list of them

    def find(self, line: Requirement) -> Answer | None:
        """Resolve one line; return None if an index gives no list.

        The index is one of the machine.

        Such an index loses all lines, and the lock with them, so a resolution of each would add no information. Other
        lines are still looked up: one run names all unavailable files.
        """
        try:
            package, ruling = self._find(line)
        except NoListError as err:
            service = self._lost_service(line) if self._files.is_common(err) else err
            if service is None:
                self._unasked.append((line.name, err))
                return None
            package, ruling = None, rule_unlisted_index(line, service)
        return package, ruling if package else rule_base_distribution(line, ruling, self._context.below)

    def _lost_service(self, line: Requirement) -> NoListError | None:
        """Return the error of a service for a line's version, if any.

        A service has this error if it gives no list, either.
        """
        try:
            self._files.service_offers(line.name, line.version or "")
        except NoListError as err:
            return err
        return None

    def lost(self) -> tuple[NoListError, ...]:
        """Return an error for each of the machine's indexes without a list.

        Those of one project come first, in the order of the indexes. Errors of equal text are merged.
        """
        unasked = sorted(self._unasked, key=lambda answer: answer[0])
        errors = {str(err): err for err in self._files.lost(unasked[0][0])} if unasked else {}
        for _, err in unasked:
            errors.setdefault(str(err), err)
        return tuple(errors.values())

    def _find(self, line: Requirement) -> Answer:
        context = self._context
        if line.kind == "index" and line.version and canonicalize_name(line.name) in TORCH:
            return self._resolve_torch(line)
        lookup = look_up_line(line, context.packages, context.services, apart=context.apart)
        if self._files.decided_index(line.name) and line.kind == "index" and line.version:
            return self._resolve_from_index(line, Lookup(where="index"))
        if lookup.where in ("address", "local file"):
            return resolve_archive(line, self._files, self._target, context.bring, context.hash_file)
        if lookup.where in ("index", "rule"):
            return self._resolve_from_index(line, lookup)
        if lookup.where == "conda" and line.version:
            return self._resolve_conda_build(line, lookup)
        return None, self._rule_without_file(line, lookup)

    def _rule_without_file(self, line: Requirement, lookup: Lookup) -> Resolution:
        if lookup.where in ("dropped", "interpreter"):
            kind = "leftover" if lookup.where == "dropped" else "interpreter"
            return make_resolution(line, "excluded", f"dropped: {lookup.why}", kind)
        if lookup.where in ("system", "vendor"):
            return rule_system_line(
                line, lookup, self._context.base, self._context.image, self._context.below
            )
        reason = lookup.why or _WITHOUT_FILE[lookup.where]
        return make_resolution(line, "unresolved", reason, f"{line.kind}-line")

    def _resolve_from_index(self, line: Requirement, lookup: Lookup) -> Answer:
        version = line.version or ""
        offers = self._filter_by_hash(line, self._files.offers(line.name, version))
        choice = choose_file(offers, self._files, self._target)
        if choice is None or not choice.file.is_wheel:
            choice, offers = self._by_rule(line, choice, offers)
        if choice is not None and (choice.clash or choice.rival):
            return None, rule_ambiguous_index(line, choice, self._files.facts_of)
        if choice is not None:
            return self._locked(line, choice)
        if any(offer.files for offer in offers):
            return None, rule_unfit_files(line, self._target, offers)
        if line.hashes and (others := self._files.list_files(line.name, version)):
            return None, rule_other_hash(line, others)
        if lookup.instead:
            return None, rule_system_line(line, lookup, self._context.base, self._context.image)
        versions = self._files.versions(line.name, version)
        if other := find_unlabelled_version(versions, version):
            return self._other_label(line, lookup, other, versions)
        more = self._files.refused(line.name, version) + self._context.earlier(line.name, version)
        return None, rule_unknown_version(line, versions, lookup, more)

    def _filter_by_hash(self, line: Requirement, offers: list[IndexOffer]) -> list[IndexOffer]:
        hashes = line.hashes
        return [filter_by_hash(offer, hashes, self._files) for offer in offers] if hashes else offers

    def _by_rule(
        self, line: Requirement, choice: ChosenFile | None, offers: list[IndexOffer]
    ) -> tuple[ChosenFile | None, list[IndexOffer]]:
        """Search the services of a rule for a file.

        If an index has only a source, which may just download a wheel, they may have the wheel.
        """
        more = self._filter_by_hash(line, self._files.service_offers(line.name, line.version or ""))
        alternative = choose_file([*more, *offers], self._files, self._target)
        if (
            alternative is None
            or not alternative.place.ruled
            or (choice is not None and not alternative.file.is_wheel)
        ):
            return choice, [*offers, *more]
        passed = (*(offer for offer in offers if offer.known), *alternative.passed)
        return msgspec.structs.replace(alternative, passed=passed), [*offers, *more]

    def _other_label(self, line: Requirement, lookup: Lookup, other: str, versions: Sequence[str]) -> Answer:
        """Use the same version without its label, and list alternatives.

        This must be accepted.
        """
        package, ruling = self._resolve_from_index(msgspec.structs.replace(line, version=other), lookup)
        description = describe_missing_version(line, versions, lookup)
        if package is None:
            return None, msgspec.structs.replace(ruling, reason=f"{description}; {ruling.reason}")
        reason = f"{description}; {other} stands in: {ruling.reason}"
        return package, make_resolution(line, "replaced", reason, "other-local-version")

    def _locked(self, line: Requirement, choice: ChosenFile) -> Answer:
        try:
            known = self._files.hash_of(choice.file) is not None
            file = self._files.artefact(choice.file)
        except FetchError as err:
            if choice.file.url.startswith(
                "file:"
            ):  # a directory of this machine lacks a file of its own page
                raise
            return None, rule_missing_hash(line, choice.file, err)
        if not known:
            choice = with_hash(choice, file.sha256, self._files)
            if choice.clash is not None:
                return None, rule_ambiguous_index(line, choice, self._files.facts_of)
            if line.hashes and file.sha256 not in line.hashes:
                return None, rule_other_hash(line, [choice.file])
        reason = describe_choice(choice, line, decided=self._files.decided_index(line.name) is not None)
        reason += ("" if known else BROUGHT) + self._files.refused(line.name, line.version or "")
        item, name = choice.file, canonicalize_name(line.name)
        yanked = describe_yank(item)
        if item.is_wheel:
            wheel = Wheel(name=name, version=line.version or "", role="environment", file=file, yanked=yanked)
            return wheel, make_resolution(line, "pinned", reason)
        sdist = Sdist(name=name, version=line.version or "", file=file, yanked=yanked)
        return sdist, make_resolution(line, "pinned", f"{reason}{BUILT}")

    def _resolve_torch(self, line: Requirement) -> Answer:
        """Use the wheel of torch for conda's name of it.

        This must be accepted.
        """
        renamed = msgspec.structs.replace(line, name="torch")
        package, ruling = self._resolve_from_index(renamed, look_up_line(renamed, {}, self._context.services))
        reason = f"{line.name} is conda's name of torch: {ruling.reason}"
        if package is None:
            return None, msgspec.structs.replace(ruling, reason=reason)
        return package, make_resolution(renamed, "replaced", reason, "conda-build")

    def _resolve_conda_build(self, line: Requirement, lookup: Lookup) -> Answer:
        package, ruling = self._resolve_from_index(line, lookup)
        if package is None:
            return None, ruling
        source = f" ({line.version_from})" if line.version_from is not UNSET else ""
        reason = f"conda's build {line.version}{source} is replaced by the wheel of the same version: {ruling.reason}"
        return package, make_resolution(line, "replaced", reason, "conda-build")
