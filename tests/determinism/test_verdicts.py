"""Forty pairs that must be called drift, forty that must not, and results that look like times: the excuses' tests.

`logs/` holds what the frameworks themselves wrote in two runs of one small script each, on 2026-11-23 between 06:19 and
06:50 UTC: tqdm 4.70.1, loguru 0.7.3, XGBoost 3.2.0, LightGBM 4.7.0, transformers 5.23.0, accelerate 1.15.0,
Lightning 2.6.6, Keras 3.15.1 (PyTorch backend), PyTorch 2.15.0 (torchrun), its examples, nanoGPT, timm's `train.py`,
fairseq's progress bars and detectron2's writers of their repositories' newest commits, Ultralytics 8.4.190, rich, absl.
Lines with paths of that machine are left out.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from reprobuild_runtime.artefacts.compare import answer
from tests.determinism.test_compare import floats, lines, npy

LOGS = Path(__file__).parent / "logs"
BEGAN = 1_795_414_740.0  # 2026-11-23 06:19 UTC
RUNS = [
    {"began": BEGAN, "ended": BEGAN + 1800, "host": "3f2a9c01d4e5", "pid": 44},
    {"began": BEGAN, "ended": BEGAN + 1800, "host": "77aa01bc2d3e", "pid": 45},
]
ONE, TWO = "2026-11-23T06:20:01", "2026-11-23T06:31:59"
UUIDS = ("0b1f6f0c8ad94d0e9b7d2f6f3c1c7a11", "d1f0c2ab77e34c95a0cc81f4b2d90e37")
NAN = float("nan")


def compared(
    folder: Path, name: str, one: bytes, two: bytes, *ignored: str, runs: Any = None
) -> dict[str, Any]:
    """Return what is said of two contents of one file, in runs of half an hour."""
    for which, data in (("one", one), ("two", two)):
        (folder / which).mkdir(exist_ok=True)
        (folder / which / "0").write_bytes(data)
    options = {
        "one": str(folder / "one"), "two": str(folder / "two"), "runs": runs or RUNS, "ignore": ignored,
        "files": [{"name": name, "one": "0", "two": "0"}],
    }  # fmt: skip
    document = answer(json.dumps(options))
    assert document["ran"], document
    return dict(document["files"][0])


def text(*pair: str) -> tuple[str, bytes, bytes]:
    """Return a pair of texts."""
    return ("run.log", *(f"{line}\n".encode() for line in pair))  # type: ignore[return-value]  # two of them


def record(key: str, one: object, two: object) -> tuple[str, bytes, bytes]:
    """Return a pair of records that differ in one key."""
    return ("log.jsonl", lines({"step": 3, key: one}), lines({"step": 3, key: two}))


def document(one: object, two: object) -> tuple[str, bytes, bytes]:
    """Return a pair of JSON documents."""
    return ("meta.json", json.dumps(one).encode(), json.dumps(two).encode())


# Results that differ. Those of the review come first: n10 (another test), n16, n21 to n25, and what it found besides.
DRIFT: dict[str, tuple[str, bytes, bytes]] = {
    "n16 sdr": text("sdr 0.0172 s", "sdr 0.0181 s"),
    "n16 min": text("latency of the event 0.0005 min", "latency of the event 0.0007 min"),
    "n21 pid": record("pid", 17, 611),
    "n21 tid": record("tid", 3, 9),
    "n21 pid in a text": text("2026-11-23 06:20:01 pid 17 matched", "2026-11-23 06:20:02 pid 18 matched"),
    "n22 trial_id": record("trial_id", "a1", "b7"),
    "n22 trial_name": record("trial_name", "lr_0.1", "lr_0.2"),
    "n22 best run of a sweep": record("best_run_id", *UUIDS),
    "n23 best_run_dir": record("best_run_dir", "runs/lr_0.69", "runs/lr_0.08"),
    "n23 output_dir": record("output_dir", "/data/a", "/data/b"),
    "n24 a checkpoint in one run": ("a.npy", npy("<f4", (1,), floats(1)), b""),
    "n25 timestamp": record("timestamp", 3.25, 3.5),
    "n25 timestamp as a text": record("timestamp", "00:03:12", "00:03:14"),
    "n25 duration": record("duration", 1.5, 1.25),
    "session_id": record("session_id", 5, 99),
    "session_id as a uuid": record("session_id", *UUIDS),
    "survival_time": record("survival_time", 3.25, 1.5),
    "arrival_time": record("arrival_time", 3.25, 1.5),
    "rt_ms": record("rt_ms", 412, 300),
    "pred_words_per_minute": record("pred_words_per_minute", 120.5, 80.1),
    "tokens_per_second without its logger": record("tokens_per_second", 12.5, 13.5),
    "elapsed without its logger": record("elapsed", 1.5, 1.25),
    "a moment that is none of the run": record("time", "2020-01-01T00:00:00", "2020-01-02T00:00:00"),
    "an epoch of other years": record("timestamp", 1_500_000_000, 1_500_000_001),
    "a cutoff in a sentence": text(f"train until {ONE}", f"train until {TWO}"),
    "subtitles": text("00:00:03,200 --> 00:00:05,100", "00:00:03,700 --> 00:00:05,100"),
    "a transcript": text("[00:00:05] hello", "[00:00:06] hello"),
    "a time of the day in a transcript": text("06:20:01 hello", "06:20:02 hello"),
    "a retrieved document": record("id", *UUIDS),
    "a digest under run": record("run", "9b74c9897bac770ffc029102a200c5de", "e4da3b7fbbce2345d7772b0674a318d5"),
    "a process that is not the run's": record("pid", 44, 46),
    "a host that is not the run's": record("host", "3f2a9c01d4e5", "77aa01bc2d3f"),
    "a result with the host in a word": text("x3f2a9c01d4e5x 1", "x77aa01bc2d3ex 1"),
    "two data sets in /tmp": text("best /tmp/tmpresnet50", "best /tmp/tmpresnet18"),
    "a model in /tmp": text("best /tmp/torch_resnet50", "best /tmp/torch_resnet18"),
    "an address as a result": text("jump at 0x7f00aabbccdd", "jump at 0x7f00aabbcc00"),
    "a loss in a line of nanoGPT": text(
        "iter 5: loss 10.7, time 12.34ms, mfu 3.45%", "iter 5: loss 10.8, time 12.34ms, mfu 3.45%"
    ),
    "wpb in a line of fairseq": text(
        "epoch 001:      2 / 6 loss=7, wps=1, ups=2, wpb=320, bsz=16, wall=3",
        "epoch 001:      2 / 6 loss=7, wps=1, ups=2, wpb=321, bsz=16, wall=3",
    ),
    "grad norm in a line of Megatron-LM": text(
        " iteration 1/ 10 | consumed samples: 8 | elapsed time per iteration (ms): 12.5 | grad norm: 1.0 |",
        " iteration 1/ 10 | consumed samples: 8 | elapsed time per iteration (ms): 13.5 | grad norm: 1.1 |",
    ),
    "a line of a bar that nothing overwrote": text(
        "100%|###| 9/9 [00:09<00:00,  1.0it/s, loss=0.5]", "100%|###| 9/9 [00:09<00:00,  1.0it/s, loss=0.6]"
    ),
    "accuracy in per cent before a return": text("50% of a\r60% of b", "51% of a\r60% of b"),
    "the order of what finished": text("worker 1 done", "worker 2 done"),
    "weights": ("w.npy", npy("<f4", (1,), floats(1)), npy("<f4", (1,), floats(2))),
    "metrics of a trainer": record("eval_loss", 0.5, 0.6),
    "a prediction that is called train_runtime": record("train_runtime", 3.5, 4.5),
    "a thread of a forum": document(
        {"thread": {"id": 5_123_456_789, "name": "a"}}, {"thread": {"id": 5_123_456_790, "name": "a"}}
    ),
    "a message in a record of loguru": (
        "l.jsonl", lines({"text": "x 1", "record": {"line": 1}}), lines({"text": "x 2", "record": {"line": 1}})
    ),
    "a length of time below a record": document(
        {"elapsed": {"repr": "3", "seconds": 3}}, {"elapsed": {"repr": "3", "seconds": 4}}
    ),
    "a table of arrivals": ("t.csv", b"bus,arrival_time\n7,3.5\n", b"bus,arrival_time\n7,4.5\n"),
    "a table of forecasts": ("t.csv", b"date,y\n2027-01-01 00:00:00,1\n", b"date,y\n2027-01-02 00:00:00,1\n"),
}  # fmt: skip

RECORDED = sorted({(path.name.split(".")[0], path.suffix) for path in LOGS.iterdir()})
MEGATRON = (
    " [2026-11-23 06:2%d:01.123456] iteration        1/      10 | consumed samples:            8 |"
    " elapsed time per iteration (ms): 1%d.5 | throughput per GPU (TFLOP/s/GPU): 4%d.1 | learning rate: 1.000000E-04 |"
    " global batch size:     8 | lm loss: 1.082000E+01 | loss scale: 1.0 | grad norm: 1.234 |"
    " number of skipped iterations:   0 | number of nan iterations:   0 |"
)
TIMERS = "(min, max) time across ranks (ms):\n    " + "forward-backward ".ljust(48, ".") + ": (%d.34, %d.40)"
SAME: dict[str, tuple[str, bytes, bytes]] = {
    "c06: a bare run": document(
        {"run": UUIDS[0], "saved_at": BEGAN + 5, "host": "3f2a9c01d4e5", "pid": 44},
        {"run": UUIDS[1], "saved_at": BEGAN + 9.5, "host": "77aa01bc2d3e", "pid": 45},
    ),
    "c06: below meta": document({"meta": {"run": UUIDS[0]}, "loss": 1}, {"meta": {"run": UUIDS[1]}, "loss": 1}),
    "a run with dashes": record(
        "run_id", "0b1f6f0c-8ad9-4d0e-9b7d-2f6f3c1c7a11", "d1f0c2ab-77e3-4c95-a0cc-81f4b2d90e37"
    ),
    "an epoch": record("time", BEGAN + 3.25, BEGAN + 4.5),
    "an epoch in milliseconds": record("timestamp", int(BEGAN + 3) * 1000, int(BEGAN + 4) * 1000),
    "an RFC 3339 time": record("created_at", f"{ONE}Z", f"{TWO}.25+00:00"),
    "a zone": record("date", "2026-11-23T08:20:01+02:00", "2026-11-23T08:20:02+02:00"),
    "ctime": record("date", "Mon Nov 23 06:20:01 2026", "Mon Nov 23 06:20:02 2026"),
    "the host": record("hostname", "3f2a9c01d4e5", "77aa01bc2d3e"),
    "a table": ("t.csv", b"step,time\n1,1795414745.5\n", b"step,time\n1,1795414746.5\n"),
    "the host in a sentence": text("listening on 3f2a9c01d4e5:29500", "listening on 77aa01bc2d3e:29500"),
    "an address": text("<function f at 0x7f00aabbccdd>", "<function f at 0x7f00aabbcc00>"),
    "a drawn directory": text("cache in /tmp/tmpab12cd_x/data", "cache in /tmp/tmpq9w8e7r6/data"),
    "Python's logging": text("2026-11-23 06:20:01,123 - INFO - step 3", "2026-11-23 06:20:02,124 - INFO - step 3"),
    "Python's logging with its process": text(
        "2026-11-23 06:20:01,123 pid 44 INFO step 3", "2026-11-23 06:20:02,124 pid 45 INFO step 3"
    ),
    "a level first": text(
        "[INFO|trainer.py:123] 2026-11-23 06:20:01,123 >> x", "[INFO|trainer.py:123] 2026-11-23 06:20:02,123 >> x"
    ),
    "a rank first": text("[rank0]: 2026-11-23 06:20:01 x", "[rank0]: 2026-11-23 06:20:02 x"),
    "srun --label": text("0: 2026-11-23 06:20:01 x", "0: 2026-11-23 06:20:02 x"),
    "slashes": text("2026/11/23 06:20:01 x", "2026/11/23 06:20:02 x"),
    "a time of the day and a level": text("[06:20:01] INFO x", "[06:20:02] INFO x"),
    "syslog": text("Nov 23 06:20:01 3f2a9c01d4e5 train: x", "Nov 23 06:20:02 77aa01bc2d3e train: x"),
    "glog": text("I1123 06:20:01.123456 44 a.cc:12] x", "I1123 06:20:02.123456 45 a.cc:12] x"),
    "TensorFlow": text(
        "2026-11-23 06:20:01.123456: I tensorflow/a.cc:12] x", "2026-11-23 06:20:02.3: I tensorflow/a.cc:12] x"
    ),
    "MLflow": text("1795414745123 0.53 3", "1795414746123 0.53 3"),
    "Weights & Biases": document(
        {"_timestamp": BEGAN + 3.5, "_runtime": 3.5, "_step": 3, "_wandb": {"runtime": 3}},
        {"_timestamp": BEGAN + 4.5, "_runtime": 4.5, "_step": 3, "_wandb": {"runtime": 4}},
    ),
    "Megatron-LM": text(MEGATRON % (0, 1, 2), MEGATRON % (1, 2, 3)),
    "Megatron-LM's timers": text(TIMERS % (9, 10), TIMERS % (10, 11)),
    "Megatron-LM's beginning": text(
        "[after megatron is initialized] datetime: 2026-11-23 06:20:01.123 \n"
        "time to initialize megatron (seconds): 3.125",
        "[after megatron is initialized] datetime: 2026-11-23 06:20:02.123 \n"
        "time to initialize megatron (seconds): 4.125",
    ),
    "DeepSpeed": text(
        "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=7.5, CurrSamplesPerSec=7.25, "
        "MemAllocated=0.5GB, MaxMemAllocated=0.5GB",
        "epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=8.5, CurrSamplesPerSec=8.25, "
        "MemAllocated=0.51GB, MaxMemAllocated=0.52GB",
    ),
    "DeepSpeed's timers": text(
        "time (ms) | fwd: 1.25 (fwd_moe: 0.00, 1st_a2a: 0.00, 2nd_a2a: 0.00, top_k: 0.00)",
        "time (ms) | fwd: 2.25 (fwd_moe: 0.01, 1st_a2a: 0.00, 2nd_a2a: 0.00, top_k: 0.00)",
    ),
    **{
        f"recorded: {name}{suffix}": (
            name + suffix, *((LOGS / f"{name}.{number}{suffix}").read_bytes() for number in (1, 2))
        )
        for name, suffix in RECORDED
    },
}  # fmt: skip


def test_there_are_enough() -> None:
    assert len(DRIFT) >= 40
    assert len(SAME) >= 40
    assert len(RECORDED) >= 20


@pytest.mark.parametrize("name", DRIFT)
def test_other_results_are_drift(tmp_path: Path, name: str) -> None:
    found = compared(tmp_path, *DRIFT[name])
    assert found["verdict"] == "drift", found


@pytest.mark.parametrize("name", SAME)
def test_other_times_are_none(tmp_path: Path, name: str) -> None:
    file, one, two = SAME[name]
    found = compared(tmp_path, file, one, two)
    assert (found["verdict"], found["details"]) == ("identical", [])
    assert sum(found["counts"].values()) >= (one != two)


_RESULT = re.compile(
    r"(?i)(?:loss|ppl|acc(?:uracy|@[15])?|lr|logloss|gnorm|norm|rate|step|epoch|iter|score|leaves|wpb|bsz|num_updates)"
    r"(?:['\"]? ?[=:] ?| +)['\"]?[-+]?(\d+(?:\.\d+)?)(?![\d.]*(?:it|s|ms)/)"
)


@pytest.mark.parametrize(("name", "suffix"), RECORDED)
def test_every_result_in_a_real_log_counts(tmp_path: Path, name: str, suffix: str) -> None:
    """Each loss, accuracy, step and rate of learning is changed by itself: none is excused."""
    whole = (LOGS / f"{name}.1{suffix}").read_bytes().decode()
    tried = 0
    for match in _RESULT.finditer(whole):
        line_end = whole.find("\n", match.end())
        if re.search(r"\r|\x1b\[[AK]", whole[match.end() : line_end]):
            continue  # something was written over it
        at = match.start(1)
        other = whole[:at] + str((int(whole[at]) + 1) % 10) + whole[at + 1 :]
        found = compared(tmp_path, name + suffix, whole.encode(), other.encode())
        assert found["verdict"] == "drift", (match.group(), found)
        tried += 1
    assert tried or name in ("loguru", "lightning_rich", "lightning_metrics", "ultralytics", "detectron2")


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [
        ("n1 wins", "n2 wins", "drift"),
        ("cost of n1: 3", "cost of n2: 3", "drift"),
        ("an1mal", "an2mal", "drift"),
        ("n1-large", "n2-large", "drift"),
        ("Nov 23 06:20:01 n1 train: x", "Nov 23 06:20:02 n2 train: x", "identical"),
        ("Nov 23 06:20:01 n1x: x", "Nov 23 06:20:02 n2x: x", "drift"),
    ],
)
def test_a_host_with_a_short_name(tmp_path: Path, one: str, two: str, verdict: str) -> None:
    """Apptainer keeps the machine's name, which can be any word."""
    runs = [{**run, "host": host} for run, host in zip(RUNS, ("n1", "n2"), strict=True)]
    found = compared(tmp_path, *text(one, two), runs=runs)
    assert found["verdict"] == verdict, found


