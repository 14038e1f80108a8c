"""conda's lists and exports, and the YAML that conda and people write."""

from __future__ import annotations

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.model import CapturedCondaPackage
from reprobuild.snapshot.parsers import conda_list, environment_yml
from reprobuild.snapshot.parsers.conda_list import VARIABLES
from reprobuild_portable import secrets

MD5, SHA256 = "0123456789abcdef" * 2, "0123456789abcdef" * 4
PLACE = "https://conda.example/forge/linux-64/six-1.16.0-pyh6c4a22f_0.conda"
YAML_HINT = "write it again with `conda env export`, or take it out of the directory"


def one(line: str) -> CapturedCondaPackage:
    (found,), remarks = conda_list.parse(line.encode())
    assert remarks == ()
    return found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (PLACE, ("six", "1.16.0", "pyh6c4a22f_0", "https://conda.example/forge", None, None)),
        (f"{PLACE}#{MD5}", ("six", "1.16.0", "pyh6c4a22f_0", "https://conda.example/forge", MD5, None)),
        (f"{PLACE}#sha256:{SHA256}", ("six", "1.16.0", "pyh6c4a22f_0", "https://conda.example/forge", None, SHA256)),
        (f"{PLACE}#{SHA256.upper()}", ("six", "1.16.0", "pyh6c4a22f_0", "https://conda.example/forge", None, SHA256)),
        (f"{PLACE}#cut", ("six", "1.16.0", "pyh6c4a22f_0", "https://conda.example/forge", None, None)),
        ("file:///opt/pkgs/x-1-0.tar.bz2", ("x", "1", "0", None, None, None)),
        ("https://c.example/linux-64/a-b-1!2.0-py_0.conda", ("a-b", "1!2.0", "py_0", "https://c.example", None, None)),
        (f"zlib-1.2.13-h1_5.conda#{MD5}", ("zlib", "1.2.13", "h1_5", None, MD5, None)),
        ("_x-0.1-main.json", ("_x", "0.1", "main", None, None, None)),
        ("six     1.16.0    pyhd3eb1b0_1  ", ("six", "1.16.0", "pyhd3eb1b0_1", None, None, None)),
        ("six     1.16.0    py_0   conda-forge", ("six", "1.16.0", "py_0", "conda-forge", None, None)),
        ("six     1.16.0    py_0   https://c.example/forge", ("six", "1.16.0", "py_0", "https://c.example/forge",
                                                              None, None)),
        ("torch   2.3.1+cu118   pypi_0   pypi", ("torch", "2.3.1+cu118", None, "pypi", None, None)),
        ("odd     0.1.1-2209072238   pypi_0   pypi", ("odd", "0.1.1-2209072238", None, "pypi", None, None)),
        ("Keras   2.2.4    <pip>", ("Keras", "2.2.4", None, "pypi", None, None)),
        ("jpeg    9d   h516909a_0", ("jpeg", "9d", "h516909a_0", None, None, None)),
        ("six=1.16.0=py_0", ("six", "1.16.0", "py_0", None, None, None)),
        ("six=1.16.0", ("six", "1.16.0", None, None, None, None)),
        ("_openmp_mutex==4.5", ("_openmp_mutex", "4.5", None, None, None, None)),
        ("odd=0.1-2=pypi_0", ("odd", "0.1-2", None, "pypi", None, None)),
        ("json-c-0.13", ("json-c", "0.13", None, None, None, None)),
    ],
)  # fmt: skip
def test_forms(line: str, expected: tuple[str | None, ...]) -> None:
    found = one(line)
    assert (found.name, found.version, found.build, found.channel, found.md5, found.sha256) == expected


@pytest.mark.parametrize(
    ("line", "understood", "reason"),
    [
        ("# packages in environment at /opt/env:", True, "a header"),
        ('List of packages in environment: "/opt/env"', True, "a header"),
        ("# Name                    Version                   Build  Channel", True, "a header"),
        ("  Name   Version  Build  Channel", True, "a header"),
        ("─────────────────────", True, "a header"),
        ("@EXPLICIT", True, "the mark of an explicit list"),
        ("# platform: linux-64", True, "a comment"),
        ("(base) $ conda list", True, "a shell prompt"),
        ("(env) UNIX conda list        ", True, "the command that was typed"),
        ("WARNING conda.core: x", True, "a warning of conda"),
        ("EnvironmentLocationNotFound: Not a conda environment: /x", False, "the capture command failed"),
        ("CondaError: x", False, "the capture command failed"),
        ("bash: conda: command not found", False, "the capture command failed"),
        ("IT", False, "not a line that conda writes"),
        ("this is prose", False, "not a line that conda writes"),
        ("https://conda.example/linux-64/page.html", False, "not a line that conda writes"),
        ("x" * 5000, False, "too long for a line of conda's"),
    ],
)
def test_what_is_no_package(line: str, understood: bool, reason: str) -> None:
    found, (remark,) = conda_list.parse(line.encode())
    assert (found, remark.understood) == ((), understood)
    assert remark.reason == reason


