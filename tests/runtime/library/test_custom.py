"""Gradients that users write, and checkpointed loops."""

import contextlib
import itertools

import pytest
import torch

import tograph as tg
from tograph.errors import DirectiveError, GradientError


@tg.custom_gradient
def softplus(x, s):
    e = torch.exp(x) * s
    return torch.log1p(e), lambda d: (d * (1 - 1 / (1 + e)) * 2, d * e)


class Steep(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.save_for_backward(x)
        ctx.k = k
        return x * x * k

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if x.sum() > 0:
            return g * 3 * x * ctx.k, None
        return g * x * ctx.k, None


def both(x, n):
    y = x
    for _ in range(n):
        y = softplus(y, x) * Steep.apply(y, 2) * 0.3
    return y.sum()


def first_and_second(f, x, n):
    x = x.clone().requires_grad_()
    y = f(x, torch.tensor(n))
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    return y.detach(), g.detach(), torch.autograd.grad((g * g).sum(), x)[0]


@pytest.mark.parametrize("n", [1, 3])
def test_custom_gradients_in_a_loop(n):
    x = torch.tensor([0.3, 0.6], dtype=torch.float64)
    torch.testing.assert_close(
        first_and_second(tg.function(both), x, n), first_and_second(both, x, n)
    )


def test_custom_gradient_inside():
    @tg.function
    def f(x):
        x = x.requires_grad_()
        y = softplus(x, x) if x.sum() > 0 else x
        return torch.autograd.grad(y.sum(), x)[0]

    x = torch.tensor([0.3, 0.6])
    want = torch.autograd.grad(softplus(x.requires_grad_(), x).sum(), x)[0]
    torch.testing.assert_close(f(x.detach()), want)


def test_custom_gradient_survives_the_text():
    graph = tg.function(both).get_concrete_function(torch.ones(2), torch.tensor(2)).graph
    text = str(graph)
    assert text.count("gradient(") >= 2
    assert str(tg.parse_graph(text)) == text


def test_a_gradient_of_the_wrong_shape():
    @tg.custom_gradient
    def wrong(x):
        return x * 1, lambda d: d.sum()

    with pytest.raises(GradientError, match="shape"):
        tg.function(lambda x: wrong(x))(torch.ones(2))


@pytest.mark.parametrize("schedule", ["sqrt", 1, 4])
def test_checkpoint(schedule):
    def f(x, a, n):
        for _ in range(n):
            tg.set_loop_options(checkpoint=schedule)
            if x.sum() > 0:
                x = x + 0.1 * torch.tanh(x * a)
            else:
                x = x * a
        return x

    staged = tg.function(f)
    for trips, g in itertools.product((0, 1, 17), (f, staged)):
        x = torch.linspace(-1, 1.5, 5, dtype=torch.float64).requires_grad_()
        a = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
        y = g(x, a, torch.tensor(trips))
        first = torch.autograd.grad(y.sum() + 0 * a, [x, a], create_graph=True)
        second = torch.autograd.grad(sum((v * v).sum() for v in first) + 0 * (a + x.sum()), [x, a])
        if g is f:
            expected = (y, *first, *second)
        else:
            torch.testing.assert_close((y, *first, *second), expected)


def test_checkpoint_keeps_few_states():
    @tg.function
    def f(x, n):
        for _ in range(n):
            tg.set_loop_options(checkpoint="sqrt")
            x = x + 0.1 * torch.tanh(x)
        return x

    x = torch.ones(3, requires_grad=True)
    y = f(x, torch.tensor(200))
    stored = [t for t in y.grad_fn.saved_tensors if t is not None]
    assert len(stored) <= 12  # the segments, not the 200 trips


def test_checkpoint_of_a_bad_schedule():
    @tg.function
    def f(x, n):
        for _ in range(n):
            tg.set_loop_options(checkpoint="all")
            x = x + 1
        return x

    with pytest.raises(DirectiveError, match="checkpoint"):
        f(torch.ones(2), torch.tensor(2))


class Picky(torch.autograd.Function):
    """Refuses a gradient of its first argument before it is asked for one, as libraries do."""

    @staticmethod
    def forward(ctx, a, b):
        if ctx.needs_input_grad[0]:
            raise RuntimeError("no gradient of the first argument")
        ctx.save_for_backward(a)
        return a * b

    @staticmethod
    def backward(ctx, g):
        return None, g * ctx.saved_tensors[0]


def test_needs_input_grad_is_false_for_what_cannot_need_it():
    data, w = torch.arange(3.0), torch.ones(3, requires_grad=True)

    @tg.function
    def f(w):
        return (
            Picky.apply((data[None] * 2).squeeze(0), w).sum() + Picky.apply(torch.ones(3), w).sum()
        )

    f(w).backward()
    assert torch.equal(w.grad, data * 2 + 1)
    data.requires_grad_()
    with pytest.raises(RuntimeError, match="first argument"):
        f(w)


class Expanding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, s):
        ctx.save_for_backward(x)
        return x * s

    @staticmethod
    def backward(ctx, g):
        return g, g * ctx.saved_tensors[0]


