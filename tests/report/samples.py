"""Pages with everything in them: hostile text in all its places, and 500 packages."""

from __future__ import annotations

import hashlib
from html.parser import HTMLParser
from typing import Any

import msgspec

from reprobuild.image.model import Image
from reprobuild.image.oci.layer_sizes import LayerSize
from reprobuild.lock.model import Lock, Workload
from reprobuild.lock.python import CondaPackage
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import Base, EnvVar
from reprobuild.output.times import STAGES
from reprobuild.report.html.build import BuildFacts
from reprobuild.report.html.cluster import Nodes, OutlierRow, Peers
from reprobuild.report.html.page import render_html
from reprobuild.verify.verdict import (
    Against,
    Collectives,
    ControlVerdict,
    Deviation,
    Mode,
    ProbeVerdict,
    RoundTripDifference,
    Smoke,
    Verdict,
    WorkComparison,
)
from tests.verify.samples import artefact, deb, make_lock, make_smoke, make_verdict, ruling, source, wheel

IMAGE = Image(
    layout="image", reference="reprobuild:0123456789ab", tree=f"sha256:{'1' * 64}", config=f"sha256:{'2' * 64}",
    manifest=f"sha256:{'3' * 64}", layers=4,
)  # fmt: skip
# Each would do something where it is not escaped.
HOSTILE = (
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onmouseover='alert(1)", "&lt;b&gt;",
    "</td></table></style></script><iframe src=//planted.example>", "identical</td><td>", "javascript:alert(1)",
    "<svg><title></svg><a href=//planted.example>", "<base href=//planted.example>", "]]><!--",
    "url(//planted.example)",
)  # fmt: skip
LONG = "/very/long/" + "x" * 20_000
SEEN = ("IDENTICAL", "REFUSED", "DRIFT", "ERROR", "SKIPPED")


