"""The outcome of a run of pytest, and a short reason for a failure, read from its last lines."""

from __future__ import annotations

import re

from msgspec import Struct

PASSED, FAILED, COLLECTION = "passed", "failed", "collection error"
NOT_INSTALLABLE, TIMEOUT, NO_TESTS = "not installable", "timeout", "no tests run"
CLASSES = (PASSED, FAILED, COLLECTION, NOT_INSTALLABLE, TIMEOUT, NO_TESTS)
_COLLECTING = re.compile(r"ERROR collecting|errors? during collection|ImportError while loading conftest")
_COUNT = re.compile(r"^(?:=+ )?(?:\d+ \w+, )*(\d+) passed\b", re.MULTILINE)
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_NAME = r"['\"]?(?P<name>[A-Za-z_][\w.-]{0,60})['\"]?"
# Patterns of what pytest and uv print, each with its word group; the first one that fits the error counts.
_CAUSES = (
    (rf"No module named {_NAME}", "module missing: {}"),
    (rf"cannot import name {_NAME}", "name removed: {}"),
    (rf"has no attribute {_NAME}", "attribute removed: {}"),
    (rf"unexpected keyword argument {_NAME}", "argument removed: {}"),
    (r"positional arguments?\b|required keyword-only", "arguments changed"),
    (rf"fixture {_NAME} not found", "fixture missing: {}"),
    (r"unrecognized arguments: (?P<name>--?[\w-]{1,60})", "option of pytest missing: {}"),
    (r"Unknown config option|not found in `markers`", "setting of pytest unknown"),
    (r"DID NOT RAISE|DID NOT WARN", "no error or warning"),
    (
        r"exceptions must be derived from Warning|marks? (?:applied )?to fixtures|Marks cannot be applied|yield tests",
        "use of pytest refused",
    ),
    (r"(?P<name>Pytest\w*Warning|\w*DeprecationWarning)", "warning as error: {}"),
    (r"(?P<name>[A-Z]\w*Warning)\b", "warning as error: {}"),
    (
        r"Network is unreachable|Name or service not known|Temporary failure in name resolution",
        "needs the network",
    ),
    (r"VersionConflict|DistributionNotFound", "requirement not met"),
    (r"PackageNotFoundError", "distribution missing"),
    (r"Read-only file system|PermissionError", "no right to write"),
    (r"No such file or directory|FileNotFoundError", "file missing"),
    (r"AssertionError|\bassert\b|Failed: ", "other result"),
    (r"(?P<name>[A-Z]\w*(?:Error|Exception|Failure))\b", "{}"),
)
_INSTALL_CAUSES = (
    (r"No solution found", "no versions fit"),
    (rf"No module named {_NAME}", "build: module missing: {}"),
    (r"Failed to build|build backend|Failed to download and build", "build fails"),
    (r"does not satisfy|requires Python|requires-python", "another Python needed"),
)


class Outcome(Struct, frozen=True, kw_only=True):
    """The class of a run, the number of tests that passed, and a reason if it is not `passed`."""

    name: str
    passed: int = 0
    cause: str = ""


def classify(code: int | None, output: str) -> Outcome:
    """Return the outcome of pytest.

    A run in which all tests are skipped is no pass.

    Args:
        code: its exit code (https://docs.pytest.org/en/stable/reference/exit-codes.html), or None if time ran out.
        output: what it printed.
    """
    output = _COLOUR.sub("", output)
    counts = _COUNT.findall(output)  # programs that the tests left behind may print more
    passed = int(counts[-1]) if counts else 0
    if code is None:
        return Outcome(name=TIMEOUT)
    if code == 0 and passed:
        return Outcome(name=PASSED, passed=passed)
    if code in (0, 5):
        return Outcome(name=NO_TESTS, cause="all skipped" if code == 0 else "none found")
    name = FAILED if code == 1 and not _COLLECTING.search(output) else COLLECTION
    return Outcome(name=name, passed=passed, cause=describe_cause(output))


def describe_cause(output: str) -> str:
    """Return a word group on a failure of pytest; it quotes only names of modules, classes and arguments."""
    errors = re.findall(r"^E\s+(\S.*)$", output, re.MULTILINE)
    raised = [
        row
        for row in errors
        if re.match(r"[\w.]+(?:Error|Exception|Warning|Failed|Exit)\b|Failed: |fixture ", row)
    ]
    summary = re.findall(r"^(?:FAILED|ERROR) \S.*? - (.*)$", output, re.MULTILINE)
    others = re.findall(r"^(?:\S+: )?(?:.*\berror: .*|[\w.]+(?:Error|Warning): .*)$", output, re.MULTILINE)
    for rows in (raised[-1:], summary[-1:], errors[-1:], others[-1:], output.splitlines()[-5:]):
        if rows and (cause := _match(rows, _CAUSES)):
            return cause
    return "another reason"


def describe_install(output: str) -> str:
    """Return a word group on a failed installation."""
    return _match([output[-6000:]], _INSTALL_CAUSES) or "another reason"


def _match(rows: list[str], causes: tuple[tuple[str, str], ...]) -> str:
    text = "\n".join(rows)
    for pattern, words in causes:
        if match := re.search(pattern, text):
            return words.format(match.groupdict().get("name") or "").strip(": ")
    return ""
