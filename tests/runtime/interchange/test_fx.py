"""cf.to_fx(): the samples and single constructs, run as fx modules and through torch.export."""

import importlib.util
import warnings
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

import tograph as tg
from tograph.errors import InterchangeError

SAMPLES = sorted((Path(__file__).parents[3] / "samples").glob("*.py"))
LISTS = {"language_model", "neural_ode", "reinforce"}  # gradients through loops keep lists


def tensors_of(args):
    return [x for x in pytree.tree_leaves(args) if isinstance(x, torch.Tensor)]


def check(function, *calls, export=True):
    """The fx module, and the exported program of it, give what the function gives; Python numbers as tensors."""
    module = function.get_concrete_function(*calls[0]).to_fx()
    forms = [module]
    if export:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forms.append(torch.export.export(module, tuple(tensors_of(calls[0]))).module())
    for args in calls:
        expected = [x for x in pytree.tree_leaves(function(*args)) if x is not None]
        for form in forms:
            actual = form(*tensors_of(args))
            assert len(actual) == len(expected)
            for a, e in zip(actual, expected):
                torch.testing.assert_close(a, torch.as_tensor(e), check_dtype=isinstance(e, torch.Tensor))  # fmt: skip
    return module


@pytest.mark.parametrize("path", [p for p in SAMPLES if p.stem not in LISTS], ids=lambda p: p.stem)  # fmt: skip
def test_sample(path):
    spec = importlib.util.spec_from_file_location(f"fx_sample_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check(module.main_function, module.example_inputs())


def test_branches_and_loops_of_one_module():
    @tg.function
    def f(x):
        if x.sum() > 0:
            y, n = x * 2, 1
        else:
            y, n = x, 2
        while y.sum() < 10 and n < 20:
            y = y + n
            n += 1
        return y, n, n / 2, n // 3, -n % 5, float(n) ** 0.5

    module = check(f, (torch.ones(3),), (-torch.ones(3),))
    ops = {str(n.target) for n in module.graph.nodes}
    assert {"cond", "while_loop"} <= ops


def test_captured_tensors_are_shared():
    weight = torch.nn.Parameter(torch.tensor(3.0))

    @tg.function
    def f(x):
        return x * weight if x > 0 else x

    module = check(f, (torch.tensor(2.0),), (torch.tensor(-2.0),))
    assert list(module.parameters()) == [weight] and next(module.parameters()) is weight
    module(torch.tensor(2.0))[0].backward()
    assert weight.grad.item() == 2.0


def test_writes_outside_of_control_flow():
    total = tg.Variable(0.0)

    @tg.function
    def f(x):
        total.assign_add(x)
        return total.read_value()

    module = f.get_concrete_function(torch.tensor(1.0)).to_fx()
    assert [module(torch.tensor(2.0))[0].item() for _ in range(2)] == [2.0, 4.0]
    assert total.item() == 4.0


@pytest.mark.parametrize(
    ("body", "op"),
    [("print(x)", "tg.print"), ("assert x > 0", "tg.raise"), ("out.append(x)", "tg.list_of")],
)
def test_what_has_no_counterpart_names_op_and_line(tmp_path, body, op):
    path = tmp_path / "program.py"
    path.write_text(f"def f(x):\n    out = []\n    while x < 3:\n        x = x + 1\n        {body}\n    return x, out\n")  # fmt: skip
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    concrete = tg.function(namespace["f"]).get_concrete_function(torch.tensor(1.0))
    with pytest.raises(InterchangeError, match=rf"(?s)torch.fx has no counterpart of {op}.*line [35]"):  # fmt: skip
        concrete.to_fx()


def test_write_in_a_loop_is_refused():
    total = tg.Variable(0.0)

    @tg.function
    def f(x):
        while x < 3:
            total.assign_add(x)
            x = x + 1
        return x

    with pytest.raises(InterchangeError, match="a write inside of a branch or loop"):
        f.get_concrete_function(torch.tensor(1.0)).to_fx()
