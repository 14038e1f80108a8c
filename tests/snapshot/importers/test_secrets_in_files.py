"""Secrets in files that an import copies whole: none of them is in the snapshot."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.resolve.line_resolutions import unread_remarks
from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.importers import captured_content
from reprobuild.snapshot.importers.captured_content import GAP, LARGEST, put_captured
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.import_snapshot import import_into
from reprobuild.snapshot.read import read_snapshot

TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
KEY = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzzzzzzKEY"
PLANTED = (
    "hunter2hunter2",
    "s3cr3tPassw0rdXY",
    "correcthorsebattery",
    KEY,
    TOKEN,
    "9f8e7d6c5b4a",
    "/home/joe",
)
CONDA = f"""name: x  # a name
channels:
  - https://conda:s3cr3tPassw0rdXY@conda.example.org/main
  - defaults
dependencies:
  - python=3.11.4=h955ad1f_0
  - openssl=1.10=h1_0
  - pip:
    - --extra-index-url https://joe:hunter2hunter2@index.example.org/simple
    - numpy==1.26.4
variables:
  AWS_SECRET_ACCESS_KEY: {KEY}
  DB_PASSWORD: correcthorsebattery
prefix: /home/joe/conda
"""
LIST = "--extra-index-url https://joe:hunter2hunter2@index.example.org/simple\nnumpy==1.26.4\n"
DUMP = (
    f"PATH=/bin\nAWS_SECRET_ACCESS_KEY={KEY}\nLANG=C\nOTHER={TOKEN}\n# export DB_PASSWORD=correcthorsebattery\n"
    f"NOTES=a\nb\n# ends\nDB_PASSWORD=***\n9f8e7d6c5b4aTOKEN=***\ncorrecthorsebattery\n"
)


def imported(folder: Path, files: dict[str, str], name: str) -> tuple[ImportFacts, dict[str, str]]:
    """Import a file or a directory, and return the facts and the files of a snapshot without the planted secrets."""
    for file, content in files.items():
        (folder / "in" / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / file).write_text(content)
    return result(folder, folder / "in" / name)


def result(folder: Path, path: Path) -> tuple[ImportFacts, dict[str, str]]:
    facts = import_into(path, folder / "out")
    written = {file.name: file.read_text() for file in (folder / "out").iterdir()}
    assert [(file, word) for file, content in written.items() for word in PLANTED if word in content] == []
    return facts, written


def archive(path: Path, files: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content.encode())
            tar.addfile(info, io.BytesIO(content.encode()))
    return path


def left(facts: ImportFacts) -> dict[tuple[str, str], str]:
    return {(entry.source, entry.field): entry.reason for entry in facts.unused}


def test_a_login_of_an_index_stays_out(tmp_path: Path) -> None:
    facts, files = imported(tmp_path, {"requirements.txt": LIST}, "requirements.txt")
    assert files["requirements.txt"] == LIST.replace("joe:hunter2hunter2@", "")
    assert left(facts) == {("requirements.txt", "line 1"): "it held a secret, which was cut out"}


@pytest.mark.parametrize(
    ("files", "start"),
    [
        ({"environment.yml": CONDA}, "environment.yml"),
        ({"train-env.yaml": CONDA}, "train-env.yaml"),
        ({"wandb-metadata.json": "{}", "conda-environment.yaml": CONDA}, ""),
        ({"MLmodel": "flavors: {}\n", "conda.yaml": CONDA}, ""),
    ],
)
def test_secrets_of_an_environment_of_conda_stay_out(
    files: dict[str, str], start: str, tmp_path: Path
) -> None:
    facts, written = imported(tmp_path, files, start)
    assert "variables" in {field for _, field in left(facts)}
    assert "variables" not in written["environment.yml"]
    assert "https://conda.example.org/main" in written["environment.yml"]
    snapshot = read_snapshot(tmp_path / "out")
    assert {(line.name, line.version) for line in snapshot.conda} >= {
        ("python", "3.11.4"),
        ("openssl", "1.10"),
    }
    assert "- numpy==1.26.4\n" in written["environment.yml"]


@pytest.mark.parametrize(
    "content",
    [
        '{dependencies: [python=3.11.4=h1_0], variables: {DB_PASSWORD: correcthorsebattery}, prefix: /home/joe}',
        f'"variables":\n  A: "{TOKEN}"\ndependencies:\n- python=3.11.4=h1_0\nprefix:\n  /home/joe\n',
        f"dependencies:\n- python=3.11.4=h1_0\n# {TOKEN}\n",
        '{dependencies: [python=3.11.4=h1_0], <<: {variables: {DB_PASSWORD: correcthorsebattery}}}',
        'dependencies: [python=3.11.4=h1_0]\n<<: [{a: b}, {<<: {"variables": {A: correcthorsebattery}}}]\n',
        'dependencies: [python=3.11.4=h1_0]\n!!merge x: {prefix: /home/joe, name: e}\n',
    ],
)  # fmt: skip
def test_other_spellings_of_an_environment_stay_out(content: str, tmp_path: Path) -> None:
    imported(tmp_path, {"environment.yml": content}, "environment.yml")
    assert [line.name for line in read_snapshot(tmp_path / "out").conda] == ["python"]


def test_values_of_secret_variables_stay_out(tmp_path: Path) -> None:
    facts, files = imported(tmp_path, {"env.txt": DUMP}, "env.txt")
    assert "AWS_SECRET_ACCESS_KEY=***\n" in files["env.txt"]
    assert "NOTES=a\nb\n" in files["env.txt"]
    assert "OTHER" not in files["env.txt"]
    assert left(facts)["env.txt", "OTHER"] == "a secret"
    values = {variable.name: variable.value for variable in read_snapshot(tmp_path / "out").variables}
    assert values["PATH"] == "/bin"
    assert values["AWS_SECRET_ACCESS_KEY"] is None


def test_records_of_secret_variables_stay_out(tmp_path: Path) -> None:
    dump = f"A=b\0DB_PASSWORD=correcthorsebattery\0BASH_FUNC_f%%=() {{ curl -H 'x: {TOKEN}'\n}}\0NOTES=a\nb\0"
    facts, files = imported(tmp_path, {"env.nul": dump}, "env.nul")
    assert files["env.nul"] == "A=b\0NOTES=a\nb\0"
    assert left(facts) == {("env.nul", "DB_PASSWORD"): "a secret", ("env.nul", "record 3"): "a secret"}


def test_a_torn_key_stays_out(tmp_path: Path) -> None:
    rows = [
        "-----BEGIN PRIVATE KEY-----",
        "9f8e7d6c5b4aAAAAAAAAAAAAAAAAAAAA=",
        "A=b",
        "DEPLOY_KEY=-----BEGIN X",
        "Z=1",
    ]
    imported(tmp_path, {"env.txt": "".join(f"{row}\n" for row in sorted(rows))}, "env.txt")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("requirements.txt", "numpy==1.26.4\n# a comment\n-e git+ssh://git@git.example/a.git@main#egg=a\n"),
        ("environment.yml", "name: x # why\ndependencies: [ 'python=3.11.4=h1_0' ]\n"),
        ("env.txt", "B=1\nDB_PASSWORD=***\n# withheld: C (named)\nA=/bin\n"),
        ("apt-packages.txt", "adduser/stable,now 3.134 all [installed]\n"),
    ],
)
def test_a_file_without_secrets_keeps_its_bytes(name: str, content: str, tmp_path: Path) -> None:
    facts, files = imported(tmp_path, {name: content}, name)
    assert files[name] == content
    assert left(facts) == {}


def test_an_archive_gives_only_files_of_a_snapshot_without_secrets(tmp_path: Path) -> None:
    members = {
        "s/requirements.txt": LIST, "s/env.txt": DUMP, "s/environment.yml": CONDA, "s/other.log": TOKEN,
        "s/work.patch": f"+TOKEN = '{TOKEN}'\n", "s/README.md": "A text.\n", "s/work.bundle": "packed",
        "s/reprobuild.yaml": "base: x\n",
    }  # fmt: skip
    facts, files = result(tmp_path, archive(tmp_path / "s.tar.gz", members))
    assert sorted(files) == [
        "README.md", "env.txt", "environment.yml", "import.json", "requirements.txt", "work.bundle"
    ]  # fmt: skip
    assert left(facts)["other.log", "the file"] == "a file of no known kind"
    assert left(facts)["reprobuild.yaml", "the file"] == "a file of no known kind"
    assert left(facts)["work.patch", "the file"] == "it holds a secret"


def test_a_document_with_a_secret_is_refused(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "s.tar.gz", {"requirements.txt": "a==1\n", "capture.json": f'{{"a": "{TOKEN}"}}'}
    )
    with pytest.raises(SnapshotError, match=r"capture\.json:1: a secret") as err:
        import_into(path, tmp_path / "out")
    assert err.value.hint == "take it out of the file, and import it again"
    assert not (tmp_path / "out").exists()


def test_a_long_row_of_hashes_becomes_several(tmp_path: Path) -> None:
    """`pipenv requirements --hash` writes them so; PyYAML 6.0.1 has 51 of them."""
    hashes = [f"--hash=sha256:{number:064x}" for number in range(60)]
    (tmp_path / "requirements.txt").write_text(f"pyyaml==6.0.1 {' '.join(hashes)}\nnumpy==1.26.4\n")
    import_into(tmp_path / "requirements.txt", tmp_path / "out")
    snapshot = read_snapshot(tmp_path / "out")
    assert [(line.name, line.version) for line in snapshot.requirements] == [
        ("pyyaml", "6.0.1"),
        ("numpy", "1.26.4"),
    ]
    assert unread_remarks(snapshot) == []


def test_a_row_that_is_not_imported_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"numpy==1.26.4\n{'x' * 5000}\n")
    import_into(tmp_path / "requirements.txt", tmp_path / "out")
    assert (tmp_path / "out" / "requirements.txt").read_text() == f"numpy==1.26.4\n{GAP}\n"
    assert len(unread_remarks(read_snapshot(tmp_path / "out"))) == 1


def test_a_huge_list_is_refused_before_it_is_judged() -> None:
    with pytest.raises(SnapshotError, match="more than the 4 MiB that a list may have") as err:
        put_captured(Draft("a file", "a.txt"), "a.txt", "requirements.txt", b"x" * (LARGEST + 1))
    assert err.value.hint == (
        "look at what wrote it; or take a snapshot where the job runs: `reprobuild capture -o DIR`"
    )


def test_a_dump_that_shows_secrets_again_and_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured_content, "ROUNDS", 1)
    with pytest.raises(SnapshotError, match="secrets cannot be told from what stands beside them") as err:
        put_captured(Draft("a file", "env.txt"), "env.txt", "env.txt", DUMP.encode())
    assert err.value.hint == "write it again where the job runs: `env -0 > env.nul`"


CODED = "%67" + TOKEN[1:]


@pytest.mark.parametrize(
    "coded", [CODED, CODED.replace("%", "%25"), "".join(f"%{ord(sign):02x}" for sign in TOKEN)]
)
@pytest.mark.parametrize("name", ["requirements.txt", "environment.yml"])
def test_a_secret_in_coded_signs_stays_out(name: str, coded: str, tmp_path: Path) -> None:
    row = f"a @ https://h.example.org/{coded}/a%20b-0.1.zip"
    content = (
        row if name == "requirements.txt" else f"dependencies:\n- python=3.11.4=h1_0\n- pip:\n  - {row}\n"
    )
    facts, files = imported(tmp_path, {name: content}, name)
    assert coded not in files[name]
    assert "a @ https://h.example.org/***/a%20b-0.1.zip" in files[name]
    assert "it held a secret, which was cut out" in left(facts).values()
