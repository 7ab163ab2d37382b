"""Tensors of a device that is not the host's, without one: what mixes both is an error, as on a GPU.

``OnDevice`` says that it is on ``cuda:0``; its elements are in a tensor of the CPU, ``here``. In the scope of ``Apart`` tensors are made on either
side, an op has all its tensors on one (numbers of the host apart), copies go between, and page-locked memory is known: only that is a kernel's beside the
device's own. Everything is done at once: what a host may not read yet is not seen.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tests.runtime.gpu import fake_driver
from tests.runtime.gpu.fake_driver import Cuda, install
from tests.runtime.gpu.simulated import Generator
from tests.runtime.kernels import triton_worker
from tests.runtime.kernels.triton_samples import flats
from tograph.runtime.gpu import draws, planner, program
from tograph.runtime.kernels import device

PLACE = torch.device("cuda:0")
BETWEEN = ("aten::copy_", "aten::_foreach_copy_", "aten::_to_copy", "aten::to")
ALONE = ("prim::device", "aten::_local_scalar_dense")


class OnDevice(torch.Tensor):
    here: torch.Tensor

    @staticmethod
    def __new__(cls, here: torch.Tensor) -> OnDevice:
        made = torch.Tensor._make_wrapper_subclass(cls, here.shape, strides=here.stride(), storage_offset=here.storage_offset(), dtype=here.dtype, device=PLACE, dispatch_device=True)  # fmt: skip
        made.here = here
        return made

    def __repr__(self) -> str:  # type: ignore[override]
        return repr(self.here)

    def __format__(self, form: str) -> str:
        return format(self.here, form)

    def record_stream(self, stream: Any) -> None: ...

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # fmt: skip
        name = getattr(function, "__name__", "")
        if name in ("data_ptr", "untyped_storage"):
            return getattr(args[0].here, name)()
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return done(op, args, kwargs or {})


class Mixed(RuntimeError):
    """Expected all tensors to be on the same device."""


def inside(x: Any) -> Any:
    """What is on the device as it is here."""
    return x.here if isinstance(x, OnDevice) else x


def done(op: Any, args: Any, kwargs: dict[str, Any], locked: Any = None) -> Any:
    """An op, on the side of its tensors."""
    name = op.name().split(".")[0]
    if name == "prim::device":
        return PLACE
    given = [x for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
    there = [x for x in given if isinstance(x, OnDevice)]
    host = [x for x in given if not isinstance(x, OnDevice) and (x.dim() or not there)]
    wanted = kwargs.get("device")
    if there and host and name not in BETWEEN:
        raise Mixed(f"{op}: {[tuple(x.shape) for x in host]} of the host")
    pinned = kwargs.pop("pin_memory", None) if wanted is None or str(wanted) == "cpu" else None
    kwargs = {k: torch.device("cpu") if k == "device" and v is not None else v for k, v in kwargs.items()}  # fmt: skip
    made = op(*tree_map(inside, args), **tree_map(inside, kwargs))
    if pinned and locked is not None:
        locked.add(made)
    device = torch.device(wanted).type == "cuda" if wanted is not None else bool(there)
    if wanted is None and name in BETWEEN:
        device = isinstance(given[0], OnDevice)
    own = {id(x.here): x for x in there}
    if not device:
        return made
    return tree_map(lambda x: own[id(x)] if id(x) in own else on_device(x), made)


class Locked:
    """Page-locked memory of the host, which stays."""

    def __init__(self) -> None:
        self._known: dict[int, torch.Tensor] = {}

    def add(self, x: torch.Tensor) -> None:
        self._known[x.untyped_storage().data_ptr()] = x

    def has(self, x: torch.Tensor) -> bool:
        return x.untyped_storage().data_ptr() in self._known


class Apart(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.locked = Locked()

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return done(op, args, dict(kwargs or {}), self.locked)

    def started(self, arguments: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """What a kernel is given, as it is here; an error for memory that a device cannot reach."""
        for name, x in arguments.items():
            if not isinstance(x, OnDevice) and not self.locked.has(x):
                raise Mixed(f"a kernel that is given {name}, memory of the host")
        return {n: inside(x) for n, x in arguments.items()}


def on_device(tree: Any) -> Any:
    return tree_map(lambda x: OnDevice(x) if isinstance(x, torch.Tensor) and not isinstance(x, OnDevice) else x, tree)  # fmt: skip


def on_host(tree: Any) -> Any:
    return tree_map(inside, tree)


def apart(monkeypatch: Any, cuda: Cuda) -> Apart:
    """The driver of ``fake_driver`` with memory that the host cannot see."""
    install(monkeypatch, cuda)
    _guarded()
    mode = Apart()

    def launch(source: Any, arguments: dict[str, torch.Tensor]) -> None:
        given = mode.started({n: arguments[n] for n in source.signature})
        before = flats(given)
        for name, x in triton_worker.interpret(source, before).items():
            if not torch.equal(x.view(torch.uint8), before[name].view(torch.uint8)):
                torch.as_strided(given[name], x.shape, (1,)).copy_(x)

    def at_address(x: Any, address: int, before: Any = fake_driver.at_address) -> Any:
        return OnDevice(before(x.here, address))

    for place, name, value in (
        (torch.cuda, "_lazy_init", lambda: None), (torch.cuda, "current_device", lambda: 0),
        (torch.cuda, "default_generators", [Generator(cuda)]), (device, "launch", launch), (device, "prepare", lambda kernels, place: None),
        (fake_driver, "at_address", at_address), (draws, "blocks", lambda device: 512),
        (program, "tuner", lambda place: planner.estimate), (program, "Loops", lambda *_: Untimed()),
        (program.Program, "_fits", lambda self, inputs: True),
    ):  # fmt: skip
        monkeypatch.setattr(place, name, value)
    return mode


@functools.cache
def _guarded() -> None:
    """Have a torch without CUDA take the guard of meta tensors, which does nothing, for that of a device of CUDA."""
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    guards = (ctypes.c_void_p * 20).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    cuda, meta = 1, 14  # c10::DeviceType
    if not guards[cuda]:
        guards[cuda] = guards[meta]


class Untimed:
    """In the place of ``loop_tuning.Loops``: nothing is measured."""

    def shape(self, key: str) -> None:
        return None

    def measure(self, *_: Any) -> bool:
        return False
