"""A command in a message is quoted as a shell reads it: people copy it, and its values may come from others."""

from __future__ import annotations

import ast
import functools
import re
import shlex
import subprocess
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from reprobuild.cli.main import _print_error
from reprobuild.infra.shell_words import quote_path
from reprobuild.report.readiness import render_readiness

ROOT = Path(__file__).parent.parent
FILES = sorted(path for room in ("reprobuild", "reprobuild_runtime") for path in (ROOT / room).rglob("*.py"))

# Where a value stands in the text of an f-string; no source has this sign.
MARK = "\ufffc"
# A program with its arguments in backquotes; a command of ours, and an option with its value, with or without.
COMMAND = re.compile(
    rf"`(?:[a-z][a-z0-9.-]* |-)[^`]*{MARK}[^`]*`"
    rf"|\breprobuild [a-z][a-z-]*(?: [^\s;,)]*{MARK}[^\s;,)]*| --?[a-z-]+(?= ))+"
    rf"|(?<![\w-])--[a-z][a-z-]*[ =][^\s`]*{MARK}[^\s`;,)]*"
)
QUOTING = {"shlex.quote", "shlex.join", "quote_path"}
ALTERING = {"safe_text", "display_line", "display_text", "redact", "secrets.redact", "ascii", "repr"}

# Values that are our own, or quoted before: by `FILE: EXPRESSION`.
ALLOWED = {
    "distribute/text.py: PurePosixPath(choice.file).stem": "a sha256 in hexadecimal digits",
    "run/choices.py: file.digest": "a sha256 in hexadecimal digits",
    "distribute/choices.py: file.digest": "a sha256 in hexadecimal digits",
    "resolve/readiness.py: options": "`_capture_options` quotes each word",
    "resolve/deviation_remedies.py: value if is_whole else 'PATH@COMMIT'": "`_is_quoted` has tested it",
    "doctor/compatibility.py: others[0]": "the name of an engine that this program knows",
    "doctor/machine.py: good": "a number of this file",
    "doctor/machine.py: name": "a setting of the kernel that this file names",
    "doctor/fixes.py: _read_table().manager[host.manager]": "of our data file",
    "doctor/fixes.py: name": "of our data file",
    "doctor/fixes.py: package_name": "of our data file",
    "run/run.py: option": "none or host",
    "cluster/kubernetes_commands.py: job.namespace": "the user's own option, with a grammar",
    "config/profiles.py: name": "of our profiles",
    "resolve/system/base.py: release.distribution": "debian or ubuntu",
    "snapshot/importers/requirement_rows.py: value": "a hash in its form",
    "resolve/architecture.py: ' or --platform '.join(MACHINES)": "a constant",
    "resolve/python/prebuilt.py: _read_projects()[sdist.name].service": "of our data file",
    "resolve/interpreter/choice.py: 't' * ran[0].free_threaded": "a letter or none",
    "resolve/sources/captured_sources.py: _source_option(repository, here)": "it quotes",
    "resolve/sources/resolutions.py: fits": "words behind the command",
    "resolve/sources/resolutions.py: name": "a name with a grammar, or quoted",
    "ecosystems/git/restore/origins.py: _source_option(repository)": "it quotes",
    "resolve/sources/resolutions.py: where": "a placeholder, or an address that is quoted",
    "resolve/python/rulings.py: _index_option(line, item)": "it quotes",
    "resolve/python/rulings.py: _index_option(line, first)": "it quotes",
    "resolve/python/rulings.py: _index_option(line, second)": "it quotes",
    "distribute/text.py: against": "it is empty, or quotes",
    "distribute/bundle_writer.py: least": "a number",
    "snapshot/parsers/capture_json.py: NEWEST": "a constant",
    "image/formats/single_file.py: _FORMATS[kind]": "a constant",
    "reprobuild_runtime/capture.py: words[0]": "a subcommand of git that this file names",
}


