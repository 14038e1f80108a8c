"""The command line: help, streams, error format, exit codes, signals."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest

from reprobuild import errors
from reprobuild.builders.registry import BUILDERS, NATIVE
from reprobuild.cli import main as cli
from reprobuild.cli import progress
from reprobuild.config.overrides import read_decisions
from reprobuild.engines.model import Finished, Task
from reprobuild.engines.registry import ENGINES
from reprobuild.image.engine_name import encode_named_index, received_name
from reprobuild.image.model import Image
from reprobuild.image.oci.read import layout_digest
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.output.directory import read_image
from reprobuild.pipeline import verify
from reprobuild.pipeline.build import BuildOptions
from reprobuild.pipeline.render import refuse_secrets
from reprobuild.recipe.image_config import image_config
from reprobuild.recipe.payload import pack_runtime
from reprobuild.run import run
from reprobuild.snapshot.read import read_snapshot
from reprobuild.verify.certificate import repeat
from reprobuild.verify.certificate.read import read_verdict
from tests.conftest import EXAMPLE, PROGRAM, ROOT, reprobuild
from tests.determinism.plain_engine import PlainEngine
from tests.documents import check_document
from tests.image.layouts import image_of, write_image
from tests.image.made import Made
from tests.registry.pushing import file, layer
from tests.snapshot.samples import SECRETS
from tests.verify.samples import (
    EXPECTED,
    FINGERPRINT,
    PreparedEngine,
    captured,
    changed,
    done,
    good_answers,
    kind_of,
    make_lock,
    make_verdict,
    ruling,
)
from tests.verify.samples import document as smoke

SNAPSHOT = EXAMPLE / "snapshot"
DECIDED = ("--decisions", EXAMPLE / "reprobuild.yaml")
VERBS = tuple(cli.COMMANDS)
SECRET = "73616d706c65" + "0123456789abcdef"
IMAGE = Image(
    layout="image",
    reference="reprobuild:test",
    tree=f"sha256:{'1' * 64}",
    config=f"sha256:{'2' * 64}",
    manifest=f"sha256:{'3' * 64}",
    layers=1,
)


class Said:
    """Runs a command line in this process, and keeps what it printed."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self.out = self.err = ""

    def __call__(self, *arguments: object) -> int:
        code = cli.run_line([str(argument) for argument in arguments])
        self.out, self.err = self._capfd.readouterr()
        return code

    def failed(self, *arguments: object) -> tuple[int, str, str]:
        """Return code, error and hint of a command line that must fail in the one format."""
        code = self(*arguments)
        assert self.out == ""
        found = re.fullmatch(
            r"(?:(?:\[.*\] |decisions of ).*\n)*error: (.+?)\n\nhint: (.+)\n", self.err, re.DOTALL
        )
        assert found, self.err
        return code, found.group(1), found.group(2)


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Said:
    return Said(capfd)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """An output directory that has a lock and a small image."""
    return make_results(tmp_path / "out", make_lock())


def make_results(out: Path, lock: Lock) -> Path:
    out.mkdir()
    write_lock(lock, out / "reprobuild.lock")
    layout = write_image(out / "image", [layer([file("etc/one", b"1")])], image_config(lock).document())
    (out / "image" / "index.json").write_bytes(encode_named_index(layout, IMAGE.reference))
    image = msgspec.structs.replace(
        image_of(layout), tree=layout_digest(layout), lock=lock.digest, reference=IMAGE.reference
    )
    (out / "image.json").write_bytes(msgspec.json.encode(image))
    return out


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> PreparedEngine:
    """An engine of prepared answers, in the place of the one that answers on this machine."""
    prepared = PreparedEngine(good_answers())
    for module in (run, verify):
        monkeypatch.setattr(module, "find_engine", lambda *_, **__: prepared)
    return prepared


# --- help ------------------------------------------------------------------------------------


def test_verbs_are_the_modules() -> None:
    modules = {path.stem for path in (ROOT / "reprobuild" / "cli").glob("*.py")}
    assert {cli.module_name(verb) for verb in VERBS} == modules - {
        "__init__",
        "__main__",
        "hinted_options",
        "remedies",
        "mistakes",
        "common",
        "console",
        "overrides",
        "documents",
        "interrupt",
        "main",
        "progress",
        "streams",
    }


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example(verb: str, said: Said) -> None:
    assert said(verb, "--help") == 0
    assert f"Usage: reprobuild {verb} " in said.out
    assert re.search(rf"\n  Example:\n    reprobuild {verb} \S", said.out)
    assert said(verb, "-h") == 0, said.err
    command = cli.cli.get_command(click.Context(cli.cli), verb)
    assert command
    silent = [p.name for p in command.params if isinstance(p, click.Option) and not p.help]
    assert silent == []


@pytest.mark.parametrize("verb", sorted(set(VERBS) - {"run"}))
def test_every_verb_but_run_has_json(verb: str) -> None:
    command: click.Command = import_module(f"reprobuild.cli.{cli.module_name(verb)}").command
    parts = command.commands.values() if isinstance(command, click.Group) else [command]
    for part in parts:
        assert "as_json" in {param.name for param in part.params}


def test_help_lists_the_commands_in_groups(said: Said) -> None:
    assert said("--help") == 0
    listed = " ".join(said.out[said.out.index("Everyday:") :].split())
    assert listed == " ".join(
        f"{title}: " + " ".join(f"{name} {text}" for name, text in group.items())
        for title, group in cli.GROUPS.items()
    )
    assert list(cli.GROUPS) == ["Everyday", "Steps", "Explain", "Hand over", "Cluster"]
    assert said("--version") == 0
    assert said.out.startswith("reprobuild, version ")


def test_no_arguments_is_a_question_for_help(said: Said) -> None:
    assert said() == 2
    assert said.err.startswith("Usage: reprobuild ")


def test_the_exit_codes_of_the_reference_are_those_of_the_errors() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+) \|$", (ROOT / "docs" / "reference.md").read_text(), re.MULTILINE)
    kinds = [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.ReproError)
    ]
    codes = {kind.exit_code for kind in kinds}
    assert len(kinds) == len(codes)
    told = {int(code) for code, _ in rows}
    assert told == {0, 1, cli.INTERRUPTED} | codes


