"""Prints in loops of the device: the same text in the same order as in plain Python, with few looks."""

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import plan_on_cpu
from tests.runtime.gpu.test_visits import graph_and_plan, looks
from tograph.runtime.gpu import capture, message_kernels, program
from tograph.runtime.gpu.coalescing import coalesced
from tograph.runtime.gpu.execute import Chunked, Stepwise
from tograph.runtime.gpu.messages import Room, told
from tograph.runtime.gpu.plan import Conditional, Host, Message, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.storage import Failed
from tograph.runtime.gpu.visits import visited

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("interpreted")


@pytest.fixture
def cuda(cuda, monkeypatch):
    for name in ("probed", "fuses"):
        monkeypatch.setattr(capture, name, lambda place: "")
    return cuda


def every_iteration(x, n):
    i = 0
    while i < n:
        x = x @ x * 0.5 + 0.1
        print("step", i, x, x.t(), sep=" | ")
        print(f"sum {x.sum():.3f}", end=";\n")
        i = i + 1
    return x, i


def in_branches(x, n):
    while n > 0:
        if n % 3 == 0:
            x = x * 0.5
            print("third", n)
        elif n % 2 == 0:
            print("even", n, x.sum() > 1)
        x = x + 1
        print("behind", n)
        n = n - 1
    return x, n


def in_inner_loops(x, n):
    while n > 0:
        print("outer", n)
        k = torch.zeros_like(n)
        while k < n:
            x = x * 0.9
            if k != 2:
                print("inner", n, k, x.sum())
            k = k + 1
        print("done", k)
        n = n - 1
    return x, n


def before_a_change(x, n):
    """What is printed is what the values were, also where they change before the next print."""
    while n > 0:
        print("before", x, n)
        x = x * 2
        print("after", x, n)
        n = n - 1
        text = f"n is {n}"
        n = n - 1
        print(text)
    return x, n


def leaves(x, n):
    while n > 0:
        x = x * 0.5
        print("at", n)
        if x.sum() < 1:
            print("small", x.sum())
            break
        n = n - 1
    return x, n


def in_a_branch_alone(x, n):
    if n > 0:
        print("some", n)
    else:
        print("none")
    return x * 2, n


def with_a_function(x, n):
    """The host has more to do in one branch: what was printed before comes first."""
    while n > 0:
        print("going", n)
        if n % 3 == 1:
            x = tg.py_function(shown, [x], tg.TensorSpec([2, 2], torch.float32))
        print("on", x.sum())
        n = n - 1
    return x, n


def shown(x):
    print("python", x)
    return x + 1


def large_ones(x, n):
    y = x.repeat(20, 20)
    while n > 0:
        print("small", n)
        if n % 2 == 0:
            print("large", y)
        y = y + 1
        n = n - 1
    return y, n


def of_each_kind(x, n):
    y = (x * 8).round() / 4
    a, b, c = x.double() / 3, y.half() * 3, y.to(torch.bfloat16) * 3
    while n > 0:
        print(a, b, c, x > 0.5, (x * 100).to(torch.uint8), (x * -100).to(torch.int16), x[:, :0])
        a, b, c = -a, -b, -c
        n = n - 1
    return a, n


FUNCTIONS = (every_iteration, in_branches, in_inner_loops, before_a_change, leaves, in_a_branch_alone, with_a_function, large_ones, of_each_kind)  # fmt: skip
PROGRAMS = {f.__name__: f for f in FUNCTIONS}
ROOMS = {"wide": Room(), "narrow": Room(64), "own": Room(64, nested=False)}


def given(n):
    return torch.tensor([[0.9, 0.2], [0.1, 0.8]]), torch.tensor(n)


def checked(made, fn, n, capsys):
    """Run it twice, and compare with plain Python."""
    want = fn(*given(n))
    said = capsys.readouterr().out
    for _ in range(2):
        for a, b in zip(made.run(*given(n)), want, strict=True):
            torch.testing.assert_close(torch.as_tensor(a), torch.as_tensor(b))
        assert capsys.readouterr().out == said
    return said


@pytest.mark.parametrize("room, n", [("wide", 0), ("wide", 6), ("own", 5)])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_is_that_of_plain_python(name, n, room, cuda, capsys):
    _, plan = graph_and_plan(PROGRAMS[name], given(n))
    made = capture.captured(plan, room=ROOMS[room])
    checked(made, PROGRAMS[name], n, capsys)
    assert any(isinstance(s, Message) for s, _ in made.plan.walk())


@pytest.mark.parametrize("runner", [Stepwise, Chunked])
@pytest.mark.parametrize("name", PROGRAMS)
def test_without_a_cuda_graph_too(name, runner, capsys):
    _, plan = graph_and_plan(PROGRAMS[name], given(4))
    checked(runner(told(plan, ROOMS["own"], visits=False), "cpu"), PROGRAMS[name], 4, capsys)


