"""The open questions of a snapshot, all at once, each with the option that answers it.

No network is used: `lock` may find more, such as a version that is gone.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.errors import LockError
from reprobuild.infra.display import escape_text
from reprobuild.lock.model import Resolution
from reprobuild.resolve.accepted_words import names_of
from reprobuild.resolve.as_of_moment import SOLVED, describe_moment, parse_moment
from reprobuild.resolve.environment.path_mapping import place_repositories, unquote_directory
from reprobuild.resolve.interpreter.choice import resolve_interpreter
from reprobuild.resolve.interpreter.evidence import gather_evidence
from reprobuild.resolve.interpreter.proposal import PythonLimits, propose_python
from reprobuild.resolve.line_resolutions import (
    CONDA_REQUEST,
    EXPORT,
    UNREAD,
    open_conda_requests,
    unread_remarks,
)
from reprobuild.resolve.markers import select_lines_if_known
from reprobuild.resolve.python.requirement_forms import suggest_requirement
from reprobuild.resolve.sources.captured_sources import rule_losses
from reprobuild.resolve.sources.resolutions import NO_SOURCE, split_branch
from reprobuild.resolve.system.missing_list import count_rpms, rule_missing_list
from reprobuild.snapshot.capture_model import CaptureFacts
from reprobuild.snapshot.model import Requirement, Snapshot
from reprobuild.snapshot.parsers.pip_freeze_unique import is_open
from reprobuild_portable.secrets import GONE

_OTHER_RAN = "if another Python ran, `python -V` in its environment prints the version for --python"
_SHOWN = 3  # names in one question
_OPTIONS = 8  # options of one question; for more names it has one with the placeholder NAME


class SnapshotQuestion(Struct, frozen=True, kw_only=True):
    """A question that only the user can answer.

    `text` is the question, `options` are command line options that answer it; capitals in them are for the user.
    """

    text: str
    options: tuple[str, ...]


def list_questions(
    snapshot: Snapshot, decisions: Decisions, pinned: Collection[str] | None = None
) -> tuple[SnapshotQuestion, ...]:
    """Return the open questions of a snapshot, in the order in which `lock` would ask them.

    Args:
        snapshot: the captured or imported lines.
        decisions: the overrides so far.
        pinned: the `X.Y` with a file for every pinned release; None if no index was asked.
    """
    return tuple(_questions(snapshot, decisions, pinned))


def add_questions(err: LockError, questions: Sequence[SnapshotQuestion]) -> LockError:
    """Return the error of the first question with the others, so that one run names all."""
    others = [question for question in questions if not question.text.startswith(_python_text(err))]
    first = "".join(question.text for question in questions if question not in others)
    proposal = first.removeprefix(_python_text(err)).removeprefix("; ")
    if not others and not proposal:
        return err
    begin = _OTHER_RAN if proposal else err.hint
    text, options = (
        str(err),
        " ".join(dict.fromkeys(option for question in questions for option in question.options)),
    )
    if proposal:
        text = f"{text}; {proposal}"
    if not others:
        return LockError(text, hint=f"{begin}; proposed: {options}", options=[options])
    lines = "".join(f"\n  {question.text}" for question in others)
    return LockError(
        f"{text}\nalso open:{lines}", hint=f"{begin}; all answers at once: {options}", options=[options]
    )


def _questions(
    snapshot: Snapshot, decisions: Decisions, pinned: Collection[str] | None
) -> Iterator[SnapshotQuestion]:
    selected, rulings = select_lines_if_known(snapshot, decisions)
    lines = [line for line in selected.requirements if not is_named(line.name, decisions.drop)]
    is_empty = (
        snapshot.captured and "requirements.txt" not in snapshot.absent
    )  # a Python without distributions
    requests = bool(snapshot.conda_requests) and CONDA_REQUEST not in decisions.accept
    if not (snapshot.requirements or snapshot.conda or is_empty or requests):
        yield SnapshotQuestion(
            text="no list of distributions: `pip freeze > requirements.txt` in the environment that ran writes it",
            options=(),
        )
    if not (
        requests and (_is_solved(snapshot, decisions) or open_conda_requests(snapshot))
    ):  # else conda's Python
        yield from _python_question(snapshot, decisions, pinned)
    yield from _open_lines(snapshot, lines, decisions)
    yield from _contradictions(rulings, decisions)
    yield from _local_sources(snapshot, lines, decisions)
    yield from _lost_files(snapshot, decisions)
    accepted = set(decisions.accept)
    yield from _unread_lines(snapshot, accepted)
    yield from _conda_requests(snapshot, decisions)
    yield from _missing_list(snapshot, accepted)


def _missing_list(snapshot: Snapshot, accepted: set[str]) -> Iterator[SnapshotQuestion]:
    """Yield the question for a snapshot without a list of apt's packages, such as that of an rpm host."""
    ruling, base = rule_missing_list(snapshot.rpms, ""), "the base will have what is needed, as it is now"
    if snapshot.packages or names_of(ruling) & accepted:
        return
    text = f"no list was captured; {base}"
    if snapshot.rpms:
        host = f"the host had {count_rpms(snapshot.rpms)} ({ruling.file})"
        text = f"{host}, and an image is of Debian or Ubuntu; {base}, and no package of rpm"
    yield SnapshotQuestion(text=f"system packages: {text}", options=("--accept no-apt-list",))


