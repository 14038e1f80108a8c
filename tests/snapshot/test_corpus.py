"""Artefacts as people published them: every line accounted for, and the known oddities read right.

They stand in the directory that REPROBUILD_CORPUS names, and are not ours to copy.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.snapshot.model import Requirement
from reprobuild.snapshot.parsers import env, environment_yml
from reprobuild.snapshot.read import read_snapshot
from reprobuild_portable import secrets
from tests.snapshot.counts import count
from tests.snapshot.oddities import PARSERS
from tests.snapshot.oddity_table import ODDITIES
from tests.snapshot.samples import covered, written

CORPUS = Path(os.environ["REPROBUILD_CORPUS"])
NAMES = {
    "pip_freeze": "requirements.txt", "apt_list": "apt-packages.txt", "dpkg_l": "dpkg-l.txt", "env_dump": "env.txt",
    "module_list": "modules.txt", "git_diff": "x.diff", "conda": "conda.txt", "collect_env": "collect_env.txt",
    "nvidia_smi": "nvidia-smi.txt",
}  # fmt: skip
FILES = sorted(p for kind in NAMES for p in (CORPUS / kind).iterdir())


def parser(path: Path) -> Callable[[bytes], Any]:
    return environment_yml.parse if path.suffix == ".yml" else PARSERS[path.parent.name]


def read(file: str) -> tuple[Any, Any]:
    path = CORPUS / file
    found: tuple[Any, Any] = parser(path)(path.read_bytes())
    return found


def requirement(file: str, name: str) -> Requirement:
    return next(r for r in read(f"pip_freeze/{file}")[0] if r.name == name)


def test_there_are_files() -> None:
    # `runs` holds files of trackers and package managers, which no parser of captured files reads.
    folders = {path.name for path in CORPUS.iterdir() if path.is_dir()} - {"runs"}
    assert {path.parent.name for path in FILES} == set(NAMES) == folders
    assert len(FILES) > 90


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_every_line_is_accounted_for(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    values, remarks = parser(path)(data)
    count(path.parent.name, values, remarks)
    if path.parent.name == "git_diff":
        assert values[0].content == data
        assert values[0].files
    else:
        assert covered(values, remarks) == written(data)
    by_suffix = {".yml": "environment.yml", ".lock": path.name}
    (tmp_path / by_suffix.get(path.suffix, NAMES[path.parent.name])).write_bytes(data)
    assert msgspec.json.encode(read_snapshot(tmp_path))


def test_every_oddity_of_the_list_is_in_the_table() -> None:
    text = (CORPUS / "README.md").read_text(encoding="utf-8").partition("## Distinct syntactic oddities")[2]
    kind, listed = "", set()
    for line in text.split("\n"):
        if line.startswith("### "):
            kind = line[4:].strip()
        elif match := re.match(r"- (.*) \(\d+/\d+\): `", line):
            listed.add((kind, match[1]))
    assert len(listed) > 100
    assert listed == {(kind, label) for kind, rows in ODDITIES.items() for label in rows}


@pytest.mark.parametrize("path", FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_false_alarm(path: Path) -> None:
    assert secrets.find(path.read_bytes()) == []


@pytest.mark.parametrize(
    ("file", "kinds"),
    [
        ("colab_cpu_2022-09_py37.txt", {"index": 398, "archive": 6}),
        ("colab_gpu_2026-08_py313.txt", {"index": 697, "archive": 5, "vcs": 1}),
        ("cyclone_utf16le_bom_crlf.txt", {"index": 68}),
        ("deeppurpose_editable_comment_without_e.txt", {"index": 5, "editable": 2}),
        ("moma_ppo_conda_forge_editables.txt", {"index": 60, "conda": 24, "vcs": 2, "editable": 2}),
        ("phelas_conda_virtualenv.txt", {"index": 27, "conda": 4}),
        ("prophet_windows_conda_doublespaced.txt", {"index": 83, "conda": 47, "archive": 1}),
        ("uv_freeze_areal_head.txt", {"index": 184, "editable": 1, "archive": 1, "vcs": 1}),
        ("ultralytics_jetson_wheels_grep.txt", {"index": 1, "archive": 4, "editable": 1}),
        ("piptools_compiled_via_comments.txt", {"index": 17, "directory": 1}),
    ],
)
def test_kinds_of_requirements(file: str, kinds: dict[str, int]) -> None:
    assert Counter(r.kind for r in read(f"pip_freeze/{file}")[0]) == kinds


def test_freeze_oddities() -> None:
    torch = requirement("colab_cpu_2023-07_py310_sha256.txt", "torch")
    assert (torch.version, torch.sha256 is not None, "%2B" in (torch.url or "")) == (
        "2.0.1+cu118",
        True,
        True,
    )
    sglang = requirement("sglang_editable_subdir_cu130.txt", "sglang")
    assert (sglang.kind, sglang.subdirectory, len(sglang.commit or "")) == ("editable", "python", 40)
    d4rl = requirement("moma_ppo_conda_forge_editables.txt", "D4RL")
    assert (d4rl.url or "").startswith("git+ssh://git@")
    assert requirement("vscode_ubuntu_focal_tripleeq.txt", "distro-info").version == "0.23ubuntu1"
    assert requirement("py27_precise_fixme_svn.txt", "distribute").version == "0.6.24dev-r0"
    assert requirement("te_pr_requirements_pinned.txt", "regex").version is None
    assert requirement("swe_probe_indented_win_editable.txt", "Werkzeug").version == "2.3.0.dev0"
    assert requirement("uv_freeze_areal_head.txt", "flash-attn").version == "2.8.3+cu128torch2.9"
    ipykernel = requirement("prophet_windows_conda_doublespaced.txt", "ipykernel")
    assert (ipykernel.kind, ipykernel.version) == ("conda", "5.3.4")


@pytest.mark.parametrize(
    ("file", "marks", "not_installed"),
    [
        (
            "apt_list/colab_cpu_2022-09_bionic.txt",
            {"automatic": 1163, "manual": 200, "upgradable": 33, "auto-removable": 1},
            0,
        ),
        ("apt_list/colab_tpu_2024.txt", {"automatic": 1003, "manual": 204}, 0),
        ("apt_list/chinese_raspbian_hplip.txt", {"manual": 2, "automatic": 1}, 0),
        ("apt_list/french_debian12_php.txt", {"automatic": 5}, 0),
        ("apt_list/german_jammy_python3min.txt", {"automatic": 1}, 1),
        ("apt_list/nvidia_focal_autoremovable_indent2.txt", {"auto-removable": 11, "automatic": 1}, 0),
        ("apt_list/paperspace_residual_config.txt", {"manual": 2}, 1),
        ("dpkg_l/rc_2005_truncated_columns.txt", {}, 16),
        ("dpkg_l/machinery_wide_archqualified.txt", {"manual": 2}, 1),
    ],
)  # fmt: skip
def test_packages(file: str, marks: dict[str, int], not_installed: int) -> None:
    packages, remarks = read(file)
    assert Counter(p.mark for p in packages) == marks
    assert sum("not installed" in r.reason for r in remarks) == not_installed
    assert all(r.understood for r in remarks)


def test_package_oddities() -> None:
    packages, _ = read("apt_list/rocm_suite_with_space.txt")
    assert packages[-1].suites == ("Ubuntu 16.04",)
    packages, _ = read("apt_list/colab_cpu_2022-09_bionic.txt")
    curl = next(p for p in packages if p.name == "curl")
    assert (curl.suites, curl.version, curl.upgrade) == ((), "7.58.0-2ubuntu3.19", "7.58.0-2ubuntu3.20")


@pytest.mark.parametrize(
    ("file", "count", "first", "last"),
    [
        ("alliance_inactive_reloaded.txt", 0, None, None),
        ("nomodules_tcl.txt", 0, None, None),
        ("aurora_pbs_lmod_frameworks.txt", 14, "gcc-runtime/13.3.0-ghotoln", "frameworks/2025.2.0"),
        ("betzy_lmod_22ba613.txt", 54, "StdEnv", "XML-LibXML/2.0209-GCCcore-12.3.0"),
        ("cori_cray_xc.txt", 24, "modules/3.2.11.4", "cmake/3.14.4"),
        ("dstorm_flattened_oneline.txt", 6, "cluster-tools/v1.0", "slurm-tools/v1.0"),
        ("flux_tclmod_torque.txt", 6, "moab", "use.own"),
        ("jhpce_lmod_prompt.txt", 13, "matlab/R2019a", "conda_R/3.6"),
        ("lisa_tcl4_easybuild_tf.txt", 32, "2020", "TensorFlow/2.1.0-foss-2019b-Python-3.7.4-CUDA-10.1.243"),
    ],
)
def test_module_lists(file: str, count: int, first: str | None, last: str | None) -> None:
    found, remarks = read(f"module_list/{file}")
    names = [m.name + (f"/{m.version}" if m.version else "") for m in found]
    assert (len(names), names[:1], names[-1:]) == (count, [first] if first else [], [last] if last else [])
    assert all(r.understood for r in remarks)


@pytest.mark.parametrize(
    ("file", "variables", "functions", "suspect"),
    [
        ("arc_h100_conda_truncated_head.txt", 26, 0, {"CFLAGS", "CMAKE_ARGS"}),
        ("betzy_slurm_login_2025_full.txt", 332, 3, set()),
        ("derecho_pbs_lmod_326718a.txt", 361, 2, set()),
        ("k8s_ashu_pod_env.txt", 18, 0, set()),
        ("k8s_twcc_ngc_2006_export.txt", 73, 0, set()),
        ("lsf7_openmpi_job_env.txt", 68, 0, {"LSF_TS_OPTIONS"}),
        ("oci_nccl_env_txt.txt", 12, 0, set()),
        ("sherlock_slurm_apptainer_truncated_values.txt", 7, 9, set()),
        ("su_printenv_bash_func_scl.txt", 14, 2, set()),
        ("traverse_slurm_grep_sorted.txt", 34, 0, set()),
    ],
)
def test_environments(file: str, variables: int, functions: int, suspect: set[str]) -> None:
    found, remarks = read(f"env_dump/{file}")
    assert len(found) == variables
    assert sum(r.reason == "a shell function" for r in remarks) == functions
    assert {v.name for v in found if v.suspect} == suspect
    assert not any(v.secret for v in found)


def test_environment_oddities() -> None:
    found = {v.name: v for v in read("env_dump/k8s_twcc_ngc_2006_export.txt")[0]}
    assert found["TORCH_CUDA_ARCH_LIST"].value == "5.2 6.0 6.1 7.0 7.5 8.0+PTX"
    assert found["NVIDIA_REQUIRE_CUDA"].value == "cuda>=9.0"
    found = {v.name: v for v in read("env_dump/oci_nccl_env_txt.txt")[0]}
    assert (found["NCCL_IB_HCA"].value, found["NCCL_BUFFSIZE"].value) == ("^mlx5_4,mlx5_5", "")


@pytest.mark.parametrize("file", ["betzy_slurm_login_2025_full.txt", "derecho_pbs_lmod_326718a.txt"])
@pytest.mark.parametrize("order", [None, str.casefold])
def test_real_dumps_sorted_as_the_recipe_does(file: str, order: Callable[[str], str] | None) -> None:
    rows = (CORPUS / "env_dump" / file).read_text().split("\n\n")[-1].splitlines()
    whole = {v.name: v.value for v in env.parse("\n".join(rows).encode())[0]}
    data = "\n".join(sorted(rows, key=order)).encode()
    torn, remarks = env.parse(data)
    assert covered(torn, remarks) == written(data)
    trusted = {v.name: v.value for v in torn if not v.suspect}
    assert all(whole[name] == value for name, value in trusted.items())
    assert {"PATH", "LD_LIBRARY_PATH", "HOME", "LOADEDMODULES"} <= trusted.keys()
    assert len(trusted) > len(whole) / 3


def test_diff_oddities() -> None:
    files = {f.new_path: f for f in read("git_diff/gitpython_unsafe_paths.diff")[0][0].files}
    assert {
        "path/with\nnewline",
        "path/💩.txt",
        "path/ending in a space ",
        'b/"with even more quotes"',
    } <= files.keys()
    change = read("git_diff/gitpython_change_in_type.diff")[0][0].files
    assert [(f.old_path, f.new_path, f.new_mode) for f in change] == [
        ("this", None, None),
        (None, "this", "120000"),
    ]
    rename = read("git_diff/gogitdiff_rename_modify.diff")[0][0].files[0]
    assert (rename.old_path, rename.new_path, rename.old_blob) == ("file.txt", "numbers.txt", "c9e9e05")
    assert len(read("git_diff/gitpython_show_noeol.diff")[0][0].files) == 10
    _, remarks = read("git_diff/gitpython_submodule_index.diff")
    assert ["submodule" in r.reason for r in remarks] == [True]
    _, remarks = read("git_diff/qemu_binaryfiles_submodule_tail.txt")
    assert [r.reason for r in remarks if r.understood] == ["the signature of a mail"] * 2


@pytest.mark.parametrize(
    ("file", "packages", "pip", "strange"),
    [
        ("conda_list_empty_env.txt", 0, 0, 0),
        ("conda_list_url_channel.txt", 1, 0, 0),
        ("conda_list_windows_commented_cu118.txt", 58, 49, 0),
        ("condalock_explicit_win64.lock", 6, 0, 0),
        ("gnot_env_export_nobuilds.yml", 265, 59, 0),
        ("pangeo_explicit_env_hash_2020.lock", 172, 0, 0),
        ("pangeo_pkg_list_IT_glitch.txt", 331, 0, 1),
        ("repo2docker_env_frozen_py3.yml", 121, 0, 0),
        ("repo2docker_explicit_md5_py314.lock", 173, 0, 0),
    ],
)
def test_conda(file: str, packages: int, pip: int, strange: int) -> None:
    found, remarks = read(f"conda/{file}")
    assert (len(found), sum(p.channel == "pypi" for p in found)) == (packages, pip)
    assert sum(not r.understood for r in remarks) == strange
    assert all(p.md5 for p in found) or not file.endswith(".lock")


@pytest.mark.parametrize(
    ("file", "told", "strange"),
    [
        ("dstack_vllm_mi300x_indent4.txt", ("3.10.14", "2.4.1+rocm6.1", "", "", 1, ""), 0),
        ("macos_runtimewarning_prompt.txt", ("3.10.13", "2.2.2", "", "", 0, ""), 3),
        ("rocm62_wsl_7900xtx.txt", ("3.12.8", "2.5.1+rocm6.2", "", "", 1, ""), 0),
        (
            "searchsorted_nightly_3gpu.txt",
            ("3.9.12", "1.14.0.dev20221202+cu117", "11.7", "8.4.1", 3, "515.86.01"),
            0,
        ),
        ("torch213_cu130_two_gpu.txt", ("3.12.3", "2.13.0+cu130", "13.0", "9.1.0", 2, "580.105.08"), 1),
        ("vllm_ascend_openeuler_truncated.txt", ("3.11.14", "2.8.0+cpu", "", "", 0, ""), 1),
        ("windows_15_yesno.txt", ("3.7", "1.5.0+cu101", "10.1", "", 1, "426.25"), 0),
        ("windows_git_bash_170.txt", ("3.8", "1.7.0", "10.2", "", 1, "451.67"), 2),
    ],
)
def test_reports_of_collect_env(file: str, told: tuple[object, ...], strange: int) -> None:
    (report,), remarks = read(f"collect_env/{file}")
    assert told == (
        report.python, report.torch, report.cuda, report.cudnn, len(report.gpus), report.driver,
    )  # fmt: skip
    assert sum(not r.understood for r in remarks) == strange


@pytest.mark.parametrize(
    ("file", "driver", "cuda", "gpus", "strange"),
    [
        ("dgx_v100_query_q.txt", "535.247.01", "12.2", ("Tesla V100-DGXS-32GB",) * 4, 0),
        ("l40_580.txt", "580.95.05", "13.0", ("NVIDIA L40",), 0),
        ("watch_header_1080_cut.txt", "555.58.02", "12.5", ("NVIDIA GeForce GTX 1080",) * 2, 0),
        ("windows_wddm_581.txt", "581.95", "13.0", ("NVIDIA GeForce RTX 3060 ...",), 1),
    ],
)
def test_reports_of_nvidia_smi(
    file: str, driver: str, cuda: str, gpus: tuple[str, ...], strange: int
) -> None:
    (report,), remarks = read(f"nvidia_smi/{file}")
    assert (report.driver, report.cuda, report.gpus) == (driver, cuda, gpus)
    assert sum(not r.understood for r in remarks) == strange


def test_a_driver_that_did_not_answer() -> None:
    reports, remarks = read("nvidia_smi/driver_failed.txt")
    assert (reports, [r.understood for r in remarks]) == ((), [True, False])
