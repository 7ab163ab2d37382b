"""What the GPU code assumes of a device, its driver, torch and Triton, one by one: the first sections of ``benchmarks/gpu.py``.

Each part says whether an assumption holds, and if not what was found in its place. None of them has been seen on a GPU yet. Those on
random numbers compare bits with eager PyTorch.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.metadata
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from gpu_draws import DRAWS

import tograph as tg
from tograph.runtime.gpu import capture, fused_code, planner
from tograph.runtime.gpu.execute import Chunked
from tograph.runtime.kernels import driver, images, triton_jit
from tograph.runtime.kernels.recording import Pool
from tograph.runtime.kernels.triton_text import HEADER, Source

PROBE = "the probe of conditional nodes"
FUSED = "the probe of kernels that set handles"
SIZES = (1002,), (3001, 1002), (5,), (300, 1000)  # of random numbers
PRINTS = 9000  # of one loop: the ring is half full more than once
LONG = (
    1024,
    200,
)  # the side and the number of iterations of a loop that prints for longer than the host waits
DOUBLE = Source("double", HEADER + """

@triton.jit
def double(x, o, XBLOCK: tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(o + i, tl.load(x + i) * 2)
""", {"x": "*fp32", "o": "*fp32"}, {"XBLOCK": 128}, 8, 1)  # fmt: skip


def probes(bench: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """The first parts, on which all others stand; on a CPU only what there is to read."""
    yield "versions", functools.partial(versions, bench)
    if not bench.gpu:
        return
    yield "kernels start by Triton", functools.partial(starts, bench, "kernels start by Triton", _by_triton)  # fmt: skip
    yield "kernels start from images", functools.partial(starts, bench, "kernels start from images", images.start)  # fmt: skip
    yield "parameters of kernels", functools.partial(parameters, bench)
    yield "the setter of handles loads", functools.partial(setters, bench)
    yield PROBE, lambda: bench.row(name=PROBE, **_said(capture.plainly(str(bench.device))))  # fmt: skip
    yield FUSED, lambda: bench.row(name=FUSED, **_said(capture.fuses(str(bench.device))))


def assumptions(bench: Any) -> Iterator[tuple[str, Callable[[], None]]]:
    """The other parts; on a CPU there is nothing to assume."""
    if not bench.gpu:
        yield "all", lambda: bench.row(name="all", note="only on a GPU")
        return
    kinds = {"": capture.Captured, ", setters fused": fused, ", in chunks": Chunked}
    for name, (fn, make) in NODES.items():
        for how, runner in kinds.items():
            yield name + how, functools.partial(runs, bench, name + how, fn, make, runner)
    yield "memory of bodies is the graph's", functools.partial(bodies_keep_memory, bench)
    yield "a failed capture leaves torch as it was", functools.partial(failed_capture, bench)
    for name, fn in CALLS.items():
        yield name, functools.partial(called, bench, name, fn)
    for size in SIZES:  # where time ends, every kind is there in one size
        for name, draw in DRAWS.items():
            yield f"{name} {size}", functools.partial(drawn, bench, name, draw, size)


def _said(why: str) -> dict[str, Any]:
    return {"holds": "NO", "found": why[:200]} if why else {"holds": "yes"}


def _close(got: Sequence[Any], want: Sequence[Any]) -> str:
    """What differs; empty where nothing does."""
    for a, b in zip(got, want, strict=True):
        x, y = torch.as_tensor(a), torch.as_tensor(b)
        if x.shape != y.shape or not torch.allclose(x.cpu().double(), y.cpu().double(), rtol=1e-4, atol=1e-5, equal_nan=True):  # fmt: skip
            return f"{x.flatten()[:3].tolist()} for {y.flatten()[:3].tolist()}"
    return ""


def versions(bench: Any) -> None:
    for name in ("torch", "triton", "cuda-bindings"):
        try:
            found = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = "not installed"
        bench.row(name=name, found=found)
    bench.row(name="CUDA of torch", found=str(torch.version.cuda))
    bench.row(name="kernels from images", **_said(driver.loadable()))
    bench.row(name="conditional nodes", **_said(driver.available(driver.SWITCH)))
    if bench.gpu:
        bench.row(name="driver", found=".".join(map(str, driver.version())))
        bench.row(name="capability", found=str(torch.cuda.get_device_capability(bench.device)))
        bench.row(name="Triton's launcher", **_said(triton_jit.launcher()))


# ---- kernels and nodes


def _by_triton(source: Source, arguments: dict[str, Any]) -> None:
    triton_jit.launch(source, [arguments[n] for n in source.signature])


def starts(bench: Any, name: str, start: Callable) -> None:
    x, out = torch.arange(1024.0, device=bench.device), torch.zeros(1024, device=bench.device)
    start(DOUBLE, {"x": x, "o": out})
    bench.row(name=name, **_said(_close([out], [x * 2])))


def parameters(bench: Any) -> None:
    """Triton's kernels take what their signature says, then two pointers to scratch memory."""
    binary = triton_jit.compiled(DOUBLE, images.architecture(bench.device.index or 0))
    made = driver.Function(binary.asm["cubin"], DOUBLE.name, binary.shared)
    sizes, wanted = driver.parameter_sizes(made.handle), [8] * (len(DOUBLE.signature) + 2)
    bench.row(name="parameters of kernels", **_said("" if sizes == wanted else f"sizes {sizes} for {wanted}"))  # fmt: skip


def setters(bench: Any) -> None:
    """The driver knows the function that sets a handle, in PTX that it assembles."""
    driver.prepare(bench.device)
    bench.row(name="the setter of handles loads", holds="yes")


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


def _square(bench: Any, side: int, n: int) -> list[torch.Tensor]:
    made = torch.Generator().manual_seed(0)
    x, w = (torch.randn(side, side, generator=made) / side**0.5 for _ in range(2))
    return [x.to(bench.device), w.to(bench.device), torch.tensor(n, device=bench.device)]


NODES: dict[str, tuple[Callable, Callable]] = {
    "WHILE with a product": (count_down, lambda b, n: _square(b, 64, n)),
    "IF": (either, lambda b, n: _square(b, 64, n)),
    "SWITCH": (one_of_three, lambda b, n: _square(b, 64, n)),
    "nodes in nodes": (nested, lambda b, n: _square(b, 64, n)),
    "streams that fork in a body": (side_by_side, lambda b, n: _square(b, 512, n)),
    "a library function that allocates in a body": (
        without_out_form,
        lambda b, n: _square(b, 64, n),
    ),
    "two loops at the same time": (two_loops, lambda b, n: _square(b, 512, n)),
    "attention and a sort in a body": (attending, lambda b, n: _square(b, 64, n)),
    "small kernels are one": (small_kernels, lambda b, n: _square(b, 64, n)),
    "positions in a body": (looking_up, lambda b, n: _square(b, 64, n)),
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
        why = why or _close(made.run(*given), want)
    forks = f"{made.forks} forks" if isinstance(made, capture.Captured) and made.forks else ""
    bench.row(name=name, **(_said(why) if why else {"holds": "yes", "found": forks}))


def bodies_keep_memory(bench: Any) -> None:
    """Others take all memory that is free, and write it, between two runs."""
    given = _square(bench, 256, 4)
    made, want = capture.Captured(planned(without_out_form, given)), without_out_form(*given)
    first = made.run(*given)
    taken = [torch.full((size,), float("nan"), device=bench.device) for size in (1 << 8, 1 << 12, 1 << 16, 1 << 20) for _ in range(200)]  # fmt: skip
    why = _close(first, [want]) or _close(made.run(*given), [want])
    kept = all(bool(x.isnan().all()) for x in taken)
    bench.row(name="memory of bodies is the graph's", **_said(why or ("" if kept else "a graph writes memory of others")))  # fmt: skip


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
    bench.row(name="a failed capture leaves torch as it was", **_said(why or _close([x], [torch.tensor([2.0])])))  # fmt: skip


# ---- calls of functions


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


def moving(bench: Any) -> str:
    """A large input that is elsewhere in each call: nodes are told its address."""
    fn = tg.function(lambda x, w: (x * 2 + 1) @ w)
    w, kept = torch.eye(1024, device=bench.device), []
    for k in range(8):
        kept.append(torch.full((4096, 1024), float(k), device=bench.device))
        if why := _close([fn(kept[-1], w)], [kept[-1] * 2 + 1]):
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
        if why := _close([v, got], [want, want.sum()]):
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
    return _close(w, [(x @ x).tanh() @ x for x in given])


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
        if why := _close(numbers_of(f)(x, n, c), f(x.cpu(), n, c)):
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
        if why := _close(fn(x, number), [x * 0.5**n, number]):
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
        if why := _close(fn(x, w, target), want):
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
        if why := _close(fn(x, w, target), want) or _close(fn(x, w, target), want):
            return f"behind {expected.__name__}: {why}"
    return ""


CALLS = {
    "attention is its formula": formula,
    "inputs that move are told to nodes": moving,
    "variables are written by the graph": stored,
    "calls on several streams": streams,
    "numbers go there and back": numbers,
    "the host visits a loop": visits,
    "prints in a loop of the device": messages,
    "a class out of range": classes,
}


def called(bench: Any, name: str, fn: Callable) -> None:
    bench.row(name=name, **_said(fn(bench)))


# ---- random numbers


def drawn(bench: Any, name: str, draw: Callable, size: tuple[int, ...]) -> None:
    """Bits beside eager PyTorch's, in two calls: the second one draws on."""
    x = torch.ones(size, device=bench.device)
    fn = tg.function(lambda x: (draw(x), draw(x)))
    made = capture.Captured(planned(fn.python_function, [x]))
    found = []
    for run in (lambda: [*draw_twice(draw, x)], lambda: made.run(x)):
        torch.manual_seed(1234)
        found.append([y.clone() for _ in range(2) for y in run()])
    pairs = list(zip(*found, strict=True))
    same = sum(int((a == b).sum()) for a, b in pairs)
    total = sum(a.numel() for a, _ in pairs)
    worst = max(float((a.double() - b.double()).abs().max()) for a, b in pairs)
    why = "" if same == total else f"{same} of {total} equal, the largest difference {worst:.3g}"
    bench.row(name=f"{name} {size}", **_said(why))


def draw_twice(draw: Callable, x: torch.Tensor) -> tuple[Any, Any]:
    return draw(x), draw(x)
