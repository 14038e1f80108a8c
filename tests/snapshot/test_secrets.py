from __future__ import annotations

import base64
import math
import random
import re
import time

import hypothesis.strategies as st
import pytest
from hypothesis import given

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.parsers import git_diff, pip_freeze
from reprobuild_portable import secrets
from reprobuild_portable.secrets.judges import has_marks
from tests.snapshot.samples import ALNUM, SECRETS
from tests.snapshot.shapes import MORE, SHAPES, fill


@pytest.mark.parametrize(
    "name",
    [
        "TOKENIZERS_PARALLELISM",
        "BERT_TOKENIZER",
        "MAX_TOKENS",
        "MAX_NEW_TOKENS",
        "KEYBOARD",
        "PWD",
        "OLDPWD",
        "NUM_PASSES",
        "COMPILE_PASSES",
        "SSH_AUTH_SOCK",
        "HF_TOKEN_PATH",
        "MY_PUBLIC_KEY",
        "OPENAI_API_KEY_FILE",
        "SECRET_VERSION",
        "BYPASS",
        "COMPASS",
        "LESSKEY",
        "XKEYSYMDB",
        "XDG_SESSION_ID",
        "NCCL_DEBUG",
        "MASTER_ADDR",
        "AZUREML_RUN_ID",
        "TOKENS_PER_BATCH",
        "SSL_CERT_FILE",
        "PASSWORD_STORE_DIR",
    ],
)
def test_names_that_only_sound_like_secrets(name: str) -> None:
    assert secrets.secret_name(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "HF_TOKEN",
        "WANDB_API_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AZURE_CLIENT_ID",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GITHUB_TOKEN",
        "API_TOKENS",
        "accessToken",
        "DB_PASS",
        "MYSQL_PWD",
        "DOCKER_PASSWORD",
        "SSH_PRIVATE_KEY",
        "KRB5CCNAME",
        "SENTRY_DSN",
        "JUPYTERHUB_API_TOKEN",
        "PBS_JOBCOOKIE",
        "STORAGE_SAS_URL",
        "MY_SECRET",
        "TLS_KEY",
    ],
)
def test_names_of_secrets(name: str) -> None:
    assert secrets.secret_name(name)


def test_every_value_rule_has_a_shape() -> None:
    assert set(SHAPES) <= {rule.name for rule in secrets.VALUES} <= {*SHAPES, *MORE}
    assert set(SECRETS) <= set(SHAPES)


@pytest.mark.parametrize("rule", SHAPES)
@pytest.mark.parametrize("before", ["", "x = ", "\\n", "see "])
def test_each_shape_is_found_and_cut_alike(rule: str, before: str) -> None:
    """Fifteen drawn texts: what a search finds in a variable and a line is cut, and nothing of it stays."""
    source = random.Random(f"{rule} {before}")
    for _ in range(15):
        text, parts = fill(SHAPES[rule], source)
        if before == "\\n" and rule in LINES:
            continue
        whole = text if rule in LINES or rule == "private-key" else before + text
        assert secrets.secret_variable("RUN_NOTE", whole) is not None, whole
        assert secrets.find(whole.encode()), whole
        shown = secrets.redact(whole)
        assert not [part for part in parts if part in shown], (whole, shown)


LINES = {"assigned-entry", "assigned-setting", "aws-secret-value", "client-setting"}


@pytest.mark.parametrize("shape", MORE)
def test_what_is_written_in_another_way_is_found_too(shape: str) -> None:
    source = random.Random(shape)
    for _ in range(15):
        text, parts = fill(MORE[shape], source)
        assert secrets.secret_variable("RUN_NOTE", text) is not None, text
        assert secrets.find(text.encode()), text
        assert not [part for part in parts if part in secrets.redact(text)], text


@pytest.mark.parametrize(
    "line",
    [
        "db_password   : {}", "api_key\t: {}", "- HF_TOKEN : {}",
        '[{{"name":"API_KEY","value":"{}"}}]', "{{'name':'DB_PASSWORD','value':'{}'}}",
    ],
)  # fmt: skip
def test_pairs_in_a_column_or_without_blanks(line: str) -> None:
    """People align the colons of YAML and INI, and programs write JSON without blanks."""
    text = line.format("Zk39bTq7Lw2mZp8RvQxC5dYn")
    assert secrets.find(f"a: 1\n{text}\nb: 2\n".encode())
    assert secrets.secret_variable("SETTINGS", text)
    assert "Zk39bTq7Lw2mZp8RvQxC5dYn" not in secrets.redact(text)


@pytest.mark.parametrize(("rule", "sample"), SECRETS.items(), ids=SECRETS)
def test_a_secret_is_known_by_its_looks(rule: str, sample: str) -> None:
    assert secrets.secret_value(f"before {sample} after") == rule
    assert secrets.find(f"one\ntwo {sample}\nthree".encode()) == [(2, rule)]
    assert secrets.redact(f"before {sample} after") != f"before {sample} after"
    assert secrets.secret_value(secrets.redact(f"before {sample} after")) is None


@pytest.mark.parametrize(
    "value",
    [
        "0123456789abcdef0123456789abcdef01234567",  # a commit
        "/opt/conda/envs/sk-learn-contrib-extension-tools-2024/bin",
        "rs=0:di=01;34:ln=01;36:mh=00:pi=40;33",
        "X01vZHVsZVRhYmxlXyA9IHsKTVR2ZXJzaW9uID0g",
        "https://example.org:8080/simple",
        "postgres://user:password@localhost/db",
        "https://{user}:{password}@example.org",
        "ssh://git@example.org/team/project-with-a-long-name-2024.git",
        "https://someone@example.org/x",
        "docker://python3.11-slim-bookworm@sha256:0123",
        "ssh://jean.baptiste.dupont2@login.example.org/x",
        "AKIAIOSFODNN7EXAMPLE",
        'password = "your-password-goes-here-1"',
    ],
)
def test_values_that_are_no_secrets(value: str) -> None:
    assert secrets.secret_value(value) is None
    assert secrets.find(value.encode()) == []


