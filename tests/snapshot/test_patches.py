# ruff: noqa: E501 (a row of a table stays on one line)

from __future__ import annotations

import random

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.model import ParseNote, Patch, PatchedFile
from reprobuild.snapshot.parsers import git_diff
from reprobuild.snapshot.parsers.diff_names import is_safe_path, parse_header_names
from reprobuild_portable import secrets
from tests.snapshot.samples import SECRETS
from tests.snapshot.shapes import MORE, SHAPES, fill

HUNK = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@ def f():\n a\n-b\n+c\n"
DIFF = "diff --git a/x.py b/x.py\nindex 0123456..89abcde 100644\n" + HUNK


def read(text: str, file: str = "x.diff") -> tuple[Patch, tuple[ParseNote, ...]]:
    found, remarks = git_diff.parse(text.encode("utf-8", "surrogateescape"), file)
    assert found[0].content == text.encode("utf-8", "surrogateescape")
    return found[0], remarks


def one(text: str) -> PatchedFile:
    patch, _ = read(text)
    assert len(patch.files) == 1
    return patch.files[0]


def test_a_plain_diff() -> None:
    patch, remarks = read(DIFF + DIFF.replace("x.py", "y.py"), "my.repo.diff")
    assert (patch.name, patch.file, patch.strip) == ("my.repo", "my.repo.diff", 1)
    assert patch.files[1] == PatchedFile(
        line=9,
        old_path="y.py",
        new_path="y.py",
        old_blob="0123456",
        new_blob="89abcde",
        old_mode="100644",
        new_mode="100644",
    )
    assert not remarks


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        ("diff --git a/f b/f\nnew file mode 100644\nindex 0000000..e69de29\n", None, "f"),
        ("diff --git a/f b/f\ndeleted file mode 100644\nindex e69de29..0000000\n", "f", None),
        ("diff --git a/f b/f\nold mode 100644\nnew mode 100755\n", "f", "f"),
        ("diff --git a/a/b c b/d e\nsimilarity index 100%\nrename from a/b c\nrename to d e\n", "a/b c", "d e"),
        ("diff --git a/f b/g\nsimilarity index 90%\ncopy from f\ncopy to g\n", "f", "g"),
        ("diff --git a/f b/g\nsimilarity index 90%\nrename from f\nrename to g\nindex 012345a..012345b 100644\n"
         "--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "f", "g"),
        ("diff --git a/a b c b/a b c\nnew file mode 100644\nindex 0000000..e69de29\n", None, "a b c"),
        ("diff --git a/a b b/a b\nindex 012345a..012345b 100644\n--- a/a b\t\n+++ b/a b\t\n@@ -1 +1 @@\n-a\n+b\n", "a b", "a b"),
        ('diff --git "a/t\\tn\\n\\"q\\"" "b/t\\tn\\n\\"q\\""\nnew file mode 100644\nindex 0000000..e69de29\n', None, 't\tn\n"q"'),
        ('diff --git "a/\\360\\237\\222\\251" "b/\\360\\237\\222\\251"\nnew file mode 100644\n', None, "💩"),
        ('diff --git "a/\\200x" "b/\\200x"\nnew file mode 100644\n', None, "\\x80x"),
        ('diff --git a/f "b/\\tg"\nrename from f\nrename to "\\tg"\n', "f", "\tg"),
        ("diff --git i/f w/f\nindex 012345a..012345b 100644\n--- i/f\n+++ w/f\n@@ -1 +1 @@\n-a\n+b\n", "f", "f"),
        ("diff --git a/é b/é\nold mode 100644\nnew mode 100755\n", "é", "é"),
    ],
)  # fmt: skip
def test_names(text: str, old: str | None, new: str | None) -> None:
    found = one(text)
    assert (found.old_path, found.new_path) == (old, new)


def test_modes() -> None:
    lines = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n"
    found = one(f"diff --git a/f b/f\nold mode 100644\nnew mode 100755\nindex 012345a..012345b\n{lines}")
    assert (found.old_mode, found.new_mode) == ("100644", "100755")


