"""What a call gives is one object where it is one in plain Python, at every call: the first, native ones, those by forms."""

import pytest
import torch

import tograph as tg

CALLS = 7


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def shape_of(x, known):
    """What an object looks like, with the number of its first appearance where it appears again."""
    for number, old in enumerate(known):
        if old is x:
            return f"#{number}"
    known.append(x)
    if isinstance(x, torch.Tensor):
        return x.tolist()
    if isinstance(x, (list, tuple)):
        return type(x), [shape_of(i, known) for i in x]
    if isinstance(x, dict):
        return {k: shape_of(v, known) for k, v in x.items()}
    return {k: shape_of(v, known) for k, v in vars(x).items()} if isinstance(x, Box) else repr(x)


def check(function, *makers):
    f = tg.function(function)
    for _ in range(CALLS):
        args, own = [m() for m in makers], [m() for m in makers]
        expected, found = function(*args), f(*own)
        # arguments first: that a result is one of them shows as a number
        assert shape_of([own, found], []) == shape_of([args, expected], [])


def one():
    return torch.ones(2)


def twice(x):
    xs = [x + 1]
    return xs, {"a": xs, "b": [xs, (x, xs)]}


def nested(x):
    inner = {"k": x * 2}
    return {"inner": inner}, inner


def an_object(x):
    box = Box(a=x * 2)
    return box, [box]


def a_set(x):
    found = {1, 2}
    return found, found, x * 1


def a_tuple(x):
    pair = (x * 2, 1)
    return pair, [pair]


def a_leaf(x):
    w = torch.zeros(2, requires_grad=True)
    return w, w, x * 1


def in_a_branch(x):
    xs = [x]
    if x.sum() > 0:
        xs.append(x + 1)
    return xs, xs


def in_a_loop(x):
    xs = []
    while x.sum() < 10:
        x = x + 1
        xs.append(x)
    return xs, xs


@pytest.mark.parametrize(
    "function", [twice, nested, an_object, a_set, a_tuple, a_leaf, in_a_branch, in_a_loop]
)
def test_one_object_in_several_places(function):
    check(function, one)


def changed(xs, x):
    xs.append(x)
    return xs


def untouched(xs, x):
    return [xs, x + 1, xs]


def part(xs, x):
    return xs[0], x + 1


def appended(xs, x):
    ys = [x * 2]
    xs.append(ys)
    return xs, ys


@pytest.mark.parametrize("function", [changed, untouched, part, appended])
def test_a_list_that_is_passed_comes_back_itself(function):
    check(function, lambda: [[torch.zeros(2)]], one)


def test_a_dict_and_its_parts_come_back_themselves():
    def f(d):
        d["l"].append(1)
        d["n"] = 2
        return d["l"], d

    check(f, lambda: {"l": [2]})


def test_containers_by_keyword_and_in_stars_come_back_themselves():
    f = tg.function(lambda *args, **kwargs: (args[0], kwargs["z"]))
    for _ in range(CALLS):
        a, z = [1], {"z": torch.ones(1)}
        found = f(a, z=z)
        assert found[0] is a and found[1] is z
        assert f(a, z=a)[1] is a


def test_a_default_comes_back_itself():
    def f(x, seen=[]):  # noqa: B006
        return seen, x

    g = tg.function(f)
    for _ in range(CALLS):
        assert g(torch.ones(1))[0] is f.__defaults__[0]


def test_gradients_flow_beside_a_list_that_comes_back():
    f = tg.function(lambda x, xs: (xs, (x * 2).sum()))
    for _ in range(4):
        x, xs = torch.ones(2, requires_grad=True), [torch.ones(1)]
        found, loss = f(x, xs)
        loss.backward()
        assert found is xs and torch.equal(x.grad, torch.full((2,), 2.0))


LOG = []


def test_a_list_outside_comes_back_itself_also_when_it_is_replaced():
    def f(x):
        LOG.append(1)
        return LOG

    g = tg.function(f)
    for i in range(3):
        assert g(torch.ones(1)) is LOG and len(LOG) == i + 1

    box = Box(items=[1])
    h = tg.function(lambda x: (box.items, x + 1))
    for _ in range(3):
        for _ in range(CALLS):
            assert h(torch.ones(1))[0] is box.items
        box.items = [1]


