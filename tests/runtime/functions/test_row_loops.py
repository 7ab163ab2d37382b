"""``map_fn``, ``scan``, ``foldl`` and ``foldr``: in a function, outside, and against loops written by hand."""

import collections

import pytest
import torch

import tograph as tg

X = torch.arange(1.0, 5.0)
GRID = torch.arange(6.0).reshape(3, 2)
Pair = collections.namedtuple("Pair", "a b")

PROGRAMS = {
    "map": (lambda x: tg.map_fn(lambda r: r * 2, x), X),
    "map_rows": (lambda x: tg.map_fn(lambda r: r.sum(), x), GRID),
    "map_none": (lambda x: tg.map_fn(lambda r: r + 1, x[:0]), GRID),
    "map_tuple": (lambda x: tg.map_fn(lambda p: (p[0] + p[1], p[0].int()), (x, x * 2)), X),
    "map_dict": (lambda x: tg.map_fn(lambda d: {"s": d["a"] * d["b"]}, {"a": x, "b": x}), X),
    "map_named": (lambda x: tg.map_fn(lambda p: Pair(p.b, p.a), Pair(x, GRID)), torch.arange(3)),
    "map_list": (lambda x: tg.map_fn(lambda p: [p[0], [p[1]]], [x, x + 1]), X),
    "map_number": (lambda x: tg.map_fn(lambda r: 7, x), X),
    "map_int": (lambda x: tg.map_fn(lambda r: r % 2 == 0, x), torch.arange(4)),
    "scan": (lambda x: tg.scan(lambda a, b: a * b, x), X),
    "scan_reverse": (lambda x: tg.scan(lambda a, b: a - b, x, reverse=True), X),
    "scan_list": (
        lambda x: tg.scan(
            lambda a, v: [a[0] + v, a[1] * 2], x, [torch.zeros(()), torch.tensor(1.0)]
        ),
        X,
    ),
    "scan_start": (lambda x: tg.scan(lambda a, b: a + b.sum(), x, torch.tensor(10.0)), GRID),
    "scan_start_reverse": (lambda x: tg.scan(lambda a, b: a + b, x, X[0], reverse=True), X),
    "scan_number": (lambda x: tg.scan(lambda a, b: a + b, x, 10), X),
    "scan_none": (lambda x: tg.scan(lambda a, b: a + b, x[:0], X[0]), X),
    "scan_tuple": (
        lambda x: tg.scan(lambda a, b: (a[0] + b[0], a[1] * b[1]), (x, x)),
        X,
    ),
    "scan_other": (lambda x: tg.scan(lambda a, b: (a[1], a[0] + b), x, (X[0], X[1])), X),
    "foldl": (lambda x: tg.foldl(lambda a, b: a - b, x), X),
    "foldr": (lambda x: tg.foldr(lambda a, b: a - b, x), X),
    "foldl_start": (lambda x: tg.foldl(lambda a, b: a * 2 + b, x, torch.zeros(2)), GRID),
    "fold_none": (lambda x: tg.foldl(lambda a, b: a + b, x[:0], X[0]), X),
    "one_row": (lambda x: (tg.scan(lambda a, b: a + b, x[:1]), tg.foldr(max, x[:1])), X),
}


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))


@pytest.mark.parametrize("name", PROGRAMS)
def test_in_a_function_as_outside(name):
    program, x = PROGRAMS[name]
    f = tg.function(program)
    assert same(program(x), f(x))
    assert "While(" in str(f.concrete_functions[0].graph)


@pytest.mark.parametrize("name", ["map", "scan", "foldl", "foldr", "scan_reverse"])
def test_a_number_of_rows_that_is_not_known(name):
    program, _ = PROGRAMS[name]
    f = tg.function(program, input_signature=[tg.TensorSpec([None], torch.float32)])
    for n in (4, 1, 3):
        assert torch.equal(f(X[:n]), program(X[:n]))
    assert f.trace_count == 1


def test_values():
    assert tg.scan(lambda a, b: a + b, X).tolist() == [1, 3, 6, 10]
    assert tg.scan(lambda a, b: a + b, X, reverse=True).tolist() == [10, 9, 7, 4]
    assert tg.foldr(lambda a, b: a - b, X) == -2
    assert tg.map_fn(lambda r: r.sum(), GRID).tolist() == [1, 5, 9]
    assert tg.map_fn(lambda r: (r, r > 2), GRID[:0])[1].shape == (0, 2)


