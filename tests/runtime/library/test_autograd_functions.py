"""``torch.autograd.Function``: which cotangents are None, and histories that save nothing."""

import pytest
import torch

import tograph as tg


class Told(torch.autograd.Function):
    """What its gradient is shows which cotangents are None."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w)
        return x * w, x + w, (x * w).sum()

    @staticmethod
    def backward(ctx, a, b, c):
        x, w = ctx.saved_tensors
        gx = gw = None
        if a is not None:
            gx, gw = a * w * 2, a * x
        if b is not None:
            gx, gw = (b * 3, b) if gx is None else (gx + b * 5, gw + b)
        if c is not None:
            gx, gw = (c * w, x * c) if gx is None else (gx + 7 * c * w, gw - x * c)
        return gx, gw


def told(x, w, n):
    if n > 1:
        return Told.apply(x.sin(), w)
    return Told.apply(x, w)


def gradients(f, n, chosen, second):
    x, w = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in ([0.3, 0.5], [0.7, -0.5]))  # fmt: skip
    outs = f(x, w, torch.tensor(n))
    found = torch.autograd.grad(sum(outs[i].sum() for i in chosen), (x, w), create_graph=second)
    if second:
        total = sum((g * g).sum() for g in found) + (x * w).sum()
        found += torch.autograd.grad(total, (x, w))
    return [g.detach() for g in found]


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("chosen", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_cotangents_that_are_not_there_are_none(chosen, second):
    staged = tg.function(told)
    for n in (1, 2):
        torch.testing.assert_close(
            gradients(staged, n, chosen, second), gradients(told, n, chosen, second)
        )


def test_none_in_gradients_that_are_taken_inside_and_by_torch_func():
    def inside(x, w, n):
        a, b, _ = told(x, w, n)
        return torch.autograd.grad(a.sum(), x, retain_graph=True)[0] + torch.autograd.grad(b.sum(), x)[0]  # fmt: skip

    x = torch.tensor([0.3, 0.5], requires_grad=True)
    w = torch.tensor([0.7, -0.5])
    staged = tg.function(inside)
    for n in (1, 2):
        torch.testing.assert_close(staged(x, w, torch.tensor(n)), inside(x, w, n))
    of_b = torch.func.grad(lambda x: tg.function(told)(x, w, torch.tensor(1))[1].sum())(x.detach())
    torch.testing.assert_close(of_b, torch.full((2,), 3.0))


def test_what_cannot_do_with_none_raises_where_it_gets_it():
    class Sums(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 1, x * 2

        @staticmethod
        def backward(ctx, a, b):
            return a + 2 * b

    f = tg.function(Sums.apply)
    x = torch.ones(2, requires_grad=True)
    a, b = f(x)
    (a + b).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((2,), 3.0))
    with pytest.raises(TypeError, match="unsupported operand"):
        f(x)[0].sum().backward()


def test_a_function_that_saves_nothing_is_not_freed():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    def f(x):
        y = Twice.apply(x) + 1
        return torch.autograd.grad(y.sum(), x)[0] + torch.autograd.grad(y.sum(), x)[0]

    x = torch.ones(2, requires_grad=True)
    torch.testing.assert_close(tg.function(f)(x), f(x))


def test_what_is_computed_without_gradients_needs_none():
    class Distance(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            if any(ctx.needs_input_grad):
                raise RuntimeError("no gradients")
            return (a - b).square()

    parameter = torch.nn.Parameter(torch.ones(3))

    @tg.function
    def f(x):
        with torch.no_grad():
            y = torch.cat([parameter, x])
            if y.sum() > 0:
                y = y * 2
            return Distance.apply(y, y + 1)

    torch.testing.assert_close(f(torch.ones(3)), torch.ones(6))


class ByBranch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        if x.sum() > 0:
            y, ctx.k = x * 2, 3
            ctx.save_for_backward(x, y)
        else:
            y, ctx.k = x * 5, 4
            ctx.save_for_backward(x, x * 7)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * (x + y) * ctx.k


class Searched(torch.autograd.Function):
    """Its result is None until the first iteration has come to its end."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, out := Searched.search(x))
        return out

    @staticmethod
    def search(x):
        best = None
        for n in range(3):
            y = x * 0.5**n
            try:
                torch.linalg.cholesky(torch.eye(3) + y.diag())
            except RuntimeError:
                return best
            if best is None or y.norm() < best.norm():
                best = y.clone()
            if best.norm() < 0.3:
                return best
        return best

    @staticmethod
    def backward(ctx, g):
        x, out = ctx.saved_tensors
        return g.unsqueeze(0).squeeze(0) * x + out.unsqueeze(0).squeeze(0)


