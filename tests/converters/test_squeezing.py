"""``squeeze`` of a size that only the run knows drops the dimension where it is 1, and ``tolist`` gives as many numbers as there are."""

import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
rows = [(torch.tensor(r),) for r in ([1.0, -2.0, 3.0], [-1.0, -2.0, -3.0], [-1.0, 2.0, -3.0])]


@cases(*rows)
def places(x):
    at = torch.nonzero(x > 0).squeeze()
    return at, at.dim(), at.numel(), x[at], x[(x > 0).nonzero().squeeze(-1)]


@cases(*rows)
def of_several_dimensions(x):
    y = x[x > 0].reshape(1, -1, 1)
    return y.squeeze(), y.squeeze((0, 2)), torch.squeeze(y, 1), y.squeeze(dim=-2).shape


@cases(*rows)
def written(x):
    y = x.clone()
    y[(y > 0).nonzero().squeeze()] = 0
    z = y[y < 0]
    z.squeeze().add_(1)
    return y, z


@cases(*rows)
def length(x):
    return len(torch.nonzero(x > 0).squeeze())


@cases(*rows)
def numbers(x):
    found = torch.nonzero(x > 0).squeeze(1).tolist()
    found.append(7)
    return found, [i * 2 for i in found]


@cases(*rows)
def a_stride_that_only_the_run_knows(x):
    y = x[x > -9].reshape(1, -1, 1)
    if x[0] > 0:
        z = y[:, 0]
    else:
        z = y[:, -1]
    return z * 2


test_same = cases.test()


def test_a_gradient_goes_through_it():
    grads = []
    for f in (squared, tg.function(squared)):
        x = torch.tensor([1.0, -2.0], requires_grad=True)
        f(x).backward()
        grads.append(x.grad)
    torch.testing.assert_close(*grads)


def squared(x):
    return (x[x > 0].squeeze() ** 2).sum()
