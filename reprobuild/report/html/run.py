"""The box with the commands that run the image.

They work unchanged in the directory of this page, and repeat the workload of the check: its seed, its profile, and its
directory of results.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import msgspec
from msgspec import Struct

from reprobuild.image.engine_name import own_name
from reprobuild.image.model import Image
from reprobuild.lock.distributions import distributions
from reprobuild.lock.model import Lock
from reprobuild.report.html.title import describe_machine
from reprobuild.verify.verdict import Verdict, WorkComparison
from reprobuild.verify.workload.container import OUTPUTS
from reprobuild.verify.workload.work import work_of_workload

PROFILE = "REPROBUILD_PROFILE"  # put in force by the start of each container
RESULTS = "results"  # in the directory of the page, mounted at the path that the check used
# The options that each engine needs so that a container gets the GPUs (docs/gpus.md).
_GPUS = {"docker": ("--gpus", "all"), "podman": ("--device", "nvidia.com/gpu=all"), "apptainer": ("--nv",)}
_NO_GPU = ("not-applicable", "not-covered", "not-run")  # answers of a check without a GPU
_PLAIN_FILE = re.compile(r"(?!.*\.\.)[\w.+=@-]+(/[\w.+=@-]+)*", re.ASCII)
_SHA256 = re.compile("[0-9a-f]{64}")


class CommandTab(Struct, frozen=True, kw_only=True):
    """The commands of one engine, one a line, and a note on them."""

    id: str
    title: str
    note: str
    commands: str


class ExpectedFile(Struct, frozen=True, kw_only=True):
    """A file that the commands write, and its sha256 in both runs of the check."""

    path: str
    sha256: str


class RunBox(Struct, frozen=True, kw_only=True):
    """The box: a tab for each engine, the expected files, and notes."""

    tabs: Sequence[CommandTab]
    expected: Sequence[ExpectedFile]
    machine: str
    notes: Sequence[str]


class Job(Struct, frozen=True, kw_only=True):
    """A run of the image: the command, its seed and profile, and the files that it is to write."""

    command: tuple[str, ...]
    seed: int
    profile: str
    gpu: bool = False
    expected: tuple[ExpectedFile, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables in the form of an engine's options."""
        return ("--env", f"REPROBUILD_SEED={self.seed}", "--env", f"{PROFILE}={self.profile}")


def view_run_box(lock: Lock, image: Image, verdict: Verdict, name: str) -> RunBox:
    """Return the box with the commands of each engine.

    Docker takes the image's own name from its layout, so there is no tab of Docker if it does not follow from the lock.
    """
    job = make_job(lock, verdict)
    named = msgspec.structs.replace(image, reference=name)
    tabs = [
        CommandTab(id=title.lower(), title=title, note=note, commands=commands)
        for title, note, commands in (
            ("reprobuild", "Any engine of this machine. The image is loaded into it if it is not there yet.",
             reprobuild_commands(job)),
            ("Docker", "Docker 25 or newer with the image store of containerd; for others, use reprobuild.",
             docker_commands(job, image)),
            ("podman", "podman pulls the image from the layout in this directory.", podman_commands(job, named)),
            ("Apptainer", _describe_sif(image), apptainer_commands(job, image)),
        )
        if title != "Docker" or image.reference in (name, own_name(lock.digest))
    ]  # fmt: skip
    return RunBox(
        tabs=tabs,
        expected=job.expected,
        machine=describe_machine(verdict),
        notes=tuple(_notes(lock, verdict)),
    )


def make_job(lock: Lock, verdict: Verdict) -> Job:
    """Return the run that repeats the check's workload, or an example if the lock has none."""
    work = verdict.work
    return Job(
        command=job_command(lock),
        seed=work.seed if work and _is_work_of_lock(lock, verdict) else verdict.seed,
        profile=verdict.profile,
        gpu=verdict.determinism.gpu not in _NO_GPU,
        expected=tuple(_expected_files(lock, verdict)) if _is_work_of_lock(lock, verdict) else (),
    )


def _is_work_of_lock(lock: Lock, verdict: Verdict) -> bool:
    """Return whether the check ran the lock's workload under plain conditions."""
    work = verdict.work
    if work is None or lock.workload is None:
        return False
    plain = not (work.variables or work.secrets or work.volumes or work.workdir)
    return plain and work.command == work_of_workload(lock.workload).text


