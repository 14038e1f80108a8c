"""Secrets that trackers record: in changes, in the names and values of variables, and in addresses."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.importers.clean_lines import ROUNDS, hides_secret
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.import_snapshot import import_into
from tests.snapshot.importers.test_secrets_in_files import left

VALUE = "Sup3rPw9xZq81aGq7Lk2pq"
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
CODED = "%67" + TOKEN[1:]
CHANGES = "a secret in the changes of the job's own repository"
LINES = {  # a rule looks at the start of a line, or at several lines
    "a field": f"user: me\napi_key: {VALUE}",
    "netrc": f"machine h.example\nlogin me\npassword {VALUE}",
    "one line of netrc": f"machine h.example login me password {VALUE}",
    "a block of YAML": f"api_key: |\n  {VALUE}",
    "a pair of YAML": f"- name: API_KEY\n  value: {VALUE}",
    "a Dockerfile": f"ENV API_KEY {VALUE}",
}


def write_run(directory: Path, remote: str, diff: str, python: str = "3.11.7") -> Path:
    """Write a run of W&B with a pinned distribution `mylib`."""
    directory.mkdir()
    (directory / "requirements.txt").write_text("mylib==1.0\n")
    (directory / "diff.patch").write_text(diff)
    (directory / "wandb-metadata.json").write_text(
        json.dumps({"python": python, "git": {"remote": remote, "commit": "a" * 40}})
    )
    return directory


def diff_of(text: str, sign: str) -> str:
    rows = "".join(f"{sign}{row}\n" for row in text.splitlines())
    count = len(text.splitlines())
    numbers = f"-0,0 +1,{count}" if sign == "+" else f"-1,{count} +0,0"
    return f"diff --git a/conf b/conf\n--- a/conf\n+++ b/conf\n@@ {numbers} @@\n{rows}"


def show_all(directory: Path) -> str:
    return "\n".join(
        f"{path.name}\n{path.read_text()}" for path in sorted(directory.rglob("*")) if path.is_file()
    )


@pytest.mark.parametrize("sign", "+-")
@pytest.mark.parametrize("text", LINES.values(), ids=LINES)
def test_changes_with_a_secret_stay_out(text: str, sign: str, tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "https://git.example/job", diff_of(text, sign))
    facts = import_into(run, tmp_path / "out")
    assert CHANGES in left(facts).values()
    assert VALUE not in show_all(tmp_path / "out")
    with tarfile.open(tmp_path / "snapshot.tar", "w") as archive:
        archive.add(run / "requirements.txt", "requirements.txt")
        archive.add(run / "diff.patch", "job.patch")
    facts = import_into(tmp_path / "snapshot.tar", tmp_path / "second")
    assert left(facts)["job.patch", "the file"] == "it holds a secret"
    assert VALUE not in show_all(tmp_path / "second")


def diff_of_merge(directory: Path, text: str, sign: str) -> str:
    """Return git's diff of an unfinished merge that adds a text to both branches, or removes it from both."""
    directory.mkdir()

    def git(*words: str, fails: bool = False) -> str:
        run = subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@a.example", *words],
            cwd=directory, capture_output=True, text=True,
        )  # fmt: skip
        assert (run.returncode != 0) == fails, run.stderr
        return run.stdout

    def commit(content: str) -> None:
        (directory / "conf").write_text(content)
        git("add", "conf")
        git("commit", "-q", "-m", "change", "--allow-empty")

    before, after = (f"{text}\n", "") if sign == "-" else ("", f"{text}\n")
    git("init", "-q", "-b", "main")
    commit(f"{before}start\n")
    git("branch", "other")
    commit(f"{before}of main\n")
    git("checkout", "-q", "other")
    commit(f"{before}of the other\n")
    git("merge", "-q", "main", fails=True)
    (directory / "conf").write_text(f"{after}merged\n")
    return git("diff")


@pytest.mark.parametrize("sign", "+-")
@pytest.mark.parametrize("text", LINES.values(), ids=LINES)
def test_changes_of_a_merge_with_a_secret_stay_out(text: str, sign: str, tmp_path: Path) -> None:
    diff = diff_of_merge(tmp_path / "repository", text, sign)
    assert VALUE in diff
    facts = import_into(write_run(tmp_path / "run", "https://git.example/job", diff), tmp_path / "out")
    assert CHANGES in left(facts).values()
    assert VALUE not in show_all(tmp_path / "out")