@pytest.mark.parametrize(
    "value",
    [
        "https://ada:zq7%3A%2Fw9%20%25Kx@index.example/simple",
        "https://ada:%70%77%2f9@index.example/simple",
        f"https://a%2Fb{ALNUM}@index.example/simple",
        "https://%61da:w9%25s@index.example/simple",
    ],
)
def test_an_encoded_password_is_no_template(value: str) -> None:
    assert secrets.secret_variable("DATA_URL", value) is not None
    assert secrets.find(f"--index-url {value}\n".encode())
    assert "index.example/simple" in secrets.strip_credentials(value)[0]
    for template in ("https://%(user)s:%(password)s@x.example/", "https://%USER%:%PASS%@x.example/"):
        assert secrets.secret_variable("DATA_URL", template) is None


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("LSF_EAUTH_AUX_PASS", "yes", None),
        ("HF_TOKEN", "", None),
        ("HF_TOKEN", "(null)", None),
        ("SOME_AUTH", ALNUM, "generated"),
        ("SOME_AUTH", "/var/run/user/1000/keyring-x", None),
        ("SOME_AUTH", "kerberos", None),
        ("HTTP_AUTH", f"ada:{ALNUM[:16]}", "login"),
        ("HTTP_AUTH", "auth1.example.com:8080", None),
        ("HTTP_AUTH", f"sha256:{'0123456789abcdef' * 4}", None),
        ("RUN_LOGIN", "module.name:function_1", None),
        ("RUN_URL", f"//ada:{ALNUM[:16]}@h.example/x", "url-relative"),
        ("RUN_URL", "//cdn.example:8080/@scope/x1", None),
        ("RUN_URL", f"x-access-token:{ALNUM}@github.com", "oauth-login"),
        ("SETTINGS", '{"password": "tiger"}', "password"),
        ("OPTIONS", "--verbose --api-key=tiger", "key"),
        ("XLA_FLAGS", "--xla_gpu_deterministic_ops=true", None),
        ("PIP_INDEX_URL", SECRETS["url-credential"], "url-credential"),
        ("RUN_URL", f"https://{ALNUM}:x-oauth-basic@example.org/", "url-credential"),
        ("RUN_URL", f"https://{ALNUM}:x@example.org/", "url-token"),
        ("RUN_URL", f"https://{ALNUM}@example.org/", "url-token"),
        ("RUN_URL", "https://ada@example.org/", None),
        ("RUN_URL", "https://ada:s3kr1t/pa55@example.org/", "url-credential"),
        ("RUN_URL", "https://ada:s3kr1t@pa/55@example.org/", "url-credential"),
        ("RUN_URL", "https://example.org:8080/npm/x@3/y", None),
        ("RUN_URL", "ssh://example.org:team/r.git@0123abc", None),
        ("RUN_URL", "docker://host:5000/x@sha256:0123", None),
        ("RUN_URL", "http://proxy:port/@scope/x", None),
        ("RUN_URL", "http://a.example:3000,http://b.example/x@1", None),
        ("RUN_URL", "http://host:port/x@1", None),
    ],
)
def test_variables(name: str, value: str, rule: str | None) -> None:
    assert secrets.secret_variable(name, value) == rule


# Put together here, so that no scanner takes this file for a leak.
BASIC = "eDpnaXRsYWItY2ktdG9r" + "ZW46YWJj"
LOGINS = [
    ("GIT_CONFIG_VALUE_0", f"AUTHORIZATION: basic {BASIC}", "header"),
    ("OTEL_EXPORTER_OTLP_HEADERS", f"Authorization=Basic {BASIC}", "header"),
    ("OTEL_EXPORTER_OTLP_HEADERS", f"Authorization=Basic%20{BASIC}", "header"),
    ("CURL_OPTS", f"-H 'Authorization: Bearer {ALNUM}'", "header"), ("X", f"Bearer {ALNUM}", "header"),
    ("X", f"basic {BASIC}", "header"), ("CURL_ARGS", "-u ada:hunter2!", "login"), ("X", "curl -u ada:pw x", "login"),
    ("X", "--proxy-user ada:pw", "login"), ("WGET_ARGS", "--user ada:Hunter2", "login"),
    ("DOCKER_OPTS", "-u ada:Hunter2!", "login"), ("GITHUB_PAT", ALNUM * 2, "token"), ("LDAP_BINDPW", "pw", "password"),
    ("GITHUB_PAT", "***", "token"),
    ("PROXY_USERPWD", "ada:hunter2", "password"), ("MYSQL_ROOTPW", "pw", "password"),
    ("NOTIFY", f"https://api.telegram.org/bot{SECRETS['telegram']}/sendMessage", "telegram"),
    ("RUN", "--token abc12 --lr 1", "token"),
    ("RUN", "sshpass -p hunter2! ssh a", "sshpass"), ("RUN", "train.py +secrets.hf=abc12345", "secret"),
    ("CHANNELS", f"https://conda.example/t/ab-{ALNUM}/main", "conda-token"),
    ("RUN", "a:password=Hunter22x", "password"), ("RUN", "opts:user=ada|token=Hunter22xYz", "assigned-inside"),
    ("RUN", "mode:x?secret=Hunter22x", "assigned-inside"), ("RUN", "k=v/token=Hunter22xYz", "token"),
    ("RUN", "url=jdbc:postgresql://h/db?user=a&passphrase=Hunter22x", "password"),
    ("RUN", "--set=db.password=Hunter22x", "assigned-inside"),
    ("RUN", "a=b;c:d,e|f:pwd:x,db_password:Hunter22x", "password"),
    ("RUN", "otpauth://totp/x?secret=JBSWY3DPEHPK3PXP", "secret"),
    ("RUN", "https://h.example/cb#a=b&token=abc1", "token"),
    ("RUN", f"https://h.example/v?hdnts=st~1_exp~9_{ALNUM}", "signature"),
    ("X", f"https://dl.cloudsmith.io/{ALNUM[:16]}/org/repo/python/simple/", "index-path"),
    ("X", f"https://pypi.fury.io/{ALNUM[:20]}/me/", "index-path"),
    ("X", f"https://packagecloud.io/priv/{'0123456789abcdef' * 3}/u/r/pypi/simple", "index-path"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "rule"), LOGINS)
def test_what_is_cut_for_the_eyes_is_a_secret_variable(name: str, value: str, rule: str) -> None:
    assert secrets.secret_variable(name, value) == rule
    assert value == "***" or any(secrets.redact(text) != text for text in (value, f"{name}={value}"))


# These end in a letter or a digit: escapes of JSON, Python, terminals, mails and addresses, and options.
BEFORE = [
    "\\u0022",
    "\\x22",
    "\\n",
    "\x1b[32m",
    "\\033[1;31m",
    "\x1b[0m",
    "=3D",
    "%3D",
    "%253A",
    " -p",
    '"-H',
    "=-D",
]


@pytest.mark.parametrize("before", BEFORE)
def test_a_token_is_found_behind_an_escape(before: str) -> None:
    source = random.Random(before)
    for shape in ("github", "gitlab", "huggingface", "anthropic", "npm", "slack"):
        text, _ = fill(SHAPES[shape], source)
        assert secrets.find(f"x{before}{text} y".encode()), text
        assert secrets.secret_variable("X", f"x{before}{text} y"), text
        assert text not in secrets.redact(f"x{before}{text} y")
    assert secrets.find(f"xa{fill(SHAPES['github'], source)[0]} y".encode()) == []


def test_an_index_with_a_token_among_its_directories_is_a_secret_variable() -> None:
    """Servers have it there under their own names, too."""
    url = f"https://pypi.example/{ALNUM[:16]}/org/repo/python/simple"
    assert secrets.secret_variable("PIP_INDEX_URL", url) == "index-path"
    assert secrets.secret_variable("UV_FIND_LINKS", f"{url} https://other.example/x") == "index-path"
    assert secrets.secret_variable("BUCKET_URL", url) is None


