"""Items of lists and tuples by a staged index."""

from tests.converters.both import Cases

cases = Cases()


@cases((0,), (2,), (-1,), (3,))
def list_read(i):
    l = [10, 20, 30]
    return l[i]


@cases((0,), (2,), (-1,), (3,))
def list_write(i):
    l = [10, 20, 30]
    l[i] = 7
    return l


@cases((1,), (-4,))
def list_update(i):
    l = [10, 20, 30]
    l[i] += 7
    return l


@cases((0,), (1,), (2,))
def tuple_read(i):
    return (10, 20)[i]


@cases((2,), (0,))
def staged_index_in_a_loop(n):
    l = [3, 1, 4, 1, 5]
    s = 0
    for i in range(n):
        s += l[i] * l[-i - 1]
        l[i] = s
    return s, l


@cases((2, 0), (-1, 1), (9, 1), (-10, 1))
def items_of_long_sequences(i, n):
    squares = [k * k for k in range(9)]
    halves = tuple(k / 2 for k in range(9))
    odd = [k % 2 == 1 for k in range(9)]
    mixed = ["a", 1, 2.0, None, "e", "f", 6, (7, 8), 8.5]
    return squares[i], halves[n], odd[i], mixed[i] if n else mixed[n]


test_same = cases.test()