class Page(HTMLParser):
    """What stands on a page: tags, attributes, and its text."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.text = ""
        self._code = 0
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self._code = tag in ("script", "style")
        self.attributes |= {(name, value or "") for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.text += "" if self._code else f"\n{data}"


def deviation(bad: str) -> Deviation:
    return Deviation(scope=bad, name=bad, then=bad, now=None)


def mode(seen: Any, why: str = "") -> Mode:
    digest = "d" * 64 if seen == "IDENTICAL" else None
    return Mode(
        verdict=seen, digest=digest, again=digest, distinct=3, runs=10, processes=2, upper=0.3, why=why
    )


def hostile_smoke(bad: str) -> Smoke:
    """Return a determinism test in which all text that a container can give is this, and every answer occurs."""
    answers = ("identical", "refused", "drift", "inconclusive", "not-applicable", "informational")
    probes = tuple(
        ProbeVerdict(
            name=bad, kind=bad, dtype=bad, shape=bad, documented="refused", verdict=answer, why=bad,
            modes={"default": mode("DRIFT", bad), "strict": mode(SEEN[n % len(SEEN)], bad),
                   "warn": mode("SKIPPED", bad)},
        )
        for n, answer in enumerate(answers)
    )  # fmt: skip
    control = ControlVerdict(
        name=bad, device="cpu", why=bad, modes={bad: mode("ERROR", bad)}, verdict="ineffective"
    )
    several = Collectives(
        verdict="drift", backend=bad, world=2, why=bad, probes=probes, algorithms=(bad,), controls=(control,)
    )
    return make_smoke(
        verdict="inconclusive", open=(bad,), expectations=bad, probes=probes, controls=(control,), collectives=several,
        comparator={bad: False}, hook="drift", left_out=(bad,), stress=bad,
        fingerprint={bad: bad, "nested": {bad: [bad], "a": {"b": bad}}},
    )  # fmt: skip


def full_lock(bad: str) -> Lock:
    """Return a lock in which this text stands wherever text can."""
    file = msgspec.structs.replace(artefact(bad), url=bad)
    conda = CondaPackage(name=bad, version=bad, build=bad, subdir=bad, channel=bad, file=file)
    rulings = (
        ruling(bad, bad, "unresolved", bad, kind=bad, accepted=True),
        ruling("torch", "torch==1.0"),
        ruling(bad, bad, "excluded", bad, kind=bad, file="env.txt"),
        ruling("TOKEN", "", "excluded", bad, kind="secret", file="env.txt"),
        ruling(bad, bad, "in base", bad, file=bad),
    )
    return make_lock(
        rulings=rulings, wheels=(wheel(bad, bad, yanked=bad), wheel("b", requires=("nothere>=1",))), conda=(conda,),
        base=Base(distribution=bad, release=bad, packages=(deb(bad, bad),)),
        sources=(msgspec.structs.replace(source(bad, "7" * 40), commit=bad, patch=bad),),
        environment=(EnvVar(name=bad, value=bad),), platform=bad,
        decisions=RecordedDecisions(accept=(bad,), bake={bad: bad}),
        workload=Workload(command=("echo", bad), outputs=(bad,)), profile=bad,
    )  # fmt: skip


def full_verdict(bad: str, **more: Any) -> Verdict:
    """Return a verdict in which this text stands wherever text can."""
    verdict = make_verdict(
        "inconclusive", "not-covered", "residue", made=bad, program=bad, profile=bad, engine=bad, gpus=bad,
        smoke=(hostile_smoke(bad), msgspec.structs.replace(hostile_smoke(bad), device="cuda")), notes=(bad,),
        comparisons=(WorkComparison(name=bad, verdict="drift", detail=bad, details=(bad, bad)),),
        differences=(RoundTripDifference(list=bad, captured=bad, image=bad, reason=bad, code="unexplained"),
                     RoundTripDifference(list=bad, captured=bad, image=bad, reason=bad, code="decision")),
        against=Against(certificate=bad, made=bad, verdict="differ", compared=1, failed=(deviation(bad),),
                        beside=(deviation(bad),), platform=(deviation(bad),), other=(deviation(bad),),
                        unmatched=(deviation(bad),)),
    )  # fmt: skip
    return msgspec.structs.replace(verdict, **more)


def full_nodes(bad: str) -> Nodes:
    odd = (OutlierRow(node=bad, said=bad, answers=(bad, bad)),)
    peers = Peers(device=bad, title=bad, nodes=(bad,), compared=3, platform={bad: bad})
    return Nodes(verdict="differ", asked=3, wrong=odd, lacking=odd, silent=odd, groups=(peers,), notes=(bad,))


def full_page(bad: str = "plain") -> str:
    """Return a page with this text in every place."""
    image = Image(
        layout=bad, reference=bad, tree=bad, config=bad, manifest=bad, layers=1, sif=bad, builder=bad
    )
    return render_html(full_lock(bad), image, full_verdict(bad), full_nodes(bad), full_build(bad))


def full_build(bad: str) -> BuildFacts:
    """Return the sizes of two layers, and the time of each stage."""
    layers = tuple(LayerSize(title=bad, size=size) for size in (1, 2))
    return BuildFacts(layers=layers, seconds=dict.fromkeys(STAGES, 12.0))


def large_page(packages: int = 500, system: int = 400, variables: int = 150) -> str:
    """Return the page of a large environment, with the text of a real one in every line."""
    names = [
        f"{hashlib.sha256(str(n).encode()).hexdigest()[:1]}-distribution-{n:03}" for n in range(packages)
    ]
    debs = [f"lib{chr(97 + n % 26)}{n:03}-dev" for n in range(system)]
    lines = [
        *(ruling(name, f"{name}==1.{n}.0", line=n) for n, name in enumerate(names)),
        *(
            ruling(name, name, reason=f"{name} 2:1.{n}-3+deb12u1 from debian/bookworm, needed by libc6-dev, gcc-12",
                   file="apt-packages.txt", line=n)
            for n, name in enumerate(debs)
        ),
        *(
            ruling(f"SLURM_VARIABLE_{n}", "", "excluded", "set by the scheduler or launcher of each job",
                   kind="scheduler", file="env.txt", line=n)
            for n in range(variables)
        ),
    ]  # fmt: skip
    lock = make_lock(
        rulings=tuple(lines), wheels=tuple(wheel(name, f"1.{n}.0") for n, name in enumerate(names)),
        base=Base(distribution="debian", release="bookworm", packages=tuple(deb(n, "2:1.0-3+deb12u1") for n in debs)),
    )  # fmt: skip
    differences = tuple(
        RoundTripDifference(list="env.txt", captured=f"SLURM_VARIABLE_{n}", image="", code="site-variable",
                   reason="set by the scheduler or launcher of each job")
        for n in range(variables)
    )  # fmt: skip
    verdict = make_verdict(
        round_trip="explained", differences=differences, smoke=(make_smoke(), make_smoke("cuda"))
    )
    return render_html(lock, IMAGE, verdict)
