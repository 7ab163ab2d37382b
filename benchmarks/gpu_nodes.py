"""Plans with conditional nodes, by what each needs of a device: each runs several times, as one CUDA graph in two ways, and in chunks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from gpu_probes import close, said

import tograph as tg
from tograph.runtime.gpu import capture, fused_code, planner
from tograph.runtime.kernels.recording import Pool

SIDE = 512  # of products that are worth a stream of their own


def count_down(x, w, n):
    while n > 0:
        x = torch.tanh(x @ w)
        n = n - 1
    return x, n


def either(x, w, n):
    if n > 3:
        y = x @ w
    else:
        y = x @ w.t() + 1
    return y * 2


def one_of_three(x, w, n):
    return tg.switch_case(n % 3, [lambda: x @ w, lambda: w @ x, lambda: x @ w @ x])


def nested(x, w, n):
    i = torch.zeros_like(n)
    while i < n:
        j = torch.zeros_like(n)
        while j < i:
            x = torch.tanh(x @ w)
            j = j + 1
        if x.sum() > 1000:
            break
        i = i + 1
    return x, i


def side_by_side(x, w, n):
    a = b = x
    while n > 0:
        a, b = torch.tanh(a @ w @ w), torch.sin(b @ w.t() @ w)
        n = n - 1
    return a, b


def two_loops(x, w, n):
    """Loops that may run at the same time: each sets a handle of its own."""
    a, i = x, torch.zeros_like(n)
    while i < n:
        a = torch.tanh(a @ w @ w @ w)
        i = i + 1
    b, j = w, torch.zeros_like(n)
    while j < n + 1:
        b = torch.sin(b @ x @ x @ x)
        j = j + 1
    return a, b


def attending(x, w, n):
    """Attention, a softmax and a sort of torch's own in a body."""
    while n > 0:
        y = F.scaled_dot_product_attention(x[None, None], w[None, None], x[None, None])[0, 0]
        x = torch.sort(y + x, dim=1)[0] * 0.5
        n = n - 1
    return x


def looking_up(x, w, n):
    """Positions that a body computes, read and written."""
    i = torch.ones_like(n.expand(8)).cumsum(0)
    while n > 0:
        x = x.index_put((i * 7 % 64,), torch.index_select(w, 0, (i + n) % 64), accumulate=True)
        n = n - 1
    return x


def without_out_form(x, w, n):
    """A library function that allocates its results, in a body."""
    while n > 0:
        x = x + torch.conv1d(x[None], w[:, :, None])[0] * 0.1
        n = n - 1
    return x


def small_kernels(x, w, n):
    """Items of lists, a counter and a condition: kernels that are one, with barriers between."""
    rows, sums, i = [x.select(0, 0)], [x.sum()], torch.zeros_like(n)
    while i < n:
        x = torch.tanh(x @ w)
        total = x.sum()
        rows.append(x.select(0, 0) * 2)
        sums.append(total)
        i = i + (total > -1e9)
    return x, torch.stack(rows), torch.stack(sums), i


def square(bench: Any, side: int, n: int) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    x, w = (torch.randn(side, side, generator=made) / side**0.5 for _ in range(2))
    return [x.to(bench.device), w.to(bench.device), torch.tensor(n, device=bench.device)]


NODES: dict[str, tuple[Callable, Callable]] = {
    "WHILE with a product": (count_down, lambda b, n: square(b, 64, n)),
    "IF": (either, lambda b, n: square(b, 64, n)),
    "SWITCH": (one_of_three, lambda b, n: square(b, 64, n)),
    "nodes in nodes": (nested, lambda b, n: square(b, 64, n)),
    "streams that fork in a body": (side_by_side, lambda b, n: square(b, SIDE, n)),
    "a library function that allocates in a body": (
        without_out_form,
        lambda b, n: square(b, 64, n),
    ),
    "two loops at the same time": (two_loops, lambda b, n: square(b, SIDE, n)),
    "attention and a sort in a body": (attending, lambda b, n: square(b, 64, n)),
    "small kernels are one": (small_kernels, lambda b, n: square(b, 64, n)),
    "positions in a body": (looking_up, lambda b, n: square(b, 64, n)),
}


def fused(plan: Any) -> capture.Captured:
    return capture.Captured(plan, fuse=fused_code.fused_for)


def planned(fn: Callable, given: Sequence[Any]) -> Any:
    made = tg.function(fn).get_concrete_function(*given)
    return planner.plan(made.value_graph, whole=False)


def runs(bench: Any, name: str, fn: Callable, make: Callable, runner: Callable) -> None:
    """Several calls, with other numbers of iterations and other branches."""
    made = runner(planned(fn, make(bench, 3)))
    why = ""
    for n in (3, 0, 5, 1, 4):
        given = make(bench, n)
        want = fn(*given)
        want = want if isinstance(want, tuple) else (want,)
        why = why or close(made.run(*given), want)
    forks = f"{made.forks} forks" if isinstance(made, capture.Captured) and made.forks else ""
    bench.row(name=name, **(said(why) if why else {"holds": "yes", "found": forks}))


def bodies_keep_memory(bench: Any) -> None:
    """Others take all memory that is free, and write it, between two runs."""
    given = square(bench, 256, 4)
    made, want = capture.Captured(planned(without_out_form, given)), without_out_form(*given)
    first = made.run(*given)
    taken = [torch.full((size,), float("nan"), device=bench.device) for size in (1 << 8, 1 << 12, 1 << 16, 1 << 20) for _ in range(200)]  # fmt: skip
    why = close(first, [want]) or close(made.run(*given), [want])
    kept = all(bool(x.isnan().all()) for x in taken)
    bench.row(name="memory of bodies is the graph's", **said(why or ("" if kept else "a graph writes memory of others")))  # fmt: skip


def failed_capture(bench: Any) -> None:
    before, x = torch.cuda.current_stream(), torch.ones(1, device=bench.device)
    try:
        with Pool(bench.device).recording(torch.cuda.CUDAGraph(), torch.cuda.Stream()):
            x.item()
        why = "a synchronisation in a capture was no error"
    except RuntimeError:
        why = "" if torch.cuda.current_stream() == before else "another stream is current"
    torch.rand(3, device=bench.device)  # raises where the generator believes that it is captured
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x += 1
    graph.replay()
    bench.row(name="a failed capture leaves torch as it was", **said(why or close([x], [torch.tensor([2.0])])))  # fmt: skip
