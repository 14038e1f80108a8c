"""Records of each step of a PyTorch program: batches, losses, gradients, parameters, states."""

import sys

from reprobuild_runtime.trace.components import ComponentRecorder
from reprobuild_runtime.trace.patch import patch
from reprobuild_runtime.trace.places import find_place
from reprobuild_runtime.trace.recorder import Recorder, now
from reprobuild_runtime.trace.strides import Stride

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Tuple


def hook_into(torch: "Any", recorder: Recorder) -> None:
    """Record the steps of a program.

    PyTorch without hooks for all optimizers raises AttributeError, before anything is changed.
    """
    hooks = _StepHooks(torch, recorder)
    optimizer: "Any" = sys.modules["torch.optim.optimizer"]  # `torch.optim` has deleted its attribute
    before, after = optimizer.register_optimizer_step_pre_hook, optimizer.register_optimizer_step_post_hook
    before(_disable(hooks.before_step))
    after(_disable(hooks.after_step))
    patch(torch.autograd, "backward", hooks.backward)
    patch(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", hooks.next_batch)
    patch(torch.optim.Optimizer, "__init__", hooks.make_optimizer)


def _disable(function: "Callable[..., Any]") -> "Callable[..., Any]":
    def untraced(*args: "Any", **kwargs: "Any") -> "Any":
        return function(*args, **kwargs)

    vars(untraced)["_torchdynamo_disable"] = True
    return untraced


class _StepHooks:
    """The functions that PyTorch calls."""

    def __init__(self, torch: "Any", recorder: Recorder) -> None:
        self._torch, self._recorder = torch, recorder
        self._stride = Stride(recorder)
        self._components: "Optional[ComponentRecorder]" = None
        if recorder.options.components:
            self._components = ComponentRecorder(torch, recorder)
            self._components.hook_into()

    def backward(
        self, original: "Callable[..., Any]", tensors: "Any", *args: "Any", **kwargs: "Any"
    ) -> "Any":
        self._record(self._add_loss, tensors)
        if self._components:
            self._components.stop_when_due()
            self._components.end_pass()
        result = original(tensors, *args, **kwargs)
        if not self._recorder.has_optimizer:
            self._record(self._recorder.end_step)
        return result

    def _add_loss(self, tensors: "Any") -> None:
        place = find_place(4)
        self._recorder.add("loss", "loss", outputs=self._recorder.digest_value(tensors), place=place)

    def next_batch(self, original: "Callable[..., Any]", loader: "Any") -> "Any":
        before = self._recorder.busy
        # Workers send their tensors in any order, and the loader sorts them: no operation of it is recorded.
        self._recorder.busy = before or hasattr(loader, "_workers")
        try:
            batch = original(loader)
        finally:
            self._recorder.busy = before
        # A batch that is not recorded shows in the loss of its step, too.
        if self._stride.is_due() or self._recorder.detailed:
            self._record(self._add_batch, batch)
        return batch

    def _add_batch(self, batch: "Any") -> None:
        outputs, place = self._recorder.digest_value(batch), find_place(4)
        self._recorder.add(
            "batch", "DataLoader", outputs=outputs, place=place, detail=not self._stride.is_due()
        )

    def make_optimizer(
        self, original: "Callable[..., Any]", subject: "Any", *args: "Any", **kwargs: "Any"
    ) -> None:
        self._recorder.has_optimizer = True
        original(subject, *args, **kwargs)

    def before_step(self, optimizer: "Any", args: "Any", kwargs: "Any") -> None:
        if self._components:
            self._components.stop_when_due()
            self._record(self._components.add, optimizer)
        if self._stride.is_due() or self._recorder.detailed:
            gradients = [
                (name, tensor.grad)
                for name, tensor in _list_parameters(optimizer)
                if getattr(tensor, "grad", None) is not None
            ]
            self._record(self._add_tensors, "gradients", optimizer, gradients)

    def after_step(self, optimizer: "Any", args: "Any", kwargs: "Any") -> None:
        self._record(self._end_step, optimizer)

    def _end_step(self, optimizer: "Any") -> None:
        if self._stride.is_due() or self._recorder.detailed:
            self._add_tensors("parameters", optimizer, _list_parameters(optimizer))
            self._add_tensors("state", optimizer, _list_states(self._torch, optimizer))
        self._stride.end_step()

    def _add_tensors(self, kind: str, optimizer: "Any", tensors: "List[Tuple[str, Any]]") -> None:
        name, digests = type(optimizer).__name__, self._recorder.digests
        assert digests is not None
        if self._recorder.detailed:
            for label, tensor in tensors:
                values = self._recorder.digest_value(tensor)
                self._recorder.add(kind, f"{name} {label}", outputs=values, detail=True)
        if self._stride.is_due():
            self._recorder.add(kind, name, outputs=[digests.join([tensor for _, tensor in tensors])])

    def _record(self, action: "Callable[..., None]", *args: "Any") -> None:
        began = now()
        with self._torch.no_grad():
            self._recorder.guard(action, *args)
        self._stride.spend(now() - began)


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
