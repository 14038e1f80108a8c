"""Fifty-two planted secrets of twenty-two shapes: the main job ends well, and none is in any byte that it leaves."""

from __future__ import annotations

import base64
import json
import subprocess
import urllib.parse
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.parsers import git_diff
from reprobuild_portable.hashing import hash_file
from reprobuild_portable.secrets.search import find
from tests.conftest import Built, reprobuild
from tests.snapshot.samples import ALNUM, SECRETS

PEM = ("-----BEGIN RSA " + "PRIVATE KEY-----\n{}\n-----END RSA " + "PRIVATE KEY-----").format(
    "MIIEpAIBAAKCAQEA" + ALNUM * 2 + "\n" + "Zm9vYmFyYmF6" + ALNUM * 2
)
# Each with a text of its own, as long as the sample's: many shapes have one length.
CORE = {
    name: text.replace(ALNUM, ALNUM[turn:] + ALNUM[:turn])
    for turn, (name, text) in enumerate(SECRETS.items(), 1)
}
ALARMING = (
    "HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "SENTRY_DSN", "SSH_PRIVATE_KEY", "GH_TOKEN",
    "STORAGE_SAS_URL", "SLACK_WEBHOOK", "REDISCLI_AUTH", "MLFLOW_TRACKING_PASSWORD", "JOB_COOKIE", "TLS_KEY",
    "OPENAI_API_KEY", "MY_SECRET", "AZURE_CLIENT_ID", "REQUEST_SIGNATURE", "DOCKER_AUTH_CONFIG", "APP_CREDENTIALS",
)  # fmt: skip


def planted() -> tuple[dict[str, str], list[str], list[str]]:
    """Return variables, lines of a freeze, and their texts, which must be nowhere."""
    # A private key is no line: MULTI_LINE is one, and stands last, since whatever follows might be a part of it.
    innocent = {f"RUN_{n}": text for n, (name, text) in enumerate(CORE.items()) if name != "private-key"}
    alarming = {name: f"q{number:02}w9e8r7t6y5-{name.lower()[::-1]}" for number, name in enumerate(ALARMING)}
    urls = {
        "DATA_URL": "https://ada:u1-{}@data.example/x", "MLFLOW_TRACKING_URI": "https://u2-{}:x@mlflow.example/",
        "PIP_INDEX_URL": "https://ada:u3-{}@pypi.example/simple", "HTTPS_PROXY": "http://ada:u4-{}@proxy.example:3128",
        "SETTINGS": '{{"password": "u5-{}"}}', "OPTIONS": "--lr 1 --api-key=u6-{}", "MULTI_LINE": "{}",
    }  # fmt: skip
    filled = {name: text.format(PEM if name == "MULTI_LINE" else ALNUM[::-1]) for name, text in urls.items()}
    lines = [
        f"--extra-index-url https://__token__:f1-{ALNUM}@index.example/simple",
        f"--trusted-host index.example --find-links https://f2-{ALNUM}@files.example/wheels",
        f"# was: pip install git+https://f3-{ALNUM}:x-oauth-basic@git.example/r.git",
        f"WARNING: cannot reach https://ada:f4-{ALNUM}@mirror.example/simple",
    ]
    variables = {**innocent, **alarming, **filled}
    texts = [
        *(t for n, t in CORE.items() if n not in ("private-key", "url-credential", "assigned")), *alarming.values(),
        *(f"{number}-{ALNUM[::-1]}" for number in ("u1", "u2", "u3", "u4", "u5", "u6")), *PEM.split("\n")[1:3],
        *(f"f{number}-{ALNUM}" for number in (1, 2, 3, 4)), "s3kr1t-pa55",
    ]  # fmt: skip
    assert list(variables)[-1] == "MULTI_LINE"
    assert (
        len(variables) + len(lines) + 1 == 52
    )  # one more is the login in the address of an editable install
    return variables, lines, texts


def below(folder: Path) -> Iterator[Path]:
    """Yield every path below a directory; of a store without `roots`, which are unpacked from its blobs."""
    for path in folder.iterdir():
        if path.name != "roots":
            yield path
            yield from path.rglob("*")


