"""States that go into a list are copied by the nest that computes the next one."""

import pytest
import torch

import tograph as tg
from tests.runtime.native import checks
from tests.runtime.native.checks import r
from tograph.runtime.kernels import jit
from tograph.runtime.native import compiling
from tograph.runtime.native.saving import copied_in_nests

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def states(x, w, n):
    made, i = [], 0
    while i < n:
        made.append(x)
        x = torch.tanh(x @ w) + x * 0.5
        i += 1
    return torch.stack(made), x


def products(x, w, n):
    made, i = [], 0
    while i < n:
        made.append(x)
        x = x @ w
        i += 1
    return torch.stack(made), x


def clones(graph):
    [loop] = [n for n in graph.nodes if n.op == "While"]
    return [n for n in loop.regions["body"].nodes if n.op == "aten.clone.default"]


def test_a_state_that_a_nest_reads():
    cf = checks.compiled(states, r(32, 48), r(48, 48) / 7, torch.tensor(5))
    [clone] = clones(copied_in_nests(cf.graph))
    assert clone.control_inputs[0].op.startswith("aten.mul")
    assert cf.scheduled.llvm.count("call void @llvm.memmove") < _unchanged(cf)


def _unchanged(cf):
    """How often the code of the graph as it is moves memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "copied_in_nests", lambda graph: graph)
        patch.setattr(compiling, "_lowered", {})
        g = tg.function(lambda x, w, n: states(x, w, n))
        made = g.get_concrete_function(r(32, 48), r(48, 48), torch.tensor(5))
        made.scheduled.compile()
        return made.scheduled.llvm.count("call void @llvm.memmove")


@pytest.mark.parametrize(("form", "shape"), [(products, (32, 48)), (states, (4, 4))])
def test_others_are_copied_as_they_are(form, shape):
    cf = checks.compiled(form, r(*shape), r(shape[1], shape[1]) / 7, torch.tensor(5))
    assert clones(copied_in_nests(cf.graph)) == []
