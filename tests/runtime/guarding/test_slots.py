"""Tensors that are looked up at every call: one trace where code or its caller replaces what a place holds."""

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import tograph as tg

HELD = torch.zeros(2)


def in_an_attribute(s):
    s.x = torch.tanh(s.x + 1)
    return s.x * 2


def in_a_dict(s):
    s.d["k"] = s.d["k"] + s.x
    return s.d["k"]


def in_a_list(s):
    s.l[1] = s.l[1] * 2 + s.l[0]
    return s.l[0] + s.l[1]


def under_a_condition(s):
    for _ in range(3):
        if s.x.sum() > 4:
            s.x = s.x * 0
        s.x = s.x + 1
    return s.x


def beside_a_write(s):
    s.x = s.x + 1
    s.d["k"].add_(s.x)
    return s.d["k"].clone()


def begun_anew(s):
    """An episode: what was there before is not read, and no path keeps it."""
    s.x, s.d["k"] = s.l[0] + 1, s.l[1] * 2
    for _ in range(6):
        s.x = s.x * 2
        if s.x.sum() > 9:
            break
        s.d["k"] = s.d["k"] + s.x
    if s.d["k"].sum() > 5:
        s.x = -s.x
    return s.x + s.d["k"]


def rows(s):
    for o in s.many:
        o.x = o.x + o.y
    return torch.stack([o.x for o in s.many])


def from_both_ends(s):
    """The last item is a place under two names."""
    for i in range(len(s.l) - 1):
        s.l[i] = s.l[i + 1]
    s.l[-1] = s.l[-1] * 2 + s.l[0] + s.x
    return s.l[-1]


def in_two_attributes(s):
    y = s.x + s.also * 2
    s.x = s.also = y + 1
    return y


def kept_for_later(s):
    """What is kept from the call before is not used, while other memory is written."""
    if s.cached is None:
        return s.x
    s.l[0].add_(1)
    s.cached = s.l[0] * 2
    return s.cached


def state():
    also = torch.zeros(2)
    many = [SimpleNamespace(x=torch.full((2,), float(i)), y=torch.ones(2)) for i in range(3)]
    return SimpleNamespace(
        x=also,
        also=also,
        d={"k": torch.ones(2)},
        l=[torch.ones(2), torch.ones(2)],
        many=many,
        cached=torch.ones(2),
    )


def content(s):
    return torch.stack([s.x, s.also, s.cached, s.d["k"], *s.l, *(o.x for o in s.many)])


PROGRAMS = [
    in_an_attribute,
    in_a_dict,
    in_a_list,
    under_a_condition,
    beside_a_write,
    begun_anew,
    rows,
    from_both_ends,
    in_two_attributes,
]


@pytest.mark.parametrize("f", PROGRAMS)
def test_one_trace_where_code_replaces_what_it_read(f):
    plain, held, staged = state(), state(), tg.function(f)
    for _ in range(4):
        assert torch.equal(f(plain), staged(held))
        assert torch.equal(content(plain), content(held))
    assert staged.trace_count == 1


def test_what_is_kept_and_not_used():
    plain, held, staged = state(), state(), tg.function(kept_for_later)
    for _ in range(6):
        assert torch.equal(kept_for_later(plain), staged(held))
        assert torch.equal(content(plain), content(held))
    assert staged.trace_count == 1


def given_back(s, x):
    s.w.add_(x)
    old = s.c
    s.c = x + 1
    return [old, s.prev]


def kept_beside(s, x):
    s.prev = s.c
    s.c = s.w * 2
    s.w.add_(x)
    return s.prev


def swapped(s, x):
    s.c, s.prev = s.prev, s.c
    s.w.add_(x)
    return s.c.shape


CHANGES = [
    lambda s: setattr(s, "c", s.w),
    lambda s: setattr(s, "c", s.w[:]),
    lambda s: setattr(s, "prev", s.c),
    lambda s: setattr(s, "c", torch.full((2,), 7.0)),
    lambda s: setattr(s, "prev", torch.full((2,), 9.0)),
]


