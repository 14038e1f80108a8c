"""Made certificates of made nodes."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.cluster.aggregate import ClusterResult, ExpectedImage, gather_results
from reprobuild.cluster.answer_table import AnswerTable
from reprobuild.cluster.shared_dir import CERTIFICATE
from reprobuild.verify.verdict import Determinism, Smoke, Verdict
from tests.verify.samples import EXPECTED, SHA, make_smoke, make_verdict

IMAGE = ExpectedImage(tree=f"sha256:{SHA}", seed=42, profile="torch")
OTHER = "f" * 64


def certificate(smoke: Smoke | None = None, **more: Any) -> Verdict:
    """Return what a node says where all is well."""
    own = Determinism(cpu="identical", gpu="not-applicable", collectives="identical")
    made = make_verdict(smoke=(smoke or make_smoke(),), determinism=own, round_trip="not-run")
    return msgspec.structs.replace(made, **more)


def changed(
    *names: str, mode: str = "strict", digest: str | None = OTHER, verdict: str = "IDENTICAL"
) -> Smoke:
    """Return a determinism test in which some probes gave something else, or nothing."""
    smoke = make_smoke()
    probes = []
    for probe in smoke.probes:
        if probe.name in names:
            seen = msgspec.structs.replace(probe.modes[mode], digest=digest, again=digest, verdict=verdict)  # type: ignore[index]  # a mode by its name
            own = "drift" if verdict == "DRIFT" else probe.verdict
            probe = msgspec.structs.replace(probe, modes={**probe.modes, mode: seen}, verdict=own)
        probes.append(probe)
    assert [probe.name for probe in probes if probe.name in names]
    return msgspec.structs.replace(smoke, probes=tuple(probes))


def on(cpu: str, smoke: Smoke | None = None, **facts: Any) -> Smoke:
    """Return a determinism test of another processor, with a digest of its own in each mode of one probe."""
    smoke = smoke or changed("conv2d", digest=hashlib.sha256(cpu.encode()).hexdigest())
    return msgspec.structs.replace(smoke, fingerprint={**smoke.fingerprint, "cpu_model": cpu, **facts})


def write(folder: Path, **nodes: Verdict | bytes) -> None:
    """Write the certificates of nodes into a directory."""
    folder.mkdir(exist_ok=True)
    for node, found in nodes.items():
        data = found if isinstance(found, bytes) else msgspec.json.encode(found)
        (folder / f"{node}{CERTIFICATE}").write_bytes(data)


@contextlib.contextmanager
def shared() -> Iterator[Path]:
    """Give an empty directory that every user may enter."""
    with tempfile.TemporaryDirectory() as made:
        Path(made).chmod(0o755)
        yield Path(made)


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Be a user who may not read everything, where the tests run as root."""
    root = os.geteuid() == 0
    # The standard library imports this at its first use, and that user may not read it.
    importlib.import_module("_strptime")
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def gathered(folder: Path, *asked: str) -> ClusterResult:
    """Return what is made of a directory."""
    return gather_results(folder, IMAGE, AnswerTable(EXPECTED), asked)