@pytest.mark.parametrize("function", [ByBranch, Searched])
def test_what_is_saved_and_given_depends_on_a_staged_condition(function):
    """What a branch saved was out of scope; a result that may be None had no gradient, and what was saved of it was None."""

    def f(x):
        y = function.apply(x)
        if y is None:
            return x * 0
        return y * 3 if y.sum() > 0 else y

    staged = tg.function(f)
    for values in ([1.0, 2.0, 0.5], [-0.5, 0.1, -0.25], [-4.0, 1.0, 1.0], [0.1, 0.1, 0.1]):
        x, z = (torch.tensor(values, requires_grad=True) for _ in range(2))
        wanted, found = f(x), staged(z)
        torch.testing.assert_close(found, wanted)
        wanted.sum().backward()
        found.sum().backward()
        torch.testing.assert_close(z.grad, x.grad)


class OfItsResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return g * y * x


class BySetup(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.tanh(), x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*inputs, *output)

    @staticmethod
    def backward(ctx, a, b):
        x, t, s = ctx.saved_tensors
        g = 0
        if a is not None:
            g = g + a * (1 - t * t) * x
        if b is not None:
            g = g + b * s * t
        return g


class InAttributes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.result, ctx.both = y, [y, x]
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.result * ctx.both[0] * ctx.both[1]


def saved(x):
    return OfItsResult.apply(x)


def set_up(x):
    return BySetup.apply(x)[0] if x[0] > 0 else BySetup.apply(x)[0] * BySetup.apply(x)[1]


def attributes(x):
    return InAttributes.apply(x)


def twice(apply):
    def f(x):
        for _ in range(torch.tensor(2)):
            x = apply(x) * 0.5
        return x

    return f


ORDERS = [*((f, 3, k) for f in (saved, set_up, attributes, twice(saved)) for k in range(3)), *((twice(set_up), 2, k) for k in range(2))]  # fmt: skip


@pytest.mark.parametrize(("apply", "order", "inside"), ORDERS)
def test_a_gradient_uses_results_of_the_function(apply, order, inside):
    """To the third order, of a branch in a loop to the second one; ``inside`` of these are taken inside of the function."""

    def derivative(f):
        return lambda x: torch.autograd.grad(f(x).sum(), x, create_graph=True)[0]

    def run(wrap):
        f = apply
        for k in range(order):
            f = derivative(wrap(f) if k == inside else f)
        xs = ([0.5, -0.3], [-0.5, 0.2])
        return [f(torch.tensor(x, dtype=torch.float64, requires_grad=True)).detach() for x in xs]

    torch.testing.assert_close(run(tg.function), run(lambda f: f))


