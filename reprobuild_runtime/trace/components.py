"""Records of the components of a training that a resumed run must restore, and the stop of a run."""

import os
import signal
import sys
import threading
import weakref

from reprobuild_runtime.trace import generators
from reprobuild_runtime.trace.patch import patch
from reprobuild_runtime.trace.recorder import Recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

_RATES = ("lr", "momentum", "betas", "weight_decay")  # of a group of parameters, as schedulers change them
_GRACE = 30  # seconds after SIGTERM, as Slurm gives them


class ComponentRecorder:
    """Records the components of a training: model, optimizer, scheduler, scaler, generators and input.

    The model of a step is the first module that is trained in it: in training mode, with gradients, and with parameters
    that need them. Losses, metrics, transforms and validations are none.
    """

    def __init__(self, torch: "Any", recorder: Recorder) -> None:
        self._torch, self._recorder = torch, recorder
        self._model: "Callable[[], Any]" = _nothing  # a weak reference
        self._scalers: "List[Callable[[], Any]]" = []  # weak references
        self._begun = False  # a module ran since the last backward pass
        self._terminated = False

    def hook_into(self) -> None:
        """Take note of models and scalers."""
        module: "Any" = sys.modules["torch.nn.modules.module"]
        module.register_module_forward_pre_hook(self._make_hook())
        owners: "Dict[int, Any]" = {}
        for name in ("amp", "cuda.amp"):
            scaler = getattr(sys.modules.get(f"torch.{name}"), "GradScaler", None)
            if scaler is not None:
                owners[id(vars(scaler).get("__init__"))] = scaler
        for owner in owners.values():
            patch(owner, "__init__", self._make_scaler)

    def _make_hook(self) -> "Callable[[Any, Any], None]":
        compiling = getattr(getattr(self._torch, "compiler", None), "is_compiling", None) or _never

        def enter(module: "Any", inputs: "Any") -> None:
            if not compiling():  # nothing of it is in a compiled graph
                self._enter(module, inputs)

        return enter

    def _enter(self, module: "Any", inputs: "Any") -> None:
        if (
            self._begun
            or not module.training
            or not self._torch.is_grad_enabled()
            or not self._recorder.active
        ):
            return
        if not any(parameter.requires_grad for parameter in module.parameters()):
            return
        self._begun = True
        self._model = weakref.ref(module)
        if inputs:  # arguments with names are not passed to a hook
            self._recorder.guard(self._add_input, inputs)

    def _add_input(self, inputs: "Any") -> None:
        self._recorder.add("component", "input", outputs=self._recorder.digest_value(inputs))

    def _make_scaler(self, original: "Any", scaler: "Any", *args: "Any", **kwargs: "Any") -> None:
        original(scaler, *args, **kwargs)
        self._scalers.append(weakref.ref(scaler))

    def end_pass(self) -> None:
        """Take the next module for a model: a backward pass begins."""
        self._begun = False

    def add(self, optimizer: "Any") -> None:
        """Record all components before a step of an optimizer."""
        digests = self._recorder.digests
        assert digests is not None
        groups = optimizer.param_groups
        tensors = [tensor for group in groups for tensor in group["params"]]
        parts: "Dict[str, List[Any]]" = {
            "model": tensors + _list_buffers(self._model()),
            "optimizer": _list_states(optimizer, tensors),
            "scheduler": [group[name] for group in groups for name in _RATES if name in group],
        }
        scalers = [scaler for scaler in (reference() for reference in self._scalers) if scaler is not None]
        if scalers:
            parts["scaler"] = [scaler.state_dict() for scaler in scalers]
        for name, values in parts.items():
            self._recorder.add("component", name, outputs=[digests.join(values)])
        for name, state in generators.list_states():
            self._recorder.add("component", f"generator {name}", outputs=[self._recorder.digest_state(state)])

    def stop_when_due(self) -> None:
        """End this process if it has made its last step: by SIGTERM, and by SIGKILL if it goes on."""
        stop, step = self._recorder.options.stop, self._recorder.step
        if not stop or step < stop or self._terminated or not self._recorder.active:
            return
        self._terminated = True
        timer = threading.Timer(_GRACE, os.kill, (os.getpid(), signal.SIGKILL))
        timer.daemon = True
        timer.start()
        os.kill(os.getpid(), signal.SIGTERM)


def _nothing() -> None:
    """Be a reference to no model."""


def _never() -> bool:
    return False


def _list_buffers(model: "Any") -> "List[Any]":
    """Return the buffers that a checkpoint holds; a cache can be another one."""
    if model is None:
        return []
    return [
        buffer
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None and name not in getattr(module, "_non_persistent_buffers_set", ())
    ]


def _list_states(optimizer: "Any", tensors: "List[Any]") -> "List[Any]":
    return [
        value
        for tensor in tensors
        for _, value in sorted(optimizer.state.get(tensor, {}).items())
        if not callable(value)
    ]
