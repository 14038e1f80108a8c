# ruff: noqa: E501 (a row of a table stays on one line)

from __future__ import annotations

import sys
from types import FrameType

import msgspec
import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.model import Requirement
from reprobuild.snapshot.parsers import pip_freeze
from tests.snapshot.samples import SECRETS, covered, written

SHA = "0123456789abcdef0123456789abcdef01234567"
HASH = "ab" * 32
OTHER = "cd" * 32


def one(*rows: str) -> Requirement:
    requirements, _ = pip_freeze.parse("\n".join(rows).encode())
    assert len(requirements) == 1
    return requirements[0]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("six==1.16.0", {"kind": "index", "name": "six", "version": "1.16.0"}),
        ("    py==1.11.0", {"kind": "index", "name": "py", "version": "1.11.0"}),
        ("lazr.uri==1.0.6", {"name": "lazr.uri", "version": "1.0.6"}),
        ("distro-info===1.1ubuntu1", {"kind": "index", "version": "1.1ubuntu1"}),
        ("ufw==0.36.1-1", {"kind": "index", "version": "0.36.1-1"}),
        ("python-apt==2.7.7+ubuntu5", {"version": "2.7.7+ubuntu5"}),
        ("spam==1!7.4.1", {"version": "1!7.4.1"}),
        ("torch==2.9.0+cu130", {"version": "2.9.0+cu130"}),
        ("click==8.1.7  # the command line", {"name": "click", "version": "8.1.7"}),
        ("env", {"kind": "index", "name": "env", "version": None}),
        ("printenv", {"kind": "index", "name": "printenv", "version": None}),
        ("a[C_c, b]==1.0", {"name": "a", "version": "1.0", "extras": ("b", "c-c")}),
        ("a[b]>=1", {"name": "a", "version": None, "extras": ("b",)}),
        ("a[b] @ https://example.org/a-1.0.zip", {"kind": "archive", "version": "1.0", "extras": ("b",)}),
        (
            "a[b,c]==1.0 ; python_version < '3.11'",
            {"name": "a", "version": "1.0", "marker": 'python_version < "3.11"', "text": "a[b,c]==1.0 ; python_version < '3.11'"},
        ),
        ("a>=1; os_name == 'nt'", {"version": None, "marker": 'os_name == "nt"'}),
        ("m @ https://example.org/m-1.0.zip ; os_name == 'nt'", {"kind": "archive", "marker": 'os_name == "nt"'}),
        (f"a==1.0 --hash=sha256:{HASH.upper()} --hash sha256:{OTHER}", {"text": "a==1.0", "hashes": (HASH, OTHER)}),
        (f"m @ https://example.org/m-1.0.zip --hash=sha256:{HASH}", {"kind": "archive", "sha256": HASH}),
        ("a==1.0 \\", {"name": "a", "version": "1.0"}),
        ("regex", {"kind": "index", "name": "regex", "version": None}),
        ("regex>=2020", {"kind": "index", "name": "regex", "version": None, "text": "regex>=2020"}),
        ("regex==2020.*", {"name": "regex", "version": None}),
        ("-umpy==1.24.0", {"kind": "leftover", "name": "-umpy", "version": "1.24.0"}),
        (
            "WARNING: Could not generate requirement for distribution -umpy 1.24.0 (/x): Parse error",
            {"kind": "leftover", "name": "-umpy", "version": "1.24.0"},
        ),
        ("-eras==2.0", {"kind": "leftover", "name": "-eras", "version": "2.0"}),
        ("~ip==23.0", {"kind": "leftover", "name": "~ip", "version": "23.0"}),
        (
            f"m @ https://example.org/w/m-1.0%2Bcu113-py3-none-any.whl#sha256={HASH}",
            {"kind": "archive", "version": "1.0+cu113", "sha256": HASH,
             "url": "https://example.org/w/m-1.0%2Bcu113-py3-none-any.whl"},
        ),
        ("m @ https://example.org/m-1.0+c1-py3-none-any.whl", {"version": "1.0+c1", "sha256": None}),
        ("m @ https://example.org/archive/main.zip", {"kind": "archive", "version": None}),
        ("m @ file:///tmp/m-1.0.tar.gz", {"kind": "archive", "version": "1.0", "path": "/tmp/m-1.0.tar.gz", "url": None}),
        (f"m @ file:///C:/w/m-1.0-py3-none-any.whl#sha256={HASH}", {"path": "C:/w/m-1.0-py3-none-any.whl", "sha256": HASH}),
        ("m @ file:///croot/m_1676588132104/work", {"kind": "conda", "version": None, "path": "/croot/m_1676588132104/work"}),
        ("m @ file:///build/1a2b3c4d/m_1644481695334/work/dist", {"kind": "conda"}),
        ("m @ file:///C:/ci/m_1600290345082/work", {"kind": "conda"}),
        ("m @ file:///home/me/src/ci/m_1611921544520/work", {"kind": "conda"}),
        ("m @ file:///tmp/build/8/m_1609355006118/work/m-0.7.0-py3-none-any.whl", {"kind": "conda", "version": "0.7.0"}),
        ("torch @ file:///opt/src/torch", {"kind": "directory", "path": "/opt/src/torch", "version": None}),
        (f"m @ git+https://example.org/o/m@{SHA}", {"kind": "vcs", "url": "git+https://example.org/o/m", "commit": SHA}),
        (
            f"m @ git+https://example.org/o/m/@{SHA}#subdirectory=sub/m",
            {"kind": "vcs", "url": "git+https://example.org/o/m", "commit": SHA, "subdirectory": "sub/m"},
        ),
        ("m @ git+https://example.org/o/m@main", {"url": "git+https://example.org/o/m@main", "commit": None}),
        (
            f"-e git+https://example.org/o/Repo.git@{SHA}#egg=other&subdirectory=python",
            {"kind": "editable", "name": "other", "commit": SHA, "subdirectory": "python",
             "url": "git+https://example.org/o/Repo.git"},
        ),
        (f"-e git+ssh://git@example.org/o/r.git@{SHA}#egg=R", {"name": "R", "url": "git+ssh://git@example.org/o/r.git"}),
        ("-e file:///home/me/Thing", {"kind": "editable", "name": "Thing", "path": "/home/me/Thing"}),
        ("-e c:\\users\\me\\the_thing", {"kind": "editable", "name": "the_thing", "path": "c:\\users\\me\\the_thing"}),
    ],
)  # fmt: skip
def test_forms(line: str, fields: dict[str, object]) -> None:
    found = msgspec.to_builtins(one(line))
    assert {key: found[key] for key in fields} == fields


