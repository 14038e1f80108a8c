"""The results of the Python interface. A notebook shows them as HTML.

Methods import the modules that render: a start of `run` or `build` takes a sixth less processor time without them.
"""

from __future__ import annotations

import html
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.compare.environments.comparison import EnvironmentComparison
from reprobuild.image.model import Image
from reprobuild.image.oci.read import layout_size
from reprobuild.lock.model import Lock
from reprobuild.verify.verdict import Verdict

_HEIGHT = 640  # pixels of the report in a notebook


class BuildResult(Struct, frozen=True, kw_only=True):
    """An image in an output directory, and its verdict if it was checked.

    `lock` is sealed: it names the outputs of each build. `out` also holds the report, if there is a verdict. `warnings`
    are further differences that a user should know, such as variables that the job's code names and the image lacks.
    """

    lock: Lock
    image: Image
    verdict: Verdict | None
    out: Path
    warnings: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of the command line, 0 without a check."""
        return self.verdict.exit_code if self.verdict else 0

    def render(self, seconds: float | None = None) -> str:
        """Return the text that the command line prints, with the duration of the command if it is given."""
        from reprobuild.report.text import render_text

        size = layout_size(self.out / self.image.layout)
        return render_text(
            self.lock, self.image, self.verdict, self.out, size=size, seconds=seconds, warnings=self.warnings
        )

    def __str__(self) -> str:
        return self.render()

    def _repr_html_(self) -> str:
        """Return the report for a notebook, in a frame that cannot reach the notebook."""
        from reprobuild.pipeline.report import read_build_facts
        from reprobuild.report.html.page import render_html

        if self.verdict is None:
            return f"<pre>{html.escape(str(self))}</pre>"
        shown = msgspec.structs.replace(self.image, sif="", sqsh="")  # the frame is in no directory with them
        report = render_html(self.lock, shown, self.verdict, build=read_build_facts(self.image, self.out))
        title = html.escape(f"Report of {self.out}")
        frame = f'<iframe sandbox="allow-scripts" width="100%" height="{_HEIGHT}" title="{title}"'
        return f'{frame} srcdoc="{html.escape(report)}"></iframe>'


class ComparisonResult(Struct, frozen=True, kw_only=True):
    """The differences of two environments, the likeliest culprit first."""

    comparison: EnvironmentComparison

    def __str__(self) -> str:
        """Return the text that the command line prints."""
        from reprobuild.report.comparison import render_comparison

        return render_comparison(self.comparison)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


class RunResult(Struct, frozen=True, kw_only=True):
    """The end of a command in a container: its exit code and its output."""

    code: int
    stdout: bytes
    stderr: bytes
