"""Versions of requirements, chosen by uv among the files of this machine's indexes."""

from __future__ import annotations

import os
import re
import shlex
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import tomli_w
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.errors import LockError
from reprobuild.infra.display import display_text
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.proc.own_python import is_ended_by_limit, own_limited_module
from reprobuild.infra.proc.run import run
from reprobuild.resolve.ages.dated_indexes import DatedIndexes
from reprobuild.resolve.as_of_moment import describe_moment
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.python.misspelt import find_project
from reprobuild.resolve.static_requires import read_static_requires
from reprobuild.snapshot.model import Requirement
from reprobuild_portable.secrets import redact

_MOST_ARCHIVES = 100  # releases whose requirements are read here
# uv needs memory and time beyond any bound for some markers of a thousand characters. `_MOST_SECONDS` are of processor
# time, for all runs of uv together.
_MOST_MEMORY, _MOST_SECONDS = 2 << 30, 600
_UNBUILT = re.compile(r"Failed to build `(?P<name>[A-Za-z0-9._-]+)==(?P<version>[A-Za-z0-9.!+_-]+)`")
_UNKNOWN = re.compile(r"Because (?P<name>[A-Za-z0-9._-]+) was not found in the package registry")
# uv takes no file of a local index for a date, as it has no upload times.
_EMPTY = re.compile(
    r"Because there (?:are no versions|is no version) of (?P<name>[A-Za-z0-9._-]+)(?:==\S+)? and"
)
_UV_HINT = re.compile(r"^hint:.*", re.MULTILINE)  # names options of uv, which are not ours
# Variables of uv's environment; a netrc file is not among them, because an index chooses the hosts of its files.
_KEPT = (
    "PATH", "LANG", "LC_ALL", "SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy",
)  # fmt: skip
_PIN = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9.!+_-]+)")
_UNSOLVABLE = "No solution found"  # uv fails for other reasons, too: a network, a damaged page
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


def solve_versions(
    lines: Sequence[Requirement],
    moment: str,
    python: str,
    machine: str,
    files: FileLists,
    context: ResolveContext,
    dated: DatedIndexes,
    provided: Collection[str] = (),
) -> dict[str, str]:
    """Return the version of each distribution by canonical name, as uv chooses them.

    Args:
        lines: requirements with or without a version.
        moment: of RFC 3339; files that came later do not count. Empty for all files.
        python: the version of the image's interpreter.
        machine: in the kernel's spelling, `x86_64`.
        files: the file lists of the machine's indexes.
        context: of the resolution.
        dated: the indexes, which are served while uv runs.
        provided: distributions from elsewhere, by canonical name; no version is chosen for them.

    Raises:
        LockError: no set of versions fits; the message is uv's.
        FetchError: an index is unavailable.
    """
    served = bool(dated.addresses or dated.decided_address)
    known: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(prefix="reprobuild-solve-") as name:
        folder = Path(name)
        (folder / "requirements.in").write_text("".join(f"{row}\n" for row in _inputs(lines)))
        # uv leaves out a requirement whose marker never holds.
        (folder / "provided.txt").write_text(
            "".join(f"{row} ; python_version < '0'\n" for row in sorted(provided))
        )
        interpreter = folder / "python"
        interpreter.write_text(_INTERPRETER.format(python=shlex.quote(sys.executable), own=str(interpreter)))
        interpreter.chmod(0o700)
        words = (
            "pip", "compile", "requirements.in", "--override", "provided.txt", *_OPTIONS,
            "--python", str(interpreter), *(("--exclude-newer", moment) if moment else ()),
            "--config-file", str(folder / "uv.toml"), "--python-version", python,
            "--python-platform", f"{machine}-unknown-linux-gnu",
        )  # fmt: skip
        end = _used_seconds() + _MOST_SECONDS
        for _ in range(_MOST_ARCHIVES):
            _write_settings(folder / "uv.toml", context.indexes, known, dated)
            seconds = max(1, round(end - _used_seconds()))
            try:
                output = run(
                    own_limited_module("uv", *words, memory=_MOST_MEMORY, seconds=seconds),
                    env=_environment(context.env, name, served=served), cwd=folder, timeout=1800,
                    purpose="choose versions", command=("uv", "pip", "compile"),
                )  # fmt: skip
            except ProcessFailedError as err:
                _raise_index_error(dated)
                if is_ended_by_limit(err):
                    raise _limit_error(moment) from None
                known.append(_read_archive_facts(err, moment, files, context, dated))
            else:
                break
        else:
            text = f"more than {_MOST_ARCHIVES} releases have only a source archive"
            raise _solution_error(moment, text, files, dated)
    _raise_index_error(dated)
    pins = (_PIN.fullmatch(row.strip()) for row in output.decode(errors="replace").splitlines())
    return {str(canonicalize_name(pin["name"])): pin["version"] for pin in pins if pin}


