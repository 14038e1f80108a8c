"""What is a secret is withheld: the same as everywhere in reprobuild, and in no byte of the result."""

from __future__ import annotations

import base64
import json
import os
import random
import re
import shutil
import subprocess
import zlib
from pathlib import Path
from unittest import mock

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.read import read_snapshot
from reprobuild_portable import secrets
from reprobuild_runtime import capture
from tests.capture.repositories import BASE, ENV, LEAN, PROGRAM, built, document, git, new_origin, take, write
from tests.e2e.test_planted_secrets import forms
from tests.e2e.test_planted_secrets import planted as fifty
from tests.snapshot.samples import ALNUM, SECRETS
from tests.snapshot.shapes import fill
from tests.snapshot.test_secrets import HARMLESS, LOGINS

PEM = (
    "-----BEGIN OPENSSH "
    + "PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\nQWxhZGRpbjpvcGVuc2VzYW1l\n-----END KEY-----"
)


VARIABLES = [
    ("HF_TOKEN", "abc"), ("HF_TOKEN", ""), ("MAX_TOKENS", "100"), ("PATH", "/usr/bin"), ("SOME_AUTH", ALNUM),
    ("INNOCENT", SECRETS["github"]), ("SETTINGS", '{"password": "tiger"}'), ("KEY_PEM", PEM), ("TEXT", PEM),
    ("OPTIONS", "--api-key=tiger"), ("PIP_INDEX_URL", SECRETS["url-credential"]), ("LD_PRELOAD", "/lib/x.so"),
    ("GLOBAL_TOKEN", "abc123"), ("GLOBAL_TOKEN", "5"), ("HF_TOKENIZER_API_KEY", "abcd"),
    ("PRIMARY_KEY", "id"), ("COSMOS_PRIMARY_KEY", ALNUM * 4), ("AZURE_STORAGE_PRIMARY_KEY", "abc"),
    *(("X", sample) for sample in SECRETS.values()), *((name, value) for name, value, _ in LOGINS), *HARMLESS,
]  # fmt: skip
TEXTS = [
    "run --global-token abc123 --max-token 5", "https://h.example/x.whl?new_token=abc123",
    '{"password": "hunter2"}', "Authorization: Token abc", "curl -u bob:pw x", "PASSWORD:pw", "password = pw",
    "x --password 'a b' --lr 1", "https://u:p@ss/w@host/x", "sort_key=loss", "primary_key=0123456789abcdef",
    "train.py --token abc --lr 1", "https://u:p@host.example/x?token=1", "Authorization: Bearer abcdefghij",
    "https://host.example/conda/t/a_1/main", "https://host.example/t/a_1", "file:///t/build/x.whl",
    "git@host.example:r.git", "user:p4ss@host.example:r.git", *SECRETS.values(),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), VARIABLES)
def test_the_same_variables_are_secrets(name: str, value: str) -> None:
    assert capture.secret_variable(name, value) == secrets.secret_variable(name, value)


@pytest.mark.parametrize("text", TEXTS)
def test_the_same_texts_are_cut(text: str) -> None:
    assert capture.redact(text) == secrets.redact(text)
    assert capture.strip_credentials(text) == secrets.strip_credentials(text)
    assert capture.find(text.encode()) == secrets.find(text.encode())


# Made up, and nowhere else on this machine: each is planted in one place.
PLANTED = {name: f"{name}-Zq7{number}xW9pLr4T" for number, name in enumerate(
    ["by-name", "in-json", "in-url", "remote", "remote-short", "freeze", "vcs", "conda", "argument", "option",
     "repeated", "query", "login", "module", "header", "curl", "ldap", "sshpass", "hydra"]
)}  # fmt: skip


