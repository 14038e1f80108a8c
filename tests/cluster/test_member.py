"""One node of a cluster answers for itself: certificate, a line, and an exit code. Its containers are prepared here."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from click.testing import CliRunner

from reprobuild.cli.main import cli
from reprobuild.cluster import worker
from reprobuild.cluster.answer_folder import name_folder
from reprobuild.context import RunContext
from reprobuild.errors import UsageError
from reprobuild.verify.certificate.read import read_certificate
from reprobuild.verify.verdict import Determinism, V
from tests.cluster.samples import certificate
from tests.image.made import Made
from tests.store.sealing import built, sealed


@pytest.mark.parametrize(
    ("cpu", "gpu", "collectives", "code"),
    [
        ("identical", "not-applicable", "identical", 0),
        ("identical", "identical", "identical", 0),
        ("identical", "identical", "not-covered", 9),  # one GPU
        ("identical", "not-covered", "not-covered", 9),
        ("inconclusive", "not-applicable", "identical", 9),
        ("identical", "drift", "not-covered", 8),
        ("drift", "not-applicable", "identical", 8),
    ],
)
def test_a_node_answers_as_verify_does_and_leaves_its_certificate(
    cpu: V, gpu: V, collectives: V, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, out, folder = Made(tmp_path / "made"), tmp_path / "out", tmp_path / "nodes"
    built(sealed(made, "alpha"), tmp_path / "given.lock", made.store, out)
    made.store.release()
    verdict = certificate(
        determinism=Determinism(cpu=cpu, gpu=gpu, collectives=collectives), parts=("probes",)
    )
    assert verdict.round_trip == "not-run"
    monkeypatch.setattr(worker, "examine", lambda *_: verdict)
    folder.mkdir()
    for suffix in (".began", ".json", ".error", ".ended"):  # of another writer in the shared directory
        (folder / f"n1{suffix}").symlink_to(tmp_path / "elsewhere")
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    words = ["cluster", "worker", str(out), "--output", str(folder), "--store", str(made.store.root)]
    done = CliRunner().invoke(cli, words, standalone_mode=False)
    assert (done.exception, done.return_value) == (None, code)
    assert f"n1: cpu {cpu}, gpu {gpu}, collectives {collectives}\n" in done.output
    assert not (tmp_path / "elsewhere").exists()
    left = read_certificate(folder / "n1.json", check_headlines=False).verdict
    assert msgspec.json.encode(left) == msgspec.json.encode(verdict)


def test_answers_are_not_written_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "cluster").symlink_to("elsewhere")
    with pytest.raises(UsageError, match="is a link, and the answers of nodes are not written") as caught:
        name_folder(tmp_path, cast("RunContext", SimpleNamespace(now=0)))
    assert caught.value.hint == "remove the link, and run this again"
    (tmp_path / "cluster").unlink()
    folder = name_folder(tmp_path, cast("RunContext", SimpleNamespace(now=0)))
    assert folder.name.startswith("19700101-000000-")
    assert stat.S_IMODE((tmp_path / "cluster").stat().st_mode) & 0o022 == 0


def test_answers_are_not_written_where_others_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = cast("RunContext", SimpleNamespace(now=0))
    place = tmp_path / "cluster"
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(UsageError, match="can be written to by all users, who could change") as caught:
        name_folder(tmp_path, context)
    assert (
        caught.value.hint == f"close it: `chmod go-w {place}`; if it is not yours, copy the output directory"
    )
    subprocess.run(["sh", "-c", re.findall(r"`([^`]*)`", caught.value.hint)[0]], check=True)
    assert name_folder(tmp_path, context).parent == place
    number = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: number + 2)
    os.chown(place, number or 1, -1)
    with pytest.raises(UsageError, match=f"can be written to by the user number {number or 1}, who"):
        name_folder(tmp_path, context)
