"""What takes all items of an iterable: the methods of lists that take or compare items."""

import pytest
import torch

import tograph as tg


def _chosen(x):
    found = [2.0]
    for i in range(3):
        if x[i] > 0:
            found.append(x[i].item())
    return found


def by_a_generator(x):
    found = _chosen(x)
    found.extend(v + 1 for v in list(found))
    found += (v * 2 for v in list(found))
    return found


def by_what_is_gone_over_together(x):
    found, pairs = _chosen(x), [(1.0, 1.0)]
    pairs.extend(zip(found, found))
    numbers = [(7, 7.0)]
    numbers += enumerate(found)
    plain = [1.0]
    plain.extend(map(lambda v: v - 1, found))
    plain.extend(reversed(found))
    return pairs, numbers, plain


def by_a_generator_that_reads_the_list(x):
    found = _chosen(x)
    found.extend(found[-1] + i for i in range(3))
    plain = [1.0]
    plain += (plain[-1] * 2 for _ in range(3))
    return found, plain


def by_a_generator_with_a_staged_condition(x):
    plain = [1.0]
    plain.extend(v.item() for v in x if v > 0)
    return plain


def of_lists(x):
    done, other = [[3]], [[1, 2]]
    for s in range(3):
        if x[s] > 0:
            done.append([0, s])
        else:
            other.append([0, s])
    done.extend(q for q in other)
    return done


@pytest.mark.parametrize(
    "function",
    [
        by_a_generator,
        by_what_is_gone_over_together,
        by_a_generator_that_reads_the_list,
        by_a_generator_with_a_staged_condition,
        of_lists,
    ],
)
def test_extend(function):
    staged = tg.function(function)
    for x in (torch.tensor([0.5, -0.25, 0.5]), torch.tensor([-0.5, -0.25, -1.0])):
        assert staged(x) == function(x)
    assert staged.trace_count == 1


def test_extend_of_a_list_from_outside():
    log = []

    @tg.function
    def note(x):
        log.extend(v.item() for v in x if v > 0)

    note(torch.tensor([0.5, -0.25, 0.25]))
    note(torch.tensor([-0.5, 1.0, -1.0]))
    assert log == [0.5, 0.25, 1.0]


def test_extend_asks_for_an_iterator_once():
    class Asked:
        count = 0

        def __iter__(self):
            self.count += 1
            return iter([1, 2])

    def f(x):
        items, found = Asked(), []
        found.extend(items)
        return found, items.count

    assert tg.function(f)(torch.ones(1)) == f(None) == ([1, 2], 1)


def test_what_is_no_iterable():
    @tg.function
    def f(x):
        found = _chosen(x)
        found.extend(3)
        return found

    with pytest.raises(TypeError, match="not iterable"):
        f(torch.ones(3))
