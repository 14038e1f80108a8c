"""A list of requirements that names others, and lists as editors of other systems save them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.resolve.line_resolutions import unread_remarks
from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.importers.import_snapshot import import_into
from reprobuild.snapshot.read import read_snapshot
from reprobuild_portable import secrets

BOM = b"\xef\xbb\xbf"


def imported(folder: Path, files: dict[str, bytes], name: str) -> tuple[ImportFacts, list[str]]:
    for file, content in files.items():
        path = folder / "in" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    facts = import_into(folder / "in" / name, folder / "out")
    return facts, (folder / "out" / "requirements.txt").read_text().splitlines()


def test_the_lists_that_a_list_names_are_followed(tmp_path: Path) -> None:
    files = {
        "requirements-dev.txt": BOM
        + b"\r\n-r requirements.txt\r\n--requirement=more/gpu.txt # for the GPU\r\nclick==8.1.7\r\n",
        "requirements.txt": BOM + b"numpy==1.26.4\n\n-r requirements-dev.txt\n",
        "more/gpu.txt": b"torch==2.3.0 \\\n    --hash=sha256:" + b"0" * 64 + b"\n-rlast.txt\n",
        "more/last.txt": b"six==1.16.0\n",
    }  # fmt: skip
    facts, lines = imported(tmp_path, files, "requirements-dev.txt")
    assert lines == [
        "numpy==1.26.4", "torch==2.3.0 \\", "--hash=sha256:" + "0" * 64, "six==1.16.0", "click==8.1.7",
    ]  # fmt: skip
    origins = {lines[origin.line - 1]: (origin.source, origin.field) for origin in facts.origins}
    assert origins["six==1.16.0"] == ("more/last.txt", "line 1")
    assert origins["click==8.1.7"] == ("requirements-dev.txt", "line 4")
    assert [(entry.source, entry.field, entry.reason) for entry in facts.unused] == [
        ("requirements.txt", "line 3", "the list is already read")
    ]


@pytest.mark.parametrize(
    "name", ["../secret.txt", "/etc/more.txt", "gone.txt", "link.txt", "by/link.txt", "more.txt"]
)
def test_a_list_that_is_not_beside_it_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("six==1.16.0\n")
    (tmp_path / "in" / "more.txt").mkdir(parents=True)
    (tmp_path / "in" / "link.txt").symlink_to(tmp_path / "secret.txt")
    (tmp_path / "in" / "by").symlink_to(tmp_path)
    files = {"requirements.txt": f"numpy==1.26.4\n-r {name}\n".encode()}
    facts, lines = imported(tmp_path, files, "requirements.txt")
    reason = f"there is no list {name} beside it"
    assert lines == ["numpy==1.26.4", f"(line 2 of requirements.txt is not imported: {reason})"]
    assert [entry.reason for entry in facts.unused] == [reason]
    assert len(unread_remarks(read_snapshot(tmp_path / "out"))) == 1  # `lock` asks for it


def test_a_long_chain_of_lists_is_refused(tmp_path: Path) -> None:
    files = {
        f"requirements-{number}.txt": f"-r requirements-{number + 1}.txt\n".encode() for number in range(150)
    }
    with pytest.raises(SnapshotError, match="leads to more than 100 lists") as err:
        imported(tmp_path, files, "requirements-0.txt")
    assert err.value.hint == "write one list: `pip freeze > requirements.txt` where the job runs"


@pytest.mark.parametrize(
    "content",
    [BOM + b"\n\nclick==8.1.7\n\n", "\ufeffclick==8.1.7\r\n\r\n".encode("utf-16-le"), b"click==8.1.7"],
    ids=["utf-8", "utf-16", "no-end"],
)
@pytest.mark.parametrize("beside", ["", "MLmodel"])
def test_a_mark_and_empty_lines_do_no_harm(content: bytes, beside: str, tmp_path: Path) -> None:
    files = {"requirements.txt": content} | ({beside: b"flavors: {}\n"} if beside else {})
    import_file = "" if beside else "requirements.txt"
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    import_into(tmp_path / import_file, tmp_path.parent / f"{tmp_path.name}-out")
    snapshot = read_snapshot(tmp_path.parent / f"{tmp_path.name}-out")
    assert [(line.name, line.version) for line in snapshot.requirements] == [("click", "8.1.7")]
    assert not snapshot.remarks


NO_ROW = "it is no requirement, no option and no comment"
SECRETS = {
    ".ssh/id_rsa": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----\n",
    ".netrc": "machine index.example.org login joe password hunter2hunter2\n",
    ".bash_history": "ls\nmake\n", ".env": "six==1.16.0\n", ".config/list.txt": "six==1.16.0\n",
    "id_ed25519": "six==1.16.0\n", "notes.md": "six==1.16.0\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_a_file_that_is_no_list_is_not_followed(name: str, tmp_path: Path) -> None:
    files = {name: SECRETS[name].encode(), "requirements.txt": f"numpy==1.26.4\n-r {name}\n".encode()}
    facts, lines = imported(tmp_path, files, "requirements.txt")
    reason = f"{name} has no name of a list: to import it, name it in the command"
    assert lines == ["numpy==1.26.4", f"(line 2 of requirements.txt is not imported: {reason})"]
    assert [(entry.source, entry.field, entry.reason) for entry in facts.unused] == [
        ("requirements.txt", "line 2", reason)
    ]


def test_a_list_with_a_secret_is_not_followed(tmp_path: Path) -> None:
    content = ("six==1.16.0\n# ghp" + "_aB3dE5fG7hI9kL1mN3pQ5rS7tU9vW1xY3zA5\n").encode()
    files = {"more.txt": content, "requirements.txt": b"numpy==1.26.4\n-r more.txt\n"}
    facts, lines = imported(tmp_path, files, "requirements.txt")
    reason = "more.txt holds a secret, which must be taken out of it first"
    assert lines == ["numpy==1.26.4", f"(line 2 of requirements.txt is not imported: {reason})"]
    assert [entry.reason for entry in facts.unused] == [reason]


def test_a_refused_list_is_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[bytes] = []

    def find(data: bytes, **more: Any) -> Any:
        searches.append(data)
        return real(data, **more)

    real = secrets.find
    monkeypatch.setattr(secrets, "find", find)
    content = ("six==1.16.0\n# ghp" + "_aB3dE5fG7hI9kL1mN3pQ5rS7tU9vW1xY3zA5\n").encode()
    rows = ["-r more.txt", "-r ./more.txt", "-r a/../more.txt"]
    files = {"more.txt": content, "requirements.txt": "\n".join(rows).encode()}
    facts, _ = imported(tmp_path, files, "requirements.txt")
    names = [row.removeprefix("-r ") for row in rows]
    reasons = [f"{name} holds a secret, which must be taken out of it first" for name in names]
    assert [entry.reason for entry in facts.unused] == reasons
    assert len([data for data in searches if b"six" in data]) == 1


def test_a_list_with_a_login_is_followed_without_it(tmp_path: Path) -> None:
    content = (
        "six==1.16.0\n--extra-index-url https://joe:hunter2" + "hunter2@index.example.org/simple\n"
    ).encode()
    files = {"more.txt": content, "requirements.txt": b"numpy==1.26.4\n-r more.txt\n"}
    _, lines = imported(tmp_path, files, "requirements.txt")
    assert lines == ["numpy==1.26.4", "six==1.16.0", "--extra-index-url https://index.example.org/simple"]


def test_only_the_rows_of_a_list_are_taken_from_a_file_beside_it(tmp_path: Path) -> None:
    rows = [
        "# of the project", "six==1.16.0  # why", "torch[a,b]>=2 ; python_version < '3.12'",
        "-e git+https://git.example/a.git@main#egg=a", "--no-index", "-fwheels",
        "https://index.example.org/b-1-py3-none-any.whl", "click==8.1.7 --hash=sha256:" + "0" * 64,
    ]  # fmt: skip
    others = ["cd /srv && make all", "user: joe", "MIIEpAIBAAKCAQEA/x+y", "x" * 2000]
    files = {
        "more.txt": "\n".join(rows + others).encode(),
        "requirements.txt": b"-r more.txt\nnumpy==1.26.4\n",
    }
    facts, lines = imported(tmp_path, files, "requirements.txt")
    gaps = [f"(line {number} of more.txt is not imported: {NO_ROW})" for number in range(9, 13)]
    assert lines == [*rows, *gaps, "numpy==1.26.4"]
    assert [entry.reason for entry in facts.unused] == [NO_ROW] * 4
