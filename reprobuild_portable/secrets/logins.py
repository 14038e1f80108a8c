"""Logins that stand at a place of a call, as data: name, marks, pattern."""

from __future__ import annotations

# What may stand before an argument: the beginning of a line, of a patch also.
_SPACE = r"[\s+]{0,40}"
_NAMED_ARGUMENT = r"(?:[a-z_]{1,20}[ \t]{0,2}=[ \t]{0,2})?"
# An argument before the password: a text, a number, or a name with what it is called or indexed with.
_ARGUMENT = (
    rf"{_NAMED_ARGUMENT}(?:[bfru]{{0,2}}\\?[\"'][^\"'\\\n]{{0,100}}\\?[\"']"
    rf"|[A-Za-z_][\w.]{{0,60}}(?:[(\[][^()\[\]\n]{{0,60}}[)\]])?|\d{{1,5}})[ \t]{{0,4}},{_SPACE}"
)
_PASSWORD_TEXT = rf"{_NAMED_ARGUMENT}[bru]{{0,2}}\\?[\"'](?P<secret>[^\s\"'\\]{{8,200}})\\?[\"']{_SPACE}[,)]"

# The password is an argument without a name; it must look like one.
LOGINS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (  # `smtp.login("user", "password")`
        "login-call",
        (".login(",),
        rf"\.login\({_SPACE}{_ARGUMENT}{_PASSWORD_TEXT}",
    ),
    (  # `FTP(host, user, "password")`, also of a data base or a shell
        "connect-call",
        ("ftp(", "ftp_tls(", "connect("),
        rf"(?:FTP|FTP_TLS|connect)\({_SPACE}(?:{_ARGUMENT}){{2,3}}?{_PASSWORD_TEXT}",
    ),
    (  # `keyring.set_password("service", "user", "password")`
        "keyring-call",
        ("set_password(",),
        rf"set_password\({_SPACE}{_ARGUMENT}{_ARGUMENT}{_PASSWORD_TEXT}",
    ),
)