@pytest.mark.parametrize(
    "comment",
    [
        "# Editable install with no version control (thing==0.0.1)",
        "# Editable Git install with no remote (thing==0.0.1)",
        "# Editable install with no version control (thing===0.0.1) ",
        "# Editable Git install (thing==0.0.1) with either a deleted local remote or invalid URI:\n# 'x'",
    ],
)
def test_pips_comment_names_the_editable_below(comment: str) -> None:
    found = one(comment, "-e /home/me/folder")
    assert (found.kind, found.name, found.version, found.path) == (
        "editable",
        "thing",
        "0.0.1",
        "/home/me/folder",
    )


def test_comments_whose_path_was_lost_still_count() -> None:
    found, remarks = pip_freeze.parse(
        b"# Editable install with no version control (a==1)\n# Editable Git install with no remote (b==2)\nc==3\n"
    )
    assert [(r.name, r.version, r.kind, r.path) for r in found[:2]] == [
        ("a", "1", "editable", None),
        ("b", "2", "editable", None),
    ]
    assert not remarks


@pytest.mark.parametrize(
    ("line", "reason", "understood"),
    [
        ("# a comment", "comment", True),
        ("    # via requests", "pip-compile", True),
        ("## The following requirements were added by pip freeze:", "divider", True),
        ("## FIXME: could not find svn URL in dependency_links for this package:", "could not tell", False),
        ("## !! Could not determine repository location", "could not tell", False),
        ("# thing==2.9.0", "commented out", False),
        ("# # Editable install with no version control (s==0.1)", "commented out", False),
        ("--find-links https://example.org/whl/cu121", "an option", True),
        ("--hash=sha256:" + HASH, "a hash of no requirement that was read", True),
        ("--hash=sha512:" + HASH * 2, "no sha256", False),
        ("-r base.txt", "it names another list, whose lines are not read", False),
        ("-rbase", "it names another list", False),
        ("--requirement=base.txt  # the rest", "it names another list", False),
        ("--requirem base.txt", "it names another list", False),
        ("-c limits.txt", "it names constraints, which are not read", False),
        ("-climits", "it names constraints", False),
        ("--constraint limits.txt", "it names constraints", False),
        ("--require-hashes", "an option", True),
        ("printenv | sort", "the command that was typed", True),
        ("pip freeze", "the command that was typed", True),
        ("a==1.0 ; no_such_thing == '1'", "for which environments", False),
        ("a==1.0 ; " + "(" * 900, "for which environments", False),
        ("m @ https://example.org/m-1.0.zip ; python_version", "for which environments", False),
        ("a>=1 ; " + "(" * 900, "not a form", False),
        ("WARNING: Could not generate requirement for distribution tool 1.0 (/x): Parse error", "left tool 1.0", False),
        ("WARNING: Could not generate requirement for distribution -oops", "a warning", True),
        ("WARNING: Ignoring invalid distribution -umpy (/x/site-packages)", "a package may be missing", False),
        ("WARNING: Ignoring invalid distribution ~", "a warning", True),
        ("WARNING: Skipping /x/lib/python3.11/site-packages/idna-3.7.dist-info due to invalid metadata entry 'name'",
         "pip left idna 3.7 out of the freeze: its metadata is damaged", False),
        ("WARNING: Skipping C:\\x\\broken.egg-info due to invalid metadata entry 'version'", "pip left broken out", False),
        ("WARNING: Skipping page https://example.org/x", "a warning", True),
        ("ERROR: Exception:", "incomplete", False),
        ("$ pip freeze -r requirements.txt", "prompt", True),
        ("--- ALL THE LIBRARIES ---", "not a form", False),
        ("name=1.0=py39_0", "conda list", False),
        ("_openmp_mutex==4.5", "package of conda", False),
        ("curl;rm -rf /", "not a form", False),
        ("curl==1.0;rm -rf /", None, True),
        ("a==1.0 && rm -rf /", "not a form", False),
        ("$(reboot)==1.0", "not a form", False),
        ("m @ file:///a/../b;x", None, True),
        (f"m @ git+https://example.org/o/m@{SHA}#subdirectory=../..", "not a form", False),
        ("-e git+git@example.org:o/r.git", "not a form", False),
        ("x" * 5000, "too long", False),
    ],
)  # fmt: skip
def test_lines_that_pin_nothing(line: str, reason: str | None, understood: bool) -> None:
    found, remarks = pip_freeze.parse(line.encode())
    if reason is None:  # a marker or a path: never a shell line, because the name and version are plain
        assert all(r.name in ("curl", "m") for r in found)
        return
    assert not found
    assert reason in remarks[0].reason
    assert remarks[0].understood is understood


