"""What leaves a trace: tensors as keys and members, ranges, texts; what would keep a symbolic tensor is refused."""

import array
import contextlib
import io
import itertools
import random
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.errors import ScopeError

X = torch.tensor([2.0, 3.0])


def test_tensors_as_keys_and_members():
    @tg.function
    def f(x):
        y = x + 1
        return {x: 1, "a": x, (y, 2): 3}, {x, 1}, [{"k": {y: [x]}}], frozenset([y])

    keyed, members, nested, frozen = f(X)
    keys = list(keyed)
    assert keys[0] is X
    assert keys[1] == "a"
    assert torch.equal(keys[2][0], X + 1)
    assert list(keyed.values())[::2] == [1, 3]
    assert X in [m for m in members if isinstance(m, torch.Tensor)]
    (inner,) = nested[0]["k"]
    assert torch.equal(inner, X + 1)
    assert nested[0]["k"][inner][0] is X
    assert torch.equal(next(iter(frozen)), X + 1)


def test_ranges_and_texts():
    @tg.function
    def f(x):
        return (
            range(int(x[0])),
            slice(int(x[0]), 3),
            [f"{v:.1f}" for v in x],
            [str(v) for v in range(int(x[1]))],
        )

    assert f(X) == (range(2), slice(2, 3), ["2.0", "3.0"], ["0", "1", "2"])


SHARED = {7}


def test_containers_that_can_change_are_made_at_every_call():
    class Owner:
        def step(self, x):
            self.names = {"a"}
            return x + 1, {1, (2, 3)}, [bytearray(b"a")], {"k": Counter("aab")}, SHARED

    plain, converted = Owner(), Owner()
    step = tg.function(converted.step)
    for _ in range(6):
        wanted, found = plain.step(X), step(X)
        assert wanted[1:] == found[1:]
        assert type(found[3]["k"]) is Counter
        assert found[4] is SHARED
        assert converted.names == plain.names
        found[1].add(5)
        found[2][0].append(5)
        found[3]["k"].update("b")
        converted.names.add("b")


def generated(x):
    yield x


@pytest.mark.parametrize(
    "made",
    [lambda x: (i for i in x), lambda x: x.numpy, lambda x: generated(x * 2), lambda x: [iter([x, x])], lambda x: zip([x], [1]),
     lambda x: map(torch.neg, iter((x, x)))],
)  # fmt: skip
def test_what_keeps_a_symbolic_tensor_is_refused(made):
    with pytest.raises(ScopeError, match="Return the tensors themselves"):
        tg.function(made)(X)


def test_questions_about_types_are_answered_while_tracing():
    def f(x):
        return (
            torch.promote_types(torch.float16, torch.float32),
            torch.can_cast(torch.float64, torch.int32),
            torch.result_type(x, 1.5),
            torch.result_type(x.int(), x),
            x + torch.ones(2, dtype=torch.promote_types(x.dtype, torch.float64)),
        )

    native, converted = f(X), tg.function(f)(X)
    assert native[:4] == converted[:4]
    assert torch.equal(native[4], converted[4])


def test_a_set_with_conditional_items_that_is_one_of_several_results():
    def f(x):
        found, shown, table = set(), None, {}
        for i, v in enumerate(x):
            if v > 0:
                shown = found
                table["found"] = found
                found.add(i)
        return shown, (3, shown), table.get("found")

    for x in (torch.tensor([-1.0, -2.0, 3.0]), torch.tensor([1.0, -2.0, 3.0]), -torch.ones(3)):
        assert tg.function(f)(x) == f(x)


def an_array(x):
    a = np.arange(3)
    return a, {"again": a, "x": x}


def iterators(x):
    it = iter([1, 2, 3])
    next(it)
    return it, zip([1, 2], [3, 4]), (v * 2 for v in range(2)), enumerate([5], 1)


def objects_of_c(x):
    return array.array("i", [1]), io.StringIO("text"), random.Random(3)


def used(x):
    """A result as text; afterwards it is used up and changed."""
    if isinstance(x, np.ndarray):
        text = f"{type(x)} {x}"
        x += 1
        return text
    if isinstance(x, array.array):
        x.append(9)
        return str(x[:-1])
    if isinstance(x, io.StringIO):
        return x.read()
    if isinstance(x, random.Random):
        return str(x.random())
    if isinstance(x, (tuple, list)):
        return str(list(map(used, x)))
    if isinstance(x, dict):
        return str([(k, used(v)) for k, v in x.items()])
    return str(list(x)) if hasattr(x, "__next__") else str(x)


