"""Requirements of projects without a lock: `pyproject.toml` and `setup.cfg`."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.importers import poetry_project, project_requirements
from reprobuild.snapshot.importers.clean_lines import A_LOGIN
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.import_snapshot import import_into, needs_import, open_snapshot
from reprobuild.snapshot.read import read_snapshot
from tests.snapshot.importers.typical import TYPICAL

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
NOT_HERE = (
    "import the file that has them, such as setup.cfg or requirements.txt; "
    "or take a snapshot where the job runs: `reprobuild capture -o DIR`"
)
PROJECT = f"""\
[build-system]
requires = ["hatchling"]

[project]
name = "work"
version = "1.2"
authors = [{{ name = "Alice B", email = "alice@lab.example" }}]
requires-python = ">=3.9, <3.13"
dependencies = [
    "click<8.2", "numpy[extra]>=1.2 ; python_version < '3.11'", "My_Lib", "sub", "torch>=2",
    "other @ git+https://alice:{TOKEN}@git.example/other.git@main",
]

[project.optional-dependencies]
plot = ["matplotlib"]

[dependency-groups]
lint = ["ruff"]

[tool.uv.sources]
my-lib = {{ git = "https://git.example/my-lib.git", rev = "0123456", subdirectory = "python" }}
sub = {{ path = "libs/sub", editable = true }}
torch = {{ index = "pytorch" }}
ghost = {{ path = "ghost" }}

[tool.ruff]
line-length = 88
"""


def imported(folder: Path, files: dict[str, str]) -> tuple[ImportFacts, list[str]]:
    """Import a directory of files, and return the facts and the rows of its requirements."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    out = folder.parent / f"{folder.name}-out"
    facts = import_into(folder, out)
    for path in out.iterdir():
        assert not [word for word in ("alice", "Alice", TOKEN) if word in path.read_text()], path
    return facts, (out / "requirements.txt").read_text().splitlines()


def reasons(facts: ImportFacts) -> dict[str, str]:
    return {entry.field: entry.reason for entry in facts.unused}


@pytest.mark.parametrize(
    ("files", "version", "origin", "reason"),
    [
        ({".venv/pyvenv.cfg": "home = /x\nversion_info = 3.12.4\n"}, "3.12.4", ".venv/pyvenv.cfg", ""),
        ({".venv/pyvenv.cfg": "version_info = 3.11.9.final.0\n"}, "3.11.9", ".venv/pyvenv.cfg", ""),
        (
            {".venv/pyvenv.cfg": "version = 3.12.4\n", ".python-version": "3.12"},
            "3.12.4",
            ".venv/pyvenv.cfg",
            "",
        ),
        (
            {".venv/pyvenv.cfg": "version = 3.12.4\n", ".python-version": "3.11.2"},
            "3.11.2",
            ".python-version",
            "",
        ),
        (
            {".venv/pyvenv.cfg": "version = 3.12.4\n", ".python-version": "3.11"},
            "",
            "",
            "excludes this Python",
        ),
        ({".venv/pyvenv.cfg": "version = 3.13.1\n"}, "", "", "excludes this Python"),
        ({".venv/pyvenv.cfg": "implementation = PyPy\nversion = 3.11.2\n"}, "", "", "no CPython"),
        ({".venv/pyvenv.cfg": "version\n\x00= x"}, "", "", "lacks its third number"),
    ],
)
@pytest.mark.parametrize("alone", [False, True])
def test_the_python_of_a_project_is_that_of_its_environment(
    tmp_path: Path, files: dict[str, str], version: str, origin: str, reason: str, *, alone: bool
) -> None:
    for name, content in {"pyproject.toml": PROJECT, **files}.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    facts = import_into(tmp_path / "project" / ("pyproject.toml" if alone else "."), tmp_path / "out")
    python = tmp_path / "out" / "python.txt"
    assert (python.read_text().split()[1:2] if python.exists() else []) == [version] * bool(version)
    assert [value.source for value in facts.origins if value.file == "python.txt"][:1] == [origin] * bool(
        version
    )
    assert reason in reasons(facts).get("version", "")


