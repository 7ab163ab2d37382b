"""Tensors of the caller that a function writes while gradients are on, and those that it gives back."""

import itertools
import types

import pytest
import torch
from torch import nn

import tograph as tg


def both(program):
    """What a program gives, natively and with its function converted."""
    return [program(wrap) for wrap in (lambda f: f, tg.function)]


def same(a, b):
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, torch.Tensor):
        return a.requires_grad == b.requires_grad and torch.allclose(a, b)
    return a == b


def layer():
    made = nn.Linear(2, 2)
    with torch.no_grad():
        made.weight.fill_(1.0)
        made.bias.fill_(0.0)
    return made


PROGRAMS = []


@PROGRAMS.append
def an_argument_with_a_history(wrap):
    f = wrap(lambda x: x.mul_(3).sum())
    w = torch.ones(2, requires_grad=True)
    x = w * 2
    y = f(x)
    (first,) = torch.autograd.grad(y, w, retain_graph=True)
    x.sum().backward()
    return first, w.grad, x.is_leaf


@PROGRAMS.append
def an_argument_that_gets_one(wrap):
    def program(x, w):
        if w.sum() > 0:
            x[0] = w[0] * 3
        return x.sum()

    f = wrap(program)
    w, x = torch.ones(2, requires_grad=True), torch.zeros(3)
    f(x, w)
    x.sum().backward()
    return w.grad, x