@pytest.mark.parametrize("f", [given_back, kept_beside, swapped])
@pytest.mark.parametrize("order", [(0, 3, 2, 4), (1, 3, 2, 3), (2, 3, 4, 1), (3, 0, 4, 2)])
def test_places_that_come_to_hold_one_tensor_and_part(f, order):
    plain, held = (
        SimpleNamespace(w=torch.ones(2), c=torch.zeros(2), prev=torch.ones(2)) for _ in range(2)
    )
    staged = tg.function(f)
    for i, change in enumerate([*order, None]):
        x = torch.full((2,), float(i))
        assert str(f(plain, x.clone())) == str(staged(held, x))
        for s in (plain, held):
            places = [s.w, s.c, s.prev]
            s.which = [[a is b for b in places] for a in places], str(places)
            if change is not None:
                CHANGES[change](s)
        assert plain.which == held.which


def test_two_places_that_part():
    def f(s):
        s.x = s.x + s.also
        return s.x

    plain, held, staged = state(), state(), tg.function(f)
    for i in range(6):
        for s in (plain, held):
            s.also = s.x if i % 3 == 0 else torch.full((2,), float(i))
        assert torch.equal(f(plain), staged(held))
        assert torch.equal(content(plain), content(held))


def test_a_global():
    @tg.function
    def step(x):
        global HELD
        HELD = HELD + x
        return HELD

    for i in range(1, 4):
        assert step(torch.ones(2)).tolist() == [i, i] and HELD.tolist() == [i, i]
    assert step.trace_count == 1


def test_what_others_replace_is_looked_up_from_the_second_trace_on():
    s, f = state(), tg.function(lambda s: s.x * 2)
    for i in range(5):
        s.x = torch.full((2,), float(i))
        assert f(s).tolist() == [2.0 * i] * 2
    assert f.trace_count == 2


@pytest.mark.parametrize(
    "other",
    [
        torch.zeros(3),
        torch.zeros(2, dtype=torch.float64),
        torch.zeros(4)[::2],
        nn.Parameter(torch.ones(2)),
        torch.ones(2, requires_grad=True),
    ],
)
def test_a_tensor_of_another_kind_traces_anew(other):
    s, f = state(), tg.function(in_an_attribute)
    f(s)
    s.x, plain = other, SimpleNamespace(x=other)
    got = f(s)
    assert f.trace_count == 2
    assert torch.allclose(got, in_an_attribute(plain)) and s.x.dtype == plain.x.dtype


