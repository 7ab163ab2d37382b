"""`torch.autograd.functional.jacobian` and `hessian` of tensors of sizes that only the run knows: native against `tg.function`."""

import pytest
import torch
from torch.autograd.functional import hessian, jacobian

import tograph as tg


def chosen(x, w):
    return jacobian(lambda a: torch.sin(a) * a.sum(), x[x > 0])


def of_two(x, w):
    return jacobian(lambda a, b: a * b.sum() + a**2, (x[x > 0], x.detach()))


def by_the_closure(x, w):
    return jacobian(lambda a: torch.sin(a) * w.sum() * a.sum(), x[x > 0], create_graph=True)


def without_a_graph(x, w):
    return jacobian(lambda a: torch.sin(a) * w.sum(), x[x > 0])


def second(x, w):
    return hessian(lambda a: (a**3).sum(0, keepdim=True) * w.sum(), x[x > 0], create_graph=True)


def second_of_two(x, w):
    return hessian(lambda a, b: (a.sum() * b).prod(), (x[x > 0], x.detach()))[0]


def of_a_known_size(x, w):
    return jacobian(lambda a: a**2, x), hessian(lambda a: (a**3).sum(), x)


@pytest.mark.parametrize("program", [chosen, of_two, by_the_closure, without_a_graph, second, second_of_two, of_a_known_size])  # fmt: skip
def test_as_in_eager(program):
    converted, found = tg.function(program), []
    for function in (program, converted):
        torch.manual_seed(0)
        x, w = torch.randn(4, requires_grad=True), torch.randn(2, requires_grad=True)
        outs = function(x, w)
        outs = outs if isinstance(outs, tuple) else (outs,)
        ends = [y.sum() for y in outs if y.requires_grad]
        grads = torch.autograd.grad(sum(ends), (x, w), allow_unused=True) if ends else ()
        found.append([[y.detach() for y in outs], len(ends), list(grads)])
    torch.testing.assert_close(found[1], found[0])


def of_two_shapes(x, w, c):
    def g(a):
        return torch.sin(a) * w if c > 0 else (a * a * w).sum()

    return jacobian(g, x), jacobian(g, x, create_graph=True)


def of_two_shapes_beside(x, w, c):
    def g(a, b):
        return (a * b if c > 0 else (a * b).sum()), b.cos()

    return jacobian(g, (x, w), create_graph=True)[0]


def of_two_shapes_by_func(x, w, c):
    def g(a):
        return torch.sin(a) * w if c > 0 else (a * a * w).sum()

    return torch.func.jacrev(g)(x), torch.func.hessian(g)(x)


def of_a_tensor_or_none(x, w, c):
    return jacobian(lambda a: a * w if c > 0 else None, x, create_graph=True)


@pytest.mark.parametrize("program", [of_two_shapes, of_two_shapes_beside, of_two_shapes_by_func, of_a_tensor_or_none])  # fmt: skip
def test_results_of_one_or_another_shape(program):
    converted = tg.function(program)
    for c in (0, 1):
        found = []
        for function in (program, converted):
            x, w = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor(0.5, requires_grad=True)  # fmt: skip
            try:
                outs = function(x, w, torch.tensor(c))
            except TypeError as error:
                assert "given to jacobian must be either a Tensor" in str(error)
                found.append([])
                continue
            outs = outs if isinstance(outs, tuple) else (outs,)
            total = sum(y.sum() for y in outs if y.requires_grad)
            found.append([[y.detach() for y in outs], torch.autograd.grad(total, (x, w), allow_unused=True)])  # fmt: skip
        torch.testing.assert_close(found[1], found[0])


def test_what_hessian_does_not_take():
    f = tg.function(lambda x: hessian(lambda a: a.new_zeros(2), x[x > 0]))
    with pytest.raises(RuntimeError, match="should contain a single element"):
        f(torch.ones(3))
