"""Budgets of a capture, in seconds, bytes and numbers."""

from __future__ import annotations

# Seconds. The whole ends after SECONDS, even if its parts have time left.
SECONDS = 60.0
STALE = 600.0  # plus its budget: then the claim of a killed job is removed
SKEW = 60.0  # between the clocks of this machine and a file server
TICK = 0.1  # between two checks of the running programs
LISTING = 10.0  # of all untracked files of a repository, and of all ignored ones
BUDGETS = {
    "python": 5.0, "distributions": 20.0, "environment": 5.0, "dpkg": 10.0, "rpm": 15.0, "conda": 10.0,
    "modules": 2.0, "gpu": 10.0, "machine": 5.0, "scheduler": 2.0, "command": 2.0, "repository": 30.0,
    "interpreter": 40.0, "projects": 10.0,
}  # fmt: skip

# Bytes and numbers. A file over them is listed by name and size.
UNTRACKED_FILE = 10 << 20
UNTRACKED_TOTAL = 32 << 20
UNTRACKED_COUNT = 5000
CHANGED_FILE = 64 << 20
DIFF = 48 << 20  # the reader takes 64 MiB of one file
BUNDLE = 256 << 20
SEARCHED = 64 << 20  # for secrets
LISTED = 500  # names in one list of capture.json
REMOTES = 1000  # of a repository: the reader takes no more
MOST_COMMITS = 1000  # of a branch that a remote may delete: more of them are not bundled
SAID = 10  # warnings on the terminal
NAMED = 3  # files that were left out, of a repository, on the terminal
REPOSITORIES = 64
AT_ONCE = 4
INTERPRETER_FILE = 128 << 20  # libpython with its debugging information has 25 MB
INTERPRETER_TOTAL = 512 << 20
INTERPRETER_COUNT = 20000  # a standard library has 900 without its tests
SPARE = 1.0  # seconds of a repository's budget that the search for secrets leaves
DEEPEST = 200  # nested directories
LONGEST_WORD = 4096  # of a command line
HEAD = 1 << 13  # of the metadata of a distribution
METADATA = 16 << 20  # of one of its files
NAMING_FILE = 1 << 16  # of a file that states the name of a project
