"""Functions pickled by reference, copied with what holds them; help, repr and HTML."""

import copy
import dataclasses
import functools
import inspect
import pickle
import pydoc
import typing

import pytest
import torch

import tograph as tg


@tg.function
def double(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    """Twice x."""
    return x * times


class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.own = tg.function(self.plain)
        self.kept = self.forward
        self.half = tg.function(functools.partial(self.plain, by=0.5), name="half")

    @tg.function
    def forward(self, x):
        """Scaled."""
        while x.sum() < 3:
            x = x + self.weight
        return x * self.weight

    def plain(self, x, by=1.0):
        return x + self.weight * by


def test_pickle_by_name():
    assert pickle.loads(pickle.dumps(double)) is double
    assert pickle.loads(pickle.dumps({"f": double}))["f"] is double


def plain(x):
    return x + 1


def test_pickle_of_a_function_of_a_named_one():
    made = tg.function(plain, input_signature=[tg.TensorSpec([None], torch.float32)], name="own")
    again = pickle.loads(pickle.dumps(made))
    assert again is not made and again.python_function is plain and again.label() == "own"
    assert again.input_signature == made.input_signature and again([1.0]).item() == 2


@pytest.mark.parametrize("make", [pickle.dumps, copy.deepcopy])
def test_a_concrete_function_is_not_written_or_copied_with_its_code(make):
    concrete = double.get_concrete_function(torch.ones(1))
    with pytest.raises(pickle.PicklingError, match=r"tg\.save"):
        make(concrete)
    assert copy.copy(concrete)(torch.ones(1)).item() == 2


def test_bound_functions_are_equal_as_methods_are():
    one, other = Scale(), Scale()
    assert one.forward == one.forward and len({one.forward, one.forward}) == 1
    assert one.forward != other.forward and one.forward != one.own


def test_pickle_of_a_local_function_says_what_to_do():
    local = tg.function(lambda x: x)
    with pytest.raises(pickle.PicklingError, match="define it at the top of a module"):
        pickle.dumps(local)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_module_with_functions(again):
    first = Scale()
    x = torch.ones(1)
    before = [f(x) for f in (first, first.own, first.kept, first.half)]
    second = again(first)
    with torch.no_grad():
        second.weight.fill_(5.0)
    assert [f(x).item() for f in (first, first.own, first.kept, first.half)] == [b.item() for b in before]  # fmt: skip
    assert [f(x).item() for f in (second, second.own, second.kept, second.half)] == [30.0, 6.0, 30.0, 3.5]  # fmt: skip
    assert second.half.label() == "half" and second.own is not first.own


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copy_of_a_function_is_itself(copied):
    local = tg.function(lambda x: x + 1)
    assert copied(double) is double and copied(local) is local


@dataclasses.dataclass(slots=True)
class Box:
    content: object

    @tg.function
    def more(self, x, n=1):
        if x > 0:
            self.content = self.content + n
        return x * self.content


class Pair(typing.NamedTuple):
    x: object
    y: object

    @tg.function
    def product(self, n):
        return self.x * self.y * n if n > 0 else self.x


def test_methods_of_objects_that_cannot_be_referenced_weakly():
    first, second, one = Box(2), Box(5), torch.tensor(1.0)
    assert [first.more(one), first.more(-one, 7), second.more(one)] == [3, -3, 6]
    assert (first.content, second.content) == (3, 6)
    assert str(inspect.signature(first.more)) == "(x, n=1)"
    assert first.more.get_concrete_function(one)(first, one) == 4
    assert [Pair(one * i, one).product(one).item() for i in range(3)] == [0, 1, 2]
    assert Pair.product.trace_count == 1


def test_help():
    text = pydoc.plain(pydoc.render_doc(double))
    assert "double(x: torch.Tensor, times: int = 2) -> torch.Tensor" in text and "Twice x." in text
    text = pydoc.plain(pydoc.render_doc(Scale().forward))
    assert "forward(x)" in text and "Scaled." in text


def test_repr():
    f = tg.function(lambda x: x, name="shown")
    assert repr(f) == "<tg.function shown>"
    assert repr(f.get_concrete_function(torch.ones(1))) == "<ConcreteFunction shown: 0 nodes>"
    g = tg.function(lambda x: x + 1 if x > 0 else x * 2, name="nested")
    assert repr(g.get_concrete_function(torch.tensor(1.0))).endswith("nested: 4 nodes>")
    assert repr(Scale().forward).startswith("<bound <tg.function forward> of Scale(")


def test_html_of_a_graph_folds_and_escapes():
    @tg.function
    def f(x):
        if x.sum() > 0:
            print("a < b & c")
            return x + 1
        return x

    f(torch.ones(2))
    graph = f.concrete_functions[0].graph
    shown = graph._repr_html_()
    assert shown.count("<details") == shown.count("</details>") == 4
    assert "a &lt; b &amp; c" in shown and '<span class="o">tg.print</span>' in shown
    assert '<span class="t">: f32[2]</span>' in shown
    whole = f._repr_html_()
    assert "<b>tg.function f</b>: 1 trace" in whole and "f(x: f32[2])" in whole
    assert f.concrete_functions[0]._repr_html_() == shown


def test_html_of_a_kernel():
    @tg.function
    def f(x):
        y = torch.tanh(x) * 2
        while y.sum() < 100:
            y = y + 1
        return y

    concrete = f.get_concrete_function(torch.ones(64))
    concrete(torch.ones(64))
    shown = concrete.kernels[0]._repr_html_()
    assert shown.count("<details") == shown.count("</details>") == 3
    assert "y = torch.tanh(x) * 2" in shown and "tanh.default, mul.Tensor" in shown
    assert (
        '<span class="o">@triton.jit</span>' in shown and '<span class="o">define</span>' in shown
    )
