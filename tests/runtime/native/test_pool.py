"""What a forward loop saves goes round: its objects and memory serve later calls, never while somebody still has them."""

import gc

import pytest
import torch

import tograph as tg
from tograph.runtime.native import entry, layout, pool, program
from tograph.runtime.native.rows import Rows

pytestmark = pytest.mark.skipif(
    layout.layout() is None or entry._symbols() is None, reason="this torch has another layout"
)


def grow(x, w, n):
    while n > 0:
        x = torch.tanh(x * w)
        n = n - 1
    return x


def expected(x, w, n):
    y = w.detach().clone().requires_grad_()
    return torch.autograd.grad(grow(x, y, n).sum(), y)[0]


def inputs(size=6000, trips=4):
    return torch.randn(size), torch.randn(size, requires_grad=True), torch.tensor(trips)


@pytest.fixture
def seen(monkeypatch):
    """The lists that go into programs."""
    lists = []
    packed = program.Native.quick

    def quick(self, given):
        lists.extend(x for x in given if type(x) is Rows)
        return packed(self, given)

    monkeypatch.setattr(program.Native, "quick", quick)
    return lists


def settled(f, *args):
    for _ in range(6):
        torch.autograd.grad(f(*args).sum(), args[1])
    return f


def test_this_python_shows_where_lists_have_their_words():
    assert pool.offsets() is not None


@pytest.mark.parametrize("size", [3, 6000])
def test_gradients_of_many_calls(size):
    f = settled(tg.function(grow), *inputs(size))
    for trips in (5, 1, 0, 90, 3):
        x, w, n = inputs(size, trips)
        y = f(x, w, n)
        assert y.requires_grad == (trips > 0)
        if trips:
            torch.testing.assert_close(torch.autograd.grad(y.sum(), w)[0], expected(x, w, n))


def test_objects_and_memory_are_used_again(seen):
    x, w, n = inputs()
    f = settled(tg.function(grow), x, w, n)
    del seen[:]
    first, again = [], []
    for into in (first, again):
        for _ in range(4):
            torch.autograd.grad(f(x, w, n).sum(), w)
            into.append({(id(r), r.at) for r in seen})
            del seen[:]
    assert set.union(*again) <= set.union(*first)


def test_calls_by_the_entry(monkeypatch):
    """The backward program takes what was saved without help of Python's path."""
    x, w, n = inputs()
    f = settled(tg.function(grow), x, w, n)
    y = f(x, w, n)
    monkeypatch.setattr(program.Native, "_run_alone", lambda *_: pytest.fail("by Python's path"))
    (found,) = torch.autograd.grad(y.sum(), w)
    torch.testing.assert_close(found, expected(x, w, n))


def test_what_waits_for_its_gradient_stays():
    """More calls than lists are kept, of different lengths, whose gradients are taken later and in another order."""
    f = settled(tg.function(grow), *inputs())
    cases = [inputs(trips=t) for t in (3, 7, 1, 5, 2, 9)]
    results = [f(*case).sum() for case in cases]
    for k in (2, 5, 0, 1, 4, 3):
        (found,) = torch.autograd.grad(results[k], cases[k][1])
        torch.testing.assert_close(found, expected(*cases[k]))


def test_a_graph_that_is_retained():
    x, w, n = inputs()
    f = settled(tg.function(grow), x, w, n)
    y = f(x, w, n).sum()
    (first,) = torch.autograd.grad(y, w, retain_graph=True)
    for _ in range(3):
        torch.autograd.grad(f(-x, w, n + 1).sum(), w)
    (second,) = torch.autograd.grad(y, w)
    assert torch.equal(first, second)


def test_memory_of_which_a_tensor_was_made_goes_round_no_more(seen):
    x, w, n = inputs()
    f = settled(tg.function(grow), x, w, n)
    del seen[:]
    torch.autograd.grad(f(x, w, n).sum(), w)
    kept = [(r.parts[0], r.parts[0].clone(), len(r.items())) for r in seen]
    assert kept
    assert all(count == 4 for *_, count in kept)
    del seen[:]
    for _ in range(5):
        torch.autograd.grad(f(x + 1, w, n).sum(), w)
        del seen[:]
    assert all(torch.equal(tensor, copy) for tensor, copy, _ in kept)


def test_a_program_that_goes_before_its_lists():
    x, w, n = inputs()
    f = settled(tg.function(grow), x, w, n)
    y = f(x, w, n).sum()
    f.clear_cache()
    del f
    gc.collect()
    (found,) = torch.autograd.grad(y, w)
    torch.testing.assert_close(found, expected(x, w, n))


class Experts(torch.nn.Module):
    """Each of several experts takes the rows that choose it: branches keep tensors whose length only the run knows."""

    def __init__(self, chosen):
        super().__init__()
        self.experts = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(3))
        self.chosen = chosen

    def forward(self, x, best):
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            out = self.chosen(out, x, best == e, expert)
        return out


def by_positions(out, x, mine, expert):
    (rows,) = torch.where(mine)
    if rows.numel() > 0:
        out = out.index_add(0, rows, torch.tanh(expert(x[rows])))
    return out


def by_mask(out, x, mine, expert):
    if mine.any():
        out[mine] = torch.tanh(expert(x[mine]))
    return out


@pytest.mark.parametrize("chosen", [by_positions, by_mask])
def test_what_branches_save_goes_round(chosen, seen):
    """Lists in several buffers, of calls that overlap, too."""
    model = Experts(chosen)
    f, weights = tg.function(model.forward), list(model.parameters())

    def gradients(g, x, best):
        return torch.autograd.grad(g(x, best).square().sum(), weights, allow_unused=True)

    cases = [(torch.randn(n, 6), torch.randint(0, k, (n,))) for n, k in ((9, 3), (9, 1), (9, 2))]
    for _ in range(4):
        for case in cases:
            torch.testing.assert_close(gradients(f, *case), gradients(model, *case))
    waiting = [f(*case).square().sum() for case in cases * 2]
    for y, case in list(zip(waiting, cases * 2))[::-1]:
        found = torch.autograd.grad(y, weights, allow_unused=True)
        torch.testing.assert_close(found, gradients(model, *case))
    del seen[:]
    gradients(f, *cases[0])
    parts = [p for x in seen for p in x._parts]
    assert len(parts) > len(seen) > 0
    assert all(type(p) is pool.Memory for p in parts)
