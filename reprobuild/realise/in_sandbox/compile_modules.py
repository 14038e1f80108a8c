"""A compiler to bytecode that depends on source and path only.

It runs inside the sandbox.

    python -I -S compile_modules.py < JOBS

JOBS is a JSON list of {"from": directory, "to": directory, "place": path in the image}. Each job is done by a process
of its own, and its modules in one order: the output of marshal depends on what the process compiled before
(https://github.com/python/cpython/issues/129724). Modules that do not compile with this interpreter are left out (torch
ships some), as pip leaves them out. Format: https://peps.python.org/pep-0552/, unchecked hash-based, so that no file
time matters.
"""

import importlib.util
import json
import marshal
import os
import sys
import warnings

UNCHECKED_HASH = (1).to_bytes(4, "little")


def compile_tree(source: str, target: str, place: str) -> None:
    """Compile each module below `source` to `target`.

    The code's file name has `place` instead of `source`.
    """
    warnings.simplefilter("ignore")
    for folder, folders, names in os.walk(source):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, source)
                with open(path, "rb") as stream:
                    text = stream.read()
                try:
                    code = compile(text, os.path.join(place, relative), "exec", dont_inherit=True, optimize=0)
                except (SyntaxError, ValueError, RecursionError, UnicodeDecodeError):
                    continue
                out = importlib.util.cache_from_source(os.path.join(target, relative), optimization="")
                os.makedirs(os.path.dirname(out), exist_ok=True)
                with open(out, "wb") as stream:
                    stream.write(importlib.util.MAGIC_NUMBER + UNCHECKED_HASH)
                    stream.write(importlib.util.source_hash(text) + marshal.dumps(code))


def main() -> None:
    waiting, running = json.load(sys.stdin), 0
    while waiting or running:
        if waiting and running < len(os.sched_getaffinity(0)):
            job = waiting.pop(0)
            running += 1
            if os.fork() == 0:
                compile_tree(job["from"], job["to"], job["place"])
                os._exit(0)
            continue
        running -= 1
        if os.wait()[1]:
            sys.exit("a process that compiled modules died")


if __name__ == "__main__":
    main()
