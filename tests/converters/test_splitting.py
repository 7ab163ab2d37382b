"""``split``, ``chunk``, ``tensor_split`` and ``unbind`` into as many parts as only the run knows."""

import pytest
import torch

import tograph as tg
from tests.converters.both import compare

ROWS = [
    (torch.arange(10.0), torch.tensor(2)),
    (torch.arange(9.0), torch.tensor(4)),
    (torch.arange(3.0), torch.tensor(7)),
]


def by_a_number(x, n):
    return (
        [p.sum() for p in x.split(int(n))],
        [p.sum() for p in x.chunk(n.item())],
        len(torch.chunk(x, int(n))),
    )


def of_what_a_mask_selects(x, n):
    y = x[x > 1]
    rows = [r + 1 for r in y.unbind()]
    return (
        [p * 2 for p in torch.split(y, 2)],
        rows,
        torch.cat(y.split(3)),
        torch.stack(torch.unbind(y, 0)),
    )


def along_another_dimension(x, n):
    parts = torch.stack([x, x]).split(n.item(), dim=1)
    return parts[0], parts[-1], len(parts), max(p.shape[1] for p in parts)


def of_nothing(x, n):
    y = x[x > 100]
    return y.split(2), y.unbind(0), y.chunk(2), y.split((n - n).item())


def sections_and_known_sizes(x, n):
    y = x[x > 1]
    a, b = y.split([1, y.shape[0] - 1])
    return a, b, x.split(2), x.chunk(3), x.unbind()


def at_indices(x, n):
    parts = torch.tensor_split(torch.stack([x, x]), torch.stack([n, -n]), 1)
    named = x.tensor_split(indices=(1, n.item())), torch.tensor_split(x, sections=n)
    ends = []
    for i in range(n):
        ends.append(i * 2)
    return parts, [p.sum() for p in x.tensor_split(ends)], named[0], [p * 2 for p in named[1]]


@pytest.mark.parametrize(
    "function",
    [
        by_a_number,
        at_indices,
        of_what_a_mask_selects,
        along_another_dimension,
        of_nothing,
        sections_and_known_sizes,
    ],
)
def test_same(function):
    compare(function, *ROWS)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, n: x.split((n - n).item()),
        lambda x, n: x.split((-n).item()),
        lambda x, n: x.chunk((-n).item()),
        lambda x, n: x.tensor_split(n - n),
        lambda x, n: x.tensor_split(n[None, None]),
        lambda x, n: x.tensor_split(n.int()),
    ],
)
def test_bad_numbers(function):
    x, n = ROWS[0]
    with pytest.raises(RuntimeError) as native:
        function(x, n)
    with pytest.raises(RuntimeError) as converted:
        tg.function(function)(x, n)
    assert str(native.value) in str(converted.value)


def test_parts_of_numbers_that_the_run_knows():
    def f(x, n):
        return x.split([int(n), 1, 2])

    converted, x = tg.function(f), torch.arange(3.0)
    for _ in range(3):
        torch.testing.assert_close(converted(x, torch.tensor(0)), f(x, torch.tensor(0)))
    with pytest.raises(RuntimeError, match="split_sizes"):
        converted(x, torch.tensor(1))


def groups(x, labels):
    _, counts = torch.unique(labels, return_counts=True)
    sizes, out = counts.tolist(), []
    for a, b in zip(torch.split(x, sizes), (x * 2).split(sizes, dim=-1)):
        if a.numel() > 1:
            out.append((a * b).sum())
    return torch.stack(out), len(out)


def sections(x, labels):
    sizes = []
    for label in labels:
        if label > 0:
            sizes.append(label.item())
    parts = x.split_with_sizes(sizes)
    return parts[0], parts[-1].sum(), len(parts), torch.cat(parts)


LABELS = [torch.tensor([0, 0, 1, 1, 4, 4]), torch.tensor([2, 0, 3, 0, 0, 1])]


@pytest.mark.parametrize("labels", LABELS)
def test_a_list_of_sizes_that_the_run_knows(labels):
    f, x = tg.function(groups), torch.arange(6.0)
    torch.testing.assert_close(f(x, labels), groups(x, labels))


def test_sizes_have_the_sum_of_the_dimension():
    f, x = tg.function(sections), torch.arange(6.0)
    torch.testing.assert_close(f(x, LABELS[1]), sections(x, LABELS[1]))
    for g in (f, sections):
        with pytest.raises(
            RuntimeError, match="split_with_sizes expects split_sizes to sum exactly to 6"
        ):
            g(x, LABELS[0])


BY_DIM = [
    lambda x, dim: x.chunk(2, dim), lambda x, dim: x.unbind(dim), lambda x, dim: x.squeeze(dim), lambda x, dim: x.stride(dim), lambda x, dim: torch.squeeze(x[None], dim),
    lambda x, dim: x.split(1, dim), lambda x, dim: torch.chunk(x, 3, dim=dim),
]  # fmt: skip


@pytest.mark.parametrize("part", BY_DIM)
def test_a_dimension_that_a_condition_chose(part):
    def f(x, c):
        dim = 0
        if c > 0:
            dim = -1
        return part(x, dim)

    x = torch.arange(6.0).reshape(1, 6)
    compare(f, (x, torch.tensor(1)), (x, torch.tensor(-1)), (x.reshape(2, 3), torch.tensor(1)))
