"""The list of passes: variants, switches, reports, and what programs see of it."""

import pytest
import torch

import tograph as tg
from tograph import settings
from tograph.errors import VerifyError
from tograph.runtime import passes
from tograph.runtime.graph.ir import Value
from tograph.runtime.graph.text import parse_graph, show

TEXT = """main(%x: f32[2], %r: f32[2]) {
  %0: f32[2] = tg.read(%r)  # a.py:1
  %1: f32[2] = aten.add.Tensor(%0, %x)  # a.py:1
  !2 = tg.assign(%r, %1)  # a.py:1
  %3: f32[2] = aten.neg.default(%x)  # a.py:2
  return %x
}"""


def test_variants():
    inference, watched = (show(passes.optimize(parse_graph(TEXT), flag)) for flag in (True, False))
    assert "update.aten.add.Tensor(%r, %x)" in inference
    assert "update." not in watched and "tg.assign" in watched
    assert "neg" not in inference + watched
    assert {p.name for p in passes.passes(True)} > {p.name for p in passes.passes(False)}


def test_writing_in_place_is_the_end_of_the_list():
    values = passes.optimize(parse_graph(TEXT), False)
    made = passes.write_in_place(values)
    assert show(made) == show(passes.optimize(parse_graph(TEXT), True))
    assert "tg.assign" in show(values) and "update.aten.add" in show(made)


def test_the_graph_is_copied():
    graph = parse_graph(TEXT)
    passes.optimize(graph, True)
    assert show(graph) == TEXT


def test_control_inputs_are_made():
    assert "!2 = tg.assign(%r, %1) ^%0" in show(passes.optimize(parse_graph(TEXT), False))


def test_switches(monkeypatch):
    monkeypatch.setattr(settings, "NOOPT", True)
    assert "neg" in show(passes.optimize(parse_graph(TEXT), True))
    assert passes.report(parse_graph(TEXT)).startswith("# TOGRAPH_NOOPT is set")
    monkeypatch.setattr(settings, "NOOPT", False)
    monkeypatch.setattr(settings, "VERIFY", True)

    def breaks(graph):
        graph.outputs = [Value(graph.outputs[0].type)]
        return graph

    monkeypatch.setattr(passes, "PASSES", [passes.Pass(breaks, "nothing good")])
    with pytest.raises(VerifyError, match="after breaks: main: an output is not defined"):
        passes.optimize(parse_graph(TEXT), True)


def test_report_is_the_same_each_time():
    assert passes.report(parse_graph(TEXT)) == passes.report(parse_graph(TEXT))
    assert "# no change by: inline" in passes.report(parse_graph(TEXT))


def test_a_call_that_needs_a_gradient_keeps_its_values():
    @tg.function
    def f(x, n):
        y = torch.zeros(3, 2)
        for i in range(n):
            y[i] = (x * x).exp()
        return (y * y).sum()

    x, n = torch.tensor([0.5, -1.0], requires_grad=True), torch.tensor(3)
    f(x, n).backward()
    expected = 3 * (x.detach() ** 2).exp() ** 2 * 4 * x.detach()
    torch.testing.assert_close(x.grad, expected)
    concrete = f.concrete_functions[0]
    assert "inplace." in show(concrete.optimized_graph)
    assert "inplace." not in show(concrete.graph) + show(concrete.watched_graph)
    with torch.no_grad():
        torch.testing.assert_close(f(x, n), f(x.detach(), n))
    batch = torch.stack([x.detach(), x.detach() + 1])
    torch.testing.assert_close(
        torch.func.vmap(lambda v: f(v, n))(batch), torch.stack([f(v, n) for v in batch])
    )


def test_two_results_are_two_tensors():
    @tg.function
    def f(x):
        return x + 1, x + 1, x * 1, x

    x = torch.zeros(2)
    results = f(x)
    results[0].add_(5)
    results[2].add_(7)
    assert [r.tolist() for r in results[1:]] == [[1, 1], [7, 7], [0, 0]]
    assert x.tolist() == [0, 0]


def test_an_unused_loop_without_an_end_is_kept():
    @tg.function
    def f(x):
        y = x
        while y > 0:
            y = y * 2
        return x

    assert "While(" in show(f.get_concrete_function(torch.ones(())).optimized_graph)
    assert f(torch.tensor(-1.0)) == -1


def test_an_error_names_the_line_after_the_passes():
    @tg.function
    def f(x, i):
        y = x * 1
        z = torch.zeros(3, 2)
        z[i] = y  # here
        return z

    with pytest.raises(IndexError) as caught:
        f(torch.ones(2), torch.tensor(5))
    assert "z[i] = y  # here" in "".join(caught.value.__notes__)