@pytest.mark.parametrize("name", [*PROGRAMS])
def test_plans_are_valid(name):
    _, plan = graph_and_plan(PROGRAMS[name], given(1))
    for room in ROOMS.values():
        made = visited(told(coalesced(plan), room))
        handles = [s.handle for s, _ in made.walk() if isinstance(s, Conditional)]
        assert check(made) == [] and len({*handles}) == len(handles)
        assert "message 0 by kernel" in str(made)


def test_the_host_looks_once_where_there_is_room(cuda, capsys):
    _, plan = graph_and_plan(every_iteration, given(30))
    found = looks(made := capture.captured(plan))
    assert len(checked(made, every_iteration, 30, capsys).splitlines()) > 60
    assert found == ["while"] * 2  # two runs


def test_a_loop_comes_back_where_the_ring_is_half_full_and_goes_on(cuda, capsys):
    _, plan = graph_and_plan(every_iteration, given(30))
    found = looks(made := capture.captured(plan, room=ROOMS["narrow"]))
    words = sum(s.words for s in made.plan.ring.sites)
    checked(made, every_iteration, 30, capsys)
    assert len(found) == 2 * -(-30 // (32 // words + 1))


def test_a_loop_comes_back_where_the_host_asks(cuda, capsys):
    _, plan = graph_and_plan(in_branches, given(7))
    found = looks(made := capture.captured(plan))
    made.at(made.plan.ring.asked).fill_(1)
    made.reader.asked = torch.zeros(())  # so that it stays
    checked(made, in_branches, 7, capsys)
    assert len(found) == 2 * 7


def test_an_inner_loop_that_finds_no_room_is_an_error_of_its_own(cuda, capsys):
    _, plan = graph_and_plan(in_inner_loops, given(8))
    made = capture.captured(plan, room=Room(24))
    with pytest.raises(Failed) as caught:
        made.run(*given(8))
    assert caught.value.code == message_kernels.FULL
    assert len(caught.value.log) == len(capsys.readouterr().out.splitlines())


def test_a_program_makes_room_and_prints_once(cuda, monkeypatch, capsys):
    plan_on_cpu(monkeypatch)
    monkeypatch.setattr(program, "Room", lambda: Room(24))
    graph = tg.function(in_inner_loops).get_concrete_function(*given(8)).value_graph
    made = program.Program(retarget(graph, "cuda:0"))
    monkeypatch.setattr(made, "_fits", lambda inputs: True)
    for n in (2, 8, 8):  # the second one has printed when it finds no room
        want = in_inner_loops(*given(n))
        said = capsys.readouterr().out
        for a, b in zip(made.run(given(n)), want, strict=True):
            torch.testing.assert_close(a, b)
        assert capsys.readouterr().out == said
    assert made._room == Room(24 * 8) and made.tier == 1


def test_a_print_that_is_too_large_is_the_hosts(cuda, capsys):
    _, plan = graph_and_plan(large_ones, given(4))
    made = visited(told(coalesced(plan)))
    assert sum(isinstance(s, Message) for s, _ in made.walk()) == 1
    assert [s.op for s, _ in made.walk() if type(s) is Host] == ["tg.print"]


def divided(x, n):
    y = torch.tensor([100, 90])
    while n > -3:
        print("before", n)
        y = y // n
        print("behind", n)
        n = n - 1
    return y


def test_what_comes_behind_a_failure_is_not_printed(cuda, capsys):
    _, plan = graph_and_plan(divided, given(2))
    made = capture.captured(plan)
    for _ in range(4):  # a replay takes another order each time
        with pytest.raises(Failed) as caught:
            made.run(*given(2))
        said = capsys.readouterr().out.splitlines()
        whole = [f"{w} tensor({k})" for k in (2, 1) for w in ("before", "behind")]
        assert said in (whole, [*whole, "before tensor(0)"]) and len(caught.value.log) == len(said)


def badly_formatted(x, n):
    while n > 0:
        print("n", n)
        x = x * 2
        print(f"{x.sum():d}")
        n = n - 1
    return x


def test_a_text_that_cannot_be_made_ends_the_run(cuda, capsys):
    _, plan = graph_and_plan(badly_formatted, given(2))
    with pytest.raises(Failed, match="Unknown format code"):
        capture.captured(plan).run(*given(2))
    assert capsys.readouterr().out == "n tensor(2)\n"


def silent(x, n):
    while n > 0:
        n = n - 1
    print(n)
    return x


def calls(x, n):
    while n > 0:
        x = tg.py_function(shown, [x], tg.TensorSpec([2, 2], torch.float32))
        print(n)
        n = n - 1
    return x


@pytest.mark.parametrize("fn", [silent, calls])
def test_what_stays_as_it_is(fn):
    plan = graph_and_plan(fn, given(2))[1]
    assert told(plan) is plan


def test_rooms_grow_and_then_inner_loops_come_back():
    room, seen = Room(), []
    while room := room.more():
        seen.append((room.words, room.nested))
    assert seen == [(1 << 17, True), (1 << 20, True), (1 << 23, True), (1 << 23, False)]