@pytest.mark.parametrize("path", [".", "requirements.txt"])
@pytest.mark.parametrize("beside", ["", "python.txt", "env.txt", "environment.yml"])
def test_a_list_beside_an_environment_has_its_python(tmp_path: Path, path: str, beside: str) -> None:
    """A captured file beside the list says more of Python than an environment that may be newer."""
    project = tmp_path / "project"
    (project / ".venv").mkdir(parents=True)
    (project / "requirements.txt").write_text("numpy==2.1.0\n")
    (project / ".venv/pyvenv.cfg").write_text("version = 3.12.4\n")
    contents = {
        "python.txt": "Python 3.11.2\n",
        "env.txt": "A=1\n",
        "environment.yml": "dependencies: [python=3.11]\n",
    }
    if beside:
        (project / beside).write_text(contents[beside])
    with open_snapshot(project / path) as directory:
        snapshot = read_snapshot(directory)
    versions = [report.python for report in snapshot.reports if report.python]
    assert versions == (["3.12.4"] if path != "." or not beside else ["3.11.2"] * (beside == "python.txt"))


def test_a_project_has_its_requirements_with_their_places(tmp_path: Path) -> None:
    facts, rows = imported(tmp_path, {"pyproject.toml": PROJECT, ".python-version": "3.12.4\n"})
    assert (facts.format, facts.requires_python) == ("pyproject.toml", ">=3.9,<3.13")
    assert rows == [
        "click<8.2", "numpy[extra]>=1.2 ; python_version < '3.11'",
        "My_Lib @ git+https://git.example/my-lib.git@0123456#subdirectory=python",
        "# Editable install with no version control (sub==0)", f"-e {tmp_path}/libs/sub", "torch>=2",
        "other @ git+https://git.example/other.git@main",
    ]  # fmt: skip
    assert reasons(facts) == {
        "project.name": project_requirements.PROJECT, "project.version": "it describes the project",
        "project.authors": "it describes the project", "project.requires-python": project_requirements.RANGE,
        "project.optional-dependencies.plot": project_requirements.EXTRA,
        "dependency-groups.lint": project_requirements.GROUP,
        "build-system": "requirements of a build of the project itself",
        "tool.uv.sources.torch": "an index of uv: `--index NAME=URL` names it for a distribution",
        "tool.uv.sources.ghost": "no requirement of the project has this name", "tool.ruff": "settings of a tool",
    }  # fmt: skip
    (python,) = read_snapshot(tmp_path.parent / f"{tmp_path.name}-out").reports
    assert python.python == "3.12.4"


POETRY = """\
[tool.poetry]
name = "work"
authors = ["Alice B <alice@lab.example>"]

[tool.poetry.dependencies]
python = "^3.9"
click = "^8.1"
pinned = "1.4.3"
b = { git = "https://git.example/b.git", branch = "main" }
c = { path = "../c", develop = true }
d = { version = "^0.3.1", extras = ["x"], markers = "sys_platform == 'linux'", python = ">=3.8,<3.12", source = "lab" }
e = { version = "^1", optional = true }
f = [{ version = "^1", python = "<3.10" }, { version = "^2", python = ">=3.10" }]
g = "^1 || ^2"

[tool.poetry.group.test.dependencies]
pytest = "*"

[tool.poetry.group.docs]
optional = true

[tool.poetry.group.docs.dependencies]
sphinx = "*"
"""


def test_a_project_of_poetry_has_what_poetry_installs_by_default(tmp_path: Path) -> None:
    facts, rows = imported(tmp_path, {"pyproject.toml": POETRY})
    reason = "a constraint that no line of a requirements.txt can hold: write the version that ran"
    assert facts.requires_python == ">=3.9,<4"
    assert rows == [
        "click>=8.1,<9", "pinned==1.4.3", "b @ git+https://git.example/b.git@main",
        "# Editable install with no version control (c==0)", f"-e {tmp_path.parent}/c",
        "d[x]>=0.3.1,<0.4 ; (sys_platform == 'linux') and python_full_version >= \"3.8\" and "
        'python_full_version < "3.12"',
        'f>=1,<2 ; python_full_version < "3.10"', 'f>=2,<3 ; python_full_version >= "3.10"',
        f"(tool.poetry.dependencies.g of pyproject.toml is not imported: {reason})", "pytest",
    ]  # fmt: skip
    assert reasons(facts) == {
        "tool.poetry.dependencies.python": project_requirements.RANGE,
        "tool.poetry.dependencies.d.source": "the index of poetry that has it: `--index NAME=URL` names it",
        "tool.poetry.dependencies.e": project_requirements.EXTRA, "tool.poetry.dependencies.g": reason,
        "tool.poetry.group.docs.dependencies": "an optional group, which poetry does not install by default",
        "tool.poetry.name": project_requirements.PROJECT, "tool.poetry.authors": "it describes the project",
    }  # fmt: skip