# Quoted commands that are altered with a reason: by `FILE: EXPRESSION`.
ALTERED = {
    "pipeline/stated_decisions.py: display_text(redact(str(text)))": "a list of a decisions file, and no command",
    "pipeline/stated_decisions.py: redact(str(text))": "the same",
}


def unquoted(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, expression) of each value in a command of an f-string that no function of shlex quotes."""
    tree = ast.parse(source)
    # The call gets a command without backquotes.
    given = {
        id(call.args[0])
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and _name(call) == "with_sudo"
    }
    for node, names in _texts(tree, {}):
        values = [part for part in node.values if isinstance(part, ast.FormattedValue)]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else MARK for part in node.values)
        spans = [match.span() for match in COMMAND.finditer(text) if not _own_option(match, text)]
        for start, end in [(0, len(text))] if id(node) in given else spans:
            first = text.count(MARK, 0, start)
            for value in values[first : first + text.count(MARK, start, end)]:
                if not (_is_quoted(value.value, names) or _name(value.value) == "with_sudo"):
                    yield value.lineno, ast.unparse(value.value)


def _name(value: ast.expr) -> str:
    return ast.unparse(value.func) if isinstance(value, ast.Call) else ""


def _is_quoted(value: ast.expr, names: Mapping[str, bool]) -> bool:
    return _name(value) in QUOTING or (isinstance(value, ast.Name) and names.get(value.id, False))


def _texts(node: ast.AST, names: Mapping[str, bool]) -> Iterator[tuple[ast.JoinedStr, Mapping[str, bool]]]:
    """Yield each f-string, with the names of its function, and whether each value that these get is quoted."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        found: dict[str, bool] = {}
        for assigned in ast.walk(node):
            for target, value in _assigned(assigned):
                found[target] = found.get(target, True) and _name(value) in QUOTING
        names = found
    if isinstance(node, ast.JoinedStr):
        yield node, names
    for child in ast.iter_child_nodes(node):
        yield from _texts(child, names)


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if not isinstance(node, ast.Assign):
        return
    for target in node.targets:
        names, values = getattr(target, "elts", [target]), getattr(node.value, "elts", [node.value])
        fits = len(names) == len(values) and not any(isinstance(one, ast.Starred) for one in names)
        for number, one in enumerate(names):
            if isinstance(one, ast.Name):
                yield one.id, values[number] if fits else node.value


def _own_option(match: re.Match[str], text: str) -> bool:
    """Tell whether a text is one word for a program, or begins with the option that the user gave."""
    return match.start() == 0 and (" " not in text or (text[0] == "-" and match.end() < len(text)))


