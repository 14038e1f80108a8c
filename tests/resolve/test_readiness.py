"""The open questions of a snapshot: all at once, each with an option that answers it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from reprobuild.cli.main import run_line
from reprobuild.config.overrides import Decisions
from reprobuild.errors import LockError, SnapshotError
from reprobuild.report.readiness import render_readiness
from reprobuild.report.text import render_snapshot
from reprobuild.resolve.readiness import SnapshotQuestion, add_questions, list_questions
from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers import pip_freeze
from reprobuild.snapshot.read import read_snapshot
from tests.capture.repositories import LEAN, new_origin, run_program, write

ROOT = Path(__file__).parents[2]
NO_PYTHON = "Python: no file of the snapshot shows which Python it was"
NO_LIST = "system packages: no list was captured; the base will have what is needed, as it is now"
MIXED = (
    "numpy>=1.20\npandas==2.1.4\nclick\n# Editable install with no version control (job==1)\n-e /home/user/job\n"
    "made @ file:///home/user/made\n"
)

YES = "can be frozen: yes, if indexes and archives still have each version; next: "


def snapshot(text: str, started: str = "") -> Snapshot:
    facts = ImportFacts(format="W&B run", started=started) if started else None
    return Snapshot(digest="", requirements=pip_freeze.parse(text.encode())[0], imported=facts)


def test_each_question_has_the_option_that_answers_it() -> None:
    questions = list_questions(snapshot(MIXED), Decisions())
    assert [(question.text, question.options) for question in questions] == [
        (NO_PYTHON, ("--python X.Y.Z",)),
        ("versions: 2 requirements without one (numpy, click)", ("--as-of DATE",)),
        ("sources: 1 editable install of a local directory (job)", ("--source job=PATH@COMMIT",)),
        (
            "sources: 1 distribution of a local directory that is not captured (made); without a repository of it, "
            "--accept directory-line leaves it out of the image",
            ("--source made=PATH@COMMIT",),
        ),
        (NO_LIST, ("--accept no-apt-list",)),
    ]
    answers = Decisions(
        python="3.11.2",
        as_of="2024-01-15",
        sources={"job": "/x@HEAD"},
        accept=("directory-line", "no-apt-list"),
    )
    assert list_questions(snapshot(MIXED), answers) == ()
    named = msgspec.structs.replace(
        answers, accept=("no-apt-list",), sources={"job": "/x@HEAD", "Made": "/y@v1"}
    )
    assert list_questions(snapshot(MIXED), named) == ()


def test_a_repository_without_a_commit_is_asked_for() -> None:
    text = (
        f"one @ git+https://git.example/o/one.git@feature/x\ntwo @ git+https://git.example/o/two.git\n"
        f"three @ git+https://git.example/o/three.git@{'a' * 40}\n"
    )
    (question,) = list_questions(snapshot(text), Decisions(python="3.11.2", accept=("no-apt-list",)))
    assert question.text == "sources: 2 repositories without a commit (one of feature/x, two)"
    assert question.options == (
        "--source one=https://git.example/o/one.git@COMMIT", "--source two=https://git.example/o/two.git@COMMIT",
    )  # fmt: skip
    sources = {name: f"https://git.example/o/{name}.git@{'b' * 40}" for name in ("one", "two")}
    for more in (
        Decisions(sources=sources),
        Decisions(accept=("no-source",)),
        Decisions(drop=("one", "two")),
    ):
        answers = msgspec.structs.replace(more, python="3.11.2", accept=("no-apt-list", *more.accept))
        assert list_questions(snapshot(text), answers) == ()


def test_many_directories_and_repositories_have_one_option() -> None:
    rows = (
        f"# Editable install with no version control (e{n}==1)\n-e /home/user/e{n}\n"
        f"made{n} @ file:///home/user/made{n}\nr{n} @ git+https://git.example/r{n}.git\n"
        for n in range(9)
    )
    held = snapshot("".join(rows))
    questions = list_questions(held, Decisions(python="3.11.2", accept=("no-apt-list",)))
    assert [question.options for question in questions] == [("--source NAME=PATH@COMMIT",)] * 3
    assert "9 repositories without a commit (r0, r1, r2 and 6 more)" in questions[1].text
    sources = {f"{kind}{n}": "/x@HEAD" for kind in ("e", "made", "r") for n in range(9)}
    assert list_questions(held, Decisions(python="3.11.2", accept=("no-apt-list",), sources=sources)) == ()


def test_the_start_of_a_run_offers_its_own_day() -> None:
    run = snapshot("click\n", started="2024-01-15T12:00:00+00:00")
    versions = list_questions(run, Decisions())[1]
    assert versions.options == ("--accept solved",)
    assert versions.text.endswith("(click); the run started 2024-01-15T12:00:00+00:00")
    texts = [question.text for question in list_questions(run, Decisions(accept=("solved",)))]
    assert texts == [f"{NO_PYTHON}; 3.12 is the newest released by 2024-01-15T12:00:00+00:00", NO_LIST]


def test_a_snapshot_without_packages_asks_for_them() -> None:
    first = list_questions(Snapshot(digest=""), Decisions())[0]
    assert first.text.startswith("no list of distributions: `pip freeze > requirements.txt`")


@pytest.mark.parametrize("answer", ["no-apt-list", "rpm-qa.txt"])
def test_an_rpm_host_asks_the_question_of_lock(tmp_path: Path, answer: str) -> None:
    """An image has no package of rpm, so `lock` refuses such a list until the user accepts that."""
    (tmp_path / "requirements.txt").write_text("click==8.1.7\n")
    (tmp_path / "rpm-qa.txt").write_text("bash-5.1-2.el9.x86_64\npython3.11-3.11.7-1.el9.x86_64\n")
    host = read_snapshot(tmp_path)
    (question,) = list_questions(host, Decisions())
    assert question.options == ("--accept no-apt-list",)
    assert question.text == (
        "system packages: the host had 2 packages of rpm (rpm-qa.txt), and an image is of Debian or Ubuntu; "
        "the base will have what is needed, as it is now, and no package of rpm"
    )
    assert list_questions(host, Decisions(accept=(answer,))) == ()


def test_a_captured_snapshot_has_no_question() -> None:
    captured = read_snapshot(ROOT / "examples" / "cpu-train" / "snapshot")
    assert list_questions(captured, Decisions()) == ()
    assert render_readiness((), Path("repro/42")) == (f"{YES}reprobuild from-snapshot repro/42 -o frozen")


def test_a_file_that_was_left_out_is_a_question(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, ".env", b"NAME=value\n")
    assert run_program("-o", tmp_path / "out", env=LEAN, cwd=top).returncode == 0
    left = read_snapshot(tmp_path / "out")
    answers = Decisions(python="3.11.2", accept=("no-apt-list",))
    (question,) = list_questions(left, answers)
    assert question.options == ("--accept clone/.env",)
    assert question.text == (
        "code: 1 file of a repository not captured (clone/.env): if they are no secrets, `reprobuild capture --accept "
        "clone/.env -o DIR` has them; to freeze without"
    )
    assert "\nsecrets       clone/.env (not captured)\n" in render_snapshot(left)
    for word in ("clone/.env", "file-left-out"):
        assert list_questions(left, msgspec.structs.replace(answers, accept=("no-apt-list", word))) == ()
    assert list_questions(left, msgspec.structs.replace(answers, drop=("clone",))) == ()
    assert run_program("--accept", "clone/.env", "-o", tmp_path / "again", env=LEAN, cwd=top).returncode == 0
    assert list_questions(read_snapshot(tmp_path / "again"), answers) == ()


def test_many_lost_files_have_one_option(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    assert run_program("-o", tmp_path / "out", env=LEAN, cwd=top).returncode == 0
    path = tmp_path / "out" / "capture.json"
    document = json.loads(path.read_text())
    (repository,) = document["repositories"]
    repository["left_out"] = [{"path": f"data/{number}", "reason": "too-large"} for number in range(5)]
    repository["left_out_count"] = 7
    path.write_text(json.dumps(document))
    (question,) = list_questions(
        read_snapshot(tmp_path / "out"), Decisions(python="3.11.2", accept=("no-apt-list",))
    )
    assert question.options == ("--accept file-left-out",)
    assert question.text == (
        "code: 6 files of a repository not captured (clone/data/0, clone/data/1, clone/data/2 and 3 more): "
        "to freeze without"
    )


def test_the_answer_ends_with_the_whole_command() -> None:
    questions = (
        SnapshotQuestion(text="one\x1b[31m", options=("--python X.Y.Z",)),
        SnapshotQuestion(text="two", options=()),
    )
    assert render_readiness(questions, Path("my run")).splitlines() == [
        "can be frozen: not yet, 2 open questions",
        "  one\\x1b[31m: --python X.Y.Z",
        "  two",
        "next: change the snapshot as above, then reprobuild from-snapshot 'my run' -o frozen --python X.Y.Z",
    ]


def test_a_line_with_a_slip_is_corrected_before_it_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("flask=3.0\nscikit learn==1.0\nnumpy==1.26.4\n")
    slips = read_snapshot(tmp_path)
    questions = list_questions(slips, Decisions(python="3.11.2"))
    assert [(question.text, question.options) for question in questions][:2] == [
        ("requirements.txt:1 cannot be read: write flask==3.0 in place of flask=3.0", ()),
        (
            "1 line of a list of packages cannot be read, the first requirements.txt:2: correct them, or leave them "
            "out",
            ("--accept unread-line",),
        ),
    ]
    (tmp_path / "requirements.txt").write_text("".join(f"lib{number}=1.0\n" for number in range(5)))
    many = list_questions(read_snapshot(tmp_path), Decisions(python="3.11.2"))
    assert [question.options for question in many[1:5]] == [(), (), (), ("--accept unread-line",)]
    assert many[4].text.startswith(
        "2 lines of a list of packages cannot be read, the first requirements.txt:4"
    )
    (tmp_path / "requirements.txt").write_text("flask==3.0\nnumpy==1.26.4\n")  # as the question says
    left = list_questions(read_snapshot(tmp_path), Decisions(python="3.11.2"))
    assert [question.text for question in left] == [NO_LIST]


def test_the_error_of_the_first_question_names_the_others() -> None:
    lines = snapshot("click\n")
    err = LockError("no file of the snapshot shows which Python it was", hint="say it")
    both = add_questions(err, list_questions(lines, Decisions()))
    assert str(both).splitlines() == [
        str(err),
        "also open:",
        "  versions: 1 requirement without one (click)",
        f"  {NO_LIST}",
    ]
    assert both.hint == "say it; all answers at once: --python X.Y.Z --as-of DATE --accept no-apt-list"
    alone = list_questions(lines, Decisions(accept=("index-line", "no-apt-list")))
    assert add_questions(err, alone) is err
    dated = add_questions(err, list_questions(lines, Decisions(as_of="2024-01-15", accept=("no-apt-list",))))
    assert str(dated) == f"{err}; 3.12 is the newest released by the end of 2024-01-15"
    assert dated.hint == (
        "if another Python ran, `python -V` in its environment prints the version for --python; proposed: --python 3.12"
    )


def test_show_ends_with_the_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "requirements.txt").write_text("click==8.1.7\n")
    assert run_line(["show", str(tmp_path / "requirements.txt")]) == 0
    assert capsys.readouterr().out.splitlines()[-4:] == [
        "can be frozen: not yet, 2 open questions",
        f"  {NO_PYTHON}: --python X.Y.Z",
        f"  {NO_LIST}: --accept no-apt-list",
        f"next: reprobuild from-snapshot {tmp_path}/requirements.txt -o frozen --python X.Y.Z --accept no-apt-list",
    ]
    options = ["--python", "3.11.2", "--accept", "no-apt-list"]
    assert run_line(["show", str(tmp_path / "requirements.txt"), *options]) == 0
    command = f"reprobuild from-snapshot {tmp_path}/requirements.txt -o frozen"
    assert capsys.readouterr().out.splitlines()[-1] == f"{YES}{command} {' '.join(options)}"


LETTERS = "-".join(["hunter22", "Kz9"])


def test_the_next_command_repeats_the_options_that_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "requirements.txt").write_text("click<8.2\n")
    words = ["show", str(tmp_path), "--as-of", "2024-01-15", "--accept", "no-apt-list", "--bake", "A=b c"]
    assert run_line(words) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == (
        f"next: reprobuild from-snapshot {tmp_path} -o frozen --bake 'A=b c' --as-of 2024-01-15 --accept no-apt-list "
        "--python 3.12"
    )
    assert run_line([*words, "--index", f"click=https://u:{LETTERS}@index.example/simple"]) == 0
    assert LETTERS not in capsys.readouterr().out


def test_a_damaged_import_is_refused(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("click==8.1.7\n")
    (tmp_path / "import.json").write_text('{"format": 7}')
    with pytest.raises(SnapshotError, match=r"import\.json is damaged") as err:
        read_snapshot(tmp_path)
    assert err.value.hint == "import again, with `reprobuild import PATH -o DIR`"


def test_the_next_command_confirms_a_file_beside_the_snapshot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`show` reads the file, and `from-snapshot` wants its words from the user."""
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "requirements.txt").write_text("click==8.1.7\n")
    (tmp_path / "reprobuild.yaml").write_text("python: 3.11.2\naccept: [no-apt-list]\n")
    monkeypatch.chdir(tmp_path)
    assert run_line(["show", "-q", "job"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        f"{YES}reprobuild from-snapshot job -o frozen --decisions reprobuild.yaml"
    )
    (tmp_path / "reprobuild.yaml").write_text("python: 3.11.2\n")
    assert run_line(["show", "job"]) == 0
    assert "--decisions" not in capsys.readouterr().out


def test_lines_of_one_name_are_one_question_for_the_environment_of_the_job() -> None:
    def asked(text: str, accept: tuple[str, ...] = (), drop: tuple[str, ...] = ()) -> list[str]:
        decisions = Decisions(python="3.11.2", accept=("no-apt-list", *accept), drop=drop)
        return [question.text for question in list_questions(snapshot(text), decisions)]

    one = ["versions: 1 requirement without one (a)"]
    assert asked("a>=1\na<2\n") == one
    assert asked("a<2 ; sys_platform == 'win32'\na==2 ; sys_platform == 'linux'\na\n") == []
    assert asked("a==1 ; sys_platform == 'win32'\na>=2 ; sys_platform == 'linux'\n") == one
    contradiction = [
        "versions: requirements.txt:2: requirements.txt:1 is for this environment, too, and pins 1, which `a>=2` does "
        "not allow; that one is taken"
    ]
    assert asked("a==1\na>=2\n") == contradiction
    assert asked("a==1\na>=2\n", accept=("pinned-twice",)) == []
    assert asked("a==1\na>=2\n", drop=("a",)) == []
