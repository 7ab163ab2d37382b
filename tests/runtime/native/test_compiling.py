"""Graphs as they are when native code is made of them: the passes before that keep what the nodes wait for."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native import compiling

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def trained(w, x):
    """A product in the same graph as a sum, a variable that is read behind a branch after it was written, and a print."""
    losses, best = [], float("inf")
    for i in range(3):
        loss = (x @ w).sum()
        w.add_(1)
        losses.append(loss)
        if w.sum() < best:
            best = int(w.sum())  # fails for NaN
        elif w.sum() > 1e9:
            print("stop", i)
            break
    return losses, w + 1


def test_a_variable_is_read_behind_its_last_write():
    staged = tg.function(trained)
    w, x = torch.ones(3, 1), torch.ones(8, 3)
    own = w.clone()
    for _ in range(3):
        expected, found = trained(w, x), staged(own, x)
        torch.testing.assert_close(found, expected)
        assert torch.equal(own, w)
    assert staged.concrete_functions[0].scheduled.reason == ""


def test_copies_of_a_graph_keep_what_its_nodes_wait_for(monkeypatch):
    seen = []

    def lowering(graph, *rest):
        seen.append(graph)
        return kept(graph, *rest)

    kept = compiling._lower
    monkeypatch.setattr(compiling, "_lower", lowering)
    monkeypatch.setattr(compiling, "_lowered", {})
    staged = tg.function(trained)
    for _ in range(3):
        staged(torch.ones(3, 1), torch.ones(8, 3))
    reads = [n for g in seen for n in g.nodes if n.op == "tg.read" and g.nodes.index(n)]
    assert reads and all(any(c.op == "tg.assign" for c in n.control_inputs) for n in reads)
