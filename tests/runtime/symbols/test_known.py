"""Numbers that follow from constants are Python's while tracing."""

import pytest
import torch

import tograph as tg
from tograph.runtime.graph.ordering import node_effects
from tograph.runtime.symbols import known


def test_a_power_of_a_number_of_a_constant():
    def f(x):
        scale = 2 ** float(torch.tensor(4 / 64).log2().round())
        return torch.nn.functional.layer_norm(x, (3,), eps=scale)

    x = torch.randn(2, 3)
    torch.testing.assert_close(tg.function(f)(x), f(x))


def test_one_that_fails():
    def f(x):
        scale = 0.0 ** float(torch.tensor(-1.0).round())
        return torch.nn.functional.layer_norm(x, (3,), eps=scale)

    with pytest.raises(Exception) as found:
        tg.function(f)(torch.randn(2, 3))
    assert isinstance(found.value, (ZeroDivisionError, tg.errors.GraphBoolError))


def test_branches_of_what_depends_on_an_input_are_not_gone_through(monkeypatch):
    """A chain of branches holds all that was computed: what each of them does is asked only where a constant decides."""
    graph = tg.parse_graph(CHAIN)
    asked = []
    monkeypatch.setattr(known, "node_effects", lambda n: asked.append(n.op) or node_effects(n))
    assert known.known(graph.outputs[0]) is known.UNKNOWN
    assert asked == []
    assert known.known(graph.outputs[1]) == 3
    assert asked == ["py.constant", "py.constant", "If"]


CHAIN = """\
f(%c: bool, %x: int) {
  %0: int = If(%c, %x) {
    then(%0: int) {
      %1: int = py.add(%0, 1)
      return %1
    }
    orelse(%0: int) {
      return %0
    }
  }
  %1: bool = py.constant(True)
  %2: int = py.constant(3)
  %3: int = If(%1, %2) {
    then(%0: int) {
      return %0
    }
    orelse(%0: int) {
      %1: int = py.add(%0, 1)
      return %1
    }
  }
  return %0, %3
}
"""
