"""Attributes that code gives to tensors of the arguments and to tensors that it returns are those of the tensors outside."""

import pytest
import torch

import tograph as tg
from tograph.errors import StagingError, StructureError


def seen(x):
    """A result with the attributes of the tensors in it."""
    if isinstance(x, torch.Tensor):
        return x.tolist(), {n: seen(v) for n, v in vars(x).items()}
    if isinstance(x, (list, tuple)):
        return [seen(v) for v in x]
    return x


def of_an_argument(x):
    x.tag = 1
    return x


def counted(x):
    x.calls = getattr(x, "calls", 0) + 1
    return x * x.calls


def of_a_branch(x):
    y = x + 1
    y.tag = 0
    if x.sum() > 0:
        x.positive = True
        y.tag = x.sum().item()
    else:
        x.positive = False
    return y


def of_a_loop(x):
    y = x + 1
    y.n = 0
    while y.sum() < 20:
        y.add_(x.abs() + 1)
        y.n += 1
    return y


def parts(x):
    y = x * 2
    y.parts = [x + 1, "a"]
    return y, [y, y.parts[0]]


def taken_away(x):
    x.tag = 1
    if hasattr(x, "mask"):
        del x.mask
    return sorted(vars(x))


@pytest.mark.parametrize(
    "f",
    [of_an_argument, counted, of_a_branch, of_a_loop, parts, taken_away],
    ids=lambda f: f.__name__,
)
def test_natively_and_converted(f):
    g = tg.function(f)
    given = [
        [torch.ones(2), torch.ones(2) * -1, torch.arange(2.0), torch.full((2,), 3.0)] for _ in "ab"
    ]
    for xs in given:
        xs[2].mask = "m"
    for i in (0, 0, 1, 2, 3, 0, 2, 1):
        expected, found = f(given[0][i]), g(given[1][i])
        assert seen(found) == seen(expected)
        assert seen(given[1]) == seen(given[0])


def test_what_the_caller_gave_is_read():
    @tg.function
    def f(x):
        return x * x.scale

    a, b = torch.ones(2), torch.ones(2)
    a.scale, b.scale = 2, torch.tensor(5.0)
    for x, scale in ((a, 2), (b, 5), (a, 3), (a, 3), (b, 7)):
        if x is a:
            x.scale = scale
        else:
            x.scale.fill_(scale)
        assert f(x).tolist() == [scale, scale]
    with pytest.raises(AttributeError, match="has no attribute 'scale'"):
        f(torch.ones(2))


def test_one_tensor_is_one_object():
    @tg.function
    def f(x):
        y = x * 2
        y.other = x + 1
        return {"a": y, "b": [y, y.other]}

    found = f(torch.ones(2))
    assert found["b"][0] is found["a"] and found["b"][1] is found["a"].other
    assert f(torch.ones(2))["a"] is not found["a"]


def test_before_a_failure():
    @tg.function
    def f(x):
        x.step = 1
        assert x.sum() > 0
        x.step = 2

    good, bad = torch.ones(2), -torch.ones(2)
    for x, step in ((good, 2), (bad, 1), (good, 2)):
        x.step = 0
        if x is bad:
            with pytest.raises(AssertionError):
                f(x)
        else:
            f(x)
        assert x.step == step


def test_gradients_go_through():
    @tg.function
    def f(x):
        y = x * 3
        y.tag = "y"
        return y

    x = torch.ones(2, requires_grad=True)
    y = f(x)
    y.sum().backward()
    assert y.tag == "y" and x.grad.tolist() == [3, 3]


def test_refused():
    def one_or_the_other(x):
        y = x + 1
        y.tag = 0
        while y.sum() < 4:
            y = y + 1
            y.tag = 1
        return y

    def itself(x):
        y = x + 1
        y.me = y
        return y

    with pytest.raises(StagingError, match="'tag' of a tensor depends"):
        tg.function(one_or_the_other)(torch.ones(2))
    with pytest.raises(StructureError, match="Tensor that holds itself"):
        tg.function(itself)(torch.ones(2))


def test_an_attribute_of_a_module_that_becomes_a_parameter_or_a_child():
    """What was there before, which a trace puts back, is nothing that the module would take in the place of these."""
    layer, weight = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.ones(2))

    def f(m, x):
        m.steps += 1
        if m.steps == 2:
            m.head = layer
        if m.steps == 3:
            m.best = weight
        return x * m.steps

    seen = []
    for g in (f, tg.function(f)):
        m = torch.nn.Module()
        m.head, m.best, m.steps = 3, torch.ones(2), 0
        for _ in range(4):
            y = g(m, torch.ones(2))
            seen.append(str((y, m.steps, type(m.head), type(m.best), list(vars(m)), list(m._parameters), list(m._modules))))  # fmt: skip
    assert seen[:4] == seen[4:]
