from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reprobuild.snapshot.model import ParseNote, Variable
from reprobuild.snapshot.parsers import env as environ
from reprobuild.snapshot.parsers.shell_quoting import unquote
from reprobuild_portable import secrets
from tests.snapshot.samples import SECRETS, covered, written

FUNCTION = "BASH_FUNC_f%%=() {  if true; then\n VALUE=notavar;\n fi\n}\n"
PEM = f"{SECRETS['private-key']}\nMIIEowIBAAKCAQEA+/aZ\nQm9nK==\n-----END RSA PRIVATE KEY-----"


def read(text: str) -> tuple[dict[str, Variable], tuple[ParseNote, ...]]:
    variables, remarks = environ.parse(text.encode())
    assert covered(variables, remarks) == written(text.encode())
    return {v.name: v for v in variables}, remarks


def sort(text: str) -> str:
    return "".join(sorted(text.splitlines(keepends=True)))


def test_plain_printenv() -> None:
    found, remarks = read("PATH=/bin\nEMPTY=\nPROMPT=(base) \nx=webapp\nNCCL_IB_HCA=^mlx5_4\nA=b=c\n")
    assert {n: v.value for n, v in found.items()} == {
        "PATH": "/bin", "EMPTY": "", "PROMPT": "(base) ", "x": "webapp", "NCCL_IB_HCA": "^mlx5_4", "A": "b=c",
    }  # fmt: skip
    assert not remarks
    assert not any(v.suspect or v.secret for v in found.values())


def test_records_between_nuls_are_never_suspect() -> None:
    data = b'A=one\nZZZ=notavar\nlast\0BASH_FUNC_f%%=() {  echo\n}\0B="open\0HF_TOKEN=hunter2\0' + b"junk\0"
    variables, remarks = environ.parse(data)
    assert [(v.place.line, v.name, v.value, v.lines) for v in variables] == [
        (1, "A", "one\nZZZ=notavar\nlast", 3), (4, "B", '"open', 1), (4, "HF_TOKEN", None, 1),
    ]  # fmt: skip
    assert [r.reason for r in remarks] == ["a shell function", "a record without a name"]
    assert covered(variables, remarks) == written(data)


def test_functions_are_swallowed() -> None:
    found, remarks = read("A=1\n" + FUNCTION + "BASH_FUNC_g()=() {  echo\n}\n_=/usr/bin/env\n")
    assert list(found) == ["A", "_"]
    assert [(r.reason, r.lines, r.text) for r in remarks] == [
        ("a shell function", 4, "BASH_FUNC_f%%=() {"), ("a shell function", 2, "BASH_FUNC_g()=() {"),
    ]  # fmt: skip


def test_functions_without_their_end() -> None:
    found, remarks = read("B=1\nBASH_FUNC_f%%=() {  echo\n ...\nBASH_FUNC_g%%=() {  x\n y <<...\nA=2\n")
    assert [v.value for v in found.values()] == ["1", "2"]
    assert [r.lines for r in remarks] == [2, 2]


def test_values_of_many_lines_are_put_together() -> None:
    found, _ = read('J={\n "a": 1,\nX=no\n}\nB=2\n\nC="one\ntwo"\nLSF=-s\n/opt/x -a\n')
    assert found["J"].value == '{\n "a": 1,\nX=no\n}'
    assert found["C"].value == '"one\ntwo"'
    assert (found["B"].value, found["B"].lines) == ("2", 1)
    assert not found["J"].suspect
    assert not found["C"].suspect
    assert found["LSF"].value == "-s\n/opt/x -a"
    assert "may not belong" in found["LSF"].suspect


def test_a_private_key_goes_as_a_whole() -> None:
    found, remarks = read(f"A=1\nTLS={PEM}\nB=2\n")
    assert (found["TLS"].value, found["TLS"].secret, found["TLS"].lines) == (None, "private-key", 4)
    assert not remarks


def test_a_sorted_dump_with_debris() -> None:
    plain = "PATH=/bin\nLD_PRELOAD=/x.so\nOMP_NUM_THREADS=4\nNCCL_DEBUG=INFO\nSITE=here\nOPEN={\nodd=1\nhttp_proxy=http://x:1\n"
    found, remarks = read(sort(plain + FUNCTION))
    assert [n for n, v in found.items() if not v.suspect] == [
        "LD_PRELOAD", "NCCL_DEBUG", "OMP_NUM_THREADS", "PATH", "http_proxy",
    ]  # fmt: skip
    assert "holds torn values" in found["SITE"].suspect
    assert "stay open" in found["OPEN"].suspect
    assert "unusual name" in found["odd"].suspect
    assert found["SITE"].value == "here"
    assert any(r.text.startswith("(14 characters, not kept") for r in remarks)