HARMLESS = [
    ("DOCKER_OPTS", "-u ada:users --rm"), ("DOCKER_OPTS", "-u ada:grp01"), ("RUN", "docker run --user ada:g1 x"),
    ("RUN", "-u ada:users"), ("RUN", "-u node01:29500"), ("RUN", "python -u train.py:main"), ("RUN", "-u a:/data/x"),
    ("RUN", "-u /data:/x"), ("CURL_ARGS", "-u $USER:$PASS"), ("X", "Authorization: Bearer ${TOKEN}"),
    ("X", "authorization=enabled"), ("X", "--authorization-mode=RBAC"), ("X", "basic resnet50-imagenet-v1"),
    ("X", "basic training"), ("GLOB_PAT", "*.py"), ("LR_PAT", "5"), ("PAT", ""), ("PATH", "/usr/bin:/t/a1b2c3d4e5"),
    ("SSL_ARGS", "--ssl-key /etc/ssl/k.pem --pass --verbose"), ("SORT_ARGS", "--key 2 --reverse"),
    ("PIP_INDEX_URL", "https://files.example/a/t/stable/simple"), ("X", "Time 12:34:AA"), ("X", "creds.file.x"),
    ("RUN", "+secrets.hf=$HF"), ("RUN", "ssh -p 22 host"), ("RUN", "--tokenizer-type abc"),
    ("RUN", "a:max_tokens=4096"), ("RUN", "mode:x?token=${TOKEN}"), ("RUN", "k=v/bos_token=<s>"), ("RUN", "a:key=$1"),
    ("RUN", "--set=model.pad_token_id=0"), ("RUN", "a:dropout_token_rate=0.1"), ("RUN", "img/token:latest"),
    ("LS_COLORS", "*.tar=01;31:*.key=01;31:*.token=00"), ("RUN", "a:password={password}"),
    ("X", "https://h.example/v?hdnts=none&expires=1"), ("X", "https://a@h/x"),
    ("PIP_INDEX_URL", "https://pkgs.dev.azure.example/o/6b1f2c0e-9d0a-4f6c-8d51-3f1b8f0c2a77/_packaging/f/pypi/simple"),
    ("PIP_FIND_LINKS", f"https://files.example/packages/{'0123456789abcdef' * 4}/"),
    ("UV_INDEX_URL", "https://x-111122223333.d.codeartifact.us-west-2.example/pypi/MyTeamRepository2024/simple"),
    ("PIP_INDEX_URL", "https://dl.cloudsmith.io/public/org/repo/python/simple"), ("X", "https://pypi.fury.io/me/"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), HARMLESS)
def test_what_only_looks_like_a_login(name: str, value: str) -> None:
    assert secrets.secret_variable(name, value) is None


COUNTS = [
    ("MAX_TOKENS", "4096", None), ("MAX_NEW_TOKENS", "auto", None), ("MOE_TOKEN_DISPATCHER", "alltoall", None),
    ("MAX_TOKEN", "4096", None), ("BATCH_TOKEN_LIMIT", "1e6", None), ("TRAIN_TOKEN", "false", None),
    ("TOTAL_TOKEN_BUDGET", "15_000_000_000_000", None), ("OPENAI_API_MAX_TOKENS", "4096", None),
    ("TOKENIZER", "/data/tokenizer.model", None), ("TOKENIZER_NUM_TOKENS", "all", None),
    ("TOKENIZED_DATA", "pile", None), ("TOKENIZER_AUTH_FILE", "/x/y", None),
    ("GLOBAL_SECRET_TOKEN", "abc123", "token"), ("GLOBAL_SECRET_TOKEN", "123456", "token"),
    ("NEW_RELIC_TOKEN", "8f7e6d5c", "token"), ("TRAIN_TOKEN", "s3cr3tpw", "token"), ("N_TOKEN", "a", "token"),
    ("BATCH_API_TOKEN", "abc123", "token"), ("BATCH_API_TOKENS", "abc123", "token"),
    ("GLOBAL_TOKEN", "9f8e7d6c5b4a3928", "token"), ("GITHUB_TOKEN_TYPE_LIMIT", "abc", "token"),
    ("NEW_TOKENS_HF_TOKEN", "abc", "token"), ("TOTAL_TOKENS_CREDENTIALS", "abc", "token"),
    ("TOKENIZER_SECRET", "x9", "token"), ("HF_TOKENIZER_API_KEY", "abcd", "token"),
    ("TOKENIZER_HUB_PASSWORD", "hunter2", "token"), ("TOKENIZER_HUB_TOKEN", "abcd", "token"),
    ("SETTINGS", '{"max_token": 5}', None), ("SETTINGS", '{"new_token": "abc123"}', "token"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "rule"), COUNTS)
def test_counts_of_tokens_are_no_tokens(name: str, value: str, rule: str | None) -> None:
    assert secrets.secret_variable(name, value) == rule


STORE = "aB3+" * 21 + "aQ=="
FIELDS = [
    ("PRIMARY_KEY", "id", None), ("PRIMARY_KEY", "user_id,created_at", None), ("SORT_KEY", "createdAt", None),
    ("CACHE_KEY", "v3-linux-py311", None), ("HOT_KEYS", '["users", "items"]', None), ("PARTITION_KEY", "p/07", None),
    ("SETTINGS", '{"primary_key": "id"}', None), ("SETTINGS", '{"cache_keys": ["a1", "b2"]}', None),
    ("COSMOS_PRIMARY_KEY", STORE, "key"), ("PRIMARY_KEY", "0123456789abcdef" * 2, "key"), ("HOT_KEY", ALNUM, "key"),
    ("STORAGE_PRIMARY_KEY", "2f1e4d8c-97b3-4c1e-9a51-0c7d8e6f5a43", "key"), ("CACHE_KEY", "8f7e6d5c4b3a", "key"),
    ("AZURE_STORAGE_PRIMARY_KEY", STORE, "named"), ("AZURE_STORAGE_PRIMARY_KEY", "abc", "named"),
    ("SETTINGS", f'{{"primary_key": "{STORE}"}}', "key"),
    ("DATASET_KEY", "imagenet1k/train", None), ("HF_DATASET_KEY", "imagenet22k", None), ("LABEL_KEY", "fine", None),
    ("DATASET_KEY", ALNUM, "key"), ("DATASET_KEY", "a1b2k", "key"), ("DATASET_API_KEY", "imagenet1k/train", "key"),
    ("AZURE_DATASET_KEY", "imagenet1k/train", "named"), ("COOKIE_CUTTER_TEMPLATE", "gh:org/template", None),
    ("COOKIECUTTER_CONFIG", "a", None), ("COOKIE_CUTTER_SECRET", "a", "secret"), ("COOKIE_CUT", "a", "cookie"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "rule"), FIELDS)
def test_a_key_of_a_table_is_a_short_identifier(name: str, value: str, rule: str | None) -> None:
    assert secrets.secret_variable(name, value) == rule