def test_a_diff_without_prefixes() -> None:
    patch, _ = read(
        "diff --git b/x b/x\nindex 012345a..012345b 100644\n--- b/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    )
    assert (patch.strip, patch.files[0].old_path) == (0, "b/x")


def test_a_type_change_is_two_files() -> None:
    patch, _ = read(
        "diff --git a/t b/t\ndeleted file mode 100644\nindex e69de29..0000000\n"
        "diff --git a/t b/t\nnew file mode 120000\nindex 0000000..42061c0\n--- /dev/null\n+++ b/t\n"
        "@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n"
    )
    assert [(f.old_path, f.new_path, f.new_mode) for f in patch.files] == [
        ("t", None, None),
        (None, "t", "120000"),
    ]


def test_binary_patches() -> None:
    text = (
        "diff --git a/f b/f\nindex 0123456..89abcde 100644\nGIT binary patch\nliteral 2\nJ"
        + "c" * 15
        + "\n\nliteral 0\nHcmV?d00001\n\n"
    )
    patch, remarks = read(text + DIFF)
    assert len(patch.files) == 2
    assert not remarks


def test_binary_content_that_was_not_captured() -> None:
    patch, remarks = read(
        "diff --git a/f b/f\nindex 0123456..89abcde 100644\nBinary files a/f and b/f differ\n"
    )
    assert patch.files[0].missing
    assert "not captured" in remarks[0].reason
    assert not remarks[0].understood


def test_submodules() -> None:
    hunk = "--- a/s\n+++ b/s\n@@ -1 +1 @@\n-Subproject commit 0123456\n+Subproject commit 89abcde-dirty\n"
    patch, remarks = read("diff --git a/s b/s\nindex 0123456..89abcde 160000\n" + hunk)
    assert patch.files[0].new_mode == "160000"
    assert "submodule" in remarks[0].reason


def test_what_surrounds_a_diff() -> None:
    _, remarks = read("commit 0123\n\n    a message\n" + DIFF + "-- \n2.45.2\nSubmodule s 012345..6789ab:\n")
    assert [(r.place.line, r.understood) for r in remarks] == [
        (1, True),
        (3, True),
        (12, True),
        (13, True),
        (14, False),
    ]


def test_crlf_content_and_crlf_headers() -> None:
    _, remarks = read(DIFF.replace(" a\n", " a\r\n").replace("+c\n", "+c\r\n"))
    assert not remarks
    patch, remarks = read(DIFF.replace("\n", "\r\n"))
    assert patch.files[0].new_path == "x.py"
    assert "CRLF" in remarks[0].reason


def test_trimmed_context_lines() -> None:
    assert one(DIFF.replace(" a\n", "\n")).new_path == "x.py"


@pytest.mark.parametrize("empty", ["", "\n", "  \n"])
def test_an_empty_diff(empty: str) -> None:
    found, remarks = git_diff.parse(empty.encode(), "x.diff")
    assert not found
    assert "nothing had been changed" in remarks[0].reason


@pytest.mark.parametrize("file", ["work.diff", "x-1.0-py3-none-any.whl.diff"])
def test_a_diff_that_the_recipe_took_in_the_wrong_folder(file: str) -> None:
    _, remarks = read(DIFF, file)
    assert "the directory in which the job ran" in remarks[0].reason
    assert not remarks[0].understood


@pytest.mark.parametrize(
    ("text", "line", "what", "hint"),
    [
        (DIFF.removesuffix("+c\n"), 5, "other lines than its header says", "cut short"),
        (DIFF.removesuffix("-b\n+c\n"), 5, "other lines", "cut short"),
        (DIFF.replace("+c\n", "diff --git a/y b/y\n"), 5, "other lines", "cut short"),
        (DIFF.replace(" @@ def", " @ def"), 5, "damaged hunk header", "cut short"),
        (HUNK, 1, "not the output of `git diff`", "git diff --binary"),
        ("hello\n", 1, "not the output of `git diff`", "git diff --binary"),
        ("@@ -1 +1 @@\n-a\n+b\n" + DIFF, 1, "belongs to no file", "beginning"),
        ("\x1b[1m" + DIFF, 1, "colours", "color.ui=false"),
        ("diff --cc x\nindex 012345,678901..000000\n", 1, "merge was not finished", "resolve"),
        (DIFF + "diff --cc x\nindex 012345,678901..000000\n", 9, "merge was not finished", "resolve"),
        ("diff --git a/a b/c d e\nold mode 100644\n", 1, "cannot be told apart", "git diff"),
        (DIFF + DIFF.split("---")[0], 9, "the changes of the last file are missing", "cut short"),
        (DIFF.split("+++")[0], 1, "the changes of the last file are missing", "cut short"),
        (
            DIFF + "diff --git a/y b/y\nnew file mode 100644\nindex 00000",
            11,
            "the header of a file has no end",
            "cut short",
        ),
        (DIFF + "diff --git a/y b/y\nnew fi", 10, "the header of a file has no end", "cut short"),
        (DIFF.split("---")[0] + "GIT binary patch\n", 3, "no content", "cut short"),
        (DIFF.split("---")[0] + "GIT binary patch\nliteral 2\nJcccc\n\n", 5, "damaged line", "cut short"),
        (DIFF.split("---")[0] + "GIT binary patch\nliteral 0\nHcmV?d00001", 3, "no end", "cut short"),
    ],
)
def test_damaged_diffs(text: str, line: int, what: str, hint: str) -> None:
    with pytest.raises(SnapshotError, match=what) as err:
        git_diff.parse(text.encode(), "x.diff")
    assert str(err.value).startswith(f"x.diff:{line}: ")
    assert hint in err.value.hint


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "x/../../y",
        "/etc/passwd",
        ".git/hooks/pre-commit",
        "s/.GIT/config",
        "s/.git. /x",
        "..",
        "a\\..\\b",
        "C:\\x",
        "C:/x",
    ],
)
def test_paths_that_leave_the_repository(name: str) -> None:
    assert not is_safe_path(name)
    for text in (
        DIFF.replace("x.py", name.replace("\\", "\\\\") if "\\" in name else name),
        f"diff --git a/f b/g\nrename from f\nrename to {name}\n",
    ):
        with pytest.raises(SnapshotError, match=r"^x.diff:1: the path `") as err:
            git_diff.parse(text.encode(), "x.diff")
        assert "where this file came from" in err.value.hint


