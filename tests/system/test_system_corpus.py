"""What of real package lists is the host's, counted for each class: looked at once by a person, line by line.

The lists stand in the directory that REPROBUILD_CORPUS names, and are not ours to copy.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from reprobuild.resolve.system.system_rules import find_exclusion
from reprobuild.snapshot.parsers import apt

CORPUS = Path(os.environ["REPROBUILD_CORPUS"])
# Of each list: how many packages each class would not ask for.
COUNTS: dict[str, dict[str, int]] = {
    "chinese_raspbian_hplip.txt": {"desktop": 3},
    "colab_cpu_2022-09_bionic.txt": {"desktop": 3, "driver": 20, "init": 6, "kernel": 6},
    "colab_cpu_2023-08_jammy.txt": {"base": 1, "daemon": 1, "desktop": 1, "init": 6, "kernel": 4},
    "colab_gpu_2026-08_jammy.txt": {"base": 1, "daemon": 3, "desktop": 2, "init": 6, "kernel": 4},
    "colab_tpu_2024.txt": {"base": 1, "daemon": 1, "desktop": 1, "init": 6, "kernel": 4},
    "cudnn_grep_noheader.txt": {},
    "french_debian12_php.txt": {},
    "german_jammy_python3min.txt": {},
    "machinery_wide_archqualified.txt": {"daemon": 1},
    "ntp_focal.txt": {"daemon": 1},
    "nvidia_focal_autoremovable_indent2.txt": {"driver": 10},
    "paperspace_residual_config.txt": {"container": 2},
    "rc_2005_truncated_columns.txt": {},
    "rocm_suite_with_space.txt": {"kernel": 1},
}


def test_every_list_is_counted() -> None:
    files = [*(CORPUS / "apt_list").iterdir(), *(CORPUS / "dpkg_l").iterdir()]
    assert {path.name for path in files} == set(COUNTS)


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_the_classes_of_a_real_list(name: str) -> None:
    (path,) = CORPUS.glob(f"*/{name}")
    packages, _ = apt.parse(path.read_bytes())
    found = Counter(rule.class_ for package in packages if (rule := find_exclusion(package.name)))
    assert dict(found) == COUNTS[name]
