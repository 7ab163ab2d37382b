"""Generators whose items are asked for one by one, by ``next``, ``send``, ``close`` and ``zip``; native against converted."""

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases

cases = Cases()
ROWS = [(torch.tensor([1.0, -2.0, 3.0]),), (-torch.ones(3),)]


def positive(x):
    print("begin")
    for v in x:
        if v > 0:
            print("give", v.item())
            yield v
    print("end")


def nested(x):
    for i in range(3):
        for j in range(i):
            if x[i] > x[j]:
                yield i * 10 + j
        if x[i] > 2:
            return 99
    return 5


@cases.tensors(*ROWS)
def next_with_a_default(x):
    items = positive(x)
    return next(items, -1.0), next(items, -1.0), next(items, -1.0)


@cases.tensors(*ROWS)
def next_at_the_end(x):
    items = (v for v in x if v > 2)
    return next(items), 1


@cases.tensors(*ROWS)
def next_in_a_branch_and_behind_it(x):
    items = positive(x)
    a = torch.zeros(())
    if x[0] > 0:
        a = next(items, torch.tensor(7.0))
    return a, next(items, torch.tensor(8.0)), [v + 1 for v in items]


def growing(k):
    while True:
        if k % 3 != 0:
            yield k
        k = k + 1


@cases((3,), (1,), (0,))
def next_in_a_staged_loop(n):
    items = growing(n * 1)
    total = 0
    for i in range(n):
        total = total + next(items) * i
    return total, next(items)


@cases.tensors(*ROWS)
def end_of_nested_loops(x):
    items = nested(x)
    first = next(items, None)
    try:
        second = next(items)
    except StopIteration:
        second = "end"
    return first, second


def average():
    total, count, mean = 0.0, 0, None
    while True:
        v = yield mean
        if v is None:
            return
        if v > 0:
            total = total + v
            count += 1
            mean = total / count


@cases.tensors(*ROWS)
def values_that_are_sent(x):
    means = average()
    next(means)
    return [means.send(v) for v in x]


def test_a_value_is_not_sent_before_the_first_item():
    @tg.function
    def f(x):
        return average().send(x)

    with pytest.raises(TypeError, match="just-started generator"):
        f(torch.ones(2))


@cases.tensors(*ROWS)
def closed(x):
    items = positive(x)
    first = next(items, None)
    items.close()
    return first, next(items, "closed"), list(items)


@cases.tensors(*ROWS)
def an_exception_ends_it(x):
    def items():
        for v in x:
            if v < -1:
                raise ValueError("negative")
            if v > 0:
                yield v

    found = items()
    try:
        a, b = next(found), next(found)
    except ValueError as e:
        return str(e), next(found, "over")
    except StopIteration:
        return "too few"
    return a, b


@cases.tensors(*ROWS)
def zip_of_several(x):
    return [a - b for a, b in zip(positive(x), positive(-x))]


@cases.tensors(*ROWS)
def zip_beside_an_iterator(x):
    numbers = iter([1, 2, 3, 4])
    total = 0
    for n, v in zip(numbers, positive(x)):
        total = total + n * v
    return total, next(numbers, None)


@cases.tensors(*ROWS)
def strict_zip(x):
    return list(zip((v for v in x if v > 0), [1, 2], strict=True))


@cases.tensors(*ROWS)
def maps_and_numbers(x):
    doubled = map(lambda v: v * 2, (v for v in x if v > 0))
    numbered = enumerate(v for v in x if v > 0)
    kept = filter(lambda v: v > 0, x)
    return next(doubled, 0), next(numbered, None), next(numbered, None), next(kept, 0), list(kept)


def stops(n):
    yield n
    raise StopIteration("of its own")


def takes(items):
    yield next(items)


@cases((1,), (-1,))
def own_stop_is_an_error(n):
    found = []
    for make in (lambda: stops(n), lambda: takes(iter([n]))):
        gen = make()
        found.append(next(gen))
        try:
            found.append(next(gen, "ended"))
        except RuntimeError as error:
            found.append(str(error))
    try:
        for x in stops(n):
            found.append(x)
    except RuntimeError as error:
        found.append(str(error))
    return found


@cases((1,), (3,))
def stop_of_the_loop_is_its_own(n):
    try:
        for x in stops(n):
            raise StopIteration("of the loop")
    except StopIteration as error:
        return str(error)


def catches(n):
    try:
        yield n
    except ValueError:
        yield n * 2
    finally:
        print("end")


def delegates(n):
    result = yield from catches(n)
    yield result


class Counts:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        self.n = self.n - 1
        if self.n < 0:
            raise StopIteration(42)
        return self.n


def by_iterator(n):
    yield (yield from Counts(n))


@cases((1,))
def throwing_and_closing(n):
    one, other, plain = delegates(n), delegates(n), stops(n)
    found = [next(one), one.throw(ValueError), next(one), next(other), next(plain)]
    other.close()
    print("closed")
    try:
        plain.throw(KeyError("thrown"))
    except KeyError as error:
        found.append(error.args)
    return found, list(plain)


@cases((2,), kinds=("python",))
def result_of_a_users_iterator(n):
    return list(by_iterator(n))


def echoes(n):
    got = yield n
    while got is not None:
        got = yield got * n


def sends(n):
    yield from echoes(n)


@cases((2,))
def sending_on(n):
    gen = sends(n)
    return next(gen), gen.send(3), gen.send(4), next(gen, "ended")


def no_arguments():
    yield 1


@cases((2,))
def arguments_fail_at_the_call(n):
    try:
        no_arguments(n)
    except TypeError:
        return "refused"


@cases((2,))
def yield_behind_a_raise(n):
    def gen():
        raise ValueError(n)
        yield

    made = gen()
    try:
        next(made)
    except ValueError:
        return "raised by the first item"


test_same = cases.test()