@pytest.mark.parametrize("name", ["x", "a/b", ".gitignore", ".github/x", "a..b", "x.git/y"])
def test_paths_that_stay(name: str) -> None:
    assert is_safe_path(name)


@pytest.mark.parametrize("sign", ["+", "-", " "])
def test_a_secret_stops_the_patch(sign: str) -> None:
    text = f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n a\n-a\n+b\n{sign}k = '{SECRETS['github']}'\n"
    counts = {"+": "-1,2 +1,3", "-": "-1,3 +1,2", " ": "-1,3 +1,3"}[sign]
    with pytest.raises(SnapshotError, match=r"^x.diff:8: .* holds a secret \(github\)") as err:
        git_diff.parse(text.replace("-1,3 +1,3", counts).encode(), "x.diff")
    assert SECRETS["github"] not in str(err.value) + err.value.hint
    assert "revoke it" in err.value.hint


@pytest.mark.parametrize("sign", ["+", "-", " "])
def test_the_sign_of_a_line_hides_no_secret(sign: str) -> None:
    """Rules look at the start of a line, and at the next line."""
    source = random.Random(3)
    for shape, form in {**SHAPES, **MORE}.items():
        rows = fill(form, source)[0].rstrip("\n").split("\n")
        if not secrets.find("\n".join(rows).encode()):
            continue
        count = len(rows)
        counts = {"+": f"-0,0 +1,{count}", "-": f"-1,{count} +0,0", " ": f"-1,{count} +1,{count}"}[sign]
        diff = f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ {counts} @@\n" + "".join(
            f"{sign}{row}\n" for row in rows
        )
        with pytest.raises(SnapshotError, match="holds a secret"):
            git_diff.parse(diff.encode(), f"{shape}.diff")


def test_removed_and_added_lines_are_searched_apart() -> None:
    """A line between them hides no secret of two lines."""
    text = (
        "diff --git a/.netrc b/.netrc\n--- a/.netrc\n+++ b/.netrc\n@@ -1,3 +1,3 @@\n machine h.example\n"
        "+# a comment\n- login ada\n-  password Zk39bTq7Lw2m\n+end\n"
    )
    with pytest.raises(SnapshotError, match=r"x.diff:8: a removed line holds a secret \(netrc\)") as err:
        git_diff.parse(text.encode(), "x.diff")
    assert err.value.hint == (
        "take it out of the source, read it from the environment, revoke it, and capture again; "
        "`reprobuild capture` leaves the old content of such a file out"
    )


def test_a_deletion_needs_no_content() -> None:
    """git applies it if the whole id is there, as a capture writes it for a file with a secret."""
    text = (
        f"diff --git a/f b/f\ndeleted file mode 100644\nindex {'1' * 40}..{'0' * 40}\n"
        "Binary files a/f and /dev/null differ\n"
    )
    patch, remarks = read(text)
    assert (patch.files[0].new_path, patch.files[0].missing, remarks) == (None, False, ())
    patch, remarks = read(text.replace("1" * 40, "1" * 7))
    assert patch.files[0].missing


def test_header_names_that_only_other_lines_can_tell() -> None:
    assert parse_header_names(b"a/one two b/three") is None


def test_the_lines_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """A diff of 64 MiB of short lines took 1.4 GB before it was refused."""
    monkeypatch.setattr(git_diff, "_MOST_LINES", DIFF.count("\n"))
    assert one(DIFF).new_path == "x.py"
    with pytest.raises(
        SnapshotError, match=r"^x\.diff: 9 lines are more than the 8 that a diff may have$"
    ) as caught:
        git_diff.parse(f"{DIFF}\n".encode(), "x.diff")
    assert "`git diff --binary`" in caught.value.hint
