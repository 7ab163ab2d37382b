"""Functions that call themselves until a staged condition holds."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()


def gcd(a, b):
    if b == 0:
        return a
    return gcd(b, a % b)


@cases((48, 36), (7, 0), (1071, 462))
def greatest_common_divisor(a, b):
    return gcd(a, b), gcd(48, b=a)


def collatz(n, steps=0):
    return steps if n == 1 else collatz(n // 2 if n % 2 == 0 else 3 * n + 1, steps + 1)


@cases((6,), (1,), (27,))
def two_calls_in_an_expression(n):
    return collatz(n)


def search(xs, v, low, high):
    if low >= high:
        return low
    middle = (low + high) // 2
    if xs[middle] < v:
        return search(xs, v, middle + 1, high)
    return search(xs, v, low, middle)


@cases.tensors((100.5,), (-3.0,), (5000.0,))
def binary_search(v):
    return search(torch.arange(1024.0), v, 0, 1024)


def select(xs, k):
    pivot = xs[0]
    less, more = xs[xs < pivot], xs[xs > pivot]
    same = len(xs) - len(less) - len(more)
    if k < len(less):
        return select(less, k)
    if k < len(less) + same:
        return pivot
    return select(more, k - len(less) - same)


@cases.tensors((0,), (3,), (6,))
def sizes_that_change(k):
    return select(torch.tensor([4.0, 1.0, 7.0, 3.0, 9.0, 2.0, 3.0]), k)


def newton(x, square, *, steps=0):
    """The square root, step by step."""
    error = x * x - square
    print("step", steps)
    if abs(error) < 1e-3 or steps > 20:
        return x, steps
    return newton(x - error / (2 * x), square, steps=steps + 1)


@cases((2.0,), (9.0,))
def printed_and_counted(square):
    return newton(square + 1, square)


class Bisection:
    def __init__(self):
        self.calls = 0

    def find(self, low, high, root):
        self.calls += 1
        if high - low < 0.1:
            return low
        middle = (low + high) / 2
        if middle > root:
            return self.find(low, middle, root)
        return self.find(middle, high, root)


@cases((0.3,), (0.9,))
def method_that_counts(root):
    found = Bisection()
    return found.find(root * 0, root * 0 + 1, root), found.calls


@cases((3.0,), (200.0,))
def function_in_a_function(x):
    log = []

    def grow(x, factor):
        log.append(x)
        if x > 100:
            return x
        return grow(x * factor, factor)

    return grow(x, 2), log


class Node:
    def __init__(self, at, depth):
        self.at = at
        self.less = Node(2 * at, depth - 1) if depth else None
        self.more = Node(2 * at + 1, depth - 1) if depth else None


def leaf(node, x):
    if node.less is None:
        return x * node.at
    if x > node.at:
        return leaf(node.less, x - node.at)
    return leaf(node.more, x)


@cases.tensors((3.0,), (30.0,))
def objects_are_followed_by_tracing(x):
    return leaf(Node(1, 3), x)


def endless(x):
    if x < -1:
        return x
    return endless(x + 1)


@cases((0.0,), (-2.0,))
def no_end(x):
    try:
        return endless(x)
    except RecursionError:
        return None


class SumTree:
    """Priorities in the leaves of a binary tree, in each node the sum below it."""

    def __init__(self, capacity):
        self.nodes, self.capacity, self.changes = torch.zeros(2 * capacity - 1), capacity, 0

    def add(self, at, change):
        """Change a node and all above it."""
        self.nodes[at] += change
        self.changes += 1
        if at != 0:
            self.add((at - 1) // 2, change)

    def find(self, at, s):
        if 2 * at + 1 >= len(self.nodes):
            return at - self.capacity + 1
        if s <= self.nodes[2 * at + 1]:
            return self.find(2 * at + 1, s)
        return self.find(2 * at + 2, s - self.nodes[2 * at + 1])


@cases.tensors(([1.0, 2.0, 4.0], 2.5), ([0.5, 0.0, 1.0], 0.5))
def a_call_whose_value_is_dropped(priorities, s):
    tree = SumTree(4)
    for i, p in enumerate(priorities):
        tree.add(i + 3, p)
    return tree.nodes, tree.find(0, s), tree.changes


def sift(heap, i, swaps):
    if i == 0:
        return
    parent = (i - 1) // 2
    if heap[parent] > heap[i]:
        heap[[parent, i]] = heap[[i, parent]]
        swaps.append(i)
        sift(heap, parent, swaps)
        return
    else:
        swaps.append(-1)


@cases.tensors(([3.0, 5.0, 4.0, 1.0], 3), ([3.0, 5.0, 4.0, 4.5], 3), ([3.0, 5.0, 4.0, 1.0], 0))
def a_call_before_a_return_of_nothing(heap, i):
    swaps = []
    made = sift(heap, i, swaps)
    return heap, swaps, made


def halve(x):
    if x > 1:
        halve(x / 2)
    return x


@cases((0.5,), (6.0,))
def a_value_that_is_dropped_before_another_one(x):
    return halve(x)


test_same = cases.test()


def test_decorated_functions_and_methods_that_call_themselves():
    @tg.function
    def halve(x, n=0):
        if x < 1:
            return n
        return halve(x / 2, n + 1)

    class Doubling:
        @tg.function
        def until(self, x, bound):
            if x > bound:
                return x
            return self.until(x * 2, bound)

    assert [halve(torch.tensor(v)) for v in (0.5, 3.0, 1000.0)] == [0, 2, 10]
    assert halve.trace_count == 1
    assert Doubling().until(torch.tensor(3.0), 50.0) == 96

    @tg.function(input_signature=[tg.TensorSpec([], torch.int64)] * 2)
    def divisor(a, b):
        return a if b == 0 else divisor(b, a % b)

    assert divisor(48, 36) == 12


def test_one_graph_of_a_size_that_does_not_depend_on_the_calls():
    f = tg.function(lambda v: search(torch.arange(4096.0), v, 0, 4096))
    assert f(torch.tensor(1234.5)) == 1235
    text = str(f.get_concrete_function(torch.tensor(0.0)).graph)
    assert text.count("While") == 1


def test_gradient_through_the_calls():
    def grow(x):
        if x.sum() > 20:
            return x
        return grow(x * x)

    x = torch.tensor([1.5, 2.0], requires_grad=True)
    (want,) = torch.autograd.grad(grow(x).sum(), x)
    (found,) = torch.autograd.grad(tg.function(lambda x: grow(x))(x).sum(), x)
    assert torch.allclose(want, found)


def test_a_recursion_without_end_that_python_decides():
    @tg.function
    def same(x):
        return same(x)

    def other(x):
        return other(x)

    def deep(x, n=0):
        if x > 0 and n >= 0:
            return deep(x, n + 1)
        return x

    for f in (same, tg.function(lambda x: other(x)), tg.function(lambda x: deep(x))):
        with pytest.raises(RecursionError):
            f(torch.tensor(1.0))
