"""The rules, as data: names of variables that hold a secret, and what secrets look like."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

GONE = "***"
# conda's token in a path, as in https://host/t/TOKEN/channel; servers of companies have a path before it.
CONDA_TOKEN = re.compile(r"(?<!:/)/t/[^/?#]+")

# What counts tokens sounds like a secret, and a secret may sound like a count (`NEW_RELIC_TOKEN`). So a name that says
# TOKENS, and nothing else that a secret is called, is none; every other one is none where it holds a number.
COUNT = "count"
_NO_OTHER = r"(?!.*(SECRET|KEY|PASS|AUTH|API|CRED|BEARER|JWT|COOKIE))"
_COUNTED = (
    r"(.*_)?(MAX|MIN|NUM|N|TOTAL|BATCH|NEW|CONTEXT|TRAIN|GLOBAL)_(.*_)?{0}(_.*)?"
    r"|(.*_)?{0}_(PER|LEN|LENGTH|COUNT|LIMIT|BUDGET|DISPATCHER|TYPE)(_.*)?"
)

# A key of a table, a cache or a sort is a short identifier; a key of a store is called the same (`COSMOS_PRIMARY_KEY`).
FIELD = "field"

# A personal access token is called like a pattern (`GLOB_PAT=*.py`) and a count (`LR_PAT=5`).
PATTERN = "pattern"

# First match wins; an empty rule name means "not a secret". Matched against the whole name, any case.
NAMES: tuple[tuple[str, str], ...] = (
    ("", r"(OLD)?PWD|KEYBOARD|SSH_AUTH_SOCK(HOST)?|SSH_AGENT_PID|.*_PASSES|(N|NUM|MAX|MIN)_PASS"),
    ("", rf"{_NO_OTHER}(?!.*TOKEN(?!I[ZS])).*TOKENI[ZS](ER|ERS|ATION|E|ED)(_.*)?"),
    (
        "",
        rf"{_NO_OTHER}(?!.*TOKEN(?!S|I[ZS]))({_COUNTED.format('TOKENS')})|{_NO_OTHER}(.*_)?TOKENS?_DISPATCHER",
    ),
    (COUNT, rf"{_COUNTED.format('TOKENS')}|{_NO_OTHER}({_COUNTED.format('TOKEN')})"),
    ("", r"(XDG|GNOME|TERM|ITERM|TMUX|DESKTOP|KDE|KONSOLE|BYOBU)_.*SESSION_?ID"),
    ("", r"(.*_)?PUBLIC_?KEYS?"),
    ("", r"(?!GOOGLE_APPLICATION_CREDENTIALS).*_(FILE|FILENAME|PATH|DIR|VERSION|TYPE|BACKEND|STORE)"),
    (FIELD, r"(?!AZURE_)(.*_)?(SORT|PRIMARY|FOREIGN|CACHE|PARTITION|HOT)_?KEYS?"),
    (
        "named",
        r"HF_TOKEN|HUGGING_?FACE_HUB_TOKEN|WANDB_(API_)?KEY|AWS_(SECRET_ACCESS_KEY|SESSION_TOKEN|ACCESS_KEY_ID)"
        r"|AZURE_.*|GOOGLE_APPLICATION_CREDENTIALS.*|GITHUB_TOKEN|GH_TOKEN|OPENAI_API_KEY|ANTHROPIC_API_KEY"
        r"|NGC_API_KEY|NGC_CLI_API_KEY|MLFLOW_TRACKING_(PASSWORD|TOKEN)|COMET_API_KEY|NEPTUNE_API_TOKEN"
        r"|KRB5CCNAME|MYSQL_PWD|PGPASSWORD|REDISCLI_AUTH|NETRC|DOCKER_AUTH_CONFIG|SSHPASS",
    ),
    ("token", r".*(TOKEN|BEARER|JWT).*"),
    (PATTERN, r"(.*_)?PAT"),
    ("password", r".*(PASSW(OR)?D|PASSPHRASE|PASSCODE).*|(.*_)?(PASS|PW)|.*_PWD|.*(BINDPW|USERPWD|ROOTPW)"),
    ("secret", r".*SECRET.*"),
    ("credential", r".*(CREDENTIAL|CREDS).*"),
    (
        "key",
        r".*(API|APP|AUTH|SERVICE|ACCOUNT|DB|CLIENT|ACCESS|PRIVATE|PRIV|ENCRYPTION|SIGNING|SSH|MASTER)_?KEY.*"
        r"|(.*_)?KEY",
    ),
    ("cookie", r".*COOKIE.*"),
    ("session", r".*SESSION_?(ID|KEY)"),
    ("signature", r"(.*_)?(SIGNATURE|SIG)"),
    ("sas", r"(.*_)?SAS(_URL|_URI)?"),
    ("webhook", r".*WEBHOOK.*|.*CONNECTION_?STRING.*|(.*_)?DSN"),
)


def entropy(text: str) -> float:
    """Return the Shannon entropy of `text` in bits for each character."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def looks_generated(text: str) -> bool:
    """Whether `text` reads like a generated key: letters and digits mixed, and no word that stands for one."""
    if re.search(r"(?i)example|your|change.?me|dummy|placeholder|xxx|\*\*\*|[${}<>%]", text):
        return False
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text)) and entropy(text) >= 3.5


def _no_sample(text: str) -> bool:
    return not text.endswith("EXAMPLE")


