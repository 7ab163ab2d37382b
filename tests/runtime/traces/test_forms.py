"""Call forms: calls with containers, constants and keywords, and results in containers, go to the entry and are as native ones."""

import dataclasses
import gc
import weakref
from collections import OrderedDict, namedtuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tograph as tg
from tograph.runtime.native.entry import MISS
from tograph.runtime.traces import forms

Pair = namedtuple("Pair", "a b")
FACTOR = 2.0


@dataclasses.dataclass
class State:
    h: torch.Tensor
    name: str


def keyword_only(x, *, scale, shift=1.0):
    return x * scale + shift


def containers(xs, options):
    return xs[0] + xs[1] * options["scale"] - options["inner"][0]


def constants(x, n, flag, name, nothing):
    if flag and nothing is None:
        x = x * n
    return x + len(name)


def results(x):
    return {"a": x + 1, "b": [x * 2, (x - 1, "text", None)], 3: Pair(x.sum(), State(-x, "s"))}


def named(d):
    return d["one"] * 2 + d["two"]


def pair(p):
    return Pair(p.b + 1, p.a * FACTOR)


def values(x):
    return [float(x.sum()), bool(x.sum() > 0), int(x.sum())]


def ordered(x):
    return OrderedDict(z=x + 1, a=-x * 2)


def tensors(*sizes):
    return [torch.arange(float(n)) + n for n in sizes]


def same(a, b):
    assert type(a) is type(b)
    if isinstance(a, torch.Tensor):
        torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True)
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for k in a:
            same(a[k], b[k])
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif dataclasses.is_dataclass(a):
        same(vars(a), vars(b))
    else:
        assert repr(a) == repr(b)


def warmed(function, *args, **kwargs):
    """The converted function behind the calls that a form waits for."""
    f = tg.function(function)
    for _ in range(forms.USES + 5):
        same(f(*args, **kwargs), function(*args, **kwargs))
    assert f._shape is not None, "no form"
    return f


def misses(f, *args, **kwargs):
    """Whether the form leaves a call of its shape to Python."""
    return f._entry(*args, *kwargs.values()) is MISS


X, Y, Z = tensors(4, 4, 4)
CALLS = [
    (keyword_only, (X,), {"scale": Y}),
    (keyword_only, (X,), {"shift": Y, "scale": 0.5}),
    (containers, ([X, Y], {"scale": Z, "inner": (torch.ones(4),)}), {}),
    (containers, (), {"options": {"inner": [X], "scale": Z}, "xs": (Y, torch.ones(4))}),
    (constants, (X, 3, True, "four", None), {}),
    (constants, (X, 0.0, True, "", None), {}),
    (constants, (X, float("nan"), True, "", None), {}),
    (results, (X,), {}),
    (pair, (Pair(X, Y),), {}),
    (values, (X,), {}),
    (ordered, (X,), {}),
]


@pytest.mark.parametrize("function, args, kwargs", CALLS)
def test_calls_are_as_native(function, args, kwargs):
    f = warmed(function, *args, **kwargs)
    assert f.trace_count == 1
    assert not misses(f, *args, **kwargs)


class Recurrent:
    """State that calls replace, change in place, and count."""

    def __init__(self):
        self.h, self.weight = torch.zeros(4).double(), torch.full((4,), 0.5)
        self.sums, self.table = {"x": torch.zeros(()).double()}, [torch.ones(4)]

    def step(self, x, *, keep=True):
        self.h = self.h * self.weight + x
        self.sums["x"] = self.sums["x"] + self.h.sum()
        self.table[0] = self.table[0] * 0.5
        return (self.h * 2, {"sum": self.sums["x"] + 1}) if keep else self.h + 1

    converted = tg.function(step)

    def state(self):
        return self.h, self.sums, self.table


def test_state_that_calls_replace():
    one, other, x = Recurrent(), Recurrent(), X.clone()  # doubles hold these sums in any order
    for i in range(20):
        if i == 12:
            one.h, other.h = torch.ones(4).double(), torch.ones(4).double()
        if i == 15:
            one.sums, other.sums = {"x": torch.ones(()).double()}, {"x": torch.ones(()).double()}
        if i == 17:
            one.h, other.h = torch.ones(1), torch.ones(1)
        held = one.h
        before = held.clone()
        keep = not 6 <= i < 11
        same(one.converted(x, keep=keep), other.step(x, keep=keep))
        same(one.state(), other.state())
        assert torch.equal(held, before)
        x = x + 1
        if i == 5 or i == 10:
            assert one.converted._shape is not None
    one.h.requires_grad_()
    one.converted(x)[0].sum().backward()


def test_an_object_that_calls_change_is_not_kept_alive():
    one = Recurrent()
    for _ in range(forms.USES + 5):
        one.converted(X)
    assert one.converted._shape is not None
    gone = weakref.ref(one)
    del one
    gc.collect()
    assert gone() is None


