"""A directory of certificates comes from nodes: what hangs, died, refused or lies is told by name."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reprobuild.cluster.aggregate import gather_results
from reprobuild.cluster.answer_table import AnswerTable
from reprobuild.cluster.shared_dir import BEGAN, CERTIFICATE, ENDED, ERROR, LOG, LOST, NODE, TOLD
from reprobuild.cluster.text import render_cluster
from reprobuild.errors import UsageError
from reprobuild.infra.atomic import write_file
from reprobuild.verify.verdict import Verdict
from tests.cluster.samples import IMAGE, as_nobody, certificate, changed, gathered, shared, write
from tests.verify.samples import EXPECTED, make_smoke


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with the certificates of three nodes that say the same."""
    write(tmp_path, a=certificate(), b=certificate(), c=certificate())
    return tmp_path


def test_nodes_without_an_answer_are_told_with_what_is_known_of_them(folder: Path) -> None:
    (folder / "nodes").write_text("a\nb\nc\nhung\ndead\nkilled\nnever\nsorry\nodd\narabic\n")
    (folder / "odd.ended").write_text("999\n")
    (folder / "arabic.ended").write_text("\u0663\n")
    for node in ("hung", "dead", "killed"):
        (folder / f"{node}.began").touch()
    (folder / "dead.ended").write_text("3\n")
    (folder / "killed.ended").write_text("137\n")
    (folder / "sorry.error").write_text("no engine\x1b[2J answers\n")
    found = gathered(folder)
    assert {each.node: (each.kind, each.why) for each in found.silent} == {
        "hung": ("hangs", "it began, and has neither answered nor ended"),
        "dead": ("died", "its process ended with exit code 3"),
        "odd": ("died", "its process ended, and how is not known"),
        "arabic": ("died", "its process ended, and how is not known"),
        "killed": ("died", "its process was killed by signal 9, as for too much memory"),
        "never": ("absent", "it has not begun"),
        "sorry": ("refused", "no engine\\x1b[2J answers\\n"),
    }
    assert (found.verdict, len(found.groups[0].nodes)) == ("inconclusive", 3)
    text = render_cluster(found)
    assert "never: never began: it has not begun" in text
    assert "cluster: inconclusive; 3 of 10 nodes answered" in text
    assert "\x1b" not in text


def deep(levels: int) -> bytes:
    smoke = msgspec.structs.replace(make_smoke(), fingerprint={"settings": 1})
    nest = b'{"settings":' * levels + b"1" + b"}" * levels
    return msgspec.json.encode(certificate(smoke)).replace(b'{"settings":1}', nest)


def talkative() -> bytes:
    smoke = make_smoke()
    told = {**smoke.fingerprint, "settings": {f"name{number}": "x" * 100 for number in range(400)}}
    return msgspec.json.encode(certificate(msgspec.structs.replace(smoke, fingerprint=told)))


def renamed() -> bytes:
    text = msgspec.json.encode(certificate()).decode()
    return text.replace('"name":"index_add"', '"name":"evil_probe"').encode()


WHOLE = msgspec.json.encode(certificate())


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (WHOLE[: len(WHOLE) // 2], "is no verdict file of reprobuild, or a damaged one"),
        (b"", "is no verdict file of reprobuild, or a damaged one"),
        (b"\0" * 100, "is no verdict file of reprobuild, or a damaged one"),
        (b"[" * 100_000, "is no verdict file of reprobuild, or a damaged one"),
        (b" " * ((8 << 20) + 1), "has more than 8 MB"),
        (msgspec.json.encode(certificate(tree="sha256:" + "2" * 64)), "is the verdict on another image"),
        (msgspec.json.encode(certificate(seed=43)), "was made with seed 43"),
        (msgspec.json.encode(certificate(version=99)), "form 99"),
        (talkative(), "tells more of its platform than there is to tell"),
        (renamed(), "an answer that this image does not give: evil_probe (strict)"),
    ],
    ids=["torn", "empty", "zeros", "brackets", "large", "image", "seed", "form", "talkative", "renamed"],
)  # fmt: skip
def test_a_hostile_certificate_is_no_answer(data: bytes, why: str, folder: Path) -> None:
    write(folder, evil=data)
    found = gathered(folder)
    (silent,) = found.silent
    assert (silent.node, silent.kind) == ("evil", "unreadable")
    assert why in silent.why
    assert found.groups[0].nodes == ("a", "b", "c")