def test_memory_that_is_written_and_comes_to_lie_in_a_slot():
    def scenario(f):
        s = state()
        out = [f(s)]
        for change in (
            lambda: setattr(s, "x", s.d["k"]),
            lambda: s.d.update(k=s.x),
            lambda: setattr(s, "x", s.d["k"][:]),
        ):
            change()
            out += [f(s), content(s), f(s), content(s)]
        return torch.cat([x.flatten() for x in out])

    assert torch.equal(scenario(beside_a_write), scenario(tg.function(beside_a_write)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(2, 2)
        self.h = None
        self.register_buffer("m", torch.zeros(2))

    def forward(self, x):
        if self.h is None:
            self.h = torch.zeros_like(x)
        self.h = torch.tanh(self.l(x) + self.h).detach()
        self.m = 0.9 * self.m + 0.1 * self.h
        return self.h


def test_a_module_that_keeps_a_state():
    plain = Recurrent()
    made = copy.deepcopy(plain)
    f = tg.function(made)
    for _ in range(5):
        x = torch.randn(2)
        assert torch.allclose(plain(x), f(x))
        assert torch.allclose(plain.m, made.m) and torch.allclose(plain.h, made.h)
    assert f.trace_count == 2  # without a state, with one


def test_a_concrete_function_looks_up_too():
    s, f = state(), tg.function(in_an_attribute)
    made = f.get_concrete_function(s)
    s.x = torch.full((2,), 3.0)
    assert made.captured_inputs[0] is s.x
    s.x = torch.zeros(3)
    with pytest.raises(tg.errors.DeadResourceError, match=r"s\.x"):
        made(s)


def test_parameters_and_submodules_that_are_replaced():
    model = nn.Sequential(nn.Linear(2, 2), Recurrent())
    f, x = tg.function(lambda x: model(x)), torch.ones(2)

    def same():
        held = model[1].h, model[1].m
        got = f(x)
        model[1].h, model[1].m = held
        assert torch.allclose(got, model(x))

    same()
    model[0].weight = nn.Parameter(torch.zeros(2, 2))
    same()
    model[0] = nn.Linear(2, 2)
    same()
    model[1].l.bias = None
    same()


def test_what_a_replaced_place_held_is_given_away():
    """The tensor that an attribute held before is returned, kept or appended as it is: that of each call, not of the first."""

    def returned(s, kept):
        before = s.x
        s.x = s.x + 1
        return before

    def appended(s, kept):
        kept.append(s.x)
        s.x = s.x + 1

    def kept_elsewhere(s, kept):
        s.before = s.x
        if s.x.sum() > 3:
            s.x = s.x * 2
        s.x = s.x + 1

    for f in (returned, appended, kept_elsewhere):
        seen = []
        for run in (f, tg.function(f)):
            s, told = SimpleNamespace(x=torch.ones(2), before=torch.zeros(2)), []
            for _ in range(5):
                held, kept = s.x, []
                out = run(s, kept)
                told.append(
                    [None if t is None else t.tolist() for t in (out, s.x, s.before, *kept)]
                )
                assert f is not returned or out is held
            seen.append(told)
        assert seen[0] == seen[1]


def test_a_list_of_the_last_values():
    def remember(s, x):
        s.last = [s.x] + s.last[:2]
        s.x = s.x + x.sum()
        return s.last

    f = tg.function(remember)
    made = SimpleNamespace(x=torch.zeros(()), last=[])
    plain = SimpleNamespace(x=torch.zeros(()), last=[])
    for i in range(10):
        x = torch.full((2,), float(i))
        torch.testing.assert_close(f(made, x), remember(plain, x))
    assert f.trace_count == 4  # the list of 0, 1, 2 and 3 items


@pytest.mark.parametrize("used", [True, False])
def test_which_tensor_a_place_holds_was_asked(used):
    def f(s, x):
        if s.x is not s.y:
            return x + s.x if used else x + 10
        return x

    s, g = SimpleNamespace(x=torch.ones(2), y=torch.zeros(2)), tg.function(f)
    for i in range(9):
        s.x = s.y if i % 3 == 2 else torch.full((2,), float(i))
        assert torch.equal(g(s, torch.ones(2)), f(s, torch.ones(2)))


class Chain:
    """The state of a call has the history of those before."""

    def __init__(self):
        self.w = torch.ones(2, dtype=torch.float64, requires_grad=True)
        self.h = torch.zeros(2, dtype=torch.float64)

    def step(self, x):
        self.h = torch.tanh(self.h * self.w + x)
        return self.h.sum()


def _trained(make):
    chain = Chain()
    step, found = make(chain.step), []
    for i in range(7):
        loss = step(torch.ones(2, dtype=torch.float64) * i)
        if i % 3 == 2:
            loss.backward()
            found.append(chain.w.grad.clone())
            chain.h, chain.w.grad = chain.h.detach(), None
        found += [loss.detach(), chain.h.detach()]
    found += torch.autograd.grad(step(chain.w.detach()) + step(chain.h.detach()), chain.w)
    return found, step


def test_state_that_requires_a_gradient():
    found, step = _trained(tg.function)
    torch.testing.assert_close(found, _trained(lambda f: f)[0])
    assert step.trace_count == 2


class Weights:
    def __init__(self):
        self.w = torch.ones(3)

    def loss(self, x):
        return (self.w * x).square().sum()

    def inner(self, x):
        return torch.autograd.grad((self.w * x).square().sum(), self.w)[0]

    def back(self, x):
        (self.w * x).square().sum().backward()
        return self.w.grad

    def asked(self, x):
        return self.w * x if self.w.requires_grad else x


def _with_new_leaves(make, name):
    owner, found = Weights(), []
    run = make(getattr(owner, name))
    for i in range(5):
        owner.w = torch.full((3,), float(i)).requires_grad_(name != "asked" or i < 3)
        y = run(torch.arange(3.0) + i)
        found += [y.detach().clone(), torch.tensor(y.requires_grad)]
        if name == "loss":
            found += torch.autograd.grad(y, owner.w)
        if owner.w.grad is not None:
            found.append(owner.w.grad.clone())
    return found, run


@pytest.mark.parametrize("name", ["loss", "inner", "back", "asked"])
def test_leaves_that_are_replaced_between_calls(name):
    found, run = _with_new_leaves(tg.function, name)
    torch.testing.assert_close(found, _with_new_leaves(lambda f: f, name)[0])
    assert name != "loss" or run.trace_count == 2
