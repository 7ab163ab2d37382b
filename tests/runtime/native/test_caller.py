"""``Function.__call__`` in machine code: plain calls go to the entry, all others reach Python as they were made."""

import sys

import pytest
import torch

import tograph as tg
from tograph.runtime.native import caller


SLOTS = [("entry", "checks", "shape"), ("entry1", "checks1", "shape1")]


class Answer:
    """Calls that reach Python are noted; ``entry`` is what machine code calls first."""

    __slots__ = ("__dict__", "checks", "checks1", "entry", "entry1", "shape", "shape1")
    MISS = object()

    def __init__(self, entry=None, checks=None, shape=None):
        self.entry, self.checks, self.shape, self.seen = entry, checks, shape, []
        self.entry1 = self.checks1 = self.shape1 = None

    def __call__(self, *args, **kwargs):
        self.seen.append((args, kwargs))
        if "fails" in kwargs:
            raise ValueError(kwargs["fails"])
        return "python", args, kwargs


@pytest.fixture(scope="module", autouse=True)
def installed():
    if not caller.install(Answer, SLOTS, Answer.MISS):
        pytest.skip("no machine code for calls here")


def test_the_entry_gets_positional_calls():
    x = Answer(lambda *args: ("entry", args))
    assert x() == ("entry", ())
    assert x(1, "two") == ("entry", (1, "two"))
    assert x(*range(100)) == ("entry", tuple(range(100)))
    assert x.seen == []


def test_other_calls_reach_python_unchanged():
    x = Answer(lambda *args: "entry")
    assert x(1, a=2, b=3) == ("python", (1,), {"a": 2, "b": 3})
    assert x(**{"a": 1}) == ("python", (), {"a": 1})
    assert Answer()(1, 2) == ("python", (1, 2), {})
    del x.entry
    assert x(*range(50), z=None) == ("python", tuple(range(50)), {"z": None})


def test_a_miss_reaches_python():
    x = Answer(lambda *args: Answer.MISS)
    before = sys.getrefcount(Answer.MISS)
    for _ in range(100):
        assert x(1, 2) == ("python", (1, 2), {})
    assert sys.getrefcount(Answer.MISS) - before < 10  # the interpreter may keep one


def test_entries_are_asked_in_turn():
    x = Answer(lambda a: "first" if a == 1 else Answer.MISS)
    x.entry1, x.checks1 = lambda a: "second" if a < 3 else Answer.MISS, lambda a: a != 0
    assert [x(1), x(2), x(0)[0], x(3)[0]] == ["first", "second", "python", "python"]
    assert x(a=1)[0] == "python"
    assert len(x.seen) == 3


def test_calls_whose_sizes_alternate_stay_in_machine_code(monkeypatch):
    f, xs = tg.function(lambda x: torch.tanh(x) * 2), [torch.rand(n) for n in (3, 4, 5)]
    for x in xs * 4:
        f(x)
    monkeypatch.setattr(type(f), "_run_known", None)
    monkeypatch.setattr(type(f), "_find", None)
    for x in xs * 2:
        torch.testing.assert_close(f(x), torch.tanh(x) * 2)


def test_calls_with_any_number_of_rows_stay_in_machine_code(monkeypatch):
    f = tg.function(lambda x: torch.tanh(x).sum(0), reduce_retracing=True)
    for n in (3, 4, 5, 6) * 4:
        f(torch.rand(n, 2))
    monkeypatch.setattr(type(f), "_run_known", None)
    monkeypatch.setattr(type(f), "_find", None)
    for n in (0, 1, 7, 3, 4):
        x = torch.rand(n, 2)
        torch.testing.assert_close(f(x), torch.tanh(x).sum(0))
    assert f.trace_count == 2


def test_the_entry_is_used_while_its_check_holds():
    given, holds = [], [True]

    def check(*args):
        given.append(args)
        return holds[0]

    x = Answer(lambda *args: ("entry", args), check)
    assert x(1, 2) == ("entry", (1, 2))
    holds[0] = False
    assert x(3) == ("python", (3,), {})
    holds[0] = 1  # only True is
    assert x() == ("python", (), {})
    assert given == [(1, 2), (3,), ()]