def _real_login(text: str) -> bool:
    """Whether `user:password` of an address is more than a sample or a template."""
    text = _plain(text)
    password = text.partition(":")[2]
    return not re.search(r"[${}<>%*\\]|\.\.\.", text) and not re.fullmatch(
        r"(?i)(my)?_?(pass(word|wd)?|pwd|secret|token|x+|user(name)?|foo|bar|changeme|example|port|\d{1,5})",
        password,
    )


def _token_login(text: str) -> bool:
    """Whether the user of an address is a token: its password is absent, or says nothing (`x-oauth-basic`)."""
    return looks_generated(_plain(text.partition(":")[0]))


def _plain(text: str) -> str:
    """Take the percent signs of encoded characters off: a password may have any, and a template has others."""
    return re.sub("%[0-9A-Fa-f]{2}", "-", text)


class Rule(NamedTuple):
    """One kind of secret.

    A line is searched only if it holds one of `marks`, in any case. Group 1 of `pattern` is the secret
    itself; `real` may still call it a sample.
    """

    name: str
    marks: tuple[str, ...]
    pattern: str
    real: Callable[[str], bool] = lambda text: True


# Every repeat is bounded, so that no input makes the search slow.
VALUES: tuple[Rule, ...] = (
    Rule(
        "aws-access-key",
        ("a3t", "akia", "asia", "abia", "acca"),
        r"(?<![A-Za-z0-9])((?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?![A-Za-z0-9])",
        _no_sample,
    ),
    Rule(
        "aws-secret-key",
        ("aws",),
        r"(?i:aws_?secret_?access_?key)[\"']?\s{0,5}[=:]\s{0,5}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        lambda text: not re.search("(?i)example", text),
    ),
    Rule(
        "huggingface",
        ("hf_", "api_org_"),
        r"(?<![A-Za-z0-9_])((?:hf|api_org)_[A-Za-z0-9]{30,60})(?![A-Za-z0-9_])",
    ),
    Rule(
        "github",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?<![A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{50,255})",
    ),
    Rule(
        "gitlab",
        ("glpat-", "gldt-", "glptt-", "glrt-", "glcbt-"),
        r"(?<![A-Za-z0-9])(gl(?:pat|dt|ptt|rt|cbt)-[A-Za-z0-9_-]{20,64})",
    ),
    Rule("slack", ("xox",), r"(?<![A-Za-z0-9])(xox[abeoprs]-[A-Za-z0-9-]{10,250})"),
    Rule("anthropic", ("sk-ant-",), r"(?<![A-Za-z0-9])(sk-ant-[A-Za-z0-9_-]{20,250})"),
    Rule(
        "openai",
        ("sk-",),
        r"(?<![A-Za-z0-9_-])(sk-(?!ant-)(?=[A-Za-z0-9_-]{0,200}\d)(?=[A-Za-z0-9_-]{0,200}[A-Z])[A-Za-z0-9_-]{20,250})",
    ),
    Rule("nvidia", ("nvapi-",), r"(?<![A-Za-z0-9])(nvapi-[A-Za-z0-9_-]{40,100})"),
    Rule("google", ("aiza",), r"(?<![A-Za-z0-9])(AIza[A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])"),
    Rule("index-upload", ("pypi-",), r"(?<![A-Za-z0-9])(pypi-[A-Za-z0-9_-]{50,250})"),
    Rule("docker", ("dckr_",), r"(?<![A-Za-z0-9])(dckr_[a-z]{3}_[A-Za-z0-9_-]{20,100})"),
    Rule("npm", ("npm_",), r"(?<![A-Za-z0-9])(npm_[A-Za-z0-9]{36})(?![A-Za-z0-9])"),
    Rule("telegram", (":aa",), r"(?<![A-Za-z0-9])(?:bot)?(\d{6,12}:AA[A-Za-z0-9_-]{31,35})(?![A-Za-z0-9_-])"),
    Rule("stripe", ("k_live_",), r"(?<![A-Za-z0-9])([sr]k_live_[A-Za-z0-9]{20,100})"),
    Rule(
        "jwt",
        ("eyj",),
        r"(?<![A-Za-z0-9])(eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,2000})",
    ),
    Rule(
        "private-key", ("private key",), r"(-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----)"
    ),
    Rule(
        "azure-key",
        ("accountkey=", "sharedaccesskey="),
        r"(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,100}={0,2})",
    ),
    Rule(
        "wandb",
        ("wandb",),
        r"(?i:wandb)[\w.()\[\]\"' ,=:]{0,60}(?i:key)[\"'\]]{0,2}\s{0,4}[=:,]\s{0,4}[\"']?([0-9a-f]{40})(?![0-9a-f])",
    ),
    Rule(  # a slash in the password, but for a port and a path with `r.git@commit`
        "url-credential",
        ("://",),
        r"://([^\s/:@'\"<>]{1,100}:(?:[^\s/@'\"<>]{1,300}"
        r"|(?!(?:\d{0,5}|(?i:port))[/?#,;])(?:(?!//)[^\s@'\"<>]){1,300}(?<!\.git)(?<!/)))@",
        _real_login,
    ),
    Rule(
        "url-token",
        ("http",),
        r"(?i:https?)://([A-Za-z0-9_~+%-]{16,100}(?::[^\s/@'\"<>]{0,300})?)@(?!sha\d)",
        _token_login,
    ),
    Rule(
        "assigned",
        ("key", "token", "secret", "passw"),
        r"(?i:api_?key|secret_?key|access_?token|auth_?token|client_?secret|password|passwd)[\"']?\s{0,4}[=:]\s{0,4}"
        r"[\"']([^\s\"'/]{16,200})[\"']",
        looks_generated,
    ),
)