# Of https://python-poetry.org/docs/dependency-specification/
@pytest.mark.parametrize(
    ("constraint", "specifier"),
    [
        ("^1.2.3", ">=1.2.3,<2"), ("^1.2", ">=1.2,<2"), ("^1", ">=1,<2"), ("^0.2.3", ">=0.2.3,<0.3"),
        ("^0.0.3", ">=0.0.3,<0.0.4"), ("^0.0", ">=0.0,<0.1"), ("^0", ">=0,<1"), ("~1.2.3", ">=1.2.3,<1.3"),
        ("~1.2", ">=1.2,<1.3"), ("~1", ">=1,<2"), ("*", ""), ("1.*", "==1.*"), ("1.2.*", "==1.2.*"),
        (">= 1.2, < 1.5", ">=1.2,<1.5"), (">=1.0 <2.0", ">=1.0,<2.0"), ("!= 1.2.3", "!=1.2.3"),
        ("==1.2.3", "==1.2.3"), ("1.2.3", "==1.2.3"), ("~=1.2", "~=1.2"), ("^1 || ^2", None), ("^1.*", None),
        ("<1.*", None), ("latest", None), ("^1" * 60, None),
    ],
)  # fmt: skip
def test_a_constraint_of_poetry_is_one_of_pep_440(constraint: str, specifier: str | None) -> None:
    assert poetry_project._specifier(constraint) == specifier


def test_the_directory_of_a_requirement_names_no_person(tmp_path: Path) -> None:
    table = 'a = { path = "/home/alice/mono/a", develop = true }\nb = { path = "/home/alice/mono/b" }\n'
    _, rows = imported(tmp_path, {"pyproject.toml": f"[tool.poetry.dependencies]\n{table}"})
    assert rows == [
        "# Editable install with no version control (a==0)",
        "-e /home/user/mono/a",
        "b @ file:///home/user/mono/b",
    ]


@pytest.mark.parametrize(
    "address",
    ["https:\\\\bob:{0}@h/x", "https:\\bob:{0}@h/x", "https:bob:{0}@h/x", "git+ssh:{0}@h/x", "//bob:{0}@h/x"],
)
@pytest.mark.parametrize("file", ["setup.cfg", "pyproject.toml"])
def test_a_login_that_is_not_cut_out_of_an_address_stays_out(file: str, address: str, tmp_path: Path) -> None:
    row = f"k @ {address.format('S3cretWord')}"
    content = f"[options]\ninstall_requires =\n    click\n    {row}\n"
    if file == "pyproject.toml":
        content = f"[project]\nname = 'work'\ndependencies = ['click', '{row}']\n"
    facts, rows = imported(tmp_path, {file: content})
    where = f"{'options.install_requires' if file == 'setup.cfg' else 'project.dependencies'}[1]"
    assert rows == ["click", f"({where} of {file} is not imported: {A_LOGIN})"]
    assert reasons(facts)[where] == A_LOGIN
    assert "S3cretWord" not in "".join(
        path.read_text() for path in (tmp_path.parent / f"{tmp_path.name}-out").iterdir()
    )


def test_a_login_in_a_list_of_a_tracker_stays_out() -> None:
    draft = Draft("a run", "run.json")
    draft.add_row(r"k @ https:\\bob:S3cretWord@h/x", "line 1")
    for row in (
        "a @ git+ssh://git@h/o/a.git@main", "-e git+git@h.example:o/b.git@v1#egg=b", "c @ https://h/c.whl",
        "d @ file:///srv/d@1", "e==1 ; python_version < '3.9'",
    ):  # fmt: skip
        draft.add_row(row, row)
    imported_snapshot = draft.finish()
    assert [(entry.field, entry.reason) for entry in imported_snapshot.facts.unused] == [("line 1", A_LOGIN)]
    asked, *rows = imported_snapshot.files["requirements.txt"].decode().splitlines()
    assert (asked, len(rows)) == (f"(line 1 of run.json is not imported: {A_LOGIN})", 5)


