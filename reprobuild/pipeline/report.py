"""The report of an output directory: its page and its badge."""

from __future__ import annotations

from pathlib import Path

from reprobuild.image.formats.single_file import drop_foreign_singles
from reprobuild.image.model import Image
from reprobuild.image.oci.layer_sizes import read_layer_sizes
from reprobuild.infra.atomic import write_file
from reprobuild.lock.model import Lock
from reprobuild.output.directory import BADGE, REPORT
from reprobuild.output.times import read_times
from reprobuild.report.html.badge import render_badge
from reprobuild.report.html.build import BuildFacts
from reprobuild.report.html.cluster import Nodes
from reprobuild.report.html.page import render_html
from reprobuild.store.store import Store
from reprobuild.verify.verdict import Verdict


def write_report(
    lock: Lock,
    image: Image,
    verdict: Verdict,
    out: Path,
    name: str,
    store: Store,
    cluster: Nodes | None = None,
) -> None:
    """Write the page and the badge of an image into its output directory.

    `name` is that of the image in engines, see `engine_name`. Single files of the image are on the page only if the
    store remembers them.

    Raises:
        OSError: a file cannot be written.
    """
    shown = drop_foreign_singles(image, out, store)
    page = render_html(lock, shown, verdict, cluster, read_build_facts(image, out), name)
    write_file(out / REPORT, page.encode())
    write_file(out / BADGE, render_badge(verdict, cluster).encode())


def read_build_facts(image: Image, out: Path) -> BuildFacts:
    """Return the sizes and times of an output directory; those without a readable file are empty."""
    return BuildFacts(layers=read_layer_sizes(out / image.layout), seconds=read_times(out, image))
