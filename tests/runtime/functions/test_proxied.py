"""Converted functions under torch.export, make_fx and FakeTensorMode: what these record is what the function does."""

import pytest
import torch
from torch import nn
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx

import tograph as tg
from tograph.runtime.recording import outer_tracers

X = torch.arange(6.0).reshape(2, 3) + 1


def newton(x, tol=1e-5):
    y = x**3 - 2 * x - 5
    while y.abs().max() > tol:
        x = x - y / (3 * x**2 - 2)
        y = x**3 - 2 * x - 5
    return x


class Steps(nn.Module):
    """Two converted functions among plain code: parameters, a buffer that is written, a number among the results."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 3)
        self.register_buffer("total", torch.zeros(()))
        self.root = tg.function(newton)

    @tg.function
    def step(self, x, scale=1.0):
        count = 0
        while x.norm() < 100:
            x = self.layer(x) * 1.5 + x * scale
            count += 1
        self.total.add_(count)
        if count > 3:
            return x, count
        return x * 2, count

    def forward(self, x):
        y, count = self.step(self.root(x), scale=1.2)
        return y.relu() + count


def programs(exported, x):
    """Results and buffers of an exported program and of the module."""
    native, module = Steps(), exported.module()
    for given in (x, x * 3):
        torch.testing.assert_close(module(given), native(given))
    torch.testing.assert_close(module.total, native.total)
    assert native.total > 0


def operators(graph_module):
    return {str(n.target) for n in graph_module.graph.nodes if n.op == "call_function"}


def test_torch_export():
    module = Steps()
    exported = torch.export.export(module, (X,))
    assert {"while_loop", "cond"} <= operators(exported)
    assert set(exported.state_dict) == {"layer.weight", "layer.bias", "total"}
    programs(exported, X)
    torch.testing.assert_close(module(X), Steps()(X))  # traces of the export are not those of calls
    assert module.step.trace_count == 1


def test_a_module_whose_forward_is_a_function():
    class Doubling(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        @tg.function
        def forward(self, x):
            while x.norm() < 100:
                x = self.layer(x) + x * 2
            return x

    module = Doubling()
    assert module.forward.__code__.co_name == "forward"
    exported = torch.export.export(module, (X,)).module()
    torch.testing.assert_close(exported(X * 3), module(X * 3))


def test_open_sizes():
    sizes = ({0: torch.export.Dim("rows", min=1)},)
    for x in (X, torch.cat([X, X * 2, X])):
        programs(torch.export.export(Steps(), (X,), dynamic_shapes=sizes), x)


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_make_fx(mode):
    root = tg.function(newton)
    for _ in range(3):
        root(X)  # calls have an entry of their own by now
    found = make_fx(lambda x: root(x) * 2, tracing_mode=mode)(X)
    torch.testing.assert_close(found(X * 3), newton(X * 3) * 2)


def test_effects_on_objects_happen_while_it_is_recorded():
    seen = []

    @tg.function
    def f(x):
        seen.append("called")
        return x.sin() if x.sum() > 0 else x

    found = make_fx(lambda x: f(x))(X)
    assert seen == ["called"]
    torch.testing.assert_close((found(X), found(-X)), (X.sin(), -X))


def test_what_has_no_counterpart_is_an_error_at_its_line():
    @tg.function
    def printing(x):
        while x.sum() < 10:
            x = x * 2
            print(x)
        return x

    @tg.function
    def listing(x):
        rows = []
        while x.sum() < 100:
            x = x * 2
            rows.append(x)
        return rows

    for f, text in ((printing, "tg.print"), (listing, "a result of a call that is list")):
        with pytest.raises(tg.errors.InterchangeError, match=text):
            make_fx(f)(X)


@pytest.mark.filterwarnings("ignore:Attempted to insert")
def test_tangents_of_loops_are_refused():
    root, line = tg.function(newton), tg.function(lambda x: x.sin() * x)
    torch.testing.assert_close(torch.func.linearize(line, X)[1](X), torch.func.jvp(line, (X,), (X,))[1])  # fmt: skip
    with pytest.raises(tg.errors.InterchangeError, match="tangents of a staged branch or loop"):
        torch.func.linearize(root, X)
    with pytest.raises(tg.errors.InterchangeError, match="tangents of a staged branch or loop"):
        make_fx(lambda x, t: torch.func.jvp(root, (x,), (t,))[1])(X, X)


def test_tensors_without_content():
    """As in plain PyTorch: what asks for no content runs."""
    plain, asking = tg.function(lambda x: x @ x.T), tg.function(newton)
    with FakeTensorMode():
        x = torch.ones(2, 3)
        y = plain(x)
        assert isinstance(y, FakeTensor) and y.shape == (2, 2)
        with pytest.raises(DataDependentOutputException):
            asking(x)
    torch.testing.assert_close(plain(X), X @ X.T)


def test_arguments_are_written_and_given_back():
    @tg.function
    def f(x):
        if x.sum() > 0:
            x.add_(1)
        else:
            x.mul_(3)
        return {"x": x, "more": [x.sin(), x.argmax()]}

    found = make_fx(f)(X.clone())
    for x in (X, -X):
        mine, plain = x.clone(), x.clone()
        torch.testing.assert_close(found(mine), f.python_function(plain))
        torch.testing.assert_close(mine, plain)


def test_a_torch_without_these_modes_sees_the_ops_one_by_one(monkeypatch):
    monkeypatch.setattr(outer_tracers, "_get_dispatch_mode", None)
    root = tg.function(newton)
    found = make_fx(tg.function(lambda x: (x * 2).sin()))(X)
    torch.testing.assert_close(found(-X), (-X * 2).sin())
    with pytest.raises(RuntimeError, match="get value out of a tracing tensor"):
        make_fx(lambda x: root(x))(X)
