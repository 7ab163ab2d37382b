"""Functions that find wrapped tensors outside: as plain Python under ``torch.func``'s transforms."""

import copy

import pytest
import torch
from torch import nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacrev, jvp, stack_module_state, vmap

import tograph as tg


class Growing(nn.Module):
    """Layers until the norm is large: how many depends on the example."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("scale", torch.tensor(1.1))

    def forward(self, x):
        while x.norm() < 8:
            x = x + self.layer(x).abs() * self.scale + 0.1
        return x


@pytest.fixture
def models():
    torch.manual_seed(0)
    plain = Growing().double()
    staged = copy.deepcopy(plain)
    staged.forward = tg.function(staged.forward)
    return plain, staged


X = torch.linspace(-1, 1, 6, dtype=torch.float64).reshape(2, 3)


def parameters(model):
    return {n: p.detach().clone() for n, p in model.named_parameters()}


def with_grad(model, p):
    return grad(lambda q: functional_call(model, q, (X,)).square().sum())(p)


def with_grad_of_grad(model, p):
    def inner(q):
        return functional_call(model, q, (X,)).square().sum()

    return grad(lambda q: sum(g.square().sum() for g in grad(inner)(q).values()))(p)


def with_jacobian(model, p):
    return jacrev(lambda q: functional_call(model, q, (X,)))(p)


def with_tangents(model, p):
    return jvp(lambda q: functional_call(model, q, (X,)), (p,), (p,))


@pytest.mark.parametrize("run", [with_grad, with_grad_of_grad, with_jacobian, with_tangents])
@pytest.mark.parametrize("called_before", [False, True])
def test_parameters_of_a_transform(models, run, called_before):
    plain, staged = models
    p = parameters(plain)
    if called_before:
        staged(X)
    for step in range(3):
        q = {n: x * (1 + 0.1 * step) for n, x in p.items()}
        torch.testing.assert_close(run(staged, q), run(plain, q))


def test_gradients_of_each_example(models):
    plain, staged = models
    p = parameters(plain)

    def of(model, q, x):
        return grad(lambda r: functional_call(model, r, (x,)).sum())(q)

    found = vmap(lambda x: of(staged, p, x))(X)
    expected = [of(plain, p, x) for x in X]
    for n in p:
        torch.testing.assert_close(found[n], torch.stack([e[n] for e in expected]))


def test_an_ensemble(models):
    plain, staged = models
    members = [Growing().double() for _ in range(3)]
    stacked, buffers = stack_module_state(members)
    found = vmap(lambda p, b: functional_call(staged, (p, b), (X,)))(stacked, buffers)
    torch.testing.assert_close(found, torch.stack([m(X) for m in members]))


def test_a_closure_over_the_differentiated_tensor():
    def outer(w):
        @tg.function
        def inner(x):
            return (w**3 * x).sum() if x.sum() > 0 else w.T.sum()

        return inner(torch.ones(2))

    torch.testing.assert_close(grad(outer)(torch.tensor([1.0, 2.0])), torch.tensor([3.0, 12.0]))


def test_writing_a_captured_tensor_is_refused_as_torch_does():
    total = torch.zeros(2)

    @tg.function
    def f(w):
        total.add_(w)
        return total.sum()

    with pytest.raises(RuntimeError, match="would mutate a captured Tensor"):
        grad(f)(torch.ones(2))
    assert total.tolist() == [0, 0]


def test_one_more_trace_for_parameters_that_change(models):
    _, staged = models
    p = parameters(staged)
    for _ in range(5):
        g = with_grad(staged, p)
        p = {n: x - 0.01 * g[n] for n, x in p.items()}
    assert staged.forward.trace_count == 2


def test_a_captured_dual_tensor(models):
    plain, staged = models
    found = []
    for model in (plain, staged):
        weight = model.layer.weight
        del model.layer.weight
        with forward_ad.dual_level():
            model.layer.weight = forward_ad.make_dual(weight.detach(), torch.ones_like(weight))
            found.append(forward_ad.unpack_dual(model(X)))
    torch.testing.assert_close(found[1].tangent, found[0].tangent)
    assert found[1].tangent.norm() > 0


@pytest.mark.parametrize("calls", [1, 3])
def test_gradients_of_many_cotangents_at_once(models, calls):
    plain, staged = models
    x = X.clone().requires_grad_()
    inputs = [x, *plain.parameters()], [x, *staged.parameters()]
    units = torch.eye(6, dtype=torch.float64).reshape(6, 2, 3)
    for _ in range(calls):
        found = torch.autograd.grad(staged(x), inputs[1], units, is_grads_batched=True)
    one_by_one = [torch.autograd.grad(plain(x), inputs[0], u) for u in units]
    for y, rows in zip(found, zip(*one_by_one)):
        torch.testing.assert_close(y, torch.stack(rows))
    torch.testing.assert_close(
        torch.autograd.functional.jacobian(staged, X, vectorize=True),
        torch.autograd.functional.jacobian(plain, X),
    )
