"""What is made inside draws at its place among the draws of the function: natively against converted, with the numbers that come after."""

import pytest
import torch
from torch import nn

import tograph as tg


class Box:
    layer = other = None


def seeded(box, x):
    if box.layer is None:
        torch.manual_seed(0)
        box.layer = nn.Linear(2, 2)
    return box.layer(x)


def seeded_before(box, x):
    torch.manual_seed(0)
    if box.layer is None:
        box.layer = nn.Linear(2, 2)
    return box.layer(x) + torch.rand(2)


def behind_a_draw(box, x):
    noise = torch.rand(2)
    if box.layer is None:
        box.layer = nn.Linear(2, 2)
    return box.layer(x) + noise + torch.rand(2)


def behind_a_staged_draw(box, x):
    if x.sum() > 0:
        x = x + torch.rand(2)
    if box.layer is None:
        box.layer = nn.Linear(2, 2)
    return box.layer(x)


def a_variable(box, x):
    noise = torch.rand(2)
    if box.layer is None:
        box.layer = tg.Variable(torch.rand(2))
    return box.layer * x + noise


def two_and_an_initialisation(box, x):
    if box.layer is None:
        torch.manual_seed(0)
        box.layer, box.other = nn.Linear(2, 2), nn.Linear(2, 2)
        nn.init.xavier_uniform_(box.other.weight)
    return box.other(box.layer(x)) + torch.rand(2)


def its_own_generator(box, x):
    generator = torch.Generator().manual_seed(3)
    noise = torch.rand(2, generator=generator)
    if box.layer is None:
        box.layer = nn.Linear(2, 2)
    return box.layer(x) + noise + torch.rand(2, generator=generator)


def traced_twice(box, x):
    if box.layer is None:
        box.layer = nn.Linear(2, 2)
    y = x
    for i in range(3):
        if y.sum() > i:
            box.last = y
        y = y + box.last if hasattr(box, "last") else y
    return box.layer(y)


CASES = [seeded, seeded_before, behind_a_draw, behind_a_staged_draw, a_variable, two_and_an_initialisation, its_own_generator, traced_twice]  # fmt: skip


def shown(f):
    torch.manual_seed(7)
    box = Box()
    found = [f(box, torch.ones(2)).detach() for _ in range(3)]
    return [*found, torch.rand(1)]


@pytest.mark.parametrize("f", CASES)
def test_as_natively(f):
    torch.testing.assert_close(shown(tg.function(f)), shown(f))


def test_draws_that_are_not_known_yet():
    held = torch.zeros(2)

    def f(box, x):
        held.add_(x)
        noise = torch.normal(held)
        if box.layer is None:
            box.layer = nn.Linear(2, 2)
        return box.layer(x) + noise

    with pytest.raises(tg.errors.CreationError, match="make it before them"):
        tg.function(f)(Box(), torch.ones(2))
