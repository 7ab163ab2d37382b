"""What a program asks of torch's modes is answered for the call that it is in."""

import torch

import tograph as tg

X = torch.tensor([1.0, 2.0])


def asked(x):
    with torch.no_grad():
        inside = torch.is_grad_enabled()
    with torch.inference_mode():
        inferring = torch.is_inference_mode_enabled()
    scale = 2 if torch.is_grad_enabled() else 3
    return x * scale, inside, inferring, torch.is_grad_enabled(), torch.is_inference_mode_enabled()


def same(a, b):
    assert torch.equal(a[0], b[0])
    assert a[1:] == b[1:]


def test_the_gradient_and_the_inference_mode_of_the_call():
    for first in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        f = tg.function(asked)
        for mode in (first, torch.enable_grad, torch.no_grad, torch.inference_mode) * 2:
            with mode():
                for _ in range(4):
                    same(f(X.clone()), asked(X.clone()))
        assert f.trace_count == 3


def test_a_function_that_asks_in_a_staged_branch():
    def f(x):
        if x.sum() > 0 and torch.is_grad_enabled():
            x = x * 2
        return x

    g = tg.function(f)
    for _ in range(4):
        assert torch.equal(g(X), f(X))
        with torch.no_grad():
            assert torch.equal(g(X), f(X))


def test_functions_that_ask_nothing_have_one_trace():
    @tg.function
    def f(x):
        return x * 2

    f(X)
    with torch.no_grad():
        f(X)
    assert f.trace_count == 1


def test_the_history_of_what_is_computed_where_gradients_are_off():
    def f(x):
        with torch.no_grad():
            leaf = x.detach().requires_grad_(True)
            with torch.enable_grad():
                (g,) = torch.autograd.grad((leaf**3).sum(), leaf, create_graph=True)
            known = g.requires_grad, g.grad_fn is None, (g * 2).requires_grad
            with torch.enable_grad():
                (h,) = torch.autograd.grad(g.sum(), leaf)
        return h, known

    g = tg.function(f)
    for _ in range(3):
        assert torch.equal(g(X)[0], f(X)[0]) and g(X)[1] == f(X)[1] == (True, False, False)
