"""Recipe files from a sealed lock, for people and builders.

The templates are in `templates/`.

Templates get flat facts and use only loops and "is it defined"; every value goes through a quoting filter.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import tomli_w
from packaging.utils import canonicalize_name

from reprobuild.errors import BuildError
from reprobuild.infra.templates import Templates, text_templates
from reprobuild.infra.untrusted.strings import (
    PlainWord,
    ProjectName,
    Sha256,
    Size,
    VariableName,
    Version,
    is_valid,
)
from reprobuild.lock.model import SealedLock
from reprobuild.lock.python import Source, Wheel
from reprobuild.lock.requirements import read_requirement
from reprobuild.lock.system import FILES, PREFIX
from reprobuild.recipe.image_config import UNREADABLE, image_config, split_environment
from reprobuild.recipe.runtime_config import runscript_lines

_AGAIN = "make the lock again with `reprobuild lock DIR`"

# Filters of templates for unquoted values; each is a type of `infra.untrusted.strings`.
_GRAMMARS: Mapping[str, Any] = {
    "digest": Sha256, "plain": PlainWord, "variable": VariableName, "project": ProjectName, "version": Version,
    "number": Size,
}  # fmt: skip

TEMPLATES = ("Dockerfile", "Apptainer.def", "requirements.txt")


def render_recipe(lock: SealedLock) -> dict[str, str]:
    """Return {file name: text} of the recipe files.

    They are Dockerfile, Apptainer.def, requirements.txt and pylock.toml.
    """
    facts = _template_facts(lock)
    texts = {name: recipe_templates().render(f"{name}.j2", facts) for name in TEMPLATES}
    return {**texts, "pylock.toml": render_pylock(lock)}


def own_directory(lock: SealedLock) -> str:
    """Return the context's directory for files of this lock alone.

    Two contexts must not hold different content under one path: BuildKit keeps the files of a context from one build to
    the next, and takes a file with an equal path, size and time for the same file.
    """
    return f"lock-{lock.digest[:12]}"


def base_file(lock: SealedLock) -> str:
    """Return the path of the base's tar in the context."""
    return f"base-{lock.realised.base[:12]}.tar"


def interpreter_file(lock: SealedLock) -> str:
    """Return the path of the interpreter's tar in the context.

    It is empty if the interpreter has no tree of its own.
    """
    tree = lock.realised.interpreter
    return f"interpreter-{tree[:12]}.tar" if tree else ""


def source_file(source: Source) -> str:
    """Return the path of a source's tar in the context."""
    return f"sources/{source.name}-{source.file.sha256[:12]}.tar"


def parts_file(source: Source, lock: SealedLock) -> str:
    """Return the path of a source's compiled parts in the context.

    It is empty if the source has no such parts.
    """
    built = lock.parts(source)
    return f"sources/{source.name}-compiled-{built.parts[:12]}.tar" if built else ""


@cache
def recipe_templates() -> Templates:
    """Return the templates of recipes, with a filter for each place of a value."""
    filters: dict[str, Callable[..., Any]] = {
        "sh": quote_sh, "definition": quote_definition, "dockerfile": quote_dockerfile, "workdir": quote_workdir,
        "json": _json_string, "line": _one_line, "comment": _definition_comment,
    }  # fmt: skip
    filters |= {name: partial(check_value, name) for name in _GRAMMARS}
    return text_templates(template_folder(), filters)


def check_value(grammar: str, value: Any) -> Any:
    """Return an unquoted value after a check of its grammar.

    A lock may come without `read_lock`.
    """
    if not is_valid(value, _GRAMMARS[grammar]):
        raise BuildError(f"{str(value)[:80]!r} cannot stand in a recipe", hint=_AGAIN)
    return value


def template_folder() -> Path:
    """Return the directory of templates.

    It is inside the package if installed, beside it in a checkout.
    """
    inside = Path(__file__).parent / "templates"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "templates"


def quote_dockerfile(value: str) -> str:
    r"""Return a value in double quotes for ENV and LABEL.

    `\`, `"` and `$` lose their meaning.

    https://docs.docker.com/reference/dockerfile/#environment-replacement. A line break cannot be written; such values
    never get here (`config.split_environment`).
    """
    if UNREADABLE.search(value.replace("\t", " ")):
        raise BuildError(
            f"{value[:20]!a}... has a control character, which a Dockerfile cannot carry", hint=_AGAIN
        )
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def quote_workdir(path: str) -> str:
    r"""Return a path for WORKDIR.

    The instruction takes the rest of its line and keeps quotation marks.

    Raises:
        BuildError: it holds a control character, which would end the line, ends with a backslash, which would join the
            next one, or has blanks at an end, which would be lost.
    """
    if not path.isprintable() or path != path.strip() or path.endswith("\\"):
        raise BuildError(f"the working directory {path[:80]!r} cannot stand in a recipe", hint=_AGAIN)
    return re.sub(r"""([\\"'$])""", r"\\\1", path)


def quote_sh(value: str) -> str:
    """Return a value as one word for an Apptainer.def's shell."""
    return quote_definition(shlex.quote(value))