def test_a_list_that_was_commented_out() -> None:
    head = "# (e) C:\\x>conda list\n# # packages in environment at C:\\e:\n# #\n# # Name  Version  Build  Channel\n"
    text = head + "# a  1  py_0\n#\n"
    (found,), remarks = conda_list.parse(text.encode())
    assert (found.name, found.place.line, len(remarks)) == ("a", 5, 5)
    assert all(remark.understood for remark in remarks)


def test_credentials_of_channels_are_cut() -> None:
    secret = "t0ken-" + "0123456789"
    (found,), (remark,) = conda_list.parse(
        f"https://u:{secret}@c.example/t/{secret}/linux-64/a-1-0.conda".encode()
    )
    assert secret not in str(found) + str(remark)
    assert (found.url, remark.reason) == (
        "https://c.example/linux-64/a-1-0.conda",
        "the address held a credential, removed",
    )
    (found,), _ = conda_list.parse(f"a  1  py_0  https://u:{secret}@c.example/forge".encode())
    assert (found.channel, secret in found.text) == ("https://c.example/forge", False)


def test_two_environments_in_one_list() -> None:
    with pytest.raises(SnapshotError) as err:
        conda_list.parse(b"a  1.0  py_0\na  1.1  py_0\n", "conda-list.txt")
    assert str(err.value) == "conda-list.txt:2: conda's `a` is 1.1=py_0 here and 1.0=py_0 at conda-list.txt:1"
    assert err.value.hint == "these are of two environments: keep the list of the one that ran"
    with pytest.raises(SnapshotError, match=r"1\.0=py_1 here and 1\.0=py_0"):
        conda_list.parse(b"a  1.0  py_0\na  1.0  py_1\n")


def test_one_file_with_two_hashes() -> None:
    url = "https://c.example/linux-64/a-1-0.conda"
    for name, first, second in (("md5", "#" + "0" * 32, "#" + "1" * 32),
                                ("sha256", "#sha256:" + "0" * 64, "#sha256:" + "1" * 64)):  # fmt: skip
        with pytest.raises(SnapshotError) as err:
            conda_list.parse(f"@EXPLICIT\n{url}{first}\n{url}{second}\n".encode(), "conda-explicit.txt")
        assert str(err.value) == (
            f"conda-explicit.txt:3: the {name} of conda's `a` is another one than at conda-explicit.txt:2"
        )
        assert err.value.hint == "keep the line of the file that was installed"
        corrected, _ = conda_list.parse(f"@EXPLICIT\n{url}{second}\n".encode())
        assert getattr(corrected[0], name) == second.removeprefix("#").removeprefix("sha256:")
    (package,), (remark,) = conda_list.parse(f"{url}{first}\n{url}{first}\n".encode())
    assert (package.sha256, remark.reason) == ("0" * 64, "repeats conda-list.txt:1")


def test_a_package_twice() -> None:
    found, remarks = conda_list.parse(b"a=1.0\na=1.0=py_0\na  1.2  pypi_0  pypi\n")
    assert [(p.version, p.channel) for p in found] == [("1.0", None), ("1.2", "pypi")]
    assert [remark.reason for remark in remarks] == ["repeats conda-list.txt:1"]


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (b"@EXPLICIT\n", True),
        (b"# x\r\n\r\n@EXPLICIT\r\n", True),
        (b"{}", False),
        (b"", False),
        (b"a\n@EXPLICIT", False),
    ],
)
def test_what_is_an_explicit_list(data: bytes, is_one: bool) -> None:
    assert conda_list.is_explicit(data) is is_one


