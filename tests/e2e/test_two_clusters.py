"""From one cluster to another, each without a way out, with its own store and engines: the same digests and numbers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprobuild.image.engine_name import received_name
from reprobuild.verify.certificate.compare import compare_against
from reprobuild.verify.certificate.read import read_certificate
from reprobuild_portable.hashing import hash_file
from tests.conftest import PROGRAM, ROOT, Built
from tests.distribute.test_bundle import ALONE
from tests.engines.conftest import PRIVATE_ENGINE, packages_in_use
from tests.engines.small import Small

APART = (sys.executable, str(ROOT / "tests" / "e2e" / "apart.py"))
TRAIN = (
    "--seed",
    "7",
    "-v",
    "{folder}:/results",
    "--",
    "python",
    "train.py",
    "--out",
    "/results/{engine}.pt",
)
ENGINES = ("docker", "podman", "apptainer")
RUN = 'echo "$PWD $REPROBUILD_SEED"; exit 3'


@dataclass(frozen=True)
class Cluster:
    """A machine without a way out: its directory, what leads to its engines, and what starts its Docker."""

    folder: Path
    env: Mapping[str, str]
    engine: tuple[str, ...]

    def __call__(
        self, *argv: str | Path, fails: bool = False, docker: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run a command there, beside its Docker where that is needed."""
        engine = self.engine if docker else ()
        done = subprocess.run(
            [*APART, *engine, *map(str, argv)], env=dict(self.env), cwd=ROOT, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert fails or done.returncode == 0, done.stdout + done.stderr
        return done

    def reprobuild(
        self, *argv: str | Path, fails: bool = False, docker: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run the program there."""
        return self(*PROGRAM, *argv, fails=fails, docker=docker)


def home(folder: Path) -> dict[str, str]:
    """Return an environment of somebody who was never here."""
    folder.mkdir(parents=True)
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_", "DOCKER_"))
    }
    return {**kept, "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}


@pytest.fixture(scope="module")
def sender(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    folder = tmp_path_factory.mktemp("sender")
    return Cluster(folder=folder, env=home(folder / "home"), engine=())


@pytest.fixture(scope="module")
def receiver(
    tmp_path_factory: pytest.TempPathFactory, podman_env: Mapping[str, str], apptainer_env: Mapping[str, str]
) -> Cluster:
    """Its Docker keeps images in the classic way, which the other's does not; it is started for each command."""
    folder = tmp_path_factory.mktemp("receiver")
    packages = packages_in_use()
    place = (packages or ROOT / "build" / "engines") / "second"
    options = ("--packages", str(packages)) if packages else ()
    engine = (sys.executable, str(PRIVATE_ENGINE), "run", "--classic", *options, "--folder", str(place), "--")
    subprocess.run([*engine, "true"], check=True, capture_output=True)  # the first time, packages are fetched
    paths = [env["PATH"].partition(":")[0] for env in (podman_env, apptainer_env)]
    env = home(folder / "home")
    return Cluster(folder=folder, env={**env, "PATH": ":".join([*paths, env["PATH"]])}, engine=engine)


def test_there_is_no_way_out(sender: Cluster, receiver: Cluster) -> None:
    for cluster in (sender, receiver):
        asked = "import socket; socket.create_connection(('192.0.2.1', 80), 5)"
        done = cluster(sys.executable, "-c", asked, fails=True)
        assert "Network is unreachable" in done.stderr


@pytest.mark.long
def test_numbers_are_the_same_elsewhere(built_example: Built, sender: Cluster, receiver: Cluster) -> None:
    """Unpacked by the program that needs Python alone; the check in Apptainer, a training in all three engines."""
    file, out = receiver.folder / "example.tar", receiver.folder / "example"
    own = built_example.copy(sender.folder / "example")
    sent = sender.reprobuild(
        "bundle", own, "-o", sender.folder / "example.tar", "--store", built_example.store, "--json"
    )
    (sender.folder / "example.tar").rename(file)
    assert json.loads(sent.stdout)["sha256"] == hash_file(file)
    receiver(sys.executable, "-I", "-S", ALONE, file, "-o", out)
    file.unlink()
    check_against_another_digest(built_example, receiver, out)
    done = receiver.reprobuild(
        "run", out, "--engine", "apptainer", "--seed", "7", "--", "sh", "-c", RUN, fails=True
    )
    assert (done.returncode, done.stdout) == (3, f"{built_example.lock.workdir} 7\n")
    assert "Using seed: 7" in done.stderr
    receiver("podman", "rmi", "--force", "--ignore", name_of(built_example))
    for engine in ENGINES:
        words = [word.format(folder=receiver.folder, engine=engine) for word in TRAIN]
        receiver.reprobuild("run", out, "--engine", engine, *words, docker=engine == "docker")
    trained = {hash_file(receiver.folder / f"{engine}.pt") for engine in ENGINES}
    assert len(trained) == 1


def name_of(built: Built) -> str:
    """Return the name that the image has where it was not built."""
    return received_name(built.lock.digest, built.image.manifest)


def check_against_another_digest(built: Built, receiver: Cluster, out: Path) -> None:
    """Check the image in Apptainer against its certificate, in which one digest was made another: that one is told.

    Against the certificate as it was made, the same check says `same`; it is not run a second time for that.
    """
    certificate = json.loads(built.certificate)
    (cpu,) = certificate["smoke"]
    (probe,) = (each for each in cpu["probes"] if each["name"] == "index_add")
    probe["modes"]["strict"]["digest"] = "0" * 64
    earlier = receiver.folder / "earlier.json"
    earlier.write_text(json.dumps(certificate))
    (out / "verdict.json").unlink()
    done = receiver.reprobuild(
        "verify", out, "--engine", "apptainer", "--runs", "2", "--against", earlier, "--json", fails=True
    )
    assert done.returncode == 8, done.stderr
    assert f"loaded {name_of(built)} into apptainer" in done.stderr
    said = json.loads(done.stdout)
    (artefact,) = said["verdict"]["work"].pop("artefacts")
    assert (artefact["name"], artefact["verdict"]) == ("workload output checkpoint.pt", "identical")
    assert said["verdict"]["work"].pop("mounts") == []
    assert said["verdict"] == {
        "determinism": {"cpu": "identical", "gpu": "not-applicable", "collectives": "identical"},
        "round_trip": "explained", "against": "differ",
        "work": {"runs": 2, "upper": 1.0, "identical": 1, "comparisons": 1, "excused": {}, "warnings": []},
    }  # fmt: skip
    assert said["image"]["manifest"] == built.image.manifest
    after = json.loads((out / "verdict.json").read_bytes())
    assert after["comparisons"] == certificate["comparisons"]  # with the digest of what was computed
    found = after["against"]
    assert [(each["scope"], each["name"]) for each in found["failed"]] == [("cpu", "index_add (strict)")]
    assert (found["platform"], found["unmatched"]) == ([], [])
    assert found["compared"] > 100
    made = receiver.folder / "made.json"
    made.write_bytes(built.certificate)
    same = compare_against(read_certificate(out).verdict, read_certificate(made))
    assert (same.verdict, same.failed, same.platform, same.unmatched) == ("same", (), (), ())
    assert same.compared == found["compared"]


README_COMMANDS = """
set -e
podman() {{ env --unset=DOCKER_CONFIG podman "$@"; }}  # that of a private engine has no file, which podman wants
cd "$0"
tar -C image -c . | docker load
docker run --rm --network none {name} python -V
podman run --rm --network none oci:image python -V
apptainer run --containall oci:image python -V
"""


@pytest.mark.long
def test_made_again_elsewhere(small: Small, sender: Cluster, receiver: Cluster) -> None:
    """With the inputs in the bundle: the same image from them, and the commands of the README."""
    file, out = receiver.folder / "small.tar", receiver.folder / "small"
    options = ("--include", "wheels,debs", "--split", "16M", "--store", small.store)
    sender.reprobuild("bundle", small.out, "-o", sender.folder / "small.tar", *options)
    parts = sorted(sender.folder.glob("small.tar.*"))
    assert len(parts) > 3
    for part in parts:
        part.rename(receiver.folder / part.name)
    store = receiver.folder / "store"
    receiver.reprobuild("unbundle", file, "-o", out, "--store", store)
    made = receiver.reprobuild("rebuild", out, "--offline", "--store", store, "--json")
    assert json.loads(made.stdout)["same"] is True
    told = json.loads((receiver.folder / "small-rebuilt" / "image.json").read_bytes())
    assert (told["tree"], told["manifest"]) == (small.image.tree, small.image.manifest)
    readme = (out / "README.md").read_text()
    commands = README_COMMANDS.format(name=small.image.reference)
    for line in commands.splitlines()[4:]:
        assert f"    {line}\n" in readme
    printed = receiver("sh", "-c", commands, out, docker=True).stdout.splitlines()
    assert printed.count("Python 3.11.2") == 3, printed
    for engine in ENGINES:
        receiver(
            sys.executable, "-I", "-S", ALONE, file, "-o", out, "--load", engine, docker=engine == "docker"
        )
    receiver("podman", "image", "exists", small.image.reference)
    assert (
        receiver("apptainer", "run", "--containall", out / "image.sif", "python", "-V").stdout
        == "Python 3.11.2\n"
    )
