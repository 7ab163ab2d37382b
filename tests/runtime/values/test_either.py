"""A variable that is a number on one path and a tensor on another is what plain Python makes it."""

import copy
import math

import pytest
import torch

import tograph as tg
from tograph.runtime.values import joins, structure

ONES, NONE, NAN = torch.ones(3), torch.zeros(0), torch.full((3,), float("nan"))


def smallest(x):
    best = float("inf")
    for r in x:
        if r < best:
            best = r
    return best


def total(x):
    out = 0.0
    for r in x:
        out = out + r
    return out


def total_in_place(x):
    out = 0
    for r in x:
        if r > 0:
            out += r
    return out, x


def doubled_in_place(x):
    found = 2.0
    for i in range(x.shape[0]):
        if x[i] > 0:
            found = x[i]
    found += x[0] if x.shape[0] else 1.0
    return found, x


def mean_of_positive(x):
    out, n = 0, 0
    for r in x:
        if r > 0:
            out, n = out + r, n + 1
    return out / n


def scaled(x):
    scale = 0.1 if x.sum() > 0 else x.double().mean()
    return scale * x, (scale * x.double()).dtype, scale + x.double().mean(), scale * 2


def of_half(x):
    scale = 0.1 if x.sum() > 0 else x.mean().half()
    return scale * x.half(), scale * x.double(), scale * x.long()


def kind(x):
    v = 1 if x.sum() > 0 else x.sum()
    return type(v).__name__, isinstance(v, int), isinstance(v, torch.Tensor), f"{v}", str(v)


def printed(x):
    v = 0.5 if x.sum() > 0 else x.sum()
    print(v, -v)
    return abs(v)


def until_settled(x):
    before, steps = float("inf"), 0
    while steps < 20:
        change = (x / 2).abs().sum()
        if change > before or change < 0.01:
            break
        x, before = x / 2, change
        steps += 1
    return x, before, steps


def flag(x):
    done, n = False, 0
    while not done:
        x = x / 2
        done = x.abs().sum() < 1
        n += 1
    return done, n


def both(x):
    a = 1 if x.sum() > 0 else x.sum()
    b = x.sum() * 3 if x.sum() > 2 else 4
    return a + b, a * b, a < b, a == 1


def nested(x):
    total = 0.0
    for r in x:
        part = 0
        while r > 1:
            part = part + r
            r = r / 2
        total = total + part
    return total


def too_large(x):
    best = 1e300
    for r in x:
        if r < 0:
            best = r
    return best, best > x


def integers(x):
    n = 0
    for r in x.long():
        if r > 0:
            n = n | r
    return n, n % 2 == 1


def method(x):
    v = 1.0 if x.sum() > 0 else x.sum()
    return v.item()


def an_argument(x):
    first = x.sum()
    v = first if first > 0 else 1.0
    w = v
    v += 1
    v *= first
    return v, w, first


def a_condition(x):
    n = 0
    while x.sum() > 1 and n < 3:
        x, n = x / 2, n + 1
    held = x.sum() > 0 and n > 1
    return x, n, held, held or 2.5


def takes_the_other(x):
    """A name that becomes one of two kinds in the course of the loop, changed in place."""
    a, b = x.sum() + 1, x.sum() * 3 + 1
    for _ in range(3):
        if a > b:
            a += 1
        else:
            a, b = b, 7
    return a, b


PROGRAMS = [takes_the_other, an_argument, a_condition, smallest, total, total_in_place, doubled_in_place, mean_of_positive, scaled, of_half, kind, printed, until_settled, flag, both,
            nested, too_large, integers, method]  # fmt: skip


def outcome(function, x, capsys):
    x = x.clone()
    try:
        value = function(x)
    except Exception as error:
        value = next(c for c in type(error).__mro__ if c.__module__ == "builtins"), x
    return repr(value), capsys.readouterr().out


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_as_in_plain_python(program, capsys):
    converted = tg.function(program)
    for x in (ONES, -ONES, NONE, NAN, torch.tensor([3.0, -2.0, 0.5]), ONES):
        if program is flag and x is NAN:
            continue
        for _ in range(2):
            assert outcome(converted, x, capsys) == outcome(program, x, capsys)


def loss(w, x):
    out = 0.0
    for r in x:
        if r > 0:
            out = out + (w * r) ** 2
    return out * w


def test_gradient_outside():
    w = torch.tensor(2.0, requires_grad=True)
    converted = tg.function(loss)
    for x in (ONES, -ONES, torch.tensor([3.0, -2.0, 0.5])):
        found, want = (torch.autograd.grad(f(w, x), w) for f in (converted, loss))
        assert torch.equal(found[0], want[0])


def test_gradient_inside():
    def step(w, x):
        out = 0.0
        for r in x:
            out = out + (w * r) ** 2
        out.backward()
        return w.grad

    w = torch.tensor(2.0, requires_grad=True)
    converted, rows = tg.function(step), [ONES, torch.tensor([3.0, -2.0, 0.5])]
    for x in rows:
        found = converted(w, x).clone()
        w.grad = None
        assert torch.equal(found, step(w, x))
        w.grad = None


class Best:
    def __init__(self):
        self.value, self.calls = math.inf, 0

    def update(self, x):
        self.calls += 1
        if x < self.value:
            self.value = x
        return self.value


def test_attribute_between_calls():
    plain, mine = Best(), Best()
    update = tg.function(mine.update)
    for v in (float("nan"), 3.0, 5.0, 1.0):
        x = torch.tensor(v)
        assert repr(update(x)) == repr(plain.update(copy.copy(x)))
        assert repr(mine.value) == repr(plain.value)


def test_no_test_for_what_a_loop_surely_sets():
    """Behind a loop that has an iteration the variable is a tensor, and the graph has no trace of the number."""
    graph = tg.function(total).get_concrete_function(ONES).graph
    assert [str(v.type) for v in graph.outputs] == ["f32[]"]
    assert "If" not in str(graph)


def test_a_choice_joined_with_itself_is_itself():
    found = []

    def f(x):
        number = structure.spec_of(x.sum().item())
        choice = structure.Choice((number, structure.spec_of(x.sum())))
        found.append(joins.equal(joins.join(choice, choice), choice))
        return x

    tg.function(f)(ONES)
    assert found == [True]


def test_as_an_item_of_a_list_of_tensors():
    def f(x, n, i):
        items, k = [], 0
        while k < n:
            items.append(x[k])
            k += 1
        t = 1.0
        if x[0] > 0:
            t = x.sum()
        elif x[1] > 0:
            t = 2
        items[i] = t
        return torch.stack([torch.as_tensor(v) for v in items])

    g = tg.function(f)
    for x in (ONES, torch.tensor([-1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, 3.0])):
        args = x, torch.tensor(3), torch.tensor(1)
        torch.testing.assert_close(g(*args), torch.stack([torch.as_tensor(v).float() for v in f(*args)]))  # fmt: skip
