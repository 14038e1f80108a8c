"""Debian's packages and their archives: what the formats say, and how archives are asked."""

from __future__ import annotations

import logging

# python-debian writes what it cannot parse to standard error as it stands: text of others, which may steer a terminal.
logging.getLogger("debian").addHandler(logging.NullHandler())
