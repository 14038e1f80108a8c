"""The title of the page: the project, the machine of the check, and facts of the image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from reprobuild.image.model import Image
from reprobuild.image.oci.layer_sizes import LayerSize
from reprobuild.lock.distributions import distributions
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Source
from reprobuild.report.html.components import format_count
from reprobuild.report.units import format_bytes
from reprobuild.resolve.system.release import known_releases
from reprobuild.verify.determinism.document import flatten_fingerprint
from reprobuild.verify.determinism.summary import TITLES, count_gpus
from reprobuild.verify.verdict import Smoke, Verdict

COMMIT = 7  # characters, as git shows them
# The distributions that name an environment, in the order of their weight.
_FRAMEWORKS = {"torch": "PyTorch", **{name: TITLES[name] for name in ("jax", "tensorflow", "numpy")}}


class PageTitle(Struct, frozen=True, kw_only=True):
    """The heading of the page.

    `project` is its name, `state` its commit. `day` is the date of the check, `machine` its hardware.
    """

    project: str
    state: str
    day: str
    machine: str
    facts: Sequence[str]


def view_title(lock: Lock, image: Image, verdict: Verdict, layers: Sequence[LayerSize]) -> PageTitle:
    """Return the title of the page.

    Args:
        layers: of the image; empty if their sizes are unknown.
    """
    project = find_project(lock)
    changed = " + uncommitted changes" if project and project.patch else ""
    return PageTitle(
        project=project.name if project else image.reference,
        state=f"{project.commit[:COMMIT]}{changed}" if project else "",
        day=verdict.made[:10],
        machine=describe_machine(verdict),
        facts=tuple(_list_facts(lock, layers)),
    )


def find_project(lock: Lock) -> Source | None:
    """Return the source that the job ran in, else the first editable one, else the first."""
    sources = sorted(lock.sources, key=lambda source: (source.path != lock.workdir, not source.watched))
    return sources[0] if sources else None


def describe_machine(verdict: Verdict) -> str:
    """Describe the processor, the threads and the GPUs of the check; empty if no probe ran."""
    smokes: dict[str, Smoke] = {smoke.device: smoke for smoke in verdict.smoke if smoke.fingerprint}
    if "cpu" not in smokes:
        return ""
    fingerprint = smokes["cpu"].fingerprint
    model = fingerprint.get("cpu_model")
    words = [model.strip()] if isinstance(model, str) and model.strip() else []
    if isinstance(threads := fingerprint.get("threads"), int):
        words.append(format_count(threads, "thread"))
    words.append(_describe_gpus(smokes.get("cuda")))
    return ", ".join(words)


def _describe_gpus(cuda: Smoke | None) -> str:
    number = count_gpus(cuda) if cuda else 0
    if cuda is None or not number:
        return "no GPU"
    name = dict(flatten_fingerprint(cuda.fingerprint)).get("cuda.gpus.0.name", "GPU")
    return name if number == 1 else f"{number} x {name}"


def _list_facts(lock: Lock, layers: Sequence[LayerSize]) -> Iterator[str]:
    versions = distributions(lock)
    for name, title in _FRAMEWORKS.items():
        if name in versions:
            yield " ".join((title, *sorted(versions[name])))
            break
    yield f"Python {lock.interpreter.version}"
    yield f"{describe_system(lock)}, {lock.machine}"
    system = len(lock.base.installed)
    yield f"{len(versions):,} Python and {format_count(system, 'system package')}"
    if layers:
        yield f"{format_bytes(sum(layer.size for layer in layers))} in {format_count(len(layers), 'layer')}"
    if any(line.kind == "scheduler" for line in lock.rulings):
        yield "captured in a job of a scheduler"


def describe_system(lock: Lock) -> str:
    """Return the distribution with the number of its release, as `Debian 12`."""
    base = lock.base
    number = {release.codename: release.number for release in known_releases()}.get(
        base.release, base.release
    )
    return f"{base.distribution[:1].upper()}{base.distribution[1:]} {number}"
