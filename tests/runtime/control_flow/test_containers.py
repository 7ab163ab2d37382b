"""``TensorArray``, ``TensorList``, ``Optional`` and ``Variable``: the same errors in a function and outside."""

import copy

import pytest
import torch

import tograph as tg

errors = tg.errors
FLOAT = torch.float32
ONE, TWO, THREE = torch.tensor(1.0), torch.ones(2), torch.ones(3)


def array(size=3, **options):
    return tg.TensorArray(FLOAT, size, **options)


def items(**options):
    return tg.TensorList(FLOAT, **options)


V = tg.Variable(torch.ones(2))
COUNT = tg.Variable(1, requires_grad=False)

WRONG = {
    "array_dtype": (lambda: tg.TensorArray("float32", 3), errors.SignatureError, "dtype of a Tens"),
    "array_size": (lambda: array(1.5), errors.SignatureError, "'size' of TensorArray must be a wh"),
    "array_negative": (lambda: array(-1), ValueError, "is not negative: -1"),
    "array_shape": (lambda: array(element_shape=3), errors.SignatureError, "a shape is a list of"),
    "write_dtype": (lambda: array().write(0, torch.tensor(1)), TypeError, "holds torch.float32, n"),
    "write_shape": (
        lambda: array(element_shape=[2]).write(0, THREE),
        errors.StructureError,
        "this TensorArray holds cells of f32[2], not f32[3]",
    ),
    "write_other_shape": (
        lambda: array().write(0, THREE).write(1, TWO),
        errors.StructureError,
        "this TensorArray holds cells of f32[3], not f32[2]",
    ),
    "write_none": (lambda: array().write(0, None), TypeError, "a tensor or a number, not None"),
    "write_index": (lambda: array().write(0.5, 1.0), TypeError, "must be a whole number or a te"),
    "write_far": (lambda: array().write(3, 1.0), IndexError, "index 3 is out of range"),
    "read_nothing": (lambda: array().read(0), errors.StructureError, "element_shape"),
    "unstack_number": (lambda: array().unstack(ONE), TypeError, "at least one dimension"),
    "unstack_dtype": (lambda: array().unstack(THREE.int()), TypeError, "holds torch.float32, n"),
    "unstack_shape": (
        lambda: array(element_shape=[2]).unstack(torch.ones(3, 3)),
        errors.StructureError,
        "this TensorArray holds cells of f32[2], not f32[3]",
    ),
    "split_dtype": (lambda: array().split(THREE.int(), [1, 2]), TypeError, "holds torch.float32, n"),
    "scatter_rows": (lambda: array().scatter([0, 1], THREE), ValueError, "3 rows into 2 cells"),
    "list_dtype": (lambda: tg.TensorList(float), errors.SignatureError, "the dtype of a TensorLi"),
    "push_dtype": (lambda: items().push(torch.tensor(1)), TypeError, "holds torch.float32, not"),
    "push_shape": (
        lambda: items(element_shape=[2]).push(THREE),
        errors.StructureError,
        "a list of f32[2] cannot take a f32[3]",
    ),
    "push_text": (lambda: items().push("a"), TypeError, "a tensor or a number, not 'a'"),
    "get_index": (lambda: items().push(1.0).get(0.5), TypeError, "'index' of an array or list"),
    "from_none": (lambda: tg.TensorList.from_tensor(None), TypeError, "of at least one dimension"),
    "optional_none": (lambda: tg.Optional.from_value(None), TypeError, "number, not None"),
    "optional_pair": (lambda: tg.Optional.from_value((ONE, ONE)), TypeError, "one tensor, not a tu"),
    "optional_spec": (lambda: tg.Optional.empty(3), errors.SignatureError, "takes the tg.TensorSp"),
    "assign_none": (lambda: V.assign(None), TypeError, "number or a list of numbers, not None"),
    "assign_text": (lambda: V.assign_add("a"), TypeError, "number or a list of numbers, not 'a'"),
    "assign_dtype": (lambda: V.assign(torch.ones(2).double()), TypeError, "dtype torch.float32 can"),
    "assign_shape": (lambda: V.assign(THREE), ValueError, "of shape (2,) cannot take a value of s"),
    "assign_fraction": (lambda: COUNT.assign(1.5), TypeError, "dtype torch.int64 cannot take a v"),
    "add_fraction": (lambda: COUNT.assign_add(0.5), TypeError, "dtype torch.int64 cannot take a v"),
}  # fmt: skip