def test_the_table_of_poetry_adds_places_to_a_project(tmp_path: Path) -> None:
    """An index may have another project of the same name."""
    project = '[project]\nname = "work"\ndependencies = ["b>=1", "c"]\n[tool.poetry.dependencies]\n'
    places = 'b = { git = "https://git.example/b.git" }\nc = { version = "^1" }\n'
    facts, rows = imported(tmp_path, {"pyproject.toml": project + places})
    assert rows == ["b @ git+https://git.example/b.git", "c"]
    assert reasons(facts)["tool.poetry.dependencies.c"] == "`project.dependencies` has the requirement"


SETUP = """\
[metadata]
name = work
author_email = alice@lab.example

[options]
packages = find:
python_requires = >=3.8
install-requires =
    # a comment
    click  <8.2
    importlib-metadata; python_version<"3.8"
    no requirement at all

[options.extras_require]
plot = matplotlib; seaborn

[flake8]
max-line-length = 88
"""


def test_a_project_of_setuptools_has_its_requirements(tmp_path: Path) -> None:
    facts, rows = imported(tmp_path, {"setup.cfg": SETUP, "setup.py": "raise SystemExit('it ran')\n"})
    assert (facts.format, facts.requires_python) == ("setup.cfg", ">=3.8")
    assert rows == [
        "click <8.2", 'importlib-metadata; python_version<"3.8"',
        "(options.install_requires[2] of setup.cfg is not imported: it is no requirement)",
    ]  # fmt: skip
    assert reasons(facts) == {
        "options.install_requires[2]": "it is no requirement", "metadata.name": project_requirements.PROJECT,
        "metadata.author_email": "it describes the project", "options.packages": "how the project itself is built",
        "options.python_requires": project_requirements.RANGE,
        "options.extras_require.plot": project_requirements.EXTRA,
        "flake8": "settings of a tool",
    }  # fmt: skip


def test_a_list_on_one_line_has_semicolons(tmp_path: Path) -> None:
    assert imported(tmp_path, {"setup.cfg": "[options]\ninstall_requires = a; b>=1\n"})[1] == ["a", "b>=1"]


LOCKS = [
    name.strip("`") for name in TYPICAL if name.strip("`").endswith((".lock", "pylock.toml", "lock.yml"))
]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_beside_a_project_is_read(lock: str, tmp_path: Path) -> None:
    facts = import_beside(tmp_path, TYPICAL[f"`{lock}`"])
    assert facts.format == lock


def import_beside(folder: Path, files: dict[str, str]) -> ImportFacts:
    """Import files with a project file beside them."""
    for name, content in {"pyproject.toml": PROJECT, "setup.cfg": SETUP, **files}.items():
        (folder / name).write_text(content)
    return import_into(folder, folder / "out")


def test_there_are_locks_to_be_read() -> None:
    assert len(LOCKS) == 7


EXPLICIT = "@EXPLICIT\nhttps://conda.example.org/linux-64/python-3.11.7-h1_0.conda\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [("requirements.txt", "six==1.16.0\n"), ("environment.yml", "dependencies: [six]\n"), ("conda.lock", EXPLICIT)],
)  # fmt: skip
def test_a_list_beside_a_project_says_more(name: str, content: str, tmp_path: Path) -> None:
    for file, text in {"pyproject.toml": PROJECT, "setup.cfg": SETUP, name: content}.items():
        (tmp_path / file).write_text(text)
    assert not needs_import(tmp_path)
    assert [line.name for line in read_snapshot(tmp_path).requirements] in (["six"], [])


def test_a_snapshot_below_a_project_is_not_passed_over(tmp_path: Path) -> None:
    snapshot = tmp_path / "frozen" / "snapshot"
    snapshot.mkdir(parents=True)
    (snapshot / "env.txt").write_text("A=b\n")
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    with pytest.raises(SnapshotError, match="nothing captured in"):
        import_into(tmp_path, tmp_path / "out")


