"""Every differentiable construct against finite differences of orders 1 and 2, in float64, and against eager PyTorch."""

import pytest
import torch

import tograph as tg

D = torch.float64


@tg.function
def layer(x, w):
    if x.sum() > 0.3:
        return torch.tanh(x @ w)
    return x @ w - x


def if_(x, w, n):
    if x.sum() > n - 2:
        y = (x @ w).sin()
    else:
        y = x * w.sum()
    return y


def conditional_expression(x, w, n):
    return (x @ w).sin() if x.sum() > n - 2 else x * x * w[0]


def while_(x, w, n):
    i = 0
    while i < n:
        x = torch.tanh(x @ w) + x * w[0, 0]
        i += 1
    return x


def match_(x, w, n):
    match n:
        case 0:
            return x.sin()
        case 1:
            return x @ w
        case _:
            return x * w.sum() + x.exp()


def switch_case(x, w, n):
    return tg.switch_case(n, [lambda: x.sin(), lambda: x @ w, lambda: x * w.sum()])


def calls(x, w, n):
    y = layer(x, w)
    for _ in range(n):
        y = layer(y, w) * layer(x, w)
    return y


def attempt(x, w, n):
    y = x @ w
    try:
        if y.sum() > n:
            raise ValueError("large")
        y = y.sin()
    except ValueError:
        y = y * y * w[1]
    return y * x


def appends(x, w, n):
    rows = [x]
    for i in range(n):
        if i % 2 == 0:
            rows.append(rows[-1] @ w)
        else:
            rows.append(rows[-2].sin())
    rows[0] = rows[-1] * 2
    return torch.stack(rows).square().sum(0) + rows.pop()


def tensor_list(x, w, n):
    rows = tg.TensorList(D, [2])
    for i in range(n):
        rows = rows.push(x * i).push(x @ w)
    rows, last = rows.push(x).pop()
    return rows.push(last.sin()).stack().square().sum(0) * last


def tensor_array(x, w, n):
    cells = tg.TensorArray(D, size=0, dynamic_size=True, element_shape=[2])
    for i in range(n + 1):
        cells = cells.write(i, torch.tanh(x @ w) * (i + 1))
    return cells.stack().sum(0) * cells.read(n).cos()


def writes(x, w, n):
    y = torch.zeros(3, 2, dtype=D)
    for i in range(n):
        y[i % 3] = x.cos() * w[0] + y[(i + 1) % 3]
        y[0] *= w[1]
    y[:, 1] += x.sum()
    return y.sin()


def views(x, w, n):
    y = w.clone()
    row, column = y[0], y.t()[1]
    if x.sum() > n - 2:
        row.mul_(x)
    for _ in range(n):
        column.add_(x * row.sum())
    y.diagonal().sin_()
    return y @ row


def break_(x, w, n):
    for i in range(5):
        x = torch.tanh(x @ w)
        if i >= n:
            break
    else:
        x = x * 2
    return x


def continue_(x, w, n):
    y = x
    for i in range(n):
        if i % 2 == 1:
            continue
        y = y * x.cos() + w[0]
    return y


def early_return(x, w, n):
    for i in range(n):
        x = x @ w
        if i == 1:
            return x.exp()
        x = x + w[1]
    return x.sin()


def zero_dimensional(x, w, n):
    a = x[0]
    for _ in range(n):
        a = a - (a * a * a - w.sum()) / (3 * a * a + 1)
    return a


def mapped(x, w, n):
    return tg.map_fn(lambda row: torch.tanh(row * x), w).sum() + tg.foldl(
        lambda a, row: a * row.sum().cos(), w, initializer=x.sum()
    )


def logical(x, w, n):
    if x.sum() > -9 and not (w.sum() > 99) and n < 9:
        x = x @ w
    return x * (x.sin() if n > 0 or x.sum() > 5 else x)


def comprehension(x, w, n):
    return torch.stack([(row * x).sin() if n > 1 else row @ w for row in w]).sum(0)


def recursion(x, w, n):
    def power(y, k):
        return y if k == 0 else torch.tanh(power(y, k - 1) @ w)

    return power(x, 3) * n


def unused_in_a_branch(x, w, n):
    return x * 2 if n > 0 else w @ x


def state_without_gradient(x, w, n):
    h = torch.zeros(2, dtype=D)
    for _ in range(n):
        h = torch.tanh(h @ w + x)
    return h


def optional(x, w, n):
    best = None
    for i in range(n):
        y = (x * (i + 1)).sin() @ w
        if best is None or y.sum() > best.sum():
            best = y
    return x if best is None else best * x


def overwritten(x, w, n):
    y, z = x * 3, x
    for _ in range(n):
        z = y * 2
        y.add_(w[0])
    return z + y.sin()


def swaps(x, w, n):
    a, b = x, x @ w
    for _ in range(n):
        a, b = b, a * b.cos()
    return a + 2 * b


def dictionary(x, w, n):
    state = {"a": x, "b": (x.sin(), w[0])}
    while n > 0:
        state = {"a": state["b"][0] @ w, "b": (state["a"] * 0.5, state["b"][1] * x)}
        n = n - 1
    return state["a"] + state["b"][1]


def linear_algebra(x, w, n):
    a = w @ w.t() + torch.eye(2, dtype=D)
    for _ in range(n):
        x = torch.linalg.solve(a, x) + torch.linalg.cholesky(a)[1] * torch.logdet(a)
    return x


def complex_writes(x, w, n):
    c = torch.complex(x, w[0])
    d = torch.zeros(2, 2, dtype=c.dtype)
    d[:, 0], d[-1:] = c.conj(), c * 1j
    if n > 0:
        d[0, 1] = 2j
        d[..., -1] = c[0] * x
    return torch.view_as_real(d @ c).sin().sum(1)


CONSTRUCTS = [
    if_, conditional_expression, while_, match_, switch_case, calls, attempt, appends, tensor_list, tensor_array, writes,
    views, break_, continue_, early_return, zero_dimensional, mapped, logical, comprehension, recursion,
    unused_in_a_branch, state_without_gradient, optional, overwritten, swaps, dictionary, linear_algebra,
    complex_writes,
]  # fmt: skip


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


def check(f, n):
    """Values and gradients of orders 1 and 2 are those of eager PyTorch, and finite differences agree."""
    args = arguments(n)
    function = tg.function(f)
    found, requiring = [], []
    for g in (function, f):
        y = g(*args)
        requiring.append(y.requires_grad)
        first = [0 * a for a in args[:2]]
        if y.requires_grad:
            total = y.sin().sum() + sum(0 * (a * a).sum() for a in args[:2])
            first = torch.autograd.grad(total, args[:2], create_graph=True)
        total = sum((d * d).sum() for d in first)
        second = torch.autograd.grad(total, args[:2], allow_unused=True)
        second = [torch.zeros_like(a) if d is None else d for d, a in zip(second, args)]
        found.append([y.detach(), *(d.detach() for d in first), *second])
    torch.testing.assert_close(*found)
    assert requiring[0] == requiring[1]
    assert torch.autograd.gradcheck(function, args)
    if y.requires_grad:  # else there is nothing to differentiate twice, in eager PyTorch either
        assert torch.autograd.gradgradcheck(function, args)


@pytest.mark.parametrize("n", [0, 1, 2])
@pytest.mark.parametrize("f", CONSTRUCTS, ids=lambda f: f.__name__)
def test_construct(f, n):
    check(f, n)


@pytest.mark.parametrize("order", ORDERS, ids="-".join)
def test_nested(order, tmp_path):
    check(function_of(order, tmp_path), 2)
