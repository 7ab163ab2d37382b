"""Passes ask what regions do once for each region, not once for each level that it stands in."""

import pytest
import torch

import tograph as tg
from tograph.runtime.graph import ordering
from tograph.runtime.graph.rewrite import copied, count_nodes
from tograph.runtime.passes import PASSES, cse, forward, prune, sink


def nested(depth):
    lines = ["def f(x, y):"]
    for i in range(depth):
        lines.append("    " * (i + 1) + f"if x.sum() > {i}:")
    lines.append("    " * (depth + 1) + "y = y * 2")
    return "\n".join([*lines, "    return y", ""])


@pytest.fixture
def graph(tmp_path, monkeypatch):
    def make(depth):
        (tmp_path / f"nested{depth}.py").write_text(nested(depth))
        monkeypatch.syspath_prepend(tmp_path)
        f = getattr(__import__(f"nested{depth}"), "f")
        return tg.function(f).get_concrete_function(torch.ones(3), torch.ones(3)).graph

    return make


@pytest.mark.parametrize("change", [cse, forward, prune, sink])
def test_effects_are_asked_for_in_proportion(change, graph, monkeypatch):
    counts = []
    asked = ordering.op_effects
    for depth in (8, 16):
        made, found = copied(graph(depth)), []
        with monkeypatch.context() as patch:
            patch.setattr(ordering, "op_effects", lambda *a, found=found: found.append(a) or asked(*a))  # fmt: skip
            change(made)
        counts.append(len(found) / count_nodes(made))
    assert counts[1] < 1.5 * counts[0] + 1
    assert change in [p.run for p in PASSES]
