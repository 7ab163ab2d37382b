"""What a call looks at in its gradient and eager PyTorch has not saved may be written before it; what both have saved may not."""

import pytest
import torch

import tograph as tg

ROWS = [tg.TensorSpec([None], torch.float32)] * 3
PROGRAMS = []


@PROGRAMS.append
def expression(x, w, c):
    return x * w if c.sum() > 0 else x * 2


@PROGRAMS.append
def statement(x, w, c):
    if c[0] > 0:
        y = x * w
    else:
        y = x * 2
    return y


@PROGRAMS.append
def nested(x, w, c):
    if c[0] > 0:
        y = x * w
        if c[1] < 0:
            y = y * w
    else:
        y = x * 2
    return y


@PROGRAMS.append
def selected(x, w, c):
    return torch.where(c > 0, x * w, x)


@PROGRAMS.append
def a_number(x, w, c):
    k = c[0].item()
    return x * k if k > 0 else w * k


@PROGRAMS.append
def cases(x, w, c):
    n = int(c[2])
    if n == 1:
        return x * w
    elif n == 2:
        return x * c
    return x


@PROGRAMS.append
def by_its_sign(x, w, c):
    return torch.where(x > 0, x, 0.1 * x) + w


@PROGRAMS.append
def clamped(x, w, c):
    return x.clamp(min=0) + w


@PROGRAMS.append
def a_view(x, w, c):
    return x[0] * w[1:]


@PROGRAMS.append
def converted(x, w, c):
    return x.double() * w.double()


@PROGRAMS.append
def added_in_a_loop(x, w, c):
    y = x
    while y.sum() < 50:
        y = y * 2 + w
    return y


@PROGRAMS.append
def added_in_a_branch_of_a_loop(x, w, c):
    y = x
    while y.sum() < 50:
        if c.sum() > 0:
            y = y + w + 5
        else:
            y = y * 2 + w + 5
    return y


@PROGRAMS.append
def summed_in_a_branch_of_a_loop(x, w, c):
    y = x.sum()
    for v in c:
        if v > 0:
            y = y * w.sum()
        else:
            y = y + v
    return y


@PROGRAMS.append
def times_in_a_loop(x, w, c):
    y = x.sum()
    for v in c:
        y = y * v + w.sum()
    return y


def written(function, k):
    """The gradient of a function whose argument ``k`` was written after the call; True: torch's error."""
    x = torch.tensor([0.5, -1.5, 3.0], requires_grad=True)
    w = torch.tensor([2.0, 3.0, 1.5], requires_grad=True)
    c = torch.tensor([1.0, -1.0, 2.0])
    y = function(x, w, c)
    with torch.no_grad():
        (x, w, c)[k].mul_(-0.7)
    try:
        found = torch.autograd.grad(y.sum(), (x, w), allow_unused=True)
    except RuntimeError as error:
        return "modified by an inplace" in str(error)
    return [None if g is None else g.tolist() for g in found]


@pytest.mark.parametrize("signature", [None, ROWS], ids=["sizes", "open sizes"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_eager_pytorch_has_not_saved_may_be_written(program, signature):
    function = tg.function(program, input_signature=signature)
    for k in range(3):
        assert written(function, k) == written(program, k)


def test_a_captured_tensor_that_a_condition_asks():
    found = []
    for wrap in (lambda f: f, tg.function):
        c = torch.tensor(True)
        x = torch.ones(2, requires_grad=True)
        y = wrap(lambda x, c=c: x * 3 if c else x * 2)(x)
        c.logical_not_()
        found.append(torch.autograd.grad(y.sum(), x)[0].tolist())
    assert found[0] == found[1] == [3.0, 3.0]


def test_what_a_call_saves_is_the_smaller_of_an_operand_and_what_is_computed_of_it():
    function = tg.function(lambda x, c: torch.where(c > 0, x, x * 2))
    x, c = torch.ones(8, requires_grad=True), torch.ones(8)
    function(x, c).sum().backward()
    [pair] = function.get_concrete_function(x, c).gradients.differentiable._pairs.values()
    [mask] = pair.pullback.forward.outputs[1:]
    assert (pair.pullback.kept, str(mask.type)) == ([], "bool[8]")
