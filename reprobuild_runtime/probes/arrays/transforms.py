"""Probes of Fourier transforms, convolutions and interpolation."""

from reprobuild_runtime.probes.arrays.bench import probe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

    from reprobuild_runtime.probes.arrays.bench import ArrayBench


@probe()
def numpy_fft(b: "ArrayBench") -> "List[Any]":
    """Transform lengths with small and with large prime factors.

    They have different algorithms.
    """
    fft = b.numpy.fft
    return [
        fft.fft(b.randn(4096)),
        fft.rfft(b.randn(3 * 1009)),
        fft.ifft2(b.randn(64, 90)),
        fft.irfft(b.randn(513)),
    ]


@probe()
def numpy_convolve(b: "ArrayBench") -> "List[Any]":
    signal, places = b.randn(5000), b.numpy.sort(b.randn(300))
    return [
        b.numpy.convolve(signal, b.randn(129)), b.numpy.correlate(signal, b.randn(64)),
        b.numpy.interp(b.randn(1000), places, b.randn(300)), b.numpy.polyfit(places, b.randn(300), 5),
    ]  # fmt: skip
