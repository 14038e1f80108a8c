"""`show` says on which other system a snapshot was taken, and which GPUs that are not NVIDIA's it needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.report.machine import machine_lines
from reprobuild.report.text import render_snapshot
from reprobuild.snapshot.read import read_snapshot

REPORT = (
    "PyTorch version: 2.4.1\nIs debug build: False\nCUDA used to build PyTorch: N/A\n"
    "ROCM used to build PyTorch: {}\n\nOS: {}\n"
)


def lines(folder: Path, **files: str) -> list[str]:
    for name, text in files.items():
        (folder / f"{name.replace('_', '-')}.txt").write_text(text)
    snapshot = read_snapshot(folder)
    found = machine_lines(snapshot)
    assert all(line in render_snapshot(snapshot).splitlines() for line in found)
    return found


@pytest.mark.parametrize(
    ("files", "start"),
    [
        ({"requirements": "six==1.16.0\npywin32==306\n"}, "captured on   Windows: pywin32 (requirements.txt:2); "),
        ({"requirements": "tool @ file:///C:/w/tool-1.0-cp38-cp38-win_amd64.whl\n"}, "captured on   Windows: tool "),
        ({"conda_list": "vs2015_runtime 14.16.27012 hf0eaf9b_3\n"}, "captured on   Windows: 1 packages of conda "),
        ({"requirements": "-e c:\\users\\ada\\tool\n"}, "captured on   Windows: tool "),
        ({"requirements": "appnope==0.1.4\n"}, "captured on   macOS: appnope (requirements.txt:1); "),
        ({"requirements": "-e /Users/ada/tool\n"}, "captured on   macOS: tool "),
        ({"conda_explicit": "@EXPLICIT\nhttps://conda.example/main/win-64/zlib-1.3-0.conda\n"},
         "captured on   Windows: 1 packages of conda (conda-explicit.txt:2); "),
        ({"collect_env": REPORT.format("N/A", "Microsoft Windows 11 Pro")},
         "captured on   Windows: Microsoft Windows 11 Pro (collect-env.txt:6); "),
        ({"collect_env": REPORT.format("N/A", "macOS 14.5 (arm64)")},
         "captured on   macOS: macOS 14.5 (arm64) (collect-env.txt:6); "),
        ({"collect_env": REPORT.format("6.1.4", "Ubuntu 22.04")},
         "ROCm          torch was built with ROCm 6.1.4 (collect-env.txt:4): it needs GPUs of AMD"),
        ({"requirements": "torch==2.4.1+rocm6.1\n"},
         "ROCm          torch 2.4.1+rocm6.1 is for ROCm 6.1 (requirements.txt:1): it needs GPUs of AMD"),
        ({"requirements": "te==0.4.0\ntorch_npu==2.1.0\n"},
         "Ascend        torch_npu (requirements.txt:2); te (requirements.txt:1): it needs NPUs of Huawei"),
        ({"env": "ASCEND_HOME_PATH=/usr/local/Ascend/latest\n"}, "Ascend        ASCEND_HOME_PATH (env.txt:1): "),
    ],
)  # fmt: skip
def test_another_machine_is_said_with_its_place(files: dict[str, str], start: str, tmp_path: Path) -> None:
    (line,) = lines(tmp_path, **files)
    assert line.startswith(start)


@pytest.mark.parametrize(
    "files",
    [
        {"requirements": "torch==2.4.1+cu121\ncolorama==0.4.6\nte==0.4.0\n-e /home/ada/tool\n"},
        # conda's own paths are of the machine that built a package, whatever system the environment is of.
        {"requirements": "absl-py @ file:///C:/ci/absl-py_1600290345082/work\n"},
        {"collect_env": REPORT.format("N/A", "Ubuntu 22.04.4 LTS (x86_64)")},
        {"conda_explicit": "@EXPLICIT\nhttps://conda.example/main/linux-64/zlib-1.3-0.conda\n"},
    ],
)
def test_linux_with_cuda_is_nothing_to_say(files: dict[str, str], tmp_path: Path) -> None:
    assert lines(tmp_path, **files) == []


def test_many_signs_are_counted(tmp_path: Path) -> None:
    names = ("pywin32", "pywinpty", "wincertstore", "wmi", "comtypes")
    (line,) = lines(tmp_path, requirements="".join(f"{name}==1\n" for name in names))
    assert line.startswith(
        "captured on   Windows: pywin32 (requirements.txt:1); pywinpty (requirements.txt:2); "
        "wincertstore (requirements.txt:3) and 2 more; the image is Linux: "
    )
