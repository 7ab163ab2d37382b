"""Ops of libraries whose shape rules ask for sizes that only the run knows."""

import pytest
import torch

import tograph as tg

NAME = "tograph_tests_shapes"


@torch.library.custom_op(f"{NAME}::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


@positive.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op(f"{NAME}::twice", mutates_args=())
def twice(x: torch.Tensor) -> list[torch.Tensor]:
    y = x[x > 0]
    return [torch.cat([y, y])[:, None], x.sum(-1)]


@twice.register_fake
def _(x):
    n = torch.library.get_ctx().new_dynamic_size(min=0, max=2 * x.numel())
    return [x.new_empty(2 * n, 1), x.new_empty(x.shape[:-1])]


def loop(x):
    count = 0
    while x.sum() < 10 and positive(x).sum() < 5:
        x = x + 0.5
        count += len(positive(x))
    return x, count


CASES = {
    "one": lambda x: positive(x) * 2,
    "its sum": lambda x: positive(x).sum(),
    "an index": lambda x: x[positive(x).long().clamp(max=3)],
    "of a size of the run": lambda x: positive(x[x > -0.5]) + 1,
    "two": lambda x: (twice(x)[0] + 1, twice(x)[1]),
    "by its overload": lambda x: torch.ops.tograph_tests_shapes.positive.default(x) + 1,
    "in a loop": loop,
}


@pytest.mark.parametrize("name", CASES)
def test_a_size_that_a_rule_asks_for(name):
    f = CASES[name]
    g = tg.function(f)
    for x in (torch.linspace(-1, 1, 8), torch.linspace(-2, -1, 8), torch.linspace(-0.2, 3, 8)):
        torch.testing.assert_close(g(x), f(x))
    assert g.trace_count == 1
    text = str(g.concrete_functions[0].graph)
    assert "?" in text


@torch.library.custom_op(f"{NAME}::both", mutates_args=())
def both(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x * y).clone()


@both.register_fake
def _(x, y):
    if x.shape[0] != y.shape[0]:
        raise RuntimeError(f"both: {x.shape[0]} and {y.shape[0]} rows")
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


def test_sizes_that_have_to_be_equal_and_come_from_a_staged_number():
    def f(x, k):
        n = min(k, 3) if x[0] > 0 else 2
        return both(x[:n] + 1, x[-n:]) * 2

    g, x = tg.function(f), torch.linspace(0.5, 1, 8)
    for k in (1, 2, 5):
        torch.testing.assert_close(g(x, torch.tensor(k).item()), f(x, k))
        torch.testing.assert_close(g(-x, torch.tensor(k).item()), f(-x, k))
