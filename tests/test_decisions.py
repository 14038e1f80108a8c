"""The file of decisions: what it may hold, what each mistake says, and how options go over it."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reprobuild.cli.overrides import make_decisions
from reprobuild.config.override_text import describe_decisions, list_unconfirmed
from reprobuild.config.overrides import (
    ArchiveDecision,
    Decisions,
    WorkloadDecision,
    find_decisions,
    find_inner_decisions,
    merge_decisions,
    parse_archive,
    parse_bake,
    read_decisions,
)
from reprobuild.config.services import read_services, read_site_services
from reprobuild.ecosystems.conda.conda_config import read_channels
from reprobuild.errors import ReproError, UsageError
from reprobuild.infra.git.addresses import read_origin
from reprobuild.snapshot.importers.import_snapshot import open_snapshot
from tests.conftest import EXAMPLE, reprobuild
from tests.test_cli import Said as Said
from tests.test_cli import said as said

WHOLE = """
python: "3.11"
base: debian/bookworm
platform: linux/amd64
sources: {mylib: mylib.bundle}
services: {torch-index: "https://mirror.test/{local}"}
archives: ["ppa:some/fresh", {url: "http://site.test/{time}/", key: AB, suites: [x]}]
debs: [vendor]
indexes: {torch: "https://me:secret@wheels.test/simple"}
bake: {MY_FLAG: null, MY_MODE: fast}
drop: [LD_PRELOAD]
accept: [withdrawn]
profile: strict, fast,strict
seed: 7
workload: {command: [python, train.py], outputs: [checkpoint.pt]}
"""


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "reprobuild.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_every_decision_is_read(tmp_path: Path) -> None:
    assert read_decisions(written(tmp_path, WHOLE)) == Decisions(
        python="3.11", base="debian/bookworm", platform="linux/amd64", sources={"mylib": "mylib.bundle"},
        archives=(
            ArchiveDecision(url="ppa:some/fresh"),
            ArchiveDecision(url="http://site.test/{time}/", key="AB", suites=("x",)),
        ),
        debs=("vendor",), indexes={"torch": "https://me:secret@wheels.test/simple"}, services={"torch-index": "https://mirror.test/{local}"},
        bake={"MY_FLAG": None, "MY_MODE": "fast"},
        drop=("LD_PRELOAD",), accept=("withdrawn",), profile="strict,fast", seed=7,
        workload=WorkloadDecision(command=("python", "train.py"), outputs=("checkpoint.pt",)),
    )  # fmt: skip


def test_an_empty_file_decides_nothing(tmp_path: Path) -> None:
    assert read_decisions(written(tmp_path, "# nothing\n")) == Decisions()


def test_bake_may_be_a_list(tmp_path: Path) -> None:
    found = read_decisions(written(tmp_path, "bake: [A, B=1, C=x=y, D=]\n"))
    assert found.bake == {"A": None, "B": "1", "C": "x=y", "D": ""}
    assert parse_bake("A=") == ("A", "")


KNOWN = (
    "the decisions are: python, base, platform, sources, services, archives, debs, indexes, channels, bake, drop, "
    "accept, profile, seed, workload, build, build_image, system, packages, as_of"
)
WORKLOAD = "the keys of workload are: command, outputs"


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("python: 3.10\n", "python: 3.1 is a number in YAML", 'write it in quotes: python: "3.10"'),
        ("a: [", "is not YAML: ", "see docs/decisions.md for an example"),
        ("seed: 1\nseed: 2\n", "is not YAML: a second 'seed'", "see docs/decisions.md for an example"),
        (
            "bake:\n  A: '1'\n  \"A\": '2'\n",
            "is not YAML: a second 'A'",
            "see docs/decisions.md for an example",
        ),
        (b"a: \xff\xfe\n", "is not YAML: ", "see docs/decisions.md for an example"),
        ("pyton: '3.11'\n", "pyton", f"did you mean `python`?\n{KNOWN}"),
        ("drop: LD_PRELOAD\n", "$.drop", KNOWN),
        ("seed: many\n", "$.seed", KNOWN),
        ("bake: {A: 4}\n", "$.bake", KNOWN),
        ("python: 3\n", "$.python", KNOWN),
        ("workload: {command: [x]}\n", "outputs", WORKLOAD),
        ("workload: {command: [x], outputs: [y], more: 1}\n", "more", WORKLOAD),
        ("- python\n", "Expected `object`", KNOWN),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str | bytes, said: str, hint: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_decisions(path)
    assert str(caught.value).startswith(f"{path}")
    assert said in str(caught.value)
    assert caught.value.hint == hint


@pytest.mark.parametrize("text", ["fastest", "torch,fastest", '"torch\\nENV X=1"', '""', '" , "'])
def test_an_unknown_profile_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, f"profile: {text}\n")
    with pytest.raises(UsageError, match="there is no profile '") as caught:
        read_decisions(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert caught.value.hint.startswith("name one of log-only, torch, strict, ")
    assert caught.value.hint.endswith(", or several with commas between: docs/profiles.md")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.yaml cannot be read: No such file") as caught:
        read_decisions(tmp_path / "none.yaml")
    assert caught.value.hint == "check the path"


def test_a_device_is_not_read_for_ever(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="/dev/zero cannot be read: it is no plain file"):
        read_decisions(Path("/dev/zero"))
    with (tmp_path / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(UsageError, match="huge cannot be read: it has more than 1 MB"):
        read_decisions(tmp_path / "huge")


@pytest.mark.parametrize("text", ["seed: 2020-99-99\n", "accept: " + "[" * 20_000, "accept: [\n"])
def test_what_yaml_cannot_be(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match="is not YAML") as caught:
        read_decisions(written(tmp_path, text))
    assert caught.value.hint == "see docs/decisions.md for an example"


def test_the_file_stands_beside_the_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "job" / "snapshot"
    snapshot.mkdir(parents=True)
    assert find_decisions(snapshot) is None
    beside = snapshot.parent / "reprobuild.yaml"
    beside.write_text("")
    assert find_decisions(snapshot) == beside
    monkeypatch.chdir(snapshot)
    assert find_decisions(Path()) == beside
    assert find_inner_decisions(snapshot) is None
    (snapshot / "reprobuild.yaml").write_text("")
    assert find_inner_decisions(snapshot) == snapshot / "reprobuild.yaml"
    assert find_decisions(snapshot) == beside


BOMB = "bake:\n" + "\n".join(
    [f"  - &a{level} [{', '.join(['*a' + str(level - 1) if level else 'x'] * 9)}]" for level in range(9)]
)


@pytest.mark.parametrize("key", ["bake", "accept"])
def test_a_bomb_of_aliases_ends_at_once(tmp_path: Path, key: str) -> None:
    """A list of `bake` is made text before its types are checked, so 475 bytes of aliases filled the memory."""
    assert len(BOMB) < 600
    with pytest.raises(UsageError, match="is not YAML: an alias") as caught:
        read_decisions(written(tmp_path, BOMB.replace("bake", key)))
    assert caught.value.hint == "see docs/decisions.md for an example"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bake: [[A]]\n", "an item of bake is no text"),
        ("accept: !!python/object:os.system x\n", "an explicit tag"),
        ("seed: !!timestamp x\n", "an explicit tag"),
        ("accept: [" + "x, " * 60_000 + "]\n", "more than 50000 items"),
        ("accept: " + "[" * 40 + "]" * 40 + "\n", "nested too deep"),
        ("accept: [[a]]\n", "accept[0]"),
        ('drop: ["a\\eb"]\n', "drop[0]"),
        ('drop: ["\\ud800"]\n', "half a character"),
        ("build: {p: {variables: {'A B': x}}}\n", "build"),
        ('sources: {"a b": x}\n', "sources"),
    ],
)
def test_what_no_decision_can_be(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_decisions(written(tmp_path, text))
    assert said in str(caught.value)
    assert caught.value.hint


def test_an_item_of_bake_is_text(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        read_decisions(written(tmp_path, "bake: [4]\n"))
    assert caught.value.hint == "write each as NAME or NAME=VALUE"


def test_a_bomb_ends_show_and_lock_at_once(tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "requirements.txt").write_text("six==1.16.0\n")
    written(tmp_path, BOMB)
    for verb in ("show", "lock"):
        done = reprobuild(verb, tmp_path / "snapshot", timeout=20)
        assert done.returncode == 2
        assert "is not YAML: an alias" in done.stderr
        assert "see docs/decisions.md for an example" in done.stderr


@pytest.mark.parametrize("last", ["1", "1.5"])
def test_a_number_of_many_places_is_refused_before_it_is_read(tmp_path: Path, last: str) -> None:
    """PyYAML reads `1:1:1` as a number of base 60, which takes the square of its places."""
    with pytest.raises(UsageError, match="a number is too long"):
        read_decisions(written(tmp_path, f"seed: {'1:' * 1000}{last}\n"))
    with pytest.raises(UsageError, match="got `float`"):
        read_decisions(written(tmp_path, "seed: 1:30.5\n"))


def test_each_decision_is_stated_without_secrets() -> None:
    decisions = Decisions(
        python="3.11",
        sources={"p": "https://me:s3kr1t-pa55@git.test/p.git"},
        accept=("withdrawn", "unsigned-file"),
        bake={"TOKEN": "s3kr1t-pa55"},
        archives=(ArchiveDecision(url="https://me:s3kr1t-pa55@site.test/", key="AB"),),
    )
    assert describe_decisions(decisions) == (
        "python = 3.11",
        "sources.p = https://git.test/p.git",
        "archives = https://site.test/ AB",
        "bake = TOKEN",
        "accept = withdrawn, unsigned-file",
    )


@pytest.mark.parametrize(
    ("decisions", "what"),
    [
        (Decisions(accept=("no-hash",)), "accept = no-hash"),
        (Decisions(services={"a": "http://x.test"}), "services.a = http://x.test"),
        (Decisions(indexes={"p": "https://x.test"}), "indexes.p = https://x.test"),
        (Decisions(channels=("x",)), "channels = x"),
        (Decisions(archives=(ArchiveDecision(url="ppa:a/b"),)), "archives = ppa:a/b"),
        (Decisions(debs=("/etc",)), "debs = /etc"),
        (Decisions(debs=("vendor",)), "debs = vendor"),
        (Decisions(debs=("git@/../../private",)), "debs = git@/../../private"),
    ],
)
def test_a_file_that_nobody_named_decides_less(decisions: Decisions, what: str) -> None:
    assert list_unconfirmed(decisions) == (what,)


@pytest.mark.parametrize(
    "place",
    [
        "/home/me/private@main", "../private", "~/private", "~/private@main", "./~/private", "./~/private@main",
        "@main", "@", "git@", "git@main", "git@/../../private", "git@../private@v1", ".", "mylib.bundle",
        "own/p.bundle@v1", "me@host:private", "HOST:PATH", "FD::0", "file:///home/me/private", "FILE:///home/me/private",
        "git+file:///home/me/private", "git+/home/me/x://y", "/home/me/x://y@v1", "./x://y", "file://x@y://z",
    ],
)  # fmt: skip
def test_a_file_that_nobody_named_takes_no_source_of_this_machine(place: str) -> None:
    """Whatever reads the value later takes each of these from the disk, or as a path."""
    (found,) = list_unconfirmed(Decisions(sources={"p": place}))
    assert found.startswith("sources.p = ")


@pytest.mark.parametrize(
    "place",
    [
        "https://git.test/p@v1", "https://git.test/p", "git+https://git.test/p@v1", "http://git.test/p",
        "ssh://git@git.test/p@v1", "git://git.test/p", "git@git.test:p.git", "git@git.test:p.git@v1",
    ],
)  # fmt: skip
def test_a_file_that_nobody_named_may_name_a_server(place: str) -> None:
    decisions = Decisions(sources={"p": place}, seed=7, drop=("x",), bake={"A": "1"})
    assert list_unconfirmed(decisions) == ()


@pytest.mark.parametrize(
    "text",
    [
        "sources: {p: '@main'}",
        "sources: {p: ./~/private@main}",
        "debs: [vendor]",
        "debs: ['git@/../../private']",
    ],
)
def test_a_path_beside_the_snapshot_stops_the_command(tmp_path: Path, text: str) -> None:
    """What lies there may lead anywhere: by a link, by a gitfile, by alternates."""
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "reprobuild.yaml").write_text(f"{text}\n")
    with pytest.raises(UsageError, match="decides what only you can") as caught:
        make_decisions(tmp_path / "snapshot", None, **NONE)
    assert caught.value.hint == (
        f"read it, and to follow it run: reprobuild lock {tmp_path}/snapshot --decisions {tmp_path}/reprobuild.yaml"
    )
    assert make_decisions(tmp_path / "snapshot", tmp_path / "reprobuild.yaml", **NONE)[1] == tmp_path


def test_a_login_in_a_source_is_not_repeated() -> None:
    (found,) = list_unconfirmed(Decisions(sources={"p": "svc:Zq8LmW2xR7tYpK4v@git.test:o/r.git"}))
    assert found == "sources.p = ***@git.test:o/r.git"


NONE: dict[str, object] = {
    "python": None, "base": None, "platform": None, "sources": (), "services": (), "indexes": (), "archives": (),
    "debs": (), "channels": (), "bake": (), "drop": (), "accept": (), "seed": None, "profile": None,
    "build_image": None, "system": None, "packages": (), "as_of": None,
}  # fmt: skip


def test_the_user_names_a_file_to_follow_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot, path = tmp_path / "snap shot", tmp_path / "reprobuild.yaml"
    snapshot.mkdir()
    path.write_text("sources: {private: ../victim}\naccept: [no-hash]\n")
    with pytest.raises(UsageError) as caught:
        make_decisions(snapshot, None, **NONE)
    assert str(caught.value) == (
        f"{path} lies beside the snapshot, and decides what only you can: accept = no-hash; sources.private = ../victim"
    )
    assert caught.value.hint == (
        f"read it, and to follow it run: reprobuild lock '{snapshot}' --decisions {path}"
    )
    said = [
        f"decisions of {path}: sources.private = ../victim",
        f"decisions of {path}: accept = no-hash",
    ]
    assert capsys.readouterr().err.splitlines() == said
    decisions, _ = make_decisions(snapshot, path, **NONE)
    assert decisions.accept == ("no-hash",)
    assert make_decisions(snapshot, None, follow=False, **NONE)[0] == decisions  # `show`
    capsys.readouterr()
    make_decisions(snapshot, path, **NONE)
    assert capsys.readouterr().err.splitlines() == said


def test_a_file_inside_the_snapshot_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "reprobuild.yaml").write_text("seed: 5\n")
    assert make_decisions(tmp_path, None, **NONE)[0] == Decisions()
    said = capsys.readouterr().err
    assert said == (
        f"{tmp_path}/reprobuild.yaml is not read, because a snapshot may come from others; read it, and to follow it "
        f"run: reprobuild lock {tmp_path} --decisions {tmp_path}/reprobuild.yaml\n"
    )
    assert make_decisions(tmp_path, tmp_path / "reprobuild.yaml", **NONE)[0].seed == 5


def test_relative_paths_start_at_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job" / "snapshot").mkdir(parents=True)
    (tmp_path / "job" / "reprobuild.yaml").write_text("sources: {p: p.bundle}\n")
    monkeypatch.chdir(tmp_path)
    named = Path("job/reprobuild.yaml")
    assert make_decisions(Path("job/snapshot"), named, **NONE)[1] == tmp_path / "job"


def test_without_a_file_relative_paths_start_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "uv.lock").touch()
    monkeypatch.chdir(tmp_path)
    for directory in (Path("job"), Path("job/uv.lock")):
        assert make_decisions(directory, None, **NONE)[1] == tmp_path


def test_a_relative_source_of_the_command_line_starts_where_the_user_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real" / "job").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    work = tmp_path / "me@work"
    work.mkdir()
    written(tmp_path / "real" / "job", "sources: {theirs: theirs.bundle}\n")
    monkeypatch.chdir(work)
    typed = (
        "mine=mine@HEAD",
        "up=../up",
        "far=https://git.example/far.git@v1",
        "whole=/srv/whole",
        "home=~/home",
    )
    named = Path("../link/job/reprobuild.yaml")
    decisions, folder = make_decisions(Path(), named, **NONE | {"sources": typed})
    origins = {name: read_origin(place, folder) for name, place in decisions.sources.items()}
    assert origins["mine"].revision == "HEAD"
    assert origins["mine"].local is not None
    assert origins["mine"].local.resolve() == work / "mine"
    assert origins["up"].local is not None
    assert origins["up"].local.resolve() == tmp_path / "up"
    assert origins["theirs"].local == folder / "theirs.bundle"
    assert [decisions.sources[name] for name in ("far", "whole", "home")] == [
        "https://git.example/far.git@v1", "/srv/whole", "~/home",
    ]  # fmt: skip
    assert str(tmp_path) not in decisions.sources["mine"]  # the lock keeps the text


def test_options_go_over_the_file_and_lists_are_joined() -> None:
    file = Decisions(
        python="3.11",
        seed=1,
        drop=("a", "b"),
        bake={"X": "1", "Y": None},
        sources={"p": "p.bundle"},
        profile="own",
    )
    options = Decisions(python="3.12", drop=("b", "c"), bake={"X": None, "Z": "3"}, seed=0)
    assert merge_decisions(file, options) == Decisions(
        python="3.12", seed=0, drop=("a", "b", "c"), bake={"X": None, "Y": None, "Z": "3"},
        sources={"p": "p.bundle"}, profile="own",
    )  # fmt: skip
    assert merge_decisions(file, Decisions()) == file
    assert merge_decisions(Decisions(), file) == file


def test_the_lock_keeps_no_address_of_one_machine_and_no_password(tmp_path: Path) -> None:
    kept = read_decisions(written(tmp_path, WHOLE)).lock_document()
    assert "services" not in kept
    assert kept["indexes"] == {"torch": "https://wheels.test/simple"}
    assert kept["bake"] == {"MY_FLAG": None, "MY_MODE": "fast"}
    assert Decisions().lock_document() == {}
    place = "https://alice:s3kr1t-pa55@git.test/x.git@v1"
    assert Decisions(sources={"x": place, "y": "a b/y.bundle@v2"}).lock_document() == {
        "sources": {"x": "https://git.test/x.git@v1", "y": "a b/y.bundle@v2"}
    }


def test_a_service_may_be_put_elsewhere() -> None:
    shipped = read_services({})["torch-index"]
    assert "{local}" in shipped.url
    assert shipped.status == "unverified live"
    moved = read_services({"torch-index": "http://mirror.test/{local}"})["torch-index"]
    assert (moved.url, moved.status, moved.note) == (
        "http://mirror.test/{local}",
        "given by the user",
        shipped.note,
    )
    with pytest.raises(UsageError, match="there is no service named 'torch'") as caught:
        read_services({"torch": "x"})
    assert "\nthe services are: " in caught.value.hint
    assert "torch-index" in caught.value.hint
    with pytest.raises(
        UsageError, match="the address of the service docker-hub is not valid: Invalid"
    ) as caught:
        read_services({"docker-hub": "https://[x"})
    assert caught.value.hint == "write it as https://HOST[:PORT]/PATH"


def test_a_site_names_the_addresses_of_services_in_a_file(tmp_path: Path) -> None:
    assert read_site_services({}) == read_services()
    path = tmp_path / "services.yaml"
    path.write_text("# our mirrors\ntorch-index: http://mirror.test/{local}\n")
    services = read_site_services({"REPROBUILD_SERVICES": str(path)})
    assert services == read_services({"torch-index": "http://mirror.test/{local}"})
    path.write_text("")
    assert read_site_services({"REPROBUILD_SERVICES": str(path)}) == read_services()


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("torch: https://a.test/\n", "there is no service named 'torch'", "the services are: "),
        ("torch-indx: https://a.test/\n", "there is no service named 'torch-indx'", "did you mean `torch-index`?"),
        ("docker-hub: https://[x\n", "the address of the service docker-hub is not valid: Invalid", "write it as "),
        ("docker-hub: 3\n", "Expected `str`, got `int`", "write one `NAME: URL` in each line, "),
        ("- docker-hub\n", "Expected `object`, got `array`", "as in `conda-channels: https://mirror.example/conda/{name}`"),
        ("a: [", "is not YAML: ",
         "write one `NAME: URL` in each line, as in `conda-channels: https://mirror.example/conda/{name}`"),
        ("\x00", "is not YAML: ", "write one `NAME: URL` in each line, "),
        ("#" * 70_000, "cannot be read: it has more than 65536 bytes", "ask those who maintain this machine"),
    ],
)  # fmt: skip
def test_a_file_of_services_that_is_wrong(text: str, message: str, hint: str, tmp_path: Path) -> None:
    path = tmp_path / "services.yaml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_site_services({"REPROBUILD_SERVICES": str(path)})
    assert str(path) in str(caught.value)
    assert message in str(caught.value)
    assert hint in caught.value.hint


# The name of each value is further from the mistake than the 75 characters that PyYAML quotes.
BROKEN_YAML = [
    "wandb_api_key_of_the_project: Sup3rPw9xZq81aGq7Lk2 : b\n",
    "bake: {HF_ENDPOINT_TOKEN_OF_THE_WHOLE_TEAM: Sup3rPw9xZq81aGq7Lk2} : x\n",
    "a: *ghp_2d711642b726b04401627ca9fbac32f5c853\n",
]


@pytest.mark.parametrize("text", BROKEN_YAML)
def test_a_broken_file_shows_no_value(text: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "requirements.txt").write_text("numpy==1.26.4\n")
    (run / "wandb-metadata.json").write_text('{"python": "3.11.7"}')
    path = run / "config.yaml"
    path.write_text(text)
    readers: dict[str, Callable[[], object]] = {
        "decisions": lambda: read_decisions(path),
        "services": lambda: read_site_services({"REPROBUILD_SERVICES": str(path)}),
        "a run": lambda: open_snapshot(run).__enter__(),
        "conda": lambda: read_channels({"CONDARC": str(path), "HOME": str(tmp_path)}),
    }
    for reader, read in readers.items():
        with pytest.raises(ReproError, match=r", line 1, column \d+$") as caught:
            read()
        assert "config.yaml" in str(caught.value), reader
        assert not any(value in str(caught.value) for value in ("Sup3r", "ghp_2d")), reader


def test_a_file_of_services_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not an absolute path") as caught:
        read_site_services({"REPROBUILD_SERVICES": "services.yaml"})
    assert caught.value.hint == "give the whole path"
    with pytest.raises(UsageError, match="cannot be read: No such file or directory") as caught:
        read_site_services({"REPROBUILD_SERVICES": str(tmp_path / "gone")})
    assert caught.value.hint == "unset REPROBUILD_SERVICES, or ask those who maintain this machine"


def test_commands_use_the_file_of_services(tmp_path: Path) -> None:
    path = tmp_path / "services.yaml"
    path.write_text("docker-hub: http://127.0.0.1:9/\nkeyserver: http://127.0.0.1:9/\n")
    env = {**os.environ, "REPROBUILD_SERVICES": str(path), "XDG_CACHE_HOME": str(tmp_path)}
    own = ("--service", "keyserver=http://127.0.0.1:7/")  # an option goes before the file
    shown = reprobuild("doctor", "--json", *own, env=env).stdout
    seen = {row["name"]: row["seen"] for row in json.loads(shown)["findings"]}
    assert seen["service docker-hub"].startswith("http://127.0.0.1:9/")
    assert seen["service keyserver"].startswith("http://127.0.0.1:7/")
    path.write_text("conda-channels: https://mirror.example/conda/{name}\n")  # as the hint has it
    assert reprobuild("doctor", "--offline", env=env).returncode in (0, 6)
    path.write_text("other: x\n")
    for words in (
        ("doctor",),
        ("show", EXAMPLE / "snapshot"),
        ("pull", "a.test/b:1", "-o", tmp_path / "out"),
    ):
        done = reprobuild(*words, env=env)
        assert done.returncode == 2
        assert f"error: {path}: there is no service named 'other'" in done.stderr


def test_what_belongs_to_one_machine_and_credentials_are_not_recorded() -> None:
    decided = Decisions(
        services={"a": "b"},
        debs=("/home/me/debs",),
        archives=(ArchiveDecision(url="https://me:pw@site.test/", key="AB"),),
    )
    assert decided.lock_document() == {"archives": [{"url": "https://site.test/", "key": "AB"}]}


def test_an_archive_as_an_option() -> None:
    assert parse_archive("ppa:some/fresh") == ArchiveDecision(url="ppa:some/fresh")
    assert parse_archive("https://s.test/{time}/=ABCD") == ArchiveDecision(
        url="https://s.test/{time}/", key="ABCD"
    )
    assert parse_archive("https://s.test/?a=b/c") == ArchiveDecision(url="https://s.test/?a=b/c")


@pytest.mark.parametrize("field", ["sources", "indexes"])
def test_an_option_counts_for_every_spelling_of_a_project(field: str) -> None:
    captured = {"My_Lib": "https://git.example.org/evil.git", "other": "x"}
    file = msgspec.convert({field: captured}, Decisions)
    given = msgspec.convert({field: {"my-lib": "/home/me/mylib"}}, Decisions)
    assert getattr(merge_decisions(file, given), field) == {"other": "x", "my-lib": "/home/me/mylib"}


@pytest.mark.parametrize("field", ["sources", "indexes", "build"])
def test_two_spellings_of_a_project_are_refused(field: str, tmp_path: Path) -> None:
    path = tmp_path / "reprobuild.yaml"
    value = "{}" if field == "build" else "https://a.example/x"
    path.write_text(f"{field}:\n  my-lib: {value}\n  My_Lib: {value}\n")
    with pytest.raises(UsageError, match=f"{field}: my-lib and My_Lib are one project") as caught:
        read_decisions(path)
    assert caught.value.hint == "keep the one that you mean"
    path.write_text(f"{field}:\n  my-lib: {value}\n")
    read_decisions(path)


def test_the_command_to_follow_the_file_keeps_the_options(tmp_path: Path, said: Said) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "reprobuild.yaml").write_text("sources: {private: ../victim}\n")
    words = ["-o", tmp_path / "a result", "--offline", "--accept", "no-hash", "--accept", "built"]
    code, _, hint = said.failed("from-snapshot", tmp_path / "snapshot", *words)
    assert code == 2
    command = shlex.split(hint.partition("run: ")[2])
    assert command[:5] == [
        "reprobuild",
        "from-snapshot",
        str(tmp_path / "snapshot"),
        "--decisions",
        str(tmp_path / "reprobuild.yaml"),
    ]
    assert sorted(command[5:]) == sorted(map(str, words))
    said(*command[1:])
    assert "decides what only you can" not in said.err


def test_the_command_to_follow_the_file_has_no_login(tmp_path: Path, said: Said) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "reprobuild.yaml").write_text("sources: {private: ../victim}\n")
    index = "torch=https://ada:" + "Zq8LmW2x" + "R7tYpK4v@index.test/simple"
    said("lock", tmp_path / "snapshot", "--index", index)
    assert "to follow it run" in said.err
    assert "R7tYpK4v" not in said.err
