"""Writes in branches and loops become carried values: the same results and variables, in the interpreter and in native code."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.runtime.autodiff import reached
from tograph.runtime.graph import interp
from tograph.runtime.graph.ordering import set_control_inputs
from tograph.runtime.graph.verification import verify
from tograph.runtime.kernels import jit
from tograph.runtime.passes.lift_writes import lifted, writes_inside


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("count", torch.tensor(0))
        self.weight = torch.nn.Parameter(torch.ones(3))

    def looped(self, x, n):
        i = 0
        while i < n:
            self.total += x * i
            self.count += 1
            x = x + self.total
            i += 1
        return x

    def branched(self, x, n):
        if x.sum() > n:
            self.total.copy_(x)
            y = self.total * 2
        else:
            y = self.total - x
            self.count -= 1
        return y + self.total

    def nested(self, x, n):
        i = 0
        while i < n:
            if x[0] > i:
                self.total.add_(1)
                j = torch.tensor(0)
                while j < 2:
                    self.total.mul_(1.5)
                    self.count += j
                    j += 1
            x = x + self.total * 0.1
            i += 1
        return x + self.count

    def read_inside(self, x, n):
        for i in range(n):
            self.total += 1
            if i > 1:
                x = x + self.total
        return x

    def failing(self, x, n):
        i = 0
        while i < n:
            self.total += 1
            x = x + x[i]
            i += 1
        return x

    def trained(self, x, n):
        loss = torch.zeros(())
        for _ in range(n):
            loss = ((x * self.weight) ** 2).sum()
            (g,) = torch.autograd.grad(loss, self.weight)
            with torch.no_grad():
                self.weight -= 0.01 * g
        return loss.detach()


NAMES = ["looped", "branched", "nested", "read_inside", "trained"]


@pytest.mark.parametrize("name", NAMES)
def test_values_and_variables_are_those_of_the_plain_function(name):
    plain, converted = Counting(), Counting()
    f = tg.function(getattr(converted, name))
    for n, scale in itertools.product(map(torch.tensor, (0, 1, 4)), (1.0, -1.0, 3.0)):
        x = torch.tensor([1.0, 2.0, 0.5]) * scale
        expected, found = getattr(plain, name)(x, n), f(x, n)
        torch.testing.assert_close(found, expected)
        for a, b in zip(plain.state_dict().values(), converted.state_dict().values()):
            torch.testing.assert_close(b, a)
    (cf,) = f.concrete_functions
    if jit.llvm is not None:
        assert (cf.scheduled.level, cf.scheduled.reason) == ("native", "")


@pytest.mark.parametrize("name", NAMES)
def test_the_lifted_graph_writes_at_the_top_only_and_means_the_same(name):
    x, n = torch.tensor([1.0, 2.0, 0.5]), torch.tensor(3)
    m = Counting()
    cf = tg.function(getattr(m, name)).get_concrete_function(x, n)
    assert writes_inside(cf.watched_graph)
    made = lifted(cf.watched_graph)
    set_control_inputs(made)
    verify(made)
    assert not writes_inside(made) and writes_inside(cf.watched_graph)
    results = []
    for graph in (cf.watched_graph, made):
        held = [copy.deepcopy(t.detach()) for t in cf.captured_inputs]
        results.append([*interp.run(graph, [x, n, *held]), *held])
    for a, b in zip(*results):
        assert torch.equal(torch.as_tensor(a), torch.as_tensor(b))


def test_where_it_fails_the_writes_before_are_made():
    plain, converted = Counting(), Counting()
    f = tg.function(converted.failing)
    for _ in range(2):
        for m in (plain.failing, f):
            with pytest.raises(IndexError):
                m(torch.ones(3), torch.tensor(5))
        assert torch.equal(plain.total, converted.total)


def test_what_the_condition_writes():
    plain, converted = Counting(), Counting()

    def run(m, x):
        while m.total.add_(1).sum() < 10:
            x = x + m.total
        return x

    f, x = tg.function(lambda x: run(converted, x)), torch.zeros(3)
    for _ in range(3):
        assert torch.equal(f(x), run(plain, x)) and torch.equal(plain.total, converted.total)


def test_batch_norm_that_trains_in_a_loop():
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU())
    converted = copy.deepcopy(plain)

    def run(m, x, n):
        total = torch.zeros(())
        with torch.no_grad():
            for i in range(n):
                total = total + m(x * (i + 1)).sum()
        return total

    f = tg.function(lambda x, n: run(converted, x, n))
    for _ in range(2):
        x, n = torch.randn(16, 4), torch.tensor(5)
        torch.testing.assert_close(f(x, n), run(plain, x, n), rtol=1e-4, atol=1e-4)
    for a, b in zip(plain.state_dict().values(), converted.state_dict().values()):
        torch.testing.assert_close(b, a)


# ---- which inputs autograd can reach


def test_a_result_that_is_detached_reaches_nothing_and_runs_natively():
    w, x = torch.nn.Parameter(torch.ones(3)), torch.arange(3.0)
    free = tg.function(lambda x: F.relu(x * w).detach().sum())
    bound = tg.function(lambda x: F.relu(x * w).sum())
    for _ in range(3):
        assert not free(x).requires_grad and bound(x).requires_grad
    assert reached(free.concrete_functions[0].graph) == frozenset()
    assert reached(bound.concrete_functions[0].graph) == {0, 1}
    if jit.llvm is not None:
        assert free.concrete_functions[0].scheduled.level == "native"


def test_a_buffer_that_takes_a_gradient_is_reached():
    w, h = torch.nn.Parameter(torch.ones(3)), torch.zeros(3)

    def f(x, n):
        for _ in range(n):
            h.mul_(0.5)
            h.add_(x * w)
        return x.sum()

    cf = tg.function(f).get_concrete_function(torch.ones(3), torch.tensor(2))
    assert len(reached(cf.graph)) > 1


def test_a_leaf_that_is_written_with_gradients_on_raises_as_in_eager_pytorch():
    w = torch.nn.Parameter(torch.ones(3))

    def f(x, n):
        for _ in range(n):
            w.add_(x)
        return x.sum()

    for call in (f, tg.function(f)):
        with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
            call(torch.ones(3), torch.tensor(2))


def moved_by_data(w, n):
    """``x.data`` is written in a branch of a loop."""
    while n > 0:
        if w.detach().sum() < 12:
            w.data.add_(1.0)
        else:
            w.data.mul_(0.5)
        n = n - 1
    return n


def tried(w, n):
    """A ``try`` that writes nothing, in a loop that does."""
    k = n.item()
    while n > 0:
        try:
            part = 1.0 / k
        except ZeroDivisionError:
            part = 0.0
        with torch.no_grad():
            w.add_(part)
        n, k = n - 1, k - 1
    return n


@pytest.mark.parametrize("program", [moved_by_data, tried])
def test_writes_that_leave_a_tensor_its_history_run_natively(program):
    leaf, copy_of_it = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
    w, plain = (leaf, copy_of_it) if program is tried else (leaf * 2, copy_of_it * 2)
    staged = tg.function(lambda n: program(w, n))
    for n in (3, 0, 2):
        assert torch.equal(staged(torch.tensor(n)), program(plain, torch.tensor(n)))
        assert torch.equal(w, plain)
    if w is not leaf:
        w.sum().backward(), plain.sum().backward()
        assert torch.equal(leaf.grad, copy_of_it.grad)
    if jit.llvm is not None:
        scheduled = staged.concrete_functions[0].scheduled
        assert scheduled.level == "native", scheduled.reason


def test_a_write_that_gives_a_history_beside_one_that_does_not():
    """In both orders, in a loop."""
    for last in ("data", "grad"):
        found = []
        for wrap in (lambda f: f, tg.function):
            v, h = torch.ones(3, requires_grad=True), torch.zeros(3)

            def program(n, v=v, h=h, last=last):
                for _ in range(n):
                    if last == "grad":
                        h.data.add_(1.0)
                    h.add_(v * 2)
                    if last == "data":
                        h.data.add_(1.0)
                return n + 1

            wrap(program)(torch.tensor(2))
            h.sum().backward()
            found.append((h.tolist(), v.grad.tolist()))
        assert found[0] == found[1]
