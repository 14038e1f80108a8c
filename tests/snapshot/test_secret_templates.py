"""A password with signs of a template in it is one, and a template is none."""

from __future__ import annotations

import random
import time

import pytest

from reprobuild_portable import secrets
from tests.snapshot.samples import ALNUM

# Put together here, so that no scanner takes this file for a leak.
PASS = "Xk9mQ2" + "vLp7"
DOLLAR = "$ecret9" + "x8Qw2"
HEX = "9f86d081884c7d65" + "9a2feaa0c55ad015"
MIXED = "kJ8sD2pQ7vX4" + "nM1bT6yR"


@pytest.mark.parametrize("sign", ["$", "*", "{", "}", "%", "$$", "${", "%m", "{{", "...", "\\"])
@pytest.mark.parametrize("address", ["postgresql://svc:{}@db.example/x", "redis://:{}@cache.example:6379/0"])
def test_a_sign_of_a_template_within_a_password_excuses_no_login(sign: str, address: str) -> None:
    url = address.replace("{}", f"{PASS[:4]}{sign}{PASS[4:]}")
    assert secrets.find(f'DATABASE_URL = "{url}"\n'.encode()) == [(1, "url-credential")]
    assert secrets.secret_variable("RUN_NOTE", url) == "url-credential"
    assert PASS[4:] not in secrets.redact(url)
    assert secrets.holds_secret("RUN_NOTE", url)


@pytest.mark.parametrize(
    "password",
    [
        "$PASS", "${PASS}", "${DB_PASS:-x}", "$(pass)", "$1", "{password}", "{}", "{0}", "{quote(password)}", "{x!r}",
        "{{password}}", "%(password)s", "%PASSWORD%", "%s", "***", "*", "xxxx", "$A$B", "${A}-${B}", "$DB2_PASSWORD",
        "$dbPassword", "[^@]+", ".*", r"\w+", r"[^\s]{1,99}", "...", "password", "#{password}",
    ],
)  # fmt: skip
def test_a_template_for_the_whole_password_is_none(password: str) -> None:
    for user in ("ada", "{user}", "$USER"):
        url = f"postgresql://{user}:{password}@db.example/x"
        assert secrets.find(f"url = {url}\n".encode()) == [], url
        assert secrets.secret_value(url) is None, url


def test_a_port_that_is_a_template_is_no_password() -> None:
    for address in ("http://$HOST:$PORT/a/b@1", "http://{host}:{port}/a/b@1", "http://%s:%d/x@2"):
        assert secrets.secret_value(address) is None, address


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (f'DB_PASSWORD = "{PASS}"', "assigned"), ("password = 'Vq7LrT2" + "wZ9'", "assigned"),
        (f'"password": "{PASS[:8]}"', "assigned"), (f'secret: "{PASS}"', "assigned"), (f"pwd => '{PASS}a'", "assigned"),
        ('token = "xk9mq2' + 'vlp7"', "assigned"),
        ('password = "hunter2' + '-x!"', "assigned"),
        (f"password = '{DOLLAR}'", "assigned"), (f'password = "{DOLLAR}!!"', "assigned"),
        (f"DB_PASSWORD='{DOLLAR}!!'", "assigned"), ("DB_PASSWORD='$Xk9m7Q!!'", "assigned"),
        ("DB_PASSWORD='$ecret!!2024'", "assigned"), (f"db_password: {DOLLAR}", "assigned-entry"),
        (f"curl -u 'deploy:{DOLLAR}' https://ci.example/api", "curl"),
        (f"curl -u deploy:'{DOLLAR}' https://ci.example/api", "curl"),
        (f"  --user 'deploy:{DOLLAR}' \\", "curl-user"),
        (f"mysql -u root -p'{DOLLAR}' prod", "mysql"), (f"mysql -u root -p'Xk9{DOLLAR}' prod", "mysql"),
        (f"sshpass -p '{DOLLAR}' ssh h", "sshpass"), (f"docker login -u a -p '{DOLLAR}' r.example", "registry-login"),
        (f"smbclient -U 'ada%{DOLLAR}' //h/x", "samba"), (f"lftp -u 'ada,{DOLLAR}' sftp://h.example", "lftp"),
        (f"openssl rsa -passin 'pass:{DOLLAR}'", "openssl"), (f"tool --password '{DOLLAR}' x", "option"),
        (f"machine h login a password {DOLLAR}", "netrc"), (f"machine h password {PASS}", "netrc"),
        (f"default login a password {PASS}", "netrc"), (f"machine h account b password {PASS}", "netrc"),
        (f"u='redis://a:{{{PASS}}}@h.example'", "url-credential"), (f"password = '{{{PASS}'", "assigned"),
        (f"password = '[{PASS}'", "assigned"), (f"machine h login a password {{{PASS}", "netrc"),
        (f"export TRIGGER_TOKEN={HEX}", "assigned-variable"), (f"CONTROL_TOKEN={MIXED}", "assigned-variable"),
    ],
)  # fmt: skip
def test_a_line_of_a_source_with_a_password(line: str, rule: str) -> None:
    assert secrets.find(f"a\n{line}\n".encode()) == [(2, rule)]
    assert secrets.redact(line) != line