def test_lines_of_a_function_that_bash_exported_are_recognised(tmp_path: Path) -> None:
    """What bash and sort really write."""
    script = r"""
    ml() { local mode='v'; case "$-" in *x*) set +x; mode="x";; *) ;; esac
      case " $@ " in *' --no-redirect '*) local quiet=1; _redirect=0 ;; *' --redirect '*) _redirect=1 ;; esac
      if [ -n "${1:-}" ]; then for word in "$@"; do echo "$word"; done; else return 1; fi; ( cd / && eval ls ); }
    export -f ml; export A=1 B=2 C=3 PATH; env | LC_ALL=C sort
    """
    env = {"PATH": os.environ["PATH"]}
    dump = subprocess.run(["bash", "-c", script], env=env, check=True, capture_output=True, text=True).stdout
    assert dump.count("\n ") > 8
    found, remarks = read(dump)
    assert found["A"].value == "1"
    assert [remark for remark in remarks if not remark.understood] == []
    # Without the function's first line nothing says that they are its lines.
    _, others = read("".join(line for line in dump.splitlines(keepends=True) if "BASH_FUNC" not in line))
    assert [remark for remark in others if not remark.understood] != []


def test_a_sorted_dump_without_debris_is_trusted() -> None:
    found, _ = read("A=1\nB=2\nC=3\nD=4\nSITE=5\n")
    assert not any(v.suspect for v in found.values())


def test_another_locale_sorts_otherwise() -> None:
    found, remarks = read(
        "}\nSLURM_CPUS=1\nSLURMD_NAME=a\nSLURM_GTIDS=0\nSLURM_JOBID=4\nSLURM JOBM\nSLURM_JOB_NAME=j\n"
    )
    assert not any("\n" in (v.value or "") for v in found.values())
    assert remarks[0].text == "}"


@pytest.mark.parametrize(
    "torn", [f"MY_KEY={PEM}", 'GCP_CREDENTIALS={\n "private": "hunter2",\nKEYID=hunter3\n}', f"ODD={PEM}"]
)
@pytest.mark.parametrize("order", [str, sort])
def test_no_piece_of_a_torn_secret_is_kept(torn: str, order: type) -> None:
    text = order(f"A=1\nB=2\nPATH=/bin\n{torn}\nZ=1\n")
    variables, remarks = environ.parse(text.encode())
    kept = repr((variables, remarks))
    assert not any(piece in kept for piece in ("hunter", "MIIE", "Qm9n"))
    assert any(v.value == "/bin" for v in variables)


def test_export_lists() -> None:
    found, remarks = read(
        '# export OLD=1\n#export OLDER=2\n\nexport A="x y"\nexport B=cuda>=9.0\ndeclare -x C="one\ntwo \\"q\\""\n'
        "declare -x D=$'a\\nb\\x41'\ndeclare -x NONE\nexport E='s'\\''t'\nexport F=/a:/b #:/home/x\nexport G=\n"
    )
    assert {n: v.value for n, v in found.items()} == {
        "A": "x y", "B": "cuda>=9.0", "C": 'one\ntwo "q"', "D": "a\nbA", "E": "s't", "F": "/a:/b", "G": "",
    }  # fmt: skip
    assert not any(v.suspect for v in found.values())
    assert [r.reason for r in remarks] == [
        "a variable that is commented out", "a variable that is commented out", "exported without a value",
        "a comment behind the value",
    ]  # fmt: skip


def test_an_export_that_never_closes_its_quote() -> None:
    found, _ = read('export A="x\nexport B=1\n')
    assert "never closed" in found["A"].suspect
    assert found["B"].value == "1"


@pytest.mark.parametrize(
    ("quoted", "text"),
    [
        ("a\\ b", "a\\ b"),
        ("\"a\"'b'c", "abc"),
        ('"a" # c', "a"),
        ("'a'\\", "a\\"),
        ("$'\\303\\251\\x41\\8\\x'", "éA8x"),
    ],
)
def test_unquote(quoted: str, text: str) -> None:
    assert unquote(quoted).text == text


