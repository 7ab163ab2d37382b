"""Views that leave a call whose gradient is taken outside, and that are written there."""

import pytest
import torch

import tograph as tg

W = torch.arange(1.0, 10.0).view(3, 3).requires_grad_()


def turned(x):
    return (x * W).exp().t()


def flat(x):
    return torch.nn.functional.linear(x[0], W).view(-1, 1)


def in_a_branch(x):
    y = x * W
    if x.sum() > 0:
        y = y.sin()
    return y[1:]


def half(y):
    y[0] *= 0.5


WRITES = {"more": lambda y: y.add_(1), "times": lambda y: y.mul_(2), "part": half}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("f", [turned, flat, in_a_branch], ids=lambda f: f.__name__)
def test_a_view_of_what_the_call_made_is_written_as_in_eager_pytorch(f, write):
    def outcome(call):
        x = (torch.ones(3, 3) / 8).requires_grad_()
        y = call(x)
        WRITES[write](y)
        try:
            return [y, *torch.autograd.grad(y.sum(), (x, W))]
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            return "refused"

    staged, expected = tg.function(f), outcome(f)
    for _ in range(3):
        found = outcome(staged)
        if expected == "refused":
            assert found == expected
        else:
            torch.testing.assert_close(found, expected)


def test_views_that_others_share_are_not_written():
    f = tg.function(lambda x: ((x * W).t(), (x * W).sum(), x[0]))
    y, _, row = f(torch.ones(3, 3, requires_grad=True) * 1)
    y += 1
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        row += 1


def test_a_view_without_gradients_beside_one_with():
    def f(x):
        y = x[0] * 2
        with torch.no_grad():
            seen = x[1]
        return y, seen

    x = torch.ones(2, requires_grad=True)
    staged = tg.function(f)
    for _ in range(2):
        y, seen = staged(x)
        assert torch.equal(torch.autograd.grad(y, x)[0], torch.tensor([2.0, 0.0]))
        assert seen.grad_fn is None and seen.item() == 1
