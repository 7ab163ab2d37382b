"""Steps of optimisers in native code: one loop nest, no results but what is new, and no work in Python for each parameter."""

import pytest
import torch
from torch import nn

import tograph as tg
from tograph.runtime.guarding import slots
from tograph.runtime.kernels import jit
from tograph.runtime.native import callees
from tograph.runtime.native.program import SETTLED

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
MAKERS = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1),
    "adam": lambda p: torch.optim.Adam(p, 0.1),
    "adamax": lambda p: torch.optim.Adamax(p, 0.1),
}


def _step(make, count):
    torch.manual_seed(0)
    parameters = [nn.Parameter(torch.randn(8, 8)) for _ in range(count)]
    for p in parameters:
        p.grad = torch.randn_like(p)
    return make(parameters), parameters


@pytest.mark.parametrize("name", MAKERS)
def test_a_step_is_one_nest_over_tensors_of_one_shape(name):
    # Each step's corrections are numbers of the run, which may fail: what is written before them does not wait for that.
    optimizer, found = _step(MAKERS[name], 3)
    eager, expected = _step(MAKERS[name], 3)
    staged = tg.function(lambda: optimizer.step())
    for _ in range(4):
        staged()
        eager.step()
        torch.testing.assert_close(found, expected)
    (concrete,) = staged.concrete_functions
    assert concrete.scheduled.level == "native"
    assert len([k for k in concrete.kernels if "8" in str(k.loops)]) == 1
    assert concrete.effects == []
    assert all(v in concrete.optimized_graph.inputs for v in concrete.optimized_graph.outputs)


def test_what_fails_comes_before_what_is_printed(capfd):
    variable = torch.zeros(3)

    @tg.function
    def f(x, n):
        variable.add_(x)
        k = 12 // n
        print("divided by", k)
        return variable * k

    assert f(torch.ones(3), torch.tensor(3)).tolist() == [4.0] * 3
    with pytest.raises((ZeroDivisionError, RuntimeError)):
        for n in (4, 0, 2):
            f(torch.ones(3), torch.tensor(n))
    assert capfd.readouterr().out == "divided by tensor(4)\ndivided by tensor(3)\n"
    assert variable.tolist() == [3.0] * 3


def test_the_momentum_is_the_tensor_that_it_was():
    optimizer, parameters = _step(MAKERS["sgd"], 2)
    staged = tg.function(lambda: optimizer.step())
    staged()
    held = [optimizer.state[p]["momentum_buffer"] for p in parameters]
    before = [x.clone() for x in held]
    staged()
    assert all(optimizer.state[p]["momentum_buffer"] is x for p, x in zip(parameters, held))
    assert not any(map(torch.equal, held, before))
    # Another one is what the next step goes on from.
    for p in parameters:
        optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    staged()
    for p, x in zip(parameters, held):
        assert optimizer.state[p]["momentum_buffer"] is not x
        decayed = optimizer.state[p]["momentum_buffer"]
        assert not torch.equal(decayed, torch.zeros_like(p))


def test_many_variables_are_written_by_the_entry():
    optimizer, _ = _step(MAKERS["sgd"], 40)
    staged = tg.function(lambda: optimizer.step())
    for _ in range(SETTLED + 2):
        staged()
    native = staged.concrete_functions[0].scheduled.native
    before = native.successes
    staged()
    assert native.successes == before + 1


class Cells:
    """Places whose tensors are replaced at each call."""

    def __init__(self, count):
        self.held = {i: torch.full((2,), float(i)) for i in range(count)}
        self.total = torch.zeros(2)

    def step(self):
        self.total += self.held[0]
        for i, x in self.held.items():
            self.held[i] = x + 1


def test_what_is_looked_up_is_compared_in_one_pass(monkeypatch):
    cells, count = Cells(40), [0]
    staged = tg.function(cells.step)
    for _ in range(3):
        staged()

    def counted(x, memory=slots.memory):
        count[0] += 1
        return memory(x)

    monkeypatch.setattr(slots, "memory", counted)
    staged()
    assert 40 <= count[0] <= 4 * 40
    torch.testing.assert_close(cells.held[5], torch.full((2,), 9.0))


def test_looked_up_tensors_that_share_memory_are_another_trace():
    cells = Cells(4)
    staged = tg.function(cells.step)
    for _ in range(2):
        staged()
    both, traces = torch.zeros(4), staged.trace_count
    cells.held[1], cells.held[2] = both[:2], both[2:]
    cells.held[3] = cells.total
    plain = Cells(4)
    plain.held.update({i: x.clone() for i, x in cells.held.items()})
    plain.total = plain.held[3] = cells.total.clone()
    staged()
    plain.step()
    torch.testing.assert_close((cells.held, cells.total), (plain.held, plain.total))
    assert staged.trace_count > traces


def test_an_op_of_torch_keeps_what_its_operands_are(monkeypatch):
    weight, x = nn.Parameter(torch.randn(4, 3, 3, 3)), torch.randn(2, 3, 8, 8)

    @tg.function
    def step(scale):
        weight.grad = None
        torch.conv2d(x * scale, weight).square().sum().backward()

    scale, kept = torch.tensor(2.0), []
    for _ in range(3):
        step(scale)
    read = []
    monkeypatch.setattr(callees.Call, "_read", lambda self, given: read.append(1))
    for _ in range(4):  # each gives a gradient in memory of its own
        step(scale)
        kept.append(weight.grad)
    assert not read
    expected = torch.autograd.grad(torch.conv2d(x * 2, weight).square().sum(), weight)[0]
    torch.testing.assert_close(kept, [expected] * 4)
    assert len({g.data_ptr() for g in kept}) == 4
