"""Versions for requirements without one, as of a day in the past.

uv chooses them among the files that were on the index by then (`--exclude-newer`, which needs upload times:
https://docs.astral.sh/uv/concepts/resolution/#reproducible-resolutions). Captured versions stay as they are. A chosen
version is a `solved` line of the lock, never a captured one.
"""

from __future__ import annotations

import datetime
import re
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec
import tomli_w
from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import FetchError, LockError, UsageError
from reprobuild.infra.display import display_text
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.proc.own_python import own_module
from reprobuild.infra.proc.run import run
from reprobuild.lock.model import Resolution
from reprobuild.resolve.ages.dated_indexes import DatedIndexes, dated_indexes
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.misspelt import suggest_project
from reprobuild.resolve.static_requires import read_static_requires
from reprobuild.snapshot.model import Requirement, Snapshot, SourceLocation
from reprobuild_portable.secrets import redact

SOLVED = (
    "solved"  # the class by which `accept` names such lines, and their file if no captured line asks for them
)
_MOST_ARCHIVES = 100  # releases whose requirements are read here
_UNBUILT = re.compile(r"Failed to build `(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.!+_-]+)`")
_UNKNOWN = re.compile(r"Because (?P<name>[A-Za-z0-9._-]+) was not found in the package registry")
# Variables of uv's environment; a netrc file is not among them, because an index chooses the hosts of its files.
_KEPT = (
    "PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)")
_LABEL = re.compile(r"\+.*")  # a local version, which only the index of its build has
_OPTIONS = (
    "--no-header", "--no-annotate", "--no-cache", "--no-python-downloads", "--index-strategy", "unsafe-best-match",
    "--quiet", "--no-build-isolation",  # else uv runs code in an environment of its own, by another interpreter
)  # fmt: skip
# uv reads the requirements of most source archives from their files; for the rest it would run their code. This
# interpreter answers uv's question about itself, names itself in the answer, and runs nothing else.
_INTERPRETER = """\
#!/bin/sh
case "$1 $2 $3 $4" in
"-I -B -c import sys; sys.path = ["*"from python.get_interpreter_info import main; main()")
    exec {python} -I -B -c "import sys; sys.executable = sys._base_executable = {own!r}; $4" ;;
esac
echo "reprobuild runs no code of a source archive" >&2
exit 1
"""


class SolvedLines(Struct, frozen=True, kw_only=True):
    """A snapshot whose requirements have versions, and the reason for each chosen version by canonical name.

    `moment` is the moment of the choice, of RFC 3339; empty if none was made.
    """

    snapshot: Snapshot
    reasons: Mapping[str, str] = {}
    moment: str = ""

    def mark(self, rulings: Iterable[Resolution]) -> tuple[Resolution, ...]:
        """Return resolutions in which the pinned lines of chosen versions are `solved`."""
        return tuple(self._mark_one(ruling) for ruling in rulings)

    def _mark_one(self, ruling: Resolution) -> Resolution:
        reason = self.reasons.get(str(canonicalize_name(ruling.subject)))
        if reason is None or ruling.outcome not in ("pinned", "in base"):
            return ruling
        return msgspec.structs.replace(
            ruling, outcome="solved", kind=SOLVED, accepted=True, reason=f"{reason}; {ruling.reason}"
        )


def solve_open_lines(
    snapshot: Snapshot,
    decisions: Decisions,
    python: str,
    machine: str,
    files: FileLists,
    context: ResolveContext,
) -> SolvedLines:
    """Return the snapshot with a version for each requirement, as of a moment.

    Without a moment, or without an open line, the snapshot is returned as it is. The moment is the decision `as_of`,
    or the start of an imported run if the user accepts `solved`.

    Args:
        python: the version of the image's interpreter.
        machine: in the kernel's spelling, `x86_64`.
        files: the file lists of the machine's indexes.

    Raises:
        UsageError: the moment is not a date.
        LockError: no set of versions fits; the message is uv's.
        FetchError: the network is forbidden, or an index of this machine is unavailable.
    """
    moment, evidence = _choose_moment(snapshot, decisions)
    lines = [line for line in snapshot.requirements if not is_named(line.name, decisions.drop)]
    if not moment or not lines:
        return SolvedLines(snapshot=snapshot)
    if context.net.offline:
        raise FetchError("versions as of a date are chosen on the index, and --offline forbids it",
                         hint="leave --offline out, or write the versions into requirements.txt")  # fmt: skip
    names = sorted(line.name for line in lines if line.kind == "index")
    if lost := files.lost(names[0]) if names else []:  # uv names the first of them only
        raise lost[0]
    shown = describe_moment(moment)
    context.say(f"python: versions as of {shown} ({evidence}), by uv")
    with dated_indexes(moment, lines, files, context, (python, machine)) as dated:
        chosen = _compile(lines, moment, python, machine, files, context, dated)
    return msgspec.structs.replace(
        _apply(snapshot, chosen, f"as of {shown} ({evidence})", dated), moment=moment
    )


