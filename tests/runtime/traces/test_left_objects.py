"""Objects that leave a call: the tensors of the caller's that they hold are those, and an object may hold itself."""

import collections
import dataclasses
import types

import pytest
import torch

import tograph as tg


class Holder:
    def __init__(self, x, n=0):
        self.x, self.n, self.kids = x, n, []


class Slots:
    __slots__ = ("x",)

    def __init__(self, x):
        self.x = x


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor


class Row(list):
    pass


Pair = collections.namedtuple("Pair", "x n")
MAKERS = [
    Holder,
    Slots,
    Frozen,
    lambda x: Pair(x, 1),
    lambda x: collections.deque([x]),
    lambda x: collections.OrderedDict(x=x),
    lambda x: Row([x]),
]


def held(made):
    if isinstance(made, (list, collections.deque)):
        return made[0]
    return made["x"] if isinstance(made, dict) else made.x


@pytest.mark.parametrize("make", MAKERS)
def test_an_argument_that_is_written(make):
    @tg.function
    def f(x):
        made = make(x)
        x.add_(1)
        return made

    x = torch.zeros(2)
    for _ in range(3):
        assert held(f(x)) is x


@pytest.mark.parametrize("make", MAKERS)
def test_one_of_two_tensors(make):
    @tg.function
    def f(x, y):
        return make(x if x.sum() > 0 else y)

    x, y = torch.ones(2), torch.zeros(2)
    assert held(f(x, y)) is x and held(f(-x, y)) is y


@pytest.mark.parametrize("make", MAKERS)
def test_a_leaf_made_inside(make):
    @tg.function
    def f(x):
        return make(torch.zeros(2, requires_grad=True))

    assert held(f(torch.ones(2))).requires_grad


def test_a_parameter_made_inside_is_one():
    @tg.function
    def f(x):
        p = torch.nn.Parameter(x * 2)
        return p, [p], torch.zeros(2, requires_grad=True)

    for _ in range(3):
        p, (again,), leaf = f(torch.ones(2))
        assert type(p) is torch.nn.Parameter and again is p and p.requires_grad and p.is_leaf
        assert type(leaf) is torch.Tensor


GLOBAL = Holder(torch.zeros(2))


def test_a_new_object_in_an_attribute():
    @tg.function
    def f(x):
        x.add_(1)
        GLOBAL.kept = Holder(x)

    x = torch.zeros(2)
    for _ in range(2):
        f(x)
        assert GLOBAL.kept.x is x


@dataclasses.dataclass
class Node:
    x: torch.Tensor
    parent: "Node | None" = None
    kids: list = dataclasses.field(default_factory=list)


def tree(x):
    root = Node(x * 2)
    child = Node(x + 1, root)
    root.kids.append(child)
    if x.sum() > 0:
        child.x = child.x * 3
    return root, child


def a_list(x):
    xs = [x + 1]
    xs.append(xs)
    return xs


def a_dict(x):
    d = {"x": x + 1}
    d["d"] = Holder(x, d)
    return d


def a_list_of_a_class(x):
    row = Row([x + 1])
    row.append((row, 1))
    return row


def test_an_object_that_holds_itself(tmp_path):
    converted, x = tg.function(tree), torch.ones(2)
    for x in (torch.ones(2), -torch.ones(2)):
        root, child = converted(x)
        assert root.kids[0] is child and child.parent is root
        assert torch.equal(root.x, x * 2) and torch.equal(child.x, tree(x)[1].x)
    xs = tg.function(a_list)(x)
    assert xs[1] is xs and torch.equal(xs[0], x + 1)
    d = tg.function(a_dict)(x)
    assert d["d"].n is d and torch.equal(d["x"], x + 1)
    row = tg.function(a_list_of_a_class)(x)
    assert row[1][0] is row
    tg.save(converted, tmp_path / "f")
    root, child = tg.load(tmp_path / "f")(x)
    assert root.kids[0] is child and child.parent is root and torch.equal(root.x, x * 2)


def test_a_deque_that_holds_itself_is_refused():
    @tg.function
    def f(x):
        d = collections.deque([x])
        d.append(d)
        return d

    with pytest.raises(tg.errors.StructureError, match="a deque that holds itself"):
        f(torch.ones(2))


class Manager:
    def __init__(self, x):
        self.x, self.log = x, []

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, *error):
        self.log.append("out")


class Steps:
    def __init__(self, x):
        self.x, self.n = x, 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        return self.x * self.n


class Failure(Exception):
    def __init__(self, x):
        super().__init__("failed", 3)
        self.x = x


@pytest.mark.parametrize("make", [Manager, Steps, Failure, lambda x: types.SimpleNamespace(x=x)])
def test_objects_that_act_and_exceptions_leave_with_their_tensors(make):
    @tg.function
    def f(x):
        made = make(x + 1)
        if isinstance(made, Manager):
            with made:
                made.x = made.x if x.sum() > 5 else made.x * 2
        elif isinstance(made, Steps):
            next(made)
        return made, [made], make(None)

    x = torch.ones(2)
    first, again = f(x), f(x)
    for made, (same,), plain in (first, again):
        assert type(made) is type(f.python_function(x)[0]) and made is same and plain.x is None
        assert made.x.tolist() == ([4, 4] if isinstance(made, Manager) else [2, 2])
        if isinstance(made, Failure):
            assert made.args == ("failed", 3)
        assert isinstance(made, Failure) or vars(made).keys() == vars(make(1)).keys()
    assert first[0] is not again[0] and first[2] is not again[2]


def test_a_module_and_a_counter_that_the_code_makes():
    @tg.function
    def f(x):
        layer = torch.nn.Linear(2, 1, bias=False)
        layer.seen = [x]
        counts = collections.Counter(a=2)
        counts["x"] = x.sum()
        return layer, counts

    torch.manual_seed(0)
    wanted = torch.nn.Linear(2, 1, bias=False)
    torch.manual_seed(0)
    layer, counts = f(torch.ones(2))
    assert torch.equal(layer.weight, wanted.weight) and layer.weight.requires_grad
    assert torch.equal(layer(torch.ones(2)), wanted(torch.ones(2)))
    assert layer.seen[0].tolist() == [1, 1] and type(counts) is collections.Counter
    assert counts["x"] == 2 and counts["a"] == 2
    assert f(torch.ones(2))[0] is not layer


def test_a_namespace_is_state():
    @tg.function
    def f(xs):
        best = types.SimpleNamespace(n=0, x=None)
        for x in xs:
            if best.x is None or x > best.x:
                best.x = x
                best.n += 1
        other = best if best.n > 1 else types.SimpleNamespace(n=-1)
        return best, other.n

    for xs in (torch.tensor([1.0, 3.0, 2.0]), torch.tensor([3.0, 1.0])):
        assert f(xs) == f.python_function(xs)
