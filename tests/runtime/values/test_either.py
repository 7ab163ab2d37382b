"""A variable that is a number on one path and a tensor on another is what plain Python makes it."""

import copy
import math
import types

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


def again_in_a_for_loop(x, y):
    b = 0
    if x < 0:
        b = torch.tensor(2)
    for _ in range(3):
        a = b
        a += x * x
    return a, b


def again_over_a_tensor(x, y):
    b = 0
    if x < 0:
        b = y[0]
    for v in y:
        a = b
        a += v * x
    return a, b


def again_in_a_while_loop(x, y):
    b, i = 3, 0
    if x < 0:
        b = y[0]
    a = b
    while i < x * x:
        a = b
        a -= y[1]
        i += 1
    return a, b


def again_one_after_the_other(x, y):
    b = 3
    if x < 0:
        b = torch.tensor(2)
    a = b
    a *= x
    c = b
    c *= y[1]
    a += 1
    return a, b, c


def again_in_branches(x, y):
    b = None
    if x < 0:
        b = torch.tensor(2)
    elif x > 3:
        b = 5
    a = c = b
    if b is not None:
        if x > -3:
            a += x
        c = b
        c += y[1]
    return a, b, c


def again_in_places(x, y):
    items, o = [0], types.SimpleNamespace(v=1)
    if x < 0:
        items[0], o.v = torch.tensor(2), y[2]
    first, second = items[0], o.v
    for v in y:
        items[0], o.v = first, second
        items[0] += v
        o.v += x
    return items[0], o.v, first, second


def again_in_a_callee(x, y):
    def added(q):
        q += x
        return q

    b = 0
    if x < 0:
        b = y[1]
    a = added(b)
    for _ in range(2):
        a = added(b)
    return a, b


def kept_from_before(x, y):
    b = kept = 0
    for v in y:
        if v < 3:
            kept = b
        b += v * x
    return b, kept


AGAIN = [
    again_in_a_for_loop,
    again_over_a_tensor,
    again_in_a_while_loop,
    again_one_after_the_other,
    again_in_branches,
    again_in_places,
    again_in_a_callee,
    kept_from_before,
]


@pytest.mark.parametrize("program", AGAIN, ids=lambda p: p.__name__)
def test_a_number_that_is_updated_stays_what_another_name_holds(program):
    converted = tg.function(program)
    for number in (3, -3, 4, -2, 1):
        given = [(torch.tensor(number), torch.tensor([1, 2, 3])) for _ in range(2)]
        expected, found = (f(*a) for f, a in zip((program, converted), given))
        assert repr((found, given[1])) == repr((expected, given[0]))


def test_gradient_of_a_number_that_is_updated_under_another_name():
    def program(x, y):
        b = 0.0
        if x < 0:
            b = y * 2
        for _ in range(3):
            a = b
            a += x * x * y
        return a * b + a

    for number in (3.0, -3.0):
        grads = []
        for f in (program, tg.function(program)):
            x = torch.tensor(number, requires_grad=True)
            y = torch.tensor(2.0, requires_grad=True)
            result = f(x, y)
            result.backward()
            grads.append((result.detach(), x.grad, y.grad))
        torch.testing.assert_close(grads[1], grads[0])