def _expected_files(lock: Lock, verdict: Verdict) -> Sequence[ExpectedFile]:
    """Return the files of the workload that have one digest.

    The digest of a pattern with several files is not that of a file.
    """
    by_name: dict[str, WorkComparison] = {comparison.name: comparison for comparison in verdict.comparisons}
    files = []
    for output in lock.workload.outputs if lock.workload else ():
        comparison = by_name.get(f"workload output {output}")
        same = comparison is not None and comparison.verdict == "identical"
        if same and comparison and _SHA256.fullmatch(comparison.detail) and _PLAIN_FILE.fullmatch(output):
            files.append(ExpectedFile(path=f"{RESULTS}/{output}", sha256=comparison.detail))
    return files


def _notes(lock: Lock, verdict: Verdict) -> Sequence[str]:
    """Return notes on the commands."""
    notes = []
    if lock.workload is None:
        notes.append("The lock names no workload. Replace the example command by your own.")
    elif verdict.work and not _is_work_of_lock(lock, verdict):
        notes.append("The check ran another command or other conditions, so no hash is expected here.")
    if verdict.determinism.gpu == "not-covered":
        options = ", ".join(f"{shlex.join(words)} of {engine}" for engine, words in _GPUS.items())
        notes.append(f"The check had no GPU. An image for GPUs needs one of these options: {options}.")
    if verdict.profile != "strict":
        notes.append(f"For strict mode, write {PROFILE}=strict. Its results may have other bytes.")
    notes.append("A run has no network, and logs its seed.")
    return notes


def reprobuild_commands(job: Job) -> str:
    """Return the commands of reprobuild itself."""
    words = ["reprobuild", "run", ".", "--seed", str(job.seed), "--env", f"{PROFILE}={job.profile}"]
    return _with_results(job, [*words, "--volume", f"{RESULTS}:{OUTPUTS}", "--"])


def docker_commands(job: Job, image: Image) -> str:
    """Return commands that load and run the image with Docker."""
    words = ["docker", "run", "--rm", "--network", "none", *(_GPUS["docker"] if job.gpu else ())]
    words += [*job.variables, "--volume", f"./{RESULTS}:{OUTPUTS}", image.reference]
    return _with_results(job, words, f"tar -C {shlex.quote(image.layout)} -cf - . | docker load")


def podman_commands(job: Job, image: Image) -> str:
    """Return commands that load and run the image with podman.

    podman knows the image by its id until it has a name.
    """
    words = ["podman", "run", "--rm", "--network", "none", *(_GPUS["podman"] if job.gpu else ())]
    words += [*job.variables, "--volume", f"./{RESULTS}:{OUTPUTS}:z", image.reference]
    pull = f'podman tag "$(podman pull --quiet {shlex.quote("oci:" + image.layout)})"'
    return _with_results(job, words, f"{pull} {shlex.quote(image.reference)}")


def apptainer_commands(job: Job, image: Image) -> str:
    """Return commands that run the image with Apptainer.

    They use the SIF if there is one.
    """
    words = ["apptainer", "run", "--containall", "--net", "--network", "none"]
    words += [*(_GPUS["apptainer"] if job.gpu else ()), *job.variables]
    words += ["--bind", f"./{RESULTS}:{OUTPUTS}", "image.sif"]
    make = () if image.sif else ("reprobuild build reprobuild.lock -o . --format sif",)
    return _with_results(job, words, *make)


def _with_results(job: Job, words: Sequence[str], *before: str) -> str:
    """Return the lines of a tab: the directory of results, the run, and the hashes to expect.

    Args:
        words: those before the job's own command.
        before: the lines that prepare the image.
    """
    after = []
    if job.expected:
        after.append(shlex.join(["sha256sum", *(file.path for file in job.expected)]))
        after += [f"# expect {file.sha256}" for file in job.expected]
    run = f"{shlex.join(words)} \\\n    {shlex.join(job.command)}"
    return "\n".join((*before, f"mkdir -p {RESULTS}", run, *after))


def job_command(lock: Lock) -> tuple[str, ...]:
    """Return the captured job's own command, or an example.

    The example shows the image's contents.
    """
    if lock.workload:
        return tuple(word.replace("{out}", OUTPUTS) for word in lock.workload.command)
    torch = "torch" in distributions(lock)
    return ("python", "-c", "import torch; print(torch.rand(3))") if torch else ("python", "--version")


def _describe_sif(image: Image) -> str:
    if image.sif:
        return "The SIF in this directory is the same image."
    return "Apptainer runs a SIF. The first line makes it of the same lock, and needs mksquashfs."