def test_a_gradient_that_was_expanded_is_summed():
    def f(s):
        return (Expanding.apply(torch.arange(6.0).reshape(2, 3), s) ** 2).sum()

    s, t = (torch.full((1, 1), 2.0, requires_grad=True) for _ in range(2))
    f(s).backward()
    tg.function(f)(t).backward()
    assert torch.equal(s.grad, t.grad)


class Positive(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if x.sum() < 0:
            raise ValueError("negative")
        return g * x


class Counts:
    last = 0


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_gradient_that_may_fail_after_a_call_that_wrote_an_object(create_graph):
    @tg.function
    def f(x):
        Counts.last = 1
        y = Positive.apply(x)
        Counts.last = 2
        return y

    x = torch.ones(3, requires_grad=True)
    y = f(x)
    Counts.last = 5
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=create_graph)
    assert Counts.last == 5 and torch.equal(g, torch.ones(3))
    y = f(-x)
    with pytest.raises(ValueError, match="negative"):
        torch.autograd.grad(y.sum(), x, create_graph=create_graph)
    assert Counts.last == 2


class Noted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        print(ctx.needs_input_grad)
        ctx.save_for_backward(x, w)
        return x * w

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w, g * x


def noted(x):
    weight, y = torch.full((2,), 3.0), x
    for _ in range(2):
        if y.sum() > 0:
            y = Noted.apply(y, weight)
    return Noted.apply(x.detach(), y), Noted.apply(x * 2, x)


class Raised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, power=2):
        ctx.save_for_backward(x)
        ctx.power = power
        return x**power

    @staticmethod
    def backward(ctx, g):
        return g * ctx.power * ctx.saved_tensors[0] ** (ctx.power - 1), None


def test_more_gradients_than_arguments_are_none():
    def f(x):
        return (Raised.apply(x) + Raised.apply(x, 3)).sum()

    found = []
    for function in (f, tg.function(f)):
        x = torch.tensor([1.0, 2.0], requires_grad=True)
        found.append(torch.autograd.grad(function(x), x)[0])
    assert found[0].equal(found[1])


def test_what_a_function_is_asked_for(capsys):
    """Arguments that require a gradient, and those that do not, have traces of their own."""

    def printed(f):
        for needs in (False, True, False):
            f(torch.ones(2, requires_grad=needs))
        return capsys.readouterr().out

    staged = tg.function(noted)
    assert printed(staged) == printed(noted)
    assert staged.trace_count == 2


def test_a_program_asks_whether_gradients_are_needed():
    def f(x):
        k = 2 if x.requires_grad else 3
        return x * k, (x * k).requires_grad, x.is_leaf, (x * k).grad_fn is None

    staged = tg.function(f)
    for needs in (False, True, False, True):
        x = torch.ones(2, requires_grad=needs)
        found, expected = staged(x), f(x)
        assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
    assert staged.trace_count == 2