def parse_moment(text: str) -> str:
    """Return a date, or a date and time, as RFC 3339 in UTC; a date is the end of that day.

    Raises:
        UsageError: it is neither.
    """
    try:
        if _DAY.fullmatch(text):
            start = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc)
            return _format(start + datetime.timedelta(days=1))
        stated = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
        return _format(stated if stated.tzinfo else stated.replace(tzinfo=datetime.timezone.utc))
    except (ValueError, OverflowError):
        raise UsageError(
            f"{display_text(text)!r} is not a date", hint="write it as 2023-05-01 or 2023-05-01T12:00:00Z"
        ) from None


def parse_past_moment(text: str) -> str:
    """Return `parse_moment` of a user's date, or of its result; the end of this day counts as past.

    Raises:
        UsageError: it is no date, or in the future.
    """
    moment, now = parse_moment(text), datetime.datetime.now(datetime.timezone.utc)
    if moment > parse_moment(f"{now:%Y-%m-%d}"):
        raise UsageError(
            f"--as-of {shlex.quote(text)} is in the future: today is {now:%Y-%m-%d} (UTC)",
            hint="name the day of the run, or an earlier one",
        )
    return moment


def describe_moment(moment: str) -> str:
    """Return a moment of `parse_moment` for people: midnight is the end of the day before."""
    day, _, time = moment.partition("T")
    if time != "00:00:00Z" or day == "0001-01-01":
        return moment
    return f"the end of {datetime.date.fromisoformat(day) - datetime.timedelta(days=1)}"


def _format(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.timezone.utc).isoformat(timespec="seconds").replace("+00:00", "Z")


def _choose_moment(snapshot: Snapshot, decisions: Decisions) -> tuple[str, str]:
    """Return the moment and its evidence; both empty if the user asks for none."""
    if decisions.as_of:
        return parse_past_moment(decisions.as_of), "--as-of"
    facts = snapshot.imported
    if SOLVED in decisions.accept and facts and facts.started:
        return parse_moment(facts.started), f"the start of the run, {facts.started_from}"
    return "", ""


def _compile(
    lines: Sequence[Requirement],
    moment: str,
    python: str,
    machine: str,
    files: FileLists,
    context: ResolveContext,
    dated: DatedIndexes | None = None,
) -> dict[str, str]:
    """Return the version of each distribution by canonical name, as uv chooses them."""
    addresses = dated.addresses if dated else {}
    known: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="reprobuild-solve-") as name:
        folder = Path(name)
        (folder / "requirements.in").write_text("".join(f"{row}\n" for row in _inputs(lines)))
        interpreter = folder / "python"
        interpreter.write_text(_INTERPRETER.format(python=shlex.quote(sys.executable), own=str(interpreter)))
        interpreter.chmod(0o700)
        argv = own_module(
            "uv", "pip", "compile", "requirements.in", *_OPTIONS,
            "--python", str(interpreter), "--exclude-newer", moment, "--config-file", str(folder / "uv.toml"),
            "--python-version", python, "--python-platform", f"{machine}-unknown-linux-gnu",
        )  # fmt: skip
        for _ in range(_MOST_ARCHIVES):
            _write_settings(folder / "uv.toml", context.indexes, known, addresses)
            try:
                output = run(
                    argv, env=_environment(context.env, name, served=bool(addresses)), cwd=folder, timeout=1800,
                    purpose="choose versions as of a date",
                )  # fmt: skip
            except ProcessFailedError as err:
                _raise_index_error(dated)
                known.append(_read_archive_facts(err, moment, files, context, dated))
            else:
                break
        else:
            raise _solution_error(moment, f"more than {_MOST_ARCHIVES} releases have only a source archive")
    _raise_index_error(dated)
    pins = (_PIN.fullmatch(row.strip()) for row in output.decode(errors="replace").splitlines())
    return {str(canonicalize_name(pin["name"])): pin["version"] for pin in pins if pin}


def _read_archive_facts(
    err: ProcessFailedError,
    moment: str,
    files: FileLists,
    context: ResolveContext,
    dated: DatedIndexes | None,
) -> dict[str, object]:
    """Return the facts on the release that uv would have to build, as its settings have them.

    Raises:
        LockError: uv failed for another reason, or the files of the release do not state its requirements.
    """
    match = _UNBUILT.search(str(err))
    requires = (
        read_static_requires(match["name"], match["version"], files, context.store, context.net)
        if match
        else None
    )
    if match is None or requires is None:
        raise _solution_error(moment, str(err), dated) from None
    return {"name": match["name"], "version": match["version"], "requires-dist": list(requires)}


