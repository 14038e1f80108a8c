"""Tests of noisy numbers: Welch's test in looks, and the sequential test of Wald.

* Welch, "The generalization of Student's problem", Biometrika 34, 1947, https://doi.org/10.1093/biomet/34.1-2.28.
* Wald, "Sequential Tests of Statistical Hypotheses", Annals of Mathematical Statistics 16(2), 1945,
  https://doi.org/10.1214/aoms/1177731118.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from msgspec import Struct


class Levels(Struct, frozen=True, kw_only=True):
    """The results of both sides: their means, and the deviation of one run."""

    first: float
    second: float
    deviation: float

    def likelihood(self, values: Sequence[float]) -> float:
        """Return the logarithm of the likelihood of B over that of A."""
        middle = (self.first + self.second) / 2
        scale = (self.second - self.first) / self.deviation**2
        return sum(scale * (value - middle) for value in values)


def measure_levels(first: Sequence[float], second: Sequence[float]) -> Levels:
    """Return the levels of two samples of at least two runs."""
    freedom = len(first) + len(second) - 2
    squares = sum((len(part) - 1) * statistics.variance(part) for part in (first, second))
    deviation = math.sqrt(squares / freedom)
    least = 1e-12 * max(abs(value) for value in (*first, *second)) or 1e-300
    return Levels(
        first=statistics.fmean(first), second=statistics.fmean(second), deviation=max(deviation, least)
    )


def welch_probability(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the probability of such a difference between samples of one distribution (two-sided)."""
    parts = [statistics.variance(sample) / len(sample) for sample in (first, second)]
    error = sum(parts)
    distance = abs(statistics.fmean(first) - statistics.fmean(second))
    if error == 0:
        return 0.0 if distance else 1.0
    freedom = error**2 / sum(
        part**2 / (len(sample) - 1) for part, sample in zip(parts, (first, second), strict=True)
    )
    return student_tail(distance / math.sqrt(error), freedom)


def student_tail(value: float, freedom: float) -> float:
    """Return the probability beyond plus or minus a value of Student's t."""
    return _incomplete_beta(freedom / (freedom + value * value), freedom / 2, 0.5)


def _incomplete_beta(place: float, first: float, second: float) -> float:
    """Return the regularised incomplete beta function, by its continued fraction (https://dlmf.nist.gov/8.17#v)."""
    if place <= 0 or place >= 1:
        return 0.0 if place <= 0 else 1.0
    if place > (first + 1) / (first + second + 2):
        return 1 - _incomplete_beta(1 - place, second, first)
    front = math.exp(
        first * math.log(place) + second * math.log1p(-place)
        + math.lgamma(first + second) - math.lgamma(first) - math.lgamma(second)
    )  # fmt: skip
    tiny = 1e-300
    numerator, denominator, fraction = 1.0, 0.0, 1.0
    for step in range(400):
        half = step // 2
        if step == 0:
            term = 1.0
        elif step % 2 == 0:
            term = half * (second - half) * place / ((first + step - 1) * (first + step))
        else:
            term = -(first + half) * (first + second + half) * place / ((first + step - 1) * (first + step))
        denominator = 1 / ((1 + term * denominator) or tiny)
        numerator = (1 + term / numerator) or tiny
        fraction *= numerator * denominator
        if abs(1 - numerator * denominator) < 1e-12 and step:
            break
    return front * (fraction - 1) / first