def _lost_files(snapshot: Snapshot, decisions: Decisions) -> Iterator[SnapshotQuestion]:
    """Yield the questions for files of captured repositories without their content."""
    if snapshot.captured is None:
        return
    accepted = set(decisions.accept)
    lost = [
        ruling
        for placed in place_repositories(snapshot.captured, snapshot.requirements, decisions.drop)
        for ruling in rule_losses(placed.repository, snapshot.captured)
        if not names_of(ruling) & accepted
    ]
    if not lost:
        return
    subjects = [ruling.subject for ruling in lost]
    words = dict.fromkeys(subjects) if len(subjects) <= _SHOWN else sorted({ruling.kind for ruling in lost})
    options = _capture_options(snapshot.captured, subjects)
    capture = f"if they are no secrets, `reprobuild capture {options} -o DIR` has them; " if options else ""
    if any(GONE in subject for subject in subjects):
        capture += f"rename each file that is shown with `{GONE}`, and capture again; "
    yield SnapshotQuestion(
        text=f"code: {_count(len(lost), 'file')} of a repository not captured ({_shorten(subjects)}): "
        f"{capture}to freeze without",
        options=tuple(f"--accept {shlex.quote(word)}" for word in words),
    )


def _capture_options(captured: CaptureFacts, subjects: Collection[str]) -> str:
    """Return the options of `capture` for files that were left out because they look like secrets.

    No option can name a path that is the secret: the capture has `***` in its place.
    """
    files = [
        f"{posixpath.basename(unquote_directory(repository.folder))}/{file.path}"
        for repository in captured.repositories
        for file in repository.left_out
        if file.reason == "secret"
        and GONE not in file.path
        and f"{repository.name}/{escape_text(file.path)}" in subjects
    ]
    return " ".join(f"--accept {shlex.quote(file)}" for file in files[:_SHOWN])


def _conda_requests(snapshot: Snapshot, decisions: Decisions) -> Iterator[SnapshotQuestion]:
    """Yield the question for open requests for conda; the first answer is an export of the environment."""
    accepted = set(decisions.accept)
    names = [
        request.name
        for request in open_conda_requests(snapshot)
        if not {CONDA_REQUEST, request.name, str(request.place)} & accepted
    ]
    if names and not _is_solved(snapshot, decisions):
        started = snapshot.imported.started if snapshot.imported else ""
        yield SnapshotQuestion(
            text=f"{_count(len(names), 'package')} asked of conda ({_shorten(names)}), and no file says what conda "
            f"installed: {EXPORT}; without that file, versions as of "
            f"{f'the start of the run, {started}' if started else 'a day'}",
            options=("--accept solved",) if started else ("--as-of DATE",),
        )


def _is_solved(snapshot: Snapshot, decisions: Decisions) -> bool:
    """Return whether versions are chosen as of a moment."""
    started = snapshot.imported and snapshot.imported.started
    return bool(decisions.as_of or (SOLVED in decisions.accept and started))


def _unread_lines(snapshot: Snapshot, accepted: Collection[str]) -> Iterator[SnapshotQuestion]:
    """Yield the questions for lines that name no package as they stand; the first answer is to correct them."""
    unread = [
        remark
        for remark in unread_remarks(snapshot)
        if not {UNREAD, f"{remark.place.file}:{remark.place.line}"} & set(accepted)
    ]
    meant = [(remark, suggest_requirement(remark.text)) for remark in unread]
    suggested = [pair for pair in meant if pair[1] is not None]
    for remark, suggestion in suggested[:_SHOWN]:
        place = f"{remark.place.file}:{remark.place.line}"
        yield SnapshotQuestion(
            text=f"{place} cannot be read: write {suggestion} in place of {remark.text}", options=()
        )
    others = [pair[0] for pair in meant if pair not in suggested[:_SHOWN]]
    if others:
        yield SnapshotQuestion(
            text=f"{_count(len(others), 'line')} of a list of packages cannot be read, the first "
            f"{others[0].place.file}:{others[0].place.line}: correct them, or leave them out",
            options=("--accept unread-line",),
        )