@pytest.mark.parametrize(
    "line",
    [
        f'curl -u "deploy:{DOLLAR}" https://ci.example', f"curl -u deploy:{DOLLAR} https://ci.example",
        f'mysql -u root -p"{DOLLAR}" prod', f"mysql -u root -p{DOLLAR} prod", f'DB_PASSWORD="{DOLLAR}"',
        f"DB_PASSWORD={DOLLAR}", "curl -u 'deploy:$DB_PASSWORD2' x", "mysql -u root -p'$MYSQL_ROOT_PASSWORD' x",
        "DB_PASSWORD='${DB_PASSWORD_2}'", "DB_PASSWORD='$DB_PASSWORD_2'", "KEY_PATH='$HOME/keys/k2-x'",
        "password: $DB_PASSWORD2", "machine h login a password $S3_TOKEN", "machine name password is",
        "machine h login a password ${TOKEN}", "the default password is 8chars",
        "use a default login and password to avoid a prompt", "default login anonymous password user@site",
        'password = "Password1"',
        'token = "word2vec"', 'secret = "abc12345"', 'key_token: "gpt2-medium"', "machine HOST password PASSWORD",
        "sshpass -p '$PASS' ssh h", "docker login -u a -p $DOCKER_PASS2 r.example",
    ],
)  # fmt: skip
def test_a_line_of_a_source_without_a_password(line: str) -> None:
    assert secrets.find(f"a\n{line}\n".encode()) == []


@pytest.mark.parametrize("between", ["\n", "\r\n", "\n\t", "\n    "])
@pytest.mark.parametrize("words", [["login a"], ["login a", "account b"], []])
def test_an_entry_of_netrc_over_lines(between: str, words: list[str]) -> None:
    entry = between.join(["machine h.example", *words, f"password {PASS}"])
    assert secrets.find(f"# logins\n{entry}\nmachine x\n".encode()) == [(2 + entry.count("\n"), "netrc")]
    assert PASS not in secrets.redact(entry)


def test_the_lines_before_one_are_no_secret_of_it() -> None:
    text = f"machine h login a password {PASS}\nthe password\nmachine k login b password {PASS}\n"
    assert secrets.find(text.encode()) == [(1, "netrc"), (3, "netrc")]
    sample = b"machine h\nlogin a\npassword secret\n"
    assert secrets.find(sample) == []


