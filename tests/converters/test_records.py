"""``dataclasses.asdict`` and ``astuple`` of lists whose length depends on data; native against converted."""

import collections
import dataclasses

import torch

from tests.converters.both import Cases

cases = Cases()
ROWS = [(torch.tensor([1.0, -2.0, 3.0]),), (torch.tensor([-1.0, 0.0, -3.0]),)]
Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Inner:
    n: int


@dataclasses.dataclass
class Record:
    x: torch.Tensor
    items: list = dataclasses.field(default_factory=list)
    table: dict = dataclasses.field(default_factory=dict)
    pair: tuple = ()


def filled(x):
    made = Record(x, table={"inner": Inner(3)}, pair=Pair(Inner(1), (2,)))
    for v in x:
        if v > 0:
            made.items.append(v)
    return made


@cases.tensors(*ROWS)
def as_dict(x):
    return dataclasses.asdict(filled(x))


@cases.tensors(*ROWS)
def as_tuple(x):
    return dataclasses.astuple(filled(x)), dataclasses.astuple(filled(x), tuple_factory=list)


@cases.tensors(*ROWS)
def is_a_copy(x):
    made = filled(x)
    found = dataclasses.asdict(made)
    made.items.append(x[0])
    found["table"]["inner"]["n"] = 5
    return made.items, found["items"], made.table["inner"].n


test_same = cases.test()