def test_hashes_below_a_line_are_its_own() -> None:
    """As `uv export` and `pip-compile --generate-hashes` write them."""
    data = f"""
a==1.0 ; sys_platform == 'linux' \\
    --hash=sha256:{HASH} \\
    --hash=sha256:{OTHER}
    # via b
m @ https://example.org/m-1.0-py3-none-any.whl \\
    --hash=sha256:{HASH}
n @ https://example.org/n-1.0-py3-none-any.whl#sha256={OTHER} \\
    --hash=sha256:{HASH}
odd=1 \\
    --hash=sha256:{"ef" * 32}
b==1.0
-e /home/me/thing --hash=sha256:{HASH}
c==1.0 \\
    --hash=md5:{HASH[:32]}
""".encode()
    found, remarks = pip_freeze.parse(data)
    facts = [(one.name, one.sha256, one.hashes or None) for one in found]
    assert facts == [
        ("a", None, (HASH, OTHER)), ("m", HASH, None), ("n", OTHER, (HASH,)), ("b", None, None), ("thing", None, None),
        ("c", None, None),
    ]  # fmt: skip
    assert covered(found, remarks) == written(data)
    assert [one.place.line for one in remarks if not one.understood] == [10, 13, 15]
    assert b"hashes" not in msgspec.json.encode(found[-1])  # so that digests of older snapshots stay


@pytest.mark.parametrize("place", ["https://example.org", "file:///sw"])
def test_every_hash_of_an_address_is_kept_or_told(place: str) -> None:
    md5, sha512 = HASH[:32], HASH * 2
    data = f"""
a @ {place}/a-1.0-py3-none-any.whl#md5={md5.upper()}&sha512={sha512}&subdirectory=x
b @ {place}/b-1.0.zip#sha256={HASH.upper()}
c @ {place}/c-1.0.zip#md5={HASH}&sha256={md5}
""".encode()
    found, remarks = pip_freeze.parse(data)
    assert [(one.sha256, one.digests or None) for one in found] == [
        (None, (f"md5:{md5}", f"sha512:{sha512}")), (HASH, None), (None, None),
    ]  # fmt: skip
    assert [(one.place.line, one.understood, one.reason) for one in remarks] == [
        (4, False, "its address states no valid md5 and no valid sha256: not compared")
    ]
    assert b"digests" not in msgspec.json.encode(found[1])  # so that digests of older snapshots stay