def test_requirements_of_setup_cfg_stand_for_dynamic_ones(tmp_path: Path) -> None:
    dynamic = '[project]\nname = "work"\ndynamic = ["dependencies"]\n'
    facts, rows = imported(tmp_path, {"pyproject.toml": dynamic, "setup.cfg": SETUP})
    assert (facts.format, rows[0]) == ("setup.cfg", "click <8.2")


def test_a_project_in_an_archive_is_read(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    with tarfile.open(tmp_path / "work.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "pyproject.toml", "pyproject.toml")
    assert import_into(tmp_path / "work.tar.gz", tmp_path / "out").format == "pyproject.toml"
    rows = (tmp_path / "out" / "requirements.txt").read_text().splitlines()
    assert "# Editable install with no version control (sub==0)" in rows
    assert not [row for row in rows if row.startswith("-e ")]


LISTED = "import that list: `reprobuild import requirements/base.txt -o DIR`"
DYNAMIC = '[project]\nname = "work"\ndynamic = ["dependencies"]\n'
MANY = "import a lock of the project, or a requirements.txt"
SIZE = "look at what wrote it; people write a few kilobytes"
MARKS = "look at what wrote it; a merge may have left its marks"


@pytest.mark.parametrize(
    ("name", "content", "message", "hint"),
    [
        ("pyproject.toml", "[tool.ruff]\nline-length = 88\n", "pyproject.toml states no requirement", NOT_HERE),
        ("pyproject.toml", DYNAMIC, "pyproject.toml states no requirement", NOT_HERE),
        ("pyproject.toml", DYNAMIC.replace('["dependencies"]', "7"), "pyproject.toml states no requirement", NOT_HERE),
        (
            "pyproject.toml",
            DYNAMIC + '[tool.setuptools.dynamic]\ndependencies = { file = ["requirements/base.txt"] }\n',
            "pyproject.toml leaves its requirements to requirements/base.txt",
            LISTED,
        ),
        (
            "pyproject.toml",
            DYNAMIC + '[tool.setuptools.dynamic]\ndependencies = { file = ["-o/x"] }\n',
            "pyproject.toml leaves its requirements to -o/x",
            "import that list: `reprobuild import ./-o/x -o DIR`",
        ),
        (
            "setup.cfg",
            "[options]\ninstall_requires = file: --version\n",
            "setup.cfg leaves its requirements to --version",
            "import that list: `reprobuild import ./--version -o DIR`",
        ),
        ("pyproject.toml", "[project\n", "pyproject.toml is not TOML", MARKS),
        ("pyproject.toml", "#" * (1 << 20) + "\n", "more than the 1 MiB that it may have", SIZE),
        ("pyproject.toml", f"[{'a.' * 40}a]\n", "has a key of more than 32 parts", "some five parts"),
        ("pyproject.toml", f'[project]\ndependencies = [{"7, " * 2001}]\n', "has 2001 requirements, more than", MANY),
        ("pyproject.toml", f'[tool.poetry.dependencies]\na = [{"1, " * 2001}]\n', "has 2001 requirements", MANY),
        ("setup.cfg", "[options]\npackages = find:\n", "setup.cfg states no requirement", NOT_HERE),
        (
            "setup.cfg",
            "[options]\ninstall_requires = file: requirements/base.txt\n",
            "setup.cfg leaves its requirements to requirements/base.txt",
            LISTED,
        ),
        ("setup.cfg", "[options]\ninstall_requires =" + "a;" * 2001 + "\n", "has 2001 requirements", MANY),
        ("setup.cfg", "install_requires = a\n", "setup.cfg is not read: File contains no section headers", MARKS),
        ("setup.cfg", "[a]\n[a]\n", "setup.cfg is not read: ", MARKS),
        ("setup.cfg", f"[options]\na{' ' * 900_000}b\n", "setup.cfg is not read: ", MARKS),
    ],
)  # fmt: skip
def test_a_project_file_that_gives_nothing_is_refused(
    name: str, content: str, message: str, hint: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(SnapshotError) as err:
        import_into(tmp_path / name, tmp_path / "out")
    assert message in str(err.value)
    assert hint in err.value.hint
    assert not (tmp_path / "out").exists()
