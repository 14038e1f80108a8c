"""Versions as of a date: what uv chooses on the index, and what becomes of captured lines."""

from __future__ import annotations

import datetime
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import msgspec
import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import PackageIndexes, read_indexes
from reprobuild.errors import FetchError, LockError, UsageError
from reprobuild.infra.http.client import Net
from reprobuild.resolve import as_of, solve_versions
from reprobuild.resolve.as_of import solve_open_lines
from reprobuild.resolve.as_of_moment import describe_moment, parse_moment, parse_past_moment
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.line_resolutions import make_resolution
from reprobuild.resolve.python.context import make_file_lists
from reprobuild.resolve.python.misspelt import suggest_project
from reprobuild.resolve.readiness import list_questions
from reprobuild.resolve.static_requires import parse_requires_text
from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers import pip_freeze
from reprobuild.store.store import Store

NO_INDEX = PackageIndexes(find_links=(), simple=(), credentials={})


def snapshot(text: str, started: str = "") -> Snapshot:
    facts = ImportFacts(format="W&B run", started=started, started_from="wandb-metadata.json: startedAt")
    return Snapshot(digest="", requirements=pip_freeze.parse(text.encode())[0], imported=facts)


def lists(context: ResolveContext) -> FileLists:
    return make_file_lists(Decisions(), context.services, context)


def around(folder: Path, indexes: PackageIndexes = NO_INDEX, *, offline: bool = False) -> ResolveContext:
    return ResolveContext(
        store=Store(folder / "store"), net=Net(offline=offline), env=dict(os.environ), folder=folder,
        say=lambda text: None, indexes=indexes, now=0,
    )  # fmt: skip


@pytest.fixture
def index(tmp_path: Path) -> ResolveContext:
    """Return a context with the indexes of this machine, which publish upload times."""
    return around(tmp_path, read_indexes(os.environ))


def test_open_lines_get_the_versions_of_the_day(index: ResolveContext) -> None:
    lines = snapshot("scikit-learn\nnumpy>=1.20\nclick==8.0.0\n")
    solved = solve_open_lines(lines, Decisions(as_of="2024-01-15"), "3.11.2", "x86_64", lists(index), index)
    versions = {line.name: line.version for line in solved.snapshot.requirements}
    assert versions == {  # what was newest on 15 January 2024, for Python 3.11
        "scikit-learn": "1.3.2", "numpy": "1.26.3", "click": "8.0.0", "scipy": "1.11.4", "joblib": "1.3.2",
        "threadpoolctl": "3.2.0",
    }  # fmt: skip
    when = "as of the end of 2024-01-15 (--as-of), uv chose"
    assert solved.reasons["numpy"] == f"{when} 1.26.3 for `numpy>=1.20`"
    assert solved.reasons["scipy"] == f"{when} 1.11.4: the requirements of other lines need it"
    assert "click" not in solved.reasons  # captured
    assert [str(line.place) for line in solved.snapshot.requirements[3:]] == [
        "solved:2",
        "solved:5",
        "solved:6",
    ]


def test_a_captured_version_binds_the_others(index: ResolveContext) -> None:
    lines = snapshot("pandas\nnumpy==1.24.4\n")
    solved = solve_open_lines(lines, Decisions(as_of="2024-01-15"), "3.11.2", "x86_64", lists(index), index)
    versions = {line.name: line.version for line in solved.snapshot.requirements}
    assert (versions["numpy"], versions["pandas"]) == ("1.24.4", "2.1.4")


