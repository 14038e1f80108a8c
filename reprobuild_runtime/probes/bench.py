"""The context of probes, and their register.

The rules of a probe: inputs from a private generator, normal numbers over several powers of ten; upstream gradients
that are random as well, because gradients of ones hide a changed order of summation; no number that a shorter sum would
give exactly. So a probe's result does not depend on the seed, except if it draws.
"""

import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Sequence, Tuple

    Function = Callable[["Bench"], List[Any]]


class NotHereError(Exception):
    """A probe is not applicable in this environment.

    The text has the reason.
    """


class RuntimeProbe:
    """One probe.

    Attributes:
        name: of its function.
        kind: the name of its file.
        documented: the lines of torch's own list about it: a name of torch's interface, and words of the line.
        devices: the devices that it can run on.
        most: the most runs in one process, even if more are requested.
        fresh: once in each process on a GPU: state that a library keeps would change a second run by design.
        informational: devices without any promise of determinism, in any mode; the result is only informational.
        thorough: it takes long, and is left out unless it is requested by name or with `thorough`.
        library: its distribution, if that is not torch.
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
    """Register a probe under the name of its function.

    The options are attributes of Probe.
    """
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
    """The context of a probe: torch, device, seed, mode, and inputs."""

    def __init__(self, torch: "Any", device: str, seed: int, mode: str = "default") -> None:
        self.torch, self.device, self.seed, self.mode = torch, device, seed, mode
        self.nn, self.functional = torch.nn, torch.nn.functional

    def begin(self, name: str) -> None:
        """Start a run of a probe.

        Its inputs depend on its name, and the global generators on the seed.

        Inputs are drawn on the device: the numbers that a GPU takes would cost a processor minutes.
        """
        self.private = self.torch.Generator(self.device)
        self.private.manual_seed(zlib.crc32(name.encode()))
        self.torch.manual_seed(self.seed)
        self.shapes: "List[str]" = []
        self.others: "List[List[Any]]" = []

    def pick(self, cpu: "Any", cuda: "Any") -> "Any":
        """Return the probe's size for the CPU or the GPU."""
        return cuda if self.device == "cuda" else cpu

    def randn(self, *shape: int, spread: int = 1, note: bool = True) -> "Any":
        """Return normal numbers, each times a power of ten.

        The power is from -spread to spread.
        """
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
        """Return a permutation of `count` indices, drawn on the CPU.

        A GPU would sort for it, which other probes cover.
        """
        private = self.torch.Generator()
        private.manual_seed(count)
        return self.torch.randperm(count, generator=private).to(self.device)

    def also(self, values: "List[Any]") -> None:
        """Add another result of the same run, which must be equal."""
        self.others.append(values)

    def leaves(self, *values: "Any") -> "List[Any]":
        """Return the tensors with gradients enabled."""
        return [value.requires_grad_() for value in values]

    def backward(self, output: "Any", leaves: "List[Any]") -> "List[Any]":
        """Return the output and the gradients of the leaves.

        The upstream gradient is random.
        """
        upstream = self.randn(*output.shape, note=False).to(output.dtype)
        return [output, *self.torch.autograd.grad((output * upstream).sum(), leaves)]

    def fill(self, module: "Any") -> "Any":
        """Return a module with parameters from the private generator.

        It is on the device.
        """
        for parameter in module.parameters():
            values = self.randn(*parameter.shape, spread=0, note=False).to(parameter.dtype)
            parameter.data = values * (0.5 / max(1, parameter[0].numel()) ** 0.5)
        return module.to(self.device)

    def need(self, value: "Any", reason: str) -> "Any":
        """Return a value; raise NotHereError if it is None or False."""
        if value is None or value is False:
            raise NotHereError(reason)
        return value