def test_one_name_for_several_environments() -> None:
    linux, darwin = "a==1.0+cpu ; sys_platform == 'linux'", "a==1.0 ; sys_platform == 'darwin'"
    found, remarks = pip_freeze.parse(f"{linux}\n{darwin}\na\n{linux} --hash=sha256:{HASH}".encode())
    # The third line counts where neither of the pins does.
    facts = [(one.version, one.hashes or None) for one in found]
    assert facts == [("1.0+cpu", (HASH,)), ("1.0", None), (None, None)]
    assert [one.place.line for one in remarks] == [4]
    with pytest.raises(SnapshotError, match="pinned again"):
        pip_freeze.parse(f'{linux}\na==2.0 ;sys_platform=="linux"'.encode())


def test_an_empty_file_is_said() -> None:
    _, remarks = pip_freeze.parse(b"\n")
    assert "gave nothing" in remarks[0].reason


def test_the_table_of_pip_list() -> None:
    found, _ = pip_freeze.parse(
        "Package    Version  Editable project location\r\n---------- ------- ---\r\nsix 1.16.0\r\nmine 0.1 /src/mine\r\n".encode(
            "utf-16"
        )
    )
    assert [(r.name, r.version, r.kind, r.path) for r in found] == [
        ("six", "1.16.0", "index", None),
        ("mine", "0.1", "editable", "/src/mine"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        f"m @ git+https://alice:hunter2@example.org/o/m@{SHA}",
        f"-e git+https://hunter2@example.org/o/m@{SHA}#egg=m",
        "m @ https://example.org/m-1.0-py3-none-any.whl?token=hunter2",
        "--extra-index-url https://alice:hunter2@example.org/simple",
    ],
)
def test_credentials_are_cut_out_and_remarked(line: str) -> None:
    found, remarks = pip_freeze.parse(line.encode())
    assert any("held a credential" in r.reason for r in remarks)
    assert b"hunter2" not in msgspec.json.encode((found, remarks))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Foo.bar==1.0", "foo-bar==2.0"),
        ("a==1.0", "a @ https://example.org/a-1.0-py3-none-any.whl"),
        ("a==1.x", "a==1.y"),
    ],
)
def test_two_versions_of_one_name(first: str, second: str) -> None:
    with pytest.raises(
        SnapshotError,
        match=r"requirements.txt:3: .* is pinned again, and differently from requirements.txt:1",
    ) as err:
        pip_freeze.parse(f"{first}\n\n{second}\n".encode())
    assert "keep the line" in err.value.hint


@pytest.mark.parametrize(("first", "second"), [("a==1.0", "A==1.0.0"), ("a", "a==1.0"), ("a==1.0", "a")])
def test_repeats_are_remarked(first: str, second: str) -> None:
    data = f"{first}\n{second}\n".encode()
    found, remarks = pip_freeze.parse(data)
    assert [r.version for r in found] == ["1.0"]
    assert "repeats" in remarks[0].reason
    assert covered(found, remarks) == written(data)


def test_a_leftover_that_pip_ignored_is_harmless_where_its_distribution_is_listed() -> None:
    warning = "WARNING: Ignoring invalid distribution ~orch (/x/site-packages)\n"
    for text, understood in (
        ("torch==2.0\n" + warning, True),
        (warning + "Torch==2.0\n", True),
        (warning + "six==1.0\n", False),
    ):
        _, remarks = pip_freeze.parse(text.encode())
        (remark,) = remarks
        assert remark.reason.startswith("pip ignored ~orch, a leftover of an interrupted installation")
        assert remark.understood == understood


def test_leftovers_take_time_in_proportion_to_their_number() -> None:
    """Each leftover was compared with each requirement: a freeze of a megabyte took minutes."""

    def calls(number: int) -> int:
        counted = 0

        def count(_frame: FrameType, event: str, _arg: object) -> None:
            nonlocal counted
            counted += event == "call"

        rows = (f"pkg{i}==1.0\nWARNING: Ignoring invalid distribution ~zz{i}\n" for i in range(number))
        data = "".join(rows).encode()
        sys.setprofile(count)
        try:
            pip_freeze.parse(data)
        finally:
            sys.setprofile(None)
        return counted

    calls(1)  # what the first call imports and compiles
    assert calls(400) < 4.4 * calls(100)