def _raise_index_error(dated: DatedIndexes | None) -> None:
    if dated and dated.error:
        raise dated.error


def _solution_error(moment: str, text: str, dated: DatedIndexes | None = None) -> LockError:
    unknown = _UNKNOWN.search(text)
    rows = map(display_text, redact(dated.restore(text) if dated else text).splitlines())
    undated = dated.undated() if dated else []
    return LockError(
        f"no versions as of {describe_moment(moment)} fit together"
        + "".join(f"\n  {row.strip()}" for row in rows if row.strip())
        + (f"\n  {unknown['name']}{suggest_project(unknown['name'])}" if unknown else "")
        + (f"\n  releases without evidence of their age: {', '.join(undated)}" if undated else ""),
        hint=f"write a version into requirements.txt, as in {undated[0].partition(' ')[0]}==VERSION"
        if undated
        else "choose a later date or another Python, or write versions that you know into requirements.txt",
    )  # fmt: skip


def _environment(env: Mapping[str, str], home: str, *, served: bool) -> dict[str, str]:
    """Return the environment of uv: its settings name all indexes, and no other variable may hold a login."""
    variables = {name: env[name] for name in _KEPT if name in env}
    if served:  # no proxy knows the loopback, and a page of many releases takes minutes
        for name in ("NO_PROXY", "no_proxy"):
            variables[name] = ",".join(filter(None, [env.get(name, ""), "127.0.0.1"]))
        variables["UV_HTTP_TIMEOUT"] = "1200"
    return {**variables, "UV_NO_PROGRESS": "1", "HOME": home, "TMPDIR": home}


def _write_settings(
    path: Path, indexes: PackageIndexes, known: list[dict[str, object]], addresses: Mapping[str, str]
) -> None:
    path.touch(mode=0o600)  # it holds the logins of indexes
    path.write_text(tomli_w.dumps({**_configure(indexes, addresses), "dependency-metadata": known}))


def _inputs(lines: Iterable[Requirement]) -> Iterator[str]:
    """Yield a requirement for each line of an index: its version if it has one, else its own text."""
    for line in lines:
        if line.kind != "index":
            continue
        marker = f" ; {line.marker}" * bool(line.marker)
        yield f"{line.name}=={_LABEL.sub('', line.version)}{marker}" if line.version else line.text


def _configure(indexes: PackageIndexes, addresses: Mapping[str, str]) -> dict[str, object]:
    """Return a uv.toml with the machine's places for distributions, with their logins.

    `addresses` has the loopback addresses of indexes without upload times.
    """
    simple = [addresses.get(url) or _with_login(url, indexes) for url in indexes.simple]
    entries = [{"url": url, "default": number == len(simple) - 1} for number, url in enumerate(simple)]
    return {"index": entries, "find-links": [_with_login(url, indexes) for url in indexes.find_links]}


def _with_login(url: str, indexes: PackageIndexes) -> str:
    whole = indexes.tokens.get(url.rstrip("/"), url)
    login = indexes.credentials.get(url.rstrip("/"))
    if login is None:
        return whole
    parts = urlsplit(whole)
    user, password = (quote(word, safe="") for word in login)
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))


def _apply(
    snapshot: Snapshot, chosen: Mapping[str, str], when: str, dated: DatedIndexes | None = None
) -> SolvedLines:
    """Return the snapshot with the chosen versions; distributions that no line names are added."""
    reasons: dict[str, str] = {}
    requirements = []
    evidence = {name: dated.describe(name, version) if dated else "" for name, version in chosen.items()}
    for line in snapshot.requirements:
        name = str(canonicalize_name(line.name))
        if line.kind == "index" and line.version is None and name in chosen:
            reasons[name] = f"{when}, uv chose {chosen[name]}{evidence[name]} for `{line.text}`"
            line = msgspec.structs.replace(line, version=chosen[name])
        requirements.append(line)
    known = {str(canonicalize_name(line.name)) for line in (*snapshot.requirements, *snapshot.unlisted)}
    for number, (name, version) in enumerate(sorted(chosen.items()), 1):
        if name not in known:
            reasons[name] = (
                f"{when}, uv chose {version}{evidence[name]}: the requirements of other lines need it"
            )
            requirements.append(
                Requirement(
                    place=SourceLocation(SOLVED, number), text=f"{name}=={version}", kind="index", name=name,
                    version=version,
                )
            )  # fmt: skip
    return SolvedLines(
        snapshot=msgspec.structs.replace(snapshot, requirements=tuple(requirements)), reasons=reasons
    )
