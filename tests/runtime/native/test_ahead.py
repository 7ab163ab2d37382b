"""What the next iteration takes out of lists is fetched while products run; results stay what they are."""

import pytest
import torch

import tograph as tg
from tests.runtime.native.checks import r
from tests.runtime.native.test_joined import many_threads
from tograph.runtime.graph.ir import Graph, Node, Value
from tograph.runtime.graph.types import ListType, ScalarType, TensorType
from tograph.runtime.kernels import jit
from tograph.runtime.native import ahead, compiling, joined, threading

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")
threads = pytest.mark.skipif(not threading.available(), reason="needs threads that code can use")


@pytest.fixture(autouse=True)
def small_products_are_joined(monkeypatch):
    """As if sizes that a test can afford were large."""
    monkeypatch.setattr(joined, "LEAST", 1 << 10)
    monkeypatch.setattr(threading, "PRODUCT", 1 << 10)
    monkeypatch.setattr(ahead, "LEAST", 1 << 8)


def recurrent(xs, w, v):
    h = torch.zeros(16, 24)
    for i in tg.range(torch.tensor(xs.shape[0])):
        h = torch.tanh(xs[i] @ w + h @ v)
    return h.sum()


def fetched(f, *args):
    """The lines that are fetched at once, at each place of the code for the gradients that a function has taken."""
    pairs = f.get_concrete_function(*args).gradients.differentiable._pairs.values()
    texts = [p._native.llvm for pair in pairs for p in pair._backwards.values()]
    parts = [t for text in texts for t in text.split("define ")]
    return [n for t in parts if (n := t.count("call void @llvm.prefetch"))]


def gradient(count):
    """The function after some gradients, which are those of eager PyTorch, and its arguments."""
    args = [x.requires_grad_() for x in (r(6, 16, 19), r(19, 24), r(24, 24))]
    f = tg.function(recurrent)
    with many_threads(count):
        for _ in range(8):
            found = torch.autograd.grad(f(*args), args)
            wanted = torch.autograd.grad(recurrent(*args), args)
            torch.testing.assert_close(found, wanted, atol=1e-3, rtol=1e-3)
    return f, *args


@threads
@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_gradient_of_a_loop_fetches_what_was_saved(count):
    assert fetched(*gradient(count)) != []


@threads
@pytest.mark.parametrize(("name", "value"), [("LEAST", 1 << 20), ("MOST", 0)])
def test_small_items_are_not_fetched_and_large_ones_are_not_either(monkeypatch, name, value):
    monkeypatch.setattr(ahead, name, value)
    monkeypatch.setattr(compiling, "_lowered", {})
    assert fetched(*gradient(2)) == []


def body(step, change=False, op="tg.list_get"):
    """A loop's body that takes an item at a counter, which ``step`` moves; ``change``: and adds to the list."""
    kind = ListType(TensorType(torch.float32, (4, 4)))
    i, rows = Value(ScalarType(int)), Value(kind)
    after = step(i)
    taken = Node(op, (rows, after.outputs[0]), types=[kind.element])
    nodes, out = [after, taken], rows
    if change:
        nodes.append(Node("tg.list_push", (rows, taken.outputs[0]), types=[kind]))
        out = nodes[-1].outputs[0]
    graph = Graph("body")
    graph.inputs, graph.nodes, graph.outputs = [i, rows], nodes, [after.outputs[0], out]
    return graph, taken


@pytest.mark.parametrize(("op", "by", "moved"), [("py.sub", 1, -1), ("py.add", 3, 3), ("py.sub", -2, 2)])  # fmt: skip
def test_how_far_the_next_item_is(op, by, moved):
    graph, taken = body(lambda i: Node(op, (i, by), types=[i.type]))
    assert ahead.steps(graph) == {taken: moved}


def test_where_nobody_knows_the_next_item():
    def step(i):
        return Node("py.add", (i, 1), types=[i.type])

    assert ahead.steps(body(step, change=True)[0]) == {}
    assert ahead.steps(body(step, op="tg.list_take")[0]) == {}
    assert ahead.steps(body(lambda i: Node("py.mul", (i, 2), types=[i.type]))[0]) == {}
    assert ahead.steps(body(lambda i: Node("py.add", (i, i), types=[i.type]))[0]) == {}


def test_pieces_cover_an_item_and_fit():
    class Low:
        coming = [ahead.Item("%a", 256), ahead.Item("%b", 8192), ahead.Item("%c", 100)]

    low = Low()
    assert [x.pointer for x in ahead.taken(low, 64)] == ["%a"]
    assert low.coming == []
