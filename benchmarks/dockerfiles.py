"""The other side of the benchmarks of builds.

Docker builds Dockerfiles of the same wheels.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import NotRunError
from benchmarks.native import link_or_copy

# The machine's configuration of apt is only mounted.
_APT = (
    "RUN --mount=type=bind,source=apt,target=/mnt/apt"
    " export APT_CONFIG=/mnt/apt/apt.conf DEBIAN_FRONTEND=noninteractive; "
)
_PIP = "pip install --no-index --no-deps --break-system-packages --ignore-installed"
NAIVE = f"""\
FROM {{base}}
{_APT}apt-get update && apt-get install -y python3-pip
COPY wheels /wheels
RUN {_PIP} /wheels/*.whl
"""
CAREFUL = f"""\
FROM {{base}}
{_APT}apt-get update && apt-get install -y --no-install-recommends python3-pip && rm -rf /var/lib/apt/lists/*
RUN --mount=type=bind,source=wheels,target=/wheels {_PIP} --no-compile --no-cache-dir /wheels/*.whl
"""


@dataclass(frozen=True)
class Build:
    """One `docker build`: its time, steps and file size.

    The steps are those that BuildKit reports.
    """

    wall: float
    steps: Mapping[str, float]
    size: int

    @property
    def apt(self) -> float:
        """Return the seconds of apt's step."""
        return sum(seconds for title, seconds in self.steps.items() if "apt-get" in title)


def write_apt(folder: Path) -> None:
    """Write this machine's present configuration of apt.

    It is for a container that mounts it at /mnt/apt.

    The files that it names (keys, certificates) are copied too. The directory is the caller's to remove.
    """
    folder.mkdir()
    shell = output_of(
        ["apt-config", "shell", "list", "Dir::Etc::SourceList/f", "parts", "Dir::Etc::SourceParts/d",
         "trusted", "Dir::Etc::TrustedParts/d"]
    )  # fmt: skip
    where = dict(re.findall(r"(?m)^(\w+)='(.*)'$", shell))
    lists = Path(where["list"])
    (folder / "sources.list").write_text(_bring(lists.read_text(), folder) if lists.is_file() else "")
    (folder / "parts").mkdir()
    for path in sorted(Path(where["parts"]).glob("*")):
        if path.suffix in (".list", ".sources"):
            (folder / "parts" / path.name).write_text(_bring(path.read_text(), folder))
    (folder / "trusted").mkdir()
    for path in sorted(Path(where["trusted"]).glob("*")):
        shutil.copyfile(path, folder / "trusted" / path.name)
    acquire = [
        line
        for line in output_of(["apt-config", "dump"]).splitlines()
        if line.startswith("Acquire") and not line.startswith("Acquire::IndexTargets")
    ]
    places = [
        'Dir::Etc::SourceList "/mnt/apt/sources.list";',
        'Dir::Etc::SourceParts "/mnt/apt/parts";',
        'Dir::Etc::TrustedParts "/mnt/apt/trusted";',
        'APT::Sandbox::User "root";',  # the unprivileged user may be unable to enter the mounted directory
    ]
    (folder / "apt.conf").write_text("\n".join([_bring("\n".join(acquire), folder), *places]) + "\n")


def _bring(text: str, folder: Path) -> str:
    """Copy the files that a configuration names.

    They are named by absolute path, and renamed to the container's paths.
    """

    def replace(match: re.Match[str]) -> str:
        path = Path(match[0])
        if not path.is_file():
            return match[0]
        (folder / "files").mkdir(exist_ok=True)
        shutil.copyfile(path, folder / "files" / path.name)
        return f"/mnt/apt/files/{path.name}"

    return re.sub(r"(?<![\w:/.])/[\w./+-]+", replace, text)


def read_steps(log: str) -> dict[str, float]:
    """Return {title: seconds} of the steps in BuildKit's plain progress."""
    titles: dict[str, str] = {}
    steps: dict[str, float] = {}
    for line in log.splitlines():
        found = re.match(r"#(\d+) (.*)", line)
        if not found:
            continue
        number, text = found.groups()
        title = titles.setdefault(number, text)
        if done := re.fullmatch(r"DONE ([\d.]+)s", text):
            steps[title] = steps.get(title, 0.0) + float(done[1])
    return steps


class Docker:
    """The other side: an imported base, a context, and builds.

    The builds end as an OCI tar.
    """

    def __init__(self, folder: Path, results: Path) -> None:
        self.folder = folder
        self.base = f"reprobuild-bench-{uuid.uuid4().hex[:12]}:base"
        folder.mkdir()
        context = folder / "context"
        context.mkdir()
        shutil.copytree(results / "context" / "wheels", context / "wheels", copy_function=link_or_copy)
        write_apt(context / "apt")

    def build(self, dockerfile: str, *options: str) -> Build:
        """Build once, without cache.

        The image file is removed again.

        Raises:
            NotRunError: the build failed, as it does without a network.
        """
        recipe, target = self.folder / "Dockerfile", self.folder / "image.tar"
        recipe.write_text(dockerfile.format(base=self.base))
        output = ",".join(["type=oci", f"dest={target}", *options])
        argv = [
            *("docker", "buildx", "build", "--no-cache", "--progress=plain", "--network=host"),
            *_proxies(), *("--file", str(recipe), "--output", output, str(self.folder / "context")),
        ]  # fmt: skip
        began = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - began
        if done.returncode:
            print(done.stderr[-3000:], file=sys.stderr)  # it may name addresses, which evidence shall not
            raise NotRunError(f"`docker buildx build` exited {done.returncode}, see above")
        size = target.stat().st_size
        target.unlink()
        return Build(wall, read_steps(done.stderr), size)


@contextmanager
def imported(folder: Path, results: Path) -> Iterator[Docker]:
    """Give the other side, with its base imported.

    The base is removed afterwards.

    Raises:
        NotRunError: an engine is missing, or it has no BuildKit.
    """
    for probe in (["docker", "version"], ["docker", "buildx", "version"], ["apt-config", "dump"]):
        try:
            output_of(probe)
        except (OSError, subprocess.CalledProcessError):
            raise NotRunError(f"`{' '.join(probe)}` does not answer") from None
    docker = Docker(folder, results)
    base = next((results / "context").glob("base-*.tar"))
    output_of(["docker", "import", str(base), docker.base])
    try:
        yield docker
    finally:
        subprocess.run(["docker", "image", "rm", docker.base], capture_output=True, check=False)


def _proxies() -> list[str]:
    """Return this machine's proxies as build arguments.

    BuildKit knows them and keeps them out of the image.

    They are named only; their values, which may hold a password, are taken from the environment.
    """
    names = [name for name in os.environ if name.lower() in ("http_proxy", "https_proxy", "no_proxy")]
    return [part for name in names for part in ("--build-arg", name)]


def output_of(argv: Sequence[str]) -> str:
    """Return the output of a program."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
