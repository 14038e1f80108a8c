"""Arrays in formats whose containers hold the time: npz, gzip; and safetensors."""

import gzip
import json
import struct
import time
import zipfile

import numpy

values = numpy.random.default_rng(3).normal(size=(4, 5)).astype("f4")
header = json.dumps({"w": {"dtype": "F32", "shape": [4, 5], "data_offsets": [0, 80]}}).encode()
with open("model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(header)) + header + values.tobytes())
numpy.save("values.npy", values)
with zipfile.ZipFile("arrays.npz", "w", zipfile.ZIP_DEFLATED) as packed:
    with open("values.npy", "rb") as plain:
        moment = (1980 + time.time_ns() % 100, *time.localtime()[1:6])
        packed.writestr(zipfile.ZipInfo("values.npy", moment), plain.read())
with (
    open("packed.jsonl.gz", "wb") as raw,
    gzip.GzipFile("packed", "wb", fileobj=raw, mtime=time.time_ns() % 10**9) as file,
):
    for step in range(5):
        file.write(json.dumps({"step": step, "loss": float(values[0, step])}).encode() + b"\n")
