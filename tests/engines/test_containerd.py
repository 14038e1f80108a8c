"""containerd takes a layout as it stands, and runs it."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

from tests.conftest import ROOT
from tests.engines.conftest import Tiny, daemon, packages_in_use


def test_a_layout_is_imported_by_its_name_and_runs(tiny: Tiny, tmp_path: Path) -> None:
    archive = tmp_path / "layout.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(tiny.layout, ".")
    packages = packages_in_use() or ROOT / "build" / "engines" / "containerd"
    with daemon("containerd", share=True) as running:
        socket = (
            Path(running.env["DOCKER_HOST"].removeprefix("unix://")).parent
            / "exec/containerd/containerd.sock"
        )
        program = (
            str(packages / "root/usr/bin/ctr"),
            "--address",
            str(socket),
            "--namespace",
            "reprobuild-test",
        )

        def ctr(*arguments: str) -> str:
            done = subprocess.run(
                [*program, *arguments], capture_output=True, text=True, timeout=120, check=False
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        name, manifest = f"docker.io/{tiny.reference}", tiny.digests[1]
        ctr("images", "import", str(archive))
        (line,) = [line for line in ctr("images", "ls").splitlines() if line.startswith(name)]
        assert manifest in line
        assert "complete (" in ctr("images", "check", f"name=={name}")
        assert (
            ctr("run", "--rm", "--fifo-dir", str(tmp_path / "fifo"), name, "one", "/bin/cat", "/etc/hello")
            == "hello\n"
        )
