"""Functions of tograph and of torch that stage, stop, replace or take gradients."""

import torch
from torch.utils.checkpoint import checkpoint

import tograph as tg
from tests.runtime.differentiable import stops, unsaved

D = torch.float64


def cond(x, w, n):
    y = tg.cond(n > 0, lambda: (x @ w).sin(), lambda: x * w[0])
    return tg.cond(x.sum() > 99, lambda: y, lambda: y * x)


def while_loop(x, w, n):
    _, y, z = tg.while_loop(
        lambda i, y, z: i < n, lambda i, y, z: (i + 1, torch.tanh(y @ w), z * y), (0, x, x.sin())
    )
    return y * z


def while_loop_of_a_maximum(x, w, n):
    (y,) = tg.while_loop(lambda y: y.sum() < 99, lambda y: [y * w[0].cos() + 1], [x], maximum_iterations=n)  # fmt: skip
    return y


def while_loop_of_open_shapes(x, w, n):
    _, y = tg.while_loop(
        lambda i, y: i < n,
        lambda i, y: (i + 1, torch.cat([y, y[-1:] * w[0, 0]])),
        (0, x),
        shape_invariants=[[], [None]],
    )
    return y.sin().sum() * x


def switch_case(x, w, n):
    return tg.switch_case(n, [lambda: x.sin(), lambda: x @ w, lambda: x * w.sum()])


def switch_case_with_default(x, w, n):
    return tg.switch_case(n, {0: lambda: x.sin(), 2: lambda: x @ w}, default=lambda: x * w[1])


def mapped(x, w, n):
    return tg.map_fn(lambda row: torch.tanh(row * x), w).sum() + tg.foldl(
        lambda a, row: a * row.sum().cos(), w, initializer=x.sum()
    )


def scans(x, w, n):
    rows = tg.scan(lambda h, row: torch.tanh(h * row + n), w, initializer=x)
    back = tg.scan(lambda h, row: h * row, w, reverse=True)
    return (rows * back).sum(0) + tg.foldr(lambda h, row: h.sin() * row, w, initializer=x)


def nest_mapped(x, w, n):
    sums, both = tg.map_fn(lambda p: (p[0] * p[1] if n > 0 else p[1], (p[0] @ w)), (w, w.t()))
    return sums.sum(0) * both[1]


def staged_range(x, w, n):
    for i in tg.range(n):
        x = x * (i + 1) + w[0]
    for i in tg.range(n, 0, -1):
        x = torch.tanh(x) * i
    return x


def maximum_iterations(x, w, n):
    """Of a loop that ends before: plain Python knows no maximum."""
    i = 0
    while i < n:
        tg.set_loop_options(maximum_iterations=2, parallel_iterations=1)
        x = torch.tanh(x @ w) + x
        i += 1
    return x


def shape_invariants(x, w, n):
    y = x
    for i in tg.range(n):
        tg.set_loop_options(shape_invariants=[(y, [None])])
        y = torch.cat([y, y[-1:] + w[0, i % 2]])
    return y.square()


def checkpoint_sqrt(x, w, n):
    for _ in range(2 * n):
        tg.set_loop_options(checkpoint="sqrt")
        x = torch.tanh(x @ w) + x
    return x


def checkpoint_every_second(x, w, n):
    y = x
    for _ in range(2 * n):
        tg.set_loop_options(checkpoint=2)
        y = torch.tanh(y @ w) * x if y.sum() > -9 else y
    return y


def recomputed(x, w, n):
    def part(y, w):
        for _ in range(n):
            y = torch.tanh(y @ w)
        return y

    return checkpoint(part, x, w, use_reentrant=False) * checkpoint(part, x.sin(), w, use_reentrant=False)  # fmt: skip


def recomputed_in_a_loop(x, w, n):
    for _ in range(n):
        x = checkpoint(lambda y: (y @ w).sin() * y, x, use_reentrant=False)
    return x


@tg.custom_gradient
def softplus(x):
    e = torch.exp(x)
    return torch.log1p(e), lambda d: d * (1 - 1 / (1 + e))


@tg.custom_gradient
def product(x, k):
    y = x * k if x.sum() > -9 else x
    return (y, x.sin()), lambda d, e: (d * k + e * x.cos(), d * x)


def custom_gradient(x, w, n):
    for _ in range(n):
        x, y = product(softplus(x), w[0])
        x = x + y
    return softplus(x) if n < 2 else x


@tg.custom_gradient
def clipped(x):
    return x * 1, lambda d: d.clamp(-0.1, 0.1)


@stops
def straight_through(x, w, n):
    y = x
    for _ in range(n):
        y = (y @ w).round().detach() + y - y.detach()
    return y.sin() * x


@stops
def stop_gradient(x, w, n):
    for _ in range(n):
        x = x * tg.stop_gradient(x @ w) + tg.stop_gradient(w[0] * x)
    return x * w[1]


