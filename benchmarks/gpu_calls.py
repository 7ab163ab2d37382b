"""Calls of functions whose way to a GPU stands on an assumption, each beside plain PyTorch; with what the runner of the plan tells of itself."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from gpu_probes import close, said

import tograph as tg

PRINTS = 9000  # of one loop: the ring is half full more than once
LONG = (
    1024,
    200,
)  # the side and the number of iterations of a loop that prints for longer than the host waits


def formula(bench: Any) -> str:
    """Attention is recorded as products, whichever kernel torch would take for it; and gives what torch's kernel gives."""
    for dtype in (torch.float32, torch.bfloat16):
        q = torch.randn(2, 4, 64, 64, device=bench.device, dtype=dtype)
        fn = tg.function(lambda q: F.scaled_dot_product_attention(q, q * 0.5, q, is_causal=True))
        text = str(fn.get_concrete_function(q).graph)
        if "_scaled_dot_product" in text:
            return f"{dtype}: {text[text.index('_scaled_dot_product') :][:60]}"
        want = F.scaled_dot_product_attention(q, q * 0.5, q, is_causal=True)
        difference = float((fn(q) - want).abs().max())
        if difference > (0.05 if dtype is torch.bfloat16 else 1e-3):
            return f"{dtype}: a difference of {difference:.2g}"
    return ""


def products(x, w):
    """So many steps that a CUDA graph is worth it (``direct``)."""
    return (x * 2 + 1) @ w @ w @ w @ w @ w @ w


def moving(bench: Any) -> str:
    """A large input that is elsewhere in each call: nodes are told its address."""
    fn = tg.function(products)
    w, kept = torch.eye(1024, device=bench.device), []
    for k in range(8):
        kept.append(torch.full((4096, 1024), float(k), device=bench.device))
        if why := close([fn(kept[-1], w)], [kept[-1] * 2 + 1]):
            return f"call {k}: {why}"
    runner, why = runner_of(fn)
    if why or getattr(runner, "told", 0):
        return why
    return f"{type(runner).__name__}: no node was told"  # fmt: skip


def runner_of(fn: Any) -> tuple[Any, str]:
    """(what runs a function's plan, why there is none)."""
    scheduled = fn.concrete_functions[-1].scheduled
    if scheduled.native is None:
        return None, f"level {scheduled.level}: {scheduled.reason}"
    return scheduled.native._runner, ""


def stored(bench: Any) -> str:
    """Variables that the graph writes where they are."""
    v = torch.ones(300, 300, device=bench.device)

    @tg.function
    def step(x):
        v.mul_(0.5).add_(x @ x)
        return v.sum()

    x, want = torch.eye(300, device=bench.device), torch.ones(300, 300)
    for k in range(8):
        got, want = step(x), want * 0.5 + torch.eye(300)
        if why := close([v, got], [want, want.sum()]):
            return f"call {k}: {why}"
    runner, why = runner_of(step)
    return why or ("" if runner.plan.stored else "it copies")


def streams(bench: Any) -> str:
    """Calls on two streams, without waiting."""
    fn, w = tg.function(lambda x: (x @ x).tanh() @ x), []
    both = [torch.cuda.Stream() for _ in range(2)]
    given = [torch.full((512, 512), 1e-3 * k, device=bench.device) for k in range(1, 13)]
    fn(given[0])
    torch.cuda.synchronize()
    for k, x in enumerate(given):
        with torch.cuda.stream(both[k % 2]):
            w.append(fn(x))
    torch.cuda.synchronize()
    return close(w, [(x @ x).tanh() @ x for x in given])


def numbers(bench: Any) -> str:
    """Numbers and tensors of the CPU, there and back."""

    def f(x, n, c):
        k = 0
        while x.sum() < n:
            x = x + c.sum()
            k += 1
        return x, k, c + k

    for n in (5.0, 50.0, 2.0, 7.0):
        x, c = torch.ones(3, device=bench.device), torch.tensor([1.0, 2.0])
        if why := close(numbers_of(f)(x, n, c), f(x.cpu(), n, c)):
            return f"{n}: {why}"
    return ""


numbers_of = functools.cache(tg.function)


