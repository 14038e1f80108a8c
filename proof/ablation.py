"""The lines of clean-up and normalisation, removed in turn.

Which claim breaks?

    python -m proof ablation --results OUT --store STORE --work FOLDER [--only WORDS]

A cut takes one line out of a copy of the program. The copy then does one part of the work twice, under plain
circumstances and under all others at once (`proof.circumstances.FAR`); the cut breaks a claim if the two results
differ, or the work fails. The program as it is must give the same twice: that is the control. Leftovers of builders are
shown otherwise: each line of `builders/leftovers.py` must describe something that its builder really left. A cut that
was made is not made again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from proof import clock
from proof.circumstances import FAR, PLAIN, ROOT, USER, environment, prefix, workplace
from proof.factors import fill
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock, unseal
from reprobuild.realise.base import realise_base
from reprobuild.store.keyring import keyring
from reprobuild.store.sharing import join
from reprobuild.store.store import Store

CIRCUMSTANCES = {"plain": PLAIN, "far": FAR}
COPIED = ("reprobuild", "reprobuild_portable", "reprobuild_runtime", "templates", "proof")


class Cut(Struct, frozen=True, kw_only=True):
    """One line taken away, and the work that shows it.

    `old` stands once in `file` and becomes `new`; `part` is the work.
    """

    name: str
    part: str
    file: str = ""
    old: str = ""
    new: str = ""


def _leftover(pattern: str) -> Cut:
    file = "reprobuild/realise/cleanup.py"
    return Cut(
        name=f"leftover {pattern}", part="base", file=file, old=f'pattern="{pattern}"', new='pattern=""'
    )


_BASE, _FINISH = "reprobuild/realise/base.py", "reprobuild/realise/normalise.py"
_SQUASH, _SIF = "reprobuild/image/formats/squashfs_write.py", "reprobuild/image/formats/sif.py"
_COMPILE = "reprobuild/realise/in_sandbox/compile_modules.py"
CUTS: tuple[Cut, ...] = (
    *(Cut(name=f"nothing: {part}", part=part) for part in ("base", "seal", "image", "sif")),
    *map(_leftover, (
        "var/log/**", "var/cache/man/**index.db", "var/cache/ldconfig/aux-cache", "etc/ssh/ssh_host_*",
        "var/lib/dbus/machine-id", "etc/machine-id",
    )),
    Cut(name="time of Java's certificates", part="base", file=_FINISH, old="java.with_time(content.read(), epoch)",
        new="content.read()"),
    Cut(name="time of the base's entries", part="base", file=_FINISH, old="writer = TarWriter(target, epoch)",
        new="writer = TarWriter(target, int(archive.stat().st_mtime))"),
    Cut(name="order of the base's entries", part="base", file=_BASE, old=" --sort=name"),
    Cut(name="SOURCE_DATE_EPOCH", part="base", file="reprobuild/infra/sandbox/command.py",
        old='"SOURCE_DATE_EPOCH": str(epoch), '),
    Cut(name="umask of the sandbox", part="seal", file="reprobuild/infra/sandbox/launch.py",
        old="    os.umask(0o022)\n"),
    Cut(name="host name of the sandbox", part="base", file="reprobuild/infra/sandbox/setup.sh",
        old='"$hostname" "$name"\n'),
    Cut(name="bytecode without times", part="seal", file=_COMPILE,
        old="importlib.util.MAGIC_NUMBER + UNCHECKED_HASH)\n"
        "                    stream.write(importlib.util.source_hash(text)",
        new="importlib.util.MAGIC_NUMBER + bytes(4) + int(os.path.getmtime(path)).to_bytes(4, 'little'))\n"
        "                    stream.write(len(text).to_bytes(4, 'little')"),
    # A stand-in for the order of a file system: the far one has it the other way round.
    Cut(name="order of the modules", part="seal", file=_COMPILE, old="in sorted(names)",
        new="in sorted(names, reverse=os.stat(folder).st_blksize < 4096)"),
    Cut(name="modes and times of the context", part="image", file="reprobuild/recipe/build_context.py",
        old="    _normalise_metadata(part, lock.epoch)\n"),
    Cut(name="order of variables", part="image", file="reprobuild/recipe/image_config.py",
        old="in sorted(static_variables(lock).items())", new="in {*static_variables(lock).items()}"),
    Cut(name="times in the squashfs", part="sif", file=_SQUASH, old='"-all-time", str(epoch), '),
    Cut(name="time of the squashfs", part="sif", file=_SQUASH, old='"-mkfs-time", str(epoch), '),
    Cut(name="no SOURCE_DATE_EPOCH for mksquashfs", part="sif", file=_SQUASH,
        old='if name != "SOURCE_DATE_EPOCH"', new=""),
    Cut(name="no identity of the SIF", part="sif", file=_SIF, old="VERSION, code, bytes(16)",
        new="VERSION, code, os.urandom(16)"),
    Cut(name="no time in the SIF", part="sif", file=_SIF, old="NO_TIME = -62135596800",
        new="import time\nNO_TIME = int(time.time())"),
)  # fmt: skip


class Ablation:
    """The cuts on the lock of each part, and their results."""

    def __init__(self, locks: Mapping[str, Lock], store: Path, work: Path, tools: Mapping[str, str]) -> None:
        self.locks = {part: unseal(lock) for part, lock in locks.items()}
        self.store, self.work, self.tools = store, work, tools
        work.mkdir(parents=True, exist_ok=True)
        work.chmod(0o755)
        self.log = work / "cuts.jsonl"
        self.clock = clock.find_library(work / "clock")
        for part, lock in self.locks.items():
            write_lock(lock, work / f"{part}.lock")

    def done(self) -> list[dict[str, Any]]:
        """Return the findings so far, one for each cut."""
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def do(self, cut: Cut) -> None:
        """Make a cut, and keep its result."""
        program = self.work / "program"
        shutil.rmtree(program, ignore_errors=True)
        program.mkdir()
        for name in COPIED:
            shutil.copytree(ROOT / name, program / name)
        self._cut(cut, program)
        results = {name: self._part(cut.part, name, program) for name in CIRCUMSTANCES}
        plain, far = results.values()
        differ = sorted(key for key in plain.keys() | far.keys() if plain.get(key) != far.get(key))
        failed = [result["failed"] for result in results.values() if "failed" in result]
        found = {"cut": cut.name, "part": cut.part, "differ": len(differ), "examples": failed or differ[:5]}
        with self.log.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(found, ensure_ascii=False) + "\n")
        print(json.dumps(found, ensure_ascii=False), file=sys.stderr, flush=True)

    def _cut(self, cut: Cut, program: Path) -> None:
        if not cut.old:
            return
        text = (program / cut.file).read_text(encoding="utf-8")
        if text.count(cut.old) != 1:
            raise RuntimeError(
                f"{cut.file} holds {text.count(cut.old)} times what {cut.name!r} takes away: mend the cut"
            )
        (program / cut.file).write_text(text.replace(cut.old, cut.new), encoding="utf-8")

    def _part(self, part: str, name: str, program: Path) -> dict[str, str]:
        """Do one part of the work under some circumstances.

        Returns its results, or its failure.
        """
        with workplace(CIRCUMSTANCES[name], self.work, "ablation") as top:
            return self._part_at(top, part, name, program)

    def _part_at(self, top: Path, part: str, name: str, program: Path) -> dict[str, str]:
        levels = CIRCUMSTANCES[name]
        env = environment(levels, self.tools, top) | {"PYTHONPATH": str(program)}
        if part == "base":
            fill(top / "store", self.locks[part], self.store)
        else:
            shutil.copytree(self._realised(part), top / "store")
            join(Store(top / "store", keyring(env)), lambda _: None)
        if levels["user"] == "ordinary":
            subprocess.run(["chown", "-R", f"{USER}:{USER}", str(top)], check=True)
        run = subprocess.run(
            [*prefix(levels, self.clock), sys.executable, "-m", "proof.part", part, str(self.work / f"{part}.lock"),
             str(top), name],
            cwd=program, env=env, umask=int(levels["umask"], 8), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if run.returncode:
            return {"failed": run.stderr.strip().splitlines()[-1][:300] + f" ({name})"}
        found: dict[str, str] = json.loads(run.stdout)
        return found

    def _realised(self, part: str) -> Path:
        """Return a store with a part's fetched files and base.

        The base is installed; all is made at the first call.
        """
        folder = self.work / f"realised-{part}"
        if not folder.exists():
            fresh = folder.with_suffix(".part")
            shutil.rmtree(fresh, ignore_errors=True)
            fill(fresh, self.locks[part], self.store)
            realise_base(self.locks[part].base, Store(fresh), self.locks[part].epoch)
            shutil.rmtree(fresh / "tmp", ignore_errors=True)
            fresh.rename(folder)
        return folder


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the cuts as lines for a terminal."""
    width = max(len(str(each["cut"])) for each in found)
    lines = (
        f"{each['cut']:{width}}  {each['part']:5}  {each['differ']:4}  {', '.join(each['examples'])}"
        for each in found
    )
    return "\n".join(line[:160] for line in lines)


def idle(found: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the wrong cuts.

    They are cuts that break no claim, and controls that break one.
    """
    return [each["cut"] for each in found if each["cut"].startswith("nothing: ") == bool(each["differ"])]
