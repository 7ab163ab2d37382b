"""Tensors as keys of dicts and items of sets: by which object they are, in containers that the function makes and in those from outside."""

import contextlib
import io
from collections import OrderedDict, defaultdict

import pytest
import torch

import tograph as tg
from tograph.errors import StagingError

W = torch.tensor(3)


def in_a_branch(n):
    y = n + 1
    s, d = {1, W}, {1: 1}
    if n > 0:
        s.add(y)
        d[y] = 3
    return s, d, len(s), y in s, [s, (s,)]


def taken_out(n):
    y = n + 1
    s, d = {y, 2}, OrderedDict([(y, 1), (3, 2)])
    if n > 0:
        s.discard(y)
        del d[y]
    return s, d, defaultdict(int, {y: 2}), frozenset([y])


def of_several_kinds(n):
    z = n + 1 if n > 0 else 7
    s = {3}
    s.add(z)
    return s, {z: 2}


def printed(n):
    y = n + 1
    s, d = {y}, {y: 2}
    if n > 0:
        s.discard(y)
        d[n] = n
    print(s, d, frozenset([y]))
    return f"{d} {[s]}"


def raised(n):
    y = n + 1
    s = {1}
    if n > 0:
        s.add(y)
    raise ValueError({n: 3}, s)


def shown(f, *args):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        try:
            found = repr(f(*args))
        except ValueError as error:
            found = repr(error.args)
    return sorted(found + out.getvalue())  # a set of tensors has no order


@pytest.mark.parametrize("plain", [in_a_branch, taken_out, of_several_kinds, printed, raised])
def test_in_containers_of_the_function(plain):
    f = tg.function(plain)
    for n in (2, 0, 2):
        assert shown(f, torch.tensor(n)) == shown(plain, torch.tensor(n))


def momentum(state):
    def step(params):
        for p in params:
            if p not in state:
                state[p] = torch.zeros_like(p)
            held = state.get(p)
            held.mul_(0.5).add_(p.detach())
            with torch.no_grad():
                p.sub_(state[p])

    return step


def test_arguments_as_keys_of_a_dict_from_outside():
    made = []
    for convert in (lambda f: f, tg.function):
        state = {}
        params = [torch.nn.Parameter(torch.ones(2) * k) for k in (1, 2)]
        step = convert(momentum(state))
        for group in (params, params, params[::-1], params):
            step(group)
        assert all(a is b for a, b in zip(state, params, strict=True))
        made.append([*params, *state.values()])
    torch.testing.assert_close(*made)


def test_arguments_that_are_tensors_from_outside():
    held, items = {W: 1, ("k", W): 2}, [torch.tensor(3), W]

    def asked(n):
        known = n in held, held.get(n, 0), ("k", n) in held, 3 in {W: 1}, n.item() in {W, 4}
        return known, n is W, [n is v for v in items]

    f = tg.function(asked)
    for n in (torch.tensor(3), W, items[0], torch.tensor(4), W):
        assert f(n) == asked(n)


def test_a_dict_argument_gets_the_tensor_of_the_caller():
    def put(d, n):
        if n > 0:
            d[n] = n + 1

    f, d, n = tg.function(put), {1: 2}, torch.tensor(2)
    f(d, n)
    assert list(d)[1] is n and d[n] == 3
    d = {1: 2}
    f(d, torch.tensor(0))
    assert d == {1: 2}


def test_a_name_for_one_of_several_tensors():
    def asked(n, x):
        y = x if n > 1 else x + 1
        z = x
        for _ in range(n):
            if z in {x}:
                z = z + 1
        own = {y: 1, n: 2}
        own[y] += 1
        return y in {x}, y in {x: 1, n: 2}, z, own[y], y in own, n in {y}

    f, x = tg.function(asked), torch.ones(2)
    for n in (2, 0, 1, 3):
        assert str(f(torch.tensor(n), x)) == str(asked(torch.tensor(n), x))


@pytest.mark.parametrize(
    "use",
    [
        lambda x, y: {x, y},
        lambda x, y: set([x, y]),
        lambda x, y: {x: 1, y: 2},
        lambda x, y: {x: 1}.get(y),
        lambda x, y: {x: 1}[y],
        lambda x, y: {x} & {y},
        lambda x, y: {x}.union({y}),
        lambda x, y: ("k", y) in {("k", x)},
    ],
)
def test_a_key_that_may_be_one_of_several_tensors_is_refused(use):
    def f(n, x):
        return use(x, x if n > 1 else x + 1)

    with pytest.raises(StagingError, match="whether a tensor is a key or item here"):
        tg.function(f)(torch.tensor(1), torch.ones(2))


def test_items_that_are_one_tensor_in_some_calls():
    def counted(n):
        s, d = set(), {W: 1}
        s.add(n)
        s.add(W)
        d[n] = 2
        return len({n, W}), len(s), len(d), len({n} & {W}), {n} <= {W}, len({n: 1, W: 2})

    f = tg.function(counted)
    for n in (W, torch.tensor(3), W, torch.tensor(3)):
        assert f(n) == counted(n)


@pytest.mark.parametrize("conditional", [False, True])
def test_new_tensors_are_no_keys_outside(conditional):
    state, seen = {}, set()

    def put(n):
        if not conditional or n > 0:
            state[n + 1] = 1

    def added(n):
        y = n + 1
        if n > 0:
            seen.add(y)

    for plain in (put, added):
        with pytest.raises(StagingError, match="from outside, which knows it as the object"):
            tg.function(plain)(torch.tensor(1))
    assert not state and not seen
