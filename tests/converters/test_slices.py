"""``slice.indices`` of bounds that only the run knows."""

from .both import Cases

cases = Cases()


@cases((2, 5, 1), (-3, 9, 2), (-20, -1, -2), (20, -30, -1), (0, 0, 3), (4, 1, 0), (3, 3, -2))
def bounds(a, b, c):
    a, b, c = int(a), int(b), int(c)
    made = [slice(a, b), slice(None, b, -1), slice(a, None), slice(a, b, c)]
    return [s.indices(7) for s in made], list(range(*slice(b).indices(abs(a))))


test_same = cases.test()
