"""List, set and dict comprehensions, generator expressions and generator functions."""

import torch

from tests.converters.both import Cases

cases = Cases()
ROWS = torch.arange(6.0).reshape(3, 2)


@cases(([1, -2, 3],), ([],))
def lists(l):
    return [v * 2 for v in l], [v + w for v in l for w in l if v is not w]


@cases(([1, -2, 3],), ([],))
def staged_filter(l):
    return [v for v in l if v > 0]


@cases((3,), (0,))
def over_a_range(n):
    return [i * i for i in range(n)]


@cases((3,), (0,))
def over_a_range_with_filter(n):
    return [i for i in range(n) if i % 2 == 0]


@cases((3,), (-3,))
def condition_in_the_element(x):
    return [v if x > v else -v for v in (1, 2, 5)]


@cases((3,), (-3,))
def dict_and_set(x):
    return {k: x * i for i, k in enumerate("abc")}, {i for i in range(3)}


@cases((3,), (-3,))
def generator_expressions(x):
    return sum(v * x for v in range(4)), max(v + x for v in (1, 5, 2)), tuple(x + v for v in (1, 2))


@cases((3,), (0,))
def any_and_all(x):
    return any(v == x for v in (1, 3)), all(v < x for v in (1, 2))


@cases.tensors((ROWS,), (ROWS[:0],))
def over_rows(x):
    return [row.sum() for row in x], sum(row.sum() for row in x)


@cases.tensors(
    (ROWS,),
)
def over_rows_with_filter(x):
    return [row.sum() for row in x if row[0] > 1]


@cases.tensors(
    (ROWS,),
)
def stacked(x):
    return torch.stack([row * i for i, row in enumerate(x)])


@cases((3,), (5,))
def walrus(x):
    l = [y := v + x for v in range(3)]
    return l, y


@cases((3,))
def names_do_not_leak(v):
    l = [v for v in range(3)]
    return l, v


@cases((3,))
def closures_in_a_comprehension(x):
    fs = [lambda: v * x for v in range(3)]
    return [f() for f in fs]


@cases((3,), (0,))
def generator_function(n):
    def squares():
        i = 0
        while i < 4:
            yield i * n
            i += 1

    return list(squares()), sum(squares())


@cases(([[1, 2], [3]],))
def nested(l):
    return [v for row in l for v in row], [[v + 1 for v in row] for row in l]


@cases((2,), (0,))
def short_circuit(x):
    def said(v):
        print(v)
        return v == x

    return any(said(v) for v in (1, 2, 3))


def leaving(items, n):
    for i in items:
        if i == 2:
            break
        if i == 7:
            return 5
        yield i * n
    else:
        yield 100
    try:
        for j in items:
            if j == 4:
                return 9
            yield j
    finally:
        print("left")
    yield -1


@cases((3,), (-1,))
def jumps_out_of_a_generator_that_zip_takes(x):
    """No item is taken from the iterator that Python leaves in it."""

    def inner(items):
        found = yield from leaving(items, x)
        yield found

    items = iter(range(10))
    return list(zip(inner(items))), list(items), dict(enumerate(leaving(iter([0, 1, 7, 8]), x)))


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def generator_expression_in_a_variable(x):
    g = (z * 2 for z in x if z > 0)
    out = []
    for z in g:
        out.append(z)
    return out


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def list_of_a_generator_expression(x):
    g = (z * 2 for z in x if z > 0)
    return [z + 1 for z in g]


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def list_called_on_one(x):
    g = (z * 2 for z in x if z > 0)
    return list(g)


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def joined_texts(x):
    return "".join(f"{z.item():.0f}" for z in x)


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def sums_of_generator_expressions(x):
    g = (z for z in x if z > 0)
    return sum(g) + sum(z for z in x if z < 0)


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def two_fors(x):
    g = (a + b for a in x for b in (1, 2) if a > 0)
    return list(g)


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def other_consumers(x):
    return (
        dict((k, v) for k, v in zip("abc", x)),
        tuple(z for z in x),
        set(i for i in range(3)),
        next((z for z in [1, 2, 3] if z > 1), None),
    )


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def next_of_a_generator_expression(x):
    return next((z for z in x if z > 0), None)


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def taken_by_next(x):
    it = (i for i in range(10))
    a = next(it)
    return a, next(it), [i for i in it if i > 7]


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),))
def next_without_any(x):
    return next(z for z in x if z > 9)


@cases(([1.0, -2.0, 3.0],), ([-1.0, -2.0],))
def first_or_another(x):
    def other():
        print("other")
        return x[0] * 5

    inner = [next((b for b in x if b > a), x[-1]) for a in x]
    return (
        next((i for i, v in enumerate(x) if v > 0), -1),
        next((v for v in x if v > 0), other()),
        inner,
    )


SEEN = 0


@cases((3,))
def key_before_value(n):
    items = iter(range(10))
    return {next(items): next(items) + n for _ in range(3)}


@cases((3,))
def walrus_keys_and_values(n):
    a, b = 1, 2
    found = {(c := a): (a := b) + (b := a + c) - b for _ in range(6)}
    return found, a, b, c, n


@cases((3,), (5,))
def walrus_of_a_global(n):
    global SEEN
    SEEN = 0
    [SEEN := SEEN + i * n for i in range(3)]
    return SEEN


@cases((3,))
def comprehensions_of_a_generator(n):
    lists = ([y + n for y in range(x)] for x in range(3))
    tables = ({y: y * n for y in range(x)} for x in range(3))
    sums = (sum(y for y in range(x)) for x in range(4))
    return next(lists), next(lists), next(tables), list(tables), next(sums), list(sums)


test_same = cases.test()


def scaled(k):
    return lambda v: v * k


@cases((3,), (1,), (0,))
def of_a_function_that_the_iteration_makes(n):
    r = []
    for i in range(n):
        f = scaled(i)

        def g(v, k=i):
            return v + k

        r.append(sum(g(q) for q in (1, 2)) + max([f(q) for q in (1, 2)]))
    return r


@cases((3,), (1,), (0,))
def of_a_list_that_each_iteration_makes(n):
    total = 0
    for i in range(n):
        rows = [i] * 2 if i % 2 else [i, i, i]
        total += sum([q + len(rows) for q in rows])
    return total


@cases((3, [3, 1, 2]), (1, [0, 9]), (0, [1]))
def in_the_test_of_a_loop(n, l):
    f = scaled(1)
    i = 0
    while any([f(q) > 2 for q in l]) and i < n:
        i += 1
        f = lambda q: q - 1  # noqa: E731
    return i


@cases((3,), (1,))
def with_functions_that_are_called_later(n):
    found = []
    for i in range(3):
        k = i * n
        found += [lambda q: q + k for _ in range(1)]  # noqa: B023
    return [f(1) for f in found]


@cases((1,), (-1,))
def of_a_variable_that_may_be_unbound(x):
    if x > 0:
        y = 1
    return [y for _ in range(2)]


@cases((1,), (-1,))
def of_a_variable_that_may_be_unbound_in_a_generator(x):
    if x > 0:
        y = 1
    return sum(y for _ in range(2))


@cases((1,), (-1,))
def of_a_variable_that_may_be_unbound_and_is_shared(x):
    if x > 0:
        y = 1
    return {k: (lambda: y)() for k in range(2)}
