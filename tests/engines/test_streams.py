"""What a container prints is kept up to a bound, whatever the engine."""

from __future__ import annotations

import pytest

from reprobuild.engines.model import Streams


def test_what_is_short_is_whole() -> None:
    streams = Streams()
    for number, piece in ((1, b"a"), (2, b"x"), (1, b"b"), (2, b"y")):
        streams.take(number, piece)
    assert (streams.read(1), streams.read(2)) == (b"ab", b"xy")


def test_of_output_without_end_the_beginning_is_kept_and_of_errors_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Streams, "LARGEST", 10)
    streams = Streams()
    for number in range(1000):
        for stream in (1, 2):
            streams.take(stream, b"%03d" % number)
            assert sum(map(len, streams.held.values())) <= 11 + 3 * 10
    assert (
        streams.read(1) == b"00000100200"
    )  # a byte more than the bound: the reader sees that there was more
    assert streams.read(2) == b"6997998999"
