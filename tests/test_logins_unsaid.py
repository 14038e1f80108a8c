"""No error, hint, note or step has a login: each option of each verb is given one, and the output is read."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprobuild.cli import common
from reprobuild.cli import main as cli
from reprobuild.errors import FetchError
from reprobuild.infra.http.model import split_credentials
from reprobuild_portable import secrets

WITHOUT = ("completion",)  # it takes the name of a shell
PASSWORD = "ErrPwSecret77"
LOGINS = (
    f"https://ada:{PASSWORD}@127.0.0.1:1/x.git",
    f"deb https://ada:{PASSWORD}@127.0.0.1:1/debian x main",
    f"http://ada:{PASSWORD} @127.0.0.1:1/simple",
    f"ada:{PASSWORD}@127.0.0.1:x.git",
)


def texts() -> Iterator[tuple[str, str]]:
    """Yield each verb with each option that takes a text, and with "" for its arguments."""
    for verb in set(cli.COMMANDS) - set(WITHOUT):
        command = cli.cli.get_command(click.Context(cli.cli), verb)
        assert command is not None
        yield verb, ""
        for option in command.params:
            if isinstance(option, click.Option) and not option.is_flag and not option.count:
                yield verb, option.opts[-1]


CASES = sorted(set(texts()))


def test_the_options_are_found() -> None:
    assert {
        ("lock", "--source"),
        ("lock", "--archive"),
        ("restore", "--source"),
        ("pull", "--output"),
    } <= set(CASES)
    assert len(CASES) > 100


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    captured = tmp_path_factory.mktemp("unsaid") / "snap"
    captured.mkdir()
    (captured / "requirements.txt").write_bytes(b"\xff\xfe\0")  # no host is asked for what cannot be read
    return captured


def line(verb: str, option: str, login: str, snapshot: Path, out: Path) -> list[str]:
    """Return a command line that has the login in one option, or for each argument."""
    command = cli.cli.get_command(click.Context(cli.cli), verb)
    assert command is not None
    words = [verb]
    for one in command.params:
        if isinstance(one, click.Argument):
            words += [login if not option else str(snapshot)]
        elif one.opts[-1] == "--output" and option != "--output":
            words += ["--output", str(out / "out")]
        elif one.opts[-1] == "--store" and option != "--store":
            words += ["--store", str(out / "store")]
        elif one.opts[-1] == "--offline":
            words += ["--offline"]
    return [*words, option, login] if option else words


def metavar(verb: str, option: str) -> str:
    command = cli.cli.get_command(click.Context(cli.cli), verb)
    assert command is not None
    return next((str(one.metavar) for one in command.params if option and option in one.opts), "=")


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning"
)  # sockets of the engine's client
@pytest.mark.parametrize(("verb", "option"), CASES, ids=[" ".join(case) for case in CASES])
def test_no_option_makes_a_login_appear(
    verb: str, option: str, snapshot: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VIRTUAL_ENV", sys.base_prefix)  # no capture searches the history of this checkout
    # A capture takes seconds: each of its options gets one of the logins.
    logins = LOGINS if verb != "capture" else LOGINS[CASES.index((verb, option)) % len(LOGINS) :][:1]
    for number, login in enumerate(logins):
        for prefix in ("", "NAME=") if "=" in metavar(verb, option) else ("",):
            cli.run_line(line(verb, option, prefix + login, snapshot, tmp_path / str(number)))
            out, err = capfd.readouterr()
            assert PASSWORD not in out + err
    if verb != "run" and any("--json" in item.opts for item in command_of(verb).params):
        cli.run_line([*line(verb, option, LOGINS[0], snapshot, tmp_path / "json"), "--json"])
        out, err = capfd.readouterr()
        assert PASSWORD not in err
        assert '"error"' not in out or PASSWORD not in out


def command_of(verb: str) -> click.Command:
    command = cli.cli.get_command(click.Context(cli.cli), verb)
    assert command is not None
    return command


def test_a_json_error_has_no_login(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "requirements.txt").touch()
    assert cli.run_line(["show", str(tmp_path), "--json", "--index", LOGINS[0]]) == 2
    out, err = capfd.readouterr()
    assert "not of the form NAME=..." in json.loads(out)["error"]["message"]
    assert PASSWORD not in out + err


@pytest.mark.parametrize("login", LOGINS)
def test_a_forgotten_name_shows_the_address_alone(login: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run_line(["lock", "x", "-o", "y", "--source", login]) == 2
    err = capfd.readouterr().err
    assert "error: --source " in err
    assert "not of the form NAME=..." in err
    assert "127.0.0.1" in err
    assert PASSWORD not in err


def test_a_note_has_no_login(capfd: pytest.CaptureFixture[str]) -> None:
    for login in LOGINS:
        common.print_note(f"asking {login} again")
    err = capfd.readouterr().err
    assert err.count("asking ") == err.count(" again\n") == len(LOGINS)
    assert PASSWORD not in err


@pytest.mark.parametrize(
    "text",
    [
        f"http://ada:a b{PASSWORD}@127.0.0.1:1/simple",
        f"http://ada:a'{PASSWORD}@127.0.0.1:1/simple",
        f"http://ada:a/{PASSWORD}@127.0.0.1:1/simple",
        f"http://ada:{PASSWORD}@[::1]/simple",
        f"http://ada:{PASSWORD}@[::bad/simple",
        f"--source 'a=ada:{PASSWORD}@h.invalid:x'",
        f"https://127.0.0.1:1/simple?token={PASSWORD}",
        f"https://h.invalid/t/xy-{PASSWORD}-abcd/c",
        f"https:/ada:{PASSWORD}@h.invalid/x",
    ],
)
def test_other_forms_of_a_login(text: str) -> None:
    assert PASSWORD not in secrets.without_logins(f"cannot read {text}: no")


@pytest.mark.parametrize(
    "text",
    [
        "docker.io/library/python:3.11@sha256:" + "0123456789abcdef" * 4,
        "git@example.org:ada/x.git", "git+ssh://git@example.org/x@main", "name @ https://example.org/x.whl#sha256=ab",
        "https://example.org:8080 refused ada@example.org", "see http://example.org: ada@example.org",
        "write to ada@example.org: the password of the archive is missing", "x.py:12: ada@example.org",
        "fetch https://example.org/x.git@abc: it has no commit", "libc6:amd64=2.36 of ada@example.org",
    ],
)  # fmt: skip
def test_what_has_no_login_stays(text: str) -> None:
    assert secrets.without_logins(text) == text


@pytest.mark.parametrize("part", ["http://a:", "a:b@", "://a: b", "ada:x", "%40http:"])
def test_a_long_message_is_read_quickly(part: str) -> None:
    began = time.process_time()
    secrets.without_logins(part * 20_000)
    assert time.process_time() - began < 5


def test_what_is_no_address_does_not_show_its_port() -> None:
    with pytest.raises(FetchError) as err:
        split_credentials(f"http://ada:{PASSWORD}")
    assert str(err.value) == "'http://ada:***' is no address: what follows its second colon is no port"


@given(st.lists(st.text(":/@'\" ;$#a1&=?-", min_size=1, max_size=12), min_size=1, max_size=4))
@settings(max_examples=500, deadline=None)
def test_a_quoted_command_stays_quoted(values: list[str]) -> None:
    """A value cannot take the quotes of another one with it: a shell reads as many words as before."""
    words = [word for value in values for word in ("--source", f"file:{value}", f"https://h:{value}")]
    shown = secrets.without_logins(shlex.join(words))
    assert shown.count("'") == shlex.join(words).count("'")
    assert len(shlex.split(shown)) <= len(words)


def test_the_hint_of_two_channels_runs_nothing() -> None:
    """Found by an attacker: a login that began in one value and ended in the other took the quote between them."""
    hostile = "file:q@d;touch${IFS}PWNED;#://z"
    shown = secrets.without_logins(
        f"--channel {shlex.quote('file:///x:/a:b')} --channel {shlex.quote(hostile)}"
    )
    option, first, *rest = shlex.split(shown)
    assert (option, "touch" in shown) == ("--channel", True)
    assert [word for word in (first, *rest) if word.startswith(("touch", ";"))] == []
    assert shlex.split(shown, comments=True) == shlex.split(shown)  # no `#` begins a word outside of quotes
    assert not re.search(r"^[^']*(?:'[^']*'[^']*)*;", shown), "a shell ends the command there"
