"""How the commands of a guide are run as they stand in it.

A fenced block of `bash` is run by Bash, with `set -eu -o pipefail`; blocks that follow one another on one machine are
one session, with its variables and its directory. A block of `text` right after it shows what comes out, from both
streams: these lines must stand there one after another. `...` alone on a line stands for any lines, and elsewhere for
any characters of its line. A line `NAME=VALUE  # yours` is the reader's own choice, and the test makes another.

Comments that no reader sees, right before a block:

    <!-- guide: on NAME -->      from here on the blocks are run on this machine
    <!-- guide: file PATH -->    the block is a file in the directory of the guide

A block that is none of these is an error: nothing of a guide is left out.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(
    r"(?:^<!-- guide: (?P<what>\w+) (?P<word>\S+) -->\n+)?^```(?P<kind>\w*)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"^<!-- guide: .*$", re.MULTILINE)
YOURS = re.compile(r"^(?P<name>\w+)=(?P<value>'[^']*'|\S+)(?P<rest> +# yours\b.*)$", re.MULTILINE)
LIMIT = 1500  # seconds for one session
BEGIN = "@@ block {} @@"

# What runs a script of Bash on a machine, given the directory of the guide.
Machine = Callable[[str, Path], "subprocess.CompletedProcess[str]"]


class GuideError(Exception):
    """A guide is written so that it cannot be run, or did not do what it says."""


@dataclass
class Block:
    """One block of commands on a machine, and what is shown to come out of it; or a file."""

    machine: str
    text: str
    shown: str = ""
    file: str = ""


@dataclass
class Ran:
    """What came out of each block of commands, in order, and which choices were the reader's."""

    outputs: list[str] = field(default_factory=list)
    chosen: set[str] = field(default_factory=set)


def read_guide(text: str) -> list[Block]:
    """Return the blocks of a guide.

    Raises:
        GuideError: a block has no meaning, or a mark belongs to no block.
    """
    blocks: list[Block] = []
    machine, end, marks = "here", 0, 0
    for found in BLOCK.finditer(text):
        what, kind, body = found["what"], found["kind"], found["text"]
        between, end = text[end : found.start()].strip(), found.end()
        marks += what is not None
        if what == "file":
            blocks.append(Block(machine, body, file=found["word"]))
            continue
        if what not in (None, "on"):
            raise GuideError(f"there is no mark {what!r}")
        machine = found["word"] if what == "on" else machine
        if kind == "bash":
            blocks.append(Block(machine, body))
        elif kind == "text" and blocks and not blocks[-1].file and not blocks[-1].shown and not between:
            blocks[-1].shown = body
        else:
            raise GuideError(
                f"a block of {kind or 'nothing'!r} is neither run, nor compared, nor a file:\n{body}"
            )
    if marks != len(MARK.findall(text)) or re.search(r"^    \S", BLOCK.sub("", text), re.MULTILINE):
        raise GuideError("a mark has no block, or a block is not fenced")
    return blocks


def run_guide(
    text: str, folder: Path, machines: Mapping[str, Machine], yours: Mapping[str, str | Path]
) -> Ran:
    """Run a guide in a directory, and compare what it shows.

    Args:
        text: the guide's own, in Markdown.
        folder: where its commands begin, and its files go.
        machines: what runs a session, by the names that the guide has; "here" where it names none.
        yours: the value of each choice that the guide leaves to its reader.

    Raises:
        GuideError: a command failed, something else came out than is shown, or choices do not fit.
    """
    ran, session = Ran(), list[Block]()
    for block in (*read_guide(text), Block("", "")):
        if session and (block.machine != session[0].machine or block.file):
            _run_session(session, folder, machines[session[0].machine], yours, ran)
            session = []
        if block.file:
            path = folder / block.file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.machine:
            session.append(block)
    if ran.chosen != set(yours):
        raise GuideError(f"the guide leaves {sorted(ran.chosen)} to its reader, not {sorted(yours)}")
    return ran


def _run_session(
    session: Sequence[Block], folder: Path, machine: Machine, yours: Mapping[str, str | Path], ran: Ran
) -> None:
    def choose(found: re.Match[str]) -> str:
        ran.chosen.add(found["name"])
        return f"{found['name']}={shlex.quote(str(yours[found['name']]))}{found['rest']}"

    script = "set -eu -o pipefail\n"
    for number, block in enumerate(session):
        text, choices = YOURS.subn(choose, block.text)
        if choices != block.text.count("# yours"):
            raise GuideError(f"the reader can choose a value alone, NAME=VALUE  # yours:\n{block.text}")
        script += f"echo {shlex.quote(BEGIN.format(number))}\n{text}"
    done = machine(script, folder)
    if done.returncode:
        raise GuideError(f"exit code {done.returncode} of:\n{script}\n{done.stdout}")
    said = re.split(BEGIN.format(r"\d+") + "\n", done.stdout)[1:]
    ran.outputs += said
    wrong = [
        f"shown:\n{block.shown}\nsaid:\n{text}"
        for block, text in zip(session, said, strict=True)
        if not re.search(pattern(block.shown), text)
    ]
    if wrong:
        raise GuideError("\n".join(wrong))


def pattern(shown: str) -> str:
    """Return the regular expression of what a guide shows."""
    lines = []
    for line in shown.splitlines():
        words = map(re.escape, line.split("..."))
        lines.append(r"(?:.*\n)*?" if line.strip() == "..." else ".*".join(words) + r"[ \t]*\n")
    return "(?m)^" + "".join(lines)


def here(env: Mapping[str, str], prefix: Sequence[str | Path] = ()) -> Machine:
    """Return the machine on which the tests run, in an environment, its Bash started by a prefix."""

    def run(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*map(str, prefix), "bash", "-c", script], cwd=folder, env=dict(env), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip

    return run