@pytest.mark.parametrize("where", [lambda f: f, tg.function], ids=["outside", "inside"])
def test_an_index_outside_of_a_list_is_pythons_error(where):
    with pytest.raises(IndexError, match=r"^list index out of range"):
        where(lambda: items().push(1.0).get(1))()


@pytest.mark.parametrize("where", [lambda f: f, tg.function], ids=["outside", "inside"])
@pytest.mark.parametrize("name", WRONG)
def test_wrong(name, where):
    program, error, words = WRONG[name]
    with pytest.raises(error) as caught:
        where(program)()
    assert words in str(caught.value) and isinstance(caught.value, errors.TographError)


RIGHT = {
    "any_shapes": lambda: array(infer_shape=False).write(0, THREE).write(1, TWO).read(1),
    "open_shape": lambda: array(element_shape=[None]).write(0, TWO).read(0),
    "unwritten": lambda: array(element_shape=[2]).stack(),
    "unstack_open": lambda: array(element_shape=[None]).unstack(torch.ones(3, 2)).read(1),
    "scatter": lambda: array().scatter(torch.tensor([2, 0]), TWO).stack(),
    "list": lambda: items(element_shape=[None]).push(TWO).push(TWO).stack(),
    "length": lambda: torch.tensor(len(items().push(1.0).push(2.0))),
    "optional_number": lambda: tg.Optional.from_value(3).get_value(),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name):
    one, two = RIGHT[name](), tg.function(RIGHT[name])()
    assert torch.equal(one, two) and one.dtype == two.dtype


def test_numbers_keep_their_digits():
    v = tg.Variable(0.0, dtype=torch.float64)
    v.assign(0.1)
    assert v.item() == 0.1
    assert tg.function(lambda: v.assign_add(0.2).read_value())().item() == 0.1 + 0.2
    counter = tg.Variable(0, requires_grad=False)
    assert tg.function(lambda n: counter.assign(int(n)).read_value())(torch.tensor(7)) == 7


@pytest.mark.parametrize("value", [None, "a", [[1], [1, 2]]])
def test_what_is_no_value_of_a_variable(value):
    with pytest.raises(errors.StructureError, match="the value of a variable is a tensor"):
        tg.Variable(value)


def test_mistakes_of_a_branch_that_is_not_taken_do_not_matter():
    kept = tg.Variable(torch.ones(2))

    @tg.function
    def value(found):
        if found.has_value():
            return found.get_value()
        return torch.zeros(2)

    @tg.function
    def assigned(x):
        try:
            if x > 0:
                kept.assign([1.0, 2.0, 3.0])
        except ValueError as error:
            return x, str(error)
        return x, ""

    found = [
        tg.Optional.from_value(torch.ones(2)),
        tg.Optional.empty(tg.TensorSpec([2], torch.float32)),
    ]
    assert [value(f).tolist() for f in found * 2] == [[1.0, 1.0], [0.0, 0.0]] * 2
    wrong = "a variable of shape (2,) cannot take a value of shape (3,)"
    assert [assigned(torch.tensor(x))[1] for x in (-1.0, 1.0)] == ["", wrong]


@pytest.mark.parametrize("where", [lambda f: f, tg.function], ids=["outside", "inside"])
@pytest.mark.parametrize(("method", "grown"), [("stack", (2, 2)), ("concat", (4,))])
def test_an_array_to_which_nothing_was_written(where, method, grown):
    def f(n):
        cells = array(0, dynamic_size=True)
        empty = getattr(cells, method)()
        for i in tg.range(n):
            cells = cells.write(i, TWO)
        return empty, getattr(cells, method)()

    for n in (2, 0):
        empty, made = where(f)(torch.tensor(n))
        assert empty.shape == (0,) and empty.dtype == FLOAT
        assert made.shape == (grown if n else made.shape) and made.numel() == 4 * bool(n)


def test_the_name_of_a_variable():
    v = tg.Variable(1.0, name="rate")
    assert v.name == copy.deepcopy(v).name == "rate" and tg.Variable(1.0).name is None
    assert tg.function(lambda x: (x * v, v.name))(ONE)[1] == "rate"


@pytest.mark.parametrize(
    "made", [lambda x: array(len(x)), tg.TensorList.from_tensor, lambda x: array(0).unstack(x)]
)
def test_length_and_truth(made):
    def ask(x):
        cells = made(x)
        return len(cells) + 1, 1 if cells else 2

    for x, expected in ((TWO, (3, 1)), (TWO[:0], (1, 2))):
        assert ask(x) == tg.function(ask)(x) == expected
        assert tg.function(ask, input_signature=[tg.TensorSpec([None], FLOAT)])(x) == expected
