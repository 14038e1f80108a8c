"""Hostile texts in each field of a lock: the online recipe refuses them, or has them as values and runs none."""

from __future__ import annotations

import re
import subprocess
from itertools import groupby

import msgspec
import pytest

from reprobuild.errors import ReproError
from reprobuild.lock.model import Lock
from reprobuild.pipeline.render import render_from_network
from reprobuild.recipe.payload import pack_runtime
from reprobuild.store.store import Store
from tests.recipe.full_lock import full_lock, replaced, texts
from tests.recipe.test_injection import WORDS

BAD = (
    "\nRUN touch PWNED\nEOF\ntouch PWNED\n%post\n    touch PWNED\nSCRIPT\nRUN touch PWNED\n",
    "';touch PWNED;\";touch PWNED;$(touch PWNED)`touch PWNED`{{ PIP_INDEX_URL }}\\",
)
# The programs of the scripts, which do nothing, and `touch`. The shell is restricted: it starts no program with a path
# and writes no file (https://www.gnu.org/software/bash/manual/html_node/The-Restricted-Shell.html).
PROGRAMS = (
    "apt-get",
    "dpkg",
    "rm",
    "rmdir",
    "find",
    "chmod",
    "tar",
    "base64",
    "mkdir",
    "cat",
    "git",
    "apt-helper",
)
STUBS = "touch() { echo PWNED; }\n" + "".join(f"{name}() {{ :; }}\n" for name in PROGRAMS)
SHELL = ("/bin/bash", "--noprofile", "--norc", "--restricted")
INSTRUCTION = re.compile(r"(FROM|ARG|COPY|RUN|ENV|USER|WORKDIR|ENTRYPOINT|CMD|LABEL)\b")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return Store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def honest(store: Store) -> Lock:
    """The full lock, with a runtime package and a source that the store has."""
    lock = full_lock()
    runtime = msgspec.structs.replace(lock.realised, runtime=pack_runtime(store))  # type: ignore[attr-defined]  # the lock is sealed
    source = msgspec.structs.replace(lock.sources[0], patch=None)
    return msgspec.structs.replace(lock, realised=runtime, sources=(source,))


def instructions(dockerfile: str) -> list[str]:
    """Return the first words of the instructions, as BuildKit reads them: a here-document is no instruction."""
    found, end = [], ""
    for line in dockerfile.split("\n"):
        if end:
            end = "" if line == end else end
        elif match := INSTRUCTION.match(line):
            found.append(match[0])
            here = re.search(r"<<'(\w+)'", line) if match[0] in ("RUN", "COPY") else None
            end = here[1] if here else ""
        else:
            assert not line or line.startswith("#"), line
    assert not end
    return [word for word, _ in groupby(found)]  # a value with a line break is no ENV, but of `environ.json`


def sections(definition: str) -> list[str]:
    return [line.split()[0] for line in definition.splitlines() if line.lstrip().startswith("%")]


def scripts(recipe: dict[str, str]) -> list[str]:
    """Return the shell scripts of both files."""
    found = re.findall(r"^RUN [^\n]*<<'SCRIPT'\n(.*?)^SCRIPT$", recipe["Dockerfile"], re.M | re.S)
    parts = re.split(r"^(?=%|Bootstrap:|# The captured)", recipe["Apptainer.def"], flags=re.M)
    posts = [part.partition("\n")[2] for part in parts if part.startswith("%post")]
    return found + [with_arguments(post, recipe["Apptainer.def"]) for post in posts]


def with_arguments(script: str, definition: str) -> str:
    """Return a script with the texts of its arguments in it, as Apptainer makes it before a shell reads it."""
    rows = re.findall(r"^%arguments\n(.*?)(?=^%|^\S*$)", definition, re.M | re.S)
    arguments = dict(re.findall(r"^ +(\w+)=(.*)$", "".join(rows), re.M))
    return re.sub(r"\{\{ (\w+) \}\}", lambda match: arguments.get(match[1], ""), script)


@pytest.mark.long
def test_a_text_is_refused_or_a_value(honest: Lock, store: Store) -> None:
    before = dict(render_from_network(honest, store, None).texts)  # type: ignore[arg-type]  # the lock is sealed
    shape = instructions(before["Dockerfile"]), sections(before["Apptainer.def"])
    seen = set[str]()
    refused, changed = 0, list[str]()
    for path, steps, text in texts(honest):
        if path in seen or path in WORDS or path.endswith(".building.requires[...]"):
            continue
        seen.add(path)
        for bad in BAD:
            lock = replaced(honest, steps, f"{text}{bad}")
            try:
                recipe = dict(render_from_network(lock, store, None).texts)
            except (ReproError, ValueError, KeyError):
                refused += 1
                continue
            if [*map(_without_digest, recipe.values())] == [*map(_without_digest, before.values())]:
                continue
            assert (instructions(recipe["Dockerfile"]), sections(recipe["Apptainer.def"])) == shape, (
                path,
                bad,
            )
            changed.append(f"{path} {bad!r}")
            assert run(scripts(recipe)) == 0, (path, bad)
    assert refused > 50
    assert any(line.startswith("$.environment[...].value") for line in changed)
    assert any(line.startswith("$.base.packages[...].file.url") for line in changed)


def _without_digest(text: str) -> str:
    return re.sub("[0-9a-f]{64}", "", text)


def run(found: list[str]) -> int:
    """Run scripts as far as they come, and return how often `touch` ran."""
    assert len(found) == 7
    text = "\n".join(found)
    text = text.replace("set -eu\n", "").replace("exit 1", ":")
    text = text.replace("/usr/lib/apt/apt-helper", "apt-helper")
    done = subprocess.run(
        SHELL,
        input=f"{STUBS}{text}",
        env={"PATH": ""},
        text=True,
        capture_output=True,
        check=False,
        timeout=60,
    )
    return done.stdout.split().count("PWNED")


def test_the_scripts_are_seen_to_run(honest: Lock, store: Store) -> None:
    """A control: a command at their end runs."""
    found = scripts(dict(render_from_network(honest, store, None).texts))  # type: ignore[arg-type]  # the lock is sealed
    assert run(found) == 0
    assert run([*found[:-1], found[-1] + "\ntouch PWNED\n"]) == 1
