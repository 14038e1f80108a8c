"""What a probe is given, and the register of probes.

The rules of a probe: inputs from a private generator, normal numbers over several powers of ten; upstream gradients
that are random as well, for gradients of ones hide a changed order of summation; no number that a shorter sum would
give exactly. So what a probe computes does not depend on the seed, but for those that draw.
"""

import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Sequence, Tuple

    Function = Callable[["Bench"], List[Any]]


class NotHereError(Exception):
    """A probe is not applicable in this environment; the text says why."""


class RuntimeProbe:
    """One probe.

    Attributes:
        name: of the function that computes it.
        kind: the name of the file that it stands in.
        documented: which lines of torch's own list concern it: a name of torch's interface, and words of the line.
        devices: where it can be run.
        most: runs in one process, however many are asked for.
        fresh: once in each process on a GPU: what a library keeps would make a second run another one by design.
        informational: devices on which nobody promises anything, in no mode; what is seen is only told.
        thorough: it takes long, and is left out unless it is asked for by name or with `thorough`.
        library: the distribution that it is of, where that is not torch.
    """

    library = ""

    def __init__(
        self, function: "Function", documented: "Sequence[Tuple[str, ...]]", **options: "Any"
    ) -> None:
        self.name, self.function = function.__name__, function
        self.kind = function.__module__.rpartition(".")[2]
        self.documented: "Tuple[Tuple[str, ...], ...]" = tuple(documented)
        self.devices: "Tuple[str, ...]" = tuple(options["devices"])
        self.most: int = options["most"]
        self.fresh: bool = options["fresh"]
        self.informational: "Tuple[str, ...]" = tuple(options["informational"])
        self.thorough: bool = options["thorough"]


PROBES: "Dict[str, RuntimeProbe]" = {}


def probe(
    *documented: "Tuple[str, ...]", devices: "Sequence[str]" = ("cpu", "cuda"), most: int = 1 << 30,
    fresh: bool = False, informational: "Sequence[str]" = (), thorough: bool = False,
) -> "Callable[[Function], Function]":  # fmt: skip
    """Enter a probe under the name of its function; the options are attributes of Probe."""
    options = {
        "devices": devices,
        "most": most,
        "fresh": fresh,
        "informational": informational,
        "thorough": thorough,
    }

    def enter(function: "Function") -> "Function":
        assert function.__name__ not in PROBES
        PROBES[function.__name__] = RuntimeProbe(function, documented, **options)
        return function

    return enter


class Bench:
    """What a probe is given: torch, the device, the seed, the mode, and inputs."""

    def __init__(self, torch: "Any", device: str, seed: int, mode: str = "default") -> None:
        self.torch, self.device, self.seed, self.mode = torch, device, seed, mode
        self.nn, self.functional = torch.nn, torch.nn.functional

    def begin(self, name: str) -> None:
        """Start a run of a probe: inputs by its name, the global generators by the seed.

        Inputs are drawn where they are used: the numbers that a GPU takes would cost a processor minutes.
        """
        self.private = self.torch.Generator(self.device)
        self.private.manual_seed(zlib.crc32(name.encode()))
        self.torch.manual_seed(self.seed)
        self.shapes: "List[str]" = []
        self.others: "List[List[Any]]" = []

    def pick(self, cpu: "Any", cuda: "Any") -> "Any":
        """Return the first on the CPU, the second on a GPU: the sizes of a probe."""
        return cuda if self.device == "cuda" else cpu

    def randn(self, *shape: int, spread: int = 1, note: bool = True) -> "Any":
        """Return normal numbers, each times a power of ten from -spread to spread."""
        torch = self.torch
        values = torch.randn(shape, generator=self.private, device=self.device)
        if spread:
            power = torch.randint(
                -spread, spread + 1, shape, generator=self.private, device=self.device, dtype=torch.int8
            )
            values *= torch.pow(10.0, power.float())
        if note:
            self.shapes.append("x".join(map(str, shape)))
        return values

    def index(self, high: int, *shape: int) -> "Any":
        """Return indices below `high`, most of them several times."""
        return self.torch.randint(0, high, shape, generator=self.private, device=self.device)

    def order(self, count: int) -> "Any":
        """Return an order of so many indices, drawn on the CPU: a GPU sorts for it, which is what others probe."""
        private = self.torch.Generator()
        private.manual_seed(count)
        return self.torch.randperm(count, generator=private).to(self.device)

    def also(self, values: "List[Any]") -> None:
        """Enter another result of the same run, which must be the same one."""
        self.others.append(values)

    def leaves(self, *values: "Any") -> "List[Any]":
        """Return the tensors, which gradients are wanted for."""
        return [value.requires_grad_() for value in values]

    def backward(self, output: "Any", leaves: "List[Any]") -> "List[Any]":
        """Return the output and the gradients of the leaves for a random upstream gradient."""
        upstream = self.randn(*output.shape, note=False).to(output.dtype)
        return [output, *self.torch.autograd.grad((output * upstream).sum(), leaves)]

    def fill(self, module: "Any") -> "Any":
        """Return a module on the device whose parameters come from the private generator."""
        for parameter in module.parameters():
            values = self.randn(*parameter.shape, spread=0, note=False).to(parameter.dtype)
            parameter.data = values * (0.5 / max(1, parameter[0].numel()) ** 0.5)
        return module.to(self.device)

    def need(self, there: "Any", what: str) -> "Any":
        """Return what there is; raise NotHereError where it is None or False."""
        if there is None or there is False:
            raise NotHereError(what)
        return there
