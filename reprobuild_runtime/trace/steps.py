"""Records of each step of a PyTorch program: batches, losses, gradients, parameters, states.

Functions that the compiler of PyTorch must not trace have `_torchdynamo_disable`, as `torch._dynamo.disable` sets it:
importing that module would cost seconds.
"""

import functools
import math
import sys

from reprobuild_runtime import settings
from reprobuild_runtime.trace.digests import PendingDigest, unwrap
from reprobuild_runtime.trace.places import find_place
from reprobuild_runtime.trace.recorder import Recorder, now

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, List, Tuple

_MEASURED = (2, 6)  # the steps whose times choose the stride
_SHARE = 0.008  # of a step's time
_JOINED = 1 << 16  # elements up to which tensors are copied into one


def hook_into(torch: "Any", recorder: Recorder) -> None:
    """Record the steps of a program.

    PyTorch without hooks for all optimizers raises AttributeError, before anything is changed.
    """
    hooks = _StepHooks(torch, recorder)
    optimizer: "Any" = sys.modules["torch.optim.optimizer"]  # `torch.optim` has deleted its attribute
    before, after = optimizer.register_optimizer_step_pre_hook, optimizer.register_optimizer_step_post_hook
    before(_disable(hooks.before_step))
    after(_disable(hooks.after_step))
    _patch(torch.autograd, "backward", hooks.backward)
    _patch(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", hooks.next_batch)
    _patch(torch.optim.Optimizer, "__init__", hooks.make_optimizer)


def _disable(function: "Callable[..., Any]") -> "Callable[..., Any]":
    def untraced(*args: "Any", **kwargs: "Any") -> "Any":
        return function(*args, **kwargs)

    vars(untraced)["_torchdynamo_disable"] = True
    return untraced


def _patch(owner: "Any", name: str, around: "Callable[..., Any]") -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def patched(*args: "Any", **kwargs: "Any") -> "Any":
        return around(original, *args, **kwargs)

    vars(patched)["_torchdynamo_disable"] = True
    setattr(owner, name, patched)


class _StepHooks:
    """The functions that PyTorch calls."""

    def __init__(self, torch: "Any", recorder: Recorder) -> None:
        self._torch, self._recorder = torch, recorder
        self._stride = recorder.options.stride
        self._spent, self._began = 0.0, now()
        self._times: "List[Tuple[float, float]]" = []  # (seconds of a step, of its records)

    def backward(
        self, original: "Callable[..., Any]", tensors: "Any", *args: "Any", **kwargs: "Any"
    ) -> "Any":
        self._record(self._add_loss, tensors)
        result = original(tensors, *args, **kwargs)
        if not self._recorder.has_optimizer:
            self._record(self._recorder.end_step)
        return result

    def _add_loss(self, tensors: "Any") -> None:
        place = find_place(4)
        self._recorder.add("loss", "loss", outputs=self._recorder.digest_value(tensors), place=place)

    def next_batch(self, original: "Callable[..., Any]", loader: "Any") -> "Any":
        batch = original(loader)
        self._record(self._add_batch, batch)
        return batch

    def _add_batch(self, batch: "Any") -> None:
        place = find_place(4)
        self._recorder.add("batch", "DataLoader", outputs=self._recorder.digest_value(batch), place=place)

    def make_optimizer(
        self, original: "Callable[..., Any]", subject: "Any", *args: "Any", **kwargs: "Any"
    ) -> None:
        self._recorder.has_optimizer = True
        original(subject, *args, **kwargs)

    def before_step(self, optimizer: "Any", args: "Any", kwargs: "Any") -> None:
        if self._is_due():
            gradients = [
                (name, tensor.grad)
                for name, tensor in _list_parameters(optimizer)
                if getattr(tensor, "grad", None) is not None
            ]
            self._record(self._add_tensors, "gradients", optimizer, gradients)

    def after_step(self, optimizer: "Any", args: "Any", kwargs: "Any") -> None:
        self._record(self._end_step, optimizer)

    def _end_step(self, optimizer: "Any") -> None:
        if self._is_due():
            self._add_tensors("parameters", optimizer, _list_parameters(optimizer))
            self._add_tensors("state", optimizer, _list_states(self._torch, optimizer))
        step = self._recorder.step
        self._recorder.end_step()
        self._choose_stride(step)

    def _is_due(self) -> bool:
        """Return whether the parameters of the current step are recorded."""
        step = self._recorder.step
        return step <= _MEASURED[1] or self._recorder.detailed or step % max(self._stride, 1) == 0

    def _choose_stride(self, step: int) -> None:
        """Choose the stride by the time of the first steps, unless the other run chose it."""
        moment = now()
        if _MEASURED[0] <= step <= _MEASURED[1]:
            self._times.append((moment - self._began, self._spent))
        if step == _MEASURED[1]:
            if not self._stride:
                length = sorted(length for length, _ in self._times)[len(self._times) // 2]
                cost = sorted(cost for _, cost in self._times)[len(self._times) // 2]
                self._stride = max(1, math.ceil(cost / max(length - cost, 1e-9) / _SHARE))
            self._recorder.add("stride", "stride", seconds=self._stride)
        self._spent, self._began = 0.0, moment

    def _add_tensors(self, kind: str, optimizer: "Any", tensors: "List[Tuple[str, Any]]") -> None:
        name = type(optimizer).__name__
        if self._recorder.detailed:
            for label, tensor in tensors:
                digests = self._recorder.digest_value(tensor)
                self._recorder.add(kind, f"{name} {label}", outputs=digests)
        else:
            self._recorder.add(kind, name, outputs=[self._join([tensor for _, tensor in tensors])])

    def _join(self, tensors: "Iterable[Any]") -> PendingDigest:
        """Return one digest of many tensors; the small ones are copied into one first."""
        torch, digests = self._torch, self._recorder.digests
        assert digests is not None
        about: "List[str]" = []
        small: "Dict[Tuple[Any, Any], List[Any]]" = {}
        parts = []
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor):
                about.append(repr(tensor))
                continue
            value = unwrap(tensor.detach())
            if value.numel() <= _JOINED and value.layout is torch.strided and not value.is_quantized:
                about.append(str(tuple(value.shape)))
                small.setdefault((value.dtype, value.device), []).append(value.reshape(-1))
            else:
                parts.append(digests.start(value))
        parts += [
            digests.start(values[0] if len(values) == 1 else torch.cat(values)) for values in small.values()
        ]
        return PendingDigest(
            " ".join(about + [part.about for part in parts]),
            [value for part in parts for value in part.sums],
            b"".join(part.rest for part in parts),
        )

    def _record(self, action: "Callable[..., None]", *args: "Any") -> None:
        """Record something; a failure is reported once, and ends the record but not the program."""
        if not self._recorder.active:
            return
        began = now()
        before, self._recorder.busy = self._recorder.busy, True
        try:
            with self._torch.no_grad():
                action(*args)
        except Exception as err:
            settings.print_line(f"reprobuild: the trace ends here: {type(err).__name__}: {err}")
            self._recorder.log.full = True
        finally:
            self._recorder.busy = before
        self._spent += now() - began


def _list_parameters(optimizer: "Any") -> "List[Tuple[str, Any]]":
    return [
        (f"group {number} parameter {index}", tensor)
        for number, group in enumerate(optimizer.param_groups)
        for index, tensor in enumerate(group["params"])
    ]


def _list_states(torch: "Any", optimizer: "Any") -> "List[Tuple[str, Any]]":
    values = []
    for number, (_, state) in enumerate(_in_order(optimizer)):
        for name, value in state.items() if isinstance(state, dict) else ():
            if isinstance(value, (torch.Tensor, int, float)):
                values.append((f"parameter {number} {name}", value))
    rates = [("learning rate", group.get("lr")) for group in optimizer.param_groups]
    return values + rates


def _in_order(optimizer: "Any") -> "List[Tuple[Any, Any]]":
    """Return (parameter, state) in the order of the parameters."""
    return [
        (tensor, optimizer.state[tensor])
        for group in optimizer.param_groups
        for tensor in group["params"]
        if tensor in optimizer.state
    ]
