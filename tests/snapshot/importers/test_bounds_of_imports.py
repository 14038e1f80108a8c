"""Values of any length in imported files: each is refused at a count, before work that grows faster than it."""

from __future__ import annotations

from reprobuild.snapshot.importers import uv_lock


def test_the_directory_of_a_project_is_matched_in_one_way() -> None:
    # One way for each text: without a slash, a component cannot begin anew.
    assert "/?)+" not in uv_lock._PLAIN.pattern
    for place in (".", "a", "a/", "a/b-c/d.e", "_a/1"):
        assert uv_lock._PLAIN.fullmatch(place)
    for place in ("", "/a", "a//b", "-a", "a!", "a/.b", "./a"):
        assert not uv_lock._PLAIN.fullmatch(place)
    assert not uv_lock._PLAIN.fullmatch("a" * 5000 + "!")  # it would last for ever