# --- the streams -----------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_are_no_bug(closed: str, tmp_path: Path) -> None:
    """What nobody wants to hear is not told, and goes into no file that was opened meanwhile."""
    words = [*PROGRAM, "lock", str(SNAPSHOT), "-o", str(tmp_path / "new.lock"), "--decisions", "gone"]
    for argv, code in (([*PROGRAM, "--version"], 0), ([*PROGRAM, "--no-such"], 2), (words, 2)):
        done = subprocess.run(["sh", "-c", f'"$@" {closed}', "sh", *argv], capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert "2>&-" not in closed or done.stderr == ""
        assert ">&-" not in closed.split() or done.stdout == ""


def test_an_encoding_that_cannot_say_a_name(tmp_path: Path) -> None:
    folder = tmp_path / "\u65e5\u672c"
    folder.mkdir()
    write_lock(make_lock(), folder / "reprobuild.lock")
    env = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = reprobuild("doctor", folder, "--store", tmp_path / "store", env=env)
    assert done.returncode in (0, 6, 9), done.stderr
    assert "\\u65e5\\u672c: " in done.stdout.splitlines()[-1]
    done = reprobuild("show", folder.with_name("\u672c"), env=env)
    assert done.returncode == 3
    assert "there is no directory" in done.stderr


def test_json_of_a_name_that_is_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"x\xff")
    words = ["doctor", "--offline", "--json", "-o", name, "--store", str(tmp_path / "store")]
    done = subprocess.run([*PROGRAM, *words], capture_output=True, cwd=tmp_path)
    assert done.returncode in (0, 6, 9), done.stderr
    disks = json.loads(done.stdout.decode("utf-8"))["host"]["disks"]
    assert {disk["role"] for disk in disks} >= {"results", "store"}


# --- the error format ------------------------------------------------------------------------


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option(verb: str, said: Said) -> None:
    code, what, hint = said.failed(verb, "--no-such-option")
    assert code == (125 if verb == "run" else 2)
    assert "--no-such-option" in what or verb in ("run", "bisect", "trace")
    assert hint == f"see `reprobuild {verb} --help`"


def test_an_unknown_verb(said: Said) -> None:
    assert said.failed("freeze") == (2, "No such command 'freeze'.", "see `reprobuild --help`")


@pytest.mark.parametrize(
    ("arguments", "code", "what", "hint"),
    [
        (("show", "gone"), 3, "there is no directory or file `gone`", "take one with `reprobuild capture -o DIR`"),
        (("render", "gone"), 4, "there is no lock at gone", "make one with `reprobuild lock DIR`"),
        (("verify", "gone"), 2, "there is no directory gone", "build one with `reprobuild from-snapshot DIR -o OUT`"),
        (("run", "gone", "--", "id"), 125, "there is no directory gone", "build one with"),
        (
            ("lock", str(SNAPSHOT), "--source", "mylib"),
            2, "--source mylib: not of the form NAME=...", "for example --source mylib=/path",
        ),
        (
            ("lock", str(SNAPSHOT), "--service", "=x"),
            2, "--service =x: not of the form NAME=...", "for example --service docker-hub=https://mirror.example.org",
        ),
        (
            ("doctor", "--offline", "--service", "foo"),
            2, "--service foo: not of the form NAME=...", "for example --service docker-hub=https://mirror.example.org",
        ),
        (
            ("lock", str(SNAPSHOT), "--index", "x"),
            2, "--index x: not of the form NAME=...", "for example --index mylib=https://index.example.org/simple",
        ),
        (("doctor", "/dev/zero"), 4, "/dev/zero cannot be read: it is no plain file", "name the file that"),
        (("lock", str(SNAPSHOT), "--seed", "-1"), 2, "Invalid value for '--seed'", "see `reprobuild lock --help`"),
        (("verify", "gone", "--engine", "lxc"), 2, "Invalid value for '--engine'", "see `reprobuild verify --help`"),
    ],
)  # fmt: skip
def test_what_happened_and_what_to_do(
    arguments: tuple[str, ...], code: int, what: str, hint: str, said: Said
) -> None:
    found = said.failed(*arguments)
    assert found[0] == code
    assert found[1].startswith(what)
    assert found[2].startswith(hint)


def test_results_that_cannot_be_written(said: Said, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = Made(tmp_path / "made")
    write_lock(made.lock(), tmp_path / "given.lock")
    code, what, hint = said.failed("render", tmp_path / "given.lock", "-o", tmp_path / "file" / "out")
    assert code == 2
    assert what == f"{tmp_path}/file/out: Not a directory"
    assert hint == "a file stands where a directory is needed: name another place (--store, --output)"


def test_a_folder_where_the_lock_is_to_be_written(said: Said, tmp_path: Path) -> None:
    """It is said before anything is resolved."""
    code, what, hint = said.failed("lock", SNAPSHOT, "-o", tmp_path)
    assert (code, what) == (2, f"{tmp_path} is a directory")
    assert hint == f"name a file in it: -o {tmp_path}/reprobuild.lock"


def test_a_lock_of_another_snapshot(said: Said, tmp_path: Path) -> None:
    write_lock(make_lock(), tmp_path / "given.lock")
    code, what, hint = said.failed(
        "from-snapshot",
        SNAPSHOT,
        *DECIDED,
        "-o",
        tmp_path / "out",
        "--lock",
        tmp_path / "given.lock",
        "--no-verify",
    )
    assert code == 4
    assert what.startswith(f"{tmp_path}/given.lock was made from another snapshot (555555555555, not ")
    assert hint == "make a new lock with `reprobuild lock DIR`"


def test_a_lock_of_other_sources(said: Said, tmp_path: Path) -> None:
    decided = msgspec.convert(read_decisions(DECIDED[1]).lock_document(), RecordedDecisions)
    write_lock(make_lock(snapshot=read_snapshot(SNAPSHOT).digest, decisions=decided), tmp_path / "given.lock")
    code, what, hint = said.failed(
        "from-snapshot", SNAPSHOT, *DECIDED, "-o", tmp_path / "out", "--lock", tmp_path / "given.lock", "--no-verify",
        "--store", tmp_path / "store",
    )  # fmt: skip
    assert code == 4
    assert what.startswith("the sources are not those of the lock: ")
    assert ".tar (sha256 " in what
    assert hint == "find the locked commit and its changes, or make a new lock with `reprobuild lock DIR`"


def test_builders_and_engines_are_those_of_the_registries() -> None:
    command = import_module("reprobuild.cli.from_snapshot").command
    choices = {
        option.name: tuple(option.type.choices)
        for option in command.params
        if isinstance(option.type, click.Choice)
    }
    assert choices["builder"] == (NATIVE, *BUILDERS)
    assert choices["engine"] == tuple(ENGINES)


def test_an_engine_that_is_not_there(results: Path) -> None:
    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock", "PATH": "/nonexistent"}
    docker = ("--engine", "docker")
    for arguments, code in ((("verify", results, *docker), 6), (("run", results, *docker, "--", "id"), 125)):
        found = reprobuild(*arguments, env=env)
        assert (found.returncode, found.stdout) == (code, "")
        assert found.stderr.endswith(
            "error: no container engine answers (tried docker)\n\nhint: start one, point "
            "DOCKER_HOST at one, or ask `reprobuild doctor` what is missing\n"
        )


@pytest.mark.parametrize("name", ["lock", "bisect"])
def test_verbose_lists_what_an_error_sums_up(name: str, said: Said, tmp_path: Path) -> None:
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "requirements.txt").write_text("???\n" * 5)
    (snapshot / "python.txt").write_text("Python 3.11.2\n")
    store = ("--store", tmp_path / "store")
    line = {
        "lock": ("lock", snapshot, "-o", tmp_path / "reprobuild.lock", *store),
        "bisect": ("bisect", snapshot, snapshot, *store, "--", "true"),
    }[name]
    code, error, _ = said.failed(*line)
    assert code == 4
    assert "  5 of requirements.txt: unresolved (unread-line):\n    requirements.txt:1: " in error
    assert "    and 3 more, which --verbose lists" in error
    assert "requirements.txt:5: " not in error
    code, error, _ = said.failed(line[0], "--verbose", *line[1:])
    assert code == 4
    assert error.count(": unresolved (unread-line): ") == 5