def test_what_differs_from_the_traced_structure_misses():
    f = warmed(containers, [X, Y], {"scale": Z, "inner": (torch.ones(4),)})
    one = torch.ones(4)
    for xs, options in [
        ((X, Y), {"scale": Z, "inner": (one,)}),
        ([X, Y, Z], {"scale": Z, "inner": (one,)}),
        ([X, 2.0], {"scale": Z, "inner": (one,)}),
        ([X, Y], {"inner": (one,), "scale": Z}),
        ([X, Y], {"scale": Z, "inner": [one]}),
        ([X, Y], {"scale": Z, "inner": (one,), "more": 1}),
        ([X, Y], OrderedDict(scale=Z, inner=(one,))),
        ([X, Y], {"scale": X, "inner": (one,)}),
        ([X, Y[:2]], {"scale": Z, "inner": (one,)}),
        ([X, Y.double()], {"scale": Z, "inner": (one,)}),
        ([X, Y.clone().requires_grad_()], {"scale": Z, "inner": (one,)}),
    ]:
        assert misses(f, xs, options)
    wrong = [X, Y, Z], {"scale": Z, "inner": (one,)}
    same(f(*wrong), containers(*wrong))


@pytest.mark.parametrize(
    "traced, other",
    [(1, True), (1, 1.0), (0.0, -0.0), (0.0, 0), (True, 1), (None, False), ("a", "b"), (2.5, 2.25),
     (float("nan"), 1.0), (10**30, 10**30 + 1), ("1", 1)],
)  # fmt: skip
def test_a_constant_is_that_very_constant(traced, other):
    def kept(x, c):
        return x + 1, c

    f = warmed(kept, X, traced)
    assert misses(f, X, other)
    got = f(X, other)
    assert type(got[1]) is type(other) and repr(got[1]) == repr(other)


def test_one_list_given_twice_is_another_trace():
    def changed(xs, ys):
        return xs[0] * 2 + ys[0]

    f = warmed(changed, [X], [Y])
    both = [X]
    assert misses(f, both, both)
    same(f(both, both), changed(both, both))


def test_keywords_in_another_order_and_wrong_ones():
    f = warmed(keyword_only, X, scale=Y, shift=Z)
    same(f(X, shift=Z, scale=Y), keyword_only(X, shift=Z, scale=Y))
    same(f(x=X, scale=Y), keyword_only(x=X, scale=Y))
    for args, kwargs in [((X, Y), {}), ((X,), {"scale": Y, "other": 1}), ((X,), {"shift": Y}), ((X,), {"x": X, "scale": Y}), ((), {"scale": Y})]:  # fmt: skip
        with pytest.raises(TypeError):
            f(*args, **kwargs)


def test_keys_are_the_same_strings_in_other_objects_or_miss():
    class Name(str):
        pass

    f = warmed(named, {"one": X, "two": Y})
    again = {"".join(k): v for k, v in [("one", X), ("two", Y)]}
    assert not misses(f, again)
    assert misses(f, {Name("one"): X, "two": Y})
    assert misses(f, {"two": Y, "one": X})
    same(f({Name("one"): X, "two": Y}), named({"one": X, "two": Y}))


def test_results_are_new_at_every_call():
    f = warmed(results, X)
    first = f(X)
    first["b"].append(1)
    del first["a"]
    first[3].b.name = "changed"
    same(f(X), results(X))


def test_a_key_that_is_there_on_some_paths_only():
    @tg.function
    def f(x):
        d = {"a": 1, "b": 2}
        if x > 0:
            d["c"] = 3
        else:
            del d["a"]
        return d, x

    for v in (1.0, -1.0) * 3:
        want = {"a": 1, "b": 2, "c": 3} if v > 0 else {"b": 2}
        assert f(torch.tensor(v))[0] == want


def test_guards_hold_before_the_entry_runs(monkeypatch):
    f = warmed(pair, Pair(X, Y))
    monkeypatch.setitem(pair.__globals__, "FACTOR", 5.0)
    same(f(Pair(X, Y)), pair(Pair(X, Y)))


def test_calls_that_require_gradients_go_round_it():
    f = warmed(containers, [X, Y], {"scale": Z, "inner": (torch.ones(4),)})
    w = Y.clone().requires_grad_()
    f([X, w], {"scale": Z, "inner": (torch.ones(4),)}).sum().backward()
    same(w.grad, Z)
    f.clear_cache()
    assert f._entry is None


def test_calls_inside_of_a_trace_are_part_of_it():
    inner = warmed(keyword_only, X, scale=2.0)

    @tg.function
    def outer(x):
        return inner(x, scale=2.0) * 2

    same(outer(X), keyword_only(X, scale=2.0) * 2)
    assert any(n.op == "Call" for n in outer.get_concrete_function(X).graph.nodes)


def test_calls_that_change_each_time_get_no_form():
    f = tg.function(constants)
    for i in range(40):
        same(f(X, i % 2, True, "", None), constants(X, i % 2, True, "", None))
    assert f._shape is None


ATOMS = st.sampled_from([0, 1, True, False, None, 0.0, -0.0, 1.0, "a", "b"])
TENSORS = st.sampled_from([X, Y, Z])
TREES = st.recursive(
    ATOMS | TENSORS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.tuples(inner, inner).map(lambda t: Pair(*t))
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=5,
)


def leaves(x):
    if isinstance(x, dict):
        return [(k, leaves(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return [type(x).__name__, *map(leaves, x)]
    return x * 2 if isinstance(x, torch.Tensor) else repr(x)


def echo(x, tree):
    return {"x": x + 1, "leaves": leaves(tree), "tree": tree}


@settings(max_examples=60, deadline=None)
@given(st.lists(TREES, min_size=2, max_size=3))
def test_any_arguments_in_any_order(trees):
    f = tg.function(echo)
    x = torch.full((4,), 7.0)
    for tree in [trees[0]] * (forms.USES + 2) + trees + trees[::-1]:
        same(f(x, tree), echo(x, tree))
