"""Snapshot plus decisions to Lock: the parts of this room in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec
from packaging.utils import canonicalize_name

from reprobuild.decisions import Decisions, is_named
from reprobuild.errors import LockError
from reprobuild.fetch import fetch
from reprobuild.guard.strings import AbsolutePath, is_valid
from reprobuild.lock import (
    EPOCH,
    VERSION,
    Artefact,
    Base,
    Lock,
    RecordedDecisions,
    Ruling,
    Source,
    Wheel,
    Workload,
    conflicts,
    distributions,
    in_short,
    readable,
)
from reprobuild.profiles import DEFAULT, suggestions
from reprobuild.resolve.acceptance import accept
from reprobuild.resolve.architecture import MACHINES, captured_platform, known_platform
from reprobuild.resolve.building.build_requires import Shelf, resolve_buildings
from reprobuild.resolve.building.devel import devel_base
from reprobuild.resolve.building.extensions import Toolkit
from reprobuild.resolve.building.prebuilt import with_prebuilt
from reprobuild.resolve.conda.environment import in_prefix
from reprobuild.resolve.conda.packages import resolve_conda
from reprobuild.resolve.cuda.evidence import rule_cuda
from reprobuild.resolve.decision_secrets import refuse_secrets
from reprobuild.resolve.freeze.asking import file_lists, known_of
from reprobuild.resolve.freeze.lines import Target, resolve_requirements
from reprobuild.resolve.freeze.markers import of_environment
from reprobuild.resolve.freeze.requires import with_requires
from reprobuild.resolve.ground import Ground, Subject, find_ground
from reprobuild.resolve.interpreter.choice import resolve_interpreter
from reprobuild.resolve.interpreter.evidence import not_used
from reprobuild.resolve.settings.places import Places, text_of
from reprobuild.resolve.sources.trees import Given, resolve_sources
from reprobuild.resolve.surroundings import Surroundings
from reprobuild.resolve.system.shared_libraries import asks, system_libraries, too_new
from reprobuild.resolve.system.sonames import glibc_of
from reprobuild.resolve.system.wheel_libraries import open_wheels
from reprobuild.resolve.triage import triage_snapshot
from reprobuild.resolve.unused import unused
from reprobuild.restore.places import Origin, of_this_machine, read_origin
from reprobuild.services import read_services
from reprobuild.snapshot.kinds import field_of, is_environment
from reprobuild.snapshot.model import Snapshot

_LISTS = ("requirements", "packages")  # of Snapshot; each line of them is a package


def resolve(snapshot: Snapshot, decisions: Decisions, around: Surroundings) -> Lock:
    """Pin every captured line, or say why not.

    Raises:
        LockError: something cannot be decided or had, or differs and was not accepted.
        UsageError: a decision holds a secret.
    """
    subject = _subject(snapshot, decisions)
    refuse_secrets(decisions)
    captured_python = subject.interpreter.version
    snapshot, elsewhere = of_environment(snapshot, captured_python, subject.machine, decisions.drop)
    if elsewhere:
        subject = _subject(snapshot, decisions)
    subject = _with_conda(subject, around)
    for remark in (*not_used(snapshot), *unused(decisions, snapshot)):
        around.say(f"warning: {remark}")
    services = read_services(decisions.services)
    files = file_lists(decisions, services, around)
    ground = find_ground(subject, files, around)
    base, interpreter = ground.base, ground.interpreter

    target = Target(
        python=interpreter.version, glibc=_glibc(base), machine=subject.machine,
        free_threaded=interpreter.free_threaded,
    )  # fmt: skip
    around.say(f"python: {len(subject.lines)} lines of the freeze, for Python {target.python}")
    python = resolve_requirements(subject.lines, files, target, known_of(snapshot, services, base, around))
    python = msgspec.structs.replace(python, rulings=without_unlisted(python.rulings, snapshot))
    sources, trees = lock_sources(snapshot, decisions, around)
    others = [
        *subject.triage.rulings,
        *ground.rulings,
        *trees,
        *_dropped(snapshot, decisions.drop),
        *_unread(snapshot),
        *elsewhere,
        *(subject.conda.too_new(_glibc(base)) if subject.conda else ()),
    ]
    files.save()
    accept(
        [*others, *python.rulings, *ground.packages], decisions.accept, python.pythons
    )  # before the wheels are fetched
    python = with_prebuilt(python, _of_index(subject), target, services, around)
    base, libraries = _with_libraries(ground, python.wheels, subject, around)
    cuda = rule_cuda(snapshot, python.wheels, base, around.store, around.say)
    toolkit = Toolkit(
        version=cuda[0].reason.partition(":")[0] if cuda else "", packages=frozenset(base.installed),
        image=decisions.devel is not None,
    )  # fmt: skip
    linked = subject.conda.distributions if subject.conda else {}
    shelf = Shelf(files, target, around.store, _fetcher(around), python.wheels, toolkit, linked)
    built = resolve_buildings(sources, python.sdists, decisions.build, shelf)
    files.save()
    lock = Lock(
        version=VERSION,
        snapshot=snapshot.digest,
        platform=subject.platform,
        epoch=max((source.epoch for source in sources), default=EPOCH),
        seed=decisions.seed,
        profile=decisions.profile or DEFAULT,
        interpreter=interpreter,
        base=base,
        wheels=(*with_requires(python.wheels, target, around.store), *built.wheels),
        sources=built.sources,
        sdists=built.sdists,
        devel=devel_base(subject, ground.system, base, interpreter, built.packages, around),
        conda=subject.conda.packages if subject.conda else (),
        environment=subject.triage.settings,
        workdir=_workdir(snapshot, subject.triage.places, sources),
        workload=_workload(decisions),
        decisions=_recorded(decisions),
        rulings=accept([*others, *python.rulings, *libraries, *cuda], decisions.accept),
    )
    for conflict in in_short(conflicts(lock)):
        around.say(f"warning: {conflict}")
    for suggestion in suggestions(distributions(lock), lock.profile):
        around.say(f"note: {suggestion}")
    return readable(lock)


def _with_conda(subject: Subject, around: Surroundings) -> Subject:
    """Return the subject with conda's packages, and the lines that are left for wheels."""
    conda = resolve_conda(subject.snapshot, subject.decisions, subject.platform, subject.lines, around)
    if conda is None:
        return subject
    triage = in_prefix(subject.triage, subject.snapshot, conda.activated)
    triage = msgspec.structs.replace(triage, rulings=(*triage.rulings, *conda.rulings))
    return msgspec.structs.replace(
        subject, conda=conda, lines=conda.lines, interpreter=conda.interpreter, triage=triage
    )


