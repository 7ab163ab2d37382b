"""Classes with parameters are called as the class itself: what they make is converted, and of the graph where the run says."""

import collections
import typing

import pytest
import torch

import tograph as tg

T = typing.TypeVar("T")


class Stack(typing.Generic[T]):
    def __init__(self, first: T):
        self.items = [first if first > 0 else -first]

    def push(self, v):
        if v > 1:
            self.items.append(v)


def of_a_user(x):
    stack = Stack[float](x[0].item())
    for v in x.tolist():
        stack.push(v)
    return stack.items, stack.__orig_class__ == Stack[float]


def of_python(x):
    counts, groups = dict[int, int](), collections.defaultdict[int, list](list)
    last, seen = collections.deque[float](maxlen=2), typing.Counter()
    for v in x.tolist():
        counts[int(v)] = counts.get(int(v), 0) + 1
        groups[int(v)].append(v)
        seen[int(v)] += 1
        if v > 1:
            last.append(v)
    return counts, dict(groups), list(last), seen.most_common(1)


def test_that_they_are_converted():
    for f in (of_a_user, of_python):
        g = tg.function(f)
        for x in (torch.tensor([-1.0, 2.0, 1.0, 3.0, 3.0]), torch.tensor([4.0, 2.0, 2.0, 2.0, 0.5])):  # fmt: skip
            assert g(x) == f(x)
        assert g.trace_count == 1


def test_one_that_python_does_not_call():
    with pytest.raises(TypeError, match="cannot be instantiated"):
        tg.function(lambda x: typing.List[int]() + [x])(torch.ones(1))  # noqa: UP006
