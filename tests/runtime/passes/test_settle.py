"""A ``try`` that makes no difference is its body."""

import pytest
import torch

import tograph as tg
from tograph.runtime.graph.rewrite import copied
from tograph.runtime.graph.text import parse_graph, show
from tograph.runtime.graph.verification import verify
from tograph.runtime.passes.settle import settle, unwrapped


def graph_of(f, *args):
    return tg.function(f).get_concrete_function(*args).graph


def again(x):
    try:
        y = x[x.sum().int()] + 1
    except IndexError:
        raise
    return y * 2


def caught(x):
    y = x
    try:
        y = y + 1
        y = y + x[x.sum().int()]
        y = y * 3
    except IndexError:
        y = y - 5
    return y


def harmless(x):
    try:
        y = x + 1
    except ValueError:
        y = x
    return y


def looping(x):
    out = x
    for i in tg.range(3):
        try:
            out = out + x[out.sum().int() + i]
        except IndexError:
            out = out - 1
    return out


def test_handlers_that_raise_again_go():
    graph = settle(graph_of(again, torch.zeros(3)))
    assert "Try" not in show(graph) and "aten.mul" in show(graph)


def test_bodies_that_cannot_fail_stay_alone():
    assert "Try" not in show(settle(graph_of(harmless, torch.zeros(3))))


def test_a_handler_that_does_something_stays():
    text = show(settle(graph_of(caught, torch.zeros(3))))
    assert text.count("Try") == 1 and text.count("cell_set") == 1


def test_unwrapped_has_the_bodies_and_no_cells():
    for f in (caught, looping):
        text = show(unwrapped(graph_of(f, torch.zeros(3))))
        assert "Try" not in text and "cell" not in text and "tg.caught" not in text
        verify(parse_graph(text))


def test_what_fails_runs_on_the_host_and_the_rest_in_native_code():
    for f in (again, caught, looping):
        g = tg.function(f)
        for x in (torch.zeros(3), torch.tensor([1.0, 0.0, 0.0]), torch.tensor([-1.0, 0.0, 7.0])):
            try:
                wanted = f(x)
            except IndexError:
                wanted = None
            for _ in range(2):
                try:
                    found = g(x)
                except IndexError:
                    found = None
                assert (found is None) == (wanted is None)
                assert found is None or torch.equal(found, wanted)
        scheduled = g.get_concrete_function(x).scheduled
        assert scheduled.level == "native", scheduled.reason


@pytest.mark.parametrize("number", [float, int], ids=["cannot fail", "raises again"])
def test_a_module_with_a_hook_that_keeps_a_number(number):
    """Torch calls such a module in a ``try``, whose handler looks at what the body has kept and raises again."""
    seen, layer = {}, torch.nn.Linear(2, 2)
    layer.register_forward_hook(lambda m, x, y: seen.update(last=number(y.detach().sum())))
    f = tg.function(lambda x: layer(x) * 2)
    assert "Try" not in show(settle(copied(f.get_concrete_function(torch.ones(2)).graph)))
    for k in range(3):
        y = f(torch.full((2,), 1.0 + k))
        y.sum().backward()
        assert seen["last"] == number((y.detach() / 2).sum())
    assert all(c.by_autograd for c in f.concrete_functions)
