"""A small lock, and an engine that gives prepared answers."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

import reprobuild_runtime
from reprobuild.engines.model import Engine, Finished, Sink, Task
from reprobuild.infra.progress import Progress
from reprobuild.lock.file import VERSION as LOCK_VERSION
from reprobuild.lock.model import Lock, RealisedOutputs, Resolution, seal
from reprobuild.lock.python import CondaPackage, Interpreter, Sdist, Source, Wheel
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import Artefact, Base, Deb, EnvVar
from reprobuild.verify.determinism.document import Device, read_document
from reprobuild.verify.determinism.expected import Expected
from reprobuild.verify.determinism.judge import judge_smoke
from reprobuild.verify.verdict import VERSION, Determinism, Smoke, Verdict

SHA = "a" * 64
FINGERPRINT: dict[str, Any] = {
    "torch": "2.13", "cuda_build": False, "cpus": 2, "threads": 2, "cpu_model": "one",
    "settings": {"cudnn_deterministic": True, "cudnn_benchmark": False, "deterministic_algorithms": False},
}  # fmt: skip
START = {"random": "3", "hash": "4", "torch": "5", "hook": {"seed": "42"}}
EXPECTED = msgspec.json.decode(
    (Path(reprobuild_runtime.__file__).parent / "probes" / "expected.json").read_bytes(),
    type=dict[Device, Expected],
)


def make_lock(*, realised: RealisedOutputs | None = None, **more: Any) -> Lock:
    """Return a lock of torch, one source, two packages and two variables, sealed with outputs if there are any.

    `more` replaces fields.
    """
    lock = Lock(
        version=LOCK_VERSION, snapshot="5" * 64, platform="linux/amd64", epoch=0, seed=None, profile="torch",
        interpreter=Interpreter(version="3.11.2", executable="/usr/bin/python3.11", evidence="asked"),
        base=Base(distribution="debian", release="bookworm", packages=(deb("bash"), deb("dpkg"))),
        wheels=(wheel("torch"),), sources=(source("mylib", "7" * 40),),
        environment=(EnvVar(name="A", value="1"), EnvVar(name="LINES", value="one\ntwo")),
        workdir="/src", workload=None, decisions=RecordedDecisions(),
        rulings=(ruling("torch", "torch==1.0"), ruling("mylib", "-e git+https://example.org/mylib@c#egg=mylib")),
    )  # fmt: skip
    lock = msgspec.structs.replace(lock, **more)
    return seal(lock, realised) if realised else lock


def artefact(name: str) -> Artefact:
    return Artefact(filename=name, sha256=SHA, size=1)


def deb(name: str, version: str = "1-1") -> Deb:
    return Deb(
        name=name, version=version, architecture="amd64", essential=False, file=artefact(f"{name}.deb")
    )


def wheel(name: str, version: str = "1.0", **more: Any) -> Wheel:
    file = artefact(f"{name}-{version}-py3-none-any.whl")
    return msgspec.structs.replace(Wheel(name=name, version=version, role="environment", file=file), **more)


def conda_package(name: str, version: str = "1.0", *distributions: str) -> CondaPackage:
    file = artefact(f"{name}-{version}-0.conda")
    return CondaPackage(
        name=name, version=version, build="0", subdir="linux-64", channel="main", file=file,
        distributions=distributions,
    )  # fmt: skip


def realised(*wheels: Wheel) -> RealisedOutputs:
    return RealisedOutputs(base=SHA, runtime=SHA, wheels=wheels, bytecode=())


def source(name: str, tree: str) -> Source:
    return Source(
        name=name, url="", commit="c" * 40, tree=tree, patch=None, path=f"/src/{name}", editable=True, epoch=0,
        file=artefact(f"{name}.tar"),
    )  # fmt: skip


# A torch that is no wheel of an index: what replaces fields of `make_lock`.
OTHER_TORCHES: dict[str, dict[str, Any]] = {
    "conda": {"wheels": (), "conda": (conda_package("pytorch", "1.0", "torch"),)},
    "built from an archive": {
        "wheels": (), "sdists": (Sdist(name="torch", version="1.0", file=artefact("torch-1.0.tar.gz")),),
        "realised": realised(wheel("torch")),
    },
    "built from a repository": {
        "wheels": (), "sources": (source("mylib", "7" * 40), source("torch", "6" * 40)),
        "realised": realised(wheel("torch")),
    },
}  # fmt: skip


def ruling(subject: str, captured: str, outcome: Any = "pinned", reason: str = "", **more: Any) -> Resolution:
    place = {"file": "requirements.txt", "line": 1, **more}
    return Resolution(subject=subject, outcome=outcome, reason=reason, captured=captured, **place)


def make_verdict(
    cpu: Any = "identical", gpu: Any = "not-applicable", round_trip: Any = "exact", **more: Any
) -> Verdict:
    verdict = Verdict(
        version=VERSION, made="2026-11-22T05:00:00Z", program="0.1.0", image=f"sha256:{SHA}", tree=f"sha256:{SHA}",
        lock=f"sha256:{SHA}", seed=42, profile="torch",
        determinism=Determinism(cpu=cpu, gpu=gpu, collectives=gpu), round_trip=round_trip, smoke=(make_smoke(),),
        comparisons=(), differences=(),
    )  # fmt: skip
    return msgspec.structs.replace(verdict, **more)


def make_smoke(device: Any = "cpu", **more: Any) -> Smoke:
    """Return what the judge says of two containers in which all is well; `more` replaces fields."""
    first, second = (read_document(encode(document(device, quick=quick)), device) for quick in (False, True))
    smoke = judge_smoke(device, first, second, EXPECTED[device], controls=True, profile="torch")
    return msgspec.structs.replace(smoke, **more)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def observed(name: str, runs: int = 10, **more: Any) -> dict[str, Any]:
    """Return what a probe did in one mode."""
    return {
        "verdict": "IDENTICAL", "digest": sha(name), "distinct": 1, "repeats": runs, "processes": 2, "why": "",
        "seconds": 0.1, "median_ms": 1.5, **more,
    }  # fmt: skip


def drift(runs: int = 10, distinct: int = 3) -> dict[str, Any]:
    return observed("", runs, verdict="DRIFT", digest=None, distinct=distinct)


def probe(name: str, modes: Sequence[str], **more: Any) -> dict[str, Any]:
    return {
        "name": name, "kind": "scatter", "dtype": "float32", "shape": "16x32", "documented": "none",
        "modes": {mode: observed(name) for mode in modes}, **more,
    }  # fmt: skip


def document(device: Device = "cpu", *, quick: bool = False, **more: Any) -> dict[str, Any]:
    """Return what a container answers where all is well, in full or in short; `more` replaces parts."""
    modes = ("profile", "strict") if quick else ("default", "profile", "strict", "warn")
    wanted = EXPECTED[device]
    found: dict[str, Any] = {
        "format": 2, "ran": True, "why": "", "options": {"device": device}, "device": device, "start": START,
        "fingerprint": FINGERPRINT if device == "cpu" else {**FINGERPRINT, "cuda_build": True},
        "expectations": {
            "source": "torch's own text", "deterministic": [], "refused": ["torch.Tensor.put_ when accumulate=False"],
        },
        "probes": [probe(name, modes) for name in wanted.probes],
        "comparator": dict.fromkeys(wanted.comparator, True), "controls": [], "collectives": None, "seconds": 1.5,
    }  # fmt: skip
    if not quick:
        found["controls"] = [control(name) for name in wanted.controls]
        found["collectives"] = collectives(device)
    return {**found, **more}


def control(name: str) -> dict[str, Any]:
    device, _, plain = name.partition(" ")
    return {
        "name": plain, "device": device, "verdict": "effective", "why": "",
        "modes": {"default": drift(), "strict": observed(name)},
    }  # fmt: skip


def collectives(device: Device, **more: Any) -> dict[str, Any]:
    return {
        "verdict": "IDENTICAL", "why": "", "backend": "gloo" if device == "cpu" else "nccl", "world": 4,
        "controls": [control(f"{device} {name}") for name in EXPECTED[device].collective_controls],
        "probes": [probe(name, ["strict"]) for name in EXPECTED[device].collectives], **more,
    }  # fmt: skip


def changed(found: dict[str, Any], name: str, mode: str = "strict", **more: Any) -> dict[str, Any]:
    """Return a document in which one probe did something else in one mode."""
    made = copy.deepcopy(found)
    (at,) = (probe for probe in made["probes"] if probe["name"] == name)
    at["modes"][mode].update(more)
    return made


def encode(value: object) -> bytes:
    return json.dumps(value).encode()


def done(stdout: object = b"", *, code: int = 0, stderr: bytes = b"", **outputs: bytes) -> Finished:
    """Return how a container ended; what is not bytes is printed as JSON."""
    text = stdout if isinstance(stdout, bytes) else json.dumps(stdout).encode()
    return Finished(code=code, stdout=text, stderr=stderr, outputs=outputs)


def frozen(*items: Mapping[str, Any]) -> dict[str, Any]:
    return {"python": "3.11.2", "distributions": list(items)}


PACKAGES = (
    b"bash/now 1-1 amd64 [installed,local]\ndpkg/now 1-1 amd64 [installed,local]\n"
    b"gone/now 1 amd64 [residual-config]\n"
)
VARIABLES = b"A=1\nexport LINES=$'one\\ntwo'\nPATH=/bin\n"


def captured(packages: bytes = PACKAGES, variables: bytes = VARIABLES) -> Finished:
    """Return what a capture inside the image leaves."""
    files = {"apt-packages.txt": packages, "env.txt": variables, "parts/deep": b"not a file of a snapshot"}
    return msgspec.structs.replace(done(), outputs={f"again/{name}": data for name, data in files.items()})


def good_answers() -> dict[str, list[Finished]]:
    """Return what an image of `make_lock()` answers where all is well; the last answer is repeated."""
    editable = {"name": "mylib", "freeze": "-e git+https://example.org/mylib@c#egg=mylib", "tree": "7" * 40}
    return {
        "freeze": [done(frozen({"name": "torch", "freeze": "torch==1.0"}, editable))],
        "again": [captured()],
        "cpu": [done(document())],
        "cpu quick": [done(document(quick=True))],
        "cuda": [done(document("cuda"))],
        "cuda quick": [done(document("cuda", quick=True))],
        "workload": [msgspec.structs.replace(done(), outputs={"model.pt": b"weights"})],
        "compare": [done({"ran": True, "files": [DRIFTED]})],
    }


DRIFTED = {
    "name": "model.pt", "verdict": "drift", "format": "torch checkpoint", "count": 1, "details": ["w: 1 of 2 differ"],
    "excused": ["time (time): 1 time"], "notes": [],
}  # fmt: skip


def keep(task: Task, finished: Finished, **more: Any) -> Finished:
    """Put the outputs of a run where the task wants them, with the index that the real container leaves."""
    assert task.kept
    patterns = task.arguments[5 : task.arguments.index("--")]
    files, paths = [], {f"{task.outputs}/{name}": data for name, data in finished.outputs.items()}
    for number, path in enumerate(paths):
        if path in patterns:
            (task.kept / str(number)).write_bytes(paths[path])
            files.append(
                {"pattern": path, "path": path, "kind": "file", "stored": str(number), "size": len(paths[path]),
                 "written": True, "link": ""}
            )  # fmt: skip
    there = {pattern: sorted(paths) for pattern in patterns if pattern not in paths}
    index = {
        "code": finished.code,
        "began": 1.0,
        "ended": 2.0,
        "host": "h",
        "files": files,
        "there": there,
        "failed": "",
    }
    (task.kept / "index.json").write_bytes(encode({**index, **more}))
    return msgspec.structs.replace(finished, outputs={})


class PreparedEngine:
    """An engine whose containers give prepared answers; it remembers every task."""

    NAME = "prepared"

    def __init__(self, answers: Mapping[str, Sequence[Finished]]) -> None:
        self.answers = {kind: list(found) for kind, found in answers.items()}
        self.tasks: list[tuple[str, Task]] = []

    def version(self, env: Mapping[str, str]) -> str | None:
        return "1"

    def load(
        self, layout: Path, reference: str, digests: Sequence[str], env: Mapping[str, str], progress: Progress
    ) -> bool:
        return False

    def run(self, reference: str, task: Task, env: Mapping[str, str]) -> Finished:
        kind = kind_of(task)
        self.tasks.append((kind, task))
        answers = self.answers[kind]
        finished = answers.pop(0) if len(answers) > 1 else answers[0]
        return keep(task, finished) if task.kept else finished

    def attach(self, reference: str, task: Task, env: Mapping[str, str], sink: Sink) -> int:
        finished = self.run(reference, task, env)
        sink(1, finished.stdout)
        return finished.code


def kind_of(task: Task) -> str:
    words = task.arguments
    if words[-1].endswith("freeze.py"):
        return "freeze"
    if len(words) > 1 and words[1].endswith("capture.py"):
        return "again"
    if len(words) > 1 and words[1].endswith("probes/run.py"):
        options = json.loads(words[2])
        return f"{options['device']} quick" if options.get("quick") else str(options["device"])
    return "compare" if len(words) > 2 and words[2].endswith("compare.py") else "workload"


_ENGINE: Engine = PreparedEngine({})  # it has the shape of one
