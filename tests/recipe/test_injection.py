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
from reprobuild.lock import Lock, encode, read_lock
from reprobuild.render import render
from tests.guard.types_walk import strings
from tests.recipe.full_lock import full_lock, replaced, texts

BAD = (
    "\n    touch PWNED\n#", "\nRUN touch PWNED\n", "\n%post\n    touch PWNED\n", "\r", "\rRUN touch PWNED\r", '"',
    '", "x"]\nRUN touch PWNED\n#', "'", ";touch PWNED;", "$(touch PWNED)", "`touch PWNED`", "../", "../" * 24, "#",
    "{{ x }}", "\u2028touch PWNED\u2028", "\u0085touch PWNED\u0085", "\0", "\\", "\\\n", "x" * 65536, "<<EOF\n",
    " --index-url=https://evil.invalid/ ", "\x1b]0;x\x07",
)  # fmt: skip
# Strings with a fixed vocabulary: no other text is one, and the walk over the types does not call them strings.
WORDS = {"$.interpreter.kind", "$.wheels[...].role", "$.realised.wheels[...].role", "$.rulings[...].outcome"}
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
    assert {path for path, _, _ in texts(honest)} == {path for path, _ in strings(Lock)} | WORDS


def changed(honest: Lock) -> Iterator[tuple[str, str, str, Lock]]:
    """Yield (path, former text, new text, lock) for each field and each text, alone and behind what belongs there."""
    seen: set[str] = set()
    for path, steps, text in texts(honest):
        if path not in seen:
            seen.add(path)
            for bad in BAD:
                for new in (bad, f"{text}{bad}"):
                    yield path, text, new, replaced(honest, steps, new)


def test_read_lock_refuses_it_or_it_is_a_value(honest: Lock, tmp_path: Path) -> None:
    refused = tried = 0
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
        try:
            assert_same(baseline(honest, path, new), read_lock(place), text, new, path)
        except BuildError as err:  # a path that a recipe alone cannot carry
            unwritten[path] = str(err)
    assert unwritten.keys() <= {"$.workdir"}, unwritten
    assert tried == 2 * len(BAD) * len({path for path, _, _ in texts(honest)})
    assert 0 < refused < tried


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


def test_the_filters_hold_without_read_lock(honest: Lock) -> None:
    refused = 0
    for path, text, new, lock in changed(honest):
        try:
            assert_same(baseline(honest, path, new), lock, text, new, path)
        except (ReproError, ValueError):  # the latter from the file for Python, which is not ours to quote
            refused += 1
    assert refused


Shape = dict[str, list[tuple[str, ...]]]
_KNOWN: dict[tuple[str, str], list[tuple[str, ...]]] = {}


def baseline(honest: Lock, path: str, new: str) -> Shape:
    """Return what the honest recipes do; a value with a line break is no part of them, but of `environ.json`."""
    if path == "$.environment[...].value" and re.search(r"[\0-\x1f\x7f]", new):
        return shape(replaced(honest, ("environment", 0, "value"), "one\ntwo"))
    return shape(honest)


def assert_same(before: Shape, lock: Lock, text: str, new: str, path: str) -> None:
    """Compare what the recipes of a lock do with what those of the honest one did."""
    after = shape(lock)
    for name, commands in before.items():
        assert len(after[name]) == len(commands), (path, new, name)
        for one, other in zip(commands, after[name], strict=True):
            assert len(one) == len(other), (path, new, other)
            for word, now in zip(one, other, strict=True):
                assert now in (word, *forms(word, text, new)), (path, new, word, now)


def forms(word: str, text: str, new: str) -> Iterator[str]:
    """Yield a word with the new text in the place of the former one; comments have it on one line, spaces as one."""
    yield word.replace(text, new)
    if word.startswith("#"):
        plain = "".join(character if character.isprintable() else " " for character in new)
        yield word.replace(text, plain)
        yield word.replace(text, re.sub(r"\{(?=\{)", "{ ", plain))


def shape(lock: Lock) -> Shape:
    """Return the instructions and commands of the recipes, each as words; the digest of the lock is left out."""
    made = {
        name: content.replace(lock.digest, "LOCK").replace(lock.digest[:12], "OWN")
        for name, content in render(lock).items()
    }
    readers = {"Dockerfile": instructions, "Apptainer.def": sections, "requirements.txt": lines}
    for name, read in readers.items():
        if (name, made[name]) not in _KNOWN:
            _KNOWN[name, made[name]] = read(made[name])
    msgspec.toml.decode(made["pylock.toml"])
    return {name: _KNOWN[name, made[name]] for name in readers}


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
    assert "\n    touch" not in render(evil)["Apptainer.def"]
    for steps in (("sources", 0, "name"), ("sources", 0, "path"), ("interpreter", "executable")):
        with pytest.raises(BuildError, match=r"cannot stand in a recipe|control character") as refused:
            render(replaced(honest, steps, '"]\nRUN touch PWNED\n'))
        assert refused.value.hint == "make the lock again with `reprobuild lock DIR`"


def test_the_shape_shows_a_command_more(honest: Lock) -> None:
    """The comparison itself can fail: a recipe with a command more has another shape."""
    texts_made = render(honest)
    more = texts_made["Apptainer.def"].replace("\n%post\n", "\n    touch PWNED\n%post\n")
    assert ("touch", "PWNED", "") in sections(more)
    assert len(sections(more)) == len(sections(texts_made["Apptainer.def"])) + 1
    added = texts_made["Dockerfile"].replace("\nWORKDIR", "\nRUN touch PWNED\nWORKDIR")
    assert len(instructions(added)) == len(instructions(texts_made["Dockerfile"])) + 1
