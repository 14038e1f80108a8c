"""What two snapshots state of one thing and do not state alike: each is a difference, or told as a doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprobuild.compare.environments.comparison import EnvironmentComparison
from reprobuild.report.comparison import render_comparison
from reprobuild.snapshot.importers.import_snapshot import import_into
from tests.compare.samples import compared, make_snapshot, repository

ZEROS, ONES, TWOS = "0" * 64, "1" * 64, "2" * 64
COMMIT = "a" * 40
IN_DOUBT = "no difference; in doubt: "


def of_files(folder: Path, one: dict[str, Any], other: dict[str, Any]) -> EnvironmentComparison:
    """Compare two snapshots of these files, in both orders."""
    sides = make_snapshot(folder / "one", **one), make_snapshot(folder / "other", **other)
    found, back = compared(*sides), compared(*reversed(sides))
    assert [(d.kind, d.name, d.one, d.other) for d in found.differences] == [
        (d.kind, d.name, d.other, d.one) for d in back.differences
    ]
    assert found.is_same == back.is_same
    for side in sides:
        assert compared(side, side).differences == []
    return found


def shown(found: EnvironmentComparison) -> list[tuple[str, str | None, str | None]]:
    return [(d.name, d.one, d.other) for d in found.differences]


def grave(found: EnvironmentComparison) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(item.kind, item.reason, item.names) for item in found.not_compared if item.grave]


def freezes(folder: Path, one: str, other: str) -> EnvironmentComparison:
    return of_files(
        folder,
        {"requirements_txt": f"{one}\nbar==1\n"},
        {"requirements_txt": f"{other}\nbar==1\n"},
    )


# --- hashes of a freeze ----------------------------------------------------------------------


def test_hashes_with_nothing_in_common_are_of_two_files(tmp_path: Path) -> None:
    found = freezes(
        tmp_path, f"foo==1 --hash=sha256:{ZEROS}", f"foo==1 --hash=sha256:{ONES} --hash=sha256:{TWOS}"
    )
    assert shown(found) == [("foo", f"sha256 {ZEROS}", f"sha256 {ONES} {TWOS}")]


def test_hashes_that_overlap_are_told_as_a_doubt(tmp_path: Path) -> None:
    found = freezes(
        tmp_path, f"foo==1 --hash=sha256:{ZEROS}", f"foo==1 --hash=sha256:{ONES} --hash=sha256:{ZEROS}"
    )
    assert found.differences == []
    reason = "both record several files, of which some are the same; which was installed is not recorded"
    assert grave(found) == [("python", reason, ("foo",))]
    assert render_comparison(found).startswith(IN_DOUBT)


def test_an_archive_and_the_hash_of_its_file(tmp_path: Path) -> None:
    address = "foo @ https://w.example.org/foo-1-py3-none-any.whl"
    found = freezes(tmp_path, f"{address}#sha256={ZEROS}", f"{address} --hash=sha256:{ONES}")
    assert [name for name, _, _ in shown(found)] == ["foo"]


def test_an_archive_and_two_other_hashes_of_its_file(tmp_path: Path) -> None:
    address = "foo @ https://w.example.org/foo-1-py3-none-any.whl#md5="
    found = freezes(tmp_path, f"{address}{ZEROS[:32]}", f"{address}{ONES[:32]}")
    assert shown(found) == [("foo", f"md5 {ZEROS[:32]}", f"md5 {ONES[:32]}")]


# --- channels of conda -----------------------------------------------------------------------


def conda(channel: str) -> dict[str, str]:
    """Return a list of conda of one package, whose channel is a name or an address."""
    if "://" in channel:
        address, mark, digest = channel.partition("#")
        return {"conda_explicit_txt": f"@EXPLICIT\n{address}/linux-64/mkl-2023-h1_0.conda{mark}{digest}\n"}
    head = "# packages in environment at /x:\n# Name Version Build Channel\n"
    return {"conda_list_txt": f"{head}mkl 2023 h1_0 {channel}\n"}


FORGE = "https://conda.example.org/conda-forge"


@pytest.mark.parametrize(
    ("one", "other", "differ"),
    [
        ("conda-forge", "evil", True),
        ("conda-forge", "forge", True),
        (FORGE, "https://conda.example.org/evil", True),
        (FORGE, "https://evil.example/conda-forge", True),
        (FORGE, "evil", True),
        (FORGE, "https://evil.example/x%20conda-forge", True),
        ("conda-forge", "", False),
        (FORGE, "", False),
        (FORGE, "conda-forge", False),
        ("https://repo.example.org/pkgs/main", "defaults", False),
        ("pkgs/main", "defaults", False),
        ("pkgs/main", "evil/main", True),
        ("file:///t/a/ch", "file:///t/b/ch", True),
        (f"{FORGE}#{'a' * 32}", f"https://mirror.example/forge#{'a' * 32}", False),
        (f"{FORGE}#{'a' * 32}", f"https://mirror.example/forge#{'b' * 32}", True),
        (f"{FORGE}#{'a' * 32}", f"https://mirror.example/forge#{'a' * 64}", True),
    ],
)
def test_two_channels(one: str, other: str, differ: bool, tmp_path: Path) -> None:
    found = of_files(tmp_path, conda(one), conda(other))
    assert [name for name, _, _ in shown(found)] == ["mkl"] * differ


def test_channels_of_a_whole_environment(tmp_path: Path) -> None:
    def one(*channels: str) -> dict[str, str]:
        listed = "".join(f"  - {channel}\n" for channel in channels)
        return {
            "environment_yml": f"name: x\nchannels:\n{listed}dependencies:\n  - mkl=2023=h1_0\n  - blas=1=mkl\n"
        }

    found = of_files(tmp_path / "apart", one("conda-forge"), one("evil", "evil2"))
    assert [name for name, _, _ in shown(found)] == ["blas", "mkl"]
    found = of_files(tmp_path / "overlap", one("conda-forge"), one("evil", "conda-forge"))
    assert found.differences == []
    reason = "both record several channels, of which some are the same; which brought it is not recorded"
    assert ("conda", reason, ("blas", "mkl")) in grave(found)


def test_two_files_of_the_older_form(tmp_path: Path) -> None:
    line = f"@EXPLICIT\n{FORGE}/linux-64/mkl-2023-h1_0.tar.bz2#"
    found = of_files(
        tmp_path,
        {"conda_explicit_txt": f"{line}{'a' * 32}\n"},
        {"conda_explicit_txt": f"{line}{'b' * 32}\n"},
    )
    assert shown(found) == [("mkl", f"md5 of .tar.bz2 {'a' * 32}", f"md5 of .tar.bz2 {'b' * 32}")]


# --- repositories of a freeze ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"foo @ git+https://h.example/r.git@{COMMIT}#subdirectory=a", f"foo @ git+https://h.example/r.git@{COMMIT}#subdirectory=b"),
        (f"foo @ git+https://h.example/r.git@{COMMIT}", f"foo @ git+https://h.example/r.git@{COMMIT}#subdirectory=b"),
        (f"-e git+https://h.example/r.git@{COMMIT}#egg=foo", f"foo @ git+https://h.example/r.git@{COMMIT}"),
        ("foo @ git+https://h.example/r.git@main", "foo @ git+https://evil.example/r.git@main"),
        ("foo @ svn+https://h.example/r@12", "foo @ svn+https://evil.example/r@12"),
        ("foo @ https://h.example/r.zip#subdirectory=a", "foo @ https://h.example/r.zip#subdirectory=b"),
    ],
)  # fmt: skip
def test_two_projects_of_one_repository(one: str, other: str, tmp_path: Path) -> None:
    assert [name for name, _, _ in shown(freezes(tmp_path, one, other))] == ["foo"]


def test_one_commit_in_two_places_is_one_project(tmp_path: Path) -> None:
    line = f"foo @ git+https://{{}}/r.git@{COMMIT}#subdirectory=a"
    assert shown(freezes(tmp_path, line.format("h.example"), line.format("mirror.example"))) == []


# --- markers ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marker", "python", "differ"),
    [
        ('python_version < "3"', "", True),
        ('sys_platform == "win32"', "", True),
        ('python_version < "3.10"', "3.12.1", True),
        ('python_version < "3.10"', "3.9.1", False),
        ('python_version >= "3"', "", False),
    ],
)
def test_a_line_for_other_environments_is_not_installed(
    marker: str, python: str, differ: bool, tmp_path: Path
) -> None:
    version = {"python_txt": f"Python {python}\n"} if python else {}
    one, other = "foo==1.0\nbar==1\n", f"foo==1.0 ; {marker}\nbar==1\n"
    found = of_files(tmp_path, {"requirements_txt": one, **version}, {"requirements_txt": other, **version})
    assert shown(found) == [("foo", "1.0", None)] * differ
    reasons = {item.reason: item.names for item in found.not_compared}
    line = (f"foo==1.0 ; {marker}",) if differ else None
    assert reasons.get("B has lines whose markers are for other environments") == line


def test_a_marker_that_cannot_be_decided_is_told(tmp_path: Path) -> None:
    found = freezes(tmp_path, "foo==1.0", 'foo==1.0 ; python_version < "3.10"')
    assert found.differences == []
    reason = "B does not state whether lines are for its environment, as their markers say"
    assert grave(found) == [("python", reason, ('foo==1.0 ; python_version < "3.10"',))]


# --- variables and system packages -----------------------------------------------------------


@pytest.mark.parametrize("values", [("1", "8"), ("8", "1")])
def test_a_variable_with_two_values(values: tuple[str, str], tmp_path: Path) -> None:
    other = "".join(f"OMP_NUM_THREADS={value}\n" for value in values)
    found = of_files(tmp_path, {"env_txt": "OMP_NUM_THREADS=1\n"}, {"env_txt": other})
    assert shown(found) == [("OMP_NUM_THREADS", "1", ", and again as ".join(values))]
    reason = "B has values that cannot be trusted: its name stands there more than once"
    assert ("environment", reason, ("OMP_NUM_THREADS",)) in grave(found)


def test_a_variable_twice_with_one_value_is_no_difference(tmp_path: Path) -> None:
    assert shown(of_files(tmp_path, {"env_txt": "A=1\n"}, {"env_txt": "A=1\nA=1\n"})) == []


def test_the_architecture_of_all_packages(tmp_path: Path) -> None:
    def one(architecture: str) -> dict[str, str]:
        rows = (
            f"ii  {name}  {version}  {architecture}" for name, version in (("bash", "5.2"), ("dash", "1"))
        )
        return {"apt_packages_txt": "\n".join(rows) + "\nii  tzdata  1  all\n"}

    found = of_files(tmp_path, one("amd64"), one("i386"))
    assert shown(found) == [("architecture of the packages", "amd64", "i386")]
    assert found.differences[0].group == "processor"


# --- what a snapshot does not hold -----------------------------------------------------------


def test_files_that_a_capture_left_out_are_named(tmp_path: Path) -> None:
    left = [{"path": "config.ini", "reason": "secret"}]
    capture = {"repositories": [repository("job", "1" * 40, left_out=left, left_out_count=3)]}
    sides = [make_snapshot(tmp_path / name, capture, env_txt="A=1\n") for name in ("one", "other")]
    found = compared(*sides)
    assert found.is_same
    names = ("job/config.ini", "job: 2 more, which are not named")
    assert grave(found) == [
        ("job", f"{called} leaves the content of files out", names) for called in ("A", "B")
    ]
    text = render_comparison(found)
    assert text.splitlines()[0] == f"{IN_DOUBT}2 of the things that were not compared, see below"
    assert (
        "  in doubt: the job's own repositories: A leaves the content of files out (2: job/config.ini, "
        in text
    )


@pytest.mark.parametrize(
    ("one", "other", "doubt"),
    [
        ("foo==1.0\n???x\n", "foo==1.0\n???y\n", ("requirements.txt:2",)),
        ("foo==1.0\n???x\n", "foo==1.0\n???x\n", None),
        (f"foo==1.0\n???{'x' * 5000}\n", f"foo==1.0\n???{'x' * 4999}y\n", ("requirements.txt:2",)),
    ],
)
def test_lines_that_are_not_understood(
    one: str, other: str, doubt: tuple[str, ...] | None, tmp_path: Path
) -> None:
    found = of_files(tmp_path, {"requirements_txt": one}, {"requirements_txt": other})
    reasons = [f"{called} has lines or files that are not understood" for called in ("A", "B")]
    assert grave(found) == ([("file", reason, doubt) for reason in reasons] if doubt else [])


def test_a_file_of_no_known_kind_may_hold_a_difference(tmp_path: Path) -> None:
    found = of_files(
        tmp_path, {"env_txt": "A=1\n", "poetry_lock": "a"}, {"env_txt": "A=1\n", "poetry_lock": "b"}
    )
    assert [kind for kind, _, _ in grave(found)] == ["file", "file"]
    assert "files of the snapshot: A has lines or files that are not understood (1: poetry.lock:1)" in (
        render_comparison(found)
    )


_ENVIRONMENT = """\
channels: [{channel}]
dependencies:
  - {request}
  - pip:
      - six=={six}