class Scaled(torch.autograd.Function):
    """Writes its first argument."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x.clone(), w)
        ctx.mark_dirty(x)
        x.mul_(w)
        return x, w * 2

    @staticmethod
    def backward(ctx, g, h):
        x, w = ctx.saved_tensors
        return g * w, (g * x).sum() + 2 * h


def written_in_a_loop(x, w, n):
    y, total = x * 3, 0.0
    z = y
    for _ in range(n):
        y, v = Scaled.apply(y, w)
        total = total + v
    return (y * z).sum() * total


def written_in_a_branch(x, w, n):
    y = x.sin()
    if n > 1:
        Scaled.apply(y, w)
    return (y * y).sum()


def written_inside(x, w, n):
    y = x * n
    Scaled.apply(y, w)
    return torch.stack([g.sum() for g in torch.autograd.grad((y * y).sum(), (x, w))])


@pytest.mark.parametrize("f", [written_in_a_loop, written_in_a_branch, written_inside])
def test_arguments_that_are_marked_dirty(f):
    for n in (1, 3):
        found = []
        for g in (f if f is not written_in_a_loop else in_python, tg.function(f)):
            x = torch.arange(3.0, dtype=torch.float64, requires_grad=True)
            w = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
            y = g(x, w, torch.tensor(n))
            found.append(
                (y, *torch.autograd.grad(y.sum(), (x, w), materialize_grads=True))
                if y.requires_grad
                else y
            )
        torch.testing.assert_close(*found)


def in_python(x, w, n):
    return written_in_a_loop(x, w, int(n))


@pytest.mark.parametrize(
    ("f", "kind", "text"),
    [
        (lambda x, w: Scaled.apply(x, w)[0], RuntimeError, "leaf Variable"),
        (lambda x, w: Scaled.apply((x * 2)[1:], w)[0], tg.errors.GradientError, "a view"),
    ],
)
def test_dirty_arguments_that_are_refused(f, kind, text):
    x, w = torch.ones(3, requires_grad=True), torch.tensor(0.5)
    with pytest.raises(kind, match=text):
        tg.function(f)(x, w)


class Asks(torch.autograd.Function):
    """What libraries write: no gradients at all where none is needed, and more Nones than there are arguments."""

    @staticmethod
    def forward(ctx, name, x, *weights):
        ctx.save_for_backward(x, *weights)
        return x * sum(weights)

    @staticmethod
    def backward(ctx, g):
        if any(ctx.needs_input_grad):
            x, *weights = ctx.saved_tensors
            return None, g * sum(weights), *[g * x for _ in weights], None


class TooFew(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, g):
        return g


def test_a_backward_that_returns_nothing_where_nothing_is_needed():
    f = tg.function(lambda x, a, b: Asks.apply("name", x, a, b))
    x, a, b = torch.ones(3), torch.ones(3) * 2, torch.ones(3) * 3
    assert torch.equal(f(x, a, b), x * 5)
    x.requires_grad_()
    f(x, a, b).sum().backward()
    assert torch.equal(x.grad, a + b)


def test_too_few_gradients_are_an_error_of_the_backward_pass():
    f = tg.function(lambda x, y: TooFew.apply(x, y))
    x, y = torch.ones(2), torch.ones(2)
    assert torch.equal(f(x, y), x)
    out = f(x.requires_grad_(), y)
    with pytest.raises(
        RuntimeError, match="TooFewBackward returned an incorrect number of gradients"
    ):
        out.sum().backward()
    with pytest.raises(RuntimeError, match=r"expected 2, got 1"):
        TooFew.apply(x, y).sum().backward()


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x)
        ctx.y = y
        return x * x, y * 2

    @staticmethod
    def backward(ctx, g, h):
        [x] = ctx.saved_tensors
        return g * 2 * x, h * 2


def test_an_argument_that_may_be_a_number():
    def f(x, n):
        xs = []
        for _ in range(n):
            xs.append(x.sin())
        a, b = Pair.apply(x, sum(xs))  # 0 for no items
        return (a + b).sum()

    x = torch.tensor([0.1, 0.2], requires_grad=True)
    for n in (1, 2):
        found = [torch.autograd.grad(g(x, torch.tensor(n)), x)[0] for g in (f, tg.function(f))]
        torch.testing.assert_close(*found)


class Unmaterialised(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        large = x > 0.5
        ctx.mark_non_differentiable(large)
        return x * 2, large

    @staticmethod
    def backward(ctx, g, of_large):
        return g * 2 if of_large is None else g * 5


def test_a_result_without_gradient_has_none():
    def f(x):
        y, large = Unmaterialised.apply(x)
        return y.sum() if large.any() else (y * 3).sum()

    found = []
    for g in (f, tg.function(f)):
        x = torch.tensor([0.3, 0.6], requires_grad=True)
        found.append(torch.autograd.grad(g(x), x)[0])
    torch.testing.assert_close(*found)


def test_a_gradient_that_is_a_text():
    x = torch.tensor(1.0, requires_grad=True)
    f = tg.custom_gradient(lambda v: (v * 2, lambda d: "text"))
    for g in (f, tg.function(lambda v: f(v) * 1)):
        with pytest.raises(RuntimeError, match=r"expected Variable or None \(got str\)"):
            g(x).backward()


class Holder:
    def __init__(self, scale):
        self.scale = scale


class Held(torch.autograd.Function):
    """Its backward puts another scale in the place of the holder's for a while."""

    @staticmethod
    def forward(ctx, x, holder):
        ctx.save_for_backward(x, holder.scale)
        ctx.holder = holder
        return x * holder.scale

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        before = ctx.holder.scale
        try:
            ctx.holder.scale = scale * 1
            return g * ctx.holder.scale, None
        finally:
            ctx.holder.scale = before


