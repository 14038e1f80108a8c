"""Debian packages and archives: file formats and queries."""

from __future__ import annotations

import logging

# python-debian writes text that it cannot parse unchanged to standard error: it is untrusted, and may control
# a terminal.
logging.getLogger("debian").addHandler(logging.NullHandler())
