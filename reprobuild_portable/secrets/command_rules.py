"""List passwords in commands."""

from __future__ import annotations

from reprobuild_portable.secrets.commands import COMMANDS, SAID_PASSWORDS
from reprobuild_portable.secrets.judges import SecretRule, _chosen_login, _given, _said_login

COMMAND_RULES: tuple[SecretRule, ...] = (
    *(
        SecretRule(name, marks, pattern, _chosen_login, near=near, option=option)
        for name, marks, pattern, near, option in COMMANDS
    ),
    *(
        SecretRule(name, marks, pattern, _said_login, near=near, option=option)
        for name, marks, pattern, near, option in SAID_PASSWORDS
    ),
    SecretRule(
        "sshpass",
        ("sshpass",),
        r"sshpass[ \t]{1,9}(?:-v[ \t]{1,9})?-p[ \t]{0,9}(?P<before>[\"']?)(?P<secret>[^\s\"']{4,200})",
        _given,
    ),
)