COMMANDS = [
    "docker login -u ada -p {} r.example", "wandb login --relogin 0123456789abcdef0123456789abcdef{}", "7z x -p{} a.7z",
    "mc alias set s https://s3.example ada {}", "ldapsearch -x -w {}", "smbclient -U ada%{} //h/s", "lftp -u ada,{} h",
    "unzip -o -P {} a.zip", "openssl rsa -passin pass:{}", "curl -b session={} https://h.example",
    "sqlplus ada/{}@//h/x",
    "psql host=h user=ada password={} dbname=d",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_no_password_of_a_command_is_captured(command: str) -> None:
    password = "0a1b2c3d" if "wandb" in command else "Hunter22xYz"
    words = ["bash", "-x", *command.format(password).split(" "), "", "last"]
    shown = capture.redact_arguments(words)
    assert password not in " ".join(shown)
    assert [
        word for word, plain in zip(shown, words, strict=True) if word != plain and "***" not in word
    ] == []
    assert (len([word for word in shown if "***" in word]), shown[-1]) == (1, "last")


FIELDS = [
    "--wandb.key",
    "--logger.wandb.key",
    "--api.key",
    "--hf.token",
    "--db.pass",
    "--trainer.logger.api_key",
]
HEX = "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567"


@pytest.mark.parametrize("option", FIELDS)
def test_a_secret_field_of_a_configuration_is_not_captured(option: str) -> None:
    """jsonargparse and pyrallis have such options."""
    cut = [["train.py", option, "***", "--seed", "1"], ["bash", "-c", f"train.py {option} *** --seed 1"]]
    plain = [["train.py", option, HEX, "--seed", "1"], ["bash", "-c", f"train.py {option} {HEX} --seed 1"]]
    assert [capture.redact_arguments(words) for words in plain] == cut
    assert HEX not in " ".join(capture.redact_arguments(["train.py", f"{option}={HEX}", "--seed", "1"]))
    assert capture.secret_variable("ARGS", f"train.py {option} {HEX}")


@pytest.mark.parametrize("words", [
    "--data.key image", "--model.tokenizer gpt2", "--tokenizer.path gpt2", "--optimizer.lr 0.1", "--train.pass 2",
    "--azure.region westus", "--model.pad_token_id 0", "--data.tokens 1000000", "--sort.key created_at",
    "--trainer.max_tokens 4096", "--data.split.key validation-2024-01", "--auth.token_type bearer", "--loss.sig 0.5",
])  # fmt: skip
def test_an_innocent_field_of_a_configuration_is_captured(words: str) -> None:
    argv = ["train.py", *words.split(), "--seed", "1"]
    assert capture.redact_arguments(argv) == argv
    assert capture.redact_arguments(["bash", "-c", " ".join(argv)]) == ["bash", "-c", " ".join(argv)]
    assert not capture.secret_variable("ARGS", " ".join(argv))


@pytest.mark.parametrize("program", ["redis-cli", "/opt/bin/valkey-cli", "keydb-cli"])
@pytest.mark.parametrize("password", ["Hunter22xYz", "Tiger"])
def test_a_password_behind_the_option_of_redis_is_not_captured(program: str, password: str) -> None:
    start = ["docker", "exec", "db", program, "-h", "cache"]
    assert capture.redact_arguments([*start, f"-a{password}", "ping"]) == [*start, "-a***", "ping"]
    assert capture.redact_arguments([*start, "-a", password, "ping"]) == [*start, "-a", "***", "ping"]
    line = f"{program} -h cache -aHunter22xYz ping".encode()
    assert secrets.find(line) == [(1, "redis")]
    assert secrets.find(b"redis-cli -n 2 -a$PASS1 x") == []


@pytest.mark.parametrize("option", ["-pass", "-passin", "-passout", "-password"])
def test_a_password_of_openssl_is_not_captured_behind_a_database(option: str) -> None:
    """`-p` with a password in one word is an option of a database, and these are none."""
    source = random.Random(option)
    for _ in range(200):
        text, (password,) = fill(f"openssl rsa {option} pass:{{p16}}", source)
        words = text.split(" ")
        for before in ([], ["mysql", "-u", "root", "-pHunter22xYz", "runs"], ["mongodump", "--host", "db"]):
            shown = capture.redact_arguments([*before, *words, "last"])
            assert shown[-5:-2] == ["openssl", "rsa", option], shown
            assert shown[-2] in ("pass:***", "***"), (password, shown)
            assert "Hunter22xYz" not in " ".join(shown)


def test_an_innocent_command_is_captured_as_it_is() -> None:
    for line in (
        "docker login r.example",
        "unzip -o a.zip -d out1",
        "7z a -mx9 out1.7z data",
        "openssl version -a",
    ):
        assert capture.redact_arguments(line.split(" ")) == line.split(" ")


def plant_distribution(site: Path, name: str, direct_url: dict[str, object]) -> None:
    folder = site / f"{name}-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n\ntext\n")
    (folder / "direct_url.json").write_text(json.dumps(direct_url))