def _read_archive_facts(
    err: ProcessFailedError,
    moment: str,
    files: FileLists,
    context: ResolveContext,
    dated: DatedIndexes,
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
        raise _solution_error(moment, str(err), files, dated) from None
    return {"name": match["name"], "version": match["version"], "requires-dist": list(requires)}


def _raise_index_error(dated: DatedIndexes) -> None:
    if dated.error:
        raise dated.error


def _used_seconds() -> float:
    """Return the processor time of all programs that this process started and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def _limit_error(moment: str) -> LockError:
    return LockError(
        f"uv could not choose versions {_name_day(moment)}: it needs more than {_MOST_MEMORY >> 20} MiB of memory, or "
        f"more than {_MOST_SECONDS} s of processor time",
        hint="the marker of a requirement can be too hard for uv: shorten markers in requirements.txt, or write "
        "another version of a release with such markers there, as in NAME==VERSION",
    )


def _name_day(moment: str) -> str:
    return f"as of {describe_moment(moment) if moment else 'today'}"


def _solution_error(moment: str, text: str, files: FileLists, dated: DatedIndexes) -> LockError:
    unknown, empty = _UNKNOWN.search(text), _EMPTY.search(text)
    name = unknown["name"] if unknown else ""
    local = _advise_local(empty["name"], files) if empty and moment else ""
    rows = map(display_text, redact(dated.restore(_UV_HINT.sub("", text))).splitlines())
    undated = dated.undated()
    later = _advise_later(name, files) if name and moment and not undated else ""
    day = _name_day(moment)
    return LockError(
        (f"no versions {day} fit together" if _UNSOLVABLE in text else f"uv could not choose versions {day}")
        + "".join(f"\n  {row.strip()}" for row in rows if row.strip())
        + (f"\n  releases without evidence of their age: {', '.join(undated)}" if undated else ""),
        hint=local or later or _advise(name, undated),
    )


def _advise_local(name: str, files: FileLists) -> str:
    """Return the hint for a project of a local index; empty if none has the project."""
    for file in files.releases(name):
        if file.index.startswith("file:"):
            option = shlex.quote(f"{name}={file.index}")
            return f"{file.index} has no upload times; name it for {name}, and its files give dates: --index {option}"
    return ""


def _advise_later(name: str, files: FileLists) -> str:
    """Return the hint for a project whose files are all newer than the moment; empty if no index has the project."""
    if first := files.first_upload(name):
        return f"no release of {name} is that old: its first file is of {first[:10]}; choose that date or a later one"
    return f"no release of {name} is that old: choose a later date" if files.releases(name) else ""


def _advise(unknown: str, undated: Sequence[str]) -> str:
    """Return the hint for requirements without a solution.

    Args:
        unknown: the name of a project that no index has, or empty.
        undated: as `DatedIndexes.undated`.
    """
    if unknown and (close := find_project(unknown)):
        return f"if it is {close}, write that in place of {unknown} in requirements.txt"
    if undated:
        return f"write a version into requirements.txt, as in {undated[0].partition(' ')[0]}==VERSION"
    if unknown:
        return f"correct the name, or name the index or the directory that has it: --index {shlex.quote(unknown)}=URL"
    return "choose a later date or another Python, or write versions that you know into requirements.txt"


def _environment(env: Mapping[str, str], home: str, *, served: bool) -> dict[str, str]:
    """Return the environment of uv: its settings name all indexes, and no other variable may hold a login."""
    variables = {name: env[name] for name in _KEPT if name in env}
    if served:  # no proxy knows the loopback, and a page of many releases takes minutes
        for name in ("NO_PROXY", "no_proxy"):
            variables[name] = ",".join(filter(None, [env.get(name, ""), "127.0.0.1"]))
        variables["UV_HTTP_TIMEOUT"] = "1200"
    return {**variables, "UV_NO_PROGRESS": "1", "HOME": home, "TMPDIR": home}


def _write_settings(
    path: Path, indexes: PackageIndexes, known: list[dict[str, object]], dated: DatedIndexes
) -> None:
    path.touch(mode=0o600)  # it holds the logins of indexes
    path.write_text(
        tomli_w.dumps(
            {**_configure(indexes, dated.addresses, dated.decided_address), "dependency-metadata": known}
        )
    )


def _inputs(lines: Iterable[Requirement]) -> Iterator[str]:
    """Yield a requirement for each line of an index: its version if it has one, else its own text."""
    for line in lines:
        if line.kind != "index":
            continue
        marker = f" ; {line.marker}" * bool(line.marker)
        name = line.name + (f"[{','.join(line.extras)}]" if line.extras else "")
        yield f"{name}=={_LABEL.sub('', line.version)}{marker}" if line.version else line.text


def _configure(indexes: PackageIndexes, addresses: Mapping[str, str], decided: str = "") -> dict[str, object]:
    """Return a uv.toml with the places for distributions, with their logins.

    Without an index, uv would ask PyPI. `addresses` and `decided` are those of `DatedIndexes`.
    """
    simple = [addresses.get(url) or _with_login(url, indexes) for url in indexes.simple]
    if decided:
        simple.insert(0, decided)
    entries = [{"url": url, "default": number == len(simple) - 1} for number, url in enumerate(simple)]
    places = {"index": entries, "find-links": [_with_login(url, indexes) for url in indexes.find_links]}
    return places if entries else {**places, "no-index": True}


def _with_login(url: str, indexes: PackageIndexes) -> str:
    whole = indexes.tokens.get(url.rstrip("/"), url)
    login = indexes.credentials.get(url.rstrip("/"))
    if login is None:
        return whole
    parts = urlsplit(whole)
    user, password = (quote(word, safe="") for word in login)
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))
