"""A hook that runs an action after a module is loaded.

It does not import the module, or change how it is found.
"""

import sys
from _thread import get_ident

import reprobuild_runtime.fork_ids  # noqa: F401  it counts from interpreter start on

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Set, Tuple

STARTED_BY = get_ident()  # the main thread, if the start-up hook imports this


class Finder:
    """A meta path finder that watches the loaders of some modules.

    It asks the other finders for them.

    The specification is theirs and unchanged; only its loader's `exec_module` is shadowed until it has run. A module
    that fails to import is watched again next time, and so is one that is loaded a second time. The finder stays in
    `sys.meta_path`: removing it while another import walks that list would hide a finder from that import.
    """

    def __init__(self, names: "Iterable[str]", action: "Callable[[str, Any], None]") -> None:
        self.names = frozenset(names)
        self.seen: "Set[str]" = set()  # modules in sys.modules that were acted on
        self.action = action  # must not raise
        self.asking: "Set[Tuple[int, str]]" = set()

    def find_spec(self, name: str, path: "Any" = None, target: "Any" = None) -> "Any":
        """Return the specification of a watched module, else None.

        It is the other finders' specification.
        """
        key = (get_ident(), name)
        if name not in self.names or key in self.asking:
            return None
        self.asking.add(key)
        try:
            spec = self._ask_others(name, path, target)
        finally:
            self.asking.discard(key)
        if spec is not None and spec.loader is not None:
            self._watch(spec.loader, name)
        return spec

    def _ask_others(self, name: str, path: "Any", target: "Any") -> "Any":
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None

    def _watch(self, loader: "Any", name: str) -> None:
        # load_module: zipimport before Python 3.10
        method = "exec_module" if hasattr(loader, "exec_module") else "load_module"
        run: "Callable[[Any], Any]" = getattr(loader, method)

        def watched(subject: "Any") -> "Any":
            if getattr(subject, "__name__", subject) != name:
                return run(subject)  # one loader may serve several modules
            vars(loader).pop(method, None)
            result = run(subject)
            self.done(name, subject if method == "exec_module" else result)
            return result

        # Built-in and frozen modules share their loader, a class, and one loader may be asked for twice: not touched.
        if not isinstance(loader, type) and method not in getattr(loader, "__dict__", {method: None}):
            vars(loader)[method] = watched

    def done(self, name: str, module: "Any") -> None:
        """Act on a loaded module.

        A private copy is acted on only if it is the only one.
        """
        if sys.modules.get(name) is module:
            self.seen.add(name)
        elif name in self.seen:
            return
        self.action(name, module)