def test_what_else_stands_in_such_files() -> None:
    found, remarks = read(
        "Currently Loaded Modules:\n  1) a/1 (H)\n\n  Where:\n   H:  Hidden Module\n\n"
        "B=1\nA=/very/long/value/that/somebody/cut/...\n[root@pod x]# ls\n# done\n"
    )
    assert list(found) == ["B", "A"]
    assert "something cut it" in found["A"].suspect
    assert [r.reason for r in remarks] == ["a module list in front of the variables"] * 4 + [
        "a shell prompt",
        "a comment",
    ]


def test_output_of_another_command_in_front() -> None:
    _, remarks = read("policy: default\nB=1\nA=2\n")
    assert remarks[0].reason == "output of another command"


def test_indented_dumps_and_unusual_names() -> None:
    found, _ = read("    B=1\n    A.b-c=2\n")
    assert found["B"].value == "1"
    assert "unusual name" in found["A.b-c"].suspect


def test_a_name_twice_is_suspect() -> None:
    variables, _ = environ.parse(b"B=1\nA=2\nB=3\n")
    assert [bool(v.suspect) for v in variables] == [True, False, True]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("WANDB_API_KEY=hunter2", "named"),
        ("DB_PASS=hunter2", "password"),
        ("PIP_INDEX_URL=https://alice:hunter2@example.org/simple", "url-credential"),
        ("NOTE=" + SECRETS["github"], "github"),
        ('SETTINGS={"password": "hunter2"}', "password"),
    ],
)
def test_secrets_are_dropped_at_once(line: str, rule: str) -> None:
    found, _ = read(line + "\n")
    variable = next(iter(found.values()))
    assert (variable.value, variable.secret) == (None, rule)


def test_a_secret_in_a_comment_is_not_shown() -> None:
    _, remarks = read("# export DB_PASS=hunter2 hunter3\nA=1\n$ DB_PASS=hunter2 python x.py\n")
    assert "hunter" not in repr(remarks)


def test_an_empty_file_is_said() -> None:
    _, remarks = environ.parse(b"")
    assert "gave nothing" in remarks[0].reason


def test_set_of_a_shell_is_unquoted_and_never_trusted() -> None:
    head = "BASH_VERSINFO=([0]=\"5\" [1]=\"2\")\nHOME=/root\nIFS=$' \\t\\n'\nPS4='+ '\n"
    found, remarks = read(head + "f () \n{ \n    echo A=1\n}\n_=x\n")
    assert {name: v.value for name, v in found.items()} == {
        "BASH_VERSINFO": '([0]="5" [1]="2")', "HOME": "/root", "IFS": " \t\n", "PS4": "+ ", "_": "x",
    }  # fmt: skip
    assert {v.suspect for v in found.values()} == {"`set` printed it, which does not state what was exported"}
    assert [(r.place.line, r.lines, r.text) for r in remarks] == [(5, 4, "f=() {")]


def test_a_quoted_value_is_not_looked_for_without_end() -> None:
    found, _ = read("export A='x\n" + "y\n" * 400 + "z'\nB=1\n")
    assert found["A"].suspect == "a quote that is never closed"
    found, _ = read("export A='x\n" + "y\n" * 200 + "z'\nB=1\n")
    assert (found["A"].suspect, found["A"].lines) == ("", 202)


@pytest.mark.parametrize("piece", ["-u a:b ", "a @ http://", "x"])
def test_a_value_that_no_process_can_have_is_withheld_unread(
    piece: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte of `-u a:b` took 20 s: the kernel takes no string above 128 KiB (execve(2), MAX_ARG_STRLEN)."""
    searched: list[str] = []
    search = secrets.secret_variable

    def watched(name: str, value: str) -> str | None:
        searched.append(name)
        return search(name, value)

    monkeypatch.setattr(secrets, "secret_variable", watched)
    large = (piece * 140_000)[: 1 << 20]
    wide = "\u20ac" * ((1 << 17) // 3 + 1)
    for text in (f"A=1\nBIG={large}\nC=2\nWIDE={wide}\n", f"B=1\nBIG={large}\nA=2\nWIDE={wide}\n"):
        found, _ = read(text)
        assert [(found[name].value, found[name].secret) for name in ("BIG", "WIDE")] == [(None, "size")] * 2
        assert found["A"].value is not None
    variables, _ = environ.parse(f"BIG={large}\0A=1\0".encode())
    assert [(variable.name, variable.value) for variable in variables] == [("BIG", None), ("A", "1")]
    assert not {"BIG", "WIDE"} & {*searched}
    assert "A" in searched


def test_the_largest_value_that_a_process_can_have_is_kept() -> None:
    largest = "x/" * (1 << 16)
    found, _ = read(f"BIG={largest}\n")
    assert found["BIG"].value == largest
