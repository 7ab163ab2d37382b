"""Functions that call functions, generators and comprehensions."""

import functools

import torch

import tograph as tg


@tg.function
def layer(x, w):
    if x.sum() > 0.3:
        return torch.tanh(x @ w)
    return x @ w - x


def generator(x, w, n):
    def powers(y):
        for i in range(n):
            y = y @ w
            if i != 1:
                yield y
        yield y.sin()

    return sum(powers(x))


def generator_from(x, w, n):
    def first(y):
        for _ in range(n):
            y = y.sin()
            yield y
        yield y * w[0]

    def both(y):
        yield y @ w
        yield from first(y)
        yield y * 2

    for y in both(x):
        x = x + y * y
    return x


def generator_expression(x, w, n):
    return sum((row * x).sin() for row in w) + torch.stack([x, *(x @ w for _ in range(n))]).sum(0)


def calls(x, w, n):
    y = layer(x, w)
    for _ in range(n):
        y = layer(y, w) * layer(x, w)
    return y


def arguments_of_calls(x, w, n):
    def inner(a, /, b, *rest, scale=2, **more):
        for r in rest:
            if n > 0:
                a = a * r
        return a * b * scale + more["last"]

    rows = [w[0], w[1]]
    return inner(x, *rows, x.sin(), **{"scale": x.sum(), "last": w[1]})


def partial(x, w, n):
    def inner(a, b, k):
        return a @ b if k > 0 else a * b[0]

    f = functools.partial(inner, b=w, k=n)
    return functools.reduce(lambda a, row: f(a) * row, w, x)


def nested_functions(x, w, n):
    y = x

    def step(k):
        nonlocal y
        if k % 2 == 0:
            y = torch.tanh(y @ w)
            return y * 2
        y = y + w[k]
        return y.cos()

    for i in range(n):
        x = x + step(i)
    return x * y


def lambdas(x, w, n):
    scale = x.sum()
    f = lambda y: (y @ w) * scale  # noqa: E731
    for i in range(n):
        scale = scale * 0.5 + i
        x = f(x).sin()
    return (lambda *ys: sum(ys))(x, f(x))


def closures(x, w, n):
    def scaled(k):
        def inner(y):
            return y * k if y.sum() > -9 else y

        return inner

    by = [scaled(w[0]), scaled(x.sin()), scaled(2)]
    for f in by:
        x = f(x) if n > 0 else f(x) + 1
    return x


def recursion(x, w, n):
    def power(y, k):
        return y if k == 0 else torch.tanh(power(y, k - 1) @ w)

    return power(x, 3) * n


def recursion_by_the_run(x, w, n):
    def power(y, k):
        return y if k == 0 else power(torch.tanh(y @ w), k - 1)

    return power(x, n)


def comprehension(x, w, n):
    return torch.stack([(row * x).sin() if n > 1 else row @ w for row in w]).sum(0)


def comprehension_with_conditions(x, w, n):
    rows = [row * x for i, row in enumerate(w) if i < n]
    nested = [a * b for a in w for b in (x, w[0]) if n > 0]
    return torch.stack([x, *rows]).sum(0) * torch.stack([x.sin(), *nested]).sum(0)


def dict_comprehension(x, w, n):
    d = {i: row * x for i, row in enumerate(w)}
    if n > 0:
        d = {k: v.sin() * k for k, v in d.items()}
    return d[0] + d[1]


def starred(x, w, n):
    a, *rest = [x, w[0], w[1], x.sin()]
    *some, last = (*rest, a @ w)
    for y in some:
        a = a * y if n > 0 else a + y
    (p, q), *_ = (a, last), x
    return p * q


CONSTRUCTS = [
    generator, generator_from, generator_expression, calls, arguments_of_calls, partial, nested_functions, lambdas,
    closures, recursion, recursion_by_the_run, comprehension, comprehension_with_conditions, dict_comprehension, starred,
]  # fmt: skip
