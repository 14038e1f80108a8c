"""The check of a machine against a verdict's platform. Pure.

Facts in, findings out. `verify.platform` decides which facts change results; this module has only those that
a machine reports without the image.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reprobuild.doctor.model import DoctorFinding, Host
from reprobuild.report.difference import safe_text
from reprobuild.verify.determinism.document import flatten_fingerprint
from reprobuild.verify.determinism.platform import explains_difference
from reprobuild.verify.verdict import Deviation, Verdict

_SHOWN = 200
# Processor flags that each level of ATen's kernels needs, the highest first:
# https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/DispatchStub.cpp
_LEVELS = {"AVX512": {"avx512vl", "avx512bw", "avx512dq", "fma"}, "AVX2": {"avx2", "fma"}}


def judge_platform(verdict: Verdict | None, host: Host) -> Iterator[DoctorFinding]:
    """Yield the facts that differ from the verdict's.

    Each finding states the consequence for digests.
    """
    if verdict is None:
        yield DoctorFinding(
            name="verdict", state="unknown", seen="there is no verdict.json beside the lock",
            meaning="whether this platform gives the same numbers is not known",
            fix="copy verdict.json beside reprobuild.lock",
        )  # fmt: skip
        return
    compared = False
    for smoke in verdict.smoke:
        then, now = dict(flatten_fingerprint(smoke.fingerprint)), read_machine_facts(host)
        if smoke.device == "cuda" and not host.gpus.found:
            continue  # the missing GPU is reported already
        shared = sorted(then.keys() & now.keys())
        compared |= bool(shared)
        for name in shared:
            item = Deviation(scope=smoke.device, name=name, then=then[name], now=now[name])
            if item.then != item.now and explains_difference(smoke.device, item):
                yield DoctorFinding(
                    name=f"platform: {smoke.device}", state="warning",
                    seen=f"{name} was {safe_text(then[name], _SHOWN)}, and is {safe_text(now[name], _SHOWN)} here",
                    meaning="digests may be others than the verdict's: expected on another platform, and no drift",
                    fix="`reprobuild verify OUT --against verdict.json` tells; for equal bytes take equal hardware",
                )  # fmt: skip
    if not compared:
        yield DoctorFinding(
            name="verdict", state="unknown", seen="it names no platform: no determinism test was run",
            meaning="whether this platform gives the same numbers is not known",
            fix="run `reprobuild verify OUT` where the image is, and copy its verdict.json",
        )  # fmt: skip
        return
    yield DoctorFinding(
        name="verdict", state="ok",
        seen=f"made {safe_text(verdict.made, 40)}: cpu {verdict.determinism.cpu}, gpu {verdict.determinism.gpu}",
    )  # fmt: skip


def read_machine_facts(host: Host) -> Mapping[str, str]:
    """Return the machine's facts, by the fingerprint's names.

    They are those of a fingerprint that a machine reports without the image.
    """
    values = {"machine": host.machine, "cpu_model": host.cpu}
    if host.machine == "x86_64" and host.flags:
        values["cpu_capability"] = next((name for name, needs in _LEVELS.items() if needs <= host.flags), "")
    if host.gpus.driver:
        values["cuda.driver"] = host.gpus.driver
    for number, gpu in enumerate(host.gpus.found):
        values |= {f"cuda.gpus.{number}.name": gpu.name, f"cuda.gpus.{number}.capability": gpu.capability}
    return {name: value for name, value in values.items() if value}