@pytest.mark.parametrize(("zone", "verdict"), [(7200, "identical"), (3600, "drift"), (0, "drift")])
def test_a_time_without_a_zone_is_one_of_the_container(tmp_path: Path, zone: int, verdict: str) -> None:
    runs = [{**run, "zone": zone} for run in RUNS]
    found = compared(tmp_path, *text("2026-11-23 08:20:01 x", "2026-11-23 08:20:02 x"), runs=runs)
    assert found["verdict"] == verdict
    found = compared(tmp_path, *text("08:20:01 INFO x", "08:20:02 INFO x"), runs=runs)
    assert found["verdict"] == verdict


@pytest.mark.parametrize(
    ("pair", "verdict"),
    [
        (record("pid", 47, 45), "identical"),
        (record("pid", 50, 60), "identical"),
        (record("pid", 50, 61), "drift"),
        (record("pid", 43, 45), "drift"),
        (record("pid", 47.0, 45.0), "drift"),
        (text(f"{ONE} pid 47 INFO step 1", f"{TWO} pid 46 INFO step 1"), "identical"),
        (text(f"{ONE} pid 47 INFO step 1", f"{TWO} pid 99 INFO step 1"), "drift"),
    ],
    ids=str,
)
def test_processes_of_a_run_are_its_own(pair: tuple[str, bytes, bytes], verdict: str, tmp_path: Path) -> None:
    """A command starts others: the numbers since its own one are of the run."""
    runs = [{**RUNS[0], "last": 50}, {**RUNS[1], "last": 60}]
    assert compared(tmp_path, *pair, runs=runs)["verdict"] == verdict
