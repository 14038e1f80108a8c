"""What a line with a slip means; the lines of real freezes mean themselves."""

from __future__ import annotations

import pytest

from reprobuild.resolve.python.requirement_forms import suggest_requirement


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("flask=3.0", "flask==3.0"),
        ("flask = 3.0  # the web", "flask==3.0"),
        ("pandas 2.1.0", "pandas==2.1.0"),
        ("pandas v2.1.0", "pandas==2.1.0"),
        ("scipy=>1.10", "scipy>=1.10"),
        ("torch>2.0<3", "torch>2.0,<3"),
        ("transformers >= 4.30 < 5", "transformers>=4.30,<5"),
        ("ray[tune]>=2 != 2.3.*", "ray[tune]>=2,!=2.3.*"),
        ("opencv-python== 4.8;", "opencv-python==4.8"),
        ('"requests==2.31",', "requests==2.31"),
        ("numpy=1.26.4=py311h64a7726_0", None),  # a line of `conda list --export`
        ("scikit learn==1.0", None),
        ("Installing collected packages: numpy", None),
        ("numpy", None),
        ("numpy==1.26.4", None),
        ("", None),
        ("# 3.0", None),
        ("flask=3.0; rm -rf", None),
        ("a=1" + "0" * 300, None),
    ],
)
def test_the_requirement_that_a_line_means(line: str, meant: str | None) -> None:
    assert suggest_requirement(line) == meant


def test_a_line_of_many_signs_takes_no_time() -> None:
    assert suggest_requirement("a" + ">1!" * 60) is None
    assert suggest_requirement("a " * 90) is None
