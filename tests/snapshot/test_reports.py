"""collect_env, nvidia-smi and capture.json: evidence about the machine."""

from __future__ import annotations

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.parsers import capture_json_report, collect_env, nvidia_smi
from reprobuild.snapshot.parsers.capture_json import DAMAGED
from tests.snapshot.samples import covered, written

REPORT = """<frozen runpy>:128: RuntimeWarning: 'torch.utils.collect_env' found in sys.modules
Collecting environment information...
PyTorch version: 2.5.1+cu124
Is debug build: False
CUDA used to build PyTorch: 12.4
ROCM used to build PyTorch: N/A

OS: Debian GNU/Linux 12 (bookworm) (x86_64)
Libc version: glibc-2.36

Python version: 3.11.2 (main, Nov 30 2024, 21:22:50) [GCC
12.2.0] (64-bit runtime)
GPU models and configuration:
GPU 0: NVIDIA H100
GPU 1: NVIDIA H100

Nvidia driver version: 550.54.15
cuDNN version: Probably one of the following:
/usr/lib/libcudnn.so.9.1.0
/usr/lib/libcudnn_ops.so.9.1.0
HIP runtime version: N/A

CPU:
Architecture:    x86_64
Model name:      AMD EPYC

Versions of relevant libraries:
[pip3] torch==2.5.1+cu124
[conda] torch     2.5.1+cu124      pypi_0    pypi
[conda] No relevant packages

ENV Variables:
CUDA_HOME=/usr/local/cuda
HF_TOKEN=hunter2
$ exit
"""


def test_a_report_of_collect_env() -> None:
    (report,), remarks = collect_env.parse(REPORT.encode())
    assert (report.python, report.torch, report.cuda, report.cudnn) == (
        "3.11.2",
        "2.5.1+cu124",
        "12.4",
        "9.1.0",
    )
    assert (report.gpus, report.driver) == (("NVIDIA H100", "NVIDIA H100"), "550.54.15")
    assert (report.os, report.libc) == ("Debian GNU/Linux 12 (bookworm) (x86_64)", "glibc-2.36")
    facts = {fact.name: fact.value for fact in report.facts}
    assert facts["Python version"] == "3.11.2 (main, Nov 30 2024, 21:22:50) [GCC\n12.2.0] (64-bit runtime)"
    assert facts["cpu: Model name"] == "AMD EPYC"
    assert facts["[conda] torch"] == "2.5.1+cu124 pypi_0 pypi"
    assert (facts["variable CUDA_HOME"], facts["variable HF_TOKEN"]) == ("/usr/local/cuda", None)
    assert "hunter2" not in str((report, remarks))
    assert all(remark.understood for remark in remarks)
    assert covered(report.facts, remarks) == written(REPORT.encode())
    assert str(report.place("Python version")) == "collect_env.txt:11"
    assert str(report.place("nothing")) == "collect_env.txt:1"


def test_what_is_no_line_of_a_report_is_listed() -> None:
    given = "prose\nPyTorch version: 1\n[pip3] torch==2.0\nerorr:\nBIOS M\n" + "x" * 30_000
    (report,), remarks = collect_env.parse(given.encode())
    assert [(remark.place.line, remark.understood) for remark in remarks] == [
        (1, False), (4, False), (5, False), (6, False), (3, False),
    ]  # fmt: skip
    assert remarks[-1].reason == "another torch than the report's own, 1"
    assert report.torch == "1"


def test_pieces_of_variables_are_not_kept() -> None:
    given = "PyTorch version: 2\nENV Variables:\nAPI_KEY=hunter2\nhunter3\n"
    reports, remarks = collect_env.parse(given.encode())
    assert "hunter" not in str((reports, remarks))
    assert [(r.place.line, r.understood) for r in remarks] == [(2, True), (4, False)]


def test_two_reports_and_none() -> None:
    reports, _ = collect_env.parse(b"PyTorch version: 1.0\nOS: A\nPyTorch version: 2.0\n")
    assert [(report.torch, report.os) for report in reports] == [("1.0", "A"), ("2.0", "")]
    reports, remarks = collect_env.parse(b"nothing of it\n")
    assert (reports, remarks[-1].reason) == ((), "not a report of collect_env")
    assert collect_env.parse(b"")[1][0].reason.startswith("the file is empty")


def test_sections_of_vllm() -> None:
    given = (
        "==============================\n        System Info\n==============================\n"
        "PyTorch version              : 2.7\nGPU Topology:\n\tGPU0 CPU\nGPU0\t X\n\nCPU:\nApple M1\nL1d=9\n"
        "CANN:\npackage_name=Ascend-cann-toolkit\nvLLM Build Flags:\nCUDA Archs: Not Set; ROCm: Disabled\n"
    )
    (report,), remarks = collect_env.parse(given.encode())
    facts = {fact.name: fact.value for fact in report.facts}
    assert (facts["cpu: Model name"], facts["cpu: L1d"]) == ("Apple M1", "9")
    assert facts["cann: package_name"] == "Ascend-cann-toolkit"
    assert facts["CUDA Archs"] == "Not Set; ROCm: Disabled"
    assert [r.place.line for r in remarks if not r.understood] == []


