"""Results that look like times, rates, processes, hosts, runs or lines of loggers: none of the pairs is excused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.determinism.test_compare import lines
from tests.determinism.test_verdicts import BEGAN, UUIDS, compared

LINES = [
    # Text with numbers that look measured.
    ("inference took 3.5 s", "inference took 3.6 s"),
    ("reaction time: 0.412 s", "reaction time: 0.398 s"),
    ("throughput=12.5 predicted", "throughput=12.7 predicted"),
    ("speech rate 4.2 words/s", "speech rate 4.5 words/s"),
    ("heart rate 71 beats/min", "heart rate 72 beats/min"),
    ("predicted 12.3 it/s", "predicted 12.4 it/s"),
    ("flow 3.1 items/s", "flow 3.2 items/s"),
    ("event at 00:01:02.5", "event at 00:01:02.7"),
    ("00:01:02 door opens", "00:01:03 door opens"),
    ("[00:01.000 --> 00:02.500]  hello", "[00:01.000 --> 00:02.700]  hello"),
    ("1\n00:00:01,000 --> 00:00:02,000", "1\n00:00:01,100 --> 00:00:02,000"),
    ("eta 0.3", "eta 0.4"),
    ("elapsed: 3:25", "elapsed: 3:26"),
    ("best epoch took 0:00:12", "best epoch took 0:00:13"),
    ("date of onset 2026-11-21 06:20:01", "date of onset 2026-11-22 06:20:01"),
    ("2026-11-21 06:20:01 forecast 3", "2026-11-22 06:20:01 forecast 3"),
    ("2026-11-23 05:20:01 forecast 3", "2026-11-23 05:21:01 forecast 3"),
    ("2026-11-23 forecast 3", "2026-11-24 forecast 3"),
    ("seed 1795414745", "seed 1795414746"),
    ("user 1795414745 clicks", "user 1795414746 clicks"),
    ("pid 17", "pid 18"),
    ("pid=44 of the gallery", "pid=46 of the gallery"),
    ("thread 3 wins", "thread 4 wins"),
    ("rank 0 holds shard 3", "rank 0 holds shard 4"),
    ("host a1 wins", "host a2 wins"),
    ("run r1 is best", "run r2 is best"),
    (f"run {UUIDS[0]} is best", f"run {UUIDS[1]} is best"),
    ("saved best to runs/2026-11-23_06-20-01", "saved best to runs/2026-11-23_06-20-02"),
    ("memory of 12 GB needed", "memory of 13 GB needed"),
    ("0x7f00aabb", "0x7f00aabc"),
    # Lines that are nearly a logger's, and results in lines that are.
    ("iter 5: loss 1.0, time 3.5 days, mfu 3%", "iter 5: loss 1.0, time 3.6 days, mfu 3%"),
    ("step 5: loss 1.0, time 12.3ms, score 3.45%", "step 5: loss 1.0, time 12.3ms, score 3.46%"),
    ("iter 5: loss 1.0, time 9999999.0ms, mfu 3.4%", "iter 5: loss 1.0, time 9999998.0ms, mfu 3.4%"),
    ("epoch 1 wps=3 wpm=4", "epoch 1 wps=5 wpm=4"),
    ("| epoch 1 | train_wall 5 | bsz 3", "| epoch 1 | train_wall 6 | bsz 3"),
    ("Time 3.5 Loss 2", "Time 3.6 Loss 2"),
    ("Epoch: [0][1/2]\tTime 3.5 s\tLoss 2", "Epoch: [0][1/2]\tTime 3.6 s\tLoss 2"),
    ("{'eval_runtime': 3.5, 'eval_loss': 2}", "{'eval_runtime': 3.6, 'eval_loss': 2}"),
    ("  pred_runtime = 0:00:14.34", "  pred_runtime = 0:00:15.34"),
    ("4/4 in 5ms", "4/4 in 6ms"),
    ("10/10 - 3s of speech", "10/10 - 4s of speech"),
    ("[LightGBM] [Info] best split after 3.5 seconds", "[LightGBM] [Info] best split after 3.6 seconds"),
    ("time (ms) | peak: 3.5", "time (ms) | peak: 3.6"),
    ("iteration 5/ 9 | elapsed time per iteration (ms): 3 |", "iteration 5/ 9 | elapsed time per iteration (ms): 4 |"),
    ("eta: 0:00:08  iter: 19  total_loss: 2.4", "eta: 0:00:09  iter: 19  total_loss: 2.4"),
    ("2 epochs completed in 0.002 days.", "2 epochs completed in 0.003 days."),
    ("100%|###| 9/9 [00:09<00:00,  1.0it/s]", "100%|###| 8/9 [00:09<00:00,  1.0it/s]"),
    ("a: 50% 3/4 1.2s", "a: 50% 3/4 1.3s"),
    ("step:3 train_time:232ms", "step:3 train_time:233ms"),
    ("| fps | 30 |", "| fps | 31 |"),
    ("|    fps_predicted    | 30       |", "|    fps_predicted    | 31       |"),
    ("Speed: 12.5 samples/sec", "Speed: 12.6 samples/sec"),
    ("EPOCH 1 took 0.5s", "EPOCH 1 took 0.6s"),
    ("event at 12; total time=0.5s", "event at 12; total time=0.6s"),
    ("[CV 1/2] END C=1;, score=0.500 total time=   0.1s", "[CV 1/2] END C=1;, score=0.501 total time=   0.1s"),
    ("1 0.5 0.02s", "1 0.5 0.03s"),
    ("         1           0.9157            0.02s", "         1           0.9158            0.02s"),
    ("0:\tlearn: 0.5\ttotal: 3\tremaining: 4", "0:\tlearn: 0.5\ttotal: 4\tremaining: 4"),
    ("Time: 06:20:01", "Time: 06:20:02"),
    (f"run_id: {UUIDS[0]} wins", f"run_id: {UUIDS[1]} wins"),
    (f"best_run: {UUIDS[0]}", f"best_run: {UUIDS[1]}"),
    ("start_time: 3.5", "start_time: 3.6"),
    ("best_dir: outputs/2026-11-23/06-20-01", "best_dir: outputs/2026-11-23/06-20-02"),
    ("    output_dir: /best/2026-11-21/06-20-01", "    output_dir: /best/2026-11-22/06-20-01"),
    ("completed step: 3, seconds: 0.5", "completed step: 3, seconds: 0.6"),
    ("Trial 0 finished with value: 0.5 sec", "Trial 0 finished with value: 0.6 sec"),
    ("2026-11-23 06:20:01 44 cats", "2026-11-23 06:20:01 45 cats"),
    ("44 INFO", "45 INFO"),
]  # fmt: skip
RECORDS: list[tuple[object, object]] = [
    ({"time": 12.5}, {"time": 13.5}),
    ({"time": "12:30:00"}, {"time": "12:31:00"}),
    ({"eta_seconds": 3.5}, {"eta_seconds": 3.6}),
    ({"wall_time": 3}, {"wall_time": 4}),
    ({"duration_s": 3}, {"duration_s": 4}),
    ({"words_per_second": 2.5}, {"words_per_second": 2.6}),
    ({"samples_per_second": 2.5, "loss": 1}, {"samples_per_second": 2.6, "loss": 1}),
    ({"eval_runtime": 1, "eval_loss": 2}, {"eval_runtime": 3, "eval_loss": 2}),
    ({"process": "drilling"}, {"process": "milling"}),
    ({"node": 3}, {"node": 4}),
    ({"machine": "m1"}, {"machine": "m2"}),
    ({"host": "bat"}, {"host": "pig"}),
    ({"run": 1}, {"run": 2}),
    ({"run_id": "lr0.1"}, {"run_id": "lr0.2"}),
    ({"best_run": UUIDS[0]}, {"best_run": UUIDS[1]}),
    ({"experiment_id": 3}, {"experiment_id": 4}),
    ({"job_id": "a"}, {"job_id": "b"}),
    ({"log_dir": "best/a"}, {"log_dir": "best/b"}),
    ({"predictions": {"time": BEGAN + 5}}, {"predictions": {"time": BEGAN + 6}}),
    ({"predictions": [{"timestamp": BEGAN + 5}]}, {"predictions": [{"timestamp": BEGAN + 6}]}),
    ({"y": BEGAN + 5}, {"y": BEGAN + 6}),
    ({"time": BEGAN - 86400}, {"time": BEGAN - 86300}),
    ({"date": "2026-11-24T06:20:01"}, {"date": "2026-11-25T06:20:01"}),
    ({"time": [BEGAN + 5, 3]}, {"time": [BEGAN + 6, 4]}),
    ({"elapsed": {"seconds": 3}}, {"elapsed": {"seconds": 4}}),
    ({"thread": {"id": 3}}, {"thread": {"id": 4}}),
    ({"_runtime": 3.5}, {"_runtime": 3.6}),
    ({"loss": {"time": 1}}, {"loss": {"time": 2}}),
    ({"times": [BEGAN + 5, 3], "values": [1]}, {"times": [BEGAN + 6, 3], "values": [1]}),
    ({"mean_fit_time": [1.5], "params": []}, {"mean_fit_time": [1.6], "params": []}),
    ({"epoch": 1, "time": "00:12"}, {"epoch": 1, "time": "00:13"}),
    ({"passed_time": 1.5}, {"passed_time": 1.6}),
    ({"training_duration": "0:00:12"}, {"training_duration": "0:00:13"}),
    ({"time/fps": 12}, {"time/fps": 13}),
    ({"timestamps": ["2026-11-23T06:20:01"]}, {"timestamps": ["2026-11-23T06:20:02"]}),
]


def test_there_are_enough() -> None:
    assert len(LINES) + len(RECORDS) >= 60


@pytest.mark.parametrize(("one", "two"), LINES)
def test_lines_that_look_like_logs(tmp_path: Path, one: str, two: str) -> None:
    found = compared(tmp_path, "run.log", f"{one}\n".encode(), f"{two}\n".encode())
    assert (found["verdict"], found["counts"]) == ("drift", {}), found


@pytest.mark.parametrize(("one", "two"), RECORDS)
def test_records_that_look_like_logs(tmp_path: Path, one: object, two: object) -> None:
    for name, first, second in (
        ("log.jsonl", lines(one), lines(two)),  # type: ignore[arg-type]  # any JSON
        ("result.json", json.dumps(one).encode(), json.dumps(two).encode()),
        ("results.json", json.dumps([one]).encode(), json.dumps([two]).encode()),
    ):
        found = compared(tmp_path, name, first, second)
        assert found["verdict"] == "drift", (name, found)
