"""List named values: options and assignments."""

from __future__ import annotations

from reprobuild_portable.secrets.judges import (
    NUMBER,
    SecretRule,
    _chosen_login,
    _encoded_login,
    _generated,
    _names_format,
    _names_generated,
    _names_inside,
    _names_quoted,
    _names_secret,
    _quoted,
)
from reprobuild_portable.secrets.pairs import PAIRS

_NAMED_KEY = (
    r"(?:api|app|secret|access|auth|private|encryption|signing|account|master|service|clien"
    r"t|db|storage|shared|admin|deploy)"
    r"[_-]?key"
)
_PASSWORD = r"pass(?:w(?:or)?d|wort|phrase|code)?|pwd"

NAMED_RULES: tuple[SecretRule, ...] = (
    SecretRule(
        "option",
        ("key", "token", "secret", "pass", "pwd"),
        # One sign will do for a name that is spelled out: `-password` of Java and of PowerShell.
        r"(?i)(?:(?:--|(?<![\w-])-)(?:password|passwd|passphrase|storepass(?:wd)?|keypass(?:wd)?|token|api[_-]?key|secret[_-]?key"
        r"|auth[_-]?(?:token|key))|--(?:pwd|pass|secret|access[_-](?:token|key)))"
        r"(?:[ \t]{1,4}|=)(?P<before>[\"']?)(?P<secret>[^\s\"',;]{8,400})",
        _chosen_login,
        near=r"-(?i:pass|pwd|token|api|secret|auth|access|store|key)",
    ),
    SecretRule(  # `--auth`, `--gradio-auth`, `--http-auth`: a login or a token
        "option-auth",
        ("auth ", "auth="),
        r"(?<![\w-])--(?:[a-z]{1,20}-){0,2}auth(?:[ \t]{1,4}|=)(?P<before>[\"']?)(?P<secret>[^\s\"',;]{8,400})",
        _chosen_login,
        near=NUMBER,
    ),
    SecretRule(
        "assigned",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?i)(?<!public)(?<!public_)(?<!csrf-)(?<!csrf_)"
        rf"(?:{_NAMED_KEY}|token|secret|{_PASSWORD})\\?[\"'\]]{{0,2}}"
        r"(?P<before>[ \t]{0,4}(?:=>|<{1,2}-|[:?]{0,3}=|:)[ \t]{0,4}[bfru]{0,2}\\?[\"'`])"
        r"(?P<secret>[^\s\"'`\\]{8,200})\\?[\"'`]",
        _quoted,
        near=r"[=:>-][ \t]{0,4}[bfru]{0,2}\\?[\"'`](?=[^\s\"'`\\]{0,199}\d)[^\s\"'`\\]{8}",
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
    SecretRule(  # in a Dockerfile, a notebook, csh, fish, Windows, Apache and nginx
        "set-variable",
        ("key", "token", "secret", "pass", "pwd", "_pat "),
        r"(?<![\w.-])(?:ENV|env|[sS]et[eE]nv|setx|fastcgi_param|set[ \t]{1,4}-[gUx]{1,3})[ \t]{1,4}"
        r"(?P<name>[A-Z][A-Z0-9_]{1,60})[ \t]{1,4}"
        r"(?P<before>[\"']?)(?P<secret>[^\s\"'`;|&<>()\\,]{8,400})",
        _names_secret,
        near=r"(?:ENV|[eE]nv|setx|_param|-[gUx]{1,3})[ \t]{1,4}[A-Z]",
    ),
    SecretRule(  # a list of variables, as Kubernetes and ECS have it
        "named-value",
        ("value:", 'value":', "value':", 'value\\":'),
        r"name\\?[\"']?:[ \t]{0,4}\\?[\"']?(?P<name>[A-Za-z][A-Za-z0-9_.-]{1,60})\\?[\"']?,?(?:\s|\\n){0,40}"
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
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z][A-Za-z0-9_-]{0,60})[\"'\]]{0,2}[ \t]{0,4}"
        r"(?:=>|<{1,2}-|[:?]{0,3}=|:|,)[ \t]{0,4}"
        r"[\"'](?P<secret>[A-Za-z0-9+/_=.-]{16,200})[\"']",
        _generated,
        near=r"[=:>,-][ \t]{0,4}[\"'][A-Za-z0-9+/_=.-]{16}",
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
        r"(?<![^\n])[ \t]{0,40}(?:-[ \t]{1,4})?[\"']?(?P<name>[A-Za-z][A-Za-z0-9_.-]{0,60})[\"']?[ \t]{0,20}:[ \t]{1,9}"
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
    SecretRule(  # within a line that is a command, or in a query
        "assigned-inside",
        ("key=", "token=", "secret=", "password=", "passwd=", "pwd="),
        r"(?:(?<=[\s?&;\"'|+=,])|(?<=[\s\"']-[DP]))(?P<name>(?:[a-z0-9]{1,30}[_.-]){0,4}(?:api[_-]?key|secret[_-]?key|access[_-]?key|password|passwd"
        r"|pwd|secret|token))=(?P<before>[\"']?)(?P<secret>[^\s\"'`()\[\]{}<>,;&|\\]{8,200})(?![^\s\"'&;|])",
        _names_inside,
        near=r"=[\"']?(?=[^\s\"'`()]{0,199}\d)[^\s\"'`()\[\]{}<>,;&|\\]{8}",
    ),
)