def _subject(snapshot: Snapshot, decisions: Decisions) -> Subject:
    platform = known_platform(decisions.platform) if decisions.platform else captured_platform(snapshot)
    architecture, machine = MACHINES[platform]
    every = (*snapshot.requirements, *snapshot.unlisted)
    wanted = (line for line in every if not is_named(line.name, decisions.drop))
    return Subject(
        snapshot=snapshot, decisions=decisions, platform=platform, architecture=architecture, machine=machine,
        interpreter=resolve_interpreter(snapshot, decisions.python), triage=triage_snapshot(snapshot, decisions),
        lines=tuple(line for line in wanted if line.kind not in ("editable", "vcs")),
    )  # fmt: skip


def _with_libraries(
    ground: Ground, wheels: Sequence[Wheel], subject: Subject, around: Surroundings
) -> tuple[Base, list[Ruling]]:
    """Return the base with what the wheels' own shared libraries need, and the rulings of packages and libraries."""
    system, base, packages = ground.system, ground.base, ground.packages
    missing = [wheel.file for wheel in wheels if not around.store.has(wheel.file.sha256)]
    fetch(missing, around.store, around.net, around.progress)
    around.say("system: what the shared libraries of the wheels need")
    opened = open_wheels(wheels, subject.machine, around.store)
    needed, drop = asks(opened), subject.decisions.drop
    libraries, _ = system_libraries(needed, subject.snapshot, system.index, base, drop)
    if libraries:
        around.say(f"system: {len(libraries)} packages more, for the wheels' shared libraries")
        base, packages = system.pin(libraries)
    _, left_out = system_libraries(needed, subject.snapshot, system.index, base, drop)
    return base, [*packages, *left_out, *too_new(opened, base)]


