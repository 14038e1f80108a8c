"""Values of any length in imported files: each is refused at a count, before work that grows faster than it."""

from __future__ import annotations

import pytest

from reprobuild.snapshot.importers import draft, uv_lock


def test_the_directory_of_a_project_is_matched_in_one_way() -> None:
    # One way for each text: without a slash, a component cannot begin anew.
    assert "/?)+" not in uv_lock._PLAIN.pattern
    for place in (".", "a", "a/", "a/b-c/d.e", "_a/1"):
        assert uv_lock._PLAIN.fullmatch(place)
    for place in ("", "/a", "a//b", "-a", "a!", "a/.b", "./a"):
        assert not uv_lock._PLAIN.fullmatch(place)
    assert not uv_lock._PLAIN.fullmatch("a" * 5000 + "!")  # it would last for ever


@pytest.mark.parametrize(("length", "is_read"), [(200, True), (201, False), (1 << 20, False)])
def test_a_long_version_of_python_is_not_matched(length: int, is_read: bool) -> None:
    import_draft = draft.Draft("a run", "run.json")
    import_draft.add_python("3.11.4 ".ljust(length, "x"), "python", "Linux-" + "x86_64" * (1 << 16) + "\n")
    assert import_draft.has("python.txt") is is_read
    if not is_read:
        (unused,) = unused_fields(import_draft)
        assert unused == ("python", "it has more than 200 characters")


def unused_fields(import_draft: draft.Draft) -> list[tuple[str, str]]:
    import_draft.add("requirements.txt", "click==8.1.7", "a line")
    return [(entry.field, entry.reason) for entry in import_draft.finish().facts.unused]
