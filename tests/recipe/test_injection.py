"""Whatever stands in a field of a lock: it is refused, or the recipes hold it as a value and nothing else changes.

The fields are found by walking the types. Each text is tried through `read_lock`, and in a lock that nobody validated.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from dockerfile_parse import DockerfileParser

from reprobuild.errors import BuildError, LockError, ReproError
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock, SealedLock, encode
from reprobuild.recipe.image_config import UNREADABLE, environ_file
from reprobuild.recipe.render import render_recipe
from tests.recipe.full_lock import full_lock, replaced, texts
from tests.untrusted.types_walk import strings

BAD = (
    "\n    touch PWNED\n#", "\nRUN touch PWNED\n", "\n%post\n    touch PWNED\n", "\r", "\rRUN touch PWNED\r", '"',
    '", "x"]\nRUN touch PWNED\n#', "'", ";touch PWNED;", "$(touch PWNED)", "`touch PWNED`", "../", "../" * 24, "#",
    "{{ x }}", "\u2028touch PWNED\u2028", "\u0085touch PWNED\u0085", "\0", "\\", "\\\n", "x" * 65536, "<<EOF\n",
    " --index-url=https://evil.invalid/ ", "\x1b]0;x\x07",
    "\u202e touch PWNED \u202c", "\u2066x\u2069", "\u200f", "\u061c",
)  # fmt: skip
# Strings with a fixed vocabulary: no other text is one, and the walk over the types does not call them strings.
WORDS = {"$.interpreter.kind", "$.wheels[...].role", "$.realised.wheels[...].role", "$.rulings[...].outcome",
         "$.decisions.system"}  # fmt: skip
# What the shell of a definition file may call, as functions that write down their words; the PATH is empty.
CALLS = ("tar", "mkdir", "chmod", "cp", "rm", "touch", "cd")
STUBS = "".join(f'{name}() {{ note {name} "$@"; }}\n' for name in CALLS)
NOTE = "note() { for word; do printf '%s\\0' \"$word\"; done; printf '\\1\\0'; }\n"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Lock:
    """A lock whose interpreter writes down how it is called."""
    python = tmp_path_factory.mktemp("bin") / "python3.11"
    python.write_text(f'#!/bin/sh\n{NOTE}note python "$@"\n')
    python.chmod(0o755)
    return full_lock(str(python))


def test_the_lock_has_something_in_each_field(honest: Lock) -> None:
    assert {path for path, _, _ in texts(honest)} == {path for path, _ in strings(SealedLock)} | WORDS


def changed(honest: Lock) -> Iterator[tuple[str, str, str, Lock]]:
    """Yield (path, former text, new text, lock) for each field and each text, alone and behind what belongs there."""
    seen: set[str] = set()
    for path, steps, text in texts(honest):
        if path not in seen:
            seen.add(path)
            for bad in BAD:
                for new in (bad, f"{text}{bad}"):
                    if path != "$.interpreter.executable" or not re.fullmatch(r"[\w./-]+", new):
                        yield (
                            path,
                            text,
                            new,
                            replaced(honest, steps, new),
                        )  # else it is a program, and not here


def test_read_lock_refuses_it_or_it_is_a_value(honest: Lock, tmp_path: Path) -> None:
    refused = tried = 0
    shown = reaching(honest)
    unwritten: dict[str, str] = {}
    place = tmp_path / "reprobuild.lock"
    for path, text, new, lock in changed(honest):
        tried += 1
        place.write_bytes(msgspec.json.encode(as_document(lock)))
        message = refusal(place)
        if message:
            assert "`$`" in message or pointed(message).startswith(pointed(f"`{path}`")), (path, new, message)
            refused += 1
            continue
        if path not in shown and new not in BAD[:2]:
            continue
        try:
            assert_same(baseline(honest, path, new), read_lock(place), text, new, path)
        except BuildError as err:  # a recipe alone cannot carry it, and no lock of ours has it
            unwritten[path] = str(err)
    assert unwritten.keys() <= {"$.workdir", "$.base.image.environment[...].value"}, unwritten
    assert tried > 45 * len({path for path, _, _ in texts(honest)})
    assert 0 < refused < tried


def reaching(honest: Lock) -> set[str]:
    """Return the fields that a recipe shows: it is another one where their text has one letter more."""
    before, found = made(honest), set[str]()
    for path, steps, text in texts(honest):
        try:
            if made(replaced(honest, steps, f"{text}x")) != before:
                found.add(path)
        except (ReproError, ValueError, KeyError):
            found.add(path)
    return found


def refusal(place: Path) -> str:
    try:
        read_lock(place)
    except LockError as err:
        return str(err)
    return ""


def pointed(message: str) -> str:
    """Return the field that a message names, without the numbers of items."""
    path = message.rpartition("`$.")[2].partition("`")[0]
    return re.sub(r"\[[^]]*\]", "[]", path.removesuffix("{key}"))


def as_document(lock: Lock) -> object:
    return {**msgspec.to_builtins(lock), "decisions": msgspec.to_builtins(lock.decisions)}


@pytest.mark.long
def test_the_filters_hold_without_read_lock(honest: Lock) -> None:
    refused = 0
    shown = reaching(honest)
    assert {"$.sources[...].commit", "$.interpreter.executable", "$.wheels[...].name"} <= shown
    for path, text, new, lock in changed(honest):
        if path in WORDS or (path not in shown and new not in BAD[:2]):
            continue
        try:
            assert_same(baseline(honest, path, new), lock, text, new, path)
        except (ReproError, ValueError):  # the latter from a requirement that is none
            refused += 1
    assert refused


def test_no_recipe_has_a_mark_that_makes_a_line_read_as_another(honest: Lock) -> None:
    """Marks of writing direction: a person who reviews a recipe would read another value than a builder does."""
    marks = [chr(code) for code in (0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))]
    written = set[str]()
    for path, steps, text in texts(honest):
        if path in WORDS:
            continue
        try:
            recipes = render_recipe(replaced(honest, steps, text + "".join(marks)))
        except (ReproError, ValueError):
            continue
        written.add(path)
        assert not [(path, name) for name, recipe in recipes.items() if set(marks) & set(recipe)]
    assert {"$.environment[...].value", "$.rulings[...].reason"} <= written
    lock = replaced(honest, ("environment", 0, "value"), f"one{marks[5]}two")
    (content,) = environ_file(lock).values()
    assert f"one{marks[5]}two" in json.loads(content).values()


Shape = dict[str, list[tuple[str, ...]]]
_KNOWN: dict[tuple[str, str], list[tuple[str, ...]]] = {}


def baseline(honest: Lock, path: str, new: str) -> Shape:
    """Return what the honest recipes do.

    A value with a line break is no part of them, but of `environ.json`. What was built is for the source of its name.
    """
    if path in ("$.sources[...].name", "$.realised.builds[...].name"):
        steps = next(steps for one, steps, _ in texts(honest) if one == path)
        return shape(replaced(honest, steps, "tcejorp"))
    if path == "$.environment[...].value" and UNREADABLE.search(new):
        return shape(replaced(honest, ("environment", 0, "value"), "one\ntwo"))
    return shape(honest)


def assert_same(before: Shape, lock: Lock, text: str, new: str, path: str) -> None:
    """Compare what the recipes of a lock do with what those of the honest one did."""
    after = shape(lock)
    text = "tcejorp" if path == "$.sources[...].name" else text
    for name, commands in before.items():
        assert len(after[name]) == len(commands), (path, new, name)
        for one, other in zip(commands, after[name], strict=True):
            assert len(one) == len(other), (path, new, other)
            for word, now in zip(one, other, strict=True):
                assert blank(now) in map(blank, (word, *forms(word, text, new))), (path, new, word, now)


def blank(word: str) -> str:
    """Return a word; of a comment, which the parser strips, without its blanks."""
    return re.sub(r"\s+", "", word) if word.startswith("#") else word


def forms(word: str, text: str, new: str) -> Iterator[str]:
    """Yield a word with the new text in the place of the former one; comments have it on one line."""
    yield word.replace(text, new)
    if word.startswith("#"):
        plain = "".join(character if character.isprintable() else " " for character in new)
        yield word.replace(text, plain)
        yield word.replace(text, re.sub(r"\{(?=\{)", "{ ", plain))


def shape(lock: Lock) -> Shape:
    """Return the instructions and commands of the recipes, each as words; the digest of the lock is left out."""
    found = made(lock)
    readers = {"Dockerfile": instructions, "Apptainer.def": sections, "requirements.txt": lines}
    for name, read in readers.items():
        if (name, found[name]) not in _KNOWN:
            _KNOWN[name, found[name]] = read(found[name])
    msgspec.toml.decode(found["pylock.toml"])
    return {name: _KNOWN[name, found[name]] for name in readers}


def made(lock: Lock) -> dict[str, str]:
    """Return the recipes without the digest of the lock."""
    digest = lock.digest
    return {
        name: content.replace(digest, "LOCK").replace(digest[:12], "OWN")
        for name, content in render_recipe(lock).items()
    }


def instructions(text: str) -> list[tuple[str, ...]]:
    parser = DockerfileParser(fileobj=io.BytesIO(text.encode()), env_replace=False)
    return [
        ("#", f"#{one['value']}") if one["instruction"] == "COMMENT" else (one["instruction"], *words(**one))
        for one in parser.structure
    ]


def words(instruction: str, value: str, content: str, **_: object) -> list[str]:
    assert content.count("\n") == 1 + content.count("\\\n"), content
    if instruction in ("ADD", "RUN", "ENTRYPOINT", "CMD") and "[" in value:
        options, _, array = value.partition("[")
        return [options, *json.loads(f"[{array}")]
    if instruction in ("ENV", "LABEL"):
        (pair,) = shlex.split(value.replace("\\$", "$"))
        return list(pair.partition("="))
    if instruction == "WORKDIR":
        return [re.sub(r"\\(.)", r"\1", value)]
    return value.split(" ")


def lines(text: str) -> list[tuple[str, ...]]:
    return [("#", line) if line.startswith("#") else tuple(line.split(" ")) for line in text.splitlines()]


def sections(text: str) -> list[tuple[str, ...]]:
    """Return what each section of a definition file does: the commands that its shell runs, in order."""
    assert "{{" not in text
    parts = re.split(r"(?m)^\s*%", text)  # Apptainer takes blanks before a section's name
    done = [("#", f"#{line}") for line in parts[0].split("\n")]
    for part in parts[1:]:
        name, _, body = part.partition("\n")
        done.append(("%", name))
        if name == "labels":
            done += [tuple(line.strip().split(" ")) for line in body.split("\n")]
        else:
            done += [("#", line.strip()) for line in body.split("\n") if line.lstrip().startswith("#")]
            done += commands(name, body)
    return done


def commands(name: str, body: str) -> list[tuple[str, ...]]:
    """Return the commands that a shell runs for a section, as it understands them, and the variables that it sets."""
    subprocess.run(["/bin/sh", "-n"], input=body, text=True, check=True, capture_output=True)
    end = "exec /usr/bin/env -0\n" if name == "environment" else ""
    done = subprocess.run(
        ["/bin/sh", "-e", "-c", f"{NOTE}{STUBS}{body}\n{end}", "sh"],
        capture_output=True, text=True, env={"PATH": "/nonexistent", "APPTAINER_ROOTFS": "/root of the image"}, cwd="/",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, ""), (name, body, done.stderr)
    if end:
        return [tuple(pair.partition("=")) for pair in done.stdout.split("\0")]
    return [tuple(command.split("\0")) for command in done.stdout.split("\1\0")]


def test_what_the_auditor_did(honest: Lock, tmp_path: Path) -> None:
    """A commit with a line break was a command on the host, as root: `%setup` runs outside of the image."""
    evil = replaced(honest, ("sources", 0, "commit"), "abc\n    touch PWNED\n #")
    place = tmp_path / "reprobuild.lock"
    place.write_bytes(encode(evil))
    with pytest.raises(LockError, match=r"sources\[0\]\.commit") as caught:
        read_lock(place)
    assert "if somebody handed it over" in str(caught.value.hint)
    assert "\n    touch" not in render_recipe(evil)["Apptainer.def"]
    for steps in (
        ("sources", 0, "name"), ("sources", 0, "path"), ("interpreter", "executable"), ("environment", 0, "name"),
    ):  # fmt: skip
        with pytest.raises(BuildError, match=r"cannot stand in a recipe|control character") as refused:
            render_recipe(replaced(honest, steps, '"]\nRUN touch PWNED\n'))
        assert refused.value.hint == "make the lock again with `reprobuild lock DIR`"


def test_the_shape_shows_a_command_more(honest: Lock) -> None:
    """The comparison itself can fail: a recipe with a command more has another shape."""
    texts_made = render_recipe(honest)
    more = texts_made["Apptainer.def"].replace("\n%post\n", "\n    touch PWNED\n%post\n")
    assert ("touch", "PWNED", "") in sections(more)
    assert len(sections(more)) == len(sections(texts_made["Apptainer.def"])) + 1
    added = texts_made["Dockerfile"].replace("\nWORKDIR", "\nRUN touch PWNED\nWORKDIR")
    assert len(instructions(added)) == len(instructions(texts_made["Dockerfile"])) + 1