def captured_bytes(out: Path) -> bytes:
    """Return every byte of a snapshot, also as it is when unpacked."""
    found = []
    for path in sorted(out.rglob("*")):
        data = path.read_bytes()
        found.append(os.fsencode(path.name) + data)
        found += [unpacked(data[match.start() :]) for match in re.finditer(b"x[\x01\x5e\x9c\xda]", data)]
    return b"".join(found)


def unpacked(data: bytes) -> bytes:
    try:
        return zlib.decompressobj().decompress(data)
    except zlib.error:
        return b""


@pytest.fixture
def planted(tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A capture of an environment with a secret in every place that is read."""
    top = new_origin(tmp_path, project=True)
    write(top, "kept.py", b"changed\n")
    git(top, "remote", "set-url", "origin", f"https://ada:{PLANTED['remote']}@git.example/r.git")
    git(top, "remote", "add", "short", f"ada:{PLANTED['remote-short']}@git.example:r.git")
    site = tmp_path / "site"
    built(top, "editable")
    plant_distribution(site, "editable", {"url": top.as_uri(), "dir_info": {"editable": True}})
    archive = {"url": f"https://ada:{PLANTED['freeze']}@files.example/a.whl", "archive_info": {}}
    plant_distribution(site, "archived", archive)
    vcs = {
        "url": f"https://{PLANTED['vcs']}@git.example/r",
        "vcs_info": {"vcs": "git", "commit_id": "0" * 40},
    }
    plant_distribution(site, "fetched", vcs)
    query = {"url": f"https://files.example/b.whl?token={PLANTED['query']}", "archive_info": {}}
    plant_distribution(site, "asked", query)
    prefix = tmp_path / "conda"
    (prefix / "conda-meta").mkdir(parents=True)
    url = f"https://conda.example/t/{PLANTED['conda']}/main/linux-64/x-1.conda"
    (prefix / "conda-meta" / "x.json").write_text(json.dumps({"name": "x", "url": url, "md5": "0" * 32}))
    env = ENV | {
        "PYTHONPATH": str(site), "CONDA_PREFIX": str(prefix), "WANDB_API_KEY": PLANTED["by-name"],
        "SETTINGS": json.dumps({"client_secret": PLANTED["in-json"]}), "MULTI": PEM,
        "INDEX": f"https://u:{PLANTED['in-url']}@index.example/simple", "SOME_PASSWORD": PLANTED["repeated"],
        "LOADEDMODULES": f"gcc/12:{PLANTED['module']}", "MODULE_TOKEN": PLANTED["module"],
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Basic {PLANTED['header']}",
        "CURL_ARGS": f"-u ada:{PLANTED['curl']}", "LDAP_BINDPW": PLANTED["ldap"],
        "SLURM_JOB_ID": "42", "SLURM_JWT": "eyJ" + ALNUM, "INNOCENT": SECRETS["github"],
    }  # fmt: skip
    program = (
        f"import subprocess, sys; subprocess.run([sys.executable, {str(PROGRAM)!r}, '-o', 'out'], check=True)"
    )
    argv = [
        BASE, "-c", program, "--token", PLANTED["argument"], f"--api-key={PLANTED['option']}",
        PLANTED["repeated"], "-u", f"ada:{PLANTED['login']}", "sshpass", "-p", PLANTED["sshpass"],
        f"+secrets.hf={PLANTED['hydra']}", "x" * (capture.LONGEST_WORD - 5) + PLANTED["repeated"],
    ]  # fmt: skip
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_no_value_is_in_any_byte(planted: subprocess.CompletedProcess[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    everything = captured_bytes(out) + planted.stdout.encode() + planted.stderr.encode()
    wanted = [*PLANTED.values(), ALNUM, SECRETS["github"], *PEM.split("\n")[1:3]]
    for value in wanted:
        forms = (value.encode(), base64.b64encode(value.encode()), value.encode().hex().encode())
        assert not any(form in everything for form in forms), value
    # Each was in a place that is captured: what surrounds it is there.
    for there in (b"archived @ https://files.example/a.whl", b"git+https://git.example/r@0000", b"gcc/12", b"--token",
                  b"https://files.example/b.whl", b"main/linux-64/x-1.conda", b"#egg=editable"):  # fmt: skip
        assert there in everything, there


def test_what_was_withheld_is_named(planted: subprocess.CompletedProcess[str], tmp_path: Path) -> None:
    names = {one["name"] for one in document(tmp_path / "out")["withheld"]}
    assert {
        "WANDB_API_KEY",
        "SETTINGS",
        "MULTI",
        "INDEX",
        "INNOCENT",
        "archived",
        "fetched",
        "asked",
        "x",
    } <= names
    assert "withheld: WANDB_API_KEY (a variable)" in planted.stderr
    snapshot = read_snapshot(tmp_path / "out")
    known = {variable.name: variable for variable in snapshot.variables}
    assert known["WANDB_API_KEY"].value is None
    assert "INNOCENT" not in known  # its value is gone, so it is no variable that could be baked
    assert any("withheld: INNOCENT (github)" in remark.text for remark in snapshot.remarks)


def plant_files(top: Path) -> None:
    """Put a secret into a commit that is in no remote, a changed file and untracked files."""
    write(top, "committed.py", f"\n{SECRETS['gitlab']}\n".encode())
    git(top, "add", "-A")
    git(top, "commit", "-qm", "unpushed")
    git(top, "rm", "-q", "committed.py")
    git(top, "commit", "-qm", "too late: it stays in the history that travels")
    write(top, "kept.py", f"one\ntoken = '{SECRETS['github']}'\n".encode())
    write(top, "new.py", f"\n\n{SECRETS['huggingface']}\n".encode())
    write(top, "own.py", b"password = Zq7-of-nobody\n")
    write(top, ".env", b"MODE=plain\n")
    write(top, ".env.example", b"MODE=plain\n")


@pytest.mark.parametrize(
    "folder", ['the "old" one', "back\\slash", "new\nline", "wide\u3000blank", "caf\udce9"]
)
def test_a_secret_by_its_name_is_left_out_of_any_directory(folder: str, tmp_path: Path) -> None:
    """capture.json has such a path in quotes, and the rule is for the path itself."""
    top = new_origin(tmp_path, {f"{folder}/kaggle.json": b"{}\n"})
    for name in (".env", ".netrc", "kaggle.json"):
        write(top, f"{folder}/{name}", b"MODE=plain\n")
    out = tmp_path / "out"
    take(top, out)
    (one,) = document(out)["repositories"]
    rule = "a name of files with secrets"
    assert [(file["reason"], file["rule"]) for file in one["left_out"]] == [("secret", rule)] * 3
    assert b"MODE=plain" not in captured_bytes(out)


def test_a_file_with_a_secret_is_left_out_and_named(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    plant_files(top)
    out = tmp_path / "out"
    with mock.patch.dict(ENV, {"SOME_PASSWORD": "Zq7-of-nobody"}):
        take(top, out)
    (one,) = document(out)["repositories"]
    assert {file["path"]: (file["reason"], file["rule"]) for file in one["left_out"]} == {
        ".env": ("secret", "a name of files with secrets"),
        "kept.py": ("secret", "github in line 2"),
        "new.py": ("secret", "huggingface in line 3"),
        "own.py": ("secret", "variable in line 1"),
    }
    everything = captured_bytes(out)
    for kind in ("github", "huggingface"):
        assert SECRETS[kind].encode() not in everything
    assert b"Zq7-of-nobody" not in everything
    assert one["untracked"]["paths"] == [".env.example"]
    assert (
        "clone: .env was left out, it looks like a secret (a name of files with secrets): "
        "`--accept clone/.env` captures it" in document(out)["notes"]
    )
    # A commit is what it is: without a file it would be another one. So it is kept, and the place is said.
    commit = git(top, "rev-parse", "HEAD^").decode().strip()
    assert document(out)["warnings"] == [
        {"repository": "clone", "file": "committed.py", "line": 2, "rule": "gitlab", "commit": commit}
    ]


def test_a_secret_in_history_is_named_with_its_commit_once(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "other.py", b"plain\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "plain")
    plant_files(top)
    commit = git(top, "rev-parse", "HEAD^").decode().strip()
    write(top, "kept.py", b"one\n")
    for name in ("new.py", "own.py", ".env"):
        (top / name).unlink()
    done = run_program(top, tmp_path / "out")
    said = [line for line in done.stderr.splitlines() if "committed.py" in line]
    assert [line.partition(": ")[2] for line in said] == [
        f"a secret (gitlab) in clone, committed.py:2 of commit {commit[:12]}, which no remote has: "
        "it is in the bundle of this snapshot"
    ]
    assert SECRETS["gitlab"] not in done.stderr + done.stdout


@pytest.mark.parametrize("born", [True, False])
def test_what_is_staged_with_a_secret_is_left_out(tmp_path: Path, born: bool) -> None:
    """The file on the disk is another one, gone, or the same; the user's own index stays as it is."""
    top = new_origin(tmp_path)
    if not born:
        git(top, "checkout", "-q", "--orphan", "fresh")
    secret = f"token = '{SECRETS['gitlab']}'\n".encode()
    for name in ("kept.py", "same.py", "clean.py", "gone.py"):
        write(top, name, name.encode() + b"\n" + secret)
    write(top, "plain.py", b"staged\n")
    git(top, "add", "-A")
    write(top, "kept.py", b"clean again\n")
    write(top, "clean.py", b"clean again\n")
    (top / "gone.py").unlink()
    before = git(top, "ls-files", "-s")
    run_program(top, tmp_path / "out")
    assert git(top, "ls-files", "-s") == before
    assert not [form for form in forms(SECRETS["gitlab"]) if form in bundled(top, tmp_path / "out")]
    (one,) = document(tmp_path / "out")["repositories"]
    assert {file["path"]: file["rule"] for file in one["left_out"]} == {
        "kept.py": "gitlab in line 2, staged", "clean.py": "gitlab in line 2, staged",
        "same.py": "gitlab in line 2", "gone.py": "gitlab in line 2, staged",
    }  # fmt: skip
    assert document(tmp_path / "out")["warnings"] == []
    tree = git(top, "ls-tree", "-r", "--name-only", "refs/of/worktree").decode().split()
    assert {"kept.py", "clean.py", "plain.py"} <= set(tree)
    assert not {"same.py", "gone.py"} & set(tree)
    assert b"plain.py" in git(top, "ls-tree", "-r", "--name-only", "refs/of/index").split()


def bundled(top: Path, out: Path) -> bytes:
    """Return every object of a bundle, which is brought into the repository for that."""
    git(top, "fetch", "-q", str(out / "clone.bundle"), "refs/reprobuild/*:refs/of/*")
    names = git(top, "rev-list", "--objects", "refs/of/index", "refs/of/worktree").decode().split("\n")
    said = [git(top, "cat-file", "-p", name.split()[0]) for name in names if name.strip()]
    return b"\n".join(said) + captured_bytes(out)


def test_a_file_that_was_accepted_is_captured(tmp_path: Path) -> None:
    """The hint of the capture is followed."""
    top = new_origin(tmp_path)
    write(top, ".env", b"MODE=plain\n")
    write(top, "new.py", f"\n\n{SECRETS['huggingface']}\n".encode())
    first = run_program(top, tmp_path / "first")
    words = re.findall("`(--accept [^`]+)`", first.stderr)
    assert sorted(words) == ["--accept clone/.env", "--accept clone/new.py"]
    run_program(top, tmp_path / "second", *(part for word in words for part in word.split()))
    (one,) = document(tmp_path / "second")["repositories"]
    assert (one["left_out"], one["untracked"]["paths"]) == ([], [".env", "new.py"])
    assert document(tmp_path / "second")["warnings"] == [
        {"repository": "clone", "file": "new.py", "line": 3, "rule": "huggingface", "commit": ""}
    ]


def run_program(top: Path, out: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [BASE, str(PROGRAM), "-o", str(out), *words],
        cwd=top,
        env=LEAN,
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_diff_with_a_secret_is_refused(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", f"one\ntoken = '{SECRETS['github']}'\n".encode())
    run_program(top, tmp_path / "out", "--accept", "kept.py")
    shutil.copy(tmp_path / "out" / "clone.patch", tmp_path / "out" / "clone.diff")
    with pytest.raises(SnapshotError, match=r"clone\.diff:\d+: an added line holds a secret"):
        read_snapshot(tmp_path / "out")


def test_a_secret_that_was_taken_out_is_not_in_the_diff(tmp_path: Path) -> None:
    """The remote has it, and the snapshot does not: the diff deletes such a file, and adds the rest as a whole."""
    secrets_of = {
        "a b.py": f"one\ntoken = '{SECRETS['github']}'\nlast\n".encode(),
        "größe.yaml": b"a: 1\nauth_token: Kq8vTz3nWx5pLm2rYb7c\n",
        ".env": b"DB_PASSWORD=Zk39bTq7Lw2mZp8RvQ\n",
        "id_rsa": PEM.encode(),
        ".netrc": b"machine h login ada password Nn7kPp3sWw9z\n",
        "old.bin": b"\0\1" + SECRETS["gitlab"].encode(),
    }
    top = new_origin(tmp_path, {**secrets_of, "kept.py": b"one\n", "gone.py": b"plain\n"})
    write(top, "a b.py", b"one\nlast\n")
    write(top, "größe.yaml", b"a: 1\n")
    (top / ".env").rename(top / "settings.txt")
    (top / "id_rsa").unlink()
    write(top, ".netrc", b"")
    write(top, "old.bin", b"\0\1")
    write(top, "kept.py", b"two\n")
    (top / "gone.py").unlink()
    done = run_program(top, tmp_path / "out")
    for text in (
        SECRETS["github"],
        "Kq8vTz3nWx5pLm2rYb7c",
        "Zk39bTq7Lw2m",
        *PEM.split("\n")[1:3],
        "Nn7kPp3sWw9z",
    ):
        assert text.encode() not in captured_bytes(tmp_path / "out"), text
    diff = (tmp_path / "out" / "clone.patch").read_bytes()
    assert SECRETS["gitlab"].encode() not in b"".join(base85_parts(diff))
    assert b"-one\n+two\n" in diff
    (one,) = document(tmp_path / "out")["repositories"]
    assert {file["path"] for file in one["diff"]["removed"]} == set(secrets_of)
    assert (
        "clone: the diff is without the old content of a b.py, which looks like a secret (github in line 2)"
        in (document(tmp_path / "out")["notes"])
    )
    assert "the old content of id_rsa" in done.stderr
    shutil.copy(tmp_path / "out" / "clone.patch", tmp_path / "out" / "clone.diff")
    assert not [
        remark for remark in read_snapshot(tmp_path / "out").remarks if remark.place.file == "clone.diff"
    ]
    git(top, "stash", "-q", "-u")
    git(top, "apply", "--cached", str(tmp_path / "out" / "clone.diff"))
    assert git(top, "write-tree").decode().strip() == one["worktree"]


@pytest.mark.parametrize("more", [False, True])
def test_a_secret_that_an_unpushed_commit_adds_is_in_no_diff(more: bool, tmp_path: Path) -> None:
    """No reader takes a diff with an added secret, so the snapshot would be lost."""
    top = new_origin(tmp_path)
    write(top, "added.py", f"\ntoken = '{SECRETS['github']}'\n".encode())
    if more:
        write(top, "other.py", f"token = '{SECRETS['gitlab']}'\n".encode())
    git(top, "add", "-A")
    git(top, "commit", "-qm", "unpushed")
    write(top, "kept.py", b"changed\n")
    out = tmp_path / "out"
    take(top, out)
    (one,) = document(out)["repositories"]
    assert (one["diff"]["file"], one["diff"]["reason"]) == (None, "secret")
    assert not (out / "clone.patch").exists()
    (note,) = (note for note in document(out)["notes"] if "there is no diff" in note)
    assert note == (
        f"clone: there is no diff, as a commit that no remote has adds added.py{' and 1 more' * more}, which looks "
        "like a secret (github in line 2): take it out of the commit, and capture again"
    )
    assert one["bundle"]["file"] == "clone.bundle"  # with the change of kept.py
    read_snapshot(out)
    git(top, "reset", "-q", "--soft", "HEAD^")
    take(top, tmp_path / "again")
    assert document(tmp_path / "again")["repositories"][0]["diff"]["file"] == "clone.patch"
    assert SECRETS["github"].encode() not in captured_bytes(tmp_path / "again")


def base85_parts(diff: bytes) -> list[bytes]:
    """Return the content of the binary files in a diff."""
    parts = re.findall(rb"^literal \d+\n((?:[A-Za-z].+\n)*)", diff, re.MULTILINE)
    rows = [[base64.b85decode(row[1:]) for row in part.splitlines()] for part in parts]
    return [zlib.decompressobj().decompress(b"".join(part)) for part in rows if part]


def test_a_token_is_in_no_name_and_version(tmp_path: Path) -> None:
    """The parts of a capture are names and facts, and each may hold the token of a vendor."""
    source = random.Random(7)
    drawn = {
        place: fill("ghp_{a36}", source)[0]
        for place in (
            "variable",
            "path",
            "module",
            "file",
            "branch",
            "remote",
            "version",
            "installer",
            "python",
        )
    }
    top = new_origin(tmp_path, project=True)
    git(top, "checkout", "-q", "-b", f"fix-{drawn['branch']}")
    git(top, "remote", "add", f"r-{drawn['remote']}", "https://git.example/x.git")
    write(top, ".gitignore", b"ign*\n")
    write(top, f"ign-{drawn['file']}", b"x")
    site = tmp_path / "site"
    built(top, "clone")
    plant_distribution(site, "clone", {"url": top.as_uri(), "dir_info": {"editable": True}})
    folder = site / "versioned-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: versioned\nVersion: 1.0+{drawn['version']}\n"
    )
    (folder / "INSTALLER").write_text(drawn["installer"])
    env = ENV | {
        drawn["variable"]: "1", "LD_LIBRARY_PATH": f"/opt/{drawn['path']}/lib",
        "PYTHONPATH": f"{site}:/x/{drawn['python']}",
        "LOADEDMODULES": f"gcc/{drawn['module']}", "_LMFILES_": f"/m/gcc/{drawn['module']}",
    }  # fmt: skip
    argv = [BASE, str(PROGRAM), "-o", str(tmp_path / "out")]
    done = subprocess.run(argv, cwd=top, env=env, capture_output=True, check=True)
    everything = captured_bytes(tmp_path / "out") + done.stdout + done.stderr
    assert [place for place, value in drawn.items() if value.encode() in everything] == []
    assert {"what": "a variable", "name": "***", "reason": "secret", "rule": "its name"} in (
        document(tmp_path / "out")["withheld"]
    )
    assert document(tmp_path / "out")["repositories"][0]["branch"] == "refs/heads/fix-***"
    read_snapshot(tmp_path / "out")


def test_many_removed_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be searched is among them."""
    names = [f"{number}/.env" for number in range(9)]
    top = new_origin(tmp_path, dict.fromkeys(names, b"MODE=plain\n"))
    for name in names:
        (top / name).unlink()
    monkeypatch.setattr(capture, "SEARCHED", 5)
    monkeypatch.setattr(capture, "SAID", 2)
    take(top, tmp_path / "out")
    (one,) = document(tmp_path / "out")["repositories"]
    assert {file["rule"] for file in one["diff"]["removed"]} == {"it could not be searched"}
    assert "clone: 7 more files are: `removed` in capture.json" in document(tmp_path / "out")["notes"]


def test_how_much_was_not_searched_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = new_origin(tmp_path)
    write(top, "small", b"small\n")
    write(top, "large", b"large\n" * 100)
    take(top, tmp_path / "all")
    assert document(tmp_path / "all")["repositories"][0]["unsearched"] == 0
    monkeypatch.setattr(capture, "SEARCHED", 100)
    take(top, tmp_path / "some")
    assert document(tmp_path / "some")["repositories"][0]["unsearched"] == 1


def test_a_search_without_time_loses_no_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    write(top, "new.py", f"{SECRETS['gitlab']}\n".encode())
    monkeypatch.setattr(capture, "SPARE", capture.BUDGETS["repository"])
    take(top, tmp_path / "out")
    found = document(tmp_path / "out")["repositories"][0]
    assert (found["secrets"], found["unsearched"]) == ([], 2)
    assert (tmp_path / "out" / "clone.bundle").exists()
    assert b"+changed" in (tmp_path / "out" / "clone.patch").read_bytes()


def test_a_file_full_of_secrets_is_searched_in_time(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "new.py", f"token = '{SECRETS['gitlab']}'\n".encode() * 60_000)
    run_program(top, tmp_path / "out", "--accept", "new.py")
    found = document(tmp_path / "out")["repositories"][0]
    assert found["unsearched"] == 0
    assert [one["line"] for one in found["secrets"]] == list(range(1, capture.LISTED + 1))
    assert document(tmp_path / "out")["parts"]["repository clone"]["seconds"] < 8


INNOCENT = [
    ("TOKENIZERS_PARALLELISM", "false"), ("MAX_NEW_TOKENS", "4096"), ("KEYBOARD", "us"), ("PYTHONHASHSEED", "0"),
    ("SSL_CERT_FILE", "/etc/ssl/cert.pem"), ("HF_TOKEN_PATH", "/home/ada/.cache/token"), ("NCCL_DEBUG", "INFO"),
    ("GIT_COMMIT", "9e107d9d372bb6826bd81d3542a419d6e277d6b9"), ("LS_COLORS", "rs=0:di=01;34:ln=01;36"),
    ("MASTER_ADDR", "node01"), ("LSF_EAUTH_AUX_PASS", "yes"), ("XDG_SESSION_ID", "7"), ("TORCH_CUDA_ARCH_LIST", "9.0"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), INNOCENT)
def test_innocent_variables_are_kept(name: str, value: str) -> None:
    context = capture.Context({name: value}, 1e12, "", program=False)
    taken = capture.take_environment(context)
    assert taken.texts["env.nul"] == f"{name}={value}\0".encode()
    assert taken.withheld == []


def test_fifty_planted_secrets_are_in_no_byte_of_a_capture(tmp_path: Path) -> None:
    variables, _, texts = fifty()
    program = [BASE, str(PROGRAM), "-o", str(tmp_path / "out")]
    done = subprocess.run(
        program, cwd=tmp_path, env=ENV | variables, capture_output=True, text=True, check=True
    )
    everything = captured_bytes(tmp_path / "out") + done.stdout.encode() + done.stderr.encode()
    captured = [text for text in texts if any(text in value for value in variables.values())]
    assert len(captured) >= 40
    for text in captured:
        assert not [form for form in forms(text) if form in everything], text
    named = {one["name"] for one in document(tmp_path / "out")["withheld"]}
    assert set(variables) <= named
