"""The remedies that the error of refused deviations proposes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from packaging.utils import canonicalize_name

from reprobuild.infra.suggest import did_you_mean
from reprobuild.infra.untrusted.strings import ProjectName, is_valid
from reprobuild.lock.model import Resolution
from reprobuild.resolve.accepted_words import is_class, names_of
from reprobuild.resolve.completeness import ADD, NO_FREEZE
from reprobuild.resolve.interpreter.choice import ANY_PATCH, PATCH
from reprobuild.resolve.interpreter.other_pip import AGAIN, OTHER
from reprobuild.resolve.line_resolutions import AS_OF, CONDA_REQUEST, EXPORT, UNREAD
from reprobuild.resolve.python.python_versions import format_python_ranges
from reprobuild.resolve.sources.resolutions import NO_SOURCE
from reprobuild.snapshot.file_kinds import field_of

LISTED = "which --verbose lists"
# Fields of Snapshot with lines of one package each.
_LISTS = ("requirements", "packages", "conda", "rpms")
_SHOWN = 5  # names in one sentence
_ANOTHER = ("packages", "unknown-version")  # the image has a system package in another version
# Distributions that compute: without one of them the job is different.
_COMPUTING = frozenset(
    {
        "torch",
        "pytorch",
        "torchvision",
        "torchaudio",
        "tensorflow",
        "jax",
        "jaxlib",
        "cupy",
        "apex",
        "flash-attn",
        "transformer-engine",
        "triton",
    }
)
# CUDA's distributions of PyPI and conda: nvidia-cublas-cu12, cudatoolkit, cuda-cudart, libcublas, cudnn, nccl.
_CUDA = re.compile(
    r"nvidia-[a-z0-9-]+|cuda(?:toolkit|-[a-z0-9-]+)|lib(?:cu|np|nv)[a-z]+(?:-[a-z]+)?|cudnn|nccl"
)
_NAMED = "; name it with --source "
_PYTHON_OPTION = re.compile(r"--python [0-9.]+t?", re.ASCII)
_DATE_OPTION = re.compile(r"--as-of (?:DATE|[0-9][0-9TZ:.+-]*)", re.ASCII)
_SOURCE = "unreachable-source"
_DIRECTORY = "directory-line"
_UNKNOWN = "unknown-project"
_MEANT = re.compile(r"; did you mean `([^`]*)`\?")
_OPEN = "index-line"  # the class of a requirement without a version


def suggest_remedies(
    words: Iterable[str], rulings: Sequence[Resolution], refused: Sequence[Resolution], pythons: Sequence[str]
) -> list[str]:
    """Return the lines of the hint for refused deviations.

    Args:
        words: the classes, names and places that the user accepts.
        rulings: of every captured line.
        refused: those that are not accepted.
        pythons: each `X.Y` with a file for every pinned release, if the chosen Python is not among them.
    """
    return [
        *_suggest_names(words, rulings, refused),
        *_repository_advice(refused),
        *_python_advice(pythons),
        *_patch_advice(refused),
        *_capture_advice(refused),
        *_freeze_advice(refused),
        *_gap_advice(refused),
        *_unread_advice(refused),
        *_conda_advice(refused),
        *_pin_advice(refused),
        *_spelling_advice(refused),
        *_source_advice(refused),
        *_index_advice(refused),
        *_accept_advice(refused),
    ]


def suggest_options(refused: Sequence[Resolution], pythons: Sequence[str]) -> list[str]:
    """Return the options with which the same command would go on; see `suggest_remedies`."""
    return [
        *_python_options(pythons),
        *_patch_options(refused),
        *_gap_options(refused),
        _accept_options(refused),
    ]


def _suggest_names(
    words: Iterable[str], rulings: Sequence[Resolution], refused: Sequence[Resolution]
) -> Iterator[str]:
    """Yield a hint for each word that names no line, if a refused line has a close name."""
    known = set[str]().union(*map(names_of, rulings))
    names = sorted(set[str]().union(*map(names_of, refused)))
    for word in sorted(set(words) - known):
        if meant := did_you_mean(word, names):
            yield f"--accept {shlex.quote(word)} names no captured line: {meant}"


def _python_advice(pythons: Sequence[str]) -> list[str]:
    """Return advice on a Python that fits every pinned release.

    Of several such Pythons it names the newest.
    """
    return [
        f"every pinned release has a file for Python {format_python_ranges(pythons)}: the environment ran one of them; "
        f"name it, such as `{option}`"
        for option in _python_options(pythons)
    ]


def _python_options(pythons: Sequence[str]) -> list[str]:
    return [f"--python {shlex.quote(python)}" for python in pythons[-1:]]


def _patch_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return the option for any patch release, if the user named one that cannot be had."""
    return [f"{ANY_PATCH}{option}" for option in _patch_options(refused)]