class OfTheFirst(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        [w] = ctx.saved_tensors
        return g * w, None


class OneEach(torch.autograd.Function):
    """Each result has the gradient of one argument."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, w)
        return x * w, x + w

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return None if g is None else g * w, None if h is None else h * 2


class Sometimes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        if g.sum() > 2:
            return g * w, g * x
        return g * w, None


class Six(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return tuple(x * k for k in range(6))

    @staticmethod
    def backward(ctx, *cotangents):
        total = 0
        for k, g in enumerate(cotangents):
            total = total + 100 if g is None else total + g * k
        return total


@tg.custom_gradient
def of_the_first(x, w):
    return x * w, lambda g: (g * w, None)


def repeated(x, w, n):
    for _ in range(n):
        x = of_the_first(x, w)
    return x


def carried(x, w, n):
    for _ in range(n):
        w = OfTheFirst.apply(x + 1, w)
    return w


def by_some(x, w, n):
    a, b = OneEach.apply(x, w)
    if n > 1:
        y = a
    else:
        y = a + b
    return y * x


WITH_NONE = {
    "none": lambda x, w, n: OfTheFirst.apply(x, w),
    "another way": lambda x, w, n: OfTheFirst.apply(x, w) + w,
    "in a branch": lambda x, w, n: OfTheFirst.apply(x, w) if n > 1 else x * w,
    "tg.custom_gradient": lambda x, w, n: of_the_first(x, w),
    "in a loop": repeated,
    "of the state of a loop": carried,
    "behind an infinite derivative": lambda x, w, n: OfTheFirst.apply(x, torch.sqrt(w * 0)),
    "of a cotangent": lambda x, w, n: OneEach.apply(x, torch.sqrt(w * 0))[0],
    "of a cotangent in a branch": lambda x, w, n: OneEach.apply(x, w)[0 if n > 1 else 1],
    "of a cotangent that a branch leaves out": by_some,
    "by a condition": lambda x, w, n: Sometimes.apply(x, w) * 2,
    "many cotangents": lambda x, w, n: Six.apply(x)[1] * w if n > 1 else Six.apply(x)[2] + w,
}


@pytest.mark.parametrize("taken", ["outside", "inside", "wrt w"])
@pytest.mark.parametrize("program", WITH_NONE.values(), ids=WITH_NONE)
def test_gradients_that_are_none(program, taken):
    def inside(x, w, n):
        return torch.autograd.grad(program(x, w, n).sum(), (x, w), allow_unused=True)

    def found(f, n):
        x = torch.tensor([1.0, 2.0], requires_grad=taken != "wrt w")
        w = torch.tensor([3.0, 4.0], requires_grad=True)
        y = f(x, w, torch.tensor(n))
        if taken != "inside":
            (y.sum() * 2).backward()
            y = x.grad, w.grad
        return [None if g is None else g.tolist() for g in y]

    function = inside if taken == "inside" else program
    staged = tg.function(function)
    for n in (1, 2):
        assert found(staged, n) == found(function, n)


def test_gradients_of_one_of_several_results_that_are_none():
    def found(f):
        x, w = (torch.ones(2, requires_grad=True) for _ in range(2))
        outs = f(x, w)
        rows = [torch.autograd.grad(y.sum(), (x, w), allow_unused=True, retain_graph=True) for y in outs]  # fmt: skip
        return [[None if g is None else g.tolist() for g in row] for row in rows]

    function = OneEach.apply
    assert found(tg.function(lambda x, w: function(x, w))) == found(function) == [
        [[1.0, 1.0], None],
        [None, [2.0, 2.0]],
    ]  # fmt: skip


class Steps(torch.autograd.Function):
    """``ctx`` keeps a list with one row for each step, of which only the run knows how many there are."""

    @staticmethod
    def forward(ctx, x, w, end):
        ctx.save_for_backward(w)
        ctx.steps = []
        while x.norm() < end:
            x = x + torch.tanh(x * w)
            ctx.steps.append((x, len(ctx.steps)))
        return x

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        gw = torch.zeros_like(w)
        for x, k in reversed(ctx.steps):
            g, gw = g * (1 + w / (1 + k)), gw + g * x
        return g, gw, None


@pytest.mark.parametrize("inside", [False, True])
def test_a_list_that_a_staged_loop_fills_in_ctx(inside):
    def function(x, w, end):
        y = Steps.apply(x, w, end)
        return torch.autograd.grad(y.sum(), (x, w)) if inside else y

    def found(f, end):
        x, w = (torch.full((2,), v, requires_grad=True) for v in (0.5, 1.5))
        y = f(x, w, torch.tensor(end))
        if not inside:
            y.sum().backward()
            y = x.grad, w.grad
        return torch.stack(y).flatten().tolist()

    staged = tg.function(function)
    for end in (4.0, 1.0, 0.1):
        assert found(staged, end) == pytest.approx(found(function, end))
    assert staged.trace_count == 1


def halved(x, upper):
    """As code of libraries falls back: the handler binds a name of its own in a branch."""
    try:
        raise NotImplementedError
    except NotImplementedError:
        if upper:
            half = x * 0.5
        else:
            half = x / 2
        found = x - half
    return found


class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(w)
        return halved(x * w, True)

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return halved(g * w, False), None


def test_a_backward_whose_handler_has_a_name_of_its_own():
    x, w = torch.ones(2, requires_grad=True), torch.tensor(3.0)
    tg.function(lambda x, w: Halved.apply(x, w))(x, w).sum().backward()
    assert x.grad.tolist() == [1.5, 1.5]
    assert "None, None, ('found',))" in tg.to_code(halved)


class Asking(torch.autograd.Function):
    """A gradient that depends on what the saved tensors require."""

    @staticmethod
    def forward(ctx, x, w):
        y, k = x * w, (x > 0).sum()
        ctx.mark_non_differentiable(k)
        ctx.save_for_backward(x, w, y, k)
        return y, k

    @staticmethod
    def backward(ctx, g, _):
        x, w, y, k = ctx.saved_tensors
        s = 1.0
        for i, saved in enumerate((x, w, y, k)):
            if saved.requires_grad:
                s += 10**i
        with torch.enable_grad():
            z = torch.sin(y)
        (d,) = torch.autograd.grad(z, y, g)
        return d * w * s, d * x * s


@pytest.mark.parametrize("asked", [(True, False), (False, True), (True, True)])
def test_what_a_saved_result_requires(asked):
    grads = []
    for convert in (lambda f: f, tg.function):
        x, w = (torch.tensor([2.0, 3.0], requires_grad=a) for a in asked)
        convert(lambda x, w: Asking.apply(x, w)[0])(x, w).sum().backward()
        grads.append([x.grad, w.grad])
    torch.testing.assert_close(*grads)