def quote_definition(line: str) -> str:
    """Return a quoted shell line in a form for an Apptainer.def.

    Apptainer replaces `{{ name }}` anywhere in a definition file before a shell reads it, so such braces are separated:
    https://apptainer.org/docs/user/latest/definition_files.html#templating-how-to-pass-values. `shlex` puts every brace
    into single quotes.

    Raises:
        BuildError: it holds a control character: a line that begins with `%` begins a section, even in quotes.
    """
    if UNREADABLE.search(line.replace("\t", " ")):
        raise BuildError(
            f"{line[:80]!a} has a control character, which an Apptainer.def cannot carry", hint=_AGAIN
        )
    return re.sub(r"\{(?=\{)", "{''", line)


def _json_string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _one_line(value: str) -> str:
    """Return text for a comment, without control characters or line breaks."""
    return "".join(character if character.isprintable() else " " for character in value)


def _definition_comment(value: str) -> str:
    return re.sub(r"\{(?=\{)", "{ ", _one_line(value))


def _template_facts(lock: SealedLock) -> Mapping[str, Any]:
    _, special = split_environment(lock.environment)
    config = image_config(lock)
    wheels = [wheel for wheel in lock.wheels if wheel.role == "environment"]
    return {
        "snapshot": lock.snapshot,
        "lock": lock.digest,
        "epoch": lock.epoch,
        "own": own_directory(lock),
        "base": base_file(lock),
        "interpreter": interpreter_file(lock),
        "home": lock.interpreter.home,
        "conda": len(lock.conda),
        "distribution": lock.base.distribution,
        "release": lock.base.release,
        "package_count": len(lock.base.packages),
        "image": f"{lock.base.image.reference} ({lock.base.image.digest})" if lock.base.image else "",
        "python": lock.interpreter.version,
        "executable": lock.interpreter.executable,
        "prefix": PREFIX,
        "files": FILES,
        "workdir": lock.workdir,
        "variables": [pair.partition("=")[::2] for pair in config.env],
        "exports": [pair.partition("=")[::2] for pair in sorted(config.env)],
        "runscript": runscript_lines(config),
        "special": sorted(special),
        "entrypoint": list(config.entrypoint),
        "command": list(config.cmd),
        "labels": sorted(config.labels.items()),
        "wheels": [_wheel_facts(wheel) for wheel in (*wheels, *lock.built_wheels)],
        "sources": [
            {
                "name": s.name,
                "path": s.path,
                "file": source_file(s),
                "parts": parts_file(s, lock),
                "commit": s.commit,
                "patched": s.patch is not None,
                "editable": s.editable,
                "installed": s.installed,
            }
            for s in lock.sources
        ],
        "deviations": [
            {"subject": ruling.subject, "outcome": ruling.outcome, "reason": ruling.reason}
            for ruling in lock.deviations
        ],
    }


def _wheel_facts(wheel: Wheel) -> dict[str, str]:
    return {
        "name": wheel.name, "version": wheel.version, "sha256": wheel.file.sha256, "filename": wheel.file.filename,
    }  # fmt: skip


def render_pylock(lock: SealedLock) -> str:
    """Return the Python half of the lock as a pylock.toml.

    The format is PEP 751: https://peps.python.org/pep-0751/.
    """
    packages: list[dict[str, Any]] = []
    installed = [source for source in lock.sources if source.installed]
    environment = [wheel for wheel in lock.wheels if wheel.role == "environment"]
    called = [wheel.name for wheel in environment] + [sdist.name for sdist in lock.sdists]
    called += [source.name for source in installed]
    names = {str(canonicalize_name(name)) for name in called}
    for wheel in environment:
        file: dict[str, Any] = {"name": wheel.file.filename}
        if wheel.file.url:
            file["url"] = wheel.file.url
        if wheel.file.size:
            file["size"] = wheel.file.size
        file["hashes"] = {"sha256": wheel.file.sha256}
        needs = _dependencies(wheel, names)
        packages.append({"name": wheel.name, "version": wheel.version, **needs, "wheels": [file]})
    for sdist in lock.sdists:
        archive = {"name": sdist.file.filename, **({"url": sdist.file.url} if sdist.file.url else {})}
        facts: dict[str, Any] = {"size": sdist.file.size} if sdist.file.size else {}
        facts["hashes"] = {"sha256": sdist.file.sha256}
        packages.append({"name": sdist.name, "version": sdist.version, "sdist": {**archive, **facts}})
    for source in installed:
        vcs: dict[str, Any] = {"type": "git", "commit-id": source.commit}
        vcs |= {"url": source.url.removeprefix("git+")} if source.url else {"path": source.path}
        vcs |= {"subdirectory": source.subdirectory} if source.subdirectory else {}
        packages.append({"name": source.name, "vcs": vcs})
    document = {
        "lock-version": "1.0",
        "created-by": "reprobuild",
        "requires-python": f"=={lock.interpreter.minor}.*",
        "packages": sorted(packages, key=lambda package: str(package["name"])),
    }
    return UNREADABLE.sub(_toml_escape, tomli_w.dumps(document))


def _toml_escape(match: re.Match[str]) -> str:
    """Return a character escaped for a TOML string.

    Line feeds and tabs stay.
    """
    return match[0] if match[0] in "\n\t" else f"\\u{ord(match[0]):04x}"


def _dependencies(wheel: Wheel, names: Collection[str]) -> dict[str, Any]:
    """Return a wheel's direct dependencies among the packages.

    Each has only its name, which identifies it.
    """
    requirements = (read_requirement(text) for text in wheel.requires)
    dependencies = {
        str(canonicalize_name(requirement.name)) for requirement in requirements if requirement
    } & {*names}
    return {"dependencies": [{"name": name} for name in sorted(dependencies)]} if dependencies else {}