EXPORT = """name: e
channels:
  - pytorch
  - defaults
dependencies:
  - ca-certificates=2024.7.2
  - conda-forge::openssl=3.0.14
  - python=3.11.5
  - pip:
      - torch==2.3.1+cu118
      - numpy[extra]===1.26.4
      - -e .
      - git+https://u:hunter2@git.example/r
prefix: /opt/e
variables:
  TOKEN: hunter2
"""


def test_an_export_without_builds() -> None:
    found, remarks = environment_yml.parse(EXPORT.encode())
    assert [(p.name, p.version, p.build, p.channel, p.place.line) for p in found] == [
        ("ca-certificates", "2024.7.2", None, None, 6), ("openssl", "3.0.14", None, "conda-forge", 7),
        ("python", "3.11.5", None, None, 8), ("torch", "2.3.1+cu118", None, "pypi", 10),
    ]  # fmt: skip
    assert [remark.reason for remark in remarks if remark.place.line == 11] == [
        "a line for pip with a marker or extras: the freeze tells what was installed"
    ]
    assert all(remark.understood for remark in remarks)
    lines = {remark.place.line for remark in remarks} | {package.place.line for package in found}
    assert lines == set(range(1, 17))
    assert "hunter2" not in str(remarks)


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("dependencies: [python=3.11, numpy=1.26, pip]", []),  # by hand: 1.26 is any 1.26.x
        ("dependencies: [python=3.11, numpy=1.26.4=py311_0]", ["1.26.4"]),
        ("dependencies: [ca-certificates=1, openssl=1, python=3.11]", []),  # `--from-history`
        ("dependencies: [ca-certificates=1, openssl=3.1, zlib=1.2]", ["1", "3.1", "1.2"]),
        ("dependencies: ['python>=3.8', numpy]", []),
    ],
)
def test_only_what_was_installed_is_a_version(text: str, versions: list[str]) -> None:
    found, remarks = environment_yml.parse(text.encode())
    assert [package.version for package in found] == versions
    assert all(remark.understood for remark in remarks)


def test_numbers_stay_what_is_written() -> None:
    found, _ = environment_yml.parse(b"dependencies:\n- x=3.10=0\n- y=1e5=0\n")
    assert [package.version for package in found] == ["3.10", "1e5"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"a: &x [1]\nb: *x\n", "environment.yml:2: not an environment: an alias"),
        (b"dependencies: " + b"[" * 100_000, "environment.yml:1: not an environment: nested too deep"),
        (b"a: b: c\n", "environment.yml:1: not an environment: mapping values are not allowed here"),
        (b"- a\n---\n- b\n", "environment.yml:2: not an environment: but found another document"),
        (b"a: \x01\n", "environment.yml: not YAML: unacceptable character"),
        (b"# x\n" * 300_000, "environment.yml: 1200000 bytes are too many for an environment"),
    ],
)  # fmt: skip
def test_what_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(SnapshotError) as err:
        environment_yml.parse(data)
    assert str(err.value).startswith(said)
    assert err.value.hint == YAML_HINT


def test_other_yaml_is_listed() -> None:
    found, remarks = environment_yml.parse(b"---\nservices:\n  - x\n# c\n")
    assert found == ()
    assert [remark.understood for remark in remarks] == [True, False, False, True]
    assert environment_yml.parse(b"\n")[1][0].reason.startswith("the file is empty")
    secret = "hf_" + "abcdefGHIJ" * 3 + "klmn"
    found, remarks = environment_yml.parse(f"dependencies:\n  - {secret}=1=0\n".encode())
    assert (found, secret in str(remarks)) == ((), False)


def test_channels_are_kept_once_for_all_packages() -> None:
    found, _ = environment_yml.parse(b"channels: [a, b, a, nodefaults]\ndependencies: [c=1=0, d=1=0]\n")
    assert [package.among for package in found] == [("a", "b"), ("a", "b")]
    assert found[0].among is found[1].among
    assert environment_yml.read_requests(b"channels: [a, a]\ndependencies: [c]\n", "x").conda[0].channels == (
        "a",
    )
    found, _ = environment_yml.parse(b"channels: [nodefaults]\ndependencies: [c=1=0]\n")
    assert found[0].among == ()