def test_all_lines_of_one_name_bind_its_version(index: ResolveContext) -> None:
    lines = snapshot("numpy>=1.20\nhttpx[http2]>=0.20\nnumpy<1.26\nhttpx<0.25\nuvicorn[standard]==0.20.0\n")
    solved = solve_open_lines(lines, Decisions(as_of="2024-01-15"), "3.11.2", "x86_64", lists(index), index)
    versions = {line.name: line.version for line in solved.snapshot.requirements}
    assert (versions["numpy"], versions["httpx"]) == ("1.25.2", "0.24.1")
    assert {"h2", "httptools"} <= versions.keys()  # of the extras
    first = solved.snapshot.requirements[0]
    assert [line.name for line in solved.snapshot.requirements][:3] == ["numpy", "httpx", "uvicorn"]
    assert solved.snapshot.requirements[1].extras == ("http2",)
    assert first.place.line == 1
    assert solved.reasons["numpy"] == (
        "as of the end of 2024-01-15 (--as-of), uv chose 1.25.2 for `numpy>=1.20` and `numpy<1.26`"
    )
    assert [(ruling.line, ruling.outcome, ruling.kind) for ruling in solved.rulings] == [
        (3, "excluded", "marker"), (4, "excluded", "marker"),
    ]  # fmt: skip
    assert solved.rulings[0].reason == (
        "it asks for the same distribution as requirements.txt:1, and 1.25.2 is for both"
    )


def test_a_day_is_shown_as_it_was_given() -> None:
    assert describe_moment(parse_moment("2024-03-01")) == "the end of 2024-03-01"
    assert describe_moment(parse_moment("2023-05-01T12:00:00Z")) == "2023-05-01T12:00:00Z"


def test_a_day_in_the_future_is_refused_and_today_is_not() -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    for later in (now + datetime.timedelta(days=2), now + datetime.timedelta(days=400)):
        for text in (f"{later:%Y-%m-%d}", f"{later:%Y-%m-%dT%H:%M:%SZ}"):
            with pytest.raises(UsageError) as caught:
                parse_past_moment(text)
            assert str(caught.value).startswith(f"--as-of {text} is in the future: today is 20")
            assert caught.value.hint == "name the day of the run, or an earlier one"
    today = parse_past_moment(f"{now:%Y-%m-%d}")
    assert today == parse_moment(f"{now:%Y-%m-%d}")
    assert parse_past_moment(today) == today  # an option is parsed, and later the decision
    early = parse_moment("0500-01-01")
    assert (early, describe_moment(early)) == ("0500-01-02T00:00:00Z", "the end of 0500-01-01")
    lines = snapshot("numpy", started=f"{now + datetime.timedelta(days=2):%Y-%m-%dT%H:%M:%SZ}")
    assert list_questions(lines, Decisions())  # another machine's clock, or its local time


def test_the_start_of_a_run_counts_if_the_user_accepts_it(index: ResolveContext) -> None:
    lines = snapshot("iniconfig", started="2022-06-01T12:00:00+00:00")
    assert solve_open_lines(lines, Decisions(), "3.11.2", "x86_64", lists(index), index).snapshot == lines
    solved = solve_open_lines(lines, Decisions(accept=("solved",)), "3.11.2", "x86_64", lists(index), index)
    assert [line.version for line in solved.snapshot.requirements] == ["1.1.1"]
    assert "the start of the run, wandb-metadata.json: startedAt" in solved.reasons["iniconfig"]


def test_requirements_without_a_solution_are_refused_with_the_words_of_uv(index: ResolveContext) -> None:
    lines = snapshot("numpy>=2\npandas==1.5.3\n")
    with pytest.raises(LockError, match="no versions as of the end of 2023-02-01 fit together") as err:
        solve_open_lines(lines, Decisions(as_of="2023-02-01"), "3.11.2", "x86_64", lists(index), index)
    assert "numpy" in str(err.value)
    assert err.value.hint == (
        "choose a later date or another Python, or write versions that you know into requirements.txt"
    )


