"""Replacements for a cluster's modules, by one table (`modules.toml`)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.snapshot.model import Module, Requirement

# Below the directory of a module: its own libraries, and not another product that was made with it.
_LIBRARIES = re.compile(r"(/(lib|lib32|lib64|targets|compat|extras|nvvm)(/.*)?)?")
EVIDENCE = "a module of the captured cluster; evidence only, the image has its own libraries"


class ModuleFamily(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table, which documents the fields."""

    name: str
    modules: tuple[str, ...] = ()
    wheels: tuple[str, ...] = ()
    torch: bool = False
    users: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    host: bool = False
    interpreter: bool = False


class ModuleReplacement(Struct, frozen=True, kw_only=True):
    """The image's replacement for a module or library directory.

    `reason` is empty if there is no replacement; `packages` are system packages that the base must have for it.
    """

    family: str
    outcome: Outcome
    reason: str
    packages: tuple[str, ...] = ()


class LoadedModules(Struct, frozen=True, kw_only=True):
    """The modules of a job, and its distributions with versions.

    The distributions have canonical names.
    """

    modules: tuple[Module, ...] = ()
    distributions: Mapping[str, str] = {}

    def rulings(self) -> list[Resolution]:
        """Return one resolution for each module."""
        return [_make_resolution(module, self._find_module_replacement(module)) for module in self.modules]

    def packages(self) -> list[str]:
        """Return the system packages that replace modules."""
        replacements = [self._find_module_replacement(module) for module in self.modules]
        return sorted(
            {package for replacement in replacements if replacement for package in replacement.packages}
        )

    def find_replacement(self, path: str) -> ModuleReplacement | None:
        """Return the replacement for a library directory, or None."""
        for family in read_module_families():
            if any(re.fullmatch(folder, path) for folder in family.folders):
                return self._counterpart(family, "")
        ends = [(end, module) for module in self.modules if (end := _directory_end(module, path))]
        if not ends:
            return None
        end, module = max(ends, key=lambda pair: pair[0])  # `gcc/12.2/hdf5/1.14/lib` belongs to hdf5
        return self._find_module_replacement(module) if _LIBRARIES.fullmatch(path, end) else None

    def _find_module_replacement(self, module: Module) -> ModuleReplacement | None:
        name, version = _module_product(module)
        for family in read_module_families():
            if any(re.fullmatch(pattern, name) for pattern in family.modules):
                return self._counterpart(family, version)
        return None

    def _counterpart(self, family: ModuleFamily, version: str) -> ModuleReplacement:
        if family.host:
            return _exclude_family(
                family, "its libraries are the host's, and come into the container with the GPU"
            )
        if family.interpreter:
            return _exclude_family(family, "evidence of the interpreter's version; the image has its own")
        torch = self.distributions.get("torch", "")
        if family.torch and torch.endswith("+cpu"):
            return _exclude_family(family, f"torch {torch} is built for the CPU, and nothing uses it")
        providers = [
            f"{name} {number}" for name, number in sorted(self.distributions.items())
            if any(re.fullmatch(pattern, name) for pattern in family.wheels)
        ]  # fmt: skip
        if not providers and family.torch and re.search(r"\+cu\d+", torch):
            providers = [f"torch {torch}"]
        if providers:
            note = (
                f"; the module was {version}, which only what was compiled with it could tell"
                if version
                else ""
            )
            return _exclude_family(
                family, f"{', '.join(providers)} of the environment brings {family.name}{note}"
            )
        users = [name for name in family.users if name in self.distributions]
        if users:
            reason = f"{' and '.join(users)} needs it; {', '.join(family.packages)} of the base stands in"
            return ModuleReplacement(
                family=family.name, outcome="replaced", reason=reason, packages=family.packages
            )
        if family.users:
            return _exclude_family(family, "no distribution of the environment uses MPI")
        if family.packages:
            return _exclude_family(family, f"{', '.join(family.packages)} of the base stands in")
        return _exclude_family(family, "")


@cache
def read_module_families() -> tuple[ModuleFamily, ...]:
    """Return the table."""
    raw = files("reprobuild.resolve.environment").joinpath("modules.toml").read_bytes()
    return decode_toml(raw, dict[str, tuple[ModuleFamily, ...]])["family"]


def find_loaded_modules(modules: tuple[Module, ...], requirements: Iterable[Requirement]) -> LoadedModules:
    """Return the modules with their environment."""
    versions = {str(canonicalize_name(line.name)): line.version or "" for line in requirements}
    return LoadedModules(modules=modules, distributions=versions)


def _exclude_family(family: ModuleFamily, reason: str) -> ModuleReplacement:
    return ModuleReplacement(family=family.name, outcome="excluded", reason=reason)


def _module_product(module: Module) -> tuple[str, str]:
    """Return a module's product, in lower case, and its version.

    `compilers/GCC/12.2` is gcc, 12.2.
    """
    parts = [part for part in (*module.name.split("/"), *(module.version or "").split("/")) if part]
    first = next((n for n, part in enumerate(parts) if n and re.match(r"v?\d", part)), len(parts))
    return parts[first - 1].lower(), parts[first] if first < len(parts) else ""


def _directory_end(module: Module, path: str) -> int:
    """Return the end of a module's own directory in a path.

    The directory is `.../cuda/12.4` or `.../cuda-12.4`; the result is 0 if it is absent.
    """
    name, version = _module_product(module)
    pattern = re.escape(name) + (rf"[-/]?{re.escape(version.lower())}" if version else "") + r"(-[a-z0-9]+)?"
    ends = [match.end() for match in re.finditer(rf"/{pattern}(?=/|\Z)", path.lower())]
    return max(ends, default=0)


def _make_resolution(module: Module, replacement: ModuleReplacement | None) -> Resolution:
    reason = replacement.reason if replacement and replacement.reason else EVIDENCE
    outcome: Outcome = replacement.outcome if replacement else "excluded"
    kind = "module-replaced" if outcome == "replaced" else "module"
    return Resolution(
        file=module.place.file, line=module.place.line, subject=module.name, outcome=outcome, reason=reason, kind=kind
    )  # fmt: skip
