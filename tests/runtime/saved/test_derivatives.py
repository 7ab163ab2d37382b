"""Differentiable constructs read back from a file of `tg.save`, and from the text of their graph: gradients of the orders 1 and 2 as in eager PyTorch.

`TOGRAPH_TEST_PROGRAMS=500` in the environment takes all of them, instead of every sixth.
"""

import os

import pytest

import tograph as tg
from tests.random_functions import eager
from tests.runtime.autodiff.test_finite_differences import arguments, derivatives, same
from tests.runtime.differentiable import calls, data, library, statements, tensors
from tograph.runtime.traces.concrete import ConcreteFunction

CONSTRUCTS = [f for m in (statements, calls, data, tensors, library) for f in m.CONSTRUCTS if getattr(f, "saved", True)]  # fmt: skip
CHOSEN = CONSTRUCTS[:: 1 if "TOGRAPH_TEST_PROGRAMS" in os.environ else 6]


def check(function, f):
    for n in (0, 2):
        wanted = eager(lambda n=n: derivatives(f, n))
        same(derivatives(function, n), wanted, getattr(f, "tolerance", 1e-7))


def of_text(made):
    """The function of a graph that was shown and read back, with the tensors that it captured."""
    text = str(made.graph)
    graph = tg.parse_graph(text)
    assert str(graph) == text
    again = ConcreteFunction(made.name, graph, made.captured_inputs, made.result_spec, [], ())
    return lambda *args: again.run(list(args))


@pytest.mark.parametrize("f", CHOSEN, ids=lambda f: f.__name__)
def test_file(f, tmp_path):
    function = tg.function(f)
    function.get_concrete_function(*arguments(1))
    tg.save(function, tmp_path / "f.tograph")
    check(tg.load(tmp_path / "f.tograph"), f)


@pytest.mark.parametrize("f", CHOSEN[1::2], ids=lambda f: f.__name__)  # a file has this text
def test_text(f):
    made = tg.function(f).get_concrete_function(*arguments(1))
    if "<py " in str(made.graph):
        pytest.skip(
            "what Python objects a graph has, exceptions to raise and catch, its text only names"
        )
    check(of_text(made), f)