def test_another_failure_of_uv_is_not_called_a_conflict(
    index: ResolveContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The versions may well fit together; here uv does not know an option."""
    monkeypatch.setattr(solve_versions, "_OPTIONS", (*solve_versions._OPTIONS, "--no-such-option"))
    with pytest.raises(LockError, match="uv could not choose versions as of the end of 2023-02-01") as err:
        solve_open_lines(
            snapshot("iniconfig\n"), Decisions(as_of="2023-02-01"), "3.11.2", "x86_64", lists(index), index
        )
    assert "--no-such-option" in str(err.value)


@pytest.mark.parametrize(
    "arguments",
    [
        ("-c", "open('ran', 'w')"),
        ("-I", "-B", "-c", "open('ran', 'w')"),
        ("-I", "-B", "-c", "import os; from python.get_interpreter_info import main; main()"),
        ("setup.py", "egg_info"),
    ],
)
def test_the_interpreter_of_uv_runs_nothing_else(arguments: tuple[str, ...], tmp_path: Path) -> None:
    interpreter = tmp_path / "python"
    interpreter.write_text(solve_versions._INTERPRETER.format(python=sys.executable, own=str(interpreter)))
    interpreter.chmod(0o700)
    done = subprocess.run(
        [interpreter, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "reprobuild runs no code of a source archive\n")
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def archives(tmp_path: Path) -> ResolveContext:
    """Return a context with releases of which a page of links has only the source archive."""
    links = tmp_path / "links"
    links.mkdir()
    for name, files in {
        "stated": {"stated.egg-info/PKG-INFO": "", "stated.egg-info/requires.txt": "iniconfig\n"},
        "alone": {"alone.egg-info/PKG-INFO": ""},
        "other": {"pyproject.toml": '[build-system]\nrequires = ["x"]\nbuild-backend = "x"\n'},
        "plain": {
            "setup.py": "from distutils.core import setup\nsetup(name='plain', python_requires='>=3')\n"
        },
        "computed": {},
    }.items():
        info = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n"
        more = "Requires-Dist: click==8.1.7\n" if name == "other" else ""
        texts = {path: text or info for path, text in files.items()}
        texts = {"setup.py": f"open({str(tmp_path / 'ran')!r}, 'w')\n", "PKG-INFO": info + more} | texts
        if name == "computed":
            del texts["PKG-INFO"]
        with tarfile.open(links / f"{name}-1.0.tar.gz", "w:gz") as archive:
            for path, text in texts.items():
                member = tarfile.TarInfo(f"{name}-1.0/{path}")
                member.size = len(text)
                archive.addfile(member, io.BytesIO(text.encode()))
    machine = read_indexes(os.environ)
    return around(
        tmp_path, msgspec.structs.replace(machine, find_links=(*machine.find_links, links.as_uri()))
    )


def test_the_files_of_a_source_archive_state_its_requirements(
    archives: ResolveContext, tmp_path: Path
) -> None:
    decisions = Decisions(as_of="2024-01-15")
    solved = solve_open_lines(
        snapshot("stated\nalone\nother\nplain\n"), decisions, "3.11.2", "x86_64", lists(archives), archives
    )
    assert {line.name: line.version for line in solved.snapshot.requirements} == {
        "stated": "1.0", "alone": "1.0", "other": "1.0", "plain": "1.0", "iniconfig": "2.0.0", "click": "8.1.7",
    }  # fmt: skip
    assert not (tmp_path / "ran").exists()


def test_the_code_of_a_source_archive_does_not_run(archives: ResolveContext, tmp_path: Path) -> None:
    with pytest.raises(LockError, match=r"Failed to build `computed==1\.0`"):
        solve_open_lines(
            snapshot("computed\n"),
            Decisions(as_of="2024-01-15"),
            "3.11.2",
            "x86_64",
            lists(archives),
            archives,
        )
    assert not (tmp_path / "ran").exists()


def test_a_misspelt_name_is_suggested(index: ResolveContext) -> None:
    with pytest.raises(LockError) as err:
        solve_open_lines(
            snapshot("numpyy\n"), Decisions(as_of="2024-01-15"), "3.11.2", "x86_64", lists(index), index
        )
    assert err.value.hint == "if it is numpy, write that in place of numpyy in requirements.txt"


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("numpyy", "numpy"), ("scikit_lern", "scikit-learn"), ("pytorch-lightening", "pytorch-lightning"),
        ("transfomers", "transformers"), ("mylib", ""), ("acme-internal-tools", ""),
    ],
)  # fmt: skip
def test_the_name_that_is_meant(name: str, meant: str) -> None:
    assert suggest_project(name) == (f"; did you mean `{meant}`?" if meant else "")


def test_offline_no_version_is_chosen(tmp_path: Path) -> None:
    lines = snapshot("numpy\n")
    with pytest.raises(FetchError, match="chosen on the index, and --offline forbids it") as err:
        solve_open_lines(
            lines,
            Decisions(as_of="2024-01-15"),
            "3.11.2",
            "x86_64",
            lists(around(tmp_path)),
            around(tmp_path, offline=True),
        )
    assert err.value.hint == "leave --offline out, or write the versions into requirements.txt"


def test_without_a_date_nothing_changes(tmp_path: Path) -> None:
    lines = snapshot("numpy\n", started="2022-06-01T12:00:00+00:00")
    solved = solve_open_lines(
        lines, Decisions(), "3.11.2", "x86_64", lists(around(tmp_path)), around(tmp_path)
    )
    assert (solved.snapshot, solved.reasons) == (lines, {})


def test_only_a_pinned_line_of_a_chosen_version_is_solved() -> None:
    lines = snapshot("numpy\npandas==2.1.4\n")
    solved = as_of._apply(lines, {"numpy": "1.26.3", "pandas": "2.1.4"}, "as of X")
    rulings = [make_resolution(line, "pinned", "a wheel") for line in solved.snapshot.requirements]
    numpy, pandas = solved.mark(rulings)
    assert (numpy.outcome, numpy.kind, numpy.accepted) == ("solved", "solved", True)
    assert numpy.reason == "as of X, uv chose 1.26.3 for `numpy`; a wheel"
    assert pandas == rulings[1]
    missing = msgspec.structs.replace(rulings[0], outcome="unresolved")
    assert solved.mark([missing]) == (missing,)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2023-05-01", "2023-05-02T00:00:00Z"),
        ("2023-12-31", "2024-01-01T00:00:00Z"),
        ("2023-05-01T12:00:00Z", "2023-05-01T12:00:00Z"),
        ("2023-05-01T12:00:00+02:00", "2023-05-01T10:00:00Z"),
        ("2023-05-01T12:00:00", "2023-05-01T12:00:00Z"),
    ],
)
def test_a_moment(text: str, moment: str) -> None:
    assert parse_moment(text) == moment


@pytest.mark.parametrize("text", ["yesterday", "2023-13-01", "", "9999-12-31", "1.5.2023"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(UsageError, match="is not a date") as err:
        parse_moment(text)
    assert err.value.hint == "write it as 2023-05-01 or 2023-05-01T12:00:00Z"


def test_the_logins_of_indexes_are_in_the_private_file_only() -> None:
    indexes = PackageIndexes(
        find_links=(), simple=("https://a.test/simple", "https://b.test/simple"),
        credentials={"https://a.test/simple": ("me", "p@ss")},
    )  # fmt: skip
    assert solve_versions._configure(indexes, {}) == {
        "index": [
            {"url": "https://" + ":".join(["me", "p%40ss@a.test/simple"]), "default": False},
            {"url": "https://b.test/simple", "default": True},
        ],
        "find-links": [],
    }


def test_the_sections_of_a_requires_text() -> None:
    text = "six>=1.10\n\n[:python_version < '3']\nfutures\n\n[test]\npytest\n\n[test:os_name == 'nt']\ncolorama\n"
    assert parse_requires_text(text) == (
        "six>=1.10", "futures ; (python_version < '3')", 'pytest ; extra == "test"',
        "colorama ; (os_name == 'nt') and extra == \"test\"",
    )  # fmt: skip