def _patch_options(refused: Sequence[Resolution]) -> list[str]:
    return _options_after(ANY_PATCH, refused, PATCH, _PYTHON_OPTION)


def _capture_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return advice on capturing the exact Python.

    It is given if another patch release replaces it.
    """
    if PATCH not in {ruling.kind for ruling in refused}:
        return []
    return [
        "if the environment still exists, `reprobuild capture --include interpreter` captures it with its own Python"
    ]


def _freeze_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return how the freeze is taken, where another pip than the environment's wrote it."""
    commands = [ruling.reason.rpartition(AGAIN)[2] for ruling in refused if ruling.kind == OTHER]
    quoted = [command for command in commands if _is_quoted(command.partition(" > ")[0].removeprefix("`"))]
    return [f"take the freeze again in the environment that ran with {command}" for command in quoted]


def _gap_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return the option that adds what a list lacks."""
    return [f"{ADD}{option}" for option in _gap_options(refused)]


def _gap_options(refused: Sequence[Resolution]) -> list[str]:
    return _options_after(ADD, refused, NO_FREEZE, _DATE_OPTION)


def _options_after(begin: str, refused: Sequence[Resolution], kind: str, form: re.Pattern[str]) -> list[str]:
    """Return the options that end the reasons of a class, without repetition.

    A reason can hold a captured line, and a captured line can hold `begin`: only an option of `form` counts.
    """
    ends = (ruling.reason.rpartition(begin)[2] for ruling in refused if ruling.kind == kind)
    return list(dict.fromkeys(filter(form.fullmatch, ends)))


def _unread_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return advice on lines that cannot be read."""
    places = [f"{ruling.file}:{ruling.line}" for ruling in refused if ruling.kind == UNREAD]
    return [f"correct {_shorten_names(places)}"] if places else []


def _conda_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return what answers a request of conda."""
    return [f"{EXPORT}, or {AS_OF}"] if any(ruling.kind == CONDA_REQUEST for ruling in refused) else []


def _pin_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return advice on pinning requirements without versions."""
    open_lines = [ruling for ruling in refused if ruling.kind == _OPEN]
    if not open_lines:
        return []
    file = open_lines[0].file
    return [
        f"{file} has {len(open_lines)} requirements without a version, which no freeze has. Write the versions of the "
        f"environment that ran with `pip freeze > {shlex.quote(file)}`. If it is gone, `--as-of DATE` chooses the "
        f"versions of that day; `uv pip compile {shlex.quote(file)} -o pinned.txt` writes those of today."
    ]


def _spelling_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return advice on names that no index has, and that are close to a known one."""
    lines = [
        f"if it is {match[1]}, write that in place of {ruling.subject} in {ruling.place}"
        for ruling in refused
        if ruling.kind == _UNKNOWN and (match := _MEANT.search(ruling.reason)) and is_valid(match[1], ProjectName)
    ]  # fmt: skip
    more = len(lines) - _SHOWN
    return lines[:_SHOWN] + ([f"and {more} more names like these, {LISTED}"] if more > 0 else [])


def _repository_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return the options for lines whose repository or commit is unknown."""
    rows = [_source_option(ruling) for ruling in refused if ruling.kind == NO_SOURCE]
    if not rows:
        return []
    at_head = ", or @HEAD for the commit that a repository of this machine has checked out"
    return [f"name each repository with {_shorten_options(list(dict.fromkeys(rows)))}{at_head}"]


def _source_option(ruling: Resolution) -> str:
    """Return the option for the repository of a line; its address is a captured text, and can hold `_NAMED`."""
    value = ruling.reason.rpartition(_NAMED)[2].partition("=")[2]
    is_whole = any(_is_quoted(value.removesuffix(end)) for end in ("@COMMIT", ""))
    return f"--source {shlex.quote(ruling.subject)}={value if is_whole else 'PATH@COMMIT'}"


