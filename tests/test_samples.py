"""Each sample: the decorated function gives what plain Python gives, in one trace, as one graph."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

SAMPLES = Path(__file__).parent.parent / "samples"

# sample -> the words that its graph must hold
GRAPH_WORDS = {
    "newton": {"While", "If"},
    "collatz": {"While", "If"},
    "power_iteration": {"While", "If"},
    "runge_kutta": {"While", "If"},
    "gru": {"While"},
    "greedy_decode": {"While"},
    "mandelbrot": {"While"},
    "beam_search": {"While", "If"},
    "reinforce": {"While"},
    "neural_ode": {"While", "If"},
    "language_model": {"While", "If"},
}


def load(name):
    spec = importlib.util.spec_from_file_location(f"samples_{name}", SAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_same(actual, expected):
    """Equal pytrees; a Python number of the plain function may be a 0-d tensor of the graph."""
    leaves, structure = pytree.tree_flatten(actual)
    expected_leaves, expected_structure = pytree.tree_flatten(expected)
    assert structure == expected_structure
    for leaf, expected_leaf in zip(leaves, expected_leaves, strict=True):
        torch.testing.assert_close(
            torch.as_tensor(leaf),
            torch.as_tensor(expected_leaf),
            check_dtype=isinstance(expected_leaf, torch.Tensor),
        )


def test_every_sample_is_tested():
    assert {path.stem for path in SAMPLES.glob("*.py")} == set(GRAPH_WORDS)


@pytest.mark.parametrize("name", GRAPH_WORDS)
def test_result_is_that_of_plain_python(name):
    module = load(name)
    function = module.main_function
    expected = function.python_function(*module.example_inputs())
    for _ in range(2):
        assert_same(function(*module.example_inputs()), expected)
    assert function.trace_count == 1


@pytest.mark.parametrize("name", GRAPH_WORDS)
def test_graph_holds_the_control_flow(name):
    module = load(name)
    graph = str(module.main_function.get_concrete_function(*module.example_inputs()).graph)
    words = set(graph.replace("(", " ").split())
    assert words >= GRAPH_WORDS[name]


@pytest.mark.parametrize("name", GRAPH_WORDS)
def test_sample_is_short(name):
    assert len((SAMPLES / f"{name}.py").read_text().splitlines()) <= 75