def test_what_two_attributes_get_is_one_object():
    box = Box()

    @tg.function
    def f(x):
        box.a = box.b = [x * 2]
        return box.a

    for _ in range(CALLS):
        assert f(torch.ones(1)) is box.a is box.b


def test_an_attribute_gets_the_list_of_another_one():
    box = Box(a=[1], b=[2])

    @tg.function
    def swap(x):
        box.a, box.b = box.b, box.a
        return box.a

    first, second = box.a, box.b
    for i in range(CALLS):
        assert swap(torch.ones(1)) is box.a is (first if i % 2 else second)
        assert box.b is (second if i % 2 else first)


def test_a_saved_function_gives_one_object(tmp_path):
    f = tg.function(twice)
    f(torch.ones(2))
    tg.save(f, tmp_path / "f.tg")
    found = tg.load(tmp_path / "f.tg")(torch.ones(2))
    assert found[0] is found[1]["a"] is found[1]["b"][0]


def test_a_concrete_function_gives_a_list_of_its_own():
    f = tg.function(changed)
    xs = [torch.zeros(2)]
    found = f.get_concrete_function(xs, torch.ones(2))(xs, torch.ones(2))
    assert len(found) == 2 and len(xs) == 1


class Holder:
    pass


def appended(o, x):
    o.log = [x]
    o.log.append(x * 2)
    return 1


def two_names(o, x):
    o.log = o.other = [x]
    o.log.append(x * 2)
    return o.other


def keyed(o, x):
    o.log = {"a": x}
    o.log["b"] = x + 1
    o.other = o.log
    return o.log


@pytest.mark.parametrize("f", [appended, two_names, keyed])
def test_a_container_that_a_call_makes_keeps_and_changes_is_new_in_each(f):
    g, made, expected = tg.function(f), Holder(), Holder()
    kept = []
    for i in range(4):
        x = torch.full((2,), float(i))
        result, plain = g(made, x), f(expected, x)
        assert type(made.log) is type(expected.log)
        torch.testing.assert_close([result, made.log], [plain, expected.log])
        assert (getattr(made, "other", None) is made.log) is (f is not appended)
        assert (result is made.log) is (plain is expected.log)
        kept.append(made.log)
    assert len(set(map(id, kept))) == 4


SHELF = [[torch.ones(1)], [torch.zeros(1)]]


def picked_list(xs, ys, x):
    xs.append(x)
    found = xs if x.sum() > 2 else ys
    return found, {"found": found}


def picked_or_new(xs, x):
    made = [x * 2]
    return xs if x.sum() > 2 else made


def picked_outside(x):
    return SHELF[0] if x.sum() > 2 else SHELF[1]


@pytest.mark.parametrize("body", [picked_list, picked_or_new, picked_outside])
def test_a_list_that_a_staged_branch_picks(body):
    f = tg.function(body)
    for i in range(6):
        found = []
        for call in (f, body):
            xs, ys, x = [one()], [one()], torch.full((1,), float(i))
            args = {picked_list: (xs, ys, x), picked_or_new: (xs, x), picked_outside: (x,)}[body]
            found.append(shape_of([xs, ys, SHELF, call(*args)], []))
        assert found[0] == found[1]


def made_and_picked(x):
    made = [1]
    return made, made if x.sum() > 3 else "none"


def under_a_key_and_returned(x):
    table = {"p": 4}
    if x[1] <= 2:
        table["p"] = [x]
    return table.get("p"), table


def of_two_kinds(x):
    box = Box(at=None)
    if x[1] <= 2:
        box.at = Box(rows=[x * 2])
    else:
        box.at = [x]
    return box.at, box, (box.at, 1)


def swapped(x):
    a, b = [1], [2]
    first = a if x.sum() > 3 else b
    second = b if x.sum() > 3 else a
    if x[0] > 1:
        second.append(3)
    return first, second, [a, b], x if x.sum() > 3 else a


@pytest.mark.parametrize(
    "function", [made_and_picked, under_a_key_and_returned, of_two_kinds, swapped]
)
def test_one_object_of_the_call_in_places_that_are_one_thing_or_another(function):
    f = tg.function(function)
    for v in ([1.0, 2.0], [3.0, 2.0], [0.0, 0.0], [2.0, 4.0]):
        x = torch.tensor(v)
        assert shape_of(f(x), []) == shape_of(function(x), [])
