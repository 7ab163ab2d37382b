"""Bodies of classes that a function defines: their names in operands that run later, as plain Python sees them."""

import dataclasses
import enum

import pytest
import torch

import tograph as tg

n = 7


def _own_names(a):
    n = 5

    class K:
        n = 1
        first = n if a > 0 else -n
        second = a > 0 and n
        third = a < 0 or n
        fourth = 0 < n < 2
        for _ in range(2):
            n += n if a > n else 0

    return K.first, K.second, K.third, K.fourth, K.n, n


def _names_from_around(a):
    class K:
        first = n if a > 0 else -n
        n = n + 1 if a > 0 else n
        second = n if a > 0 else undefined  # noqa: F821

    return K.first, K.n, K.second


def _of_a_class_inside(a):
    class K:
        i = 1

        class Inner:
            j = 2
            z = j if a > 0 else (j and -j)

        m = Inner.z if a > 0 else i

        def f(self, k=i if a > 0 else 0):
            return k

    return K.Inner.z, K.m, K().f()


def _bound_in_an_operand(a):
    class K:
        z = a > 0 and (w := 3)
        y = (v := a + 1) if a > 0 else (v := -a)

    return K.z, K.y, K.v


def _records(a):
    @dataclasses.dataclass
    class Record:
        i: int = 1
        z: object = i if a > 0 else 0

    class E(enum.Enum):
        A = 1
        B = A + 1
        C = B if A else 5

    return Record().z, Record(3).i, E.C is E.B


def _functions_in_their_place(a):
    class K:
        if n:
            c = [q for q in range(2)]
        d = {q: a for q in c}
        f = lambda self, q=1: [q + a for _ in range(2)]  # noqa: E731
        g = any(q > a for q in c)

    return K.c, K.d, K().f(), K.g, sorted(name for name in vars(K) if name[0] != "_")


FUNCTIONS = [_own_names, _names_from_around, _of_a_class_inside, _bound_in_an_operand, _records, _functions_in_their_place]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS)
def test_names_of_a_class_body(f):
    g = tg.function(f)
    for a in (3, 1):
        a = torch.tensor(a)
        assert repr(g(a)) == repr(f(a))


def test_a_failing_assertion_of_a_class_body():
    @tg.function
    def f(a):
        class K:
            i = -1
            assert i > 0

        return K.i + a

    with pytest.raises(AssertionError):
        f(torch.tensor(1))


def test_a_staged_condition_of_a_statement_is_refused():
    @tg.function
    def f(a):
        class K:
            if a > 0:
                i = 1

        return K.i

    with pytest.raises(tg.errors.GraphBoolError, match="(?s)in the body of a class.*if a > 0"):
        f(torch.tensor(1))