@pytest.mark.parametrize(
    ("url", "bare", "cut"),
    [
        ("https://example.org/a", "https://example.org/a", False),
        ("https://u:p@example.org/a", "https://example.org/a", True),
        ("https://u@example.org/a", "https://example.org/a", True),
        ("https://u:p/w@example.org/a", "https://example.org/a", True),
        ("https://u:p@ss/w@host/x", "https://host/x", True),
        ("https://u:p@ss#w@example.org:80/x", "https://example.org:80/x", True),
        ("https://u:p/a@b/c@10.0.0.1/x", "https://10.0.0.1/x", True),
        ("https://u:p@host/npm/@scope/x@3.1/y", "https://host/npm/@scope/x@3.1/y", True),
        ("git+https://u:p@host/r.git@feature/x", "git+https://host/r.git@feature/x", True),
        ("git+https://u:p@host/r@main", "git+https://host/r@main", True),
        ("git+https://u:p@example.org/r@feature/x", "git+https://example.org/r@feature/x", True),
        ("https://example.org/r@feature/x", "https://example.org/r@feature/x", False),
        (
            "git+ssh://git@example.org/r.git@0123abc#egg=r",
            "git+ssh://git@example.org/r.git@0123abc#egg=r",
            False,
        ),
        ("git+ssh://alice@example.org/r.git", "git+ssh://example.org/r.git", True),
        ("https://example.org/a?token=x&v=1#egg=n", "https://example.org/a?v=1#egg=n", True),
        ("https://example.org/a?X-Amz-Signature=x", "https://example.org/a", True),
        ("https://example.org/x.whl?new_token=abc123", "https://example.org/x.whl", True),
        ("https://example.org/x?max_token=5", "https://example.org/x?max_token=5", False),
        ("https://example.org/t/ab-0123456789/channel", "https://example.org/channel", True),
        ("https://example.org/api/conda/t/ab_1/main", "https://example.org/api/conda/main", True),
        ("https://example.org/t/ab_1", "https://example.org", True),
        ("https://t/simple/tool", "https://t/simple/tool", False),
        ("file:///t/build/x.whl", "file:///t/build/x.whl", False),
        ("git+file:///srv/t/lab/x.git@0123abc", "git+file:///srv/t/lab/x.git@0123abc", False),
        ("git+HTTPS://example.org/t/lab/x.git", "git+HTTPS://example.org/x.git", True),
        ("https://[::1]:80/a", "https://[::1]:80/a", False),
        ("https://[::1]:pw/a", "https://[::1]/a", True),
        ("https://u:p@[::1]:pw/a", "https://[::1]/a", True),
        ("https://[::1]:${PORT}/a", "https://[::1]:${PORT}/a", False),
        ("https://[::1]:/a", "https://[::1]:/a", False),
        ("https://h.example/a.whl;jsessionid=ABCDEF0123456789", "https://h.example/a.whl", True),
        ("https://h.example/a;v=1;token=x;w=2/b;sid=3?c", "https://h.example/a;v=1;w=2/b;sid=3?c", True),
        ("https://h.example/x.whl?a=1;token=Hunter22xYz", "https://h.example/x.whl?a=1", True),
        ("https://h.example/x?token=1;a=1&b=2", "https://h.example/x?a=1&b=2", True),
        ("https://h.example/x?a;b=1&amp;token=2", "https://h.example/x?a;b=1&amp", True),
        ("https://h.example/x?&a=1;;b", "https://h.example/x?&a=1;;b", False),
        ("https://h.example/x#egg=a;token=2", "https://h.example/x#egg=a", True),
        ("https://ada%3Apw%40h.example/x.whl", "https://h.example/x.whl", True),
        ("https://ada%40h.example/x.whl", "https://h.example/x.whl", True),
        ("https://ada%253Apw%2540h.example/x.whl", "https://h.example/x.whl", True),
        ("https://h.example/a%40b.whl", "https://h.example/a%40b.whl", False),
        ("https:/ada:pw1@h.example/x.whl", "https:/***@h.example/x.whl", True),
        ("https:///ada:pw1@h.example/x.whl", "https:///***@h.example/x.whl", True),
        ("git+https:/ada:pw1@h.example/x.git", "git+https:/***@h.example/x.git", True),
        ("file:/srv/x.whl", "file:/srv/x.whl", False),
        ("https://u:p@[broken/a", "https://***", True),
        ("git@example.org:r.git", "git@example.org:r.git", False),
        ("file:///C:/x/y.whl", "file:///C:/x/y.whl", False),
        ("https://example.org/" + SECRETS["github"], "https://example.org/***", True),
    ],
)
def test_strip_credentials(url: str, bare: str, cut: bool) -> None:
    assert secrets.strip_credentials(url) == (bare, cut)


ADDRESSES = [
    "https://h.example/a-1-py3-none-any.whl;jsessionid={}", "https://h.example/a-1-py3-none-any.whl?a=1;token={}",
    "https://ada%3A{}%40h.example/a-1-py3-none-any.whl", "https://[::1]:{}/a-1-py3-none-any.whl",
    "https:/ada:{}@h.example/a-1-py3-none-any.whl", "git+https://ada%3A{}%40h.example/a.git@0123456789abcdef",
    "https://h.example/a.whl#sha256=0;token={}", "git+https:/ada:{}@h.example/a.git@0123456789abcdef#egg=a",
]  # fmt: skip


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_login_of_a_requirement_is_kept(address: str) -> None:
    """Neither in what was read of a freeze nor in a remark, also where an option has the address."""
    password = "Hunter22xYz"
    lines = "c @ {0}\n-e {0}\n--extra-index-url {0}\n{0}\nd @ {0} ; python_version >= '3.8'\n"
    read = pip_freeze.parse(lines.format(address.format(password)).encode())
    assert password not in repr(read)
    assert "h.example" in repr(read) or "[::1]" in repr(read)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("$ export WANDB_API_KEY=tiger lily", "$ export WANDB_API_KEY=***"),
        ("$ tool --password tiger --v 1", "$ tool --password *** --v 1"),
        ("$ tool --global-token abc123", "$ tool --global-token ***"),
        ("$ tool --max-token 512 --max-new-tokens 64", "$ tool --max-token 512 --max-new-tokens 64"),
        ("MAX_TOKEN=512 NEW_TOKEN=abc123", "MAX_TOKEN=512 NEW_TOKEN=***"),
        ("curl -H 'Authorization: Bearer abcdefgh1'", "curl -H 'Authorization: Bearer ***'"),
        ("secretstorage==3.3.3", "secretstorage==3.3.3"),
        ('{"password": "hunter2"}', '{"password": "***'),
        ('{\\"x-api-key\\":\\"hunter2\\"}', '{\\"x-api-key\\":\\"***'),
        ("Authorization: Token abc def", "Authorization: Token ***"),
        ("Authorization: ubiquitous\nnext", "Authorization: ***\nnext"),
        ("{'Authorization': b'Token abc', 'x': 1}", "{'Authorization': b'Token ***', 'x': 1}"),
        ("curl -u bob:pw https://x.example/", "curl -u *** https://x.example/"),
        ("curl -ubob:pw --user 'bob:p w' x", "curl -u *** --user *** x"),
        ("PASSWORD:pw", "PASSWORD:***"),
        ("password = pw", "password = ***"),
        ('pass = "' + ALNUM + '"', 'pass = "***'),
        ("tool --password 'a b' --v 1", "tool --password *** --v 1"),
        ('tool --api_key "a \\" b" c', "tool --api_key *** c"),
        ('tool --password "a b', "tool --password ***"),
        ('tool --args "--password a"', 'tool --args "--password ***'),
        ("https://u:p@ss/w@host/x", "https://host/x"),
        ("primary_key=" + STORE, "primary_key=***"),
        ("# see https://u:p@example.org/x", "# see https://example.org/x"),
        ("sshpass -p hunter2! ssh a", "sshpass -p *** ssh a"),
        ("train.py +secrets.hf=abc12345 lr=1", "train.py +secrets.hf=*** lr=1"),
    ],
)
def test_redact(text: str, shown: str) -> None:
    assert secrets.redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "docker run -u 1000:1000 x", "python -u train.py -user:x", "curl -u https://x.example/", "password == x",
        "password = None", '{"password": "", "token": null}', '{"key": "value"}', "key = lambda x: x",
        "tokens = 5", "host.example/token:latest", "token::Kind", '{"max_token": 5, "a": 1}', "sort_key=loss",
        "cache_key: v3-linux-py311", "primary_key=True)",
    ],
)  # fmt: skip
def test_what_is_shown_as_it_is(text: str) -> None:
    assert secrets.redact(text) == text