def test_a_long_line_before_a_password_costs_little() -> None:
    started = time.process_time()
    secrets.find(b"machine h " * 200_000 + b"\n" + b"password x\n" * 2_000)
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("name", "value", "rule"),
    [
        ("CI_TRIGGER_TOKEN", HEX, "token"), ("CONTROL_TOKEN", MIXED, "token"), ("STOP_TOKEN", "deadbeef" * 2, "token"),
        ("END_TOKEN", "12345678901234567890", "token"), ("INSTANCE_TOKEN", f"{MIXED}, {MIXED}", "token"),
        ("API_TOKEN_ID", HEX, "token"), ("START_TOKENS", "<s>" + MIXED, "token"),
        ("BOS_TOKEN", "<s>", None), ("MASK_TOKEN", "[MASK]", None), ("STOP_TOKENS", "<|endoftext|>,</s>", None),
        ("PAD_TOKEN_ID", "128001", None), ("STOP_TOKENS", "[1, 2, 32000]", None), ("INSTANCE_TOKEN", "sks", None),
        ("STOP_TOKENS", '["###", "END"]', None), ("STOP_TOKEN", r"\n\n", None), ("IMAGE_TOKEN", "<image><pad>", None),
        ("CONTROL_TOKENS", "true", None), ("PLACEHOLDER_TOKEN", "my_new_concept", None),
        ("MY_PAT", "a$9xK2mQ7v" + "L4pZ8wR", "token"), ("MY_PAT", f"{MIXED}*", "token"), ("MY_PAT", f"*{HEX}", "token"),
        ("MY_PAT", f"{MIXED[:9]}|{MIXED[9:]}", "token"), ("MY_PAT", "12345678901234567890", "token"),
        ("GLOB_PAT", "*.py", None), ("GLOB_PAT", "step_*[0-9].pt", None), ("GLOB_PAT", "shard-{0000..0127}.tar", None),
        ("LAYER_PAT", r"^model\.layers\.\d+\.(self_attn|mlp)\.[a-z_]+$", None), ("HEX_PAT", "[0-9a-f]{40}", None),
        ("FILE_PAT", "data/**/train-?????-of-01024", None), ("LR_PAT", "5", None),
    ],
)  # fmt: skip
def test_a_special_token_and_a_pattern_look_like_one(name: str, value: str, rule: str | None) -> None:
    assert secrets.secret_variable(name, value) == rule
    assert secrets.holds_secret(name, value) == (rule is not None)


@pytest.mark.parametrize("value", [DOLLAR, f"{DOLLAR}!!", f"${ALNUM}", "%Xk9m" + "Q2vLp7"])
def test_a_value_that_begins_like_a_reference_is_a_secret_of_its_name(value: str) -> None:
    assert secrets.secret_variable("DB_PASSWORD", value) == "password"
    assert secrets.holds_secret("DB_PASSWORD", value)
    assert secrets.secret_variable("RUN", f"curl -u 'deploy:{value}' https://x.example") is not None
    assert secrets.secret_variable("DB_PASSWORD", "$PASSWORD_2") is None


def test_short_passwords_drawn_are_found() -> None:
    """Of three kinds of characters, as those of eight to eleven characters that are drawn have."""
    source = random.Random(5)
    letters = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
    drawn = ["".join(source.choices(letters, k=length)) for length in (9, 10, 11) for _ in range(100)]
    hits = [text for text in drawn if secrets.find(f'password = "{text}"'.encode())]
    assert len(hits) >= 200, len(hits)


@pytest.mark.parametrize(
    "text", ["$A" * 5000, "${a" * 5000, "[" * 9000, "a_1" * 5000, "<s>" * 5000, "\\w" * 5000]
)
def test_a_hostile_value_is_judged_quickly(text: str) -> None:
    started = time.process_time()
    for name in ("PAD_TOKEN", "MY_PAT", "DB_PASSWORD"):
        secrets.holds_secret(name, text)
    secrets.find(f"u = 'postgresql://a:{text}@h'\nPAD_TOKEN='{text}'\npassword = '{text}'".encode())
    assert time.process_time() - started < 5