def test_changes_without_a_line_break_at_the_end(tmp_path: Path) -> None:
    diff = diff_of("api_key:", "-") + "\\ No newline at end of file\n+api_key: |\n"
    diff += f"\\ No newline at end of file\n+  {VALUE}\n"
    facts = import_into(write_run(tmp_path / "run", "https://git.example/job", diff), tmp_path / "out")
    assert CHANGES in left(facts).values()


def test_changes_without_a_secret_are_kept(tmp_path: Path) -> None:
    diff = diff_of("user: me\napi_key: ${API_KEY}", "+")
    import_into(write_run(tmp_path / "run", "https://git.example/job", diff), tmp_path / "out")
    assert (tmp_path / "out" / "job.patch").read_text() == diff


@pytest.mark.parametrize(
    ("remote", "reason"),
    [
        (f"https://h.example/{CODED}/mylib", "it looks like a secret"),
        (f"https://h.example/a/{TOKEN}", "its address holds a secret"),
        (f"https://h.example/a#@me:{VALUE}@h.example/mylib", "it has no address with a full commit"),
    ],
)
def test_an_address_with_a_secret_stays_out(remote: str, reason: str, tmp_path: Path) -> None:
    facts = import_into(write_run(tmp_path / "run", remote, diff_of("a", "+")), tmp_path / "out")
    assert reason in left(facts).values()
    assert (tmp_path / "out" / "requirements.txt").read_text() == "mylib==1.0\n"
    assert (tmp_path / "out" / "job.patch").is_file()
    shown = show_all(tmp_path / "out")
    assert not any(value in shown for value in (TOKEN, CODED, VALUE))


def test_a_coded_token_is_not_shown_as_a_version(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", "https://h.example/job", "", python=CODED)
    facts = import_into(run, tmp_path / "out")
    assert "Python *** lacks its third number: `--python` gives it" in left(facts).values()
    assert CODED not in show_all(tmp_path / "out")


def test_variables_with_secrets_and_numbers_as_names(tmp_path: Path) -> None:
    attributes = tmp_path / "run" / ".guild" / "attrs"
    attributes.mkdir(parents=True)
    (attributes / "pip_freeze").write_text("- click==8.1.7\n")
    (attributes / "env").write_text(f'"{TOKEN}": x\n1: x\nA: b\nB: "{CODED}"\nC: 50%\n')
    facts = import_into(tmp_path / "run", tmp_path / "out")
    assert (tmp_path / "out" / "env.txt").read_text() == "A=b\nC=50%\n"
    names = {field: reason for (_, field), reason in left(facts).items()}
    assert names == {"env.***": "a secret", "env.1": "it has no name of a variable", "env.B": "a secret"}
    assert TOKEN not in show_all(tmp_path / "out")


def test_a_text_that_needs_more_rounds_than_are_read_hides_a_secret() -> None:
    plain, coded = "https://h.example/a", CODED
    for _ in range(2 * ROUNDS):
        plain, coded = plain.replace("%", "%25"), coded.replace("%", "%25")
    assert hides_secret(coded)
    assert not hides_secret(plain)


def test_the_path_of_data_with_a_token_stays_out(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "requirements.txt").write_text("click==8.1.7\n")
    paths = (f"data/{TOKEN}.csv", f"data/{CODED}.csv", "data/a.csv")
    outs = "".join(f"    - path: {path}\n      md5: {'a' * 32}\n" for path in paths)
    (tmp_path / "run" / "dvc.lock").write_text(
        f"schema: '2.0'\nstages:\n  train:\n    cmd: x\n    outs:\n{outs}"
    )
    facts = import_into(tmp_path / "run", tmp_path / "out")
    assert [row.path for row in facts.data] == ["data/a.csv"]
    assert list(left(facts).values()).count("its path looks like a secret, or is too long") == 2
    assert not any(value in show_all(tmp_path / "out") for value in (TOKEN, CODED))


def test_the_reason_of_a_line_that_a_lock_asks_for_shows_no_token() -> None:
    draft = Draft("a list", "requirements.txt")
    draft.leave_requirement("line 1", f"it has no line for {TOKEN}")
    assert draft.lines(REQUIREMENTS) == (
        "(line 1 of requirements.txt is not imported: it has no line for ***)",
    )


def test_a_file_that_cannot_be_read_is_of_no_known_format(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="`/proc/self/mem` is of no known format") as refused:
        import_into(Path("/proc/self/mem"), tmp_path / "out")
    assert refused.value.hint.endswith("or take a snapshot where the job runs: `reprobuild capture -o DIR`")


def test_the_error_of_an_archive_shows_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo(f"../password={VALUE}"))
    with pytest.raises(SnapshotError, match="cannot be unpacked") as refused:
        import_into(path, tmp_path / "out")
    assert VALUE not in str(refused.value)
