"""The program of gpu-evidence.pyz, a measurement of the probes.

It measures the machine that it is started on.

    python gpu-evidence.pyz FOLDER [--part NAME]... [--quick] [--python INTERPRETER]

It needs Python 3.8 and, for most of it, torch; no network, no root. Each part writes one file into FOLDER as soon as
it ends, and prints its verdicts, so that a log alone keeps them. On one H100 with 16 processors the part `cuda` took
302 s, `cuda-calm` 120 s, `cuda-compiled` 104 s (docs/evidence/probes-cuda-2026-11-26.json): give a machine of limited
time one part at a time. `summary.json` lists everything that was not covered.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from datetime import datetime, timezone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIMIT = 1200  # seconds for one part; the determinism test ends its own children long before
NOT_OURS = "this machine's own Python and torch were measured, not an image made by reprobuild"
# Asked in each way of starting a container.
SEEN = "import torch; print('cuda', torch.cuda.is_available(), torch.cuda.device_count(), torch.__version__)"
PLATFORM = """
import json
from reprobuild_runtime.fingerprint import fingerprint
try:
    import torch
except Exception:
    torch = None
print(json.dumps(fingerprint(torch)))
"""


class Place:
    """The directory of the programs, and the interpreter to measure."""

    def __init__(self, folder: str, python: str, quick: bool) -> None:
        self.folder, self.python, self.quick = folder, python, quick
        # As in an image, by a .pth: the hook seeds and applies the profile in every interpreter.
        with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
            file.write("import reprobuild_runtime.startup\n")

    def environ(self, **more: str) -> "dict[str, str]":
        """Return the environment of a job with a chosen seed."""
        chosen = {"REPROBUILD_SEED": "7", "REPROBUILD_SEED_EXPLICIT": "1", "PYTHONHASHSEED": "7"}
        return {**os.environ, "PYTHONPATH": self.folder, "REPROBUILD_RECORD": "0", **chosen, **more}

    def smoke(self, **options: "Any") -> "dict[str, Any]":
        """Run the determinism test, and return its document.

        A test that cannot run gives {"ran": false, "why"}.
        """
        program = os.path.join(self.folder, "reprobuild_runtime", "probes", "run.py")
        if self.quick:
            options = {**options, "quick": True, "only": ["index_add", "layer_norm", "draw_normal"]}
        return ask([self.python, program, json.dumps({"seed": 7, **options})], self.environ())


def ask(command: "list[str]", environ: "dict[str, str]", limit: int = LIMIT) -> "dict[str, Any]":
    """Run a program, and return the JSON document that it prints.

    A failure gives {"ran": false, "why"}.
    """
    try:
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=limit
        )
        found = json.loads(done.stdout)
        return found if isinstance(found, dict) else {"ran": False, "why": "it printed no object"}
    except (OSError, subprocess.SubprocessError, ValueError) as err:
        return {"ran": False, "why": f"{type(err).__name__}: {err}"}


def cuda(place: Place) -> "dict[str, Any]":
    """Measure all probes in all modes under stress.

    Controls and collectives belong to it.
    """
    return place.smoke(device="cuda")


def cuda_calm(place: Place) -> "dict[str, Any]":
    """Measure each probe's time in each mode, without stress.

    Strict mode's slowdown is added.
    """
    found = place.smoke(device="cuda", modes=["default", "profile", "strict"], processes=1, stress=False,
                        controls=False, collectives=False)  # fmt: skip
    return {**found, "slowdown": slowdown(found.get("probes", []))}


def slowdown(probes: "list[dict[str, Any]]") -> "dict[str, float]":
    """Return the slowdown of each probe in strict mode.

    It is the time in strict mode divided by the time by default; a probe without one of the two is left out.
    """
    found = {}
    for probe in probes:
        times = [probe["modes"].get(mode, {}).get("median_ms") for mode in ("strict", "default")]
        if times[0] and times[1]:
            found[probe["name"]] = round(times[0] / times[1], 3)
    return found


def cuda_compiled(place: Place) -> "dict[str, Any]":
    """Measure the output of torch.compile.

    Each process has a cold cache.
    """
    names = ["compiled_gpt_block", "compiled_reduction", "compiled_flex_attention"]
    return place.smoke(device="cuda", modes=["default", "strict"], only=names, stress=False, controls=False,
                       collectives=False, limit=180)  # fmt: skip


def cpu(place: Place) -> "dict[str, Any]":
    """Measure all probes on this machine's CPU.

    Modes, stress and controls are those of `cuda`; collectives are left out.
    """
    return place.smoke(device="cpu", collectives=False)


def profiles(place: Place) -> "dict[str, Any]":
    """Return the settings in force with each profile.

    The hooks of an image apply it.
    """
    code = (
        "import json, torch; from reprobuild_runtime.fingerprint import fingerprint; found = fingerprint(torch)\n"
        "print(json.dumps({'ran': True, 'settings': found['settings'], 'environment': found['environment']}))"
    )
    names = ["log-only", "torch", "strict"]
    return {name: ask([place.python, "-c", code], place.environ(REPROBUILD_PROFILE=name)) for name in names}


def machine(place: Place) -> "dict[str, Any]":
    """Describe this machine.

    Added are the kinds of containers in which its GPU can be seen.
    """
    ways = {
        "namespace root": ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork"],
        "apptainer": ["apptainer", "exec", "--nv", "--bind", "/", "--userns", "/"],
    }
    containers = {name: started(place, command) for name, command in ways.items()}
    program = [place.python, "-c", PLATFORM]
    return {"fingerprint": ask(program, place.environ()), "containers": containers, "about": NOT_OURS}


def started(place: Place, command: "list[str]") -> "dict[str, Any]":
    """Try a way of starting a container here.

    Returns whether it works, and whether torch sees a GPU inside it.
    """
    if shutil.which(command[0]) is None:
        return {"works": False, "gpu": None, "why": f"there is no {command[0]} on this machine"}
    try:
        done = subprocess.run([*command, place.python, "-c", SEEN], env=place.environ(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)  # fmt: skip
    except (OSError, subprocess.SubprocessError) as err:
        return {"works": False, "gpu": None, "why": f"{type(err).__name__}: {err}"}
    words = done.stdout.decode(errors="replace").split()
    if done.returncode or words[:1] != ["cuda"]:
        tail = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        return {"works": False, "gpu": None, "why": f"exit code {done.returncode}: " + " / ".join(tail)}
    return {"works": True, "gpu": words[1] == "True", "why": ""}


PARTS: "dict[str, Callable[[Place], dict[str, Any]]]" = {
    "machine": machine, "cuda": cuda, "cuda-calm": cuda_calm, "cuda-compiled": cuda_compiled, "cpu": cpu,
    "profiles": profiles,
}  # fmt: skip


def uncovered(found: "dict[str, dict[str, Any]]") -> "list[str]":
    """Return in words the gaps of these results."""
    lines = [NOT_OURS, *(f"part {name} was not run" for name in PARTS if name not in found)]
    for name in ("cuda", "cuda-calm", "cuda-compiled", "cpu"):
        part = found.get(name, {})
        if part and not part.get("ran"):
            lines.append(f"{name}: {part.get('why')}")
        for probe in part.get("probes", []):
            whys = sorted({mode["why"] for mode in probe["modes"].values() if mode["verdict"] == "SKIPPED"})
            lines += [f"{name}: {probe['name']}: {why}" for why in whys]
        if part.get("stress") and not part["stress"]["ran"]:
            lines.append(f"{name}: the stress did not run: {part['stress']['why']}")
    collectives = found.get("cuda", {}).get("collectives") or {}
    if collectives.get("verdict") == "SKIPPED":
        lines.append(f"collectives: {collectives['why']}")
    for name, told in found.get("machine", {}).get("containers", {}).items():
        if not (told["works"] and told["gpu"]):
            lines.append(f"{name}: " + (told["why"] or "torch sees no GPU inside it"))
    return lines


def verdicts(part: str, found: "dict[str, Any]") -> "list[str]":
    """Return a line for each probe and control.

    It has verdict, results/runs and median time in each mode.
    """
    if not found.get("ran", True):
        return [f"{part}: {found.get('why')}"]
    lines = []
    for probe in [*found.get("probes", []), *found.get("controls", [])]:
        modes = probe.get("modes", {}).items()
        words = [
            f"{mode} {each['verdict']} {each.get('distinct')}/{each.get('repeats')} {each.get('median_ms')} ms"
            for mode, each in modes
        ]
        lines.append(f"{part}: {probe['name']}: " + ", ".join(words or [str(probe.get("verdict"))]))
    return lines


def main(argv: "list[str] | None" = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", help="where the results go; made where it is not there")
    parser.add_argument(
        "--part", action="append", choices=sorted(PARTS), help="this one only; may be given again"
    )
    parser.add_argument("--quick", action="store_true", help="three probes, once: to see that it works")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has torch")
    options = parser.parse_args(argv)
    os.makedirs(options.folder, exist_ok=True)
    found: dict[str, dict[str, Any]] = {}
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        with zipfile.ZipFile(os.path.abspath(sys.argv[0])) as archive:
            archive.extractall(folder)
        place = Place(folder, options.python, options.quick)
        for name in options.part or PARTS:
            print(f"{name} ...", file=sys.stderr, flush=True)
            began = time.monotonic()
            found[name] = PARTS[name](place)
            seconds[name] = round(time.monotonic() - began, 1)
            write(options.folder, name, found[name])
            print("\n".join(verdicts(name, found[name])), flush=True)
    write(
        options.folder,
        "summary",
        {"quick": options.quick, "seconds": seconds, "not covered": uncovered(found)},
    )
    return 0


def write(folder: str, name: str, content: "dict[str, Any]") -> None:
    """Write one dated file of results."""
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    document = {"version": 1, "kind": f"gpu-{name}", "date": now, **content}
    with open(os.path.join(folder, name + ".json"), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    sys.exit(main())