def test_a_backward_that_puts_back_what_it_changes():
    def f(x, s):
        return Held.apply(x, Holder(s)).sum()

    x, s = torch.ones(3, requires_grad=True), torch.tensor(2.0)
    (found,) = torch.autograd.grad(tg.function(f)(x, s), x)
    assert found.tolist() == [2.0, 2.0, 2.0]


class NoBackward(Steep):
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if ctx.k == 1:
            raise ValueError("no gradient")
        if ctx.k == 2:
            if x.sum() > 0:
                raise KeyError("above")
            raise IndexError("below")
        return g * g.data_ptr(), None


def test_a_backward_that_raises_does_so_where_a_gradient_is_asked_for():
    x = torch.ones(2)
    for k, kind in ((1, ValueError), (2, KeyError), (3, tg.errors.SymbolicValueError)):
        f = tg.function(lambda x, k=k: NoBackward.apply(x, k))
        assert f(x).tolist() == [k, k]  # of a tensor that requires none
        with pytest.raises(kind):
            f(x.clone().requires_grad_()).sum().backward()
    below = (-x).requires_grad_()
    total = tg.function(lambda x: NoBackward.apply(x, 2).sum())(below)
    with pytest.raises(IndexError):
        total.backward()


class Factor:
    """A factor that is another one for a while."""

    def __init__(self):
        self.factor, self.before = 1.0, []

    @contextlib.contextmanager
    def by(self, factor):
        self.before.append(self.factor)
        self.factor = factor
        try:
            yield
        finally:
            self.factor = self.before.pop()


def test_a_backward_that_may_fail_while_something_outside_is_changed():
    scaled = Factor()

    class Solved(torch.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a)
            with scaled.by(2.0):
                return torch.linalg.solve(a, b) * scaled.factor

        @staticmethod
        def backward(ctx, g):
            (a,) = ctx.saved_tensors
            with scaled.by(3.0):
                return None, torch.linalg.solve(a.t(), g) * scaled.factor

    @tg.function
    def f(a, b):
        return Solved.apply(a, b)

    for k in (2.0, 4.0):
        b = torch.tensor([1.0, 2.0], requires_grad=True)
        f(torch.eye(2) * k, b).sum().backward()
        assert b.grad.tolist() == [3 / k, 3 / k]
        assert (scaled.factor, scaled.before) == (1.0, [])
