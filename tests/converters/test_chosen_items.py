"""What goes over the items of one iterable or another, by a staged condition."""

from tests.converters.both import Cases

cases = Cases()


@cases((2,), (1,), (-1,))
def counted(x):
    p, q = [1, 2] if x > 0 else [3, 4]
    try:
        a, b = [1, 2] if x > 1 else [3]
    except ValueError as error:
        return str(error), p, q
    return a + b, p, q


@cases((1,), (-1,))
def letters(x):
    word = "abc" if x > 0 else "z"
    return [c for c in word], list(word), "".join(reversed(word))


@cases((1,), (-1,))
def total(x):
    items = [1, 2, 3] if x > 0 else range(5)
    found = 0
    for v in items:
        if v == 3:
            break
        found += v
    (first, *rest) = items
    return found, first, len(rest)


test_same = cases.test()
