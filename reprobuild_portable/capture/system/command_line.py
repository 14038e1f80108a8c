"""The command line of the job."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Dict, Iterable, List, Sequence

from reprobuild_portable.capture.files import _bytes, _path, _read, _text
from reprobuild_portable.capture.limits import LONGEST_WORD
from reprobuild_portable.capture.model import Context, Taken
from reprobuild_portable.capture.scrub import _scrub
from reprobuild_portable.secrets.judges import has_marks, secrets_of
from reprobuild_portable.secrets.patterns import secret_option
from reprobuild_portable.secrets.redact import redact
from reprobuild_portable.secrets.rules import VALUES
from reprobuild_portable.secrets.search import secret_value
from reprobuild_portable.secrets.words import GONE


def take_command(context: Context) -> Taken:
    """Capture the command lines of the job.

    A library call has its own command line. Those of the processes above, of the same user, follow.
    """
    chain: List[Dict[str, Any]] = []
    pid = os.getppid() if context.program else os.getpid()
    while pid > 1 and len(chain) < 16:
        try:
            if os.stat(f"/proc/{pid}").st_uid != os.getuid():
                break
        except OSError:  # it ended meanwhile, or /proc hides it (hidepid)
            break
        words = _read(f"/proc/{pid}/cmdline").split(b"\0")[:-1]
        name = _text(f"/proc/{pid}/comm")
        chain.append(
            {
                "program": name,
                "arguments": redact_arguments(
                    _scrub(word, context.secrets)[: 16 * LONGEST_WORD].decode("utf-8", "backslashreplace")
                    for word in words
                ),
            }
        )
        match = re.search(r"(?m)^PPid:\s*(\d+)", _text(f"/proc/{pid}/status"))
        pid = int(match.group(1)) if match else 0
    own_words = [] if context.program else [_scrub(_bytes(word), context.secrets) for word in sys.argv]
    argv = redact_arguments(
        word[: 16 * LONGEST_WORD].decode("utf-8", "backslashreplace") for word in own_words
    )
    return Taken({"argv": argv, "folder": _path(os.getcwd()), "processes": chain})


# Programs that take a password behind `-a`, with or without a space.
_CACHES = r"(?:redis|keydb|valkey)-cli"
# Programs that take a password behind `-p`, without a space.
_DATABASES = r"mysql(?:dump|admin|import|sh)?|mariadb(?:-[a-z]{1,9})?"


def redact_arguments(words: Iterable[str]) -> List[str]:
    """Return the words of a command line without secrets.

    `***` replaces a secret, and the value after a secret's name. Secrets are redacted before long words are
    cut: half of a secret does not look like one.
    """
    out: List[str] = []
    after = program = ""
    database = cache = False
    words = list(words)
    for word, judged_word in zip(words, _redact_by_context(words)):
        database = database or re.fullmatch(_DATABASES, os.path.basename(word)) is not None
        cache = cache or re.fullmatch(_CACHES, os.path.basename(word)) is not None
        name = after.lstrip("-").replace("-", "_")
        login = after in ("-u", "--user", "--proxy-user") and ":" in word
        login = login or (cache and after == "-a")
        login = login or (after == "-p" and os.path.basename(program) == "sshpass")
        if after.startswith("-") and not word.startswith("-") and (login or secret_option(name, word)):
            out.append(GONE)
        else:
            cut = GONE if secret_value(word) and "://" not in word else redact(judged_word)
            glued = os.path.basename(after) == "sshpass" or database
            # Not the options of openssl: they may be in one line with a database.
            glued = glued and re.match(r"-p(?!ass(?:in|out|word)?\Z).", word, re.DOTALL) is not None
            glued = glued or (cache and re.match("-a.", word, re.DOTALL) is not None)
            out.append(word[:2] + GONE if glued else cut[:LONGEST_WORD])
        program = program if word.startswith("-") else word
        after = word
    return _redact_by_context(out)


def _redact_by_context(words: Sequence[str]) -> List[str]:
    """Redact the secrets that the words before them reveal.

    Examples are `docker login -p ...` and `wandb login ...`.
    """
    line = " ".join(words)
    lowered, masked = line.lower(), list(line)
    for rule in VALUES:
        for start, end in secrets_of(rule, line) if has_marks(rule, lowered) else ():
            masked[start:end] = "\0" * (end - start)
    text, out, at = "".join(masked), [], 0
    for word in words:
        out.append(re.sub("\0+", GONE, text[at : at + len(word)]))
        at += len(word) + 1
    return out
