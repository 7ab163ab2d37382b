"""Values that are of several kinds by a staged condition, given to built-ins and to code of libraries; native against converted."""

import collections
import copy
import dataclasses
import decimal
import functools
import itertools
import math
import random
import statistics
import types

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import StagingError

cases = Cases()
ROWS = [(torch.tensor([0.5, -1.0, 2.0]),), (torch.tensor([-0.5, 1.0, 2.0]),)]


@dataclasses.dataclass
class Point:
    x: float
    tags: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Named(Point):
    name: str = "n"


class Bag:
    def __init__(self, x):
        self.x = x


class OtherBag(Bag):
    pass


def point(x):
    made = Point(0.5)
    if x[0] > 0:
        made = Point(made.x, [*made.tags, 1])
    return made


def named(x):
    made = Point(1.5)
    if x[0] > 0:
        made = Named(2.5)
    return made


def bag(x):
    made = Bag(0.5)
    if x[0] > 0:
        made = OtherBag(x * 2)
    return made


def table(x):
    made = {"a": 1}
    if x[0] > 0:
        made = {"b": 2.5, "c": 3}
    return made


def optional(x):
    made = None
    if x[0] > 0:
        made = 2
    return made


def double(v):
    return v * 2


def triple(v):
    return v * 3


@cases.tensors(*ROWS)
def dataclasses_of_two_contents(x):
    found, other = point(x), named(x)
    fields = [f.name for f in dataclasses.fields(other)]
    replaced = dataclasses.replace(found, x=3.0), dataclasses.replace(other, tags=[2])
    return replaced, dataclasses.asdict(other), dataclasses.astuple(found), fields


@cases.tensors(*ROWS)
def replaced_in_a_loop(x):
    found = Point(0.0)
    for i in range(int(x[2])):
        found = dataclasses.replace(found, x=x[i].item())
        if x[i] > 0:
            found = Point(found.x, [*found.tags, i])
    return found


@cases.tensors(*ROWS)
def fields_of_an_object(x):
    found = bag(x)
    vars(found)["x"] = 3.0
    vars(found).update(y=1, x=4.0)
    return vars(found)["x"], sorted(vars(found)), "x" in dir(found), found.y


@cases.tensors(*ROWS)
def classes(x):
    found, cls = named(x), Bag
    if x[0] > 0:
        cls = OtherBag
    return issubclass(type(found), Named), issubclass(cls, OtherBag), cls(1).x


@cases.tensors(*ROWS)
def partial(x):
    f = double
    if x[0] > 0:
        f = triple
    return functools.partial(f, 2)(), functools.partial(f)(x), functools.partial(max, optional(x) or 0)(1)  # fmt: skip


@cases.tensors(*ROWS)
def dicts(x):
    found = table(x)
    return dict(found), collections.OrderedDict(found), collections.Counter(found.keys()), types.SimpleNamespace(**found)  # fmt: skip


@cases.tensors(*ROWS)
def slices(x):
    n = optional(x)
    return list(itertools.islice([1, 2, 3], n)), list(itertools.islice([1, 2, 3], n, None))


@cases.tensors(*ROWS)
def tensors(x):
    items = (1, 2)
    if x[0] > 0:
        items = (3, 4, 5)
    return x.new_tensor(items)


@cases.tensors(*ROWS)
def numbers_of_libraries(x):
    n = 2
    if x[0] > 0:
        n = 2.5
    return float(decimal.Decimal(n)), statistics.mean([n, 1]), math.prod([n, 2])


@cases.tensors(*ROWS)
def copies(x):
    found = named(x)
    return copy.copy(found), copy.deepcopy(found), copy.copy(table(x))


test_same = cases.test()


def test_a_choice():
    def pick(x):
        items = range(3)
        if x[0] > 0:
            items = "abcde"
        return random.choice(items), random.random()

    converted = tg.function(pick)
    for (x,) in ROWS:
        random.seed(4)
        wanted = pick(x)
        random.seed(4)
        assert converted(x) == wanted


def test_a_choice_by_a_generator_made_inside():
    def pick(x):
        rng, items = random.Random(2), range(3)
        if x[0] > 0:
            items = range(1, 7, 2)
        return rng.choice(items), rng.random()

    converted = tg.function(pick)
    for (x,) in ROWS:
        assert converted(x) == pick(x)


def test_a_library_object_of_staged_values_is_refused():
    def fraction(x):
        return decimal.Decimal(x[0].item())

    with pytest.raises(StagingError, match=r"Decimal\(\) takes a value that Python knows"):
        tg.function(fraction)(ROWS[0][0])
