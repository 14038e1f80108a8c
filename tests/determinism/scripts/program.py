"""Forty small jobs, each with a log in the format of one framework: `program.py FORMAT OUT [RESULT]`.

The results of a job are always the same, and its times are real. With RESULT, the number of one of its results, this
one result is drawn anew in each run: that is another result, which must be seen. `program.py FORMAT OUT count` writes
how many results there are.
"""

import csv
import datetime
import json
import logging
import os
import sys
import time


class Job:
    """One run of a job: its results, and the times that it took."""

    def __init__(self, out, wrong=0):
        self.out, self.wrong, self.number, self.last = out, wrong, 0, time.perf_counter()
        self.began = self.last

    def result(self, value, digits=4):
        """Return a result of so many digits; that of the wrong number is drawn."""
        self.number += 1
        if self.number == self.wrong:
            value += int.from_bytes(os.urandom(3), "big") % 9_999_999 * 10.0**-digits
        return round(value, digits) if digits else int(value)

    def whole(self, value):
        return self.result(value, 0)

    def spent(self):
        """Return the seconds since the last call, some of which the job slept."""
        time.sleep(0.002 + os.urandom(1)[0] / 20_000)
        now = time.perf_counter()
        self.last, before = now, self.last
        return now - before

    def elapsed(self):
        return time.perf_counter() - self.began

    def open(self, name, mode="a", **more):
        path = os.path.join(self.out, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return open(path, mode, **more)

    def say(self, line, name="run.log"):
        with self.open(name) as file:
            file.write(line + "\n")

    def logger(self, form, datefmt=None):
        """Return a logger of the standard library that writes into a file."""
        handler = logging.FileHandler(os.path.join(self.out, "run.log"))
        handler.setFormatter(logging.Formatter(form, datefmt))
        made = logging.getLogger("train")
        made.setLevel(logging.INFO)
        made.addHandler(handler)
        return made


def loss(step):
    return 2.5 / (1 + step) + 0.0625


def now(form):
    return datetime.datetime.now().strftime(form)


def clock(seconds):
    return str(datetime.timedelta(seconds=int(seconds)))


def megatron(job):
    for step in (1, 2, 3):
        job.say(
            now(" [%Y-%m-%d %H:%M:%S.%f]")
            + " iteration %8d/%8d | consumed samples: %12d |" % (step, 3, job.whole(8 * step))
            + " elapsed time per iteration (ms): %.1f | throughput per GPU (TFLOP/s/GPU): %.1f |"
            % (job.spent() * 1e3, 1 / job.spent())
            + " learning rate: %.6E | global batch size: %5d |" % (job.result(1e-4, 9), 8)
            + " lm loss: %.6E | loss scale: 1.0 | grad norm: %.3f |"
            % (job.result(loss(step), 6), job.result(1.234, 3))
            + " number of skipped iterations: %3d | number of nan iterations: %3d |" % (0, job.whole(0))
        )


def nanogpt(job):
    for step in range(4):
        job.say(
            "iter %d: loss %.4f, time %.2fms, mfu %.2f%%"
            % (step, job.result(loss(step)), job.spent() * 1e3, 1 / job.spent())
        )
    job.say("step 4: train loss %.4f, val loss %.4f" % (job.result(0.5), job.result(0.6)))


def modded_nanogpt(job):
    for step in range(4):
        job.say(
            "step:%d/4 val_loss:%.4f train_time:%.0fms step_avg:%.2fms"
            % (step, job.result(loss(step)), job.elapsed() * 1e3, job.spent() * 1e3)
        )
    job.say("peak memory allocated: %d MiB reserved: %d MiB" % (job.whole(3), job.whole(5)))


def llm_c(job):
    for step in (1, 2, 3):
        job.say(
            "step %4d/%d | loss %7.6f (+nanz)| norm %6.4f (+nanz)| lr %.2e | %.2f ms | %.1f%% bf16 MFU | %.0f tok/s"
            % (
                step,
                3,
                job.result(loss(step), 6),
                job.result(1.5),
                job.result(3e-4, 6),
                job.spent() * 1e3,
                job.spent() * 100,
                1e3 / job.spent(),
            )
        )


def timm(job):
    for step in range(3):
        one, two = job.spent(), job.spent()
        job.say(
            "Train: 0 [%4d/3 (%3.0f%%)]  Loss: %.3f (%.3f)  Time: %.3fs, %7.2f/s  (%.3fs, %7.2f/s)  LR: %.3e  Data: %.3f (%.3f)"
            % (
                step,
                step * 50,
                job.result(loss(step), 3),
                job.result(loss(step), 3),
                one,
                8 / one,
                two,
                8 / two,
                job.result(1e-3, 6),
                one / 9,
                two / 9,
            )
        )


def fairseq(job):
    for step in (1, 2):
        job.say(
            now("%Y-%m-%d %H:%M:%S")
            + " | INFO | train_inner | epoch 001:      %d / 6 loss=%.3f, ppl=%.2f, wps=%.1f, ups=%.2f, wpb=%d,"
            " bsz=%d, num_updates=%d, lr=%.5f, gnorm=%.3f, train_wall=%d, wall=%d"
            % (
                step,
                job.result(loss(step), 3),
                job.result(5.0, 2),
                9 / job.spent(),
                1 / job.spent(),
                job.whole(320),
                job.whole(16),
                step,
                job.result(0.0005, 5),
                job.result(2.5, 3),
                job.elapsed(),
                job.elapsed() * 2,
            )
        )


def metric_logger(job):
    """torchvision's references, DeiT, DINO and MAE."""
    for step in range(3):
        job.say(
            "Epoch: [0]  [%d/3]  eta: %s  lr: %.6f  loss: %.4f (%.4f)  acc1: %.4f (%.4f)  time: %.4f  data: %.4f  max mem: %d"
            % (
                step,
                clock(job.spent() * 500),
                job.result(0.1, 6),
                job.result(loss(step)),
                job.result(loss(step)),
                job.result(12.5),
                job.result(12.5),
                job.spent(),
                job.spent(),
                100 + os.urandom(1)[0],
            )
        )
    job.say("Epoch: [0] Total time: %s (%.4f s / it)" % (clock(job.elapsed()), job.spent()))
    job.say("Training time %s" % clock(job.elapsed()))
    job.say(json.dumps({"train_lr": job.result(0.1), "train_loss": job.result(0.5), "epoch": 0}), "log.txt")


def swin(job):
    for step in range(3):
        job.say(
            now("[%Y-%m-%d %H:%M:%S swin_tiny](main.py 271): INFO")
            + " Train: [0/2][%d/3]\teta %s lr %.6f\t wd %.4f\ttime %.4f (%.4f)\t"
            "loss %.4f (%.4f)\tgrad_norm %.4f (%.4f)\tloss_scale 1.0000 (1.0000)\tmem %.0fMB"
            % (
                step,
                clock(job.spent() * 500),
                job.result(1e-3, 6),
                job.result(0.05),
                job.spent(),
                job.spent(),
                job.result(loss(step)),
                job.result(loss(step)),
                job.result(1.5),
                job.result(1.5),
                100 + os.urandom(1)[0],
            )
        )
    job.say(
        now("[%Y-%m-%d %H:%M:%S swin_tiny](main.py 290): INFO")
        + " EPOCH 0 training takes %s" % clock(job.elapsed())
    )


def open_clip(job):
    for step in range(3):
        job.say(
            now("%Y-%m-%d,%H:%M:%S | INFO |")
            + " Train Epoch: 0 [%5d/24 (%.0f%%)] Data (t): %.3f Batch (t): %.3f, %.4f/s, %.4f/s/gpu"
            " LR: %.6f Logit Scale: %.3f Contrastive_loss: %.5f (%.5f) Loss: %.5f (%.5f)"
            % (
                step * 8,
                step * 33,
                job.spent(),
                job.spent(),
                8 / job.spent(),
                8 / job.spent(),
                job.result(1e-5, 6),
                job.result(14.286, 3),
                *(job.result(loss(step), 5) for _ in range(4)),
            )
        )


def mmengine(job):
    for step in (10, 20):
        job.say(
            now("%Y/%m/%d %H:%M:%S - mmengine - INFO -")
            + " Epoch(train)  [1][%2d/20]  lr: %.4e  eta: %s  time: %.4f  data_time: %.4f"
            "  memory: %d  loss: %.4f  loss_cls: %.4f  acc: %.4f"
            % (
                step,
                job.result(0.01),
                clock(job.spent() * 500),
                job.spent(),
                job.spent(),
                100 + os.urandom(1)[0],
                *(job.result(loss(step)) for _ in range(3)),
            )
        )
        record = {
            "lr": job.result(0.01),
            "data_time": job.spent(),
            "loss": job.result(loss(step)),
            "time": job.spent(),
            "epoch": 1,
            "iter": step,
            "memory": 7,
            "step": step,
        }
        job.say(json.dumps(record), "vis_data/scalars.json")


def torchtitan(job):
    for step in (1, 2):
        job.say(
            now("[titan] %Y-%m-%d %H:%M:%S,%f")[:-3]
            + " - root - INFO - step: %2d  loss: %7.4f  grad_norm: %7.4f  memory: %5.2fGiB(%.2f%%)"
            "  tps: %s  tflops: %.2f  mfu: %.2f%%"
            % (
                step,
                job.result(loss(step)),
                job.result(1.5),
                job.spent(),
                job.spent(),
                format(round(1e5 * job.spent()), ","),
                job.spent(),
                job.spent(),
            )
        )


def litgpt(job):
    for step in (1, 2, 3):
        job.say(
            "Epoch 1 | iter %d step %d | loss train: %.3f, val: n/a | iter time: %.2f ms%s"
            % (step, step, job.result(loss(step), 3), job.spent() * 1e3, " (step)" if step % 2 else "")
        )
    job.say("iter 3: val loss %.4f, val time: %.2f ms" % (job.result(0.75), job.spent() * 1e3))


def torchtune(job):
    for step in (1, 2):
        job.say(
            "Step %d | loss:%s lr:%s tokens_per_second_per_gpu:%s peak_memory_active:%s peak_memory_alloc:%s peak_memory_reserved:%s "
            % (
                step,
                job.result(loss(step), 6),
                job.result(2e-5, 7),
                100 / job.spent(),
                job.spent(),
                job.spent(),
                job.spent(),
            )
        )


def composer(job):
    for step in (1, 2):
        job.say("[epoch=1][batch=%d/2]:" % step)
        job.say("\t Train time/batch: %d" % job.whole(step))
        job.say("\t Train throughput/batches_per_sec: %.4f" % (1 / job.spent()))
        job.say("\t Train throughput/samples_per_sec: %.4f" % (8 / job.spent()))
        job.say("\t Train time/train: %.4f" % (job.elapsed() / 3600))
        job.say("\t Train time/total: %.4f" % (job.spent()))
        job.say("\t Train trainer/device_train_microbatch_size: %d" % job.whole(8))
        job.say("\t Train loss/train/total: %.4f" % job.result(loss(step)))


def hf_state(job):
    history = [
        {
            "epoch": 1.0,
            "loss": job.result(loss(1)),
            "grad_norm": job.result(1.5),
            "learning_rate": job.result(5e-5, 6),
            "step": 3,
        }
    ]
    history += [
        {
            "epoch": 1.0,
            "eval_loss": job.result(0.75),
            "eval_runtime": job.spent(),
            "eval_samples_per_second": 8 / job.spent(),
            "eval_steps_per_second": 1 / job.spent(),
            "step": 3,
        }
    ]
    history += [
        {
            "epoch": 1.0,
            "step": 3,
            "total_flos": job.whole(1234),
            "train_loss": job.result(0.8),
            "train_runtime": job.elapsed(),
            "train_samples_per_second": 8 / job.spent(),
            "train_steps_per_second": 1 / job.spent(),
        }
    ]
    with job.open("trainer_state.json", "w") as file:
        json.dump(
            {"best_metric": job.result(0.75), "global_step": 3, "log_history": history, "trial_name": None},
            file,
            indent=2,
        )


def keras(job):
    for step in (1, 2):
        job.say("Epoch %d/2" % step)
        job.say(
            "3/3 - %ds - %dms/step - accuracy: %.4f - loss: %.4f - val_loss: %.4f"
            % (
                job.elapsed(),
                job.spent() * 1e3,
                job.result(0.5),
                job.result(loss(step)),
                job.result(loss(step)),
            )
        )


def lightning_csv(job):
    with job.open("lightning_logs/version_0/metrics.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["epoch", "step", "train_loss", "val_acc"])
        rows.writerows([0, step, job.result(loss(step)), job.result(0.5)] for step in range(3))
    job.say("lr: %s\nseed: 42" % job.result(0.1), "lightning_logs/version_0/hparams.yaml")


def deepspeed(job):
    job.say(
        now("[%Y-%m-%d %H:%M:%S,%f")[:-3]
        + "] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=%d, lr=[%s], mom=[[0.9, 0.999]]"
        % (job.whole(0), job.result(1e-3, 6))
    )
    job.say(
        now("[%Y-%m-%d %H:%M:%S,%f")[:-3]
        + "] [INFO] [timer.py:264:stop] epoch=0/micro_step=10/global_step=10, RunningAvgSamplesPerSec=%s,"
        " CurrSamplesPerSec=%s, MemAllocated=%.2fGB, MaxMemAllocated=%.2fGB"
        % (8 / job.spent(), 8 / job.spent(), job.spent(), job.spent())
    )


def wandb_summary(job):
    with job.open("wandb-summary.json", "w") as file:
        json.dump(
            {
                "_timestamp": time.time(),
                "_runtime": job.elapsed(),
                "_step": 3,
                "loss": job.result(0.5),
                "acc": job.result(0.75),
                "_wandb": {"runtime": int(job.elapsed())},
            },
            file,
        )


def mlflow_files(job):
    import uuid

    run = uuid.uuid4().hex
    top = "mlruns/0/%s/" % run
    for step in range(3):
        job.say("%d %s %d" % (time.time() * 1e3, job.result(loss(step)), step), top + "metrics/loss")
    job.say(str(job.result(0.1)), top + "params/lr")
    began = int(time.time() * 1e3)
    job.say(
        "artifact_uri: file:///reprobuild-out/mlruns/0/%s/artifacts\nend_time: %d\nentry_point_name: ''\nexperiment_id: '0'\n"
        "lifecycle_stage: active\nrun_id: %s\nrun_name: nimble-fox-%d\nrun_uuid: %s\nsource_name: ''\nstart_time: %d\nstatus: 3\ntags: []\nuser_id: root"
        % (run, began + 5, run, job.whole(481), run, began),
        top + "meta.yaml",
    )


def tensorboard(job):
    import struct

    def crc(data):
        table, value = [], 0xFFFFFFFF
        for byte in range(256):
            for _ in range(8):
                byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
            table.append(byte)
        for byte in data:
            value = table[(value ^ byte) & 255] ^ value >> 8
        value ^= 0xFFFFFFFF
        return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    def field(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    with job.open(
        "runs/events.out.tfevents.%010d.%s.%d.0" % (time.time(), os.uname().nodename, os.getpid()), "wb"
    ) as file:
        events = [field(3, b"brain.Event:2")]
        for step in range(3):
            value = field(1, b"loss") + b"\x15" + struct.pack("<f", job.result(loss(step)))
            events.append(b"\x10" + bytes([step]) + field(5, field(1, value)))
        for event in events:
            data = b"\x09" + struct.pack("<d", time.time()) + event
            length = struct.pack("<Q", len(data))
            file.write(length + crc(length) + data + crc(data))


def hydra(job):
    folder = now("outputs/%Y-%m-%d/%H-%M-%S/")
    job.say(
        now("[%Y-%m-%d %H:%M:%S,%f")[:-3] + "][__main__][INFO] - loss %.4f" % job.result(0.5),
        folder + "train.log",
    )
    job.say("lr: %s\nepochs: 3" % job.result(0.1), folder + ".hydra/config.yaml")
    job.say("- lr=%s" % job.result(0.1), folder + ".hydra/overrides.yaml")
    job.say(
        "hydra:\n  runtime:\n    cwd: /work\n    output_dir: /work/%s\n  job:\n    num: %s"
        % (folder[:-1], job.whole(3)),
        folder + ".hydra/hydra.yaml",
    )


def sb3(job):
    for step in (1, 2):
        job.say("-" * 33)
        job.say("| rollout/           |          |\n|    ep_rew_mean     | %-8.3g |" % job.result(21.5, 1))
        job.say("| time/              |          |")
        for key, value in (
            ("fps", "%d" % (64 / job.spent())),
            ("iterations", str(step)),
            ("time_elapsed", "%d" % job.elapsed()),
            ("total_timesteps", str(job.whole(64 * step))),
        ):
            job.say("|    %-15s | %-8s |" % (key, value))
        job.say("| train/             |          |\n|    loss            | %-8.3g |" % job.result(0.125, 3))
    with job.open("progress.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            ["time/fps", "time/iterations", "time/time_elapsed", "time/total_timesteps", "train/loss"]
        )
        rows.writerow([int(64 / job.spent()), 1, job.elapsed(), job.whole(64), job.result(0.125)])


def mxnet(job):
    for step in (20, 40):
        job.say(
            "INFO:root:Epoch[0] Batch [%d-%d]\tSpeed: %.2f samples/sec\taccuracy=%f"
            % (step - 20, step, 8 / job.spent(), job.result(0.5))
        )
    job.say(
        "INFO:root:Epoch[0] Train-accuracy=%f\nINFO:root:Epoch[0] Time cost=%.3f\nINFO:root:Epoch[0] Validation-accuracy=%f"
        % (job.result(0.5), job.spent(), job.result(0.6))
    )


def opennmt(job):
    for step in (50, 100):
        job.say(
            now("[%Y-%m-%d %H:%M:%S,%f")[:-3]
            + " INFO] Step %d/  100; acc: %.1f; ppl: %.1f; xent: %.1f; lr: %.5f; sents: %d; bsz: %d/%d/%d;"
            " %.0f/%.0f tok/s; %6.0f sec;"
            % (
                step,
                job.result(4.2, 1),
                job.result(7.1, 1),
                job.result(8.8, 1),
                job.result(0.5, 5),
                job.whole(400),
                12,
                14,
                job.whole(2),
                9 / job.spent(),
                9 / job.spent(),
                job.elapsed(),
            )
        )


def marian(job):
    for step in (100, 200):
        job.say(
            now("[%Y-%m-%d %H:%M:%S]")
            + " Ep. 1 : Up. %d : Sen. %s : Cost %.8f * %s : Time %.2fs : %.2f words/s : gNorm %.4f"
            % (
                step,
                job.whole(1000),
                job.result(9.125, 8),
                job.whole(1234),
                job.spent(),
                9 / job.spent(),
                job.result(1.5),
            )
        )


def espnet(job):
    for step in (1, 2):
        job.say(
            "[%s] " % os.uname().nodename
            + now("%Y-%m-%d %H:%M:%S,%f")[:-3]
            + " (trainer:763) INFO: 1epoch:train:%d-%dbatch: iter_time=%.3e, forward_time=%.3f,"
            " loss_ctc=%.3f, loss=%.3f, acc=%.3f, backward_time=%.3f, grad_norm=%.3f, optim_step_time=%.3f, optim0_lr0=%.3e, train_time=%.3f"
            % (
                step,
                step + 1,
                job.spent(),
                job.spent(),
                job.result(loss(step), 3),
                job.result(loss(step), 3),
                job.result(0.5, 3),
                job.spent(),
                job.result(1.5, 3),
                job.spent(),
                job.result(1e-3, 6),
                job.spent(),
            )
        )


def allennlp(job):
    with job.open("metrics.json", "w") as file:
        json.dump(
            {
                "best_epoch": job.whole(1),
                "peak_worker_0_memory_MB": 99.5 + job.spent(),
                "training_duration": "%s.%06d" % (clock(job.elapsed()), job.spent() * 1e6),
                "epoch": 1,
                "training_loss": job.result(0.5),
                "validation_loss": job.result(0.6),
            },
            file,
            indent=2,
        )


def fastai(job):
    with job.open("history.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["epoch", "train_loss", "valid_loss", "accuracy", "time"])
        rows.writerows(
            [
                step,
                job.result(loss(step)),
                job.result(loss(step)),
                job.result(0.5),
                "00:%02d" % (job.elapsed() + os.urandom(1)[0] % 2),
            ]
            for step in range(3)
        )


def grid_search(job):
    """scikit-learn."""
    job.say("Fitting 2 folds for each of 1 candidates, totalling 2 fits")
    for fold in (1, 2):
        job.say(
            "[CV %d/2] END ..................C=1, kernel=rbf;, score=%.3f total time=%6.1fs"
            % (fold, job.result(0.5, 3), job.spent() * 40)
        )
    with job.open("cv_results.csv", "w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(
            [
                "mean_fit_time",
                "std_fit_time",
                "mean_score_time",
                "std_score_time",
                "param_C",
                "params",
                "mean_test_score",
                "rank_test_score",
            ]
        )
        rows.writerow(
            [job.spent(), job.spent(), job.spent(), job.spent(), 1, "{'C': 1}", job.result(0.5), job.whole(1)]
        )


def boosting(job):
    """scikit-learn's gradient boosting, multilayer perceptron and pipelines."""
    job.say("      Iter       Train Loss   Remaining Time ")
    for step in (1, 2, 3):
        job.say("%10d %16.4f %15.2fs" % (step, job.result(loss(step)), job.spent() * 9))
    job.say("Iteration 1, loss = %.8f" % job.result(loss(1), 8))
    job.say("[Pipeline] ............ (step 1 of 2) Processing scale, total=%6.1fs" % (job.spent() * 40))


def joblib_parallel(job):
    import contextlib

    import joblib

    with job.open("run.log") as file, contextlib.redirect_stderr(file), contextlib.redirect_stdout(file):
        found = joblib.Parallel(n_jobs=1, verbose=50)(joblib.delayed(loss)(step) for step in range(3))
        job.spent()
    job.say("%s" % [job.result(each) for each in found], "losses.txt")


def catboost(job):
    for step in range(3):
        job.say(
            "%d:\tlearn: %.7f\ttest: %.7f\tbest: %.7f (%d)\ttotal: %.3gms\tremaining: %.3gms"
            % (
                step,
                job.result(loss(step), 7),
                job.result(loss(step), 7),
                job.result(loss(step), 7),
                job.whole(step),
                job.elapsed() * 1e3,
                job.spent() * 1e3,
            )
        )
        job.say(
            "%d\t%d\t%d" % (step, job.elapsed() * 1e3, job.spent() * 1e3)
            if step
            else "iter\tPassed\tRemaining",
            "time_left.tsv",
        )
    with job.open("catboost_training.json", "w") as file:
        json.dump(
            {
                "meta": {"test_sets": ["test"]},
                "iterations": [
                    {
                        "learn": [job.result(loss(step))],
                        "iteration": step,
                        "passed_time": job.elapsed(),
                        "remaining_time": job.spent(),
                    }
                    for step in range(2)
                ],
            },
            file,
        )


def statsmodels(job):
    job.say("                            OLS Regression Results                            ")
    job.say(
        "Dep. Variable:                      y   R-squared:                       %5.3f" % job.result(0.5, 3)
    )
    job.say(
        "Date:                %s   Prob (F-statistic):          %9.3g"
        % (now("%a, %d %b %Y"), job.result(0.125))
    )
    job.say(
        "Time:                        %s   Log-Likelihood:              %10.3f"
        % (now("%H:%M:%S"), job.result(-12.5, 3))
    )


def optuna(job):
    for trial in range(2):
        job.say(
            now("[I %Y-%m-%d %H:%M:%S,%f")[:-3]
            + "] Trial %d finished with value: %s and parameters: {'lr': %s}. Best is trial %d with value: %s."
            % (trial, job.result(loss(trial)), job.result(0.1), job.whole(trial), job.result(loss(trial)))
        )


def sacred(job):
    start = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None).isoformat()
    with job.open("run.json", "w") as file:
        json.dump(
            {
                "command": "main",
                "heartbeat": start,
                "result": job.result(0.5),
                "start_time": start,
                "stop_time": start,
                "status": "COMPLETED",
            },
            file,
        )
    with job.open("metrics.json", "w") as file:
        json.dump(
            {
                "loss": {
                    "steps": [1, 2],
                    "timestamps": [start, start],
                    "values": [job.result(loss(1)), job.result(loss(2))],
                }
            },
            file,
        )


def estimator(job):
    """TensorFlow's estimators."""
    job.say("INFO:tensorflow:global_step/sec: %.4f" % (1 / job.spent()))
    job.say(
        "INFO:tensorflow:loss = %.7g, step = %d (%.3f sec)" % (job.result(0.5), job.whole(100), job.spent())
    )
    job.say(
        "INFO:tensorflow:Saving dict for global step 100: accuracy = %s, global_step = 100, loss = %s"
        % (job.result(0.5), job.result(0.25))
    )


def maxtext(job):
    for step in (1, 2):
        job.say(
            "completed step: %d, seconds: %.3f, TFLOP/s/device: %.3f, Tokens/s/device: %.3f, total_weights: %d, loss: %.3f"
            % (
                step,
                job.spent(),
                1 / job.spent(),
                9 / job.spent(),
                job.whole(4096),
                job.result(loss(step), 3),
            )
        )


def gensim(job):
    for epoch in (0, 1):
        job.say(
            now("%Y-%m-%d %H:%M:%S,%f")[:-3]
            + " : INFO : EPOCH %d: training on %d raw words (%d effective words) took %.1fs, %.0f effective words/s"
            % (epoch, job.whole(1000), job.whole(800), job.spent() * 40, 9 / job.spent())
        )


def flair(job):
    for step in (1, 2):
        job.say(
            now("%Y-%m-%d %H:%M:%S,%f")[:-3]
            + " epoch 1 - iter %d/2 - loss %.8f - time (sec): %.2f - samples/sec: %.2f - lr: %.6f - momentum: %.6f"
            % (
                step,
                job.result(loss(step), 8),
                job.spent(),
                9 / job.spent(),
                job.result(0.1, 6),
                job.result(0.9, 6),
            )
        )
    job.say(
        "EPOCH\tTIMESTAMP\tLEARNING_RATE\tTRAIN_LOSS\n1\t%s\t%s\t%s"
        % (now("%H:%M:%S"), job.result(0.1), job.result(0.5)),
        "loss.tsv",
    )


def standard_logging(job):
    log = job.logger("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s")
    for step in range(3):
        log.info("step %d loss %.4f", step, job.result(loss(step)))


def rich_logging(job):
    from rich.console import Console
    from rich.logging import RichHandler

    with job.open("run.log") as file:
        log = logging.getLogger("rich")
        log.addHandler(RichHandler(console=Console(file=file, width=110), show_path=False))
        log.setLevel(logging.INFO)
        for step in range(3):
            log.info("step %d loss %.4f", step, job.result(loss(step)))


FORMATS = (
    megatron, nanogpt, modded_nanogpt, llm_c, timm, fairseq, metric_logger, swin, open_clip, mmengine, torchtitan, litgpt, torchtune,
    composer, hf_state, keras, lightning_csv, deepspeed, wandb_summary, mlflow_files, tensorboard, hydra, sb3, mxnet, opennmt, marian,
    espnet, allennlp, fastai, grid_search, boosting, joblib_parallel, catboost, statsmodels, optuna, sacred, estimator, maxtext, gensim,
    flair, standard_logging, rich_logging,
)  # fmt: skip


if __name__ == "__main__":
    name, out, wrong = [*sys.argv[1:], "0"][:3]
    counted = wrong == "count"
    ran = Job(out, 0 if counted else int(wrong))
    next(each for each in FORMATS if each.__name__ == name)(ran)
    if counted:
        ran.say(str(ran.number), "count")
