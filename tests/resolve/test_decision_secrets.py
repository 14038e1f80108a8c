"""No lock keeps a secret of a decision: `lock` and `from-snapshot` stop before there is a lock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.cli import main as cli
from reprobuild.config.overrides import ArchiveDecision, BuildDecision, Decisions, WorkloadDecision
from reprobuild.context import RunContext
from reprobuild.errors import LockError, UsageError
from reprobuild.lock.file import write_lock, write_new_lock
from reprobuild.lock.model import Lock, Resolution, encode
from reprobuild.pipeline import choose_lock
from reprobuild.resolve.override_secrets import refuse_secrets
from reprobuild.snapshot.read import read_snapshot
from tests.image.made import Made

TOKEN = "hf_" + "QmZr8sKdWvT2pXyLbNc7uGfHjEaPqRwVtS"
PASSWORD = "Vn7RkQ2wLz9Tb"
LOGIN = "Zq8LmW2xR7tYpK4v"
AT_RUNTIME = (
    "let the command read it from a variable, and pass that when the image runs: `reprobuild run --secret NAME` or "
    "`reprobuild verify --secret NAME`"
)
TAKE_OUT = (
    "take it out of the decision; a login belongs into ~/.netrc, and a program of the image gets a secret by "
    "`reprobuild run --secret NAME` or `reprobuild verify --secret NAME`"
)


def runs(*command: str) -> Decisions:
    return Decisions(workload=WorkloadDecision(command=command, outputs=("x.pt",)))


@pytest.mark.parametrize(
    ("decisions", "name", "hint"),
    [
        (runs("python", "t.py", "--hf-token", TOKEN), "workload.command", AT_RUNTIME),
        (runs("python", f"--db=postgresql://svc:{LOGIN}@db.example/x"), "workload.command", AT_RUNTIME),
        (runs("python", f"--password={PASSWORD}"), "workload.command", AT_RUNTIME),
        (runs("python", "--password", PASSWORD), "workload.command", AT_RUNTIME),  # only both words tell it
        (runs("sh", "-c", f"curl -u ada:{LOGIN} https://h.example"), "workload.command", AT_RUNTIME),
        (Decisions(drop=(TOKEN,)), "drop", TAKE_OUT),
        (Decisions(accept=("no-hash", TOKEN)), "accept", TAKE_OUT),
        (Decisions(profile=TOKEN), "profile", TAKE_OUT),
        (Decisions(bake={"MODE": TOKEN}), "bake.MODE", TAKE_OUT),
        (Decisions(bake={"DB_PASSWORD": PASSWORD}), "bake.DB_PASSWORD", TAKE_OUT),
        (
            Decisions(build={"job": BuildDecision(variables={"API_TOKEN": LOGIN})}),
            "build.job.variables.API_TOKEN",
            TAKE_OUT,
        ),
        (Decisions(build={"job": BuildDecision(requires=(TOKEN,))}), "build.job.requires", TAKE_OUT),
        (Decisions(build={TOKEN: BuildDecision()}), "build", TAKE_OUT),
    ],
)  # fmt: skip
def test_a_decision_with_a_secret_is_refused_by_name(decisions: Decisions, name: str, hint: str) -> None:
    with pytest.raises(UsageError) as err:
        refuse_secrets(decisions)
    said = str(err.value)
    assert said.startswith(f"the decision {name} holds a secret (")
    assert said.endswith("), and a lock keeps its decisions for ever")
    assert err.value.hint == hint
    assert not any(value in said for value in (TOKEN, PASSWORD, LOGIN))


def test_honest_decisions_pass() -> None:
    address = f"https://ada:{LOGIN}@git.example/x.git"  # the login is used, and not kept
    refuse_secrets(Decisions(sources={"x": address}, indexes={"y": address}, channels=(address,)))
    refuse_secrets(Decisions(archives=(ArchiveDecision(url=address),), accept=("no-hash", "mylib/.env")))
    refuse_secrets(Decisions(bake={"HF_TOKEN_PATH": "/run/token", "TOKENIZERS_PARALLELISM": "0", "X*": None}))
    for command in (
        ("python", "train.py", "--out", "{out}/checkpoint.pt"),
        ("python", "t.py", "--tokenizer", "gpt2", "--max-tokens", "512", "--pad-token", "<pad>"),
        ("python", "t.py", "--wandb-key", "$WANDB_API_KEY"),
        ("sh", "-c", 'python t.py --password "$DB_PASSWORD" --token-file /run/token'),
    ):
        refuse_secrets(runs(*command))


def snapshot(folder: Path) -> Path:
    captured = folder / "snap"
    captured.mkdir()
    (captured / "python.txt").write_text("Python 3.11.2\n")
    (captured / "requirements.txt").write_text("")
    (captured / "env.txt").write_text("A=1\n")
    (folder / "reprobuild.yaml").write_text(
        f"workload: {{command: [python, t.py, --hf-token, {TOKEN}], outputs: [x.pt]}}\n"
    )
    return captured


def test_no_lock_is_written(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    captured = snapshot(tmp_path)
    store, lock = ("--store", str(tmp_path / "store")), tmp_path / "o.lock"
    assert cli.run_line(["lock", str(captured), "-o", str(lock), *store]) == 2
    assert (
        cli.run_line(["from-snapshot", str(captured), "-o", str(tmp_path / "o"), "--no-verify", *store]) == 2
    )
    out, err = capfd.readouterr()
    assert err.count("error: the decision workload.command holds a secret (huggingface)") == 2
    assert TOKEN not in out + err
    assert not lock.exists()
    for command in (f"--api-key, {LOGIN}x7Q2", f"--password, {PASSWORD}"):
        (tmp_path / "reprobuild.yaml").write_text(
            f"workload: {{command: [python, t.py, {command}], outputs: [x.pt]}}\n"
        )
        assert cli.run_line(["lock", str(captured), "-o", str(lock), *store]) == 2
        cli.run_line(["show", str(captured)])
        out, err = capfd.readouterr()
        assert "error: the decision workload.command holds a secret (" in err
        assert LOGIN not in out + err
        assert PASSWORD not in out + err
    assert not list((tmp_path / "o").glob("*.lock"))


def test_a_lock_of_an_earlier_program_is_not_used_again(tmp_path: Path, made: Lock) -> None:
    captured = read_snapshot(snapshot(tmp_path))
    decisions = runs("python", "t.py", "--hf-token", TOKEN)
    write_lock(msgspec.structs.replace(made, snapshot=captured.digest), tmp_path / "reprobuild.lock")
    session: Any = RunContext
    with pytest.raises(UsageError, match=r"the decision workload\.command holds a secret"):
        choose_lock._read_former_lock(tmp_path / "reprobuild.lock", captured, decisions, session)


@pytest.fixture
def made(tmp_path: Path) -> Lock:
    return Made(tmp_path / "made").lock()


def test_the_finished_lock_is_searched_before_it_is_written(tmp_path: Path, made: Lock) -> None:
    ruling = Resolution(file="a.txt", line=1, subject="a", outcome="pinned", reason=f"it has {TOKEN}")
    lock = msgspec.structs.replace(made, rulings=(ruling,))
    line = encode(lock)[: encode(lock).index(TOKEN.encode())].count(b"\n") + 1
    with pytest.raises(LockError) as err:
        write_new_lock(lock, tmp_path / "o.lock")
    assert str(err.value) == (
        f"line {line} of the lock, `$.rulings[0].reason`, looks like a secret (huggingface); the lock is not written"
    )
    assert err.value.hint == (
        "take it out of the snapshot or the decisions, or leave its line or variable out with --drop NAME"
    )
    assert not (tmp_path / "o.lock").exists()


def test_a_lock_without_secrets_keeps_its_bytes(tmp_path: Path, made: Lock) -> None:
    write_new_lock(made, tmp_path / "new.lock")
    assert (tmp_path / "new.lock").read_bytes() == encode(made)