TABLE = """Mon Sep 14 16:41:42 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 580.95.05              Driver Version: 580.95.05      CUDA Version: 13.0     |
|=========================================+========================+======================|
|   0  NVIDIA L40                     On  |   00000000:51:00.0 Off |                    0 |
|   1  NVIDIA GeForce RTX 3060 ...  WDDM  |   00000000:01:00.0 Off |                  N/A |
"""
LOG = """==============NVSMI LOG==============

Driver Version                            : 535.247.01
CUDA Version                              : 12.2
Attached GPUs                             : 1
GPU 00000000:07:00.0
    Product Name                          : Tesla V100
    MIG Mode
        Current                           : N/A
"""


def test_a_table_of_nvidia_smi() -> None:
    (report,), remarks = nvidia_smi.parse(TABLE.encode())
    assert (report.driver, report.cuda) == ("580.95.05", "13.0")
    assert report.gpus == ("NVIDIA L40", "NVIDIA GeForce RTX 3060 ...")
    strange = [(remark.place.line, remark.reason) for remark in remarks if not remark.understood]
    assert strange == [(6, "nvidia-smi cut this name")]
    assert covered(report.facts, remarks) == written(TABLE.encode())


def test_newer_heads_lists_and_parts() -> None:
    head = "| NVIDIA-SMI 610.43.02     KMD Version: 610.43.02     CUDA UMD Version: 13.3     |\n"
    part = "GPU 0: Tesla V100 (UUID: GPU-e50d)\n  MIG 1g.5gb Device 0: (UUID: MIG-5)\n"
    (report,), remarks = nvidia_smi.parse((head + part).encode())
    assert (report.driver, report.cuda, report.gpus) == ("610.43.02", "13.3", ("Tesla V100",))
    assert [remark.reason for remark in remarks] == ["a part of a GPU"]


def test_what_does_not_print_is_escaped() -> None:
    (report,), _ = nvidia_smi.parse(
        "GPU 0: Te\ufeffsla (UUID: GPU-e50d)\n=NVSMI LOG=\na\u202eb : \ufeffc".encode()
    )
    assert report.gpus == ("Te\\ufeffsla",)
    assert [(fact.name, fact.value) for fact in report.facts[1:]] == [("a\\u202eb", "\\ufeffc")]


def test_a_log_of_nvidia_smi() -> None:
    (report,), remarks = nvidia_smi.parse(LOG.encode())
    assert (report.driver, report.cuda, report.gpus) == ("535.247.01", "12.2", ("Tesla V100",))
    assert [fact.value for fact in report.facts if fact.name == "Attached GPUs"] == ["1"]
    assert [remark.reason for remark in remarks] == ["a header", "a heading", "a heading"]


@pytest.mark.parametrize(
    ("line", "understood", "reason"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate", False, "nvidia-smi failed: it saw no GPU"),
        ("Every 2.0s: nvidia-smi     host: Sun Sep  8", True, "a header"),
        ("$ nvidia-smi", True, "a shell prompt"),
        ("Driver Version : 1", False, "not a line of nvidia-smi"),
        ("y" * 5000, False, "too long for a line of nvidia-smi"),
    ],
)
def test_what_is_no_gpu(line: str, understood: bool, reason: str) -> None:
    reports, (remark,) = nvidia_smi.parse(line.encode())
    assert (reports, remark.understood, remark.reason) == ((), understood, reason)


def test_the_interpreter_of_capture_json() -> None:
    given = b'{\n "capture": 1,\n "python": {"version": "3.11.5+", "implementation": "CPython", "libc": "glibc 2.36"}}'
    (report,), remarks = capture_json_report.parse(given)
    assert (report.kind, report.python, report.libc, remarks) == ("capture", "3.11.5", "glibc 2.36", ())
    assert str(report.place("Python version")) == "capture.json:3"
    (report,), _ = capture_json_report.parse(given.replace(b"CPython", b"PyPy"))
    assert report.python == ""
    assert capture_json_report.parse(b'{"capture": 1, "python": null}') == ((), ())


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b'{"capture": 2}', "read it with the reprobuild that took it, or a newer one"),
        (b"{}", DAMAGED),
        (b'{"capture": 1, "python": {"version": 3}}', DAMAGED),
        (b'{"capture": 1, "python": {"version": "3.11.2; rm"}}', DAMAGED),
        (b'{"capture": 1, "python": {}}', DAMAGED),
        (b'{"capture": 1, "python": {"version": "3.11.2", "libc": "\xef("}}', DAMAGED),
        (b'{"capture": 1, "x": ' + b"[" * 100_000, DAMAGED),
        (b'{"capture": 1, "repositories": [], "repositories": []}', DAMAGED),
        (b'{"capture": 1, "python": null, "p\\u0079thon": null}', DAMAGED),
    ],
)
def test_a_damaged_capture_json(data: bytes, hint: str) -> None:
    with pytest.raises(SnapshotError) as err:
        capture_json_report.parse(data)
    assert err.value.hint == hint