def test_an_engine_that_is_not_there_is_told_before_anything_is_locked(tmp_path: Path) -> None:
    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock", "PATH": "/nonexistent"}
    found = reprobuild(
        "from-snapshot", SNAPSHOT, *DECIDED, "--engine", "docker", "-o", tmp_path / "out", env=env
    )
    assert found.returncode == 6
    assert "no container engine answers" in found.stderr
    assert "what is missing; or leave the checks out with --no-verify\n" in found.stderr
    assert not (tmp_path / "out").exists()


# --- results ---------------------------------------------------------------------------------


def document(said: Said, code: int, *arguments: object) -> Any:
    """Return the one JSON document on standard output; prose is on standard error."""
    assert said(*arguments, "--json") == code, said.err
    assert not any(line.startswith("{") for line in said.err.splitlines())
    check_document([*map(str, arguments), "--json"], said.out)
    return json.loads(said.out)


def test_show(said: Said) -> None:
    token = next(
        line.partition("=")[2]
        for line in (SNAPSHOT / "env.txt").read_text().splitlines()
        if line.startswith("WANDB_API_KEY=")
    )
    assert said("show", SNAPSHOT) == 0
    assert "secrets       WANDB_API_KEY (values are not kept)" in said.out
    assert token not in said.out + said.err
    found = document(said, 0, "show", SNAPSHOT)
    assert token not in said.out + said.err
    values = {variable["name"]: variable["value"] for variable in found["variables"]}
    assert values["WANDB_API_KEY"] is None
    assert values["LD_PRELOAD"].endswith("libjemalloc.so.2")
    assert len(found["requirements"]) == len((SNAPSHOT / "requirements.txt").read_text().splitlines())


def test_render(said: Said, tmp_path: Path) -> None:
    write_lock(Made(tmp_path / "made").lock(), tmp_path / "given.lock")
    found = document(said, 0, "render", tmp_path / "given.lock", "-o", tmp_path / "recipe")
    assert found["files"] == sorted(map(str, (tmp_path / "recipe").iterdir()))
    assert said("render", tmp_path / "given.lock", "-o", tmp_path / "recipe") == 0
    assert said.out.splitlines() == found["files"]


def test_render_online(said: Said, tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    lock = made.lock()
    outputs = msgspec.structs.replace(lock.realised, runtime=pack_runtime(made.store))
    write_lock(msgspec.structs.replace(lock, realised=outputs), tmp_path / "given.lock")
    arguments = ("render", tmp_path / "given.lock", "-o", tmp_path / "out", "--store", made.store.root)
    found = document(said, 0, *arguments, "--online")
    assert found["files"] == [
        str(tmp_path / "out" / "online" / name) for name in ("Apptainer.def", "Dockerfile")
    ]
    assert [gap["subject"] for gap in found["gaps"]] == ["debian:bookworm"]
    assert said(*arguments, "--online") == 0
    assert said.out.splitlines()[:2] == found["files"]
    assert said.out.splitlines()[2].startswith("gap: debian:bookworm: the lock installs")
    shutil.rmtree(tmp_path / "out" / "online")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out" / "online").symlink_to(tmp_path / "elsewhere")  # in an OUT of someone else
    refusal = "'online/Dockerfile' leads through 'online', which is a link or a file, and no directory"
    assert said.failed(*arguments, "--online")[1] == refusal
    assert list((tmp_path / "elsewhere").iterdir()) == []
    code, what, hint = said.failed(*arguments, "--snapshot", tmp_path)
    assert (code, what) == (2, "`--snapshot` is for an online recipe")
    assert hint == "add `--online`, or leave `--snapshot` out"


def test_fetch_of_what_is_there(said: Said, tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    made.wheel("mylib", {"mylib.py": b""})
    write_lock(made.unsealed_lock(), tmp_path / "given.lock")
    arguments = ("fetch", tmp_path / "given.lock", "--store", made.store.root)
    found = document(said, 0, *arguments)
    assert (found["files"], found["fetched"]) == (1, 0)
    assert said(*arguments) == 0
    assert said.out.splitlines() == ["1 files in the store, 0 of them fetched now"]


CUDA_BUILD = {**FINGERPRINT, "cuda_build": True}
SUMMARY = {"version", "unsealed", "out", "lock", "image", "verdict", "deviations", "conflicts"}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 0),
        ({"again": [captured(variables=b"A=2\n")]}, 10),
        ({"cpu quick": [done(smoke(quick=True, start={"random": "4"}))]}, 8),
        ({"cpu": [done(b"")]}, 9),
    ],
)
def test_verify(
    change: dict[str, Any], code: int, said: Said, results: Path, engine: PreparedEngine
) -> None:  # fmt: skip
    answers = {**good_answers(), **change}
    engine.answers = {kind: list(found) for kind, found in answers.items()}
    found = document(said, code, "verify", results)
    assert set(found) == SUMMARY
    assert set(found["verdict"]["determinism"]) == {"cpu", "gpu", "collectives"}
    assert (
        json.loads((results / "verdict.json").read_bytes())["determinism"] == found["verdict"]["determinism"]
    )
    assert "<!doctype html>" in (results / "report.html").read_text()
    engine.answers = {kind: list(found) for kind, found in answers.items()}
    assert said("verify", results) == code
    last = said.out.splitlines()[-2 if code else -1 :]
    assert last[0].startswith("determinism: cpu ")
    assert all(line.startswith(f"exit code {code}: ") for line in last[1:])
    assert "the determinism test on the CPU, in two fresh containers" in said.err


