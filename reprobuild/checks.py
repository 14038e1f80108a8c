"""A folder of results is checked: its image is loaded and run, and the verdict and the report are written."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.engines import find_engine
from reprobuild.halflife import forecast
from reprobuild.image.build import Image
from reprobuild.lock import Lock
from reprobuild.report.html import render_html
from reprobuild.session import Session
from reprobuild.verify.check import verify_image
from reprobuild.verify.verdict import Verdict
from reprobuild.whole import write_file

VERDICT, REPORT = "verdict.json", "report.html"


class Checks(Struct, frozen=True, kw_only=True):
    """How the image is checked: on which engine, with the control or not, on the CPU alone or not."""

    engine: str | None = None
    control: bool = True
    cpu_only: bool = False


def verify(lock: Lock, image: Image, out: Path, session: Session, checks: Checks) -> Verdict:
    """Load the image, check it, and write the verdict and the report into `out`."""
    engine = find_engine(checks.engine, session.env)
    if engine.load(out / "image", image.reference, (image.config, image.manifest), session.env):
        session.say(f"loaded {image.reference} into {engine.NAME}")
    verdict = verify_image(
        lock, image.reference, image.manifest, engine, session.env,
        control=checks.control, cpu_only=checks.cpu_only, say=session.say,
    )  # fmt: skip
    write_file(out / VERDICT, msgspec.json.format(msgspec.json.encode(verdict)) + b"\n")
    page = render_html(lock, image, verdict, forecast(lock, session.store, session.today))
    write_file(out / REPORT, page.encode())
    return verdict
