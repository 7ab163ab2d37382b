"""The ways to run a workload. A peer gives, for a workload's arrays, a call without arguments.

Peers other than torch's are imported by name when they are asked for: they are optional.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .. import function
from . import programs
from .workloads import WORKLOADS, Workload


class Refused(Exception):
    """A peer has no form of a workload, or does not take it; the text says why."""


def _torch_call(wrap: Callable, workload: Workload, arrays: dict[str, np.ndarray]) -> Callable:
    tensors = [torch.from_numpy(np.array(a)) for a in arrays.values()]
    if workload.kind == "train":
        x, target, *weights = tensors
        for w in weights:
            w.requires_grad_()
        momenta = [torch.zeros_like(w) for w in weights]
        step = wrap(programs.train_step)
        return lambda: step(x, target, weights, momenta)
    form = wrap(workload.program)
    if workload.kind == "gradient":
        weights = [t.requires_grad_() for t in tensors[2:]]

        def gradient():
            h = form(*tensors)
            return torch.autograd.grad((h * h).sum(), weights)

        return gradient

    return functools.partial(form, *tensors)


def _tograph(key, arrays, threads):
    return _torch_call(function, WORKLOADS[key], arrays)


def _eager(key, arrays, threads):
    return _torch_call(lambda f: f, WORKLOADS[key], arrays)


def _compile(key, arrays, threads):
    return _torch_call(torch.compile, WORKLOADS[key], arrays)


def _while_loop(key, arrays, threads):
    forms = importlib.import_module(".torch_forms", __package__).FORMS
    if key not in forms:
        raise Refused("no while_loop form")
    return _torch_call(lambda f: torch.compile(forms[key], fullgraph=True), WORKLOADS[key], arrays)


def _script(key, arrays, threads):
    def wrap(f):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            try:
                return torch.jit.script(f)
            except Exception as error:
                raise Refused(f"TorchScript: {str(error).strip().splitlines()[0][:80]}") from error

    return _torch_call(wrap, WORKLOADS[key], arrays)


def _library(module: str) -> Callable:
    def prepare(key, arrays, threads):
        forms = importlib.import_module(module, __package__)
        if key not in forms.FORMS and not (module == ".jax_forms" and key == "f"):
            raise Refused("no form of it")
        return forms.prepare(key, arrays, threads)

    return prepare


PEERS: dict[str, Callable[[str, dict, int], Callable[[], Any]]] = {
    "tograph": _tograph,
    "eager": _eager,
    "compile": _compile,
    "while_loop": _while_loop,
    "script": _script,
    "jax": _library(".jax_forms"),
    "numba": _library(".numba_forms"),
}
TITLES = {
    "tograph": "tograph",
    "eager": "eager PyTorch",
    "compile": "torch.compile",
    "while_loop": "torch.compile, loop by hand",
    "script": "TorchScript",
    "jax": "JAX, loop by hand",
    "numba": "Numba, by hand",
}
NEEDS = {"jax": "jax", "numba": "numba"}


def load(peer: str) -> None:
    """Import what a peer needs, so that its first call does not count imports."""
    if peer in NEEDS:
        importlib.import_module(f".{peer}_forms", __package__)


def installed() -> list[str]:
    """The peers that this environment has."""
    return [p for p in PEERS if p not in NEEDS or importlib.util.find_spec(NEEDS[p]) is not None]
