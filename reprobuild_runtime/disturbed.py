"""Disturbances inside of Python's programs, for `artefacts/disturb.py`.

The start-up hook begins them if `VARIABLE` names one.
"""

# ruff: noqa: TID251  the environment is what it reads

import os
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

VARIABLE = "REPROBUILD_DISTURB"
DIRECTORY_ORDER, CLOCK = "directory-order", "clock"
AHEAD = 17_298_183  # seconds: 200 days, 5 hours, 3 minutes and 3 seconds


def begin() -> None:
    """Begin the disturbance that the environment names."""
    {DIRECTORY_ORDER: _change_order, CLOCK: _change_clock}.get(os.environ[VARIABLE], lambda: None)()


class _Entries:
    """The entries of a directory in another order, as `os.scandir` has them."""

    def __init__(self, entries: "List[os.DirEntry[Any]]") -> None:
        self._entries = iter(entries)

    def __iter__(self) -> "_Entries":
        return self

    def __next__(self) -> "os.DirEntry[Any]":
        return next(self._entries)

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._entries = iter(())


def _key(name: "Any") -> "Any":
    return zlib.crc32(os.fsencode(name)), name


def _change_order() -> None:
    """Replace the functions that list a directory: their new order differs from the kernel's and the sorted one."""
    listdir, scandir = os.listdir, os.scandir

    def list_names(path: "Any" = ".") -> "List[Any]":
        return sorted(listdir(path), key=_key)

    def scan(path: "Any" = ".") -> _Entries:
        with scandir(path) as entries:
            return _Entries(sorted(entries, key=lambda entry: _key(entry.name)))

    names: "Any" = vars(os)
    names.update(listdir=list_names, scandir=scan)


def _change_clock() -> None:
    """Replace the functions that read the date: those of `time` and `datetime`."""
    names: "Any" = vars(time)
    real = dict(names)

    def with_default(name: str, position: int) -> "Any":
        def ahead(*arguments: "Any") -> "Any":
            if len(arguments) <= position or arguments[position] is None:
                moment = real["time"]() + AHEAD
                value = real["localtime"](moment) if name in ("asctime", "strftime") else moment
                arguments = (*arguments[:position], value)
            return real[name](*arguments)

        return ahead

    def clock(name: str, ahead: int) -> "Any":
        return lambda number: real[name](number) + (ahead if number == time.CLOCK_REALTIME else 0)

    names.update(
        time=lambda: real["time"]() + AHEAD,
        time_ns=lambda: real["time_ns"]() + AHEAD * 10**9,
        clock_gettime=clock("clock_gettime", AHEAD),
        clock_gettime_ns=clock("clock_gettime_ns", AHEAD * 10**9),
        **{name: with_default(name, 0) for name in ("localtime", "gmtime", "ctime", "asctime")},
        strftime=with_default("strftime", 1),
    )
    _change_dates()


def _change_dates() -> None:
    """Replace the classes of `datetime` by classes that read the other date.

    Values of the C interface keep the old classes. They count as instances of the new ones, and their pickles are
    those of the new ones.
    """
    import copyreg
    import datetime

    bases: "Dict[type, type]" = {}  # the old class of each new one

    class Meta(type):
        def __instancecheck__(cls, value: object) -> bool:
            old = bases.get(cls)
            return isinstance(value, old) if old else type.__instancecheck__(cls, value)

    class Date(datetime.date, metaclass=Meta):
        @classmethod
        def today(cls) -> "Any":
            return cls.fromtimestamp(time.time())

        def __repr__(self) -> str:
            return f"datetime.{super().__repr__()}"

    class DateTime(datetime.datetime, metaclass=Meta):
        @classmethod
        def now(cls, tz: "Any" = None) -> "Any":
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls) -> "Any":
            return cls.now(datetime.timezone.utc).replace(tzinfo=None)

        @classmethod
        def today(cls) -> "Any":
            return cls.now()

        def date(self) -> "Any":
            return Date.fromordinal(self.toordinal())

        def __repr__(self) -> str:
            return f"datetime.{super().__repr__()}"

    names: "Any" = vars(datetime)
    for name, cls in (("date", Date), ("datetime", DateTime)):
        bases[cls] = names[name]
        cls.__module__, cls.__name__, cls.__qualname__ = "datetime", name, name
        names[name] = cls
    for new, old in bases.items():
        copyreg.pickle(old, _reduce_as(new))


def _reduce_as(cls: type) -> "Any":
    """Return a function that pickles a value of the old class as one of another class."""

    def reduce(value: "Any") -> "Tuple[type, Any]":
        return cls, value.__reduce__()[1]

    return reduce
