"""What a class gives to objects that are no constants of a trace, and that changes between calls: native against `tg.function`."""

import logging

import pytest
import torch

import tograph as tg


def classes():
    class Base:
        rate, items, n = 2.0, (), None
        w = torch.ones(2)
        table = {"a": 1}

        def __init__(self):
            self.k = 1

        def scaled(self):
            return self.k * self.rate

        @property
        def more(self):
            return self.rate + 1

        @classmethod
        def of_all(cls):
            return cls.rate

        def __len__(self):
            return self.k + 2

    class Heir(Base):
        pass

    return Base, Heir


def change(base, heir, i):
    """What happens to the classes before a call."""
    if i == 3:
        base.rate, base.items, base.n, base.w = 5.0, (1, 2), 4, torch.ones(2) * 3
        base.table["a"], base.scaled, base.__len__ = 7, lambda s: s.k * 100, lambda s: 9
    elif i == 5:
        heir.rate, heir.other, heir.n = 9.0, 3.0, 6
        base.w.mul_(2)
    elif i == 6:
        base.more = property(lambda s: 50.0)
    elif i == 7:
        del heir.rate, heir.other


def read(p, x, cls):
    return x * p.rate * len(p.items)


def with_a_default(p, x, cls):
    return x * getattr(p, "other", 1.0) + hasattr(p, "other")


def by_members(p, x, cls):
    return x * p.scaled() + p.more * p.of_all() + len(p)


def a_tensor(p, x, cls):
    return x * p.w


def none_or_number(p, x, cls):
    return x * (0 if p.n is None else p.n) + p.table["a"]


def set_on_one_path(p, x, cls):
    if x.sum() > 1:
        p.rate = x.sum()
    return x * p.rate


def added_to(p, x, cls):
    for _ in range(int(x.sum())):
        p.rate = p.rate + 1
    p.n = (p.n or 0) + 1
    return x * p.rate * p.n


def made_inside(p, x, cls):
    p = cls()
    p.rate = p.rate * 2 if x.sum() > 1 else p.rate
    return x * p.rate * getattr(p, "other", 1.0) + p.more + cls().scaled()


PROGRAMS = [read, with_a_default, by_members, a_tensor, none_or_number, set_on_one_path, added_to, made_inside]  # fmt: skip


@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_as_in_python(program, same, caplog):
    caplog.set_level(logging.ERROR)  # of those that trace often
    found = []
    for run in (program, tg.function(program)):
        base, heir = classes()
        p, log = heir(), []
        for i in range(9):
            change(base, heir, i)
            p = p if same else heir()
            log.append((run(p, torch.tensor([1.0, float(i % 2)]), heir).tolist(), vars(p).copy()))
        found.append(log)
    assert str(found[0]) == str(found[1])


class Asked:
    def __getattr__(self, name):
        if name == "given":
            return 3
        raise AttributeError(name)


def test_what_comes_to_hide_a_getattr_of_objects_of_their_own():
    kind = type("Kind", (Asked,), {})
    f = tg.function(lambda s, x: x * getattr(s, "scale", s.given))
    assert [f(kind(), torch.tensor(1.0)).item() for _ in range(3)] == [3, 3, 3]
    kind.scale = 7
    assert f(kind(), torch.tensor(1.0)) == 7