@given(st.binary(max_size=300))
def test_find_takes_any_bytes(data: bytes) -> None:
    assert all(line <= data.count(b"\n") + 1 for line, _ in secrets.find(data))


def test_a_large_text_full_of_secrets_takes_no_long_time() -> None:
    lines = 60_000
    text = b"".join(b"token = '%s'\n" % SECRETS["gitlab"].encode() for _ in range(lines))
    began = time.process_time()
    assert secrets.find(text) == [(number + 1, "gitlab") for number in range(lines)]
    assert secrets.find(text, most=3) == [(1, "gitlab"), (2, "gitlab"), (3, "gitlab")]
    assert time.process_time() - began < 30  # squared, it is hours


@pytest.mark.parametrize("before", [0, (1 << 18) - 20, (1 << 18) - 1, 1 << 18, (1 << 18) + (1 << 15) - 5])
def test_a_secret_in_a_long_line_is_found(before: int) -> None:
    for rule, sample in SECRETS.items():
        text = b"\n" + b" " * before + sample.encode() + b" " * (1 << 18)
        assert secrets.find(text) == [(2, rule)]


def test_a_search_ends_where_there_is_no_time() -> None:
    class LateError(Exception):
        """The time is over."""

    def look() -> None:
        raise LateError

    for text in (b"x " * (1 << 18) + SECRETS["gitlab"].encode(), SECRETS["gitlab"].encode()):
        with pytest.raises(LateError):
            secrets.find(text, look=look)


@given(st.text(max_size=200))
def test_stripping_twice_changes_nothing_more(url: str) -> None:
    once, _ = secrets.strip_credentials(f"https://{url}")
    assert secrets.strip_credentials(once)[0] == once


def test_a_secret_far_down_in_a_diff_is_named_by_its_line() -> None:
    many = 12_000
    head = f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1,{many + 1} @@\n"
    content = (head + "+x\n" * many + "+" + SECRETS["huggingface"] + "\n").encode()
    with pytest.raises(SnapshotError) as err:
        git_diff.parse(content, "x.diff")
    assert str(err.value) == f"x.diff:{many + 5}: an added line holds a secret (huggingface)"


