"""Triton's interpreter in a process of its own: it is switched on for a whole process, when triton is imported.

``interpret(source, arguments)`` runs a kernel on CPU tensors and gives its buffers back. Numbers are passed as tensors of
one element, because the interpreter rounds Python floats to 32 bits. libdevice, which the interpreter does not have, is
torch's own functions here, in the dtype of the argument. What would be a race on a GPU is an error (``races``).
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import pickle
import select
import subprocess
import sys
import traceback
from typing import Any

import numpy as np
import torch

SECONDS = 60  # for one kernel
SPECIAL = {
    "fmod": lambda x, y: torch.from_numpy(np.fmod(x.numpy(), y.numpy())),  # torch's is not exact
    "fast_sinf": torch.sin,
    "fast_cosf": torch.cos,
    "fast_logf": torch.log,
    "sinpi": lambda x: torch.sin(np.pi * x),
    "cospi": lambda x: torch.cos(np.pi * x),
}


class Failed(Exception):
    """The interpreter raised."""


@functools.cache
def _worker() -> subprocess.Popen:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-W", "ignore", __file__]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)


def forget_worker() -> None:
    """End the process; the next kernel begins another one."""
    worker = _worker()
    _worker.cache_clear()
    worker.kill()
    for pipe in (worker.stdin, worker.stdout):
        with contextlib.suppress(OSError):  # what was not sent yet
            pipe.close()
    worker.wait()


def interpret(source, arguments: dict) -> dict[str, torch.Tensor]:
    """The buffers after a run; ``arguments``: a tensor for each buffer and number of the signature."""
    job = (source.name, source.text, dict(source.constants), source.programs, list(source.signature), source.warps, packed(arguments))  # fmt: skip
    worker = _worker()
    try:
        pickle.dump(job, worker.stdin)
        worker.stdin.flush()
        if not select.select([worker.stdout], [], [], SECONDS)[0]:
            raise Failed(f"no answer in {SECONDS} seconds: a loop that does not end?")
        kind, result = pickle.load(worker.stdout)
    except (
        BaseException
    ):  # an answer that is still to come would be taken for that of the next kernel
        forget_worker()
        raise
    if kind == "failed":
        raise Failed(result)
    return unpacked(result)


def packed(arguments: dict) -> dict[str, Any]:
    """The arguments with bytes in the place of tensors: torch's own pickles take longer than most kernels run."""
    made: dict[int, tuple] = {}
    for x in arguments.values():
        if isinstance(x, torch.Tensor) and id(x) not in made:
            whole = torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
            made[id(x)] = x.dtype, tuple(x.shape), x.stride(), x.storage_offset(), whole.numpy().tobytes()  # fmt: skip
    return {name: made.get(id(x), x) for name, x in arguments.items()}


def unpacked(arguments: dict[str, Any]) -> dict:
    """What ``packed`` was given: a tensor with two names is one again."""
    made: dict[int, torch.Tensor] = {}
    for x in arguments.values():
        if isinstance(x, tuple) and id(x) not in made:
            dtype, shape, strides, offset, data = x
            whole = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)  # fmt: skip
            made[id(x)] = torch.empty(0, dtype=dtype).set_(whole.untyped_storage(), offset, shape, strides)  # fmt: skip
    return {name: made.get(id(x), x) for name, x in arguments.items()}


# ---- in the worker


def _libdevice(triton_language, handle_type):
    class Library:
        def __getattr__(self, name):
            function = SPECIAL.get(name) or getattr(torch, name, None) or getattr(torch.special, name)  # fmt: skip

            def call(*args):
                arrays = [torch.from_numpy(a.handle.data) for a in args]
                out = function(*arrays).numpy().astype(args[0].handle.data.dtype)
                block = max(
                    (a.type for a in args), key=lambda kind: len(getattr(kind, "shape", ()))
                )
                if out.shape != tuple(getattr(block, "shape", out.shape)):
                    block = triton_language.block_type(args[0].dtype, list(out.shape))
                return triton_language.tensor(handle_type(out, args[0].dtype), block)

            return call

    return Library()


@functools.lru_cache(1024)
def _function(text: str, name: str, numbers: tuple[str, ...]):
    """The function of a source, which loads its numbers from tensors of one element. The interpreter rewrites each once."""
    import linecache

    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    lines = text.split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(f"def {name}("))
    lines[at + 1 : at + 1] = [f"    {n} = tl.load({n})" for n in numbers]
    text = "\n".join(lines)
    file = f"<interpreted {name} {hash(text)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace = {"__name__": "interpreted"}
    exec(compile(text, file, "exec"), namespace)
    namespace["libdevice"] = _libdevice(tl, TensorHandle)
    return namespace[name]


def _run(job, watch) -> dict[str, torch.Tensor]:
    name, text, constants, programs, parameters, warps, arguments = job
    numbers = [p for p in parameters if not isinstance(arguments[p], torch.Tensor)]
    tensors = {p: arguments[p] if p not in numbers else torch.tensor([arguments[p]], dtype=torch.float64 if isinstance(arguments[p], float) else torch.int64) for p in parameters}  # fmt: skip
    function = _function(text, name, tuple(numbers))
    watch.begin(warps, tensors["error"].data_ptr() if "error" in tensors else 0)
    function[(programs,)](*tensors.values(), **constants)
    if races := watch.found():
        raise Failed(f"races of {warps} warps on a GPU: {'; '.join(races)}\n{text}")
    return {p: x for p, x in tensors.items() if p not in numbers}


def _mend_splat(interpreter: Any) -> None:
    """The interpreter keeps the operands' dtype on a scalar comparison, and spreads it as that."""

    def create_splat(self, kind, x):
        out = np.full(kind.shape, x.data.flat[0], dtype=x.data.dtype)
        return interpreter.TensorHandle(out, x.dtype.scalar)

    interpreter.InterpreterBuilder.create_splat = create_splat


class _Kept:
    """What the interpreter takes for the way back."""

    def restore(self) -> None:
        pass


def _patch_once(interpreter: Any) -> None:
    """The interpreter replaces triton's language at every launch and puts it back: nothing else uses it in this process."""
    patch, patched, kept = interpreter._patch_lang, set(), _Kept()
    languages = interpreter.tl, interpreter.tl.core

    def once(fn):
        found = tuple(any(v is m for v in fn.__globals__.values()) for m in languages)
        if found not in patched:
            patch(fn)
            patched.add(found)
        return kept

    interpreter._patch_lang = once


def main() -> None:
    interpreter = importlib.import_module(
        "triton.runtime.interpreter"
    )  # switched on in this process
    _mend_splat(interpreter)
    _patch_once(interpreter)
    watch = importlib.import_module("races").watched(interpreter)
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what triton prints must not get between the answers
    while True:
        try:
            job = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = ("ok", packed(_run((*job[:-1], unpacked(job[-1])), watch)))
        except Exception:
            answer = ("failed", traceback.format_exc())
        pickle.dump(answer, channel)
        channel.flush()


if __name__ == "__main__":
    main()