def test_verify_without_the_control(said: Said, results: Path, engine: PreparedEngine) -> None:
    found = document(said, 9, "verify", results, "--no-controls")
    assert found["verdict"]["determinism"]["cpu"] == "inconclusive"


def test_verify_against_a_certificate(said: Said, results: Path, engine: PreparedEngine) -> None:
    """The one that stands where the new one is written is kept."""
    assert document(said, 0, "verify", results)["verdict"].keys() == {"determinism", "round_trip"}
    before = (results / "verdict.json").read_bytes()
    assert document(said, 0, "verify", results, "--against", results)["verdict"]["against"] == "same"
    (kept,) = results.glob("verdict-*.json")
    assert kept.read_bytes() == before
    assert f"the verdict of the check before is kept as {kept}" in said.err
    first = EXPECTED["cpu"].probes[0]
    engine.answers["cpu"] = [done(changed(smoke(), first, digest="9" * 64))]
    engine.answers["cpu quick"] = [done(changed(smoke(quick=True), first, digest="9" * 64))]
    assert document(said, 8, "verify", results, "--against", kept)["verdict"]["against"] == "differ"
    assert said("verify", results, "--against", kept) == 8
    assert f"  cpu: {first} (strict): " in said.out
    assert kept in results.glob("verdict-*.json")


def test_verify_requires_the_platform_of_a_certificate(
    said: Said, results: Path, engine: PreparedEngine
) -> None:
    assert said("verify", results) == 0
    assert said("verify", results, "--against", results, "--same-platform") == 0
    other = results / "other.json"
    verdict = read_verdict((results / "verdict.json").read_bytes(), "")
    there = msgspec.structs.replace(
        verdict.smoke[0], fingerprint={**verdict.smoke[0].fingerprint, "cpu_model": "another"}
    )
    other.write_bytes(msgspec.json.encode(msgspec.structs.replace(verdict, smoke=(there,))))
    assert said("verify", results, "--against", other) == 0
    assert said("verify", results, "--against", other, "--same-platform") == 9
    assert ": another platform: 0 of " in said.out
    assert "and --same-platform is given" in said.out
    code, error, hint = said.failed("verify", results, "--same-platform")
    assert (code, error) == (2, "--same-platform is given, and --against is missing")
    assert hint == "name the earlier verdict: --against verdict.json --same-platform"


def test_a_part_that_passes_leaves_the_whole_check(said: Said, results: Path, engine: PreparedEngine) -> None:
    document(said, 0, "verify", results)
    before, page = (results / "verdict.json").read_bytes(), (results / "report.html").read_bytes()
    assert said("verify", results, "--only", "round-trip") == 0
    assert "is still the whole check of 20" in said.err
    (part,) = results.glob("verdict-*.json")
    assert f"this part of it is {part}" in said.err
    assert json.loads(part.read_bytes())["parts"] == ["round-trip"]
    assert (results / "verdict.json").read_bytes() == before
    assert (results / "report.html").read_bytes() == page
    engine.answers["again"] = [captured(variables=b"A=2\n")]
    assert said("verify", results, "--only", "round-trip") == 10
    assert json.loads((results / "verdict.json").read_bytes())["parts"] == ["round-trip"]
    assert len([*results.glob("verdict-*.json")]) == 2


def test_a_part_replaces_a_check_that_came_with_the_directory(
    said: Said, results: Path, engine: PreparedEngine
) -> None:
    document(said, 0, "verify", results)
    place = results / "verdict.json"
    forged = json.loads(place.read_bytes())
    forged["seed"] = 1
    place.write_text(json.dumps(forged))
    assert said("verify", results, "--only", "round-trip") == 0
    assert json.loads(place.read_bytes())["parts"] == ["round-trip"]


def test_a_check_that_failed_does_not_pass_when_it_is_run_again(
    said: Said, results: Path, engine: PreparedEngine
) -> None:
    """The certificate that it stands in the place of is kept; its own is no measure."""
    document(said, 0, "verify", results)
    before = (results / "verdict.json").read_bytes()
    first = EXPECTED["cpu"].probes[0]
    engine.answers["cpu"] = [done(changed(smoke(), first, digest="9" * 64))]
    engine.answers["cpu quick"] = [done(changed(smoke(quick=True), first, digest="9" * 64))]
    document(said, 8, "verify", results, "--against", results)
    (kept,) = results.glob("verdict-*.json")
    assert kept.read_bytes() == before
    code, error, hint = said.failed("verify", results, "--against", results)
    assert (code, error) == (
        2,
        f"{results / 'verdict.json'} is the verdict of a check that failed: "
        "another result than the verdict before it",
    )
    assert hint.endswith("is kept there as verdict-DIGEST.json")
    document(said, 0, "verify", results)
    assert kept.read_bytes() == before
    assert len(list(results.glob("verdict-*.json"))) == 2