VOCABULARY = [
    ("PAD_TOKEN_ID", "0"), ("bos_token", "<s>"), ("eos_token", "</s>"), ("MAX_TOKENS", "4096"), ("token_rate", "1e-4"),
    ("mask_token", "[MASK]"), ("HF_TOKEN", "${OTHER}"), ("API_TOKEN", "{token}"), ("HF_TOKEN", "$HF_TOKEN"),
    ("SORT_KEY", "loss"), ("TOKENIZERS_PARALLELISM", "false"), ("EOS_TOKEN_IDS", "[1, 2]"), ("unk_token",
    "<|endoftext|>"),
    ("GPU", "GPU-2f1e4d8c-97b3-4c1e-9a51-0c7d8e6f5a43"), ("RUN_ID", "3k9xq2mz"), ("PAD_TOKEN", "<pad>"),
    ("DIGEST", "sha256:" + "0123456789abcdef" * 4), ("MODEL_SHA", "0123456789abcdef" * 4), ("STOP_TOKEN", "END"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value"), VOCABULARY)
def test_what_a_program_reads_as_a_count_a_template_or_a_special_token_is_none(name: str, value: str) -> None:
    assert secrets.secret_variable(name, value) is None
    assert secrets.find(f"{name}={value}\n{name}: {value}\n{name} = {value}\n".encode()) == []


PLAIN = [
    "docker login r.example", "docker login -u ada -p $PASS r.example", "docker login --password-stdin -p <password>",
    "podman login -p PASSWORD", "mc alias set s https://s3.example $KEY $SECRET", "mc ls s3/b", "7z x -y a.7z -oout1",
    "mc alias set s https://s3.example ACCESS_KEY SECRET_KEY", "ldapsearch -x -W -D cn=ada", "ldapsearch -w secret x",
    "smbclient -U ada //h/share1", "smbclient -U ada%$PASS //h", "lftp -u ada sftp://h1.example", "7z a -p a.7z",
    "unzip -o a1.zip -d out", "zip -r -P ${PASS} a.zip x", "gzip -p1", "unzip -p a1.whl METADATA1", "bzip2 -P4x",
    "openssl enc -pass pass:$PASS", "openssl rsa -passin env:PASS1", "openssl -pass pass:password", "compass:a1",
    "curl -b cookies.txt https://h.example", "curl -b $COOKIE x", "host=h1 port=5432 user=u1 dbname=d1",
    "host=h user=u password=$PASS", "password=pw host=h", "f(host=h, user=u, password=get1(x))", "src/a1@//x",
    "from a/b1@host", "oracle scott/tiger@//h", "oy2", "ciostream1234567890123456789012345", "sk.eyJ",
    "as-IsAndNotOtherwise12345x", "task-as-0123456789abcdefABCDEF", "fo1_short", "IQoJb3JpZ2luX2Vj", "FwoGZXIvYXdz",
    "sqlplus /nolog", "sqlplus ada/$PASS1@runs", "sqlplus @scripts/load1.sql", "impdp ada/tiger", "curl -su $U:$P1 x",
    "curl -so out1:a2 x", "mc alias set --api S3v4 s https://s3.example $KEY1 $SECRET1", "unzip -qo a1.zip -d b2P3",
    '{"a": "http://h:8080","mail":"a1b2@c.example"}', "<a href='http://u:x1'>a1b2c3@h</a>", "'http://u:'+pass1+'@h'",
    "http://u:<password1>@h", "f'http://u:{p[\"a1b2\"]}@h'", "http://u:'$PASS1'@h", "('http://a:b1c2','d3@e')",
    "redis-cli -a $PASS1 x", "redis-cli -p 6379a1 -n 2", "redis-cli -a password", "sqlcmd -S h -E -i load1.sql",
    "sqlcmd -U ada -P $(PASS1)", "mongod --port 27017a1", "mongo -p $PASS1 x", "twine upload -r o1 dist/x1.whl",
    "htpasswd -c users1.txt ada1", "htpasswd -nB ada1", "poetry config http-basic.own ada $PASS1", "bcp -p a1b2c3",
    "kubectl create configmap x --from-literal=model=llama3-8b",
    "kubectl create secret generic x --from-literal=p=$PASS1",
    "kubectl create secret generic x --from-literal=password=<password1>", "tool --auth oauth2-proxy",
    "tool --auth none12345",
    "tool --auth $TOKEN12345", "curl --auth-type basic12345", "ngrok config add-authtoken $NGROK_TOKEN1",
    "ngrok config add-authtoken <token1>", "ngrok authtoken YOUR_AUTHTOKEN1", "password <- Sys.getenv('DB_PASSWORD1')",
    "password <- 'your-password-1'", "password = (\n    'changeme1'\n)", "token = (\n    f'{prefix}-{number1}'\n)",
    "key = (\n    'linear_1.weight'\n)", "SetEnv API_KEY ${API_KEY1}", "SetEnv APP_MODE prod12345",
    "<key>layer_1_weight</key>",
    "<password>changeme1</password>", "<password>\n  ${db.password1}\n</password>", "<password>\n</password>",
    '<property name="password" value="${db.password1}"/>', '<input name="password" value="">',
    "ipmitool -H h1 -P $PASS1",
    "mosquitto_pub -h h1 -p 1883a1 -t x", "plink -p 2222a1 h", "az login -u ada -p $PASS1", "http -a ada:$PASS1 h1",
    "tool -token auto1 x", "x-password reset-link-1 y", "MT1.abcdef.short", "module.Name12.function", "AQ.short1",
    "key_0123456789abcdef", "vcp_short1", "1000.1.2", "live_0123456789", "sgp_" + "a" * 64,
    "X-JFrog-Art-Api: $KEY1", "a = precision-recall", "oy2abcdefghij-klmnopqrstuvwxyz-0123456789abcdef",
]  # fmt: skip

PLAIN_PLACES = [
    "['curl', '-u', 'user:<password>']", "['curl', '-u', 'user:xxxx']", "['curl', '-u', 'user:$PASS1']",
    "['curl', '-u', f'{user}:{pw1}']", "['curl', '-u', 'user:' + pw1, 'http://x1']", "['curl', '-u', 'user:changeme']",
    "['mysql', '-p' + pw1, 'runs1']", "['mysql', '-p', 'runs1x']", "['mysql', '-pchangeme1']", "['mysql', '-p***']",
    "['mysql', '-p%s' % pw1]", "['mysql', '-p${PASS1}']", "['docker', 'login', '-p', pass1]", "['mysql', '-p']",
    "['docker', 'run', '-p', '8080:80a1']", "['unzip', '-p', 'a1b2.zip']", "['curl', '-s', 'http://h.example/a1b2']",
    "s.login('ada', 'changeme1')", "s.login('ada', 'xxxx1234')", "s.login('ada', '<pass1>')", "s.login(user, pass1)",
    "s.login('ada', 'password123')", "s.login('ada', '')", "FTP(h, 'anonymous', 'guest1')", "FTP(h, u, '***')",
    "sock.connect('h1.example', 'a-1-b', 'tcp-stream-1')", "keyring.set_password('svc', 'ada', '$PASSWORD1')",
    "Fernet(key1)", "Fernet(b'" + "A" * 43 + "=')", "echo $PASS1 | docker login --password-stdin",
    'echo "${{ secrets.TOKEN1 }}" | docker login --password-stdin', "cat pass1.txt | docker login --password-stdin",
    "echo <password1> | docker login --password-stdin", "echo changeme1 | sudo -S true", "echo '' | sudo -S true",
    "echo xxxx1 | gh auth login --with-token", "echo 'ada:<password1>' | chpasswd", 'echo "ada:$PASS1" | chpasswd',
    'echo "root:changeme" | chpasswd', 'chpasswd <<< "$USER:$PASS1"', "chpasswd < users1.txt", "echo a1b2 | tee x1",
    'docker login --password-stdin <<< "$PASS1"', "h.example:5432:runs:ada:<password1>", "h:5432:runs:ada:xxxx1",
    "*:*:*:ada:$PASS1", "[client]\npassword=your_password1", "[client]\npassword=***", "[client]\npassword=",
    "train.py password=$PASS1 lr=1", "train.py password=changeme1 x", "f(a, password=args1.pass2)",
    "get('http://h?api_key={key1}&a=1')", "get('http://h?api_key=YOUR_API_KEY1')", "x?token=xxxxxxxx1&b=2",
]  # fmt: skip


@pytest.mark.parametrize("line", PLAIN + PLAIN_PLACES)
def test_a_command_without_a_password_is_none(line: str) -> None:
    assert secrets.find(line.encode()) == []
    assert secrets.secret_value(line) is None


@pytest.mark.parametrize("name", ["PAD_TOKEN", "EOS_TOKEN_ID", "token_rate"])
def test_a_special_token_does_not_hide_a_secret(name: str) -> None:
    assert secrets.secret_variable(name, ALNUM * 2) is not None


FILES = [
    (".env", True), ("app/.env.production", True), (".env.example", False), (".env.local.sample", False),
    (".netrc", True), ("kaggle.json", True), ("deploy/id_ed25519", True), ("id_rsa.pub", False), ("a.p12", True),
    (".aws/credentials", True), (".kube/config", True), ("kube/config", False), ("environment.yml", False),
    (".git-credentials", True), ("config.json", False), ("tokenizer.json", False), ("cacert.pem", False),
]  # fmt: skip


@pytest.mark.parametrize(("path", "secret"), FILES)
def test_a_file_is_a_secret_by_its_name(path: str, secret: bool) -> None:
    assert secrets.secret_file(path, b"MODE=plain\n") is secret
    assert not secrets.secret_file(path, b"")


@pytest.mark.parametrize(
    ("path", "content", "secret"),
    [
        ("ca.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n", False),
        ("tests/data/key.pem", SECRETS["private-key"], True),
        (".npmrc", "registry=https://r.example/\n", False),
        (".npmrc", "//r.example/:_authToken=" + ALNUM, True),
        (".pypirc", "[pypi]\nusername = __token__\npassword = " + ALNUM, True),
        (".docker/config.json", '{"credsStore": "pass"}', False),
        (".docker/config.json", '{"auths": {"r": {"auth": "' + ALNUM + '"}}}', True),
        (".condarc", "channels: [conda-forge]", False),
        ("conf/my.cnf", "[client]\nuser = ada\npassword = tiger\n", True),
        ("my.cnf", "[client]\r\npassword='tiger'\r\n", True),
        ("my.cnf", "[client]\n#password = tiger\npassword =\n", False),
        ("my.cnf", "[client]\npassword = your_password\n", False),
        ("my.cnf", "[client]\npassword = <password>\n", False),
        ("my.cnf", "[mysqld]\nport = 3306\n", False),
        ("pgpass", "db.example:5432:runs:ada:tiger\n", True),
        ("pgpass.conf", "# host:5432:runs:ada:tiger\n*:*:*:ada:changeme\n", False),
        (".pgpass", "db.example:5432:runs:ada:tiger\n", True),
    ],
)
def test_what_is_in_a_doubtful_file_decides(path: str, content: str, secret: bool) -> None:
    assert secrets.secret_file(path, content.encode()) is secret


HOSTILE = [
    "a" * 200_000, "A_" * 100_000, "curl " * 40_000, "mysql -u " * 22_000, "://" * 66_000, "key=" * 50_000,
    "-----BEGIN PRIVATE KEY-----" * 7_400, "eyJ" + "a" * 200_000, "eyJa.eyJa" * 22_000,
    "machine a login b password " * 7_400,
    "password: " * 20_000, "--token " * 25_000, "Q~" * 100_000, "/t/" * 66_000, "token\"'" * 28_000,
    "U0VDUkVU" * 25_000,
    " " * 199_990 + "key: value", "x-api-key: " * 18_000, '{"username":"a","key":' * 9_000, "sshpass -p " * 18_000,
    "_auth=" * 33_000, "aws secret = " * 15_000, "[[" * 100_000, "wandb login " * 16_000, "sk-" * 66_000,
    "user:a@" * 28_000, "docker login -u a " * 11_000, "login -p" * 25_000, "ldapsearch -x a -w " * 10_000,
    "7z a -y " * 25_000, "host=a user=b " * 14_000, "b3BlbnNzaC1rZXktdjE" * 10_000, "password=a1b2 " * 14_000,
    "a/b@" * 50_000,
    "b3BlbnNzaC1rZXktdjE" + "A" * 20 + "\n\n" * 90_000, "curl -b a=" * 20_000, "unzip -o -" * 20_000, "a%3A" * 50_000,
    "api_key: a" * 20_000, "key='" + "\"'" * 100_000, "'--key', " * 22_000, "env KEY " * 25_000,
    "name: a value: " * 13_000,
    "curl -ssssss " * 15_000, "curl -b 'a=b; " * 14_000, "mc alias set --api x " * 9_000, "://u:'" * 33_000,
    "://u:a'" + "<" * 190_000, "sqlplus a " * 20_000, "sqlplus a/" * 20_000, "jdbc:oracle:thin:a/" * 10_000,
    "ldapsearch -xxxx " * 11_000, "'a') or '" * 22_000, "<a>" * 66_000,
    "redis-cli -a " * 15_000, "sqlcmd a -P" * 18_000, "mongo a -p " * 18_000, "htpasswd -b -b 1 " * 12_000,
    "htpasswd -bbbbbbb" * 11_000, "http-basic.a a " * 13_000, "twine a -p" * 20_000,
    "%3A%2F%2F" * 22_000, "%3a" * 66_000, "key=a(" * 33_000,
    "DB_PASSWORD=" * 16_000, "PASSWORD = '" * 16_000, "A_" * 99_000 + "PASSWORD='",
    "['curl','-a'," * 14_000, "'mysql'" + ",'a'" * 50_000, "'mysql'" + ", a(" * 49_000, "'curl'," + " " * 190_000,
    "'curl'" + ",'" * 99_000, '"curl",\n' * 25_000, "'curl', a" + "." * 190_000, "'" + "a/" * 99_000 + "curl'",
    ".login('a', " * 16_000, ".login(a" + " " * 190_000, "FTP(a, b, " * 20_000, "connect(" + "a, " * 66_000,
    "set_password(a, b, " * 10_000, "Fernet(b'" * 22_000, "echo a1b2 | " * 16_000, "printf '%s' a1b2|" * 11_000,
    "echo a:b | chpasswd " * 10_000, "chpasswd <<< " * 15_000, "--token-stdin <<< " * 11_000, "sudo -a -S " * 18_000,
    "a:5432:b:c:" * 18_000, "a:*:a:a:" * 25_000, "[client]\n" * 22_000, "[client]" + "\n" * 190_000,
    "[client]\n" + "password" * 25_000, " a.a.a.password=" * 12_000, " " + "a_" * 99_000 + "password=a1",
    "--from-literal=a=" * 12_000, "--auth " * 28_000, "ngrok config add-authtoken " * 7_000, "http -a a:" * 20_000,
    "ipmitool a -P " * 14_000, "az login -a -p " * 13_000, "plink -pw" * 22_000, "key <- '" * 25_000,
    "key = (\n" * 22_000,
    "key =" + " \n" * 99_000, "key: >-\n" * 22_000, "<key a>\n" * 25_000, "<key " + "a" * 199_000,
    " name='key'" * 18_000,
    "SetEnv KEY " * 18_000, "-Dkey=" * 33_000, "A" * 22 + "." + "MT" * 99_000, "M1a." * 50_000, "AQ." * 66_000,
    "access_token$production$" * 8_000, "key: str" + "[" * 190_000, "0123abcd." * 22_000,
    "mc alias set a http://a b " * 8_000, "https:/a:b" * 20_000, "smbclient -U a%" * 13_000, "a/" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("password", ["6UF4B%S+Uj*FY8xy1lt6"])
def test_a_percent_sign_makes_no_template(password: str) -> None:
    assert secrets.find(f"export DB_PASS={password}\n".encode())
    assert secrets.find(b"export DB_PASS=abc1%s\n") == []


@pytest.mark.parametrize("name", ["ftp_proxy", "https_proxy", "ALL_PROXY"])
def test_a_login_of_a_proxy_without_a_scheme(name: str) -> None:
    assert secrets.secret_variable(name, "ada:uWx2MqtYygX0bK9z@proxy.example:3128") == "login"
    for value in ("proxy.example:3128", "ada@proxy.example:3128", "ada:$PASSWORD@proxy.example:3128"):
        assert secrets.secret_variable(name, value) is None


def time_rule(pattern: str, text: str) -> float:
    """Return the seconds of processor time that a rule takes for a text."""
    began = time.process_time()
    for _ in re.finditer(pattern, text):
        pass
    return time.process_time() - began


def least_time(pattern: str, text: str) -> float:
    """Return the least time of three. Other work on the machine only adds time."""
    return min(time_rule(pattern, text) for _ in range(3))


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:20])
def test_no_text_makes_a_rule_slow(text: str) -> None:
    """A rule is applied to a text with one of its marks only. Squared, half of the text takes a quarter of the time."""
    slow = {}
    for rule in (rule for rule in secrets.VALUES if has_marks(rule, text.lower())):
        if time_rule(rule.pattern, text) > 0.4:
            half, whole = least_time(rule.pattern, text[: len(text) // 2]), least_time(rule.pattern, text)
            if whole > 3 * half:
                slow[rule.name] = half, whole
    assert slow == {}


def test_a_squared_rule_is_seen() -> None:
    text = "a" * 8_000
    assert least_time("(?:a{0,9999})b", text) > 3 * least_time("(?:a{0,9999})b", text[:4_000])


def test_every_repeat_has_an_end() -> None:
    for rule in secrets.VALUES:
        bare = re.sub(r"\\.|\[(?:\\.|[^\]])*\]", "x", rule.pattern)
        assert not re.search(r"[*+](?!\?)|\{\d+,\}", bare), rule.name


@pytest.mark.parametrize(
    "part", ["name{}=value{}", '"k{}": {}', "--flag-{} v{}", "/opt/a{}/lib:/b{}", "a{}_token_x|b{}"]
)
def test_a_long_value_takes_no_more_than_its_length(part: str) -> None:
    """Eight times the length takes about eight times as long: a passage that is squared would take 64 times."""
    text = ",".join(part.format(number, number) for number in range(40_000))
    times = {}
    for length in (20_000, 160_000) * 3:
        began = time.process_time()
        for _ in range(160_000 // length):
            secrets.secret_variable("NOTE", text[:length])
            secrets.redact(text[:length])
        # Other work on the machine only adds time.
        times[length] = min(times.get(length, math.inf), time.process_time() - began)
    assert times[160_000] < 4 * times[20_000] + 0.2, times


@pytest.mark.parametrize(
    "name", ["VNCPASS", "DBPASS", "MYSQLPASS", "APP_DBPASS", "smtppass", "KEYSTOREPASS", "DBPW", "WEB_PGPASS"]
)
def test_names_of_passwords_that_are_joined(name: str) -> None:
    assert secrets.secret_variable(name, "hunter2pass9X") == "password"


@pytest.mark.parametrize(
    "name",
    ["COMPASS", "BYPASS", "LOWPASS", "BANDPASS", "NPASS", "TRESPASS", "ENCOMPASS", "MULTIPASS", "SINGLEPASS"],
)
def test_words_that_end_in_pass(name: str) -> None:
    assert secrets.secret_variable(name, "north-4x") is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("VOCAB_TOKENS", "50257"), ("VOCAB_TOKENS", "32k"), ("TOKENS", "4096"), ("TOKENS_SEEN", "3e9"),
        ("PROMPT_TOKENS", "256"), ("EVAL_TOKENS", "100M"), ("SEEN_TOKENS", "1_000"),
    ],
)  # fmt: skip
def test_counts_of_tokens(name: str, value: str) -> None:
    """A secret under the same name is still one, and so is a number under a name of access."""
    assert secrets.secret_variable(name, value) is None
    assert secrets.secret_variable(name, "q7Zx2Lm9Vb4T") == "token"
    assert secrets.secret_variable(f"ACCESS_{name}", value) == "token"


@pytest.mark.parametrize(
    "line",
    [
        'os.getenv("API_KEY", "")', 'os.getenv("API_KEY", "your-key-1234")', 'getenv("TOKEN", "<unk>1234567")',
        'getenv("TOKENIZER", "bert-base-v2-x1")', 'cfg.get("cache_key", "created_at_v2")',
        'get("token", "$TOKEN_12345")',
        'auth=("user", "password")', 'auth=("user", "passwd")', 'auth=("ada", os.environ["PASSWORD_1"])',
        'auth = ("basic_user_1", "{password_1}")', "${API_KEY:-changeme1}", "${DB_PASSWORD:-$OTHER_1234}",
        "${CACHE_KEY:-linux-py311}", 'key = f"layers.{i}.attn.weight_12"', 'token = f"<extra_id_{i}>12345678"',
        "process.env.TOKEN || process.env.OTHER_1234", 'process.env.API_KEY || "undefined"',
        'headers={"Authorization": f"Token {token_12345678}"}',
    ],
)  # fmt: skip
def test_defaults_and_templates_without_a_secret(line: str) -> None:
    assert secrets.find(line.encode()) == []


WORDS = ["SummerCoffee2561", "WinterZebra7236", "Winter-Zebra-7236", "winterzebra7236"]
PLACES = [
    "{}={}", "export {}={}", 'export {}="{}"', "ENV {} {}", "ARG {}={}", '{} = "{}"', "  {}: {}", "${{{}:-{}}}",
    '"{}": "{}"', "{} = {}", 'os.getenv("{}", "{}")', "- name: {}\n  value: {}",
]  # fmt: skip


@pytest.mark.parametrize(
    "name", ["DB_PASSWORD", "PGPASSWORD", "ROOT_PASSWD", "MYSQL_PWD", "DB_PSWD", "DB_PASSWORT"]
)
@pytest.mark.parametrize("place", PLACES)
def test_a_word_with_a_number_is_a_password_where_one_stands(name: str, place: str) -> None:
    for word in WORDS:
        assert secrets.find(place.format(name, word).encode()), word
        assert word not in secrets.redact(place.format(name, word))


@pytest.mark.parametrize(
    "value",
    [
        "correct-horse", "my_password_1", "settings.password1", "my-secret-v2", "password123", "Passwd1234",
        "$OTHER_1234", "{password_1}", "<password1>", "changeme1234", "your-password-1", "DB_PASSWORD_2",
    ],
)  # fmt: skip
def test_what_stands_for_a_password_is_none(value: str) -> None:
    for place in PLACES:
        assert secrets.find(place.format("DB_PASSWORD", value).encode()) == [], place
    assert secrets.find(b"DB_TOKEN=SummerCoffee2561") == []


@pytest.mark.parametrize("name", ["DB_PSWD", "DB_PSW", "APP_PWORD", "DB_PASSWORT", "db_passwort", "PSWD"])
def test_other_names_of_passwords(name: str) -> None:
    assert secrets.secret_variable(name, "x1") == "password"
    drawn = fill("{a16}", random.Random(name))[0]
    for line in (f"export {name}={drawn}", f'{name} = "{drawn}"', f"{name}: {drawn}"):
        assert secrets.find(line.encode()) or name == "PSWD", line


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKEN_TYPE", "bpe"), ("ACCESS_TOKEN_TYPE", "Bearer"), ("TOKEN_DROPOUT", "0.1"), ("TOKEN_DROP", "0.1"),
        ("OPENAI_API_KEY", "EMPTY"), ("RUN", "--api-key EMPTY"), ("CREDENTIAL_HELPER", "store"),
        ("GIT_CREDENTIAL_HELPER", "cache --timeout=3600"), ("NGPU_PASS", "2"), ("SECOND_PASS", "16"),
    ],
)  # fmt: skip
def test_settings_with_the_name_of_a_secret(name: str, value: str) -> None:
    assert not secrets.holds_secret(name, value)
    assert secrets.redact(f"{name}={value}") == f"{name}={value}"
    assert secrets.secret_variable("DB_PASS", "Hunter22") == "password"


