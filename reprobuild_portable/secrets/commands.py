"""Passwords as words of a command, as data: rule, marks, pattern, pattern of a line, whether it has ` -`."""

from __future__ import annotations

# A word begins here, also behind the `\n` of JSON.
_PROGRAM = r"(?:(?<![\w.-])|(?<=\\[nrt]))"
_PART = r"(?:(?<![\w.?&;-])|(?<=\\[nrt]))"
# What may stand between a program and its option, and the word after that.
_BETWEEN = r"(?:[ \t]{1,4}[^\s]{1,100}){0,8}?[ \t]{1,4}"
# Short options without a value may stand before the last one in its word.
JOINED = r"-[A-Za-z0-9#]{0,12}?"
# Options of `htpasswd`, of which some have a number.
_OPTIONS = r"(?:-[A-Za-z0-9]{1,8}[ \t]{1,4}(?:\d{1,3}[ \t]{1,4})?){0,6}"
_SPACES = r"[ \t]{0,4}"
_WORD = r"(?P<before>[\"']?)(?P<secret>[^\s\"']{4,200})"
# What a shell says to a program, and what asks a program to read it.
_SAID = r"(?:echo|printf)[ \t]{1,4}(?:-[neE]{1,3}[ \t]{1,4})?(?:[\"']?%s(?:\\n)?[\"']?[ \t]{1,4})?"
_TO = r"[\"']?[ \t]{0,4}\|[ \t]{0,4}"
_READING = (
    r"(?:--(?:pass(?:word|phrase)?|token)-stdin|--with-token|--passphrase-fd[ \t=]{1,4}0|-pass(?:in)?[ \t]{1,4}stdin"
    r"|sudo[ \t]{1,4}(?:-[A-Zk-z]{1,4}[ \t]{1,4})?-[a-z]{0,2}S|passwd[ \t]{1,4}--stdin|login[ \t]{1,4}-)(?![\w-])"
)
_SAID_USER = r"(?P<before>[\"']?[^\s:\"'|]{1,60}:)(?P<secret>[^\s\"']{4,200})"

