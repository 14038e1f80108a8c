"""Rules for names of secrets, and checks that tell a secret from a sample, a template or a word."""

from __future__ import annotations

import binascii
import functools
import math
import re
from collections import Counter

from reprobuild_portable.secrets.templates import is_stand_in, is_template, pattern_words

GONE = "***"
# conda's token in a path, as in https://host/t/TOKEN/channel; servers of companies have a path before it.
CONDA_TOKEN = re.compile(r"(?<!:/)/t/[^/?#]+")

# What counts tokens sounds like a secret, and a secret may sound like a count (`NEW_RELIC_TOKEN`). So a name that says
# TOKENS, and nothing else that a secret is called, is none; every other one is none where it holds a number.
COUNT = "count"
_NO_OTHER = r"(?!.*(SECRET|KEY|PASS|AUTH|API|CRED|BEARER|JWT|COOKIE))"
_COUNTED = (
    r"(.*_)?(MAX|MIN|NUM|N|TOTAL|BATCH|NEW|CONTEXT|TRAIN|GLOBAL)_(.*_)?{0}(_.*)?"
    r"|(.*_)?{0}_(PER|LEN|LENGTH|COUNT|LIMIT|BUDGET|DISPATCHER|TYPE|RATE|SIZE|DIM|WEIGHT|PR"
    r"OB|RATIO|LOSS|POS|IDX|INDEX|DROP|DROPOUT)(_.*)?"
)

# A token of a vocabulary, or its number: `BOS_TOKEN=<s>`, `PAD_TOKEN_ID=0`. A secret is neither.
VOCABULARY = "vocabulary"

# A key of a table, a cache or a sort is a short identifier; a key of a store is called the same (`COSMOS_PRIMARY_KEY`).
FIELD = "field"

# A name that says another secret beside the key of a table: `API_LABEL_KEY`.
_NO_OTHER_FIELD = r"(?!.*(SECRET|PASS|AUTH|API|CRED|BEARER|JWT|COOKIE|TOKEN|ACCESS|PRIVATE|AZURE))"

# A personal access token is called like a pattern (`GLOB_PAT=*.py`) and a count (`LR_PAT=5`).
PATTERN = "pattern"

