"""The experiments' own rules: what they vary, what they take away, and that each of their checks can fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from proof import ablation, evidence, factors, leftovers, page, recorded, tracing
from proof.circumstances import FAR, LEVELS, PLAIN, environment, module, prefix
from proof.kinds import KINDS
from reprobuild.builders.leftovers import LABELS, OF_THE_BUILD, PATHS
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.realise.cleanup import LEFTOVERS
from tests.conftest import ROOT


def test_every_level_of_every_factor_is_built() -> None:
    made = factors.builds(20)
    assert [build.number for build in made] == list(range(20))
    assert made[0].levels == PLAIN
    for name, known in LEVELS.items():
        assert {build.levels[name] for build in made} == set(known)
    assert {build.builder for build in made} == set(factors.BUILDERS)
    assert len([build for build in made if build.builder == "native"]) == 16
    assert len({json.dumps(build.levels) for build in made}) > 15


def test_every_shard_has_the_plain_build_and_together_they_have_all() -> None:
    shards = [[build.number for build in factors.builds(20, f"{index}/3")] for index in (1, 2, 3)]
    assert all(0 in shard for shard in shards)
    assert {number for shard in shards for number in shard} == set(range(20))
    assert sum(map(len, shards)) == 22


def test_far_differs_from_plain_in_all_but_the_store() -> None:
    assert {name for name in LEVELS if FAR[name] == PLAIN[name]} == {"store"}
    assert FAR["disk"] not in LEVELS["disk"]


def test_what_a_command_is_started_with() -> None:
    library = Path("/lib/clock.so")
    words = prefix(FAR, library)
    assert words[:2] == ["taskset", "--cpu-list"]
    assert {"setpriv", "FAKETIME=+400d", "another.example"} <= set(words)
    assert not {"setpriv", "taskset", "env"} & set(prefix(PLAIN, library))
    env = environment(FAR, {"PATH": "/bin", "PYTHONHASHSEED": "9"}, Path("/home"))
    assert (env["TZ"], env["LC_ALL"], env["PYTHONHASHSEED"]) == ("America/St_Johns", "de_DE.UTF-8", "1")
    assert (env["HOME"], env["XDG_DATA_HOME"]) == ("/home", "/home/data")
    assert "PYTHONHASHSEED" not in environment(PLAIN, {"PYTHONHASHSEED": "9"}, Path("/home"))
    assert (module(PLAIN), module(FAR)) == ("reprobuild.cli", "proof.disturbed")


def build_of(builder: str, **changed: str) -> dict[str, str]:
    return {
        "builder": builder,
        "lock": "l",
        "recipe and context": "r",
        "tree": "t",
        "manifest": "m",
        "sif": "s",
        **changed,
    }


def test_another_digest_is_counted_and_another_manifest_of_another_builder_is_not() -> None:
    same = [build_of("native"), build_of("native"), build_of("docker", manifest="other")]
    assert set(factors.judged(same).values()) == {1}
    for name in ("lock", "recipe and context", "tree", "manifest", "sif"):
        counts = factors.judged([*same, build_of("native", **{name: "other"})])
        assert {key.partition(",")[0] for key, count in counts.items() if count == 2} == {name}


@pytest.mark.parametrize("cut", ablation.CUTS, ids=lambda cut: cut.name)
def test_each_cut_takes_away_what_stands_once(cut: ablation.Cut) -> None:
    if cut.name.startswith("nothing: "):
        assert not cut.old
    else:
        assert (ROOT / cut.file).read_text(encoding="utf-8").count(cut.old) == 1
        assert cut.old != cut.new


def test_every_leftover_of_the_base_is_cut() -> None:
    cuts = {cut.name.removeprefix("leftover ") for cut in ablation.CUTS if cut.name.startswith("leftover ")}
    assert cuts == {line.pattern for line in LEFTOVERS}


def test_a_cut_that_breaks_nothing_and_a_control_that_differs_are_told() -> None:
    control, used, unused = (
        {"cut": "nothing: base", "differ": 0},
        {"cut": "a", "differ": 2},
        {"cut": "b", "differ": 0},
    )
    assert ablation.idle([control, used]) == []
    assert ablation.idle([control, used, unused]) == ["b"]
    assert ablation.idle([{**control, "differ": 1}, used]) == ["nothing: base"]


def test_leftovers_that_describe_nothing_are_told() -> None:
    every = {
        builder: dict.fromkeys(recorded.lines(builder.split()[0]), 1) for builder in factors.BUILDERS[1:]
    }
    every["docker"] |= {f"field {name}": 1 for name in OF_THE_BUILD}
    assert leftovers.dead(every) == []
    gone = f"/{PATHS[0].path}"
    del every[PATHS[0].builder][gone]
    assert leftovers.dead(every) == [f"{PATHS[0].builder}: {gone}"]


def test_what_a_configuration_needs_is_seen() -> None:
    label = LABELS["podman"][0]
    config = {
        "Env": ["B=1", "A=1"],
        "Labels": {label: "1", "own": "2"},
        OF_THE_BUILD[0]: True,
        "Hostname": "x",
    }
    assert recorded.seen(config, "podman") == [
        f"label {label}",
        f"field {OF_THE_BUILD[0]}",
        "order of variables",
    ]
    assert recorded.seen({"Env": ["A=1"], "Labels": {label: "1"}}, "docker") == []
    assert any(line.describes(TarEntry(path="etc/hosts", type="file", mode=0o644, size=0)) for line in PATHS)


def test_evidence_that_is_missing_or_older_than_the_code_is_told(tmp_path: Path) -> None:
    kind = evidence.Kind(
        name="fault-injection",
        modules=("reprobuild/store/store", "reprobuild/infra/atomic"),
        made_by="make proof",
    )
    assert evidence.states([kind], tmp_path) == ["fault-injection: no evidence; `make proof` makes it"]
    text = evidence.document("fault-injection", kind.modules, {"broken": 0}, {"cpu": "x"})
    (tmp_path / "one.json").write_text(text)
    assert evidence.states([kind], tmp_path) == []
    old = json.loads(text)
    old["modules"]["reprobuild/store/store"] = "0" * 64
    (tmp_path / "two.json").write_text(json.dumps({**old, "date": "2020-01-01T00:00:00Z"}))
    assert evidence.states([kind], tmp_path) == []  # the newest counts
    (tmp_path / "two.json").write_text(json.dumps({**old, "date": "2999-01-01T00:00:00Z"}))
    (line,) = evidence.states([kind], tmp_path)
    older = "fault-injection: evidence of 2999-01-01 is older than the code of reprobuild/store/store"
    assert line == f"{older}; `make proof` renews it"


def test_the_page_shows_the_newest_evidence() -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.written(text) == text, "run `python -m proof.page`"
    names = {match[2] for match in page._BLOCK.finditer(text)}
    kinds = {kind.name for kind in KINDS}
    assert {name if name in kinds else name.partition("-")[0] for name in names} == kinds == set(page.TABLES)


def test_a_page_without_evidence_says_so_and_another_date_wins(tmp_path: Path) -> None:
    text = "a\n<!-- fuzz -->\nold\n<!-- end -->\nb\n"
    assert page.written(text, tmp_path) == "a\n<!-- fuzz -->\nNo evidence yet.\n<!-- end -->\nb\n"
    for date, count in (("2026-01-02", 3), ("2026-01-01", 9)):
        found = {"cases": {"tar": count}, "seconds": 1.0, "refused": 1, "accepted": 2, "found": []}
        document = json.loads(
            evidence.document("fuzz", ["reprobuild/infra/untrusted"], found, evidence.machine())
        )
        (tmp_path / f"fuzz-{date}.json").write_text(json.dumps(document))
        (tmp_path / f"fuzz-small-{date}.json").write_text("{}")
    assert "| tar | 3 |" in page.written(text, tmp_path)


def test_runs_that_only_confirm_an_answer_are_not_counted() -> None:
    said = ["loading a into builtin", "run 1: steps", "run 2: everything", "run 3: operations of step 1"]
    said += [
        "run 4: aten.put, 200 times on its inputs",
        "run 5: steps, with the profile strict",
        "run 6: lines",
    ]
    assert tracing.count_searches(said) == 4