# Each password must have a letter and a digit, for sources have words and templates there.
COMMANDS: tuple[tuple[str, tuple[str, ...], str, str, bool], ...] = (
    (
        "registry-login",
        (" login ",),
        rf"{_PROGRAM}login{_BETWEEN}-p[ \t=]{{0,4}}{_WORD}",
        r"login[ \t].{0,200}-p",
        True,
    ),
    (  # MinIO: the key, then the secret
        "minio",
        ("alias set ", "host add "),
        rf"{_PROGRAM}mcl?i?{_BETWEEN}(?:alias[ \t]{{1,4}}set|host[ \t]{{1,4}}add){_BETWEEN}[\"']?https?://\S{{1,200}}"
        r"(?:[ \t]{1,4}--(?:(?:api|path)[ \t]{1,4}\S{1,40}|[a-z]\S{0,60})){0,4}[ \t]{1,4}(?!--)\S{1,200}[ \t]{1,4}"
        rf"{_WORD}",
        "://",
        False,
    ),
    (
        "ldap",
        ("ldap",),
        rf"{_PROGRAM}ldap(?:search|modify|add|delete|whoami|compare|modrdn){_BETWEEN}{JOINED}w[ \t]{{0,4}}{_WORD}",
        r"[ \t]-[A-Za-z]{0,12}w",
        True,
    ),
    (
        "redis",
        ("redis-cli", "keydb-cli", "valkey-cli"),
        rf"{_PROGRAM}(?:redis|keydb|valkey)-cli{_BETWEEN}(?:-a[ \t]{{0,4}}|--pass[ \t]{{1,4}}){_WORD}",
        "[ \\t]-(?:a|-pass)",
        True,
    ),
    (
        "sqlcmd",
        ("sqlcmd", "bcp "),
        rf"{_PROGRAM}(?:sqlcmd|bcp){_BETWEEN}-P[ \t]{{0,4}}{_WORD}",
        "[ \\t]-P",
        True,
    ),
    (
        "mongo",
        ("mongo",),
        rf"{_PROGRAM}mongo(?:sh|dump|restore|export|import|files|stat|top)?{_BETWEEN}-p[ \t]{{0,4}}{_WORD}",
        "[ \\t]-p",
        True,
    ),
    (
        "twine",
        ("twine ",),
        rf"{_PROGRAM}twine{_BETWEEN}-p[ \t]{{0,4}}{_WORD}",
        "[ \\t]-p",
        True,
    ),
    (
        "client-password",
        (
            "cqlsh",
            "rabbitmqadmin",
            "beeline",
            "cypher-shell",
            "rdesktop",
            "psexec",
            "plink ",
            "psftp ",
            "pscp ",
        ),
        rf"{_PROGRAM}(?:(?:cqlsh|rabbitmqadmin|beeline|cypher-shell|rdesktop|(?i:psexec(?:64)?(?:\.exe)?)){_BETWEEN}-p"
        rf"|(?:plink|psftp|pscp)(?:\.exe)?{_BETWEEN}-pw[ \t]){_SPACES}{_WORD}",
        "[ \\t]-p",
        True,
    ),
    (
        "client-capital",
        ("ipmitool", "mosquitto_"),
        rf"{_PROGRAM}(?:ipmitool|mosquitto_(?:pub|sub|rr)){_BETWEEN}-P[ \t]{{0,4}}{_WORD}",
        "[ \\t]-P",
        True,
    ),
    (
        "azure-login",
        ("az ",),
        rf"{_PROGRAM}az[ \t]{{1,4}}(?:acr[ \t]{{1,4}})?login{_BETWEEN}-p[ \t]{{1,4}}{_WORD}",
        "login[ \\t].{0,200}-p",
        True,
    ),
    (
        "httpie",
        ("http ", "https "),
        rf"{_PROGRAM}https?{_BETWEEN}-a[ \t]{{0,4}}(?P<before>[\"']?[^\s:\"'$]{{1,60}}:)(?P<secret>[^\s\"']{{4,200}})",
        "[ \\t]-a",
        True,
    ),
    (
        "ngrok",
        ("authtoken ", "api-key "),
        rf"{_PROGRAM}ngrok(?:\.exe)?[ \t]{{1,4}}(?:config[ \t]{{1,4}})?(?:add-)?(?:authtoken|api-key)"
        rf"(?:[ \t]{{1,4}}--?[a-z][^\s]{{0,60}}){{0,2}}[ \t]{{1,4}}(?!-){_WORD}",
        "ngrok",
        False,
    ),
    (  # `kubectl create secret generic ... --from-literal=NAME=...`
        "from-literal",
        ("--from-literal",),
        rf"--from-literal(?:=|[ \t]{{1,4}})[\"']?[\w.-]{{1,100}}={_WORD}",
        "=",
        True,
    ),
    (
        "htpasswd",
        ("htpasswd ",),
        rf"{_PROGRAM}htpasswd[ \t]{{1,4}}{_OPTIONS}?-[A-Za-z]{{0,8}}b[A-Za-z]{{0,8}}[ \t]{{1,4}}{_OPTIONS}"
        rf"(?:[^\s-]\S{{0,100}}[ \t]{{1,4}}){{1,2}}{_WORD}",
        "-[a-zA-Z]{0,8}b",
        True,
    ),
    (
        "poetry",
        ("http-basic.",),
        rf"http-basic\.[\w.-]{{1,60}}[ \t]{{1,4}}[^\s-]\S{{0,100}}[ \t]{{1,4}}{_WORD}",
        "http-basic",
        False,
    ),
    (
        "samba",
        ("smbclient", "rpcclient"),
        rf"{_PROGRAM}(?:smb|rpc)client{_BETWEEN}(?:-U[ \t]{{0,4}}|--user[= ])(?P<before>[\"']?[^\s%\"'$]{{1,60}}%)"
        r"(?P<secret>[^\s\"']{4,200})",
        "%",
        True,
    ),
    (
        "lftp",
        ("lftp",),
        rf"{_PROGRAM}lftp{_BETWEEN}(?:-u[ \t]{{0,4}}|--user[= ])(?P<before>[\"']?[^\s,\"'$]{{1,60}},)"
        r"(?P<secret>[^\s\"']{4,200})",
        ",",
        True,
    ),
    (
        "archive-7z",
        ("7z ", "7za ", "7zr ", "7zz "),
        rf"{_PROGRAM}7z[arz]?{_BETWEEN}-p{_WORD}",
        "[ \\t]-p",
        True,
    ),
    (
        "archive-zip",
        ("zip -", "unzip "),
        rf"{_PROGRAM}(?:un)?zip{_BETWEEN}(?:{JOINED}P[ \t]{{0,4}}|--password[= ]){_WORD}",
        "[ \\t]-(?:[A-Za-z0-9]{0,12}P|-password)",
        True,
    ),
    (
        "archive-rar",
        ("rar ",),
        rf"{_PROGRAM}(?:un)?rar{_BETWEEN}-h?p{_WORD}",
        "[ \\t]-h?p",
        True,
    ),
    (
        "openssl-key",
        ("openssl ",),
        rf"{_PROGRAM}openssl{_BETWEEN}-k[ \t]{{1,4}}{_WORD}",
        "[ \\t]-k[ \\t]",
        True,
    ),
    (
        "openssl",
        ("pass:",),
        r"[ \t\"'](?:-pass(?:in|out|word)?|-k)[ \t]{1,4}(?P<before>[\"']?)pass:(?P<secret>[^\s\"']{4,200})",
        "-pass",
        False,
    ),
    (
        "curl-cookie",
        ("curl",),
        rf"curl{_BETWEEN}(?:{JOINED}b[ \t]{{0,4}}|--cookie[= ])[\"']?"
        r"(?:[A-Za-z][\w.-]{0,60}=[^\s\"'$;]{0,100};[ \t]?){0,9}?"
        r"[A-Za-z][\w.-]{0,60}=([^\s\"'$;]{8,4000})",
        r"(?:-[A-Za-z0-9#]{0,12}b|--cookie)",
        False,
    ),
    (  # a string of libpq, with the password at any place after another part
        "libpq",
        ("password=",),
        rf"{_PART}(?:host(?:addr)?|port|user|dbname|sslmode)=[^\s\"',;]{{1,100}}"
        rf"(?:[ \t]{{1,4}}[a-z_]{{2,20}}=[^\s\"',;]{{1,100}}){{0,6}}?[ \t]{{1,4}}password={_WORD}",
        "[ \\t]password=",
        False,
    ),
    (
        "libpq-first",
        ("password=",),
        rf"{_PART}password=([^\s\"'$,;]{{4,200}})(?=[ \t]{{1,4}}(?:host(?:addr)?|port|user|dbname|sslmode)=)",
        "(?:host|port|user|dbname|sslmode)",
        False,
    ),
    (
        "oracle",
        ("@",),
        r"(?<![\w./:@-])[A-Za-z][\w$#]{0,30}/[\"']?([^\s/@\"'$:]{4,100})[\"']?@(?://[A-Za-z0-9]|[\w.-]{1,200}:1521)",
        r"@//|@[\w.-]{1,200}:1521",
        False,
    ),
    (
        "oracle-command",
        ("sqlplus", "sqlcl", "sqlldr", "expdp", "impdp"),
        rf"{_PROGRAM}(?:sqlplus|sqlcl|sqlldr|expdp|impdp){_BETWEEN}(?P<before>[\"']?)(?:[a-z]{{1,20}}=)?"
        r"[A-Za-z][\w$#]{0,30}/[\"']?(?P<secret>[^\s/@\"'$]{4,100})",
        "/",
        False,
    ),
    (
        "oracle-address",
        ("jdbc:oracle:",),
        r"(?i:jdbc:oracle:(?:thin|oci8?)):[A-Za-z][\w$#]{0,30}/([^\s/@\"']{4,100})@",
        "@",
        False,
    ),
)

