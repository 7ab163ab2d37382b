"""``requires_grad`` of tensors from outside, switched by the code: gradients that are taken outside come to what they come to in eager PyTorch."""

import copy

import pytest
import torch
from torch import nn

import tograph as tg
from tograph.errors import GradientError


def outcome(value, tensors):
    values = value if isinstance(value, tuple) else (value,)
    losses = [v.sum() for v in values if v.requires_grad]
    if losses:
        sum(losses).backward()
    grads = [(x.requires_grad, x.grad) for x in tensors]
    return [(v.detach().clone(), v.requires_grad) for v in values], copy.deepcopy(grads)


def compare(program, *starts, calls=3):
    """Three calls of ``program(w, x)``, eagerly and staged, on the same ``w`` each."""
    for start in starts:
        w, v = (torch.tensor([1.0, 2.0], requires_grad=start) for _ in range(2))
        holder = {"w": v}
        staged = tg.function(lambda x: program(holder["w"], x))
        for k in range(calls):
            x = torch.tensor([3.0, 2.0 + k])
            assert str(outcome(staged(x), [v])) == str(outcome(program(w, x), [w]))
        on_arguments = tg.function(program)
        for k in range(calls):
            w, v = (torch.tensor([1.0, 2.0], requires_grad=start) for _ in range(2))
            x = torch.tensor([3.0, 2.0 + k])
            assert str(outcome(on_arguments(v, x), [v])) == str(outcome(program(w, x), [w]))


def begins(w, x):
    w.requires_grad_()
    return w * x


def begins_late(w, x):
    a = w[0] * x
    w.requires_grad = True
    return a + a * w


def begins_behind_a_loop(w, x):
    h = x
    while h.sum() < 20:
        h = h * (w + 1)
    w.requires_grad_()
    return h * w


def ends(w, x):
    w.requires_grad_(False)
    return w * x, w


def ends_late(w, x):
    a = w * x
    w.requires_grad = False
    return a + w * 2


def is_off_between(w, x):
    w.requires_grad_(False)
    a = w.view(2, 1).t() * x
    h = w
    while h.sum() < 20:
        h = h * x
    if x.sum() > 0:
        h = h + w
    w.requires_grad_(True)
    return (a + h).sum() * w


@pytest.mark.parametrize(
    "program", [begins, begins_late, begins_behind_a_loop, ends, ends_late, is_off_between]
)
def test_gradients_outside(program):
    compare(program, False, True)


def test_a_write_while_it_requires_none():
    def decayed(w, x):
        w.requires_grad_(False)
        w.mul_(0.9)
        w.requires_grad_(True)
        return w * x

    compare(decayed, True)


def test_a_frozen_network_of_two():
    torch.manual_seed(0)
    nets = nn.Linear(2, 2), nn.Linear(2, 1)
    others = copy.deepcopy(nets)

    def made(generator, critic):
        def loss(x):
            critic.requires_grad_(False)
            found = critic(generator(x)).mean()
            critic.requires_grad_(True)
            return found

        return loss

    plain, staged = made(*nets), tg.function(made(*others))
    for k in range(2):
        x = torch.full((3, 2), k + 1.0)
        for f, (generator, critic) in ((plain, nets), (staged, others)):
            f(x).backward()
            assert all(p.grad is None and p.requires_grad for p in critic.parameters())
            assert generator.weight.grad is not None
        torch.testing.assert_close(others[0].weight.grad, nets[0].weight.grad)
    assert len(staged.concrete_functions) == 1


def test_a_trace_for_each_state():
    w = torch.tensor([1.0, 2.0])
    f = tg.function(lambda x: (w.requires_grad_(), x * w)[1])
    for requires in (False, True, False):
        w.requires_grad_(requires)
        w.grad = None
        f(torch.ones(2)).sum().backward()
        assert w.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("wanted", [False, True])
def test_a_switch_in_a_branch_of_a_tensor_that_was_made_before_it_is_refused(wanted):
    @tg.function
    def f(x, n):
        w = (x * 2).detach().requires_grad_(not wanted)
        if n > 1:
            w.requires_grad_(wanted)
        return w * 2

    with pytest.raises(GradientError, match="in a staged branch or loop"):
        f(torch.ones(2), torch.tensor(2))
