"""The workloads on a GPU beside eager PyTorch, torch.compile, torch.while_loop and JAX."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from gpu_bench import Bench, Part, prepared
from torch.utils._pytree import tree_leaves

import tograph as tg
from tograph.bench import peers, torch_forms
from tograph.bench.workloads import WORKLOADS, Workload

COMPILING: dict[str, Callable] = {
    "compile": torch.compile,
    "reduce-overhead": lambda f: torch.compile(f, mode="reduce-overhead"),
}


def compiling(bench: Bench) -> Iterator[Part]:
    """The first calls of the peers that compile, beside other sections: what is compiled is on disk when they are measured."""
    for key, workload in WORKLOADS.items():
        yield f"{key} compile", functools.partial(first_call, bench, key, workload)


def makes_tensors(workload: Workload, device: torch.device) -> bool:
    """Whether a program makes tensors of no given device: they are on a GPU inside of ``with device`` only.

    That is a mode which sees all functions of torch, and costs each call of eager PyTorch and of ours; other programs run without.
    """
    try:
        found = prepared(workload, lambda f: f, device)()
    except RuntimeError:  # tensors of two devices meet
        return True
    results = [x for x in tree_leaves(found) if isinstance(x, torch.Tensor)]
    return any(x.device.type != device.type for x in results)


def mode(workload: Workload, device: torch.device) -> AbstractContextManager[Any]:
    """What a workload is measured in."""
    return device if makes_tensors(workload, device) else contextlib.nullcontext()


def first_call(bench: Bench, key: str, workload: Workload) -> None:
    with mode(workload, bench.device):
        start = time.perf_counter()
        prepared(workload, COMPILING["compile"], bench.device)()
        bench.wait()
    bench.row(name=f"{key} compile", first_call_s=time.perf_counter() - start)


def workloads(bench: Bench) -> Iterator[Part]:
    """Ours and eager first, then the peers that compile: where time ends, the shortest comparison is whole."""
    for peer, wrap in {"tograph": tg.function, "eager": lambda f: f, **COMPILING}.items():
        for key, workload in WORKLOADS.items():
            yield f"{key} {peer}", functools.partial(one_workload, bench, key, workload, peer, wrap)
    for key, form in torch_forms.FORMS.items():
        if WORKLOADS[key].kind == "forward":
            compiled = functools.partial(lambda f, form: torch.compile(form), form=form)
            yield f"{key} while_loop", functools.partial(one_workload, bench, key, WORKLOADS[key], "while_loop", compiled)  # fmt: skip

    if "jax" in peers.installed():
        for key in WORKLOADS:
            yield f"{key} jax", functools.partial(one_jax, bench, key)


def one_jax(bench: Bench, key: str) -> None:
    """JAX on its default device, which is a GPU where its own packages know one."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leave memory to the others
    try:
        call = peers.PEERS["jax"](key, WORKLOADS[key].inputs(), 0)
    except peers.Refused as why:
        return bench.row(name=f"{key} jax", note=str(why))
    where = importlib.import_module("jax").devices()[0].platform
    if bench.gpu and where != "gpu":
        return bench.row(name=f"{key} jax", note=f"its device is {where}")
    start = time.perf_counter()
    call()
    first = time.perf_counter() - start
    return bench.row(workload=key, peer="jax", microseconds=bench.latency(call) * 1e6, first_call_s=first)  # fmt: skip


def one_workload(bench: Bench, key: str, workload: Workload, peer: str, wrap: Callable) -> None:
    with mode(workload, bench.device):
        call = prepared(workload, wrap, bench.device)
        start = time.perf_counter()
        call()
        bench.wait()
        first = time.perf_counter() - start
        bench.row(workload=key, peer=peer, microseconds=bench.latency(call) * 1e6, first_call_s=first)  # fmt: skip
