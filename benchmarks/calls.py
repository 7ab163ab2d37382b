"""What a call costs, by what it is called with: tograph beside eager PyTorch, and JAX and Numba where they are installed.

The functions compute next to nothing, so the time is that of the call. Times are minima of CPU time over rounds, all in one process.
Writes a table to standard output.

    python benchmarks/calls.py > benchmarks/results/calls.md
"""

import importlib.util
import time

import torch
import torch.nn.functional as F

import tograph as tg

FACTOR = 3.0
# Of cases whose sizes only the run knows.
SIGNATURES = {
    "two tensors of one open size": [tg.TensorSpec((None,), torch.float32)] * 2,
    "two tensors of an open size behind another": [tg.TensorSpec((2, None), torch.float32)] * 2,
    "two tensors of two open sizes": [tg.TensorSpec((None, None), torch.float32)] * 2,
}


def plain(x, y):
    return x * y + 1


def with_global(x):
    return x * FACTOR


def with_number(x, n):
    return x * n


def with_containers(xs, options):
    return xs[0] + xs[1] * options["scale"]


def results(x):
    return {"a": x + 1, "b": (x * 2, x - 1)}


def argument_too(x, y):
    return x, y + 1


def argument_or_new(x, y):
    return x if x.sum() > y.sum() else y + 1


def random(x):
    return x + torch.rand(4)


def list_of_numbers(x):
    return [v for v in x.tolist() if v > 1]


class Running(torch.nn.Module):
    """A layer whose weights a call reads, and a tensor that it writes."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, 4))
        self.bias = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return torch.relu(F.linear(x, self.weight, self.bias))


def keyword_only(x, *, y):
    return x * y


class Scheduled:
    """A Python number of an attribute is another one at each call."""

    def __init__(self):
        self.rate = 1.0

    def __call__(self, x):
        return x * self.rate


class Recurrent:
    """A call replaces the tensor of an attribute."""

    def __init__(self):
        self.h = torch.zeros(4)

    def step(self, x):
        self.h = self.h * 0.5 + x
        return self.h.sum()


def scheduled(wrap):
    """A call after the rate was changed, in plain Python as under tograph."""
    made = Scheduled()
    call = wrap(made.__call__)

    def run(x):
        made.rate *= 0.999
        return call(x)

    return run


def cases():
    """(name, function, arguments, keywords)"""
    x, y, total = torch.arange(4.0), torch.ones(4), torch.zeros(4)

    def assigns(x):
        total.mul_(0.5).add_(x)
        return total.sum()

    return [
        ("two tensors", plain, (x, y), {}),
        ("two tensors of one open size", plain, (x, y), {}),
        ("two tensors of an open size behind another", plain, (x.view(2, 2), y.view(2, 2)), {}),
        ("two tensors of two open sizes", plain, (x.view(2, 2), y.view(2, 2)), {}),
        ("keywords", plain, (x,), {"y": y}),
        ("a keyword-only argument", keyword_only, (x,), {"y": y}),
        ("a global is read", with_global, (x,), {}),
        ("a Python number", with_number, (x, 3), {}),
        ("a list and a dict", with_containers, ([x, y], {"scale": torch.ones(4)}), {}),
        ("results in containers", results, (x,), {}),
        ("an argument is returned too", argument_too, (x, y), {}),
        ("an argument or a new tensor", argument_or_new, (x, y), {}),
        ("a captured tensor is written", assigns, (x,), {}),
        ("random numbers", random, (x,), {}),
        ("a list as long as the run says", list_of_numbers, (x,), {}),
        ("a layer", Running(), (x,), {}),
        ("a number of an attribute changes", Scheduled(), (x,), {}),
        ("an attribute gets another tensor", Recurrent().step, (x,), {}),
    ]


def dense(x, w, b):
    return (torch.tanh(x @ w + b) ** 2).mean()


def recurrent(x, w, b):
    h, i = x, 0
    while i < 5 and h.abs().sum() > 0:
        h = torch.tanh(h @ w + b)
        i += 1
    return h.sum()


def backward(call, args):
    """The gradient of a call with respect to its tensors that require one."""
    leaves = [x for x in args if x.requires_grad]
    return lambda: torch.autograd.grad(call(*args), leaves)


def watched_cases():
    """(name, function, arguments) of calls that are joined with autograd."""
    x = torch.randn(8, 16)
    w, b = torch.randn(16, 16, requires_grad=True), torch.randn(16, requires_grad=True)
    return [
        ("a dense layer", dense, (x, w, b)),
        ("five steps of a recurrence", recurrent, (x, w, b)),
    ]


def microseconds(function, number=2000, rounds=40):
    """The shortest CPU time of a call."""
    for _ in range(6):
        function()
    best = float("inf")
    for _ in range(rounds):
        start = time.process_time_ns()
        for _ in range(number):
            function()
        best = min(best, (time.process_time_ns() - start) / number)
    return best / 1e3


def peers(x, y):
    """The first case under other compilers: name -> time."""
    found = {}
    if importlib.util.find_spec("jax") is not None:
        jax = importlib.import_module("jax")
        a, b = jax.numpy.asarray(x.numpy()), jax.numpy.asarray(y.numpy())
        jitted = jax.jit(plain)
        found["JAX"] = microseconds(lambda: jitted(a, b).block_until_ready())
    if importlib.util.find_spec("numba") is not None:
        numba = importlib.import_module("numba")
        a, b = x.numpy(), y.numpy()
        compiled = numba.njit(plain)
        found["Numba"] = microseconds(lambda: compiled(a, b))
    return found


def main():
    torch.set_num_threads(1)
    print("# Calls\n\nMicroseconds a call, shortest CPU time; read the ratios.\n")
    print("| call | eager PyTorch | tograph | tograph / eager |\n| --- | --- | --- | --- |")
    with torch.no_grad():
        for name, function, args, kwargs in cases():
            staged = tg.function(function, input_signature=SIGNATURES.get(name))
            if isinstance(function, Scheduled):
                function, staged = scheduled(lambda call: call), scheduled(tg.function)
            eager = microseconds(lambda f=function, a=args, k=kwargs: f(*a, **k))
            ours = microseconds(lambda f=staged, a=args, k=kwargs: f(*a, **k))
            print(f"| {name} | {eager:.2f} | {ours:.2f} | {ours / eager:.2f} |", flush=True)
    for name, function, args in watched_cases():
        staged = tg.function(function)
        for what, form in [
            ("with autograd", lambda f, a: lambda: f(*a)),
            ("and its gradient", backward),
        ]:
            eager, ours = (microseconds(form(f, args), 500) for f in (function, staged))
            print(f"| {name} {what} | {eager:.2f} | {ours:.2f} | {ours / eager:.2f} |", flush=True)
    with torch.no_grad():
        for name, found in peers(torch.arange(4.0), torch.ones(4)).items():
            print(f"| two tensors, {name} | {found:.2f} | | |")
    print(f"\ntorch {torch.__version__}, one thread.")


if __name__ == "__main__":
    main()
