"""What special methods of a user's class give and may not give."""

import pytest
import torch

import tograph as tg

from .both import compare

CALLS = {
    "__init__": lambda a: a(),
    "__len__": lambda a: len(a()),
    "__str__": lambda a: (str(a()), f"{a()}"),
    "__repr__": lambda a: repr(a()),
    "__format__": lambda a: f"{a():x}",
    "__int__": lambda a: int(a()),
    "__float__": lambda a: float(a()),
    "__iter__": lambda a: list(a()),
    "__next__": lambda a: [x for x in a()],
    "__contains__": lambda a: 3 in a(),
    "__bool__": lambda a: bool(a()),
}
CASES = [
    ("__init__", 3), ("__len__", -6), ("__len__", 2.5), ("__len__", 2), ("__str__", 3), ("__repr__", None), ("__format__", 3), ("__int__", 2.5),
    ("__float__", 2), ("__iter__", [1, 2]), ("__iter__", None), ("__next__", 1), ("__contains__", "yes"), ("__contains__", 0), ("__bool__", 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given"), CASES)
def test_same(name, given):
    call = CALLS[name]

    def f(x):
        class A:
            pass

        def method(self, *rest):
            return given

        setattr(A, name, method)
        found = call(A)
        return found if name != "__init__" else 1

    compare(f, (torch.ones(2),))


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_length_that_only_the_run_knows(sign):
    class A:
        def __init__(self, x):
            self.x = x

        def __len__(self):
            return int(self.x.sum())

    compare(lambda x: len(A(x)), (torch.full((2,), sign),))


def test_memory_that_is_not_there_is_told_at_its_line():
    @tg.function
    def f(x):
        return x, torch.empty(10**15)

    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            f(torch.ones(1))
        assert "torch.empty(10**15)" in caught.value.__notes__[0]
