# ruff: noqa: E501 (a row of a table stays on one line)

from __future__ import annotations

import sys
from types import FrameType

import msgspec
import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.model import Requirement
from reprobuild.snapshot.parsers import pip_freeze
from tests.snapshot.samples import covered, written

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
    assert [(one.version, one.hashes or None) for one in found] == [("1.0+cpu", (HASH,)), ("1.0", None)]
    assert [one.place.line for one in remarks] == [4, 3]
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