def lock_sources(
    snapshot: Snapshot, decisions: Decisions, around: Surroundings
) -> tuple[tuple[Source, ...], tuple[Ruling, ...]]:
    """Make the source trees of a snapshot, and put them into the store."""
    lines = tuple(
        line for line in snapshot.requirements
        if line.kind in ("editable", "vcs") and not is_named(line.name, decisions.drop)
    )  # fmt: skip
    if lines:
        around.say("sources: " + ", ".join(line.name for line in lines))
    origins: dict[str, Origin] = {
        canonicalize_name(name): read_origin(place, around.folder, confirmed=name not in around.doubted)
        for name, place in decisions.sources.items()
    }
    for place in of_this_machine(origins):
        around.say(f"sources: {place}")
    given = Given(
        patches=snapshot.patches, origins=origins, store=around.store, env=around.env, captured=snapshot.captured,
        folder=around.captured, drop=decisions.drop, accept=decisions.accept,
    )  # fmt: skip
    return resolve_sources(lines, given)


def _of_index(subject: Subject) -> set[str]:
    """Return what an index is asked for, without what the user decides how to build."""
    decided = {canonicalize_name(name) for name in subject.decisions.build}
    return {str(canonicalize_name(line.name)) for line in subject.lines if line.kind == "index"} - decided


def _glibc(base: Base) -> tuple[int, int]:
    if "libc6" not in base.installed:
        raise LockError("the base has no libc6", hint="choose another with --base")
    found = glibc_of(base.installed["libc6"])
    if found is None:
        raise LockError(
            f"the base has libc6 {base.installed['libc6']}, which is no version of the GNU C library",
            hint="choose another with --base",
        )
    return found


def _fetcher(around: Surroundings) -> Callable[[Artefact], None]:
    def bring(artefact: Artefact) -> None:
        fetch([artefact], around.store, around.net)

    return bring


def _unread(snapshot: Snapshot) -> list[Ruling]:
    """Rule the lines of lists of packages that nobody understands: a package may have stood there."""
    conda = {package.place.file for package in snapshot.conda}
    if "requirements.txt" in snapshot.absent:  # nothing else tells what an environment.yml means
        conda |= {remark.place.file for remark in snapshot.remarks if is_environment(remark.place.file)}
    return [
        Ruling(
            file=remark.place.file, line=remark.place.line, subject=remark.place.file, outcome="unresolved",
            reason=f"{remark.reason}: {remark.text}", kind="unread-line",
        )
        for remark in snapshot.remarks
        if not remark.understood and remark.text
        and (field_of(remark.place.file) in _LISTS or remark.place.file in conda)
    ]  # fmt: skip


def _dropped(snapshot: Snapshot, drop: Collection[str]) -> list[Ruling]:
    return [
        _excluded(line.place.file, line.place.line, line.name, "dropped by decision", line.text)
        for line in (*snapshot.requirements, *snapshot.unlisted)
        if is_named(line.name, drop)
    ]


def without_unlisted(rulings: Iterable[Ruling], snapshot: Snapshot) -> tuple[Ruling, ...]:
    """Leave out the lines beside the freeze that no index has: a snapshot without capture.json has no such line."""
    beside = {(line.place.file, line.name) for line in snapshot.unlisted}
    return tuple(
        msgspec.structs.replace(ruling, outcome="excluded", kind="unlisted")
        if ruling.outcome == "unresolved" and (ruling.file, ruling.subject) in beside
        else ruling
        for ruling in rulings
    )


def _excluded(file: str, line: int, subject: str, reason: str, captured: str) -> Ruling:
    return Ruling(
        file=file, line=line, subject=subject, outcome="excluded", reason=reason, captured=captured, kind="decision"
    )  # fmt: skip


def _workdir(snapshot: Snapshot, places: Places, sources: Sequence[Source]) -> str:
    """Return where commands start: where the job did, else in the only source."""
    command = snapshot.captured.command if snapshot.captured else None
    found = places.move(text_of(command.folder)) if command and command.folder else None
    if found and found.isprintable() and is_valid(found, AbsolutePath) and found == found.rstrip(" \\"):
        return found
    if snapshot.captured is None:  # what is not installed is the job's own code
        sources = [source for source in sources if not source.installed] or sources
    return sources[0].path if len(sources) == 1 else "/workspace"


def _recorded(decisions: Decisions) -> RecordedDecisions:
    try:
        return msgspec.convert(decisions.recorded(), RecordedDecisions)
    except msgspec.ValidationError as err:
        raise LockError(f"a lock cannot hold a decision: {err}", hint="write it in printable words") from None


def _workload(decisions: Decisions) -> Workload | None:
    chosen = decisions.workload
    return Workload(command=chosen.command, outputs=chosen.outputs) if chosen else None