def test_an_entry_of_one_shape_of_call_gets_all_values_by_position():
    x = Answer(lambda *args: ("entry", args), shape=(None, None, "a", "b"))
    assert x(1, 2, a=3, b=4) == ("entry", (1, 2, 3, 4))
    for args, kwargs in [
        ((1, 2), {"b": 4, "a": 3}),
        ((1, 2, 3, 4), {}),
        ((1,), {"a": 2, "b": 3}),
        ((1, 2, 3), {"b": 4}),
        ((1, 2), {"a": 3, "c": 4}),
        ((1, 2), {"a": 3}),
        ((), {}),
    ]:
        assert x(*args, **kwargs) == ("python", args, kwargs)
    x.shape = ("a",)
    assert x(a=1) == ("entry", (1,))
    assert x(1) == ("python", (1,), {})
    x.shape = ()
    assert x() == ("entry", ())
    x.shape = None
    assert x(1, 2, 3) == ("entry", (1, 2, 3))


def test_a_check_may_fail_and_replace_the_entry():
    x = Answer(lambda: "old")

    def replace():
        x.entry, x.checks = (lambda: "new"), None
        return True

    x.checks = replace
    count = sys.getrefcount(x.checks)
    assert x() == "old"
    assert x() == "new"
    assert sys.getrefcount(replace) == count - 1

    def fails():
        raise KeyError("check")

    x.checks = fails
    before = sys.getrefcount(x.entry)
    for _ in range(10):
        with pytest.raises(KeyError, match="check"):
            x()
    assert sys.getrefcount(x.entry) - before < 5  # the interpreter may keep one


def test_errors_pass_through():
    def fails(*args):
        raise KeyError("from the entry")

    with pytest.raises(KeyError, match="from the entry"):
        Answer(fails)(1)
    with pytest.raises(ValueError, match="from Python"):
        Answer()(1, fails="from Python")


def test_an_entry_may_remove_itself():
    def entry(*args):
        x.entry = None
        return len(args)

    x = Answer(entry)
    del entry
    assert x(1, 2) == 2
    assert x(1, 2) == ("python", (1, 2), {})


def test_references_are_kept_in_balance():
    x, argument = Answer(lambda *args: args[0]), object()
    before = sys.getrefcount(argument), sys.getrefcount(x)
    for _ in range(100):
        assert x(argument) is argument
    x.entry = None
    for _ in range(100):
        assert x(argument, k=argument)[1][0] is argument
    x.seen.clear()
    x.entry, x.shape = (lambda *args: args[1]), (None, "k")
    for _ in range(100):
        assert x(1, k=argument) is argument
    x.seen.clear()
    assert (sys.getrefcount(argument), sys.getrefcount(x)) == before


@pytest.mark.filterwarnings("ignore:.*Profiler clears events:UserWarning")  # torch 2.11
def test_a_profiler_and_eager_mode_take_python():
    x = Answer(lambda *args: "entry")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        assert x(1)[0] == "python"
    caller.EAGER.value = 1
    try:
        assert x(1)[0] == "python"
    finally:
        caller.EAGER.value = 0
    assert x(1) == "entry"


def test_without_llvm_nothing_changes(monkeypatch):
    class Plain:
        def __call__(self):
            return 1

    monkeypatch.setattr(caller.jit, "host", lambda: None)
    assert not caller.install(Plain, "entry", None)
    assert Plain()() == 1


def test_functions_use_it():
    f = tg.function(lambda x, y=2.0: x * y)
    x = torch.arange(3.0)
    for _ in range(4):
        assert torch.equal(f(x), x * 2)
    assert f._entry is not None
    assert torch.equal(f(x, 3.0), x * 3)
    assert torch.equal(f(x, y=4.0), x * 4)
    assert torch.equal(f(x.double()), x.double() * 2)
    with pytest.raises(TypeError, match="argument"):
        f()
    with pytest.raises(TypeError, match="argument"):
        f(x, z=1)