def test_verify_against_what_cannot_be_compared(said: Said, results: Path, engine: PreparedEngine) -> None:
    """Nothing is run, and the verdict that is there stays."""
    code, error, hint = said.failed("verify", results, "--against", results)
    assert (code, error) == (2, f"there is no verdict file {results / 'verdict.json'}")
    assert hint == "make one with `reprobuild verify OUT`; it is OUT/verdict.json"
    other = results / "other.json"
    other.write_bytes(msgspec.json.encode(make_verdict(tree=f"sha256:{'0' * 64}")))
    code, error, hint = said.failed("verify", results, "--against", other)
    assert code == 2
    assert error.startswith(f"{other} is the verdict on another image: ")
    assert hint.startswith("a verdict holds for its own image alone")
    assert engine.tasks == []


def test_verify_gives_the_command_what_its_options_say(
    said: Said, results: Path, engine: PreparedEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "D").mkdir()
    monkeypatch.setenv("B", "two")
    said(
        "verify", results, "-v", f"{tmp_path}/D:/data", "-v", f"{tmp_path}/D:/runs:rw", "-e", "A=1", "--secret", "B",
        "-w", "/w", "--shm-size", "2g", "--seed", "3", "--runs", "3", "--workload", "python train.py",
        "--output-file", "model.pt",
    )  # fmt: skip
    runs = [task for kind, task in engine.tasks if kind == "workload"]
    assert len(runs) == 3
    for task in runs:
        assert {(f"{tmp_path}/D", "/data"), (f"{tmp_path}/D", "/runs")} <= set(task.volumes)
        assert task.read_only == {"/data"}
        given = {name: task.environment[name] for name in ("A", "B", "REPROBUILD_SEED")}
        assert given == {"A": "1", "B": "two", "REPROBUILD_SEED": "3"}
        assert (task.hidden, task.shared_memory) == ({"B"}, 2 << 30)
        assert task.arguments[-1] == "cd -- /w && { python train.py\n}"
        assert "/w/model.pt" in task.arguments
    work = json.loads((results / "verdict.json").read_bytes())["work"]
    assert (work["command"], work["workdir"], work["seed"], work["runs"]) == ("python train.py", "/w", 3, 3)
    assert (work["variables"], work["secrets"]) == ({"A": "1"}, ["B"])