@PROGRAMS.append
def a_buffer_of_a_module(wrap):
    class Memory(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mem", torch.zeros(2))
            self.inner = layer()

        def forward(self, x):
            self.mem.mul_(0.5).add_(self.inner(x))
            return self.mem.sum()

    m = Memory()
    f, found = wrap(m), []
    for _ in range(2):
        f(torch.ones(2)).backward()
        found += [m.inner.weight.grad.clone(), m.mem.requires_grad]
        m.mem.detach_()
    return found, m.mem


@PROGRAMS.append
def a_state_that_calls_hand_on(wrap):
    def program(x, h):
        h.copy_(torch.tanh(h + x))
        return h.sum()

    f = wrap(program)
    w, h = torch.ones(2, requires_grad=True), torch.zeros(2)
    for i in range(3):
        y = f(w * i, h)
    y.backward()
    return w.grad, h


@PROGRAMS.append
def a_cache_without_gradients(wrap):
    inner, cache = layer(), torch.zeros(3, 2)

    def program(x, i):
        cache[i] = inner(x)
        return cache.sum()

    f = wrap(program)
    with torch.no_grad():
        values = [f(torch.ones(2), torch.tensor(i)) for i in range(2)]
    return values, cache, cache.grad_fn is None


@PROGRAMS.append
def a_loop_that_writes_what_is_given_back(wrap):
    def program(x, n):
        i = 0
        while i < n:
            x[i] = x[i] * 2
            i += 1
        return x, x[1:], [x]

    f = wrap(program)
    w = torch.ones(3, requires_grad=True)
    x = w * 1
    y, tail, items = f(x, torch.tensor(2))
    (y * x).sum().backward()
    plain = torch.zeros(2, 2)
    view = wrap(lambda x: x.add_(1).t()[1:])(plain)
    view.add_(1)
    return w.grad, y is x, tail, items[0] is x, plain


@PROGRAMS.append
def leaves_made_inside(wrap):
    def program(x):
        w = x.detach().requires_grad_()
        for _ in range(2):
            (g,) = torch.autograd.grad((w * x).sum(), w)
            if g.sum() > 0:
                with torch.no_grad():
                    w -= 0.1 * g
        return w, [torch.zeros(1, requires_grad=True)], x * 2

    w, (zero,), double = wrap(program)(torch.tensor([2.0, 3.0]))
    (w * w + zero).sum().backward()
    return w, zero, double, w.grad, zero.grad


@PROGRAMS.append
def what_requires_a_gradient_changes_between_calls(wrap):
    inner = layer()

    def train(x):
        inner(x).sum().backward()

    def slopes(x, y):
        z = (x * y).sum()
        return torch.autograd.grad(z, [t for t in (x, y) if t.requires_grad])

    def tried(x):
        try:
            return torch.autograd.grad(x.sum(), x)
        except RuntimeError:
            return "no gradient"

    f, g, h = wrap(train), wrap(slopes), wrap(tried)
    for frozen in (False, True, False):
        inner.bias.requires_grad_(not frozen)
        f(torch.ones(2))
    a, b = torch.ones(2), torch.full((2,), 3.0)
    c, d = a.clone().requires_grad_(), b.clone().requires_grad_()
    found = [g(a, d), g(c, b), g(c, d), h(a), h(c), h(a)]
    return inner.weight.grad, inner.bias.grad, found


@PROGRAMS.append
def what_a_search_without_gradients_gives(wrap):
    """Leaves of its own that it takes gradients of leave no trace in what it returns."""

    def program(x, n):
        x = x.detach().clone()
        with torch.no_grad():
            for _ in range(2):
                with torch.enable_grad():
                    y = x.detach().requires_grad_(True)
                    (g,) = torch.autograd.grad((y * y).sum(), y)
                step = n * 1.0
                while step > 0.5:
                    trial = x - step * g
                    step = step / 2
                    with torch.enable_grad():
                        z = trial.detach().requires_grad_(True)
                        loss = (z * z).sum()
                    if loss < 1:
                        break
                x = trial if loss < 3 else x
                if x.sum() < 0.1:
                    break
        return x.view_as(x), loss.detach()

    f = wrap(program)
    return f(torch.tensor([1.0, 2.0]), torch.tensor(2)), f(torch.ones(2), torch.tensor(1))


@PROGRAMS.append
def leaves_by_every_way_to_make_one(wrap):
    def program(x):
        a, b = torch.zeros_like(x), torch.ones_like(x, requires_grad=True)
        a.requires_grad = True
        c, d = torch.tensor([1.0], requires_grad=True), x.new_ones(2).requires_grad_()
        return a, b, c, d.requires_grad_(False)

    return wrap(program)(torch.ones(2))


@PROGRAMS.append
def complex_factors(wrap):
    f = wrap(lambda x: ((x * 1j).abs() + (x / 2j).abs() + (x - (1 + 1j)).abs()).sum())
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    y = f(x)
    return y, torch.autograd.grad(y, x)


class Unchecked(torch.autograd.Function):
    """A stage of a Runge-Kutta step, as torchdiffeq writes it: autograd's versions do not see it."""

    @staticmethod
    def forward(ctx, stages, value, index):
        ctx.index = index
        stages.data[index] = value
        return stages

    @staticmethod
    def backward(ctx, g):
        return g, g[ctx.index], None


@PROGRAMS.append
def stages_that_are_written_one_by_one(wrap):
    def program(x, n):
        t = 0
        while t < n:
            stages = torch.empty(2, 3)
            stages = Unchecked.apply(stages, x, (..., 0))
            for k in (1, 2):
                so_far = stages[..., :k] @ torch.ones(k)
                stages = Unchecked.apply(stages, (x + so_far) ** 2 / 10, (..., k))
            x = x + stages @ torch.ones(3) / 10
            t += 1
        return x

    x = torch.tensor([1.0, 0.5], requires_grad=True)
    y = wrap(program)(x, torch.tensor(3))
    return y, torch.autograd.grad(y.sum(), x)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same(program):
    plain, converted = both(program)
    assert same(plain, converted), (plain, converted)


def test_a_leaf_is_not_written():
    f = tg.function(lambda x: x.mul_(2).sum())
    f(torch.ones(2))
    for _ in range(2):
        with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
            f(torch.ones(2, requires_grad=True))


def test_a_leaf_comes_back_from_a_file(tmp_path):
    f = tg.function(lambda x: x.detach().requires_grad_())
    f(torch.ones(2))
    tg.save(f, tmp_path / "f")
    assert tg.load(tmp_path / "f")(torch.ones(2)).requires_grad


class Weights:
    def __init__(self):
        self.w = torch.ones(2, requires_grad=True)
        self.v = torch.ones(2, requires_grad=True)

    def scaled(self, x):
        self.w.mul_(0.5)
        return self.w + x

    def scaled_if(self, x):
        if x.sum() > 1:
            self.w += x
        return self.w * 2

    def one_of(self, x):
        y = self.w if x.sum() > 1 else self.v
        y -= x
        return y * 1

    def tried(self, x):
        try:
            self.w[0] = x[0]
        except RuntimeError:
            return x
        return self.w * 2


@pytest.mark.parametrize("name", ["scaled", "scaled_if", "one_of", "tried"])
def test_a_leaf_is_written_where_the_call_has_gradients_off(name):
    def run(wrap):
        owner, shown = Weights(), []
        f = wrap(getattr(owner, name))
        for grad in (False, True, False, False):
            with torch.set_grad_enabled(grad):
                try:
                    shown.append(f(torch.ones(2)))
                except RuntimeError as error:
                    shown.append("leaf Variable" in str(error))
            shown += [owner.w.detach().clone(), owner.v.detach().clone()]
        return shown, getattr(f, "trace_count", 0)

    plain, _ = run(lambda f: f)
    converted, traces = run(tg.function)
    assert same(plain, converted), (plain, converted)
    assert traces <= 3


KINDS = {
    "no gradient": lambda: torch.ones(2),
    "leaf": lambda: torch.ones(2, requires_grad=True),
    "computed": lambda: torch.ones(2, requires_grad=True) * 1,
}


def in_a_branch(w, x):
    if x.sum() > 0:
        w.mul_(2)
    return w * x


def in_a_loop(w, x):
    while x.sum() > 0:
        w[0] = x[0]
        x = x - 1
    return w * 2


def where_it_fails(w, x):
    try:
        w.mul_(x)
    except RuntimeError:
        return x
    return w * 1


@pytest.mark.parametrize("kinds", list(itertools.permutations(KINDS)), ids=" then ".join)
@pytest.mark.parametrize("program", [in_a_branch, in_a_loop, where_it_fails])
@pytest.mark.parametrize("kept", [False, True], ids=["argument", "attribute"])
def test_whether_a_leaf_is_written_is_that_of_the_call(program, kinds, kept):
    def run(wrap):
        owner, shown = types.SimpleNamespace(), []
        f = wrap((lambda w, x: program(owner.w, x)) if kept else program)
        for kind, sign in itertools.product(kinds, (1, -1)):
            owner.w = w = KINDS[kind]()
            try:
                shown.append(f(None if kept else w, torch.ones(2) * sign))
            except RuntimeError as error:
                shown.append("leaf Variable" in str(error))
            shown += [w.detach().clone(), w.requires_grad, w.is_leaf]
        return shown

    plain, converted = run(lambda f: f), run(tg.function)
    assert same(plain, converted), (plain, converted)


def test_a_function_inside_writes_a_leaf_where_gradients_are_off():
    w = torch.ones(2, requires_grad=True)
    add = tg.function(lambda p, x: p.add_(x))

    @tg.function
    def f(x):
        with torch.no_grad():
            add(w, x)
        return (w * x).sum()

    for k in (1, 2):
        [g] = torch.autograd.grad(f(torch.ones(2)), w)
        assert g.tolist() == [1, 1] and w.tolist() == [1 + k, 1 + k]


def test_the_second_order_behind_a_write_goes_on_from_the_history_before_it():
    def f(w, x):
        w.exp_()
        return x * 2

    found = []
    for g in (f, tg.function(f)):
        w, x = (torch.tensor(v, requires_grad=True) for v in ([1.0, 2.0], [3.0, 4.0]))
        y = w * 2
        g(y, x)
        first = torch.autograd.grad((y * x).sum(), [w, x], create_graph=True)
        found.append(torch.autograd.grad(sum(a.sum() for a in first), [w, x]))
    torch.testing.assert_close(*found)


def scaled_once(w, x):
    w.mul_(x)
    return (w * x).sum()


def scaled_by_a_condition(w, x):
    if x.sum() > 0:
        w.mul_(x)
    return (w * w).sum()


def scaled_in_a_loop(w, x):
    for _ in range(torch.tensor(2)):
        w.mul_(x)
    return w.exp().sum()


@pytest.mark.parametrize("captured", [False, True], ids=["argument", "captured"])
@pytest.mark.parametrize("f", [scaled_once, scaled_by_a_condition, scaled_in_a_loop])
def test_a_tensor_with_a_history_that_is_written(f, captured):
    """Its gradients of both orders go on to what it was computed from before, also from the call that traces."""

    def run(wrap):
        w, x = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([0.5, 3.0], requires_grad=True)  # fmt: skip
        v = w * 2
        g = wrap(lambda x: f(v, x)) if captured else wrap(f)
        y = g(x) if captured else g(v, x)
        first = torch.autograd.grad(y + v.sum(), [w, x], create_graph=True)
        return [*first, *torch.autograd.grad(sum(a.sum() for a in first), [w, x]), v]

    assert same(run(tg.function), run(lambda f: f))
