"""What secrets look like, as data: one table, by which they are found and cut out."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from reprobuild.infra.secrets.commands import COMMANDS, JOINED
from reprobuild.infra.secrets.pairs import PAIRS
from reprobuild.infra.secrets.templates import is_single_quoted, stands_in
from reprobuild.infra.secrets.tokens import TOKENS
from reprobuild.infra.secrets.words import (
    decoded,
    entropy,
    is_login,
    is_password_name,
    is_private_key,
    is_word,
    looks_chosen,
    looks_generated,
    looks_random,
    plain,
    plausible,
    real_login,
    secret_name,
    token_login,
)


class SecretRule(NamedTuple):
    """One kind of secret.

    A line is searched only if it holds one of `marks`, in any case. Group `secret`, else group 1, of `pattern` is the
    secret itself; `real` may still call it a sample, and is given what the groups `name` and `before` hold where there
    are such: the name of the value, and the text before it with its quotes. A match may begin `lines` lines before the
    one with the mark, which has the secret. With `run` the marks are looked for in long words alone; no marks at all
    stand for any such word. The line of a source must hold `near`, too, which is quicker to find than `pattern`. With
    `option` it has ` -`, too, and no rule without `option` has such a mark.
    """

    name: str
    marks: tuple[str, ...]
    pattern: str
    real: Callable[..., bool] = lambda text: True
    run: bool = False
    near: str = ""
    option: bool = False
    lines: int = 0


# Each value that `looks_chosen` passes has a digit.
NUMBER = r"\d"
# Behind a letter or digit there is no token, but behind `\n` of JSON and `%3D` of an address.
START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_NAMED_KEY = (
    r"(?:api|app|secret|access|auth|private|encryption|signing|account|master|service|clien"
    r"t|db|storage|shared|admin|deploy)"
    r"[_-]?key"
)
# What documents have for a password.
_SAMPLE_PASSWORD = re.compile(r"(?i)(?:my|the|test|some)?_?(?:pass(?:word|wd)?|pwd|secret|token|test|key)>?")
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Za-z]{4}){3}-[0-9A-Za-z]{12}"
_PASSWORD = r"pass(?:w(?:or)?d|wort|phrase|code)?|pwd"


def _names_secret(value: str, name: str, before: str = "'") -> bool:
    """Whether a name of a secret is given a value that may be one, without quotes or in single ones."""
    named = secret_name(name.replace("-", "_").replace(".", "_"), value) is not None
    return named and looks_chosen(value, literal=is_single_quoted(before), password=is_password_name(name))


def _names_generated(value: str, name: str) -> bool:
    drawn = looks_generated(value) or (is_password_name(name) and is_word(value))
    return len(value) >= 12 and drawn and _names_secret(value, name)


def _quoted(value: str, before: str = "", *, password: bool = False) -> bool:
    value = plain(value)
    drawn = entropy(value) >= 3 if len(value) >= 12 else _mixed(value)
    # `="` is of a shell, which replaces `$name`; ` = "` is of a program.
    shell = before in ("", '="', '=\\"')
    return drawn and looks_chosen(value, literal=not shell, password=password)


def _names_quoted(value: str, name: str) -> bool:
    """Whether a name of a secret is given a value in quotes, or in a place of its own, that may be one."""
    named = secret_name(name.replace("-", "_").replace(".", "_"), value) is not None
    return named and _quoted(value, password=is_password_name(name))


def _names_format(value: str, name: str) -> bool:
    """Whether a name of a secret is given a text with places to fill in, of which another part may be one."""
    return any(
        len(part) >= 12 and looks_generated(part) and _names_quoted(part, name)
        for part in re.split(r"\{[^{}]{0,80}\}", value)
    )


def _mixed(value: str) -> bool:
    """Whether a short value has characters of three kinds, or letters between numbers."""
    kinds = ("[a-z]", "[A-Z]", r"\d", r"[^A-Za-z0-9_.:/\s-]")
    drawn = (
        re.fullmatch(r"[A-Za-z]{0,9}\d{1,9}[A-Za-z]{1,9}\d[A-Za-z0-9]{0,9}", value) and entropy(value) >= 3
    )
    return bool(drawn) or sum(bool(re.search(kind, value)) for kind in kinds) >= 3


def _given(value: str, before: str = "") -> bool:
    return not stands_in(value, literal=is_single_quoted(before))


def _given_login(value: str, before: str = "") -> bool:
    return _given(value, before) and not _SAMPLE_PASSWORD.fullmatch(value)


def _chosen_login(value: str, before: str = "") -> bool:
    return looks_chosen(value, literal=is_single_quoted(before))


def _machine_login(value: str, before: str) -> bool:
    """Whether a file of logins has a password, which no shell replaces; without a login it must look like one."""
    if "login" not in before or before.startswith("default"):
        return looks_chosen(value, literal=True)
    sample = "\n" in before and _SAMPLE_PASSWORD.fullmatch(value)
    return not sample and not stands_in(value, literal=True)


def _generated(value: str, name: str) -> bool:
    mixed = len(re.findall(r"\d{1,99}", value)) >= 2 and ("-" not in value or re.fullmatch(_UUID, value))
    return bool(mixed and _names_secret(value, name) and _quoted(value))


def _header_value(value: str, name: str) -> bool:
    """Whether a header of curl is called like a secret, and has a value that may be one."""
    word = name.replace("-", "_")
    named = secret_name(word, value) or word.lower() == "authorization"
    return bool(named and looks_chosen(value) and _given(value))


# A quote ends a text of a program there, and a bracket an element of a page.
_ENDS = re.compile(r"[\"'][,;:+)\]}.%=>]|[,:+(\[{=%][\"']|<[/a-zA-Z]+>|^[\"'<]|>$")


def _quoted_login(value: str) -> bool:
    """Whether a login of an address holds quotes or angle brackets itself, and no text or element ends at them."""
    password = value.partition(":")[2]
    ends = _ENDS.search(password) or re.match(r"\d{0,5}['\"<>]", password)
    return not ends and real_login(value) and looks_chosen(re.sub("[<>]", "-", password), literal=True)


def _encoded_login(value: str) -> bool:
    """Whether a login whose colon is percent-encoded is one."""
    return real_login(re.sub("%(?:25){0,9}3[Aa]", ":", value, count=1))


def _header(value: str) -> bool:
    return is_login(value) or (len(value) >= 16 and looks_generated(value))


def _assignment(value: str) -> bool:
    """Whether a text in base64 says what is a secret itself: `PASSWORD=...`."""
    text = decoded(value)
    return text is not None and any(
        rule.real is not _assignment and marked(rule, text.lower()) and secrets_of(rule, text)
        for rule in VALUES
    )


def marked(rule: SecretRule, lowered: str) -> bool:
    """Whether a text, in lower case, is to be searched for a kind of secret."""
    return not rule.marks or any(mark in lowered for mark in rule.marks)


def secrets_of(rule: SecretRule, text: str) -> list[tuple[int, int]]:
    """Return start and end of each secret of a kind in a text that holds one of its marks."""
    return [span for match in re.finditer(rule.pattern, text) if (span := judged(rule, match)) is not None]


def judged(rule: SecretRule, match: re.Match[str] | re.Match[bytes]) -> tuple[int, int] | None:
    """Return where the secret of a match stands, or None if it is a sample or a stand-in."""
    group: str | int = "secret" if "secret" in match.re.groupindex else 1
    words = [match[group], *(match[extra] for extra in ("name", "before") if extra in match.re.groupindex)]
    plain = [word.decode("utf-8", "replace") if isinstance(word, bytes) else word or "" for word in words]
    return match.span(group) if rule.real(*plain) else None


# Every repeat is bounded, so that no input makes the search slow.
VALUES: tuple[SecretRule, ...] = (
    *(SecretRule(name, marks, f"{START}({pattern})", plausible, run=True) for name, marks, pattern in TOKENS),
    SecretRule(
        "aws-secret-key",
        ("secret",),
        r"(?i:aws)[\w.-]{0,20}(?i:secret)[\w.-]{0,20}[\"'\]]{0,2}[ \t]{0,5}[=:][ \t]{0,5}[\"']?"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        plausible,
    ),
    SecretRule(  # a key of AWS under any name: 40 characters, which no digest has in base64
        "aws-secret-value",
        (),
        r"(?<![A-Za-z0-9/+_.~-])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+_.=-])",
        looks_random,
        run=True,
    ),
    SecretRule(
        "private-key",
        ("private key",),
        r"(-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----)[\s\S]){0,9000}-----END [A-Z0-9 ]{0,40}-----|[A-Za-z0-9+/=\s\\]{0,9000}))",
    ),
    SecretRule(  # the body of a key of OpenSSH, with or without its header
        "openssh-key",
        ("b3blbnnzac1rzxktdje",),
        r"(b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/]{20,20000}(?:(?:\s|\\n){1,20}[A-Za-z0-9+/]{20,80}={0,2}){0,999})",
        plausible,
        run=True,
    ),
    SecretRule(
        "encoded-key",
        ("ls0tls1crudjti",),
        r"(LS0tLS1CRUdJTi[A-Za-z0-9+/]{60,20000}={0,2})",
        is_private_key,
        run=True,
    ),
    # `passw`, `secret`, `token`, `private`, these in capitals, `_KEY=`, `PASS=`, `"auth` and `-data:` in base64, at
    # each place of three
    SecretRule(
        "encoded",
        (
            "0b2tlb",
            "1kyxrho",
            "9lrvk9",
            "bbu1m9",
            "bbu1nx",
            "bhc3n3",
            "bssvzbve",
            "byaxzhdg",
            "c2vjcmv0",
            "cgfzc3",
            "chjpdmf0z",
            "dg9rzw",
            "fs0vzp",
            "imf1dg",
            "iyxv0a",
            "jhdxro",
            "lwrhdge6",
            "nfq1jfv",
            "nly3jld",
            "qqvntp",
            "qqvntv",
            "quklwqvrf",
            "rps0vo",
            "rva2vu",
            "trunsrv",
            "tzgf0yt",
            "u0vdukvu",
            "ueftu1",
            "ueftuz",
            "ufjjvkfur",
            "ut0tft",
            "ve9lru",
            "wcml2yxrl",
            "wyxnzd",
            "x0tfwt",
            "zzwnyzx",
        ),
        r"(?:(?<![A-Za-z0-9+/_\\-])|(?<=\\[nrt]))([A-Za-z0-9+/_-]{20,24000}={0,2})(?![A-Za-z0-9+/_-])",
        _assignment,
        run=True,
    ),
    SecretRule(
        "azure-key",
        ("accountkey=", "sharedaccesskey="),
        r"(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,100}={0,2})",
    ),
    SecretRule(
        "azure-sas",
        ("sig=",),
        r"(?:[?&;\"' \t]|amp;)sig=([A-Za-z0-9%+/_-]{40,120}={0,2})",
        _quoted,
        run=True,
    ),
    SecretRule(
        "wandb",
        ("wandb",),
        r"(?i:wandb)(?:[\w.()\[\]\"' ,=:]{0,60}(?i:key)[\"'\]]{0,2}[ \t]{0,4}[=:,][ \t]{0,4}\\?[\"']?"
        r"|[ \t]{1,9}login[ \t]{1,9}(?:--[a-z]{1,20}[ \t]{1,9}){0,3})([0-9a-f]{40})(?![0-9a-f])",
    ),
    SecretRule(  # a slash in the password, but for a port and a path with `r.git@commit`
        "url-credential",
        ("@",),
        # No address has control characters; compiled code has them between its strings.
        r"://([^\s\x00-\x1f/:@'\"<>]{0,100}:(?:[^\s\x00-\x1f/@'\"<>]{1,300}"
        r"|(?!(?:\d{0,5}|(?i:port))[/?#,;])(?:(?!//)[^\s\x00-\x1f@'\"<>]){1,300}(?<!\.git)(?<!/)))@",
        real_login,
        near="://",
    ),
    SecretRule(  # with a quote or an angle bracket in the password, which else end an address
        "url-quoted",
        ("@",),
        r"://([^\s\x00-\x1f/:@'\"<>]{0,100}:[^\s\x00-\x1f/@'\"<>]{0,100}['\"<>](?:[^\s\x00-\x1f/@]{0,200}))@(?=[\w\[])",
        _quoted_login,
        near="://[^/@]{0,300}['\"<>][^/@]{0,200}@",
    ),
    SecretRule(  # `@` and `:` are percent-encoded
        "url-encoded",
        ("%40", "2540"),
        r"://([^\s/@'\"<>?#%]{0,100}%(?:25){0,9}3[Aa][^\s/@'\"<>?#]{1,300}?)%(?:25){0,9}40",
        _encoded_login,
        run=True,
        near="://",
    ),
    SecretRule(  # one slash, or three
        "url-slash",
        ("@",),
        r"(?i:https?|ftps?|ssh):(?:/|/{3,9})(?!/)([^\s/:@'\"<>]{0,100}:[^\s/@'\"<>]{1,300})@",
        real_login,
        near="[pPsShH]:/(?:[^/]|//)",
    ),
    SecretRule(
        "url-token",
        ("@",),
        r"(?i:https?)://([A-Za-z0-9_~+%-]{16,100}(?::[^\s/@'\"<>]{0,300})?)@(?!sha\d)",
        token_login,
        near="://",
    ),
    SecretRule(
        "url-parameter",
        ("token=", "key=", "signature="),
        r"(?i)[?&](?:amp;)?(?:[a-z_-]{0,20}token|[a-z_-]{0,20}key|[a-z_-]{0,20}signature)=([A-Z"
        r"a-z0-9%._~+/-]{20,400}={0,2})",
        _quoted,
        run=True,
    ),
    SecretRule(  # JDBC and ODBC
        "connection",
        ("password=", "pwd=", "passwd="),
        r"(?i)[?&;][ \t]?(?:password|passwd|pwd)=([^\s&;\"'<>\\]{4,200})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(
        "netrc",
        ("password",),
        r"(?:(?<![\w.-])|(?<=\\[nrt]))(?P<before>(?:machine[ \t]{1,9}\S{1,253}|default)"
        r"(?:[ \t\r\n]{1,9}(?:login|account)[ \t]{1,9}\S{1,200}){0,2})[ \t\r\n]{1,9}password[ \t]{1,9}"
        r"(?P<secret>\S{1,200})",
        _machine_login,
        lines=3,
    ),
    SecretRule(
        "docker-auth",
        ('"auth', "'auth", '"identitytoken'),
        r"\\?[\"'](?:auth|identitytoken)\\?[\"'][ \t]{0,4}:\s{0,40}\\?[\"']([A-Za-z0-9+/._-]{8,2000}={0"
        r",2})\\?[\"']",
        _header,
    ),
    SecretRule(
        "npm-auth",
        ("_auth", "_password="),
        r"(?<![A-Za-z0-9])_(?:authToken|auth|password)[ \t]{0,4}=[ \t]{0,4}[\"']?([A-Za-z0-9+/=_.-]{8,1000})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(
        "kaggle-json",
        ("key",),
        r"\\?[\"']username\\?[\"']\s{0,9}:\s{0,9}\\?[\"'][^\"'\\]{1,100}\\?[\"']\s{0,9},\s{0,9}\\?[\"']key\\?[\"'"
        r"]"
        r"\s{0,9}:\s{0,9}\\?[\"']([0-9a-f]{32})(?![0-9a-f])",
        near=NUMBER,
    ),
    SecretRule(
        "header",
        ("authorization", "bearer"),
        r"(?i)(?:authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}(?:[bfru]{0,2}[\"'])?"
        r"(?:bearer|basic|token|api-?(?:token|key))|(?<![a-z0-9_])bearer)"
        r"(?:[ \t]|%20){1,4}([A-Za-z0-9._~+/=-]{12,4000})",
        _header,
    ),
    SecretRule(
        "header-key",
        ("api-key", "x-auth", "-token", "-art-api"),
        r"(?i)(?:(?<![a-z0-9-])|(?<=\\[nrt]))(?:x-(?:api|auth|vault|goog-api|access)[a-z-]{0,20}"
        r"|private-token|job-token|api-key|x-jfrog-art-api)[\"']?"
        r"[ \t]{0,4}:[ \t]{0,4}[\"']?([^\s\"',;<>(){}]{8,400})",
        looks_chosen,
        near=NUMBER,
    ),
    SecretRule(
        "curl",
        ("curl",),
        rf"curl(?:[ \t]{{1,4}}[^\s]{{1,60}}){{0,6}}?[ \t]{{1,4}}(?:{JOINED}[uU]|--user|--proxy-user)[ \t=]{{0,3}}"
        r"(?P<before>[\"']?[^\s:\"'$]{0,60}:(?!//)[\"']?)(?P<secret>[^\s\"']{4,200})",
        _given_login,
    ),
    SecretRule(  # in a line of its own
        "curl-user",
        (" --user",),
        r"(?<![^\n])[ \t]{1,40}--user[ \t=]{1,3}(?P<before>[\"']?[^\s:\"'$]{0,60}:(?!//))"
        r"(?P<secret>[^\s\"']{8,200})",
        _chosen_login,
        near=NUMBER,
    ),
    SecretRule(  # the user is the token
        "curl-token",
        ("curl",),
        rf"curl(?:[ \t]{{1,4}}[^\s]{{1,60}}){{0,6}}?[ \t]{{1,4}}(?:{JOINED}u|--user)[ \t=]{{1,3}}"
        r"[\"']?([^\s:\"'$]{8,100}):(?![^\s\"'\\])",
        _chosen_login,
        near=NUMBER,
    ),
    SecretRule(
        "curl-header",
        ("key", "token", "secret", "pass", "auth", "cookie"),
        r"(?:-H|--header)[ \t=]{1,4}[\"'](?P<name>[A-Za-z][A-Za-z0-9-]{2,40}):[ \t]{0,4}"
        r"(?:[A-Za-z][A-Za-z-]{2,20}[ \t]{1,4})?(?P<secret>[^\s\"'\\$]{10,4000})",
        _header_value,
        near=r"(?:-H|--header)[ \t=]{1,4}[\"']",
    ),
    SecretRule(  # of Bundler, for the server that the name spells
        "bundler",
        ("bundle_",),
        r"BUNDLE_[A-Z0-9_]{1,80}__[A-Z0-9_]{1,60}[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"
        r"([A-Za-z0-9_-]{4,100}:[^\s\"';&:/]{4,100})",
        real_login,
        run=True,
    ),
    SecretRule(
        "mysql",
        ("mysql", "mariadb"),
        r"(?:mysql(?:dump|admin|import)?|mariadb(?:-[a-z]{1,9})?)(?:[ \t]{1,4}[^\s]{1,60}){0,6}?["
        r" \t]{1,4}-p(?P<before>[\"']?)(?P<secret>[^\s\"']{4,100})",
        _chosen_login,
    ),
    *(
        SecretRule(name, marks, pattern, _chosen_login, near=near, option=option)
        for name, marks, pattern, near, option in COMMANDS
    ),
    SecretRule(
        "sshpass",
        ("sshpass",),
        r"sshpass[ \t]{1,9}(?:-v[ \t]{1,9})?-p[ \t]{0,9}(?P<before>[\"']?)(?P<secret>[^\s\"']{4,200})",
        _given,
    ),
    SecretRule(
        "option",
        ("key", "token", "secret", "pass"),
        r"(?i)--(?:password|passwd|pass|passphrase|token|api[_-]?key|secret(?:[_-]key)?|auth[_-"
        r"]token|access[_-](?:token|key))"
        r"(?:[ \t]{1,4}|=)(?P<before>[\"']?)(?P<secret>[^\s\"',;]{8,400})",
        _chosen_login,
        near=r"--(?i:pass|token|api|secret|auth|access)",
    ),
    SecretRule(
        "assigned",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?i)(?<!public)(?<!public_)(?<!csrf-)(?<!csrf_)"
        rf"(?:{_NAMED_KEY}|token|secret|{_PASSWORD})\\?[\"'\]]{{0,2}}"
        r"(?P<before>[ \t]{0,4}(?:=>|[:?]{0,3}=|:)[ \t]{0,4}[bfru]{0,2}\\?[\"'])(?P<secret>[^\s\"'\\]{8,200})\\?[\"']",
        _quoted,
        near=r"[=:>][ \t]{0,4}[bfru]{0,2}\\?[\"'](?=[^\s\"'\\]{0,199}\d)[^\s\"'\\]{8}",
    ),
    *(SecretRule(name, marks, pattern, _names_quoted, near=near) for name, marks, pattern, near in PAIRS),
    SecretRule(  # a text of Python with places to fill in; the other part is the secret
        "assigned-format",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_]{0,60})[\"'\]]{0,2}[ \t]{0,4}[=:][ \t]{0,4}"
        r"[rR]?[fF][rR]?\\?[\"'](?P<secret>[^\s\"'\\]{0,100}\{[^\s\"'\\]{0,100}\}[^\s\"'\\]{0,100})\\?[\"']",
        _names_format,
        near=r"[fF][rR]?\\?[\"'][^\s\"'\\]{0,100}\{",
    ),
    SecretRule(  # what a shell takes where a variable is not set
        "default-variable",
        ("key", "token", "secret", "pass", "pwd"),
        r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]{0,60}):?[-=](?P<before>[\"']?)(?P<secret>[^\s\"'`${}]{8,200})[\"']?\}",
        _names_secret,
        near=r"\$\{[A-Za-z_]\w{0,60}:?[-=]",
    ),
    SecretRule(  # user and password, as requests and others take them
        "auth-pair",
        ("auth",),
        r"(?:(?<![A-Za-z0-9])auth[\"']?[ \t]{0,4}[=:][ \t]{0,4}[\[(]|(?i:Auth)\()"
        r"[ \t]{0,4}\\?[\"'][^\s\"'\\]{1,100}\\?[\"']"
        r"[ \t]{0,4},[ \t]{0,4}\\?[\"'](?P<secret>[^\s\"'\\]{8,200})\\?[\"'][ \t]{0,4},?[ \t]{0,4}[\])]",
        _quoted,
        near=r"[\[(][ \t]{0,4}\\?[\"'][^\s\"'\\]{1,100}\\?[\"'][ \t]{0,4},",
    ),
    SecretRule(  # in a Dockerfile, a notebook, csh, fish and Windows
        "set-variable",
        ("key", "token", "secret", "pass", "pwd", "_pat "),
        r"(?<![\w.-])(?:ENV|env|setenv|setx|set[ \t]{1,4}-[gUx]{1,3})[ \t]{1,4}(?P<name>[A-Z][A-Z0-9_]{1,60})[ \t]{1,4}"
        r"(?P<before>[\"']?)(?P<secret>[^\s\"'`;|&<>()\\,]{8,400})",
        _names_secret,
        near=r"(?:ENV|env|setenv|setx|-[gUx]{1,3})[ \t]{1,4}[A-Z]",
    ),
    SecretRule(  # a list of variables, as Kubernetes and ECS have it
        "named-value",
        ("value:", 'value":', "value':", 'value\\":'),
        r"name\\?[\"']?:[ \t]{0,4}\\?[\"']?(?P<name>[A-Za-z][A-Za-z0-9_.-]{1,60})\\?[\"']?,?(?:\s|\\n){1,40}"
        r"\\?[\"']?value\\?[\"']?:[ \t]{0,4}\\?[\"']?(?P<secret>[^\s\"'\\,{}]{8,400})",
        _names_quoted,
        near=r"value\\?[\"']?:[ \t]{0,4}\\?[\"']?(?=[^\s\"'\\,{}]{0,399}\d)[^\s\"'\\,{}]{8}",
        lines=1,
    ),
    SecretRule(  # the whole address is percent-encoded
        "url-encoded-whole",
        ("%40", "2540"),
        r"%(?:25){0,3}3[Aa](?:%(?:25){0,3}2[Ff]){2}([^\s/@'\"<>?#%&]{0,100}%(?:25){0,3}3[Aa]"
        r"(?:(?!%(?:25){0,3}2[Ff]%)[^\s/@'\"<>?#&]){1,200}?)%(?:25){0,3}40",
        _encoded_login,
        run=True,
        near="2[Ff]%(?:25){0,3}2[Ff]",
    ),
    SecretRule(  # any name of a secret, with what is surely generated
        "assigned-text",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z][A-Za-z0-9_-]{0,60})[\"'\]]{0,2}[ \t]{0,4}(?:=>|[:?]{0,3}=|:|,)[ \t]{0,4}"
        r"[\"'](?P<secret>[A-Za-z0-9+/_=.-]{16,200})[\"']",
        _generated,
        near=r"[=:>,][ \t]{0,4}[\"'][A-Za-z0-9+/_=.-]{16}",
    ),
    SecretRule(  # in a shell, a file of variables, a Dockerfile
        "assigned-variable",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Z][A-Z0-9_]{0,60})=(?P<before>[\"']?)(?P<secret>[^\s\"'`;|&<>()\\,]{8,400})",
        _names_secret,
        near=NUMBER,
    ),
    SecretRule(  # in YAML
        "assigned-entry",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![^\n])[ \t]{0,40}(?:-[ \t]{1,4})?[\"']?(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,60})[\"']?:[ \t]{1,9}"
        r"(?P<secret>[^\s\"'`()\[\]{}<>,;]{8,400})(?![^ \t\r\n])(?![ \t]{1,9}[^#\s])",
        _names_secret,
        near=NUMBER,
    ),
    # Names that have none of the five marks, in any place: each other mark is one more passage through a text, so they
    # have a rule of their own.
    SecretRule(
        "short-name",
        ("_psw", "_pword", "_pat=", "_pat:"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Z][A-Z0-9_]{0,60}_PAT|[A-Za-z][A-Za-z0-9_]{0,60}_(?i:pswd?|pword))"
        r"(?P<before>\\?[\"'\]]{0,2}[ \t]{0,4}(?::?[=:,-]|[ \t])[ \t]{0,4}\\?[\"']?)"
        r"(?P<secret>[^\s\"'`;|&<>(){}\\,]{8,400})",
        _names_secret,
        near=NUMBER,
    ),
    SecretRule(  # in INI, and in TOML without its quotes
        "assigned-setting",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![^\n])[ \t]{0,40}(?:export[ \t]{1,4}|set[ \t]{1,4})?(?P<name>[A-Za-z][A-Za-z0-9_.-]{0"
        r",60})[ \t]{0,9}=[ \t]{0,9}"
        r"(?P<secret>[^\s\"'`()\[\]{}<>,;]{8,400})(?![^ \t\r\n])(?![ \t]{1,9}[^#\s])",
        _names_generated,
        near=NUMBER,
    ),
)