@pytest.mark.parametrize("levels", [400, 600, 800, 900, 950, 980])
def test_a_platform_of_many_levels_is_told_and_ends_nothing(levels: int, folder: Path) -> None:
    """How deep is too deep differs between Pythons."""
    write(folder, evil=deep(levels))
    found = gathered(folder)
    assert [
        each.why for each in found.silent if "nested too deeply" in each.why or "damaged" in each.why
    ] or [one for one in found.groups if one.nodes == ("evil",)]
    assert found.verdict == "inconclusive"
    assert ("a", "b", "c") in [one.nodes for one in found.groups]


@pytest.mark.parametrize(
    "plant",
    [
        lambda path: path.symlink_to("a.json"),
        lambda path: path.mkdir(),
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
    ],
    ids=["link", "folder", "pipe", "device"],
)
@pytest.mark.parametrize("suffix", [".json", ".error", ".ended"])
def test_what_is_no_file_is_not_read(plant: Callable[[Path], None], suffix: str, folder: Path) -> None:
    plant(folder / f"evil{suffix}")
    found = gathered(folder)
    (silent,) = found.silent
    assert silent.node == "evil"
    assert found.groups[0].nodes == ("a", "b", "c")


def test_names_that_no_node_has_are_left_alone_and_strangers_are_named(folder: Path) -> None:
    for name in ("\x1b[31m", "two words", "-option", ".hidden", "x" * 200, "x" * 201, "x" * 250):
        (folder / f"{name}.json").write_bytes(WHOLE)
    write(folder, stranger=certificate(changed("index_add")))
    found = gathered(folder, "a", "b", "c")
    assert (found.verdict, found.strangers) == ("same", ("stranger", "x" * 200))
    assert "stranger: answered, and was not asked; it is not counted" in render_cluster(found)


def test_a_certificate_that_says_nothing_of_a_machine_is_no_answer(folder: Path) -> None:
    write(folder, blank=certificate(msgspec.structs.replace(make_smoke(), fingerprint={})))
    write(folder, none=msgspec.structs.replace(certificate(), smoke=()))
    found = gathered(folder)
    assert [(each.node, each.kind, each.why) for each in found.silent] == [
        ("blank", "refused", "its verdict tells of no determinism test"),
        ("none", "refused", "its verdict tells of no determinism test"),
    ]


def test_a_list_of_too_many_nodes_is_refused(folder: Path) -> None:
    """`--nodes` has the same bound."""
    (folder / "nodes").write_text("".join(f"n{number}\n" for number in range(100_001)))
    with pytest.raises(UsageError, match="has more than 100000 names"):
        gathered(folder)


@pytest.mark.parametrize("content", ["a b/../c\n", "a\n\x1b[2J\n"])
def test_a_list_of_nodes_with_no_names_is_refused(content: str, folder: Path) -> None:
    (folder / "nodes").write_text(content)
    with pytest.raises(UsageError, match="is no name of a node") as caught:
        gathered(folder)
    hint = "run `reprobuild cluster worker OUT --output DIR` on each node: it writes DIR/NODE.json"
    assert caught.value.hint == hint


@pytest.mark.parametrize("plant", [lambda path: path.symlink_to("a.json"), Path.mkdir, os.mkfifo])
def test_a_list_of_nodes_that_is_no_file_is_refused(plant: Callable[[Path], None], folder: Path) -> None:
    plant(folder / "nodes")
    with pytest.raises(UsageError, match="nodes is a link, or otherwise no file") as caught:
        gathered(folder)
    assert caught.value.hint.startswith("run `reprobuild cluster worker OUT --output DIR` on each node")


def test_who_reads_another_programs_certificate_is_told_what_to_do() -> None:
    with pytest.raises(UsageError) as caught:
        list(AnswerTable(EXPECTED).read("evil", msgspec.json.decode(renamed(), type=Verdict)))
    assert (
        caught.value.hint
        == "was it made by another reprobuild? Check the node again, with the one that is here"
    )