def test_verify_of_weights_that_are_nan(
    said: Said, results: Path, engine: PreparedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs from os.urandom make other losses each time, and the same NaN: equal files say nothing."""
    plain, prepared = PlainEngine(), engine.run

    def run(reference: str, task: Task, env: Mapping[str, str]) -> Finished:
        work = kind_of(task) in ("workload", "compare")
        return plain.run(reference, task, os.environ) if work else prepared(reference, task, env)

    monkeypatch.setattr(engine, "run", run)
    program = (
        "import os, struct, sys; x = os.urandom(8); loss = float(int.from_bytes(x, 'big')) * float('inf'); "
        "data = struct.pack('<4f', *[loss - loss] * 4); "
        "head = b'\\x93NUMPY\\x01\\x00' + struct.pack('<H', 118); "
        "text = repr({'descr': '<f4', 'fortran_order': False, 'shape': (4,)}).ljust(117).encode() + b'\\n'; "
        "open(sys.argv[1] + '/weights.npy', 'wb').write(head + text + data)"
    )
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} {{out}}"
    assert said("verify", results, "--workload", line, "--output-file", "{out}/weights.npy") == 9
    *_, answers, reason = said.out.splitlines()
    assert answers.startswith("determinism: cpu inconclusive")
    assert reason.startswith("exit code 9: a determinism test has no answer (cpu inconclusive")
    why = "4 of 4 numbers are NaN, which is equal whatever was computed"
    assert any(why in text for text in said.out.splitlines())


def test_verify_against_a_certificate_of_other_work(
    said: Said, results: Path, engine: PreparedEngine
) -> None:
    work = ("--output-file", "{out}/model.pt", "--workload")
    assert said("verify", results, *work, "a") == 0
    engine.tasks.clear()
    code, error, hint = said.failed("verify", results, "--against", results, *work, "b")
    assert (code, error) == (
        2,
        f"{results / 'verdict.json'} was made with another command: a, and this is b",
    )
    assert hint.startswith("compare the same work: ")
    assert engine.tasks == []
    assert said("verify", results, "--against", results, *work, "a") == 0


def test_verify_against_a_workload_that_nothing_names(
    said: Said, results: Path, engine: PreparedEngine, tmp_path: Path
) -> None:
    """The note has a command that repeats it; the test runs that command."""
    (tmp_path / "data").mkdir()
    work = (
        "--workload", "python 'a b.py'", "--output-file", "{out}/model.pt", "-e", "A=1 2",
        "-v", f"{tmp_path}/data:/data", "-w", "/w", "--shm-size", "2g", "--seed", "3", "--runs", "3",
    )  # fmt: skip
    assert said("verify", results, *work) == 0
    assert said("verify", results, "--against", results) == 9
    (note,) = [line for line in said.err.splitlines() if " has a workload, and this check has none" in line]
    command = shlex.split(note.split("`")[1].replace(repeat.MOUNT, f"{tmp_path}/data"))
    (kept,) = [path for path in results.glob("verdict-*.json") if json.loads(path.read_bytes())["work"]]
    assert command[:5] == ["reprobuild", "verify", str(results), "--against", str(results)]
    engine.tasks.clear()
    assert said("verify", results, "--against", kept, *command[5:]) == 0
    assert sum(kind == "workload" for kind, _ in engine.tasks) == 3
    assert "has a workload, and this check has none" not in said.err
    now, then = (json.loads(path.read_bytes()) for path in (results / "verdict.json", kept))
    assert now["work"] == then["work"]
    assert (now["against"]["verdict"], now["against"]["unmatched"]) == ("same", [])


def test_verify_gives_containers_the_gpus_that_are_asked_for(
    said: Said, results: Path, engine: PreparedEngine
) -> None:
    engine.answers |= {
        "cpu": [done(smoke(fingerprint=CUDA_BUILD))],
        "cpu quick": [done(smoke(quick=True, fingerprint=CUDA_BUILD))],
    }
    found = document(said, 0, "verify", results, "--gpu", "0,1")
    assert found["verdict"]["determinism"] == {
        "cpu": "identical",
        "gpu": "identical",
        "collectives": "identical",
    }
    asked = [(kind, task.gpus) for kind, task in engine.tasks if kind.startswith("cuda")]
    assert asked == [("cuda", "0,1"), ("cuda quick", "0,1")]
    engine.answers["cuda"] = [done({"format": 2, "ran": False, "why": "torch sees no CUDA device"})]
    assert (
        document(said, 9, "verify", results, "--gpu", "all")["verdict"]["determinism"]["gpu"] == "not-covered"
    )
    code, error, _ = said.failed("verify", results, "--gpu", "a b")
    assert (code, error) == (2, "--gpu 'a b': 'a b' is no GPU")


def test_verify_of_a_torch_for_cuda(said: Said, results: Path, engine: PreparedEngine) -> None:
    engine.answers |= {
        "cpu": [done(smoke(fingerprint=CUDA_BUILD))],
        "cpu quick": [done(smoke(quick=True, fingerprint=CUDA_BUILD))],
    }
    assert document(said, 9, "verify", results)["verdict"]["determinism"]["gpu"] == "not-covered"
    assert (
        document(said, 0, "verify", results, "--cpu-only")["verdict"]["determinism"]["gpu"]
        == "not-applicable"
    )


def test_build_lock_and_from_snapshot(said: Said, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What they print; what they do is tested by the main job."""
    lock = make_lock(
        rulings=(ruling("a", "a==1", "unresolved", "no index has it", kind="gone", accepted=True),)
    )
    target = results / "new.lock"
    monkeypatch.setattr("reprobuild.api.commands.build.build_from_lock", lambda *_, **__: (lock, IMAGE))
    found = document(said, 0, "build", results / "reprobuild.lock", "-o", results)
    assert set(found) == SUMMARY
    assert found["verdict"]["determinism"] == {"cpu": "not-run", "gpu": "not-run", "collectives": "not-run"}
    assert found["verdict"]["round_trip"] == "not-run"
    assert found["deviations"][0]["subject"] == "a"
    assert said("build", results / "reprobuild.lock", "-o", results) == 0
    assert said.out.endswith("round trip: not-run\ndeterminism: not-run\n")

    for verdict, code in ((make_verdict(), 0), (make_verdict("drift"), 8), (None, 0)):
        monkeypatch.setattr(
            "reprobuild.api.commands.from_snapshot.build_from_snapshot",
            lambda *_, v=verdict, **__: (lock, IMAGE, v),
        )
        found = document(said, code, "from-snapshot", SNAPSHOT, *DECIDED, "-o", results)
        assert found["lock"] == f"sha256:{lock.digest}"
        assert set(found["image"]) == {"reference", "tree", "config", "manifest", "builder"}
        assert said("from-snapshot", SNAPSHOT, *DECIDED, "-o", results) == code

    image = msgspec.structs.replace(IMAGE, sif="sha256:4", sqsh="sha256:5")
    for verb, given in (("build", results / "reprobuild.lock"), ("from-snapshot", SNAPSHOT)):
        decided = () if verb == "build" else DECIDED
        asked: list[object] = []
        answer = (lock, image) if verb == "build" else (lock, image, None)
        monkeypatch.setattr(
            "reprobuild.api.commands."
            + ("build.build_from_lock" if verb == "build" else "from_snapshot.build_from_snapshot"),
            lambda *values, a=asked, b=answer, **_: a.append(values[-1]) or b,
        )
        found = document(
            said, 0, verb, given, *decided, "-o", results, "--format", "squashfs", "--format", "sif"
        )
        assert (found["image"]["sif"], found["image"]["sqsh"]) == ("sha256:4", "sha256:5")
        assert (
            said(verb, given, *decided, "-o", results, "--format", "squashfs", "--compression", "gzip") == 0
        )
        assert "\nsif       sha256:4\nsqsh      sha256:5\n" in said.out
        assert said(verb, given, *decided, "-o", results) == 0
        assert said(verb, given, *decided, "-o", results, "--builder", "podman", "--tag", "a:1") == 0
        assert asked == [
            BuildOptions(singles=("sif", "sqsh")),
            BuildOptions(singles=("sqsh",), compressor="gzip"),
            BuildOptions(),
            BuildOptions(builder="podman", tag="a:1"),
        ]

    monkeypatch.setattr("reprobuild.api.commands.lock.resolve_snapshot", lambda *_: lock)
    assert document(said, 0, "lock", SNAPSHOT, *DECIDED, "-o", target) == {
        "version": 1,
        "lock": f"sha256:{lock.digest}",
        "path": str(target),
        "conflicts": [],
    }
    assert said("lock", SNAPSHOT, *DECIDED, "-o", target) == 0
    assert "a: unresolved (gone): no index has it" in said.out


# --- run -------------------------------------------------------------------------------------


def test_run_gives_the_command_s_code_and_output(said: Said, results: Path, engine: PreparedEngine) -> None:
    engine.answers["workload"] = [done(b"caf\xc3\xa9\n", code=42)]
    code = said(
        "run",
        results,
        "--seed",
        "7",
        "--env",
        "A=b=c",
        "-e",
        "HOME",
        "-v",
        "data:/data",
        "--",
        "python",
        "--seed",
        "x",
    )
    assert (code, said.out) == (42, "café\n")
    ((_, task),) = engine.tasks
    assert task.arguments == ("python", "--seed", "x")
    assert task.environment == {
        "REPROBUILD_SEED": "7", "A": "b=c", "HOME": os.environ["HOME"], "REPROBUILD_RECORD": "/data/reprobuild-record",
    }  # fmt: skip
    assert task.volumes == ((str(Path("data").absolute()), "/data"),)
    assert (task.network, task.timeout) == ("none", 0)


def test_run_has_the_short_options_of_other_engines(
    said: Said, results: Path, engine: PreparedEngine
) -> None:
    assert said("run", results, "-e", "A=1", "-u", "7:7", "-w", "/w", "--", "id") == 0
    ((_, task),) = engine.tasks
    assert (task.user, task.workdir, task.environment["A"]) == ("7:7", "/w", "1")


@pytest.mark.parametrize("words", [("-q", "run"), ("run", "--quiet")])
def test_no_steps_are_shown(
    words: tuple[str, ...], said: Said, results: Path, engine: PreparedEngine, monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("LINES", raising=False)
    assert said(*words, results, "--", "python") == 0
    assert said.err == ""
    assert said("run", results, "--", "python") == 0  # the next command in this process shows them
    assert "looking for an engine" in said.err


def test_warnings_are_shown_without_steps(capsys: pytest.CaptureFixture[str]) -> None:
    steps = progress.Steps()
    progress.silence()
    try:
        steps.say("a step")
        steps.progress(1, 2)
        steps.say("warning: a page is not written again")
    finally:
        progress.silence(False)
    assert capsys.readouterr().err.endswith(" s] warning: a page is not written again\n")


@pytest.mark.parametrize("words", [(), ("run",), ("store", "gc")])
def test_help_as_a_command(words: tuple[str, ...], said: Said) -> None:
    assert said("help", *words) == 0
    help_text = said.out
    assert said(*words, "--help") == 0
    assert help_text == said.out != ""


def test_run_says_what_takes_long_before_its_command_speaks(
    said: Said, results: Path, engine: PreparedEngine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # the user's store may have a foreign key
    monkeypatch.delenv("LINES", raising=False)  # some terminals set it, and the image of this lock does, too
    assert said("run", results, "--", "python") == 0
    lock, image = read_image(results)
    name = received_name(lock.digest, image.manifest)
    assert re.fullmatch(
        r"\[.* s\] looking for an engine\n"
        r"\[.* s\] the image names itself 'reprobuild:test', which could hide another image: "
        rf"it is loaded as {name}\n"
        rf"\[.* s\] loading {name} into prepared, if it is not there yet\n",
        said.err,
    )
    assert said("run", results, "--engine", "podman", "--", "python") == 0
    assert "] looking for podman\n" in said.err
    monkeypatch.setenv("RANK", "1")
    assert said("run", results, "--", "python") == 0
    assert said.err == ""


def test_run_takes_its_own_options_on_either_side(said: Said, results: Path, engine: PreparedEngine) -> None:
    assert (
        said("run", "--seed", "1", results, "--network", "host", "--", "sh", "-c", "x", "--", "--help") == 0
    )
    ((_, task),) = engine.tasks
    assert task.arguments == ("sh", "-c", "x", "--", "--help")
    assert (task.environment, task.network) == ({"REPROBUILD_SEED": "1"}, "host")


@pytest.mark.parametrize(
    "words", [("python", "train.py", "--seed", "3"), ("--",), ("--epochs", "3", "--", "x"), ()]
)
def test_run_without_a_plain_command(
    words: tuple[str, ...], said: Said, results: Path, engine: PreparedEngine
) -> None:  # fmt: skip
    code, what, hint = said.failed("run", results, *words)
    assert code == 125
    assert hint.endswith("see `reprobuild run --help`")
    if "python" in words:
        assert hint.startswith(f"`reprobuild run {results} -- python train.py --seed 3`; ")
    assert re.search("stands after `--`|Missing argument|No such option", what)
    assert engine.tasks == []


@pytest.mark.parametrize(("err", "what"), [
    (RuntimeError("secret"), "this is a bug in reprobuild"),
    (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
    (click.FileError("x", "gone"), "Could not open file 'x': gone"),
])  # fmt: skip
def test_each_failure_of_run_itself_is_125(
    err: Exception, what: str, said: Said, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other codes are those of the command."""

    def fail(*_: object, **__: object) -> None:
        raise err

    monkeypatch.setattr(run, "find_engine", fail)
    assert said("run", results, "--", "python") == 125
    assert what in said.err
    assert "secret" not in said.err


def test_run_with_a_word_before_the_command(said: Said, results: Path, engine: PreparedEngine) -> None:
    """Else it would silently be the first word of the command."""
    for words in (
        ("-v", "a:/a", "b:/b", "--", "python", "x"),
        ("python", "--seed", "1", "--", "x", "--", "y"),
    ):
        code, what, hint = said.failed("run", results, *words)
        stray = "b:/b" if words[0] == "-v" else "python"
        assert (code, what) == (
            125,
            f"`{stray}` stands before `--`, where names and options of `run` stand alone",
        )
        assert (
            hint
            == "put the whole command after `--`; an option is said again for each value: -v a:/a -v b:/b"
        )
    assert engine.tasks == []


def test_run_without_a_seed(said: Said, results: Path, engine: PreparedEngine) -> None:
    assert said("run", results, "--", "python") == 0
    assert engine.tasks[0][1].environment == {}


@pytest.mark.parametrize(
    ("option", "value", "what", "hint"),
    [
        (
            "--env",
            "NOT_SET_HERE",
            "--env NOT_SET_HERE: it is not set here",
            "give its value: --env NOT_SET_HERE=VALUE",
        ),
        (
            "-v",
            "data",
            "--volume data: not of the form HOST:CONTAINER[:ro]",
            "for example --volume data:/data:ro",
        ),
        (
            "-v",
            "a:b",
            "--volume a:b: not of the form HOST:CONTAINER[:ro]",
            "for example --volume data:/data:ro",
        ),
    ],
)
def test_run_with_what_cannot_be(
    option: str, value: str, what: str, hint: str, said: Said, results: Path, engine: PreparedEngine
) -> None:
    assert said.failed("run", results, option, value, "--", "id") == (125, what, hint)
    assert engine.tasks == []


# --- bugs and secrets ------------------------------------------------------------------------


def test_a_bug_is_told_without_values(said: Said, results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", SECRET)

    def buggy(*_: object) -> None:
        try:
            {}[os.environ["MY_TOKEN"]]
        except KeyError as err:
            raise RuntimeError(f"cannot use {dict(os.environ)}") from err

    monkeypatch.setattr("reprobuild.cli.compare.compare", buggy)
    assert said("compare", results, results) == 70
    assert said.out == ""
    assert SECRET not in said.err
    assert "in buggy" in said.err
    assert said.err.index("KeyError") < said.err.index("which led to:") < said.err.index("RuntimeError")
    assert said.err.endswith(
        "error: this is a bug in reprobuild\n\nhint: please report the lines above; they hold no values of variables\n"
    )


def test_each_error_shows_its_place_on_request(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert said("show", tmp_path / "absent") == 3
    assert "File " not in said.err
    monkeypatch.setenv("REPROBUILD_DEBUG", "1")
    assert said("show", tmp_path / "absent") == 3
    assert re.search(r'File ".*/snapshot/read.py", line \d+.*SnapshotError\nerror: ', said.err, re.DOTALL)


def test_the_module_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "reprobuild", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("reprobuild, version ")


@pytest.mark.parametrize("rule", ["huggingface", "github"])
def test_a_secret_in_a_file_of_ours_stops_the_build(rule: str) -> None:
    files = {"pylock.toml": b"fine\n", "Dockerfile": f"FROM x\nENV A={SECRETS[rule]}\n".encode()}
    with pytest.raises(
        errors.BuildError, match=rf"^Dockerfile:2: this looks like a secret \({rule}\)"
    ) as failed:
        refuse_secrets(files)
    assert (
        failed.value.hint
        == "leave its variable or package out with --drop NAME; pass secrets when the image runs"
    )
    assert SECRETS[rule] not in str(failed.value)
    refuse_secrets({"pylock.toml": files["pylock.toml"]})


# --- as a process ----------------------------------------------------------------------------


def on_terminal(env: Mapping[str, str]) -> str:
    """Return what is seen of an error on a terminal."""
    ours, theirs = pty.openpty()
    try:
        subprocess.run(
            [*PROGRAM, "show", "gone"], cwd=ROOT, env=dict(env), stderr=theirs, timeout=60, check=False
        )
        return os.read(ours, 10_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)


def test_colour_on_a_terminal_unless_nobody_wants_it() -> None:
    env = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    assert "\x1b[1;31merror\x1b[0m: " in on_terminal({**env, "TERM": "xterm"})
    plain = on_terminal({**env, "TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b" not in plain
    assert plain.startswith("error: there is no directory")
    assert "\x1b" not in reprobuild("show", "gone", env=env).stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_reader_that_has_gone(stream: str) -> None:
    """No noise, and no exit code that could be taken for an answer."""
    reading, writing = os.pipe()
    os.close(reading)
    arguments = ("show", str(SNAPSHOT), "--json") if stream == "stdout" else ("show", "gone")
    streams: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, stream: writing}
    done = subprocess.run([*PROGRAM, *arguments], cwd=ROOT, timeout=60, check=False, **streams)
    os.close(writing)
    assert done.returncode == 130
    assert not done.stdout
    assert all(line.startswith(b"decisions of ") for line in (done.stderr or b"").splitlines())


@pytest.fixture
def silent_engine(tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """An address where somebody listens and never answers."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "silent.sock"))
        listening.listen()
        yield listening, f"unix://{tmp_path / 'silent.sock'}"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals(signum: signal.Signals, results: Path, silent_engine: tuple[socket.socket, str]) -> None:
    listening, host = silent_engine
    with subprocess.Popen(
        [*PROGRAM, "verify", str(results), "--json"], cwd=ROOT, env={**os.environ, "DOCKER_HOST": host},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert select.select([listening], [], [], 60)[0]
        process.send_signal(signum)
        out, err = process.communicate(timeout=15)
    assert process.returncode == 130
    hint = "what was complete is kept; run the command again to go on"
    assert json.loads(out) == {
        "version": 1,
        "error": {"code": 130, "message": "interrupted", "hint": hint},
    }
    assert err.lstrip() == f"error: interrupted\n\nhint: {hint}\n"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_wait_for_a_slow_server(signum: signal.Signals, tmp_path: Path) -> None:
    """Threads read from indexes: a byte now and then ends no wait of theirs."""
    (tmp_path / "requirements.txt").write_text("six==1.17.0\nidna==3.10\n")
    asked = threading.Event()

    def drip(connected: socket.socket) -> None:
        with connected, contextlib.suppress(OSError):
            connected.recv(1 << 16)
            connected.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;")
            asked.set()
            while True:
                connected.sendall(b"x")
                time.sleep(0.2)

    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=drip, args=(server.accept()[0],), daemon=True).start()

        threading.Thread(target=serve, daemon=True).start()
        env = {**os.environ, "PIP_INDEX_URL": f"http://127.0.0.1:{server.getsockname()[1]}/simple"}
        argv = [*PROGRAM, "lock", "requirements.txt", "--python", "3.11", "-o", "lock", "--store", "store"]
        with subprocess.Popen(argv, cwd=tmp_path, env=env, stderr=subprocess.PIPE, text=True) as process:
            try:
                assert asked.wait(60)
                process.send_signal(signum)
                _, err = process.communicate(timeout=15)
            finally:
                process.kill()
    assert process.returncode == 130, err
    assert "error: interrupted\n" in err


LOST_SIGNAL = """
import select, signal, threading
from reprobuild.cli.interrupt import install_signal_handlers
install_signal_handlers()
def send():
    signal.pthread_kill(threading.get_ident(), signal.{signum})  # this thread gets it: no call of main's ends
threading.Timer(0.3, send).start()
try:
    select.select([], [], [], 600)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("signum", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_whose_moment_was_lost(signum: str) -> None:
    script = LOST_SIGNAL.format(signum=signum)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True, timeout=60
    )
    assert done.stdout == "interrupted\n"


def test_an_ignored_signal_stays_ignored() -> None:
    script = (
        "import signal; from reprobuild.cli.interrupt import install_signal_handlers\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN); install_signal_handlers(); signal.raise_signal(signal.SIGINT)\n"
        "print('went on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stdout == "went on\n"


def test_a_folder_that_a_capability_opens(example_copy: Path) -> None:
    """access(2) says no there, and opening works."""
    example_copy.chmod(0o700)
    grant = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    prefix = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", *grant]
    done = reprobuild("show", example_copy / "snapshot", prefix=prefix)
    assert done.returncode == 0, done.stderr
    assert "requirements.txt" in done.stdout


def test_the_program_that_is_installed() -> None:
    script = Path(sys.executable).parent / "reprobuild"
    for argv in ([str(script)], list(PROGRAM)):
        done = subprocess.run([*argv, "show", "gone"], capture_output=True, text=True, cwd=ROOT, check=False)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith("error: there is no directory")


def test_a_terminal_that_is_gone_does_not_end_what_still_runs() -> None:
    ours, theirs = pty.openpty()
    script = (
        "import sys; from reprobuild.cli.common import write_output; sys.stdin.read()\n"
        "for stream in (1, 1, 2): write_output(stream, b'one more step')\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=theirs, stderr=subprocess.PIPE
    ) as process:
        os.close(theirs)
        os.close(ours)
        assert process.communicate(timeout=60) == (None, b"one more step")
    assert process.returncode == 0
