"""Every differentiable construct against finite differences of orders 1 and 2, in float64, and against eager PyTorch."""

import pytest
import torch

import tograph as tg
from tests.random_functions import eager
from tests.runtime.differentiable import calls, data, library, statements, tensors

D = torch.float64
CONSTRUCTS = [
    f for module in (statements, calls, data, tensors, library) for f in module.CONSTRUCTS
]

# ---- If, While, Case and Call inside each other, three deep, in every order

BLOCKS = {
    "if": ["if y.sum() > 0.1 * n:", "    {}", "else:", "    y = y * w[0] - x"],
    "while": ["i{0} = 0", "while i{0} < n:", "    {}", "    i{0} += 1", "    y = torch.sin(y + 0.1 * x)"],
    "case": ["match n:", "    case 0:", "        y = y.cos()", "    case 2:", "        {}", "    case _:", "        y = x - y"],
    "call": ["y = inner{0}(y, x, w, n)"],
}  # fmt: skip
ORDERS = [
    ("if", "while", "case"), ("if", "case", "while"), ("while", "if", "call"), ("while", "while", "if"),
    ("while", "call", "case"), ("case", "while", "if"), ("case", "call", "while"), ("call", "while", "call"),
    ("call", "if", "case"), ("call", "case", "call"), ("while", "case", "while"), ("while", "while", "while"),
]  # fmt: skip


def nested(order):
    """The source of a function whose blocks stand in each other in an order, outermost first."""
    helpers, lines = [], ["y = torch.tanh(y @ w) + y"]
    for depth, kind in reversed(list(enumerate(order))):
        if kind == "call":
            body = ["y = y * 1.5", *lines, "return y"]
            helpers += ["@tg.function", f"def inner{depth}(y, x, w, n):"]
            helpers += [f"    {line}" for line in body]
        around, lines, inner = BLOCKS[kind], [], lines
        for line in around:
            if "{}" in line:
                lines += [line.replace("{}", x) for x in inner]
            else:
                lines.append(line.replace("{0}", str(depth)))
    body = ["y = x", *lines, "return y"]
    return "\n".join(
        [*helpers, "def f(x, w, n):", *("    " + x for x in ["y = x", *lines, "return y"])]
    )


def function_of(order, tmp_path):
    path = tmp_path / f"{'_'.join(order)}.py"
    path.write_text(nested(order) + "\n")
    space = {"torch": torch, "tg": tg}
    exec(compile(path.read_text(), str(path), "exec"), space)
    return space["f"]


# ---- the checks


def arguments(n):
    torch.manual_seed(4)
    x, w = torch.rand(2, dtype=D) + 0.2, torch.rand(2, 2, dtype=D) - 0.2
    return x.requires_grad_(), w.requires_grad_(), torch.tensor(n)


def derivatives(function, n):
    """The value, whether it requires a gradient, and the gradients of orders 1 (None where there is none) and 2."""
    *wrt, n = arguments(n)
    y = function(*wrt, n)
    first = second = [None, None]
    if y.requires_grad:
        first = torch.autograd.grad(y.sin().sum(), wrt, create_graph=True, allow_unused=True)
        total = sum((d * d).sum() for d in first if d is not None)
        if total.requires_grad:
            second = torch.autograd.grad(total, wrt, allow_unused=True, materialize_grads=True)
    first = [None if d is None else d.detach() for d in first]
    return y.requires_grad, [y.detach(), *first, *second]


def same(found, wanted, rtol):
    assert found[0] == wanted[0]
    assert [x is None for x in found[1]] == [x is None for x in wanted[1]]
    torch.testing.assert_close(
        [x for x in found[1] if x is not None], [x for x in wanted[1] if x is not None],
        rtol=rtol, atol=1e-7 if rtol < 1e-5 else rtol,
    )  # fmt: skip


def check(function, f, n, differences=True):
    """Values and gradients of orders 1 and 2 are those of eager PyTorch, and with ``differences`` finite differences agree."""
    wanted = eager(lambda: derivatives(f, n))
    same(derivatives(function, n), wanted, getattr(f, "tolerance", 1e-7))
    if differences and getattr(f, "differences", True) and wanted[0]:
        assert torch.autograd.gradcheck(function, arguments(n), fast_mode=True)
        if any(d is not None for d in wanted[1][3:]):
            assert torch.autograd.gradgradcheck(function, arguments(n), fast_mode=True)


@pytest.mark.parametrize("f", CONSTRUCTS, ids=lambda f: f.__name__)
def test_construct(f):
    function = tg.function(f)
    for n in (0, 1, 2):
        check(function, f, n, differences=n == 2)


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_nested(order, tmp_path):
    f = function_of(order, tmp_path)
    check(tg.function(f), f, 2)
