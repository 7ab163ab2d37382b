"""Items of lists and tuples by a staged index."""

import operator

import numpy as np
import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, compare
from tograph.runtime.graph.ir import all_nodes

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


@cases((0,), (4,), (-1,), (-6,), (6,))
def strings_by_their_place(i):
    words = ["a", "b", "a", "c", "b", "d"]
    word = words[i]
    return (
        word,
        word + "!",
        f"{word}{i}",
        word == "a",
        "same"[i],
        ["s", "s", "s"][i],
        {"a": 1, "d": 2}.get(word),
    )


@cases((9,), (0,))
def text_of_letters(n):
    letters, out, count = "abcdef", "", 0
    while len(out) < n:
        count = (count * 5 + 2) % 7
        out += letters[count - 3]
    return out, letters[count - 6] in out


@cases((0.0,), (2.0,))
def by_a_bool(x):
    c = bool(x > 1)
    xs = [10, 20, 30]
    xs[c] += 1
    return [1, 2, 3][c], "abc"[c], range(5)[c], (4, 5)[c], xs, {0: "a", 1: "b"}[c]


@cases((3,), (-2,), (0,), (20,))
def slices_of_ranges(x):
    n, r = int(x), range(int(x))
    found = [
        range(10)[n:],
        range(10)[:n:-2],
        range(2, 20, 3)[n:5],
        r[1:],
        r[::-1],
        range(n, 10)[2:4],
    ]
    return [list(v) for v in found], len(range(10)[n:])


test_same = cases.test()


def test_a_string_is_chosen_by_its_number():
    """A branch for each string would make the first call long."""
    letters = "".join(map(chr, range(97, 123)))

    @tg.function
    def f(i):
        out = ""
        while len(out) < 5:
            out += letters[i]
        return out

    graph = f.get_concrete_function(torch.tensor(3)).graph
    assert not any(n.op == "If" for n in all_nodes(graph))
    assert f(torch.tensor(3)) == "ddddd"


def test_the_text_of_one_of_several_strings_and_numbers_is_one_op():
    words = [f"w{k}" for k in range(30)]

    @tg.function
    def f(i):
        return f"{words[i]} at {i}"

    graph = f.get_concrete_function(torch.tensor(3)).graph
    assert not any(n.op in ("If", "Case") for n in all_nodes(graph))
    assert f(torch.tensor(7)) == "w7 at 7"


WORDS = ["a", "b", "c"]


def read(t):
    return WORDS[t], (1, 2, 3)[t], "abc"[t], range(5)[t], WORDS[t:], WORDS[:t]


def written(t):
    l = [1, 2, 3]
    l[t] = 7
    l.insert(t, 5)
    return l, l.pop(t)


def deleted(t):
    l = [1, 2, 3]
    del l[t]
    return l


def grown(t):
    l = [1, 2, 3]
    if t.sum() > 0:
        l.append(4)
    return l[t]


def counted(t):
    return list(range(t)), operator.index(t)


@pytest.mark.parametrize("program", [read, written, deleted, grown, counted])
def test_a_tensor_of_one_element_is_an_index_and_others_are_not(program):
    for t in ([1], [[2]], 1, True, [1, 2], 1.0, [9], [-1]):
        compare(program, (torch.tensor(t),))


def test_arrays_of_numpy_are_tables():
    table, steps = np.linspace(0, 5, 8), np.arange(6)[::-1].copy()

    def f(x):
        n, y = 0, x
        while y < 9 and n < 6:
            y = y + steps[n] * table[-1 - n]
            n += 1
        return y, n, float(table[int(x)]), int(steps[n - 1])

    staged = tg.function(f)
    for x in (torch.tensor(0.5), torch.tensor(2.5), torch.tensor(7.5)):
        assert staged(x) == f(x)
    assert staged.trace_count == 1
    for x in (torch.tensor(-9.0), torch.tensor(8.5)):
        for run in (f, staged):
            with pytest.raises(IndexError, match="out of bounds for axis 0 with size 8"):
                run(x)