def visits(bench: Any) -> str:
    """The host does its part where a branch is taken; the device runs the iterations between."""

    def told(x, n):
        i = torch.zeros_like(n)
        while i < n:
            x = x * 0.5
            if i % 50 == 49:
                tg.py_function(lambda k: seen.append(int(k)), [i], None)
            i = i + 1
        return x, i

    seen: list[int] = []
    fn = tg.function(told)
    for n in (120, 0, 51):
        x, number = torch.ones(64, device=bench.device), torch.tensor(n, device=bench.device)
        seen.clear()
        if why := close(fn(x, number), [x * 0.5**n, number]):
            return f"{n}: {why}"
        if seen != list(range(49, n, 50)):
            return f"{n}: the host was at {seen}"
    runner, why = runner_of(fn)
    return why or ("" if runner.plan.nodes().get("while") else "the host runs the loop")


def messages(bench: Any) -> str:
    """Kernels write into memory of the host, in order; a loop comes back where the ring is half full, and where it is asked to."""

    def told(x, n):
        i = 0
        while i < n:
            x = x * 0.5 + i
            print(i, f"{x.sum():.1f}")
            i = i + 1
        return x, i

    def long(x, n):
        while n > 0:
            for _ in range(40):
                x = x @ x * 1e-3
            print("at", n)
            n = n - 1
        return x, n

    fn, slow = tg.function(told), tg.function(long)
    for n in (3, PRINTS, 0, PRINTS):
        given = torch.ones(64, device=bench.device), torch.tensor(n, device=bench.device)
        got, want = (_said_by(f, given) for f in (fn, told))
        if n < PRINTS and got != want:
            return f"{n}: {got[:100]!r} for {want[:100]!r}"
        if (lines := got.count("\n")) != n:
            return f"{n}: {lines} lines"
    side, trips = LONG
    given = torch.eye(side, device=bench.device), torch.tensor(trips, device=bench.device)
    if (got := _said_by(slow, given)) != (want := _said_by(long, given)):
        return f"{len(got)} characters for {len(want)}"
    runner, why = runner_of(fn)
    return why or ("" if runner.plan.nodes().get("while") and runner.plan.ring else "the host runs the loop")  # fmt: skip


def _said_by(fn: Callable, given: Sequence[Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as text:
        fn(*given)
    return text.getvalue()


def classes(bench: Any) -> str:
    """A class out of range in a step of training is an error of the call; where it was written unseen, of a later one. The device goes on."""

    def step(x, w, target):
        w = w.detach().requires_grad_()
        loss = F.cross_entropy(x @ w, target)
        return loss.detach(), torch.autograd.grad(loss, w)[0]

    fn = tg.function(step)
    x, w = torch.ones(64, 32, device=bench.device), torch.eye(32, 10, device=bench.device)
    target = torch.zeros(64, dtype=torch.int64, device=bench.device)
    want = step(x, w, target)
    for k in range(5):
        if why := close(fn(x, w, target), want):
            return f"call {k}: {why}"
    for write, expected in ((target.copy_, tg.errors.OutOfRangeError), (target.data.copy_, tg.errors.LateFailureError)):  # fmt: skip
        write(torch.full_like(target, 10))
        for _ in range(3):  # one that comes late is on its way
            try:
                fn(x, w, target)
                bench.wait()
            except expected:
                break
            except Exception as error:  # whatever else a device makes of it is what the row tells
                return f"{type(error).__name__}: {error}"[:200]
        else:
            return f"no {expected.__name__}"
        target.zero_()
        if why := close(fn(x, w, target), want) or close(fn(x, w, target), want):
            return f"behind {expected.__name__}: {why}"
    return ""


def lying(bench: Any) -> str:
    """Results have the strides of eager PyTorch's on the device."""
    w = torch.rand(5, 3, 2, 2, device=bench.device)
    programs = (lambda x: F.conv2d(x, w).relu(), lambda x: x.permute(1, 0, 2, 3) * 2, lambda x: (x + 1)[:, :, 1:, ::2])  # fmt: skip
    x = torch.rand(2, 3, 8, 8, device=bench.device)
    for k, fn in enumerate(programs):
        staged = tg.function(fn)
        for given in (x, x.to(memory_format=torch.channels_last)):
            got, want = staged(given), fn(given)
            if got.stride() != want.stride():
                return f"program {k}: {got.stride()} for {want.stride()}"
            if why := close([got], [want]):
                return f"program {k}: {why}"
    return ""


CALLS = {
    "attention is its formula": formula,
    "inputs that move are told to nodes": moving,
    "variables are written by the graph": stored,
    "calls on several streams": streams,
    "results lie as eager PyTorch's": lying,
    "numbers go there and back": numbers,
    "the host visits a loop": visits,
    "prints in a loop of the device": messages,
    "a class out of range": classes,
}


def called(bench: Any, name: str, fn: Callable) -> None:
    bench.row(name=name, **said(fn(bench)))