# Each password stands where nothing else does, so a word with a number is one.
SAID_PASSWORDS: tuple[tuple[str, tuple[str, ...], str, str, bool], ...] = (
    (  # `echo ... | docker login --password-stdin`
        "said-password",
        ("-stdin", "--stdin", " stdin", "--with-token", "passphrase-fd", "sudo -", "login -"),
        rf"{_PROGRAM}{_SAID}{_WORD}{_TO}[^\n|]{{0,200}}?{_READING}",
        r"(?:echo|printf)[ \t].{4,300}\|",
        True,
    ),
    (  # `printf 'user:...' | chpasswd`
        "said-login",
        ("chpasswd",),
        rf"{_PROGRAM}{_SAID}{_SAID_USER}{_TO}[^\n|]{{0,60}}?chpasswd",
        r"(?:echo|printf)[ \t].{4,300}\|",
        False,
    ),
    (  # a here-string for either
        "here-password",
        ("-stdin", "--stdin", " stdin", "--with-token", "passphrase-fd", "sudo -", "login -"),
        rf"{_READING}[^\n|<]{{0,100}}<<<[ \t]{{0,4}}{_WORD}",
        "<<<",
        True,
    ),
    (
        "here-login",
        ("chpasswd",),
        rf"chpasswd[^\n|<]{{0,60}}<<<[ \t]{{0,4}}{_SAID_USER}",
        "<<<",
        False,
    ),
    (  # a line of `.pgpass`
        "pgpass",
        (":5432:", ":*:"),
        r"(?:(?<![^\s\"'+])|(?<=\\[nrt]))(?P<before>[^\s:\"'#]{1,100}:(?:5432|\*):[^\s:\"']{1,63}:[^\s:\"']{1,63}:)"
        r"(?P<secret>[^\s\"']{4,200})(?![^\s\"'])",
        ":(?:5432|[*]):[^:]{1,63}:[^:]{1,63}:",
        False,
    ),
)