@pytest.mark.parametrize("program", [an_array, iterators, objects_of_c], ids=lambda p: p.__name__)
def test_objects_that_a_call_makes_are_new_at_each_call(program):
    f, x = tg.function(program), torch.ones(2)
    for _ in range(5):
        assert used(f(x)) == used(program(x))
    value, places = tg.function(an_array)(x)
    assert places["again"] is value


KEPT, HELD = np.arange(3), {"a": [random.Random(3)], "b": np.arange(2)}


def test_objects_from_outside_are_themselves():
    f = tg.function(lambda x: (KEPT, HELD["a"][0], HELD["b"], x))
    for _ in range(3):
        a, b, c, _ = f(torch.ones(2))
        assert a is KEPT and b is HELD["a"][0] and c is HELD["b"]


# ---- tensors from outside that places outside get by a staged condition


def in_an_attribute(s, x):
    if x.sum() > 0:
        s.kept = s.w
    s.w.add_(x)
    return s.kept * 1


def either_of_two(s, x):
    s.kept = s.w if x.sum() > 0 else s.c
    s.w.mul_(2)
    s.c.add_(x)


def in_a_list(s, x):
    s.log.append(s.w if x.sum() > 0 else s.c * 2)
    s.w.add_(x)


def in_a_dict(s, x):
    s.table["k"] = s.w if x.sum() > 0 else s.c * 2
    s.w.add_(x)


def by_a_loop(s, x):
    t = s.c * 3
    for i in range(3):
        if x.sum() > i:
            t = s.w
    s.kept = t
    s.w.add_(x)
    return t


def an_argument(s, x):
    s.kept = x if x.sum() > 0 else s.w
    x.mul_(2)
    s.w.add_(1)


def a_view(s, x):
    s.kept = s.w[:1] if x.sum() > 0 else s.c[1:]
    s.w.add_(x)


def _with_two_tensors():
    return SimpleNamespace(
        w=torch.zeros(2), c=torch.ones(2), kept=torch.full((2,), 5.0), log=[], table={}
    )


@pytest.mark.parametrize(
    "f", [in_an_attribute, either_of_two, in_a_list, in_a_dict, by_a_loop, an_argument, a_view]
)
@pytest.mark.parametrize("signs", [*itertools.product((1, -1), repeat=3)])
def test_places_that_get_a_tensor_from_outside_by_a_condition(f, signs):
    plain, staged, run = _with_two_tensors(), _with_two_tensors(), tg.function(f)
    for i, sign in enumerate(signs):
        found = []
        for s, g in ((plain, f), (staged, run)):
            x = torch.ones(2) * sign * (i + 1)
            y = g(s, x)
            found.append([x, s.w, s.c, s.kept, *s.log, *s.table.values()])
            found[-1] += [] if y is None else [y]
        torch.testing.assert_close(*found)
        same = [[a is b for a in tensors for b in tensors] for tensors in found]
        assert same[0] == same[1]


@contextlib.contextmanager
def _lent(x):
    yield x + 1


@pytest.mark.parametrize(
    "keep", [_lent, contextlib.nullcontext, lambda x: {"a": x}.items(), lambda x: torch.utils.data.TensorDataset(x)]
)  # fmt: skip
def test_objects_that_keep_a_tensor_of_the_graph_do_not_leave(keep):
    with pytest.raises(tg.errors.ScopeError, match="keeps a tensor or number of the graph"):
        tg.function(lambda x: keep(x))(torch.ones(2))


class Endless:
    def __init__(self, v):
        self.v = v

    def __next__(self):
        return self.v


def test_an_object_that_a_branch_makes_does_not_leave_with_values_of_the_graph():
    def f(x):
        y = 3
        if x.sum() > 0:
            y = Endless(x * 2)
        return y

    with pytest.raises(ScopeError):
        tg.function(f)(torch.ones(2))


@pytest.mark.parametrize("spec", [(None, 3), (2, None), (None, None)])
def test_what_an_argument_of_an_open_size_gives_requires_a_gradient_where_that_does(spec):
    f = tg.function(lambda x: x * 2, input_signature=[tg.TensorSpec(spec, torch.float32)])
    for required in (True, False, True, False, False):
        x = torch.randn(2, 3, requires_grad=required)
        y = f(x)
        assert (y.requires_grad, y.is_leaf) == (required, not required)
