"""What every log has: times, the host, the process, a run's own name, a progress bar; its lengths of time are ignored."""

import csv
import datetime
import json
import logging
import os
import random
import socket
import sys
import time
import uuid

import tiny

logging.basicConfig(
    filename="run.log", format="%(asctime)s pid %(process)d %(levelname)s %(message)s", level=logging.INFO
)
began = time.perf_counter()
random.Random(7).shuffle(order := list(range(64)))
with (
    open("run.log", "a") as log,
    open("metrics.jsonl", "w") as metrics,
    open("table.csv", "w", newline="") as rows,
):
    table = csv.writer(rows)
    table.writerow(["step", "loss", "elapsed"])
    log.write("%s host %s, python %s\n" % (time.ctime(), socket.gethostname(), sys.version.split()[0]))
    for step in range(5):
        logging.info("step %d", step)
        tiny.work(2000)
        loss = 1.0 / (step + 1)
        elapsed = time.perf_counter() - began
        record = {"step": step, "loss": loss, "time": time.time(), "step_time_ms": elapsed * 1000}
        record.update(samples_per_second=64 / elapsed, date=datetime.datetime.now().isoformat())
        record.update(hostname=socket.gethostname(), pid=os.getpid(), run_id=uuid.uuid4().hex)
        metrics.write(json.dumps(record) + "\n")
        table.writerow([step, loss, elapsed])
        log.write(
            "step %d loss=%.6f elapsed: %.4fs (%.1f per s)\n" % (step, loss, elapsed, (step + 1) / elapsed)
        )
        for part in range(1 + time.perf_counter_ns() % 5):
            log.write("\r %d%%" % (part * 20))
        log.write("\r100%|##########| 5/5\n")
    log.write(
        "%s saved in %.2f seconds\n" % (datetime.datetime.now(datetime.timezone.utc).isoformat(), elapsed)
    )
tiny.train(order)
