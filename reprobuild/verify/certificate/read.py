"""Reading of an earlier verdict file for a comparison.

It is untrusted.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.verify.contradiction import find_contradiction
from reprobuild.verify.determinism.document import find_excess
from reprobuild.verify.verdict import VERSION, Verdict
from reprobuild.verify.workload.conditions import WorkRecord

NAME = "verdict.json"  # in an output directory
LARGEST = 8 << 20
AGAIN = "make one with `reprobuild verify OUT`; it is OUT/verdict.json"
BEFORE = (
    "name an earlier one: what a check replaces in an output directory is kept there as verdict-DIGEST.json"
)
OTHER = "a verdict holds for its own image alone; `reprobuild diff` tells why two images differ"
SAME_WORK = "compare the same work: give the command and options of the verdict file, or leave --against out"
_NOT_READ = (msgspec.MsgspecError, ValueError, RecursionError)


class Certificate(Struct, frozen=True, kw_only=True):
    """A verdict, its file, and the sha256 of the file."""

    path: Path
    sha256: str
    verdict: Verdict


class _Header(Struct):
    """The fields that begin every verdict file; the version may be invalid."""

    version: int
    determinism: msgspec.Raw


def read_certificate(path: Path, *, check_headlines: bool = True) -> Certificate:
    """Return the verdict in a file, or in an output directory.

    Args:
        path: the file or the directory.
        check_headlines: see `read_verdict`.

    Raises:
        UsageError: there is no verdict, or it cannot be read.
    """
    if path.is_dir():
        path = path / NAME
    try:
        data = read_plain(path, LARGEST)
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"there is no verdict file {path}", hint=AGAIN) from None
    except OSError as err:
        raise UsageError(f"{path} cannot be read: {err.strerror}", hint=AGAIN) from None
    verdict = read_verdict(data, path, check_headlines=check_headlines)
    return Certificate(path=path, sha256=hashlib.sha256(data).hexdigest(), verdict=verdict)


def is_certificate(data: bytes) -> bool:
    """Return whether bytes are a verdict file, of any version.

    Args:
        data: at most `LARGEST` of them, or one more.
    """
    if len(data) > LARGEST:
        return False
    try:
        return _read_version(data) > 0
    except _NOT_READ:
        return False


def _read_version(data: bytes) -> int:
    return decode_json(data, _Header).version


def read_verdict(data: bytes, path: Path | str, *, check_headlines: bool = True) -> Verdict:
    """Return the verdict in the bytes of a verdict file.

    Args:
        data: at most `LARGEST` of them.
        path: their origin, for messages.
        check_headlines: refuse headlines that are better than the answers; False for a caller that judges the answers.

    Raises:
        UsageError: they are not a verdict, or have another form.
    """
    try:
        version = _read_version(data)
    except _NOT_READ:
        raise UsageError(f"{path} is no verdict file of reprobuild, or a damaged one", hint=AGAIN) from None
    if version < VERSION:
        raise UsageError(
            f"{path} is a verdict of form {version}, of an older reprobuild: it names no platform to compare by",
            hint=AGAIN,
        )
    if version > VERSION:
        raise UsageError(
            f"{path} is a verdict file of form {version}; this reprobuild reads form {VERSION}",
            hint="update reprobuild",
        )
    try:
        verdict = decode_json(data, Verdict)
        if len({smoke.device for smoke in verdict.smoke}) < len(verdict.smoke):
            raise ValueError("one device stands in it twice")
        for part in (part for smoke in verdict.smoke for part in (smoke.fingerprint, smoke.start)):
            if excess := find_excess(part):
                raise ValueError(excess)
        if check_headlines and (contradiction := find_contradiction(verdict)):
            raise ValueError(contradiction)
        return verdict
    except _NOT_READ as err:
        raise UsageError(f"{path} is a damaged verdict file: {_escape_error(err)}", hint=AGAIN) from None


def _escape_error(err: Exception) -> str:
    return str(err).encode("unicode_escape").decode()[:300]


def refuse_other(certificate: Certificate, *, tree: str, seed: int, profile: str) -> None:
    """Refuse a verdict of another image, seed or profile.

    This is checked before any container runs.

    Args:
        tree, seed, profile: of the image to check.

    Raises:
        UsageError: the verdict is of another image, or of another seed or profile.
    """
    then = certificate.verdict
    if then.tree != tree:
        raise UsageError(
            f"{certificate.path} is the verdict on another image: its tree is {_shorten_text(then.tree)}, "
            "and that of "
            f"this one {_shorten_text(tree)}",
            hint=OTHER,
        )
    for field, before, now in (("seed", str(then.seed), str(seed)), ("profile", then.profile, profile)):
        if before != now:
            raise UsageError(
                f"{certificate.path} was made with {field} {_shorten_text(before)}, and this image has {now}",
                hint=OTHER,
            )


def refuse_other_work(certificate: Certificate, now: WorkRecord | None) -> None:
    """Refuse a verdict of another workload.

    This is checked before any container runs.

    Args:
        certificate: the verdict.
        now: the workload to run, as a verdict records it.

    Raises:
        UsageError: the commands, their seeds, directories or variables differ.
    """
    then = certificate.verdict.work
    if then is None or now is None:
        return
    for field, before, after in (
        ("command", then.command, now.command), ("seed of the command", str(then.seed), str(now.seed)),
        ("working directory", then.workdir, now.workdir), ("environment", *_differing_variables(then, now)),
    ):  # fmt: skip
        if before != after:
            raise UsageError(
                f"{certificate.path} was made with another {field}: {_shorten_text(before)}, and this is "
                f"{_shorten_text(after)}",
                hint=SAME_WORK,
            )


def _differing_variables(then: WorkRecord, now: WorkRecord) -> tuple[str, str]:
    """Return the differing variables of two records.

    Each value is as its record has it; of a secret only the name is known.
    """
    old, new = ({**record.variables, **dict.fromkeys(record.secrets, "(secret)")} for record in (then, now))
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    before, after = (
        " ".join(f"{name}={variables[name]}" if name in variables else f"no {name}" for name in names)
        for variables in (old, new)
    )  # fmt: skip
    return before, after


def refuse_failed(certificate: Certificate) -> None:
    """Refuse a verdict of a failed check, before any container runs.

    Such a verdict cannot be used as a reference.

    Raises:
        UsageError: a probe drifted, or the check differed from an earlier verdict.
    """
    then = certificate.verdict
    answers = then.determinism
    drifted = "drift" in (answers.cpu, answers.gpu, answers.collectives)
    if drifted or (then.against and then.against.verdict == "differ"):
        reason = "drift" if drifted else "another result than the verdict before it"
        raise UsageError(f"{certificate.path} is the verdict of a check that failed: {reason}", hint=BEFORE)


def _shorten_text(text: str) -> str:
    return text.encode("unicode_escape").decode()[:80] or "not told"
