"""Dtypes that torch refuses are refused at every call, native ones included, and dtypes of results are torch's."""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg

INTS, FLOATS = torch.tensor([1, 2, 3]), torch.tensor([1.0, 2.0, 3.0])
BOOLS = torch.tensor([True, False, True])
ROWS = torch.ones(2, 3)

REFUSED = {
    "hypot of integers": (torch.hypot, (INTS, INTS)),
    "lerp of two dtypes": (lambda x, y: torch.lerp(x, y, 0.5), (FLOATS, FLOATS.double())),
    "abs of bools": (torch.abs, (BOOLS,)),
    "minus bools": (lambda x: -x, (BOOLS,)),
    "1 - bools": (lambda x: 1 - x, (BOOLS,)),
    "argmax of bools": (torch.argmax, (BOOLS,)),
    "softmax of integers": (lambda x: x.softmax(0), (INTS,)),
    "gelu of integers": (F.gelu, (INTS,)),
    "gelu of integers by tanh": (lambda x: F.gelu(x, approximate="tanh"), (INTS,)),
    "~ of floats": (lambda x: ~x, (FLOATS,)),
    "& of floats": (lambda x, y: x & y, (FLOATS, FLOATS)),
    "a negative power of integers": (lambda x: x**-1, (INTS,)),
    "std of integers": (lambda x: x.std(), (INTS,)),
    "mean of two dtypes' distance": (F.mse_loss, (BOOLS, INTS)),
    "a complex tensor of bf16": (torch.complex, (FLOATS.bfloat16(), FLOATS.bfloat16())),
    "polar of integers": (torch.polar, (INTS, INTS)),
    "complex clamp": (lambda x: x.clamp(max=2.0), (FLOATS + 1j,)),
    "arange of bools": (lambda x: torch.arange(2, dtype=torch.bool), (FLOATS,)),
    "a complex number in integers": (lambda x: x.clone().fill_(2j), (INTS,)),
    "layer_norm with another dtype": (lambda x, w: F.layer_norm(x, (3,), w), (ROWS, INTS)),
    "targets of 32 bits": (lambda x, t: F.cross_entropy(x, t), (ROWS, INTS[:2].int() - 1)),
    "weights of another dtype": (
        lambda x, w: F.cross_entropy(x, INTS[:2] - 1, weight=w),
        (ROWS, FLOATS.double()),
    ),
    "index_copy by 32 bits": (
        lambda x, i: x.index_copy(0, i, x),
        (ROWS, torch.tensor([0, 1], dtype=torch.int32)),
    ),
    "index_fill by 32 bits": (
        lambda x, i: x.index_fill(0, i, 1.0),
        (ROWS, torch.tensor([0, 1], dtype=torch.int32)),
    ),
    "embedding of a table of three dims": (lambda i, x: F.embedding(i, x), (INTS, ROWS[None])),
    "eigenvalues of integers": (torch.linalg.eigvals, (ROWS[:, :2].long(),)),
    "avg_pool2d by 0": (lambda x: F.avg_pool2d(x[None], 2, divisor_override=0), (ROWS,)),
    "bmm of bools and bytes": (lambda x, y: torch.bmm(x, y), (BOOLS.view(1, 1, 3), BOOLS.byte().view(1, 3, 1))),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_in_eager_pytorch_at_every_call(name):
    function, args = REFUSED[name]
    with pytest.raises(Exception) as expected:
        function(*args)
    f = tg.function(function)
    for _ in range(3):
        with pytest.raises(Exception) as found:
            f(*args)
        assert found.type is expected.type


SHAPES = {
    "another normalised shape": (lambda x: F.layer_norm(x, (4,)), (ROWS,)),
    "more dimensions than there are": (lambda x: F.layer_norm(x, (1, 3)), (FLOATS,)),
    "fewer weights": (lambda x, w: F.layer_norm(x, (3,), w), (ROWS, torch.ones(2))),
    "more shifts": (lambda x, w: F.layer_norm(x, (3,), None, w), (ROWS, torch.ones(4))),
    "gather from rows that there are not": (lambda x, i: x.gather(1, i), (ROWS, INTS[:, None] * 0)),
    "gather of wider rows": (lambda x, i: x.gather(0, i), (ROWS, torch.zeros(1, 5, dtype=torch.int64))),
    "a mask of another size": (lambda x, m: x.masked_select(m), (FLOATS, torch.ones(4) > 0)),
    "a mask of numbers": (lambda x, m: x.masked_select(m), (FLOATS, FLOATS)),
    "more shifts than dimensions to roll": (lambda x: x.roll((1, 2), (0,)), (FLOATS,)),
    "roll of a dimension that there is not": (lambda x: x.roll(1, 1), (FLOATS,)),
    "cat of nothing": (lambda x: torch.cat([]), (FLOATS,)),
    "stack of nothing": (lambda x: torch.stack([]), (FLOATS,)),
    "cat of vectors and matrices": (lambda x, y: torch.cat([x, y]), (FLOATS, ROWS)),
    "mm of a vector": (torch.mm, (FLOATS, ROWS)),
    "channels": (lambda x: F.conv2d(x, torch.ones(2, 2, 3, 3)), (torch.ones(1, 3, 4, 4),)),
    "complex of integers": (torch.complex, (FLOATS, INTS)),
    "too many of the largest": (lambda x: x.topk(5), (FLOATS,)),
    "positions of two sizes": (lambda x, i, j: x[i, j], (ROWS, INTS * 0, INTS[:2] * 0)),
    "a negative size": (lambda x: torch.zeros(-1), (FLOATS,)),
    "equal to a number": (lambda x: torch.equal(x, 3), (FLOATS,)),
    "a tensor of vectors": (lambda x: torch.tensor([x, x]), (FLOATS,)),
}  # fmt: skip


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("name", SHAPES)
def test_the_error_is_that_of_eager_pytorch_at_every_call(name, used):
    function, args = SHAPES[name]

    @tg.function
    def f(*args):
        y = function(*args)
        return y if used else args[0] + 1

    with pytest.raises(Exception) as expected:
        function(*args)
    for _ in range(3):
        with pytest.raises(expected.type) as found:
            f(*args)
        assert str(expected.value) in str(found.value)


GIVEN = {
    "a tensor of vectors of one element": (lambda x: torch.tensor([x[:1], x[1:2], 2.0]), (FLOATS,)),
    "sum of bools": (lambda x: x.sum(), (BOOLS,)),
    "square of bools": (torch.square, (BOOLS,)),
    "weights of lerp": (torch.lerp, (BOOLS, BOOLS, torch.tensor(0.5))),
    "wide weights of lerp": (torch.lerp, (FLOATS, FLOATS + 1, ROWS)),
    "huber of two dtypes": (F.huber_loss, (FLOATS.bfloat16(), FLOATS)),
    "integers and a complex number": (lambda x: x == 1j, (INTS,)),
    "bytes of numbers": (lambda x: x.view(torch.uint8), (INTS,)),
    "a byte as an index": (lambda x, i: x[i], (FLOATS, torch.tensor(1, dtype=torch.uint8))),
    "an arange of floats": (lambda x: x + torch.arange(0.5, 3.5), (INTS,)),
    "no elements": (lambda x: x.abs(), (FLOATS[:0],)),
}


@pytest.mark.parametrize("name", GIVEN)
def test_what_torch_takes_has_its_dtype_at_every_call(name):
    function, args = GIVEN[name]
    f, expected = tg.function(function), function(*args)
    for _ in range(3):
        torch.testing.assert_close(f(*args), expected)


def test_a_branch_that_is_not_taken_does_not_refuse():
    @tg.function
    def f(x):
        if x.sum() > 10:
            x = torch.hypot(x, x)
        return x + 1

    for _ in range(3):
        assert torch.equal(f(INTS), INTS + 1)
        with pytest.raises(NotImplementedError, match="hypot_cpu"):
            f(INTS * 10)


def test_what_nobody_reads_is_refused_too():
    @tg.function
    def f(x):
        torch.hypot(x, x)
        return x + 1

    for _ in range(3):
        with pytest.raises(NotImplementedError, match="hypot_cpu"):
            f(INTS)


def test_a_complex_number_of_python_is_refused_by_name():
    f = tg.function(lambda x: x.sum().item())
    with pytest.raises(tg.errors.UnsupportedOpError, match="a complex number of Python"):
        f(FLOATS + 1j)


FAILING = {
    "sort of complex numbers": (lambda x: (x + 1j).sort()[0],),
    "topk of bools": (lambda x: (x > 0).topk(2)[0],),
    "a product of bools": (lambda x: (x > 0)[None] @ (x > 0),),
    "probabilities beyond 1": (lambda x: torch.bernoulli(x * 2),),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_handler_finds_what_was_assigned_before_the_refusal(name):
    (op,) = FAILING[name]

    def f(x):
        n, m = 1, 1
        try:
            n, m = 2, x.sum()
            y = op(x)
            n = 3
            return x[y.long()], n
        except Exception:
            return x, n, m

    staged = tg.function(f)
    for _ in range(2):
        torch.testing.assert_close(staged(FLOATS), f(FLOATS))


def test_small_stand_ins_do_not_refuse_a_size():
    x = torch.tensor([[True, False, True, False]])
    f = tg.function(lambda x: ((x + 0j) @ (x + 0j).mT, (x + 0j).trace(), (x + 0).topk(3)[0]))
    torch.testing.assert_close(f(x), f.python_function(x))


ROW = torch.tensor([[0]])
UNREAD = {
    "a write of more elements": lambda x, y: x.clone().add_(y),
    "a comparison in place": lambda x, y: x.clone().gt_(y),
    "a write of other elements by a view": lambda x, y: x.clone()[:2].add_(y.t()),
    "fill_ with a row": lambda x, y: x.clone().fill_(y[0]),
    "index_select by a matrix": lambda x, y: x.index_select(0, ROW),
    "bucketize by a matrix": lambda x, y: torch.bucketize(x, y),
    "unique of no such dim": lambda x, y: x.unique(dim=4),
    "select_scatter": lambda x, y: x.select_scatter(y, 0, 0),
    "slice_scatter": lambda x, y: x.slice_scatter(y[0, :2]),
    "data that is no tensor": lambda x, y: setattr(x.clone(), "data", 5),
}


@pytest.mark.parametrize("name", sorted(UNREAD))
@pytest.mark.parametrize("staged", [False, True])
def test_what_does_not_fit_is_refused_also_where_nobody_reads_the_result(name, staged):
    def f(x, y):
        if not staged or x.sum() > 0:
            UNREAD[name](x, y)
        return x * 2

    errors = []
    for g in (f, tg.function(f)):
        with pytest.raises((RuntimeError, IndexError, TypeError)) as caught:
            g(FLOATS, torch.ones(2, 3))
        errors.append(caught.value)
    assert isinstance(errors[1], type(errors[0]))
    assert str(errors[1]).startswith(str(errors[0]).splitlines()[0])