def altered(source: str) -> Iterator[str]:
    """Yield each expression that escapes, redacts or shortens a quoted command: a quote of it could get lost."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    for function in functions:
        quoted: set[str] = set()
        for node in ast.walk(function):
            quoted |= {name for name, value in _assigned(node) if _quotes(value, quoted)}
        for node in ast.walk(function):
            if (
                isinstance(node, ast.Call)
                and _name(node) in ALTERING
                and any(_quotes(a, quoted) for a in node.args)
            ):
                yield ast.unparse(node)


def _quotes(value: ast.expr, quoted: Collection[str]) -> bool:
    """Tell whether a value is made of a quoted command."""
    return any(
        (isinstance(node, ast.Call) and _name(node) in QUOTING)
        or (isinstance(node, ast.Name) and node.id in quoted)
        for node in ast.walk(value)
    )


@functools.cache
def places() -> list[str]:
    """Return each unquoted value as `FILE: EXPRESSION`."""
    return [
        f"{path.relative_to(ROOT).as_posix().removeprefix('reprobuild/')}: {value}"
        for path in FILES
        for _, value in unquoted(path.read_text())
    ]


def test_every_value_in_a_command_of_a_message_is_quoted() -> None:
    assert sorted(set(places()) - set(ALLOWED)) == []


def test_no_row_is_left_over() -> None:
    assert sorted(set(ALLOWED) - set(places())) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('f"trust it: `git config --add safe.directory {path}`"', ["path"]),
        ('f"`git config --add safe.directory {shlex.quote(path)}`"', []),
        ('f"name it with --source {name}={shlex.quote(place)}@COMMIT"', ["name"]),
        ('f"to follow it run: reprobuild lock {folder} -o {out}; or not"', ["folder", "out"]),
        ('f"do this: `--accept {a}/{b}` "\nf"captures it"', ["a"]),
        ('" ".join(f"--accept {kind}" for kind in kinds)', ["kind"]),
        ('with_sudo(f"usermod -aG docker {user}", host)', ["user"]),
        ('f"`{program}` is not there"', []),  # nothing to copy
        ('f"--workdir {text}: no path"', []),  # the user's own option
        ('run(["git", f"--git-dir={folder}"])', []),  # no shell
        ('def f(a):\n    b = shlex.quote(a)\n    return f"`rm {b}`"', []),
        ('def f(a):\n    b = shlex.quote(a)\n    b = a\n    return f"`rm {b}`"', ["b"]),
        ('def f(a):\n    b, c = shlex.quote(a), a\n    return f"`rm {b} {c}`"', ["c"]),
    ],
)
def test_the_control(source: str, found: list[str]) -> None:
    assert [value for _, value in unquoted(source)][: len(found) or None] == found


def test_a_path_in_a_command_is_no_option() -> None:
    """`quote_path` writes `./-x`; `shlex.quote` does not."""
    rows = [
        path.name
        for path in FILES
        if path.parts[-2] not in ("sandbox",)
        for name in ("shlex.quote(str(", "shlex.quote(escape_text(str(", "shlex.quote(display_text(str(")
        if name in path.read_text()
    ]
    assert rows == ["script.py"]  # of `bisect`: a directory of a program that it writes


def test_a_path_with_a_hyphen_in_the_next_command() -> None:
    command = render_readiness((), Path("-x")).partition("next: ")[2]
    assert command == "reprobuild from-snapshot ./-x -o frozen"
    assert (quote_path("-x"), quote_path(Path("a/-x")), quote_path("a b")) == ("./-x", "a/-x", "'a b'")


@pytest.mark.parametrize(
    "name", ["z\nerror: z", "z'\nerror: z' ", "'\n'", "\\n\n\\", "-\n", "a'b'\n$(id)`id`"]
)
def test_a_line_break_in_a_quoted_word_is_displayed_in_one_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name could forge a line of the output. The displayed word still names the file, in bash."""
    _print_error("it failed", f"run it again:\n`reprobuild show {shlex.quote(name)} -x 'a b'` or don't", 1)
    *_, first, second = capsys.readouterr().err.strip().splitlines()
    assert first.strip() == "hint: run it again:", first
    word = second.strip().removeprefix("`reprobuild show ").partition(" -x 'a b'` or don't")[0]
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, text=True, check=True)
    assert said.stdout == name
    said = subprocess.run(
        ["bash", "-c", f"printf %s {quote_path(name)}"], capture_output=True, text=True, check=True
    )
    assert said.stdout == ("./" * name.startswith("-") + name)
    assert "\n" not in quote_path(name)


def test_no_quoted_command_is_shortened_or_redacted() -> None:
    rows = [
        f"{path.relative_to(ROOT).as_posix().removeprefix('reprobuild/')}: {value}"
        for path in FILES
        for value in altered(path.read_text())
    ]
    assert sorted(set(rows) - set(ALTERED)) == []
    assert sorted(set(ALTERED) - set(rows)) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def f(x):\n return safe_text(shlex.join(x), 20)", 1),
        ("def f(x):\n y = f'run {shlex.quote(x)}'\n return display_line(y)", 1),
        ("def f(x):\n y = shlex.quote(safe_text(x))\n return escape_text(y)", 0),
    ],
)
def test_an_altered_command_is_named(source: str, count: int) -> None:
    assert len(list(altered(source))) == count