def unpacked(path: Path) -> Iterator[bytes]:
    """Yield the content of a file, and what it holds where it is compressed."""
    data = path.read_bytes()
    yield data
    if data[:4] == b"\x28\xb5\x2f\xfd":
        with path.open("rb") as stream:
            yield zstandard.ZstdDecompressor().stream_reader(stream).read()
    elif data[:2] == b"\x1f\x8b":
        yield zlib.decompress(data, 31)


def forms(text: str) -> list[bytes]:
    """Return a text as it is, and as it would be if something encoded it."""
    raw = text.encode()
    whole = [base64.b64encode(raw[skip:])[:-4].rstrip(b"=") for skip in (0, 1, 2)]
    return [raw, raw.hex().encode(), urllib.parse.quote(text, safe="").encode(), *whole, raw[::-1]]


def test_fifty_planted_secrets_are_nowhere(built_example: Built, example_copy: Path, tmp_path: Path) -> None:
    variables, lines, texts = planted()
    snapshot, out = example_copy / "snapshot", tmp_path / "out"
    dump = (snapshot / "env.txt").read_text()
    (snapshot / "env.txt").write_text(
        dump + "".join(f"{name}={value}\n" for name, value in variables.items())
    )
    freeze = (snapshot / "requirements.txt").read_text().splitlines()
    with_login = [
        line.replace("https://git.example.org", f"https://ada:f5-{ALNUM}@git.example.org") for line in freeze
    ]
    assert with_login != freeze
    (snapshot / "requirements.txt").write_text("\n".join([*lines[:2], *with_login, *lines[2:]]) + "\n")
    before = {path for path in below(built_example.store) if path.is_file()}
    shown = [reprobuild("show", snapshot, *more) for more in ((), ("--json",))]
    done = reprobuild(
        "from-snapshot",
        snapshot,
        "--decisions",
        snapshot.parent / "reprobuild.yaml",
        "-o",
        out,
        "--store",
        built_example.store,
        "--engine",
        "docker",
        "--no-probes",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    reference = json.loads(done.stdout)["image"]["reference"]
    argv = ["docker", "history", "--no-trunc", reference]
    history = subprocess.run(argv, capture_output=True, check=True).stdout
    said = "".join(each.stdout + each.stderr for each in (*shown, done)).encode() + history
    traces = [form for text in (*texts, f"f5-{ALNUM}") for form in forms(text)]
    assert not [trace for trace in traces if trace in said]
    # What the same environment gave without the secrets cannot hold them: most layers, and wheels.
    known = {hash_file(path) for path in built_example.out.rglob("*") if path.is_file()}
    files = [path for path in out.rglob("*") if path.is_file() and hash_file(path) not in known]
    files += [path for path in below(built_example.store) if path.is_file() and path not in before]
    for path in files:
        for content in unpacked(path):
            found = [trace for trace in traces if trace in content]
            assert not found, (path, found)
    assert {"reprobuild.lock", "verdict.json", "report.html", "Dockerfile"} <= {path.name for path in files}
    lock = (out / "reprobuild.lock").read_text()
    for name in variables:  # names may be told
        assert f'"{name}"' in lock


@pytest.mark.parametrize(("rule", "text"), SECRETS.items(), ids=SECRETS)
def test_each_shape_in_a_diff_is_refused_with_file_and_line(rule: str, text: str) -> None:
    diff = (
        "diff --git a/conf.py b/conf.py\nindex 1111111..2222222 100644\n--- a/conf.py\n+++ b/conf.py\n"
        f"@@ -1,1 +1,2 @@\n a = 1\n+b = {text}\n"
    )
    assert find(diff.encode()) == [(7, rule)]
    with pytest.raises(SnapshotError, match=rf"lib\.diff:7: an added line holds a secret \({rule}\)") as err:
        git_diff.parse(diff.encode(), "lib.diff")
    assert text not in str(err.value) + err.value.hint
