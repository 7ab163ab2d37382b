"""Results that are tensors of the caller's, by conditions that only the run knows: the same objects as in plain Python."""

import sys

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit

OUTER = torch.arange(3.0)


def one_or_the_other(x, y, c):
    return x if c.sum() > 0 else y


def on_one_path(x, y, c):
    if c.sum() > 0:
        return x, y
    return y, x + 1


def in_a_container(x, y, c):
    return {"one": x if c.sum() > 0 else y * 2, "all": [y]}


def views(x, y, c):
    return x[1:] if c.sum() > 0 else y[1:]


def a_part_and_the_whole(x, y, c):
    z = x if c.sum() > 0 else y
    return z[0], z


def written(x, y, c):
    z = x if c.sum() > 0 else y
    z.add_(1)
    return z


def of_a_loop(x, y, c):
    while c.sum() > 0:
        x, y = y, x
        c = c - 1
    return x


def early(x, y, c):
    for i in range(3):
        if c.sum() > i:
            x = y
        elif c.sum() < -3:
            return x, i
    return x * 2 if c.sum() == 0 else x, 0


def captured(x, y, c):
    return OUTER if c.sum() > 0 else x


def failing(x, y, c):
    try:
        assert c.sum() > 0
        return x
    except AssertionError:
        return y


def twice(x, y, c):
    z = w = x if c.sum() > 0 else torch.zeros(3)
    z = z if c.sum() > 1 else y
    return w, z, w + z


def items(x, y, c):
    xs = [y, OUTER]
    while c.sum() > 0:
        xs.append(x)
        xs.append(y * c)
        c = c - 1
    return xs[0], {"last": xs[-2]}, xs[-1]


def an_item_or_an_argument(x, y, c):
    found = []
    while c.sum() > 0:
        found.append(y if c.sum() > 2 else x * 2)
        c = c - 1
    return found[0] if len(found) > 0 else x


PROGRAMS = [items, an_item_or_an_argument, one_or_the_other, on_one_path, in_a_container, views, a_part_and_the_whole, written, of_a_loop, early, captured, failing, twice]  # fmt: skip


def _whose(result, x, y):
    """For each tensor of a result: whose it is, or whose memory it has."""
    found = []
    for r in torch.utils._pytree.tree_leaves(result):
        if not isinstance(r, torch.Tensor):
            found.append(r)
            continue
        known = {"x": x, "y": y, "outer": OUTER}
        same = [n for n, t in known.items() if r is t]
        shared = [f"part of {n}" for n, t in known.items() if r.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()]  # fmt: skip
        found.append(((same or shared or ["new"])[0], r.requires_grad, r.tolist()))
    return found


def _outcome(f, x, y, c):
    try:
        return _whose(f(x, y, c), x, y)
    except RuntimeError as error:  # a leaf is not written
        return str(error).partition("\n")[0]


@pytest.mark.parametrize("requires_grad", [False, True], ids=["plain", "gradients"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_objects_of_results(program, requires_grad):
    f = tg.function(program)
    for c in (1.0, -1.0, 2.0, -5.0, 0.0, 3.0, 1.0, -1.0):
        made = [
            (torch.tensor([1.0, 2.0, 3.0], requires_grad=requires_grad), torch.tensor([4.0, 5, 6]))
            for _ in range(2)
        ]
        plain, converted = (_outcome(g, *xs, torch.full((1,), c)) for g, xs in zip((program, f), made))  # fmt: skip
        assert plain == converted


def test_an_entry_gives_arguments_and_keeps_the_counts_of_references():
    f = tg.function(on_one_path)
    x, y, c = torch.ones(3), torch.zeros(3), torch.ones(1)
    for _ in range(6):
        f(x, y, c), f(x, y, -c)
    concrete = f.get_concrete_function(x, y, c)
    assert concrete.entry is not None
    assert concrete.entry(x, y, c)[0] is x and concrete.entry(x, y, -c)[0] is y
    before = sys.getrefcount(x), sys.getrefcount(y)
    for _ in range(10):
        f(x, y, c), f(x, y, -c)
    assert (sys.getrefcount(x), sys.getrefcount(y)) == before


def test_an_attribute_that_keeps_its_tensor_on_one_path_is_written_by_its_name():
    class Model:
        def __init__(self):
            self.state = torch.zeros(2)

        def step(self, x):
            if x.sum() > 0:
                self.state = x
            return self.state

    for first in (1.0, -1.0):
        plain, converted = Model(), Model()
        step = tg.function(converted.step)
        for v in (first, -2.0, 3.0, -4.0):
            a, b = torch.full((2,), v), torch.full((2,), v)
            r, s = plain.step(a), step(b)
            assert (r is a) == (s is b) and s is converted.state
            a.add_(1), b.add_(1)
            assert plain.state.tolist() == converted.state.tolist()


def test_other_systems_get_values_and_files_keep_identities(tmp_path):
    f = tg.function(on_one_path)
    x, y, c = torch.ones(3), torch.zeros(3), torch.ones(1)
    concrete = f.get_concrete_function(x, y, c)
    assert len(concrete.outputs) == 2
    assert len(concrete.to_fx()(x, y, c)) == 2
    tg.save(f, tmp_path / "f.tg")
    loaded = tg.load(tmp_path / "f.tg")
    assert loaded(x, y, c)[0] is x and loaded(x, y, -c)[0] is y


def no_iteration(x, k, n):
    while n > 0:
        x = x * 2
        n = n - 1
    return x, n


def of_a_row(x, k, n):
    """A view at a place that only the run knows."""
    y = x[k]
    while n > 0:
        y = y * 2
        n = n - 1
    return y, n


def of_two_names(x, k, n):
    y = x + 1
    while n > 0:
        x, y = y, x * 2
        n = n - 1
    return y, x


@pytest.mark.parametrize("program", [no_iteration, of_a_row, of_two_names])
def test_a_loop_without_an_iteration_gives_the_tensor_itself(program):
    """In native code too, but for views of which no index tells; it shares memory there as well."""
    f = tg.function(program)
    for n in (2, 0, 0, 1, 0, 0):
        found = []
        for g in (program, f):
            x = torch.ones(3, 3)
            results = g(x, torch.tensor(1), torch.tensor(n))
            x.add_(5)
            found.append([(y.tolist(), y is x) for y in results])
        assert found[0] == found[1]
    scheduled = f.concrete_functions[0].scheduled
    if jit.llvm is not None:
        assert scheduled.level == "native" and scheduled.declined == 2 * (program is of_a_row)