@pytest.mark.parametrize("shape", ["encoded-account", "encoded-auths", "encoded-kubeconfig"])
def test_a_document_in_base64_is_searched(shape: str) -> None:
    """Also where it is broken into lines, or has the letters of an address."""
    text = base64.b64decode(fill(MORE[shape], random.Random(shape))[0])
    for before in (b"", b" ", b"\n\n"):
        for encoded in (base64.b64encode, base64.urlsafe_b64encode, base64.encodebytes):
            assert secrets.holds_secret("GCP_SA", encoded(before + text).decode()), encoded
    harmless = b'{"name": "run", "tokenizer": "bpe", "max_tokens": 4096, "layers": [1, 2], "author": "ada"}'
    assert not secrets.holds_secret("SETTINGS", base64.b64encode(harmless).decode())


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be"])
def test_texts_of_utf_16_are_searched(codec: str) -> None:
    """Windows and its editors write them, and each character has a zero beside it."""
    line = f"DB_PASSWORD = '{fill('{a20}', random.Random(codec))[0]}'"
    assert secrets.find(f"first\n{line}\nlast Größe\n".encode(codec)) == [(2, "assigned")]
    if codec == "utf-16":
        assert secrets.find("\n".join(["Größe 你好"] * 99 + [line]).encode(codec)) == [(100, "assigned")]
    assert secrets.find(bytes(5000) + b"plain" + bytes(5000)) == []


@pytest.mark.parametrize("item", ["#   ", "<|a|>", "\\n", "['a', ", "[a] ", "1 "])
def test_a_list_of_special_tokens_is_read_in_one_way(item: str) -> None:
    """Each blank between two items could be part of either: a value of 80 characters took hours."""
    assert secrets.holds_secret("EOS_TOKEN", item * 200 + "!")
    assert not secrets.holds_secret("EOS_TOKEN", (item * 20).strip())
