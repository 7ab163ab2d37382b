"""cf.to_fx(): the samples and single constructs, run as fx modules and through torch.export."""

import importlib.util
import warnings
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

import tograph as tg
from tests.runtime.interchange.export_programs import PROGRAMS, checked, work_list, writes
from tograph.errors import InterchangeError
from tograph.runtime.graph import interp
from tograph.runtime.graph.ordering import set_control_inputs
from tograph.runtime.graph.verification import verify
from tograph.runtime.interchange import fx

SAMPLES = sorted((Path(__file__).parents[3] / "samples").glob("*.py"))


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


# Their modules take torch.export many seconds, and have what other samples and the programs of EXPORTED have.
NOT_EXPORTED = {"language_model", "neural_ode"}


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_sample(path):
    spec = importlib.util.spec_from_file_location(f"fx_sample_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check(module.main_function, module.example_inputs(), export=path.stem not in NOT_EXPORTED)


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


EXPORTED = {
    "list_in_nested_loops",
    "list_in_one_branch",
    "optional",
    "gradient_of_a_counted_loop",
    "slices",
}


def results(x):
    """The flat results, a list of tensors as one tensor."""
    parts = list(x) if isinstance(x, tuple) else [x]
    return [torch.stack(list(p)) if isinstance(p, list) else torch.as_tensor(p) for p in parts]


@pytest.mark.parametrize("name", PROGRAMS)
def test_lists_optionals_and_unions(name):
    """The rewritten graph is a valid one, and it, the module and the exported program give what the function gives."""
    program, calls = PROGRAMS[name]
    function = tg.function(program)
    concrete = function.get_concrete_function(*calls[0])
    values = concrete._exported
    graph = fx.prepared(values)
    set_control_inputs(graph)
    verify(graph)
    module = concrete.to_fx()
    forms = [module, lambda *args: interp.run(graph, args)[: len(values.outputs)]]
    if name in EXPORTED:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            forms.append(torch.export.export(module, calls[0]).module())
    for args in calls:
        expected = results(function(*args))
        for form in forms:
            for a, e in zip(form(*args), expected, strict=True):
                torch.testing.assert_close(torch.as_tensor(a), e, check_dtype=False)


def test_a_list_whose_length_depends_on_its_items_needs_a_bound():
    concrete = tg.function(work_list).get_concrete_function(torch.ones(2))
    with pytest.raises(
        InterchangeError, match=r"(?s)list_capacity.*export_programs.py.*while len\(stack\)"
    ):
        concrete.to_fx()
    module = concrete.to_fx(list_capacity=8)
    assert [module(x)[0].item() for x in (torch.ones(2), -torch.ones(2) * 0 + 9)] == [7, 1]
    with pytest.raises(RuntimeError, match="list_capacity"):
        concrete.to_fx(list_capacity=1)(torch.ones(2))


def test_rows_that_differ_in_size_are_refused():
    @tg.function(input_signature=[tg.TensorSpec([None], torch.float32)])
    def f(x):
        out = []
        for i in range(3):
            out.append(x[i:] if x[i] > 0 else x[:i])
        while x.sum() < 10:
            x = x + 1
            out.append(x[1:])
        return torch.cat(out)

    with pytest.raises(InterchangeError, match="a list whose items have sizes that only the run knows"):  # fmt: skip
        f.get_concrete_function().to_fx()


def test_assertions_and_exceptions_are_runtime_errors():
    concrete = tg.function(checked).get_concrete_function(torch.tensor(1.0))
    module = concrete.to_fx()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(module, (torch.tensor(1.0),)).module()
    for form in (module, exported):
        assert form(torch.tensor(1.0))[0].item() == 3
        with pytest.raises(RuntimeError, match="AssertionError: not positive"):
            form(torch.tensor(-1.0))
        with pytest.raises(RuntimeError, match=r"ValueError: \.\.\. is too large"):
            form(torch.tensor(7.0))
    assert concrete.to_fx(leave_out="checks")(torch.tensor(-1.0))[0].item() == 3
    with pytest.raises(ValueError, match="leave_out is any of 'prints', 'checks', not 'asserts'"):
        concrete.to_fx(leave_out=["asserts"])


def test_an_index_out_of_range_is_an_error():
    @tg.function
    def f(x, i):
        out = [x]
        while out[-1].sum() < 10:
            out.append(out[-1] * 2)
        return out[i]

    module = f.get_concrete_function(torch.ones(2), torch.tensor(0)).to_fx(list_capacity=9)
    assert module(torch.ones(2), torch.tensor(-1))[0].tolist() == [8.0, 8.0]
    with pytest.raises(RuntimeError, match="IndexError: list index out of range"):
        module(torch.ones(2), torch.tensor(4))


def test_a_print_names_op_and_line_unless_it_is_left_out(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        "def f(x):\n    while x < 3:\n        x = x + 1\n        print(x)\n    return x\n"
    )
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    concrete = tg.function(namespace["f"]).get_concrete_function(torch.tensor(1.0))
    with pytest.raises(
        InterchangeError, match=r"(?s)torch.fx has no counterpart of tg.print.*line 4"
    ):
        concrete.to_fx()
    assert concrete.to_fx(leave_out=["prints"])(torch.tensor(1.0))[0].item() == 3


def test_writes_in_loops_and_branches():
    total, last = tg.Variable(0.0), tg.Variable(0.0)
    module = tg.function(writes(total, last)).get_concrete_function(torch.tensor(1.0)).to_fx()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(module, (torch.tensor(1.0),)).module()
    assert module(torch.tensor(1.0))[0].item() == 6
    assert (total.item(), last.item()) == (3, 3)
    assert module(torch.tensor(2.0))[0].item() == 8
    assert (total.item(), last.item()) == (5, 5)
    assert exported(torch.tensor(1.0))[0].item() == 11
    assert total.item() == 8


def test_sizes_and_numbers_that_only_the_run_knows():
    @tg.function(
        input_signature=[tg.TensorSpec([None], torch.float32), tg.TensorSpec([], torch.int64)]
    )
    def f(x, n):
        k = int(n)
        return (
            torch.full((k,), 2.0),
            x.repeat(k),
            torch.arange(k),
            x[:k],
            x.sum() * k,
            round(k / 2),
            k**2,
            max(k, 3),
        )

    module = f.get_concrete_function().to_fx()
    for given in ((torch.arange(4.0), torch.tensor(3)), (torch.arange(2.0), torch.tensor(1))):
        for a, e in zip(module(*given), f(*given), strict=True):
            torch.testing.assert_close(
                a, torch.as_tensor(e), check_dtype=isinstance(e, torch.Tensor)
            )


def test_texts_as_results_are_refused():
    made = tg.function(lambda x: (f"{x.sum()}", x)).get_concrete_function(torch.ones(2))
    with pytest.raises(tg.errors.InterchangeError, match="a text"):
        made.to_fx()