@pytest.mark.parametrize("names", [[f"c{at}" for at in range(101)], ["x" * 2000, "y" * 2001]])
def test_too_many_channels(names: list[str]) -> None:
    def content(names: list[str]) -> bytes:
        return "".join(
            ["channels:\n", *(f"- {name}\n" for name in names), "dependencies: [a=1=0]\n"]
        ).encode()

    with pytest.raises(SnapshotError) as err:
        environment_yml.parse(content(names))
    assert str(err.value) == f"environment.yml: {len(names)} channels are too many for an environment"
    assert err.value.hint == YAML_HINT
    assert environment_yml.parse(content(names[1:]))[0][0].among == tuple(names[1:])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('dependencies: [a=1=0, "@b==1", {pipx: [c==2]}]', ['"@b==1"', "pipx: [c==2]"]),
        ("dependencies: [a=1=0, [b], {}, {pip: c}]", ["[b]", "{}", "pip: c"]),
        ("dependencies: [a=1=0, {pip: [c==1, ./x, [d]]}]", ["./x", "[d]"]),
        ("{dependencies: [a=1=0], other: [b==1]}", ["other: [b==1]"]),
        ("{dependencies: [a=1=0], channels: [b, [c]]}", ["[c]"]),
        ("channels: b", ["b"]),
        ("dependencies: [\n  '@b', a=1=0, {x: [\n    c,\n    d]}, e=1=0]", ["c,", "'@b'", "x: [ c, d]"]),
        ("channels:\ndependencies: [a=1=0]", []),
    ],
)
def test_parts_of_known_lines_that_give_nothing(text: str, parts: list[str]) -> None:
    _, remarks = environment_yml.parse(text.encode())
    unread = [remark for remark in remarks if not remark.understood]
    assert [" ".join(remark.text.replace("\\n", " ").split()) for remark in unread] == parts
    assert {remark.reason for remark in unread} <= {"not what conda writes"}


def test_a_part_beside_a_secret_is_not_shown() -> None:
    secret = "hf_" + "abcdefGHIJ" * 3 + "klmn"
    _, remarks = environment_yml.parse(f'dependencies: [a=1=0, "@b", {secret}=1=0]'.encode())
    assert secret not in str(remarks)
    assert [remark.text for remark in remarks if remark.reason == "not what conda writes"] == ["…"]


def test_values_of_variables_are_not_kept() -> None:
    found, remarks = environment_yml.parse(b"{dependencies: [a=1=0, b], variables: {LEVEL: hunter2}, x: 1}\n")
    assert [package.text for package in found] == ["a=1=0"]
    assert "hunter2" not in str((found, remarks))
    assert [remark.text for remark in remarks if remark.reason == VARIABLES] == [""]
    found, _ = environment_yml.parse(
        b"{dependencies: [\na=1=0], variables: {DB_PASSWORD: correcthorsebattery}}\n"
    )
    assert [package.text for package in found] == ["a=1=0"]


def count_characters(monkeypatch: pytest.MonkeyPatch, content: str) -> int:
    """Return the number of characters that are searched for secrets while a file is read."""
    lengths: list[int] = []
    searches = {"secret_value": secrets.secret_value, "redact": secrets.redact}
    with monkeypatch.context() as patched:
        for name, search in searches.items():
            patched.setattr(
                secrets, name, lambda row, search=search: (lengths.append(len(row)), search(row))[1]
            )
        environment_yml.parse(content.encode())
    return sum(lengths)


@pytest.mark.parametrize("build", ["=0", ""])
def test_items_in_flow_style_are_searched_once(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = (
        count_characters(
            monkeypatch, f"dependencies: [{','.join(f'p{at}=1{build}' for at in range(count))}]\n"
        )
        for count in (100, 400)
    )
    assert many < 6 * few


def test_items_in_flow_style_have_their_own_text() -> None:
    found, _ = environment_yml.parse(b"dependencies: [a=1=0, 'b=2=0', {pip: [c==3]}]\n")
    assert [package.text for package in found] == ["a=1=0", "'b=2=0'", "c==3"]
    found, _ = environment_yml.parse(b"dependencies:\n- a=1=0  # why\n- pip: [c==3]\n")
    assert [package.text for package in found] == ["- a=1=0  # why", "c==3"]


def test_lines_are_those_that_editors_show() -> None:
    """YAML also ends lines at U+2028, U+0085 and a lone carriage return."""
    found, remarks = environment_yml.parse(
        "name: e\u2028\u2028\n#\x85\u2028\ndependencies:\n- a=1=0\r\nprefix: /e\r".encode()
    )
    assert [(package.name, package.place.line) for package in found] == [("a", 4)]
    assert {remark.place.line for remark in remarks} == {1, 2, 3, 5}
