"""The GPUs that NVIDIA's driver reports."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from reprobuild.errors import EngineError
from reprobuild.infra import proc
from reprobuild.infra.display import display_text
from reprobuild.resolve.cuda.rules import DriverGpu, capability_of

# A driver before 510 does not know `compute_cap`, and rejects the whole query.
_QUESTIONS = ("index,uuid,name,driver_version,compute_cap", "index,uuid,name,driver_version")
_SECONDS = 60  # a driver that has to wake many GPUs takes long


class Gpus(Struct, frozen=True, kw_only=True):
    """NVIDIA's GPUs of a machine, and their driver.

    Both are empty if there are none, or if the driver does not answer.
    """

    driver: str = ""
    found: tuple[DriverGpu, ...] = ()


def query_gpus(env: Mapping[str, str]) -> Gpus:
    """Return the GPUs that `nvidia-smi` reports, without any change."""
    for fields in _QUESTIONS:
        argv = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
        try:
            output = proc.run(argv, env=env, purpose="ask for the GPUs", timeout=_SECONDS).decode(
                errors="replace"
            )
        except proc.ProcessFailedError:  # without a driver, or too old for the query
            continue
        except EngineError:  # absent, or a driver that hangs
            return Gpus()
        rows = [[display_text(cell.strip()) for cell in line.split(",")] for line in output.splitlines()]
        whole = [row for row in rows if len(row) == fields.count(",") + 1]
        if whole:
            return Gpus(driver=whole[0][3], found=tuple(_gpu(row) for row in whole))
    return Gpus()


def _gpu(row: list[str]) -> DriverGpu:
    index, uuid, name, _, *rest = row
    capability = rest[0] if rest and re.fullmatch(r"\d{1,3}\.\d", rest[0]) else ""
    return DriverGpu(index=index, uuid=uuid, name=name, capability=capability or capability_of(name))
