"""A directory in the place of another: texts of `sysconfig`, and search paths of the loader."""

from __future__ import annotations

import pytest

from reprobuild.infra.untrusted.relocation import find_build_prefix, relocate_search_path, relocate_text

OLD, NEW = "/sw/python/3.11.7", "/opt/python"


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("build_time_vars = {'AR': 'ar',\n 'exec_prefix': '/other',\n 'prefix': '/sw/python/3.11.7'}\n", OLD),
        ("build_time_vars = {'prefix': '/sw/python/3.11.7'}\n", OLD),
        (" 'exec_prefix': '/sw/python',\n", ""),
        (" 'prefix': '/sw/../etc',\n", ""), (" 'prefix': '/',\n", ""), (" 'prefix': 'sw',\n", ""),
        (" 'prefix': '/sw/my python',\n", ""), ("", ""),
    ],
)  # fmt: skip
def test_the_prefix_of_sysconfig(text: str, prefix: str) -> None:
    assert find_build_prefix(text) == prefix


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        (
            "'-L/sw/python/3.11.7/lib -I/sw/python/3.11.7/include'",
            "'-L/opt/python/lib -I/opt/python/include'",
        ),
        ("-Wl,-rpath,/sw/python/3.11.7/lib", "-Wl,-rpath,/opt/python/lib"),
        ("#!/sw/python/3.11.7/bin/python3.11\n", "#!/opt/python/bin/python3.11\n"),
        ("prefix=/sw/python/3.11.7\n", "prefix=/opt/python\n"),
        ("/sw/python/3.11.75 /mnt/sw/python/3.11.7 /sw/python/3x11.7", None),
    ],
)
def test_a_text(text: str, moved: str | None) -> None:
    assert relocate_text(text, OLD, NEW) == (text if moved is None else moved)


@pytest.mark.parametrize(
    ("text", "moved"),
    [
        (b"/sw/python/3.11.7/lib", b"/opt/python/lib"),
        (b"/sw/python/3.11.7/lib:/sw/python/3.11.7/lib:/sw/lib", b"/opt/python/lib:/sw/lib"),
        (b"$ORIGIN/../lib:/sw/python/3.11.70/lib", b"$ORIGIN/../lib:/sw/python/3.11.70/lib"),
    ],
)
def test_a_search_path_keeps_its_length(text: bytes, moved: bytes) -> None:
    found = relocate_search_path(text, OLD, NEW)
    assert found is not None
    assert len(found) == len(text)
    assert found.rstrip(b"\0") == moved


def test_a_search_path_without_room() -> None:
    assert relocate_search_path(b"/py/lib", "/py", NEW) is None
    assert relocate_search_path(b"/py/lib:/py/lib:/py/lib", "/py", NEW) is not None  # one of them is enough
