"""Files by their names, two files that say the same thing, and digests that stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.file_kinds import KINDS, kind_of
from reprobuild.snapshot.model import Snapshot, SourceLocation
from reprobuild.snapshot.read import read_snapshot

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "cpu-train" / "snapshot"
Write = Callable[..., Snapshot]


@pytest.fixture
def snapshot(tmp_path: Path) -> Write:
    """Return what a directory of these files is read as."""

    def write(**files: str) -> Snapshot:
        for name, content in files.items():
            (tmp_path / name).write_bytes(content.encode())
        return read_snapshot(tmp_path)

    return write


def test_the_digest_of_the_example_stays() -> None:
    """Locks and transcripts name it: a new kind of file must not change it."""
    known = "b957eef77627f039f3471acd8d4150d4bc379b62bfbfeafade128f5c25eee588"
    assert read_snapshot(EXAMPLE).digest == known


def test_new_kinds_are_part_of_the_digest(snapshot: Write) -> None:
    digests = [
        snapshot(**{"requirements.txt": "six==1.16.0\n"}).digest,
        snapshot(**{"conda-list.txt": "python 3.11.5 h1_0\n"}).digest,
        snapshot(**{"rpm-packages.txt": "bash 5.1-2.el9 x86_64\n"}).digest,
        snapshot(**{"collect_env.txt": "PyTorch version: 2.0\n"}).digest,
    ]
    assert len(set(digests)) == 4


def test_a_snapshot_of_every_kind_can_be_written_and_read_back(snapshot: Write) -> None:
    found = snapshot(**{
        "requirements.txt": "six @ file:///croot/six_1700000000000/work\n",
        "conda-explicit.txt": "@EXPLICIT\nhttps://c.example/noarch/six-1.16.0-py_0.conda\n",
        "rpm-packages.txt": "bash 5.1-2.el9 x86_64\n", "nvidia-smi.txt": "GPU 0: X (UUID: GPU-1)\n",
    })  # fmt: skip
    assert msgspec.json.decode(msgspec.json.encode(found), type=Snapshot) == found


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("pip-freeze.txt", "requirements"), ("PIP_FREEZE.txt", "requirements"), ("freeze.txt", "requirements"),
        ("requirements-frozen.txt", "requirements"), ("dpkg-l.txt", "packages"), ("apt.txt", "packages"),
        ("printenv.txt", "variables"), ("environment.txt", "variables"), ("env_dump.txt", "variables"),
        ("env.nul", "variables"), ("module-list.txt", "modules"), ("environment.yaml", "conda"),
        ("conda_list.txt", "conda"), ("conda.txt", "conda"), ("rpm-qa.txt", "rpms"), ("collect_env.txt", "reports"),
        ("nvidia_smi.txt", "reports"), ("capture.json", "reports"), ("x.diff", "patches"),
    ],
)  # fmt: skip
def test_names(name: str, field: str) -> None:
    kind = kind_of(name)
    assert kind is not None
    assert kind.field == field


def test_every_field_has_a_kind_and_no_name_two() -> None:
    assert {kind.field for kind in KINDS} | {
        "digest",
        "remarks",
        "absent",
        "captured",
        "apt_lists",
        "unlisted",
        "unfrozen",
        "imported",
        "conda_requests",
        "conda_beside",
    } == set(Snapshot.__struct_fields__)
    names = [name for kind in KINDS for name in (kind.name, *kind.others)]
    assert len(names) == len(set(names))
    assert kind_of("notes.txt") is None


def test_two_files_of_one_kind(snapshot: Write) -> None:
    found = snapshot(**{"requirements.txt": "six==1.16.0\n", "freeze.txt": "six==1.16.0\n"})
    assert [line.place.file for line in found.requirements] == ["freeze.txt"]
    assert [remark.reason for remark in found.remarks] == ["the same as freeze.txt"]
    with pytest.raises(SnapshotError) as err:
        snapshot(**{"requirements.txt": "six==1.17.0\n"})
    assert str(err.value) == (
        "`freeze.txt` and `requirements.txt` are two different files of one kind (requirements.txt)"
    )
    assert err.value.hint == "keep the one of the environment that ran"


def test_locks_are_known_by_their_content(snapshot: Write) -> None:
    found = snapshot(**{
        "a.lock": "# platform: linux-64\n@EXPLICIT\nhttps://c.example/noarch/six-1.16.0-py_0.conda\n",
        "reprobuild.lock": "{}",
    })  # fmt: skip
    assert [package.name for package in found.conda] == ["six"]
    assert [(r.place.file, r.understood) for r in found.remarks if "known kind" in r.reason] == [
        ("reprobuild.lock", False)
    ]


def test_env_nul_is_taken_before_env_txt(snapshot: Write) -> None:
    found = snapshot(**{
        "env.nul": "A=1\nB=x\0C=2\0D=4\0_=/bin/env\0",
        "env.txt": "export A=$'1\\nB=x'\nC=3\nE=5\nHF_TOKEN=***\n_=/bin/printenv\n",
    })  # fmt: skip
    known = {variable.name: variable for variable in found.variables}
    assert {name: variable.value for name, variable in known.items()} == {
        "A": "1\nB=x", "C": "2", "D": "4", "_": "/bin/env", "HF_TOKEN": None,
    }  # fmt: skip
    assert (known["A"].place, known["HF_TOKEN"].place) == (
        SourceLocation("env.nul", 1),
        SourceLocation("env.txt", 4),
    )
    said = {(remark.place.line, remark.text): remark.reason for remark in found.remarks}
    assert said == {
        (1, ""): "it lacks 1 variables of env.nul: D",
        (2, "C"): "it has another value at env.nul:2, which is taken",
        (3, "E"): "env.nul does not have it: not read",
    }
    assert sum(remark.lines for remark in found.remarks if "tears no value" in remark.reason) == 5
    assert "env.txt" not in found.absent


def test_env_nul_alone(snapshot: Write) -> None:
    found = snapshot(**{"env.nul": "A=1\n2\0"})
    assert [(v.name, v.value, v.suspect) for v in found.variables] == [("A", "1\n2", "")]
    assert found.absent == ("requirements.txt", "apt-packages.txt", "modules.txt", "*.diff")


def test_bytes_that_are_no_text_are_suspect(tmp_path: Path) -> None:
    (tmp_path / "env.nul").write_bytes(b"A=caf\xe9\0B=caf\xc3\xa9\0N\xe9=1\0")
    found = read_snapshot(tmp_path)
    assert [(v.name, v.value, v.suspect) for v in found.variables] == [
        ("A", "caf\\xe9", "its bytes are no UTF-8 text"), ("B", "caf\u00e9", ""),
    ]  # fmt: skip
    assert [remark.understood for remark in found.remarks] == [False]


def test_wide_text_is_no_env_nul(tmp_path: Path) -> None:
    (tmp_path / "env.nul").write_bytes("A=1\n".encode("utf-16"))
    assert [(v.name, v.value) for v in read_snapshot(tmp_path).variables] == [("A", "1")]
    (tmp_path / "env.nul").write_bytes("A=1\n".encode("utf-16-le"))
    with pytest.raises(SnapshotError) as err:
        read_snapshot(tmp_path)
    assert err.value.hint == "the file looks like UTF-16 without its mark: save it as UTF-8"


def test_rpm(snapshot: Write) -> None:
    found = snapshot(**{
        "rpm-packages.txt": "bash 5.1-2.el9 x86_64\ngpg-pubkey 1-2 (none)\nzlib-1.2-3.el9.x86_64\nkernel 1:5-1 x86_64\n"
        "kernel 1:5-2 x86_64\nbash 5.1-2.el9 x86_64\n# c\nerror: rpmdb\n???\n$ rpm -qa\n" + "x" * 5000
    })  # fmt: skip
    assert [(p.name, p.version, p.architecture) for p in found.rpms] == [
        ("bash", "5.1-2.el9", "x86_64"), ("gpg-pubkey", "1-2", ""), ("zlib", "1.2-3.el9", "x86_64"),
        ("kernel", "1:5-1", "x86_64"), ("kernel", "1:5-2", "x86_64"),
    ]  # fmt: skip
    assert [(r.place.line, r.understood) for r in found.remarks] == [
        (6, True), (7, True), (8, False), (9, False), (10, True), (11, False),
    ]  # fmt: skip


CROOT = "{0} @ file:///croot/{0}_1700000000000/work\n"


@pytest.mark.parametrize(
    ("name", "listed", "version"),
    [
        ("numpy", "numpy 1.26.4 py311h08b1b3b_0", "1.26.4"),
        ("ruamel.yaml", "ruamel_yaml 0.17 py311_0", "0.17"),
        ("graphviz", "graphviz 9.0 h1_0\npython-graphviz 0.20 pyh1_0", "0.20"),
        ("msgpack", "msgpack-python 1.0.3 py311_0", "1.0.3"),
        ("torch", "pytorch 2.1.0 py3.11_cuda12.1_0", "2.1.0"),
        ("snappy", "snappy 1.1.9 h1_0", None),  # not a package of Python
        ("numpy", "numpy 1.26.4 pypi_0 pypi", None),  # of pip: not conda's build
        ("a.b", "a_b 1.0 py_0\na-b 2.0 py_0", None),  # two that could be it
        ("numpy", "scipy 1.0 py_0", None),
    ],
)
def test_versions_of_condas_builds(snapshot: Write, name: str, listed: str, version: str | None) -> None:
    (line,) = snapshot(**{"requirements.txt": CROOT.format(name), "conda-list.txt": listed}).requirements
    assert (line.kind, line.version) == ("conda", version)
    if version:
        assert str(line.version_from).startswith("conda-list.txt:")


def test_a_version_in_the_line_and_another_in_the_list(snapshot: Write) -> None:
    wheel = "six @ file:///build/1a2b3c4d/six_1644875935023/work/py-dist/six-1.16.0-py2.py3-none-any.whl\n"
    (line,) = snapshot(**{"requirements.txt": wheel, "conda-list.txt": "six 1.16 py_0\n"}).requirements
    assert line.version == "1.16.0"
    with pytest.raises(SnapshotError) as err:
        snapshot(**{"conda-list.txt": "six 1.17 py_0\n"})
    assert str(err.value) == "requirements.txt:1: `six` is 1.16.0 here and 1.17 at conda-list.txt:1"
    assert err.value.hint == "these are of two environments: keep the files of the one that ran"


def test_two_lists_of_conda_must_agree(snapshot: Write) -> None:
    both = {
        "conda-explicit.txt": "https://c.example/noarch/six-1.16.0-py_0.conda\n",
        "conda-list.txt": "six 1.16.0 py_0\n",
    }
    found = snapshot(**both)
    assert ([p.place.file for p in found.conda], [r.reason for r in found.remarks]) == (
        ["conda-explicit.txt"], [
            "repeats conda-explicit.txt:1",
            "there is no freeze beside it: what was installed from directories and repositories is not known",
        ],
    )  # fmt: skip
    with pytest.raises(
        SnapshotError, match=r"conda-list\.txt:1: conda's `six` is 1\.15\.0=py_0 here and 1\.16\.0=py_0"
    ):
        snapshot(**{"conda-list.txt": "six 1.15.0 py_0\n"})


def test_the_page_names_every_file() -> None:
    page = (Path(__file__).parent.parent.parent / "docs" / "snapshots.md").read_text(encoding="utf-8")
    names = [name for kind in KINDS for name in (kind.name, *kind.others)]
    known = {"*.diff": "NAME.diff", "collect-env.txt": "collect_env.txt"}
    assert [name for name in names if f"`{known.get(name, name)}`" not in page] == []