"""


@pytest.mark.parametrize(
    ("other", "differences", "doubts"),
    [
        ({}, [], ()),
        ({"six": "1.15.0"}, [("six", "1.16.0", "1.15.0")], ()),
        ({"channel": "bioconda"}, [], ("environment.yml: channels",)),
        ({"request": "numpy=1.26"}, [], ("environment.yml:3",)),
    ],
)
def test_environment_files_are_compared_without_a_freeze(
    other: dict[str, str], differences: list[Any], doubts: tuple[str, ...], tmp_path: Path
) -> None:
    values = {"channel": "conda-forge", "request": "numpy", "six": "1.16.0"}
    files = [_ENVIRONMENT.format_map(side) for side in (values, values | other)]
    found = of_files(tmp_path, *({"environment_yml": text} for text in files))
    assert shown(found) == differences
    assert [names for _, _, names in grave(found)] == ([doubts] * 2 if doubts else [])


@pytest.mark.parametrize(
    ("one", "other", "doubts"),
    [
        ('[a=1=0]', '[a=1=0, "@b==1", {pipx: [c==2]}]', [("environment.yml:1",)]),
        ('[a=1=0, "@b==1"]', '[a=1=0, "@b==2"]', [("environment.yml:1",)] * 2),
        ('[a=1=0, "@b==1"]', '[a=1=0, "@b==1"]', []),
        ("[a=1=0, b>=1, pip]\nchannels: [c]", "[a=1=0, b>=2, pip]\nchannels: [c]", [("environment.yml:1",)] * 2),
        ("[python=3.11, b>=1]\nchannels: [c]", "[python=3.11, b>=2]\nchannels: [c]", [("environment.yml:1",)] * 2),
        ("[a=1=0]\nvariables: {LEVEL: 1}", "[a=1=0]\nvariables: {LEVEL: 8}", [("environment.yml: variables",)] * 2),
        ("[a=1=0]\nvariables: {LEVEL: 1}", "[a=1=0]", [("environment.yml: variables",)]),
        ("[a=1=0]\nvariables: {LEVEL: 1}", "[a=1=0]\nvariables: {LEVEL: 1}", []),
    ],
)  # fmt: skip
def test_items_of_an_environment_file_on_one_line(
    one: str, other: str, doubts: list[tuple[str, ...]], tmp_path: Path
) -> None:
    found = of_files(tmp_path, *({"environment_yml": f"dependencies: {text}\n"} for text in (one, other)))
    assert shown(found) == []
    assert [names for _, _, names in grave(found)] == doubts


def test_variables_that_an_import_left_out(tmp_path: Path) -> None:
    text = "dependencies: [a=1=0]\nvariables: {{LEVEL: {}}}\n"
    for level in ("1", "8"):
        folder = make_snapshot(tmp_path / level, environment_yml=text.format(level))
        import_into(folder / "environment.yml", tmp_path / f"of-{level}")
    found = compared(tmp_path / "of-1", tmp_path / "of-8")
    assert found.is_same
    assert [names for _, _, names in grave(found)] == [("environment.yml: variables",)] * 2


def test_names_without_a_version(tmp_path: Path) -> None:
    found = freezes(tmp_path, "foo>=1", "foo>=2")
    assert grave(found) == [
        ("python", "A tells no version", ("foo>=1",)), ("python", "B tells no version", ("foo>=2",)),
    ]  # fmt: skip


def test_another_index_may_have_other_files(tmp_path: Path) -> None:
    option = "--extra-index-url https://evil.example/simple"
    found = freezes(tmp_path, "foo==1", f"{option}\nfoo==1")
    assert grave(found) == [("python", "B has options of pip, which say where packages come from", (option,))]
    assert render_comparison(found).startswith(IN_DOUBT)


def test_doubts_that_both_sides_share_do_not_hide_a_difference(tmp_path: Path) -> None:
    found = freezes(tmp_path, "foo>=1", "foo>=1")
    assert grave(found) == []
    assert render_comparison(found).splitlines()[0] == "no difference"


# --- reports ---------------------------------------------------------------------------------


def test_what_only_a_report_tells_is_compared(tmp_path: Path) -> None:
    def one(torch: str, libc: str) -> dict[str, str]:
        return {"collect_env_txt": f"PyTorch version: {torch}\nOS: Ubuntu 22.04\nLibc version: {libc}\n"}

    found = of_files(tmp_path, one("2.3.1", "glibc-2.35"), one("2.3.0", "glibc-2.31"))
    assert sorted(shown(found)) == [
        ("libc of the report", "glibc-2.35", "glibc-2.31"), ("torch of the report", "2.3.1", "2.3.0"),
    ]  # fmt: skip


def test_several_lines_of_one_name_without_a_version(tmp_path: Path) -> None:
    found = freezes(tmp_path, "foo>=1", "foo>=1\nfoo<2")
    assert grave(found) == [("python", "B tells no version", ("foo<2",))]


def test_extras_of_a_pin(tmp_path: Path) -> None:
    found = freezes(tmp_path / "different", "foo==1", "foo[B_b,a]==1")
    reason = "B has lines with extras, which ask for more distributions"
    assert grave(found) == [("python", reason, ("foo[a,b-b]",))]
    assert grave(freezes(tmp_path / "same", "foo[a]==1", "Foo[A]==1.0")) == []