def test_a_folder_without_nodes_is_no_fleet(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no verdict files of any node"):
        gathered(tmp_path)
    with pytest.raises(UsageError, match="is no directory of verdict files"):
        gathered(tmp_path / "none")


def test_files_of_the_longest_name_can_be_written(tmp_path: Path) -> None:
    name = "x" * 200
    assert NODE.fullmatch(name)
    for suffix in (CERTIFICATE, BEGAN, ENDED, ERROR, LOST, TOLD, LOG):
        write_file(tmp_path / f"{name}{suffix}", b"")


@pytest.mark.parametrize("suffix", [".json", ".error", ".ended", ".lost"])
def test_a_file_that_cannot_be_read_is_one_nodes_affair(suffix: str) -> None:
    with shared() as folder:
        write(folder, a=certificate(), b=certificate(), c=certificate())
        (folder / f"evil{suffix}").write_text("3")
        (folder / f"evil{suffix}").chmod(0)
        with as_nobody():
            found = gathered(folder)
    (silent,) = found.silent
    assert (silent.node, silent.kind) == ("evil", "unreadable")
    assert "Permission denied" in silent.why
    assert found.groups[0].nodes == ("a", "b", "c")


def test_a_list_of_nodes_that_cannot_be_read_is_refused() -> None:
    with shared() as folder:
        write(folder, a=certificate())
        (folder / "nodes").write_text("a")
        (folder / "nodes").chmod(0)
        with as_nobody(), pytest.raises(UsageError, match="nodes cannot be read: Permission denied"):
            gathered(folder)


def made(when: str) -> Verdict:
    return certificate(made=when)


def test_what_an_earlier_check_left_in_the_folder_is_not_counted(tmp_path: Path) -> None:
    """The node is dead now, and its certificate of yesterday stands beside those of today."""
    write(
        tmp_path,
        a=made("2026-11-22T05:00:00Z"),
        b=made("2026-11-22T05:40:00Z"),
        c=made("2026-11-21T05:00:10Z"),
    )
    found = gathered(tmp_path)
    assert [(each.node, each.kind) for each in found.silent] == [("c", "old")]
    assert (found.verdict, found.groups[0].nodes) == ("inconclusive", ("a", "b"))
    said = "c: left an old verdict file: its verdict was made 2026-11-21T05:00:10Z, and the newest "
    assert f"{said}2026-11-22T05:40:00Z" in render_cluster(found)


def test_what_was_made_before_the_list_of_nodes_is_not_counted(tmp_path: Path) -> None:
    """It says something where nodes have answered since; clocks may differ."""
    write(
        tmp_path,
        a=made("2026-11-22T05:01:00Z"),
        b=made("2026-11-22T04:55:00Z"),
        c=made("2026-11-22T02:00:00Z"),
    )
    (tmp_path / "nodes").write_text("a b c")
    at = datetime.datetime(2026, 11, 22, 5, tzinfo=datetime.timezone.utc).timestamp()
    os.utime(tmp_path / "nodes", (at, at))
    found = gathered(tmp_path)
    assert [(each.node, each.kind) for each in found.silent] == [("c", "old")]
    assert found.silent[0].why.endswith("2026-11-22T02:00:00Z, before the list of nodes was written")
    for later in (at + 86_400, 2**40):
        os.utime(tmp_path / "nodes", (later, later))
        assert gathered(tmp_path).verdict == "same"


def test_a_clock_that_runs_ahead_makes_no_other_node_old(tmp_path: Path) -> None:
    now = "2026-11-22T06:00:00Z"
    write(tmp_path, a=certificate(), b=certificate(), c=made("2036-11-22T05:00:00Z"))
    assert gather_results(tmp_path, IMAGE, AnswerTable(EXPECTED), timestamp=now).verdict == "same"
    write(tmp_path, c=made("2026-13-45T05:00:00Z"))
    (silent,) = gather_results(tmp_path, IMAGE, AnswerTable(EXPECTED), timestamp=now).silent
    assert (silent.kind, silent.why) == (
        "old",
        "when its verdict was made is not known: 2026-13-45T05:00:00Z",
    )
    write(tmp_path, c=made("yesterday\x1b"))
    (silent,) = gather_results(tmp_path, IMAGE, AnswerTable(EXPECTED), timestamp=now).silent
    assert silent.kind == "unreadable"
    assert silent.why.endswith("- at `$.made`")


@pytest.mark.parametrize("suffix", [".error", ".lost"])
def test_words_of_a_node_are_shown_without_secrets(folder: Path, suffix: str) -> None:
    (folder / "nodes").write_text("a\nb\nc\nsorry\n")
    token = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    (folder / f"sorry{suffix}").write_text(
        f"cannot log in: https://bob:hunter2secret@registry.example/x with {token}\n"
    )
    found = gathered(folder)
    (silent,) = found.silent
    assert silent.why.startswith("cannot log in: https://")
    for secret in ("hunter2secret", token):
        assert secret not in silent.why
        assert secret not in render_cluster(found)