def _is_quoted(text: str) -> bool:
    """Tell whether a shell reads a text as words, and as these alone."""
    try:
        words = shlex.split(text)
    except ValueError:  # a quote is open
        return False
    return bool(words) and shlex.join(words) == text


def _source_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return the options for repositories of unavailable sources."""
    lines = []
    if names := _subjects(refused, _SOURCE):
        options = _shorten_options([f"--source {shlex.quote(name)}=PATH|URL" for name in names])
        lines.append(f"name a bundle, a clone or another remote with {options}")
    if names := _subjects(refused, _DIRECTORY):
        options = _shorten_options([f"--source {shlex.quote(name)}=PATH@COMMIT" for name in names])
        lines.append(f"if the directory is a repository, name it with {options}")
    return lines


def _subjects(refused: Iterable[Resolution], kind: str) -> list[str]:
    return sorted({ruling.subject for ruling in refused if ruling.kind == kind})


def _index_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return advice on finding torch, CUDA and other computing packages.

    Without them the job is different.
    """
    lines = []
    for field, places in (
        ("requirements", "a page or a directory that has the wheel"),
        ("conda", "a channel"),
    ):
        lost = (
            r.subject for r in refused
            if r.outcome == "unresolved" and r.kind != _OPEN and field_of(r.file) == field
        )  # fmt: skip
        names = [name for name in dict.fromkeys(lost) if _is_compute_package(name)]
        options = " ".join(f"--index {shlex.quote(name)}=URL" for name in names[:_SHOWN])
        if names:
            lines.append(
                f"{_shorten_names(names)} can come from {places}: "
                f"{options if field == 'requirements' else '--channel URL'}"
            )
    return lines


def _is_compute_package(name: str) -> bool:
    """Tell whether a distribution computes, or is a part of CUDA."""
    canonical = str(canonicalize_name(name))
    return canonical in _COMPUTING or _CUDA.fullmatch(canonical) is not None


def _accept_advice(refused: Sequence[Resolution]) -> list[str]:
    """Return the options that accept all refused lines, and the packages that the image would lack."""
    lines = [f"to go on without exactly these: {_accept_options(refused)}"]
    for kind in sorted({ruling.kind for ruling in refused}):
        if lost := [ruling.subject for ruling in refused if ruling.kind == kind and _is_lost(ruling)]:
            options = _join_accepts(_accept_words(kind, refused))
            lines.append(f"with {options} the image will NOT have {_shorten_names(lost)}")
    return lines


def _is_lost(ruling: Resolution) -> bool:
    """Tell whether the image would lack the package of a line."""
    field = field_of(ruling.file)
    return (
        ruling.outcome == "unresolved"
        and field in _LISTS
        and ruling.subject != ruling.file  # a line that was not understood names no package
        and (field, ruling.kind) != _ANOTHER
    )


def _accept_words(kind: str, refused: Sequence[Resolution]) -> list[str]:
    """Return the words that accept the lines of a class.

    Few lost packages are named: a script that accepts their class would later accept the loss of others.
    """
    rulings = [ruling for ruling in refused if ruling.kind == kind]
    names = sorted({ruling.place if is_class(ruling.subject) else ruling.subject for ruling in rulings})
    return names if all(map(_is_lost, rulings)) and len(names) <= _SHOWN else [kind]


def _accept_options(refused: Sequence[Resolution]) -> str:
    """Return the options that accept all refused lines."""
    kinds = sorted({ruling.kind for ruling in refused})
    return _join_accepts(dict.fromkeys(word for kind in kinds for word in _accept_words(kind, refused)))


def _join_accepts(words: Iterable[str]) -> str:
    return " ".join(f"--accept {shlex.quote(word)}" for word in words)


def _shorten_options(options: Sequence[str]) -> str:
    """Return the first options, and the others' number: the reason of each line has its own."""
    more = len(options) - _SHOWN
    return " ".join(options[:_SHOWN]) + (f" and {more} more, {LISTED}" if more > 0 else "")


def _shorten_names(names: Sequence[str]) -> str:
    """Return the first names for a sentence, and the others' number."""
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