@pytest.mark.parametrize(
    "rows",
    [
        ("a>=1.20", "a<2"),
        ("a<2 ; python_version < '3.9'", "a>=2 ; python_version >= '3.9'"),
        ("a", "a[http2]"),
        ("a==2.0.1 ; sys_platform == 'win32'", "a>=2.1 ; sys_platform == 'linux'"),
        ("a==2.0.1", "a<2"),
        ("a==2.0.1", "a[b] ; sys_platform == 'win32'"),
        ("a===2.0.1ubuntu1", "a>=1"),  # nobody can tell whether it fits
        (f"a --hash=sha256:{HASH}", f"a --hash=sha256:{OTHER}"),
        ("a>=1 ; " + " or ".join(["python_version > '3.0'"] * 50), "a>=1"),  # its text is cut
    ],
)
def test_a_line_without_a_version_stays_unless_a_pin_has_what_it_asks_for(rows: tuple[str, str]) -> None:
    for data in ("\n".join(rows).encode(), "\n".join(reversed(rows)).encode()):
        found, remarks = pip_freeze.parse(data)
        assert [one.place.line for one in found] == [1, 2]
        assert not remarks


@pytest.mark.parametrize(
    ("rows", "extras"),
    [
        (("a>=1,<2", "A<2,>=1"), None),
        (("a==1.5", "a>=1"), None),
        (("a==1.5", "a>=1 ; sys_platform == 'linux'"), None),
        (("a==1.5 ; sys_platform == 'linux'", "a[b] ; sys_platform=='linux'"), ("b",)),
        (("a[b]==1.5", "a[c]==1.5"), ("b", "c")),
        (("a==1.5", "a[b]"), ("b",)),
        ((f"a @ git+https://example.org/a@{SHA}", "a>=1"), None),  # its version is not known
    ],
)
def test_a_repetition_adds_its_extras(rows: tuple[str, str], extras: tuple[str, ...] | None) -> None:
    (found,), (remark,) = pip_freeze.parse("\n".join(rows).encode())
    assert remark.reason == "repeats requirements.txt:1"
    assert (found.extras or None) == extras
    assert (b"extras" in msgspec.json.encode(found)) == bool(
        extras
    )  # so that digests of older snapshots stay


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (f"sha256={HASH}", f"sha256={OTHER}"),
        (f"md5={HASH[:32]}", f"md5={OTHER[:32]}"),
        ("subdirectory=a", "subdirectory=b"),
        ("subdirectory=a", ""),
    ],
)
def test_two_addresses_that_contradict_each_other(first: str, second: str) -> None:
    rows = "".join(f"six @ https://example.org/x.zip#{fragment}\n" for fragment in (first, second))
    with pytest.raises(SnapshotError, match="`six` is pinned again, and differently from") as err:
        pip_freeze.parse(rows.encode())
    assert err.value.hint == "keep the line of the environment that ran, or capture that environment alone"


def test_hashes_of_two_lines_of_one_address_are_joined() -> None:
    fragments = "", f"#sha256={HASH}", f"#md5={OTHER[:32]}"
    found = pip_freeze.parse(
        "".join(f"m @ https://example.org/m.zip{text}\n" for text in fragments).encode()
    )[0]
    assert [(one.sha256, one.digests) for one in found] == [(HASH, (f"md5:{OTHER[:32]}",))]


def test_the_lists_of_pip_freeze_r_add_no_line() -> None:
    divider = "## The following requirements were added by pip freeze:"
    _, remarks = pip_freeze.parse(f"-r base.txt\n-c limits.txt\na==1.0\n{divider}\nb==1.0\n".encode())
    assert all(remark.understood for remark in remarks)


def test_an_unread_list_has_a_next_step() -> None:
    _, remarks = pip_freeze.parse(b"-r base.txt\n-c limits.txt\n")
    assert [remark.reason for remark in remarks] == [
        "it names another list, whose lines are not read: write them here, or import this list where the other one "
        "is, with `reprobuild import FILE -o DIR`",
        "it names constraints, which are not read: write each that counts as a requirement here, as in NAME<2",
    ]


def test_a_secret_in_an_extra_is_not_kept() -> None:
    found, (remark,) = pip_freeze.parse(f"a[b,{SECRETS['github']}]==1.0".encode())
    assert not found
    assert not remark.understood
    assert SECRETS["github"] not in remark.text