@stops
def detached(x, w, n):
    h = x
    for i in range(n):
        h = torch.tanh(h @ w) * x
        if i == 0:
            h = h.detach()
    return h + x


@stops
def without_gradients(x, w, n):
    with torch.no_grad():
        y = x @ w
        for _ in range(n):
            y = y.sin()
    return x * y


@torch.no_grad()
def best_row(x, w):
    return w[(w @ x).argmax()] * 1


@stops
def decorated_without_gradients(x, w, n):
    for _ in range(n):
        x = x * best_row(x, w) + w[0]
    return x.sin()


@stops
def items(x, w, n):
    scale = x.sum().item()
    for _ in range(n):
        scale = scale * 0.5 + w[0, 0].item()
        x = (x * scale).sin()
    return x @ w if scale > -9 else x


@stops
def data_(x, w, n):
    y = x * w[0]
    for _ in range(n):
        y = y * x + y.data
    return y


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * x * k

    @staticmethod
    def backward(ctx, d):
        (x,) = ctx.saved_tensors
        return d * 3 * x * x * ctx.k if d.sum() < 1e9 else d, None


class Multiply(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x * y, x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, d, e):
        x, y = ctx.saved_tensors
        return d * y + e * x.cos(), d * x


def autograd_function(x, w, n):
    for _ in range(n):
        x = Cube.apply(x, 0.5) + w[0]
        a, b = Multiply.apply(x, w[1])
        x = a * b
    return Cube.apply(x, 2) if n > 0 else Multiply.apply(x, w[0])[0]


@stops
def hooks(x, w, n):
    for _ in range(n):
        y = x @ w
        y.register_hook(lambda d: d * 2)
        x = y.sin()
    if n > 0:
        y = x * 1
        y.register_hook(lambda d, k=0.5: d * k)
        return y * x
    return x


@unsaved
def python_function(x, w, n):
    for _ in range(n):
        x = tg.py_function(lambda a, b: torch.tanh(a @ b), [x, w], tg.TensorSpec([2], D)) + x
    return x


def gradient_inside(x, w, n):
    def energy(y):
        for _ in range(n):
            y = torch.tanh(y @ w)
        return y.square().sum()

    for _ in range(n):
        x = x - 0.1 * torch.func.grad(energy)(x)
    return x


def autograd_inside(x, w, n):
    y = x * w[0]
    e = (y.sin() * x).sum() if n > 0 else (y * y).sum()
    (d,) = torch.autograd.grad(e, y, create_graph=True)
    return d * x


def vjp_inside(x, w, n):
    y, pull = torch.func.vjp(lambda a, b: a @ b if n > 0 else a * b[0], x, w)
    a, b = pull(y.sin())
    return a + b.sum(0) * x


def jvp_inside(x, w, n):
    def power(y):
        for _ in range(n):
            y = torch.tanh(y @ w) * y
        return y

    y, t = torch.func.jvp(power, (x,), (w[0],))
    return y * t


def jacobians_inside(x, w, n):
    f = lambda y: (y @ w).sin() * y if n > 0 else y * y * w[0]  # noqa: E731
    return torch.func.jacrev(f)(x) @ x + torch.func.jacfwd(f)(x)[0]


def hessian_inside(x, w, n):
    def energy(y):
        for _ in range(n):
            y = (y @ w).sin()
        return (y * y * y).sum()

    return torch.func.hessian(energy)(x) @ x + x


def vmap_inside(x, w, n):
    def inner(row):
        for _ in range(2):
            row = (row * x).sin() + row @ w
        return row

    return torch.vmap(inner)(w).sum(0) * x if n > 0 else torch.vmap(torch.dot, (0, 1))(w, w)


def calls_of_functions(x, w, n):
    @tg.function
    def inner(y, k):
        for _ in range(k):
            y = torch.tanh(y @ w) + x
        return y

    y = inner(x, n)
    for i in range(n):
        y = y * inner(y, i)
    return y


def mixed_types(x, w, n):
    """f64 at both ends, f32 and bf16 between them."""
    y, m = x.float(), w.bfloat16()
    for _ in range(n):
        y = torch.tanh(y * m[0]) + m.float()[1]
    return y.double() * x + m.sum()


mixed_types.differences, mixed_types.tolerance = False, 0.05

CONSTRUCTS = [
    cond, while_loop, while_loop_of_a_maximum, while_loop_of_open_shapes, switch_case, switch_case_with_default, mapped, scans,
    nest_mapped, staged_range, maximum_iterations, shape_invariants, checkpoint_sqrt, checkpoint_every_second, recomputed,
    recomputed_in_a_loop, custom_gradient, straight_through, stop_gradient, detached, without_gradients, decorated_without_gradients,
    items, data_, autograd_function, hooks, python_function, gradient_inside, autograd_inside, vjp_inside, jvp_inside, jacobians_inside,
    hessian_inside, vmap_inside, calls_of_functions, mixed_types,
]  # fmt: skip
