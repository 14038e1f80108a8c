"""Resolution of a snapshot and decisions to a lock.

It calls the parts of this package in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.config.profiles import DEFAULT, suggest_profiles
from reprobuild.config.services import Service, change_addresses
from reprobuild.ecosystems.pypi.requires import with_requires
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.display import display_error
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.strings import AbsolutePath, is_valid
from reprobuild.lock.consistent import check_readable
from reprobuild.lock.distributions import distributions
from reprobuild.lock.file import VERSION
from reprobuild.lock.model import Lock, Workload
from reprobuild.lock.python import Interpreter, Source
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.requirements import find_conflicts, shorten_conflicts
from reprobuild.lock.system import EPOCH, Artefact, Base
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.accepted_words import (
    check_accepted_classes,
    check_accepted_words,
    check_words_early,
    describe_unknown_word,
    find_unknown_words,
)
from reprobuild.resolve.ages.past_releases import PastReleases
from reprobuild.resolve.architecture import MACHINES, captured_platform, check_platform
from reprobuild.resolve.as_of import solve_open_lines
from reprobuild.resolve.base_and_python import ResolvedBase, ResolveRequest, find_base_and_python
from reprobuild.resolve.base_packages import add_libraries
from reprobuild.resolve.builds.build_base import choose_build_base
from reprobuild.resolve.builds.build_requires import BuildWheelSource, lock_build_wheels
from reprobuild.resolve.builds.extensions import Toolkit
from reprobuild.resolve.completeness import rule_list
from reprobuild.resolve.conda.add import add_conda
from reprobuild.resolve.conda.solve_requests import solve_conda_requests
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.cuda.evidence import rule_cuda
from reprobuild.resolve.environment.mentions import describe_mentions
from reprobuild.resolve.environment.path_mapping import PathMap, unquote_directory
from reprobuild.resolve.environment.triage import triage_snapshot
from reprobuild.resolve.failures import raise_all
from reprobuild.resolve.interpreter.choice import resolve_interpreter, rule_guessed_python
from reprobuild.resolve.interpreter.evidence import PythonEvidence, describe_unused_modules, gather_evidence
from reprobuild.resolve.interpreter.other_pip import rule_other_pip
from reprobuild.resolve.line_resolutions import exclude_unlisted, rule_dropped, rule_unread
from reprobuild.resolve.markers import select_environment_lines
from reprobuild.resolve.override_secrets import refuse_secrets
from reprobuild.resolve.python.base_distributions import OF_BASE, Below
from reprobuild.resolve.python.context import make_file_lists, make_line_context
from reprobuild.resolve.python.prebuilt import use_prebuilt_wheels
from reprobuild.resolve.python.python_versions import common_pythons, pinned_pythons
from reprobuild.resolve.python.resolve import resolve_requirements
from reprobuild.resolve.python.unreachable import Lost, check_availability
from reprobuild.resolve.readiness import add_questions, list_questions
from reprobuild.resolve.source_lines import name_repositories, try_sources
from reprobuild.resolve.sources.captured_checks import list_file_errors
from reprobuild.resolve.system.sonames import glibc_of
from reprobuild.resolve.unused_overrides import describe_misspelt_words, describe_unused_overrides
from reprobuild.resolve.vendor.hints import base_hint, cuda_hint, find_origin, loses_cuda
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers.pip_freeze_unique import list_extras
from reprobuild.store.fetch import fetch


def resolve_snapshot(snapshot: Snapshot, decisions: Decisions, context: ResolveContext) -> Lock:
    """Pin every captured line, or give the reason against it.

    Raises:
        LockError: a line cannot be decided, is unavailable, or differs and was not accepted. For a snapshot from inside
            a vendor's image, the hint names that image first.
        FetchError: a file or an index is unavailable.
        SnapshotError: a file of a captured repository is damaged or missing.
        UsageError: a decision holds a secret, or `accept` has a word that accepts nothing.
    """
    refuse_secrets(decisions)
    check_words_early(decisions, snapshot)
    check_availability(list_file_errors(snapshot, context.captured, decisions.drop), (), ())
    services = change_addresses(context.services, decisions.services)
    context = msgspec.structs.replace(context, services=services)
    try:
        lock = _resolve(snapshot, decisions, context)
    except (LockError, FetchError) as err:
        first = base_hint(snapshot, decisions.base, services)
        if not first and loses_cuda(err):
            first = cuda_hint(snapshot, decisions.base, services)
        if err.options:  # the hint repeats the command
            err.omitted = tuple(find_unknown_words(decisions, snapshot, err.refused))
        err.hint = "\n".join(filter(None, [first, *map(describe_unknown_word, err.omitted), err.hint]))
        raise
    check_accepted_words(decisions, snapshot, lock.rulings)
    return lock


def _resolve(snapshot: Snapshot, decisions: Decisions, context: ResolveContext) -> Lock:
    platform = check_platform(decisions.platform) if decisions.platform else captured_platform(snapshot)
    original, stated = snapshot, decisions
    conda = solve_conda_requests(snapshot, decisions, platform, context)
    if conda.reasons:  # the chosen Python is that of the decision
        snapshot, decisions = conda.snapshot, msgspec.structs.replace(decisions, python=None)
    evidence, machine = gather_evidence(snapshot), MACHINES[platform][1]
    try:
        interpreter = resolve_interpreter(evidence, decisions.python)
    except LockError as err:
        raise _add_other_questions(err, snapshot, decisions, machine, context) from None
    other_pip = rule_other_pip(snapshot)
    snapshot, elsewhere = select_environment_lines(snapshot, interpreter.version, machine, decisions.drop)
    snapshot = name_repositories(snapshot, decisions, context)
    files = make_file_lists(decisions, context.services, context)
    lost: tuple[Lost, ...] = ()
    try:
        solved = solve_open_lines(snapshot, decisions, interpreter.version, machine, files, context)
        subject = _make_request(solved.snapshot, decisions, platform, evidence, interpreter)
        subject = add_conda(subject, conda, context)
        for remark in (
            *describe_unused_modules(evidence),
            *describe_unused_overrides(decisions, solved.snapshot),
        ):
            context.say(f"warning: {remark}")
        lost = subject.conda.lost if subject.conda else ()
        ground = find_base_and_python(subject, files, context)
    except (LockError, FetchError) as err:
        raise_all((*lost, err), snapshot, decisions, files, context)
        raise
    snapshot = solved.snapshot
    base, interpreter = ground.base, ground.interpreter

    target = WheelTarget(
        python=interpreter.version, glibc=base_glibc(base), machine=subject.machine,
        free_threaded=interpreter.free_threaded,
    )  # fmt: skip
    context.say(f"python: {len(subject.lines)} lines of the freeze, for Python {target.python}")
    below = _base_distributions(subject, ground, context.services)
    known = make_line_context(snapshot, context.services, base, context, below)
    python = resolve_requirements(subject.lines, files, target, known)
    if any(ruling.kind == OF_BASE for ruling in python.rulings):
        interpreter = msgspec.structs.replace(interpreter, shared=True)
    rulings = solved.mark(exclude_unlisted(python.rulings, snapshot))
    python = msgspec.structs.replace(python, rulings=rulings)
    tried = try_sources(snapshot, decisions, context)
    others = [
        *subject.triage.rulings,
        *ground.rulings,
        *rule_guessed_python(
            evidence,
            decisions.python,
            ground.interpreter,
            lambda: common_pythons(subject.lines, files, target, wheels_only=True),
        ),
        *tried.rulings,
        *rule_dropped(snapshot, decisions.drop),
        *rule_unread(snapshot),
        *other_pip,
        *elsewhere,
        *solved.rulings,
        *(subject.conda.too_new(base_glibc(base)) if subject.conda else ()),
    ]
    files.save()
    check_availability(
        (*ground.lost, *lost, *python.lost, *tried.refused),
        [*others, *python.rulings, *ground.packages],
        decisions.accept,
    )
    accept_deviations(
        [*others, *python.rulings, *ground.packages], decisions.accept, python.pythons
    )  # before the wheels are fetched
    check_accepted_classes(decisions, original, [*others, *python.rulings, *ground.packages])
    sources = tried.sources
    for remark in describe_mentions(subject.triage.rulings, sources, context.store):
        context.say(f"warning: {remark}")
    python = use_prebuilt_wheels(python, _index_names(subject), target, context.services, context)
    base, libraries = add_libraries(ground, python.wheels, sources, subject, context)
    cuda = rule_cuda(snapshot, python.wheels, base, context.store, context.say)
    toolkit = Toolkit(
        version=cuda[0].reason.partition(":")[0] if cuda else "", packages=frozenset(base.installed),
        image=decisions.build_image is not None,
    )  # fmt: skip
    linked = subject.conda.distributions if subject.conda else {}
    shelf = BuildWheelSource(
        files, target, context.store, make_fetcher(context), python.wheels, toolkit, linked,
        PastReleases(solved.moment, files, context, (target.python, subject.machine)) if solved.moment else None,
    )  # fmt: skip
    built = lock_build_wheels(sources, python.sdists, decisions.build, shelf)
    files.save()
    rulings = accept_deviations(
        [*others, *python.rulings, *libraries, *cuda, *built.rulings], decisions.accept
    )
    lock = Lock(
        version=VERSION,
        snapshot=snapshot.digest,
        platform=subject.platform,
        epoch=max((source.epoch for source in sources), default=EPOCH),
        seed=decisions.seed,
        profile=decisions.profile or DEFAULT,
        interpreter=interpreter,
        base=base,
        wheels=(
            *with_requires(python.wheels, target, context.store, list_extras(subject.lines)),
            *built.wheels,
        ),
        sources=built.sources,
        sdists=built.sdists,
        build_base=choose_build_base(subject, ground.system, base, interpreter, built.packages, context),
        conda=subject.conda.packages if subject.conda else (),
        environment=subject.triage.settings,
        workdir=_choose_workdir(snapshot, subject.triage.places, sources),
        workload=_workload(decisions),
        decisions=_record_decisions(stated),
        rulings=rulings,
    )
    rulings = accept_deviations([*lock.rulings, *rule_list(snapshot, lock)], decisions.accept)
    lock = msgspec.structs.replace(lock, rulings=rulings)
    for remark in describe_misspelt_words(decisions, rulings):
        context.say(f"warning: {remark}")
    for conflict in shorten_conflicts(find_conflicts(lock)):
        context.say(f"warning: {conflict}")
    for suggestion in suggest_profiles(distributions(lock), lock.profile):
        context.say(f"note: {suggestion}")
    return check_readable(lock)


def _add_other_questions(
    err: LockError, snapshot: Snapshot, decisions: Decisions, machine: str, context: ResolveContext
) -> LockError:
    """Return the error of an unknown Python with the other questions, and with the newest that the pins allow."""
    files = make_file_lists(decisions, context.services, context)
    lines = [line for line in snapshot.requirements if not is_named(line.name, decisions.drop)]
    pinned = pinned_pythons(lines, files, machine)
    files.save()
    return add_questions(err, list_questions(snapshot, decisions, pinned))


def _base_distributions(
    subject: ResolveRequest, ground: ResolvedBase, services: Mapping[str, Service]
) -> Below:
    """Return the distributions of the base's image, if they are visible.

    They are visible if the environment is of that image's Python.
    """
    image, interpreter = ground.base.image, ground.interpreter
    if image is None or interpreter.kind != "system":
        return Below()
    origin = find_origin(subject.snapshot, services)
    same = origin is not None and origin.whole and image.reference.partition("@")[0] == origin.reference
    return Below(
        image=image.reference, distributions=ground.system.distributions(interpreter.minor), same=same
    )


def _make_request(
    snapshot: Snapshot,
    decisions: Decisions,
    platform: str,
    evidence: PythonEvidence,
    interpreter: Interpreter,
) -> ResolveRequest:
    architecture, machine = MACHINES[platform]
    every = (*snapshot.requirements, *snapshot.unlisted)
    lines = (line for line in every if not is_named(line.name, decisions.drop))
    return ResolveRequest(
        snapshot=snapshot, decisions=decisions, platform=platform, architecture=architecture, machine=machine,
        evidence=evidence, interpreter=interpreter, triage=triage_snapshot(snapshot, decisions),
        lines=tuple(line for line in lines if line.kind not in ("editable", "vcs")),
    )  # fmt: skip


def _index_names(subject: ResolveRequest) -> set[str]:
    """Return the names to look up on an index.

    Names with a build override are left out.
    """
    decided = {canonicalize_name(name) for name in subject.decisions.build}
    return {str(canonicalize_name(line.name)) for line in subject.lines if line.kind == "index"} - decided


def base_glibc(base: Base) -> tuple[int, int]:
    """Return the version of a base's C library.

    Raises:
        LockError: it has none.
    """
    if "libc6" not in base.installed:
        raise LockError("the base has no libc6", hint="choose another with --base")
    version = glibc_of(base.installed["libc6"])
    if version is None:
        raise LockError(
            f"the base has libc6 {base.installed['libc6']}, which is no version of the GNU C library",
            hint="choose another with --base",
        )
    return version


def make_fetcher(context: ResolveContext) -> Callable[[Artefact], None]:
    """Return a function that fetches a file into the store."""

    def bring(artefact: Artefact) -> None:
        fetch([artefact], context.store, context.net)

    return bring


def _choose_workdir(snapshot: Snapshot, places: PathMap, sources: Sequence[Source]) -> str:
    """Return the working directory of commands.

    It is that of the job, or else the only source.
    """
    command = snapshot.captured.command if snapshot.captured else None
    directory = places.move(unquote_directory(command.folder)) if command and command.folder else None
    if (
        directory
        and directory.isprintable()
        and is_valid(directory, AbsolutePath)
        and directory == directory.rstrip(" \\")
    ):
        return directory
    if snapshot.captured is None:  # a source that is not installed is the job's own code
        sources = [source for source in sources if not source.installed] or sources
    return sources[0].path if len(sources) == 1 else "/workspace"


def _record_decisions(decisions: Decisions) -> RecordedDecisions:
    try:
        return decode_value(decisions.lock_document(), RecordedDecisions)
    except msgspec.ValidationError as err:
        raise LockError(
            f"a lock cannot hold a decision: {display_error(err)}", hint="write it in printable words"
        ) from None


def _workload(decisions: Decisions) -> Workload | None:
    chosen = decisions.workload
    return Workload(command=chosen.command, outputs=chosen.outputs) if chosen else None