# First match wins; an empty rule name means "not a secret". Matched against the whole name, any case.
NAMES: tuple[tuple[str, str], ...] = (
    ("", r"(OLD)?PWD|KEYBOARD|SSH_AUTH_SOCK(HOST)?|SSH_AGENT_PID|.*_PASSES|(N|NUM|MAX|MIN)_PASS"),
    ("", r"(.*_)?TOKEN_TYPE|(.*_)?CREDENTIALS?_HELPER"),
    ("", rf"{_NO_OTHER}(?!.*TOKEN(?!I[ZS])).*TOKENI[ZS](ER|ERS|ATION|E|ED)(_.*)?"),
    (
        "",
        rf"{_NO_OTHER}(?!.*TOKEN(?!S|I[ZS]))({_COUNTED.format('TOKENS')})|{_NO_OTHER}(.*_)?TOKEN"
        rf"S?_DISPATCHER",
    ),
    (
        VOCABULARY,
        rf"{_NO_OTHER}(.*_)?(PAD|BOS|EOS|EOT|EOD|UNK|SEP|CLS|MASK|START|END|STOP|SPECIAL|IMAGE|A"
        rf"UDIO|VIDEO|SPEECH|DECODER|ENCODER"
        r"|PREFIX|SUFFIX|IMG|FIM|CONTROL|TRIGGER|INSTANCE|PLACEHOLDER|INITIALIZER)_?TOKENS?(_.*"
        r")?|(.*_)?TOKEN_?(ID|IDS|IDX)",
    ),
    (COUNT, rf"{_COUNTED.format('TOKENS')}|{_NO_OTHER}({_COUNTED.format('TOKEN')})"),
    ("", r"(.*_)?[CX]SRF_?TOKEN(_.*)?|PUBLIC_?TOKEN|.*CREDENTIALS?_?ID"),
    ("", r"(XDG|GNOME|TERM|ITERM|TMUX|DESKTOP|KDE|KONSOLE|BYOBU)_.*SESSION_?ID"),
    ("", r"(.*_)?PUBLIC_?KEYS?"),
    ("", r"(?!GOOGLE_APPLICATION_CREDENTIALS).*_(FILE|FILENAME|PATH|DIR|VERSION|TYPE|BACKEND|STORE)"),
    (COUNT, rf"{_NO_OTHER}(?!.*(ACCESS|REFRESH|SESSION|BOT|LOGIN))(.*_)?TOKENS(_.*)?"),
    (FIELD, r"(?!AZURE_)(.*_)?(SORT|PRIMARY|FOREIGN|CACHE|PARTITION|HOT)_?KEYS?"),
    # The part of a table of data: `DATASET_KEY=imagenet1k/train`.
    (FIELD, rf"{_NO_OTHER_FIELD}(.*_)?(DATASET|SPLIT|FEATURE|LABEL|COLUMN|METRIC|MONITOR|CAPTION)_?KEYS?"),
    # Of a tool that makes projects: `COOKIE_CUTTER_TEMPLATE=gh:org/template`.
    ("", r"(?!.*(SECRET|KEY|PASS|AUTH|API|CRED|BEARER|JWT|TOKEN|PWD))COOKIE_?CUTTER(_.*)?"),
    (
        "named",
        r"HF_TOKEN|HUGGING_?FACE_HUB_TOKEN|WANDB_(API_)?KEY|AWS_(SECRET_ACCESS_KEY|SESSION_TOKE"
        r"N|ACCESS_KEY_ID)"
        r"|AZURE_.*|GOOGLE_APPLICATION_CREDENTIALS.*|GITHUB_TOKEN|GH_TOKEN|OPENAI_API_KEY|ANTHROPIC_API_KEY"
        r"|NGC_API_KEY|NGC_CLI_API_KEY|MLFLOW_TRACKING_(PASSWORD|TOKEN)|COMET_API_KEY|NEPTUNE_API_TOKEN"
        r"|KRB5CCNAME|MYSQL_PWD|PGPASSWORD|REDISCLI_AUTH|NETRC|DOCKER_AUTH_CONFIG|SSHPASS",
    ),
    ("token", r".*(TOKEN|BEARER|JWT).*"),
    (PATTERN, r"(.*_)?PAT"),
    (
        "password",
        r".*(PASSW(OR)?D|PASSPHRASE|PASSCODE).*|(.*_)?(PASS|PW|PSWD|PWORD|PASSWORT)|.*_(PWD|PSW)"
        r"|.*(BINDPW|USERPWD|ROOTPW)"
        # Not `COMPASS`, `BYPASS` and `LOWPASS`.
        r"|(.*_)?(ADMIN|APP|BACKUP|CERT|DATABASE|DB|FTP|IMAP|JUPYTER|KEY|KEYSTORE|LDAP|LOGIN|MAIL|MONGO|MQ|MYSQL|PG"
        r"|POSTGRES|RABBIT|RDP|REDIS|ROOT|SFTP|SMTP|SQL|SSH|SSL|STORE|SUDO|SVN|TLS|USER|VNC|VPN|WEB|WIFI|ZIP)(PASS|PW)",
    ),
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


# The first alternative that fits the whole name wins. One pattern is compiled four times as fast as its parts; those of
# `VALUES` are compiled where a mark was found, which is seldom.
_NAMES = re.compile("|".join(f"(?P<r{n}>{pattern})" for n, (_, pattern) in enumerate(NAMES)), re.IGNORECASE)
# A number or a switch, with what may enclose it in JSON.
AMOUNT = re.compile(
    r"(?i)[\"']?([+-]?\d[\d_]{0,19}(\.\d{1,9})?(e[+-]?\d{1,3})?[kmgbt]?|yes|no|true|false|on|off|"
    r"none|null)[\"'\])}]{0,9}"
)
# What servers of models that ask for no key are given for one.
_NO_SECRET = re.compile("EMPTY|empty")
# `NGPU_PASS=2` counts passes, and has the name of a password.
_PASSES = re.compile(r"(?i).*_PASS")
# A special token, or a list of these, of short words and of numbers: `<s>`, `[MASK]`, `<|endoftext|>`, `\n\n`, `1,2`.
# Each item is read in one way, as an atomic group: a blank can stand behind it or before the next one.
_SPECIAL = re.compile(
    r"(?:(?=((?:[\"'( ]|\[(?![A-Za-z_]{1,20}\])){0,3}"
    r"(?:</?[\w|/ -]{1,40}>|\[[A-Za-z_]{1,20}\]|<\|[^|<>\s]{1,40}\|>|(?:\\n){1,4}"
    r"|(?<![\w#▁])(?:\d{1,9}|[A-Za-z_#▁]{1,15})(?![\w#▁]))[\"'\]),; ]{0,4}"
    r"))\1){1,20}"
)
# Words, numbers, and words that end in a number, with what may enclose them in JSON: `created_at`, `v3-linux-py311`.
IDENTIFIER = re.compile(
    r"[\"'\[({]{0,3}([A-Za-z]{1,20}\d{0,6}|\d{1,8})(([-_.:/]|[\"']?,[ ]?[\"']?)([A-Za-z]{1,20}\d{0"
    r",6}|\d{1,8})){0,9}"
    r"[\"'\])},;]{0,9}|[\[({]+"
)
# A count behind a word: the `k` of `imagenet1k`.
_THOUSANDS = re.compile(r"(?<=[A-Za-z]{3}\d)[kmb](?![A-Za-z0-9])|(?<=[A-Za-z]{3}\d\d)[kmb](?![A-Za-z0-9])")


def rule_of_name(name: str) -> str:
    """Return the rule for a name, or an empty text if the name is never that of a secret."""
    return _judged_name(name) if len(name) <= 128 else _judge_name(name)


def _judge_name(name: str) -> str:
    match = _NAMES.fullmatch(name)
    return NAMES[int(str(match.lastgroup)[1:])][0] if match else ""


# A value names the same things again and again, and is judged once more when it is shown.
_judged_name = functools.lru_cache(maxsize=4096)(_judge_name)


def secret_name(name: str, value: str = "") -> str | None:
    """Return the rule that makes a named value a secret, or None.

    Args:
        name: of a variable, an option or a parameter.
        value: its value, or an empty text if it is unknown. `NEW_TOKEN` with a number is a count, and `SORT_KEY`
            with a short identifier is a name.
    """
    rule = rule_of_name(name)
    if rule and _NO_SECRET.fullmatch(value):
        return None
    if rule == "password" and _PASSES.fullmatch(name) and re.fullmatch(r"\d{1,2}", value):
        return None
    if rule == COUNT:
        return None if AMOUNT.fullmatch(value) else "token"
    if rule == VOCABULARY:
        amount = len(value) <= 12 and AMOUNT.fullmatch(value)
        return None if amount or _SPECIAL.fullmatch(value) or not value else "token"
    if rule == FIELD:
        return None if IDENTIFIER.fullmatch(_THOUSANDS.sub("", value)) else "key"
    if rule == PATTERN:
        harmless = len(value) <= 12 and AMOUNT.fullmatch(value)
        return None if (harmless or _is_pattern(value)) and value != GONE else "token"
    return rule or None


def _is_pattern(value: str) -> bool:
    """Return whether `value` is a pattern, and its words are words: a random text may have a `*`, too."""
    words = pattern_words(value)
    return words is not None and all(is_word(word) for word in words)


def entropy(text: str) -> float:
    """Return the Shannon entropy of `text` in bits for each character."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def looks_generated(text: str) -> bool:
    """Return whether `text` looks like a generated key: letters and digits mixed, and no placeholder."""
    if re.search(r"(?i:example|your|change.?me|dummy|placeholder)|xxx|XXX|\*\*\*|[${}<>%]", text):
        return False
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text)) and entropy(text) >= 3.5


def is_real_login(text: str) -> bool:
    """Return whether `user:password` of an address is a login, and not a sample or a template."""
    password = decode_percent(text).partition(":")[2]
    sample = re.fullmatch(
        r"(?i)(my)?_?(pass(word|wd)?|pwd|secret|token|x+|\*+|user(name)?|foo|bar|changeme|example|port|\d{1,5})",
        password,
    )
    # A template before a slash is a port, and the rest a path.
    return not (sample or is_template(re.split("[/?#,;]", password, maxsplit=1)[0]) or is_template(password))


def token_login(text: str) -> bool:
    """Return whether the user of an address is a token, as in `TOKEN:x-oauth-basic`."""
    user = decode_percent(text.partition(":")[0])
    return looks_generated(user) or bool(re.fullmatch("[0-9a-f]{32,64}", user))


def decode_percent(text: str) -> str:
    """Replace each percent-encoded character by `-`: its percent sign is not one of a template."""
    return re.sub("%[0-9A-Fa-f]{2}", "-", text)


# What is written where a token would stand: letters and digits in their order, and one part again and again.
_COUNTING = re.compile(
    r"abcdefghijklm|(?i:ghijklmnopqrs)|(?:1234567890){2}|([0-9])\1{14}|([0-9][0-9A-Za-z]{2,3})\2{4}"
)


def is_plausible_token(text: str) -> bool:
    """Return whether a token with a vendor's prefix may be real, and not a sample of documentation."""
    return (
        not text.endswith("EXAMPLE")
        and len(set(text)) >= 8
        and not re.search(r"(?i)x{6}|your[_-]|example", text)
        and not _COUNTING.search(text[:200])
    )


def decode_base64(text: str) -> str | None:
    """Return the text that base64 encodes, or None for another text, and for bytes that are no text."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        content = binascii.a2b_base64(plain + "=" * (-len(plain) % 4)).decode("ascii")
    except ValueError:
        return None
    return content if content and all(c.isprintable() or c in "\r\n\t" for c in content) else None


def is_login(text: str) -> bool:
    """Return whether a text in base64 is `user:password`."""
    user, colon, password = (decode_base64(text) or "").partition(":")
    return bool(user and colon and password) and is_real_login(f"{user}:{password}")


def is_private_key(text: str) -> bool:
    """Return whether a text in base64 is a private key in PEM, and not a certificate."""
    return "PRIVATE KEY" in (decode_base64(text[:88]) or "")


# No word has so many consonants in a row.
_UNSPOKEN = re.compile("(?i)[bcdfghjklmnpqrstvwxyz]{5}")
_WORD_PARTS = re.compile(r"[a-z]{0,20}|[A-Z]{1,20}|(?:[A-Z]{0,3}[a-z]{2,20}){1,4}")


def is_word(text: str) -> bool:
    """Return whether `text` consists of words and numbers: `created_at`, `v3-linux-py311`, `MyTokenizer2`."""
    parts = re.split(r"[^A-Za-z]{1,40}", text)
    spoken = not _UNSPOKEN.search(text) and all(_WORD_PARTS.fullmatch(part) for part in parts)
    return spoken and bool(IDENTIFIER.fullmatch(text))


def looks_random(text: str) -> bool:
    """Return whether `text` mixes cases and digits as a key does, and is not base64, a path or a name."""
    if not (re.search(r"\d", text) and re.search(r"[a-z]", text) and re.search(r"[A-Z]", text)):
        return False
    words = re.search(r"(?:[A-Z]?[a-z]{3,12}){3}|(?:[^/]{1,9}/){5}", text)
    spoken = words and not _UNSPOKEN.search(words[0])
    return entropy(text) >= 4.3 and not spoken and decode_base64(text) is None


def is_path_token(text: str) -> bool:
    """Return whether a directory of an index is a token, and not a name, a version, a digest or a UUID."""
    kinds = all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", r"\d"))
    turns = len(re.findall("[a-z]{1,200}|[A-Z]{1,200}|[0-9]{1,200}", text))
    drawn = kinds and re.fullmatch(r"[A-Za-z0-9_-]{16,200}", text) and entropy(text) >= 3.2
    return bool(drawn) and turns >= 0.4 * len(text) and not is_word(text)


# What a password of a person is called, as the last word of a variable.
_STRONG_NAME = re.compile("(?:[A-Z0-9_]{0,60}_)?[A-Z0-9]{0,20}(?:PASSWORD|PASSWORT|PASSWD|PSWD|PWORD|PWD)")
_SAMPLE_WORD = re.compile(
    r"(?i)(?:my|the|test|some|db|new)?(?:pass(?:word|wd)?|pwd|secret|token|key|test|admin|root|user|demo|foo|bar|abc"
    r"|qwerty|guest|default|postgres|mysql|redis|mongo|django|airflow)\d{0,9}"
)


def is_password_name(name: str) -> bool:
    """Return whether a name can only be that of a password: `POSTGRES_PASSWORD`."""
    return len(name) <= 128 and _STRONG_NAME.fullmatch(name) is not None


def is_identifier_like(text: str) -> bool:
    """Return whether words and numbers are an identifier or a sample, even as the value of a password."""
    return (
        "_" in text
        or bool(_SAMPLE_WORD.fullmatch(text))
        or (text.islower() and not re.fullmatch(r"[a-z]+\d+", text))
    )


def _is_drawn(text: str) -> bool:
    """Return whether the text around a `%s` is random: then `%s` is a part of a password."""
    kinds = all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", r"\d"))
    return kinds and len(text) >= 12 and entropy(text) >= 3 and not is_word(text)


def looks_chosen(text: str, *, literal: bool = False, password: bool = False) -> bool:
    """Return whether the value of a secret name may be a password, and not a template, path, type or word.

    Args:
        text: the value.
        literal: True if a shell leaves `$name` as it is.
        password: True if the name is that of a password: then a word with a number counts, as people invent them.
    """
    if is_stand_in(text, literal=literal) or AMOUNT.fullmatch(text):
        return False
    if is_word(text) and not (password and not is_identifier_like(text)):
        return False
    if len(text) < 100 and re.match(r"[.~]{0,2}/[^+=]{0,100}$", text):
        return False
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://|sha\d|GPU-|[A-Za-z]:\\", text):
        return False
    if re.search(r"(?i)example|your|change.?me|dummy|placeholder|x{4}|\*\*\*|\.\.\.|[<>]", text):
        return False
    if re.search(r"%s\b", text) and not _is_drawn(text.replace("%s", "")):
        return False
    if _COUNTING.search(text[:200]) or "123456789012345678" in text:
        return False
    strange = (
        re.search(r"[!@#%^&*+?~=]", text) and re.search("[A-Za-z]", text) and not re.search(r"[.,;:]$", text)
    )
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text) and (strange or entropy(text) >= 2.8))
