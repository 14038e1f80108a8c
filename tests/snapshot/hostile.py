"""Texts that are made to be slow: one row many times, or one row of great length, for each reader."""

# ruff: noqa: E501 (a row of a table stays on one line)

from __future__ import annotations

# Lines of each captured file that a parser may trip over, by the first name of its kind; {0} takes a number.
ROWS: dict[str, tuple[str, ...]] = {
    "requirements.txt": ("a==1", "a{0}==1", "-e /x{0}", "# Editable install (e{0}==1)",
               "a{0} @ file:///x", "a; ((((", "Package Version"),
    "apt-packages.txt": ("x{0}/a,now 1 all [installed]", "ii  x{0} 1 all y",
            "a/b c", "Listing...", "[[[[", "x/y z all [a,b"),
    "env.txt": ("A{0}=1", "A={{", "export A='x", "BASH_FUNC_f{0}%%=() {{  x", "A=-----BEGIN X-----", "}}", "x", "A=(",
                "", "declare -x A=\"", "A=[{{", "# A=1", "Z=1\nA={{", "Z=1\nA=[", "Z\nBASH_FUNC_f{0}%%=() {{  x\n}}",
                "Z=1\nexport A=\"x\ny", "Z=1\nexport A=\"\\\"", "IFS=$' '\nf () ", "Z=1\nA=-----BEGIN X-----", "aaaaaaaaaaaaaaaa1A==", "$ env"),
    "env.nul": ("A{0}=1\0", "A\0", "\n\0"),
    "modules.txt": ("  {0}) a/1", "1) a 2) b", "Where:", "Currently Loaded Modules:\n  1) a/1\nWhere:\nx", "a/1 -> b/2", "Currently Loaded Modules:", "x"),
    "*.diff": ("diff --git a/x{0} b/x{0}", "diff --git a/x b/x\n@@ -1 +1 @@\n-a\n+b",
                "+", " ", "@@ -1 +1 @@", "literal 1",
                "diff --git a/x b/x\n@@ -1 +1 @@\n-https://u:s3kr1t-pa55w0rd9@h.example/x\n+b"),
    "conda-explicit.txt": ("a{0} 1 py_0", "a{0}=1=0", "https://x.example/linux-64/a{0}-1-0.conda#0", "a-1", "# # Name", "a-a-a-a-1",
              "Name Version Build"),
    "environment.yml": ("- a{0}=1=0", "  - a", "a: b", "- [", "- {{a: ", "? a", "&a [", "- 'x", "- - - -", "a{0}: 1", "# x"),
    "collect-env.txt": ("OS: x", "OS: [\nx", "GPU 0: X", "cuDNN version: Probably one of the following:", "/x", "CPU:", "x", "A=1",
                    "PyTorch version: 1", "Python version: 3 [", "[pip3] torch==1", "GPU models and configuration:"),
    "nvidia-smi.txt": ("| 0 x Off | 0000000 |", "=====NVSMI LOG=====", "a : b", "GPU 0: x (UUID: GPU-1)", "+---+", "x"),
    "rpm-packages.txt": ("a{0} 1-1 x86_64", "a-1-1.x86_64", "a-a-a-a-a", "x"),
    "python.txt": ("Python 3.11.2 (main, x) [GCC 12]", "[GCC 12]", "linux-x86_64", "Python 3.{0}", "Python 3.13.1 experimental free-threading build", "x"),
    "capture.json": ("[", "{{\"a\":", "1", "\"python\"", "{{\"capture\": 1, \"python\": ["),
}  # fmt: skip


def rows(row: str, size: int) -> bytes:
    """Return about `size` bytes of one row, numbered where it has a place for a number."""
    many = max(1, size // (len(row) + 1))
    return "\n".join(row.format(number) for number in range(many)).encode()


def long_row(row: str, size: int) -> bytes:
    """Return one line of about `size` bytes."""
    once = row.format(7).replace("\n", " ") or " "
    return (once * (size // len(once) + 1)).encode()
