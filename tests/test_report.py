"""What people read at the end: lines of text that no captured value can change."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.errors import LockError
from reprobuild.image.model import Image
from reprobuild.lock.python import Interpreter
from reprobuild.lock.system import Artefact
from reprobuild.output.directory import summary_document
from reprobuild.report.determinism import earlier_verdict_lines, verdict_lines
from reprobuild.report.html.remarks import summarise_remarks
from reprobuild.report.text import (
    describe_resolution,
    render_resolutions,
    render_snapshot,
    render_text,
)
from reprobuild.report.triage import render_triage
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.environment.triage import triage_snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.verify.verdict import (
    Against,
    ControlVerdict,
    Determinism,
    Deviation,
    RoundTripDifference,
    WorkComparison,
)
from reprobuild.verify.workload.conditions import WorkRecord
from tests.command_lines import parse_command
from tests.conftest import EXAMPLE
from tests.report.samples import deviation, hostile_smoke
from tests.verify.samples import EXPECTED, make_lock, make_smoke, make_verdict, ruling

IMAGE = Image(
    layout="image", reference="reprobuild:0123456789ab", tree="sha256:1", config="sha256:2", manifest="sha256:3",
    layers=4,
)  # fmt: skip


def test_an_unexplained_difference_is_called_so() -> None:
    difference = RoundTripDifference(list="env.txt", captured="A", image="", reason="", code="unexplained")
    verdict = make_verdict(round_trip="residue", differences=(difference,))
    lines = render_text(make_lock(), IMAGE, verdict, Path("my results")).splitlines()
    assert "  env.txt: captured A, image nothing: UNEXPLAINED" in lines


def test_the_closing_lines() -> None:
    text = render_text(
        make_lock(), IMAGE, make_verdict(), Path("my results"), size=352_600_000, seconds=317.2
    )
    lines = text.splitlines()
    assert lines[0] == "requirements.txt  2 pinned"
    smoke = make_smoke()
    count, controls = len(smoke.probes), len(smoke.controls)
    several = len(smoke.collectives.probes) if smoke.collectives else 0
    told = len(EXPECTED["cpu"].informational)
    start = lines.index(
        f"determinism test, cpu, seed 42: {count} probes in strict mode: {count - told} identical, {told} informational"
    )
    assert lines[start + 1 : start + 6] == [
        "  N = 10: fewer than 30% of runs drift, at 95 %",
        "  not run without --thorough: compiled_gpt_block, compiled_reduction, compiled_flex_attention",
        f"controls, cpu: {controls} of {controls} drifted by default, and stopped when cured",
        f"collectives, cpu: gloo, 4 ranks: {several} of {several} identical",
        "deviations: none",
    ]
    assert lines[-14:] == [
        "not in the image as captured: nothing else",
        "",
        f"lock      sha256:{make_lock().digest}",
        "tree      sha256:1",
        "config    sha256:2",
        "manifest  sha256:3",
        "",
        "run it: reprobuild run 'my results' --seed 7 -- COMMAND",
        "your work is not checked; check it: reprobuild verify 'my results' --workload 'COMMAND {out}/FILE' "
        "--output-file '{out}/FILE'",
        "report: my results/report.html",
        "image: reprobuild:0123456789ab, 353 MB, in my results/image",
        "time: 5 min 17 s",
        "round trip: exact",
        "determinism: cpu identical, gpu not-applicable, collectives not-applicable",
    ]


def test_an_image_without_code_is_checked_with_this_directory() -> None:
    """Both commands that the build prints mount it."""
    lines = render_text(make_lock(sources=()), IMAGE, make_verdict(), Path("out")).splitlines()
    mount = '-v "$PWD":/job --workdir /job'
    assert f"run it: reprobuild run out --seed 7 {mount} -- COMMAND" in lines
    command = f"reprobuild verify out --workload 'COMMAND {{out}}/FILE' --output-file '{{out}}/FILE' {mount}"
    assert f"your work is not checked; check it: {command}" in lines


def test_the_last_line_names_the_work_beside_the_probes_of_torch() -> None:
    work = WorkRecord(command="train", seed=42, runs=3)
    lines = render_text(make_lock(), IMAGE, make_verdict(work=work), Path("out")).splitlines()
    count = sum(probe.verdict == "identical" for probe in make_smoke().probes)
    assert lines[-1] == (
        f"determinism: cpu identical (torch: {count} probes; your work, 3 runs), gpu not-applicable, "
        "collectives not-applicable"
    )


def test_a_control_that_is_not_applicable_is_not_counted() -> None:
    smoke = make_smoke()
    absent = ControlVerdict(
        name="measured_kernels", device="cpu", verdict="ineffective", modes={},
        why="not applicable here: there is no compiler in this environment",
    )  # fmt: skip
    count = len(smoke.controls)
    for why, good, named in (
        (absent.why, f"{count} of {count}", False),
        ("died", f"{count} of {count + 1}", True),
    ):
        control = msgspec.structs.replace(absent, why=why)
        verdict = make_verdict(smoke=(msgspec.structs.replace(smoke, controls=(*smoke.controls, control)),))
        lines = render_text(make_lock(), IMAGE, verdict, Path("out")).splitlines()
        assert f"controls, cpu: {good} drifted by default, and stopped when cured" in lines
        assert ("  measured_kernels: ineffective: died" in lines) == named
        said = [note.said for note in summarise_remarks(make_lock(), verdict)[1]]
        assert ("1 control did not show that the check can fail: measured_kernels." in said) == named


def test_a_drifting_workload_gets_the_command_that_finds_where() -> None:
    work = WorkRecord(
        command="python train.py --out model.pt", seed=7, variables={"A": "b c"}, secrets=("TOKEN",),
        volumes=("/data",), workdir="/job",
    )  # fmt: skip
    comparisons = (
        WorkComparison(name="artefact model.pt", verdict="drift", detail="x"),
        WorkComparison(name="artefact log.jsonl", verdict="identical", detail="x"),
    )
    verdict = make_verdict(cpu="drift", work=work, comparisons=comparisons)
    lines = render_text(make_lock(), IMAGE, verdict, Path("out")).splitlines()
    assert (
        "find where it drifts: reprobuild trace out --seed 7 -v DIR:/data --secret TOKEN -e 'A=b c' -w /job "
        "--output-file model.pt -- sh -c 'python train.py --out model.pt'"
    ) in lines
    same = make_verdict(work=work, comparisons=comparisons[1:])
    assert "reprobuild trace" not in render_text(make_lock(), IMAGE, same, Path("out"))


@pytest.mark.parametrize("pad", [0, 990, 1000, 1010, 3000])
def test_a_long_command_is_not_cut_inside_its_quotes(pad: int, tmp_path: Path) -> None:
    """People copy the line: a shell must not run a part of it."""
    command = "python train.py " + "a" * 1500 + "'$(touch pwned)" + "b" * pad + '"\\'
    comparisons = (WorkComparison(name="artefact m.pt", verdict="drift", detail="x"),)
    verdict = make_verdict(cpu="drift", work=WorkRecord(command=command, seed=7), comparisons=comparisons)
    (line,) = (
        row for row in render_text(make_lock(), IMAGE, verdict, Path("out")).splitlines() if "drifts" in row
    )
    line = line.partition(": ")[2]
    assert shlex.split(line)[-1] == (command if pad < 450 else "COMMAND")
    subprocess.run(["bash", "-c", f"reprobuild() {{ :; }}; {line}"], cwd=tmp_path, check=True)
    assert list(tmp_path.iterdir()) == []


def test_a_round_trip_that_did_not_run_is_not_called_exact() -> None:
    verdict = make_verdict(round_trip="not-run", parts=("probes",))
    lines = render_text(make_lock(), IMAGE, verdict, Path("out")).splitlines()
    assert "not in the image as captured: not compared" in lines


def test_no_line_zero_is_shown() -> None:
    line = msgspec.structs.replace(
        ruling("python", "", outcome="replaced", kind="x", reason="r"), file="python", line=0
    )
    assert describe_resolution(line) == "python: python: replaced (x): r"
    assert describe_resolution(msgspec.structs.replace(line, line=3)).startswith("python:3: python: ")
    with pytest.raises(LockError, match=r"\n  python: replaced \(x\): r") as caught:
        accept_deviations([line], [])
    assert ":0" not in str(caught.value)
    with pytest.raises(LockError) as many:
        accept_deviations([line] * 5, [])
    assert "    python: python: r\n" in str(many.value)
    assert ":0" not in "".join(many.value.listing)


def test_the_closing_lines_without_a_verdict() -> None:
    lines = render_text(make_lock(), IMAGE, None, Path("my results")).splitlines()
    assert lines[-4:] == [
        "run it: reprobuild run 'my results' --seed 7 -- COMMAND",
        "image: reprobuild:0123456789ab, in my results/image",
        "round trip: not-run",
        "determinism: not-run",
    ]


def test_warnings_are_the_last_lines_before_the_digests() -> None:
    lines = render_text(
        make_lock(), IMAGE, make_verdict(notes=("a note",)), Path("out"), warnings=("code names A",)
    ).splitlines()
    place = lines.index("warning: code names A")
    assert lines[place - 1] == "a note"
    assert lines[place + 1] == ""
    assert lines[place + 2].startswith("lock ")


def test_an_image_without_the_users_code_is_run_with_this_directory() -> None:
    lines = render_text(make_lock(sources=()), IMAGE, None, Path("my results")).splitlines()
    assert lines[-4] == (
        "run it: reprobuild run 'my results' --seed 7 -v \"$PWD\":/job --workdir /job -- COMMAND"
    )


def test_the_command_for_an_image_without_code_is_one_of_run(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (line,) = [
        line.removeprefix("run it: ")
        for line in render_text(make_lock(sources=()), IMAGE, None, tmp_path / "out").splitlines()
        if line.startswith("run it: ")
    ]
    words = shlex.split(line.replace("$PWD", str(tmp_path)))
    parsed = parse_command("run", words[2:]).params
    assert (parsed["volumes"], parsed["workdir"]) == ((f"{tmp_path}:/job",), "/job")


def test_bad_news_comes_last_before_the_result() -> None:
    """Of the outcomes, too: those that need a look stand at the end of their line."""
    outcomes = ("replaced", "unresolved", "excluded", "in base", "pinned")
    rulings = tuple(ruling(name, "", outcome=name, kind="x", reason="r") for name in outcomes)
    difference = RoundTripDifference(list="env.txt", captured="A", image="", reason="", code="unexplained")
    verdict = make_verdict(round_trip="residue", differences=(difference,))
    lines = render_text(make_lock(rulings=rulings), IMAGE, verdict, Path("out")).splitlines()
    assert lines[0].endswith("  1 pinned, 1 in base, 1 excluded, 1 replaced, 1 unresolved")
    bare = lines.index("  env.txt: captured A, image nothing: UNEXPLAINED")
    assert lines.index("deviations:") < bare < lines.index("") < lines.index("tree      sha256:1")


def test_what_was_not_identical_is_listed() -> None:
    verdict = make_verdict(
        comparisons=(
            WorkComparison(name="matmul", verdict="identical"),
            WorkComparison(name="dropout", verdict="drift", detail="1 and 2"),
            WorkComparison(name="conv", verdict="inconclusive", detail="no answer"),
        ),
        determinism=Determinism(cpu="drift", gpu="not-covered", collectives="not-covered"),
        notes=("no GPU was checked",),
    )
    lines = render_text(make_lock(), IMAGE, verdict, Path("my results")).splitlines()
    assert "your work: 1 of 3 comparisons identical" in lines
    assert "  dropout: drift: 1 and 2" in lines
    assert "  conv: inconclusive: no answer" in lines
    assert "no GPU was checked" in lines
    assert lines[-2:] == [
        "determinism: cpu drift, gpu not-covered, collectives not-covered",
        "exit code 8: two runs gave different bytes (cpu)",
    ]


def test_what_was_excused_is_in_the_headline() -> None:
    """Whoever reads one line of the terminal, the document or the page knows how much was not compared."""
    verdict = make_verdict(
        comparisons=(
            WorkComparison(name="a", verdict="identical", excused={"time": 2, "rate": 1}),
            WorkComparison(
                name="b", verdict="identical", excused={"time": 1, "ignored": 1}, warnings=("w: 1 NaN of 2",)
            ),
        )
    )
    lines = render_text(make_lock(), IMAGE, verdict, Path("out")).splitlines()
    headline = "your work: 2 of 2 comparisons identical, 5 values excused (3 time, 1 rate, 1 ignored)"
    assert (
        lines[lines.index(headline) + 1] == "  warning: w: 1 NaN of 2"
    )  # no number of runs is in the certificate
    document = summary_document(make_lock(), IMAGE, verdict, Path("out"))["verdict"]["work"]
    assert document == {
        "runs": 2, "upper": 1.0, "comparisons": 2, "identical": 2, "excused": {"time": 3, "rate": 1, "ignored": 1},
        "warnings": ["w: 1 NaN of 2"],
        "artefacts": [
            {"name": "a", "verdict": "identical", "detail": "", "excused": {"time": 2, "rate": 1}},
            {"name": "b", "verdict": "identical", "detail": "", "excused": {"time": 1, "ignored": 1}},
        ],
    }  # fmt: skip
    alone = make_verdict(comparisons=(WorkComparison(name="a", verdict="identical", excused={"time": 1}),))
    text = render_text(make_lock(), IMAGE, alone, Path("out"))
    assert "your work: 1 of 1 comparisons identical, 1 value excused (1 time)\n" in text


def against(verdict: Any, **more: Any) -> list[str]:
    found = Against(certificate="sha256:1", made="2026-11-22T05:00:00Z", verdict=verdict, compared=9, **more)
    return earlier_verdict_lines(found)


def test_an_earlier_certificate() -> None:
    start = "against the verdict of 2026-11-22T05:00:00Z"
    one = Deviation(scope="cpu", name="index_add (strict)", then="a" * 64, now="b" * 64)
    host = Deviation(scope="cpu", name="cpu_model", then="old", now=None)
    assert against("same") == [f"{start}: the same platform, and all 9 digests are the same"]
    assert against("inconclusive", unmatched=(one,), beside=(host,)) == [
        f"{start}: inconclusive: 1 digests cannot be compared, 9 can",
        f"  computed on another kind of device: cpu: index_add (strict): {'a' * 12} -> {'b' * 12}",
        "  changes no result: cpu: cpu_model: old -> nothing",
    ]
    nothing = Against(certificate="sha256:1", made="x", verdict="inconclusive", compared=0)
    assert earlier_verdict_lines(nothing)[0].endswith(": inconclusive: the two have no digest in common")
    assert against("differ", failed=(one,)) == [
        f"{start}: FAILED: 1 of 9 digests differ on the same platform",
        f"  cpu: index_add (strict): {'a' * 12} -> {'b' * 12}",
    ]
    assert against("other-platform", other=(one,), platform=(host,), unmatched=(host,)) == [
        f"{start}: another platform: 1 of 9 digests differ, which is no failure",
        "  platform: cpu: cpu_model: old -> nothing",
        f"  cpu: index_add (strict): {'a' * 12} -> {'b' * 12}",
        "  only in one of them: cpu: cpu_model: old -> nothing",
    ]
    assert against("other-platform", other=(one,), same_platform=True)[0] == (
        f"{start}: another platform: 1 of 9 digests differ, and --same-platform is given"
    )
    assert against("differ", failed=(one,) * 30)[-1] == "  ... and 22 more in report.html"


def test_what_comes_from_the_image_cannot_write_to_the_terminal() -> None:
    bad = "\x1b[31m\rgone\x07\u202e"
    deviations = (deviation(bad),)
    verdict = make_verdict(
        smoke=(hostile_smoke(bad),), notes=(bad,), comparisons=(WorkComparison(name=bad, verdict="drift", detail=bad),),
        differences=(RoundTripDifference(list=bad, captured=bad, image=bad, reason=bad, code="unexplained"),),
        against=Against(certificate=bad, made=bad, verdict="differ", compared=1, failed=deviations,
                        platform=deviations, other=deviations, unmatched=deviations, beside=deviations),
    )  # fmt: skip
    text = render_text(make_lock(), IMAGE, verdict, Path("out"))
    assert text.count("gone") > 10
    assert all(character.isprintable() or character == "\n" for character in text)


def test_the_smallest_number_of_runs_is_told() -> None:
    first, *rest = make_smoke().probes
    few = msgspec.structs.replace(first.modes["strict"], runs=2, upper=1.0)
    smoke = make_smoke(probes=(msgspec.structs.replace(first, modes={"strict": few}), *rest))
    same = sum(probe.verdict == "identical" for probe in smoke.probes)
    lines = verdict_lines(make_verdict(smoke=(smoke,)))
    assert (
        lines[1]
        == f"  N = 10 for {same - 1} of {same}: fewer than 30% of runs drift, at 95 %; the smallest N is 2"
    )


def test_drift_of_a_probe_and_of_the_start_are_told() -> None:
    first, *rest = make_smoke().probes
    drifting = msgspec.structs.replace(first, verdict="drift", why="1 and 2")
    smoke = make_smoke(verdict="drift", hook="drift", probes=(drifting, *rest), open=("no time",))
    lines = verdict_lines(make_verdict(smoke=(smoke,)))
    assert f"  {first.name}: drift: 1 and 2" in lines
    assert (
        "  seeding hook: drift: what is drawn before anything is seeded differs between two containers"
        in lines
    )
    assert "  open: no time" in lines
    nothing = make_smoke(
        probes=(), controls=(), collectives=None, verdict="inconclusive", open=("no torch",), left_out=()
    )
    assert verdict_lines(make_verdict(smoke=(nothing,))) == [
        "determinism test, cpu, seed 42: inconclusive",
        "  open: no torch",
    ]


def test_deviations() -> None:
    gone = ruling("a", "a==1", "unresolved", "no index has it", kind="unknown-version", accepted=True)
    line = "requirements.txt:1: a: unresolved (unknown-version): no index has it"
    assert describe_resolution(gone) == line
    text = render_resolutions(make_lock(rulings=(gone,)))
    assert text.splitlines()[:3] == ["requirements.txt  1 unresolved", "deviations:", f"  {line}"]
    assert text.endswith(f"lock      sha256:{make_lock(rulings=(gone,)).digest}")


def test_a_ruling_is_one_line() -> None:
    several = ruling("python", "", "replaced", "uv exited 2\nerror: no\n  cause: DNS", kind="python-patch")
    assert describe_resolution(several).endswith(
        "python: replaced (python-patch): uv exited 2; error: no; cause: DNS"
    )


@pytest.mark.parametrize(("count", "full"), [(12, 12), (13, 3)])
def test_many_deviations_of_one_kind_are_told_in_short(count: int, full: int) -> None:
    gone = tuple(ruling(f"a{n:02}", "", "replaced", "gone", kind="withdrawn") for n in range(count))
    other = ruling("b", "", "unresolved", "never was", kind="unknown-package")
    lines = render_resolutions(make_lock(rulings=(*gone, other))).splitlines()
    told = lines[lines.index("deviations:") + 1 : lines.index("")]
    assert [line for line in told if "gone" in line] == [
        f"  {describe_resolution(one)}" for one in gone[:full]
    ]
    assert f"  {describe_resolution(other)}" in told
    short = [line for line in told if "more (withdrawn)" in line]
    names = ", ".join(one.subject for one in gone[3:])
    assert short == ([f"  10 more (withdrawn), whose reasons the lock has: {names}"] if full < count else [])


def test_a_lock_without_rulings() -> None:
    assert render_resolutions(make_lock(rulings=())).startswith("deviations: none\n")


def test_a_python_of_this_machine_is_a_file_that_another_machine_needs() -> None:
    file = Artefact(filename="python-3.11.7-captured.tar.gz", sha256="1" * 64, size=1)
    python = Interpreter(
        version="3.11.7", executable="/opt/python/bin/python3.11", kind="captured", file=file,
        evidence="on this machine: Python 3.11.7 (main) [GCC 12], installed in /sw/python",
    )  # fmt: skip
    line = (
        "another machine needs python-3.11.7-captured.tar.gz, packed here: capture with `reprobuild capture --include "
        "interpreter`, or hand over `reprobuild bundle OUT -o frozen.tar --include wheels,debs`"
    )
    assert line in render_resolutions(make_lock(interpreter=python)).splitlines()
    held = msgspec.structs.replace(
        python, evidence="captured: Python 3.11.7 (main) [GCC 12], installed in /sw/python"
    )
    assert "another machine" not in render_resolutions(make_lock(interpreter=held))


def test_a_snapshot() -> None:
    text = render_snapshot(read_snapshot(EXAMPLE / "snapshot"))
    assert "secrets       WANDB_API_KEY (values are not kept)" in text.splitlines()
    assert (
        "changes       tinytrain.diff (1 files)" in text or "changes       tinytrain.diff (2 files)" in text
    )
    assert "needs more      requirements.txt:" in text
    assert "absent        nothing" in text


def test_a_snapshot_with_conda_rpm_and_reports(tmp_path: Path) -> None:
    for name, content in {
        "requirements.txt": "tool @ file:///croot/tool_1700000000000/work\ntorch==2.5.1\n",
        "conda-list.txt": "python 3.11.5 h1_0\nsix 1.16.0 pypi_0 pypi\ntool 1.0 py_0\n",
        "rpm-packages.txt": "bash 5.1-2.el9 x86_64\n",
        "capture.json": '{"capture": 1, "repositories": [], '
        '"python": {"version": "3.11.5", "implementation": "CPython"}}',
        "collect_env.txt": "PyTorch version: 2.5.1\nPython version: 3.11.5 (main)\nGPU models and configuration: \n"
        "GPU 0: NVIDIA H100\nGPU 1: NVIDIA H100\n",
        "nvidia-smi.txt": "NVIDIA-SMI has failed\n=NVSMI LOG=\na : b\n",
    }.items():
        (tmp_path / name).write_text(content)
    lines = render_snapshot(read_snapshot(tmp_path)).splitlines()
    assert lines[5:10] == [
        "conda         2 packages, and 1 of pip",
        "rpm           1 packages",
        "capture       python 3.11.5",
        "collect_env   python 3.11.5; torch 2.5.1; GPU 2 NVIDIA H100",
        "nvidia-smi    nothing of use",
    ]
    assert (
        "not understood  nvidia-smi.txt:1: nvidia-smi failed: it saw no GPU: NVIDIA-SMI has failed" in lines
    )
    assert not any(
        line.startswith(("conda", "rpm"))
        for line in render_snapshot(read_snapshot(EXAMPLE / "snapshot")).splitlines()
    )


def test_remarks_of_one_kind_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("six==1.16.0\n")
    torn = "".join(f"piece{number} of a value\n" for number in range(18))
    (tmp_path / "env.txt").write_text(f"A=1\nB=2\nC=3\nD=4\n{torn}")
    (tmp_path / "MLmodel").write_text("x: 1\n")
    lines = [
        line for line in render_snapshot(read_snapshot(tmp_path)).splitlines() if "not understood" in line
    ]
    assert len(lines) == 2
    assert any(re.match(r"not understood  18 lines, the first env\.txt:\d+: ", line) for line in lines)
    assert not any(line.endswith((":", ": ")) for line in lines)


def test_what_pip_itself_warned_of_is_shown_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(
        "six==1.16.0\n"
        "WARNING: Skipping /v/lib/python3.11/site-packages/torch-2.5.1.dist-info due to invalid metadata entry 'name'\n"
        "WARNING: Ignoring invalid distribution ~umpy (/v/lib/python3.11/site-packages)\n"
    )
    lines = render_snapshot(read_snapshot(tmp_path)).splitlines()
    (skipped,) = [line for line in lines if line.startswith("not understood  requirements.txt:2: ")]
    assert (
        "pip left torch 2.5.1 out of the freeze: its metadata is damaged, and the image will not have it"
        in skipped
    )
    (ignored,) = [line for line in lines if line.startswith("not understood  requirements.txt:3: ")]
    assert "pip ignored ~umpy, a leftover of an interrupted installation" in ignored


def test_the_triage_of_the_example() -> None:
    rulings = triage_snapshot(read_snapshot(EXAMPLE / "snapshot"), Decisions(drop=("OMP_*",))).rulings
    lines = render_triage(rulings).splitlines()
    assert [line.split()[1] for line in lines if line.startswith("baked")] == [
        "CUDA_DEVICE_MAX_CONNECTIONS", "LANG", "LD_PRELOAD", "MKL_NUM_THREADS", "NCCL_ALGO", "TOKENIZERS_PARALLELISM",
    ]  # fmt: skip
    assert "left out      OMP_NUM_THREADS (decision): dropped by decision" in lines
    cpu = "torch 2.13.0+cpu is built for the CPU, and nothing uses it"
    assert f"left out      cuda (module): {cpu}" in lines
    assert any(
        line.startswith("left out      LD_LIBRARY_PATH (path): /apps/nccl") and cpu in line for line in lines
    )
    counts = dict(pair.split(" ")[::-1] for pair in re.findall(r"\d+ \w+", lines[-1]))
    assert {name: counts[name] for name in ("secret", "scheduler")} == {
        "secret": "1", "scheduler": "32",
    }  # fmt: skip


def test_the_triage_names_unknown_variables() -> None:
    """One of them may be a parameter of the job."""
    names = [f"MY_{number:02}" for number in range(22)]
    text = render_triage([ruling(name, "", outcome="excluded", kind="unknown") for name in names])
    shown = ", ".join(names[:20])
    assert (
        f"left out      {shown} and 2 more (unknown): --bake NAME puts one into the image"
        in text.splitlines()
    )


def test_the_triage_shows_what_cannot_be_had() -> None:
    text = render_triage([ruling("LD_PRELOAD", "", outcome="unresolved", kind="site-library", reason="a\nb")])
    assert text.splitlines()[0] == "unresolved    LD_PRELOAD (site-library): a\\nb"