def _python_question(
    snapshot: Snapshot, decisions: Decisions, pinned: Collection[str] | None
) -> Iterator[SnapshotQuestion]:
    """Yield the question for the Python; without any evidence, with the newest that the facts allow."""
    evidence = gather_evidence(snapshot)
    try:
        resolve_interpreter(evidence, decisions.python)
    except LockError as err:
        limits = _python_limits(snapshot, decisions, pinned)
        proposal = None if evidence.pythons or evidence.system else propose_python(limits)
        if proposal is None:
            yield SnapshotQuestion(text=_python_text(err), options=err.options or ("--python X.Y.Z",))
            return
        text = f"{_python_text(err)}; {proposal.minor} is the newest {proposal.reason}"
        yield SnapshotQuestion(text=text, options=(f"--python {shlex.quote(proposal.minor)}",))


def _python_limits(snapshot: Snapshot, decisions: Decisions, pinned: Collection[str] | None) -> PythonLimits:
    facts = snapshot.imported
    date = decisions.as_of or (facts.started if facts else "")
    moment = parse_moment(date) if date else ""
    return PythonLimits(
        moment=moment, date=describe_moment(moment) if decisions.as_of else date,
        requires=facts.requires_python if facts else "", pinned=pinned,
        locked=not any(map(is_open, snapshot.requirements)),
    )  # fmt: skip


def _python_text(err: LockError) -> str:
    return f"Python: {err}"


def _contradictions(rulings: Sequence[Resolution], decisions: Decisions) -> Iterator[SnapshotQuestion]:
    """Yield the question for lines that contradict a pin of their name."""
    for ruling in rulings:
        if ruling.kind == "pinned-twice" and not names_of(ruling) & set(decisions.accept):
            yield SnapshotQuestion(
                text=f"versions: {ruling.place}: {ruling.reason}", options=("--accept pinned-twice",)
            )


def _open_lines(
    snapshot: Snapshot, lines: Sequence[Requirement], decisions: Decisions
) -> Iterator[SnapshotQuestion]:
    facts = snapshot.imported
    started = facts.started if facts else ""
    accepted = {SOLVED, "index-line"} & set(decisions.accept)
    names = list({_canonical(line): line.name for line in lines if is_open(line)}.values())
    names = [name for name in names if not is_named(name, decisions.accept)]
    if names and not decisions.as_of and not (accepted and (started or "index-line" in accepted)):
        moment = f"; the run started {started}" if started else ""
        yield SnapshotQuestion(
            text=f"versions: {_count(len(names), 'requirement')} without one ({_shorten(names)}){moment}",
            options=("--accept solved",) if started else ("--as-of DATE",),
        )


def _local_sources(
    snapshot: Snapshot, lines: Sequence[Requirement], decisions: Decisions
) -> Iterator[SnapshotQuestion]:
    """Yield the questions for installs from directories, unless a capture or a decision has them."""
    decided = {str(canonicalize_name(name)) for name in decisions.sources}
    open_lines = [
        line
        for line in lines
        if line.url is None
        and str(canonicalize_name(line.name)) not in decided
        and not is_named(line.name, decisions.accept)
        and not (snapshot.captured and snapshot.captured.find_installed_repository(_canonical(line)))
    ]
    names = [line.name for line in open_lines if line.kind == "editable"]
    if names:
        yield SnapshotQuestion(
            text=f"sources: {_count(len(names), 'editable install')} of a local directory ({_shorten(names)})",
            options=_source_options([(name, "PATH") for name in names]),
        )
    yield from _branches(lines, decided, decisions)
    names = [line.name for line in open_lines if line.kind == "directory"]
    if names and "directory-line" not in decisions.accept:
        yield SnapshotQuestion(
            text=f"sources: {_count(len(names), 'distribution')} of a local directory that is not captured "
            f"({_shorten(names)}); without a repository of it, --accept directory-line leaves it out of the image",
            options=_source_options([(name, "PATH") for name in names]),
        )


def _branches(
    lines: Sequence[Requirement], decided: Collection[str], decisions: Decisions
) -> Iterator[SnapshotQuestion]:
    """Yield the question for repositories of which the lines name no commit."""
    open_lines = [
        line
        for line in lines
        if line.kind == "vcs"
        and line.url
        and not line.commit
        and _canonical(line) not in decided
        and not is_named(line.name, decisions.accept)
        and NO_SOURCE not in decisions.accept
    ]
    if open_lines:
        places = [(line.name, *split_branch(line.url or "")) for line in open_lines]
        shown = [f"{name} of {branch}" if branch else name for name, _, branch in places]
        yield SnapshotQuestion(
            text=f"sources: {_count(len(places), 'repository', 'repositories')} without a commit ({_shorten(shown)})",
            options=_source_options([(name, place) for name, place, _ in places]),
        )


def _source_options(places: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return an option for each name and its place, or one for all of many names."""
    if len(places) > _OPTIONS:
        return ("--source NAME=PATH@COMMIT",)
    return tuple(f"--source {shlex.quote(name)}={shlex.quote(f'{place}@COMMIT')}" for name, place in places)


def _canonical(line: Requirement) -> str:
    return str(canonicalize_name(line.name))


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _count(number: int, word: str, plural: str = "") -> str:
    return f"{number} {word if number == 1 else plural or f'{word}s'}"