def test_the_number_of_rows_is_static_in_the_result():
    f = tg.function(lambda x: tg.map_fn(lambda r: r * 2, x))
    assert f.get_concrete_function(GRID).structured_outputs.shape == (3, 2)


def test_many_rows_are_one_loop():
    f = tg.function(lambda x: tg.scan(lambda a, b: a * 0.5 + b, x))
    x = torch.ones(3000)
    assert torch.allclose(f(x), tg.scan(lambda a, b: a * 0.5 + b, x))
    assert len(str(f.concrete_functions[0].graph).splitlines()) < 40


def test_control_flow_and_variables_in_the_function():
    count = tg.Variable(0, requires_grad=False)

    def clipped(row):
        count.assign_add(1)
        if row.sum() > 3:
            return row
        return -row

    f = tg.function(lambda x: tg.map_fn(clipped, x))
    assert f(GRID).tolist() == [[-0, -1], [2, 3], [4, 5]]
    assert count == 3


def test_gradients():
    def program(x, w):
        return (
            tg.scan(lambda a, b: torch.tanh(a * w + b), x, x[0] * 0).sum()
            + tg.map_fn(lambda r: r * r * w, x).sum()
        )

    def grads(f):
        x, w = X.clone().requires_grad_(), torch.tensor(0.5, requires_grad=True)
        return torch.autograd.grad(f(x, w), (x, w))

    for a, b in zip(grads(program), grads(tg.function(program)), strict=True):
        torch.testing.assert_close(a, b)


def test_printing_order(capsys):
    f = tg.function(lambda x: tg.foldl(lambda a, b: (print(b.item()), a + b)[1], x))
    f(X[:3])
    assert capsys.readouterr().out.split() == ["2.0", "3.0"]


NAMES = ("map_fn", "scan", "foldl", "foldr")


@pytest.mark.parametrize("where", [lambda f: f, tg.function], ids=["outside", "inside"])
@pytest.mark.parametrize("name", NAMES)
class TestMistakes:
    def refused(self, where, call, error, *words):
        with pytest.raises(error) as caught:
            where(call)(X)
        assert [w for w in words if w not in str(caught.value)] == [], caught.value

    def test_no_function(self, name, where):
        fn = getattr(tg, name)
        words = f"'fn' of {name} must be callable, not None"
        self.refused(where, lambda x: fn(None, x), tg.errors.NotAFunctionError, words)

    def test_no_tensor(self, name, where):
        fn = getattr(tg, name)
        words = f"the elems of {name} must be tensors, or lists, tuples and dicts of these"
        self.refused(where, lambda x: fn(max, None), tg.errors.StructureError, words, "not None")
        self.refused(where, lambda x: fn(max, "ab"), tg.errors.StructureError, words, "a str")
        self.refused(where, lambda x: fn(max, ()), tg.errors.StructureError, "hold no tensor")

    def test_no_dimension(self, name, where):
        fn, error = getattr(tg, name), tg.errors.InvalidArgumentError
        words = f"the elems of {name} are taken apart along their first dimension"
        self.refused(where, lambda x: fn(max, x[0]), error, words, "without dimensions")
        self.refused(where, lambda x: fn(max, [1, 2]), error, words, "the number 1", "torch.tensor")

    def test_different_numbers_of_rows(self, name, where):
        fn, error = getattr(tg, name), tg.errors.InvalidArgumentError
        words = f"the elems of {name} must have the same number of rows, and have 4 and 2"
        self.refused(where, lambda x: fn(max, (x, x[:2])), error, words)

    def test_no_rows(self, name, where):
        if name != "map_fn":
            fn, error = getattr(tg, name), tg.errors.InvalidArgumentError
            self.refused(where, lambda x: fn(max, x[:0]), error, "no rows", "give an initializer")

    def test_no_result(self, name, where):
        if name in ("map_fn", "scan"):
            fn = getattr(tg, name)
            words = f"the results of the function given to {name} must be tensors"
            call = lambda x: fn(lambda *args: None, x)  # noqa: E731
            self.refused(where, call, tg.errors.StructureError, words, "not None")
