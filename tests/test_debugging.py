"""Debugger, coverage and profiler work on the user's own file: converted code has its name and its lines."""

import bdb
import cProfile
import importlib.util
import io
import pdb
import pstats
import traceback
from pathlib import Path

import pytest
import torch

import tograph as tg
from tograph import settings

SOURCE = """\
import torch
import tograph as tg


def grow(value, step):
    bigger = value + step
    return bigger


@tg.function
def count(x, limit):
    steps = 0
    while x < limit:
        x = grow(x, 2.0)
        if x > 100:
            x = x - 1
            steps += 10
        steps += 1
    unused = False
    if unused:
        x = x * 0
    if not unused:
        steps += 0
    else:
        steps -= 5
    return x, steps


def broken(x, y, decide):
    total = x * 2
    if decide > 0:
        total = total @ y
    return total
"""
LINES = SOURCE.splitlines()


def line(text):
    """The number of the line that starts with a text."""
    return next(n for n, found in enumerate(LINES, 1) if found.strip().startswith(text))


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "users_file.py"
    path.write_text(SOURCE)
    spec = importlib.util.spec_from_file_location("users_file", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


ARGS = torch.tensor(0.0), torch.tensor(7.0)


@pytest.fixture(autouse=True)
def no_breakpoints():
    yield
    bdb.Breakpoint.clearBreakpoints()


def debug(module, *commands, call=lambda m: m.count(*ARGS)):
    """What pdb prints for commands, the first of which are given before the call."""
    script = io.StringIO("\n".join([*commands, "continue", ""]) + "\n")
    out = io.StringIO()
    debugger = pdb.Pdb(stdin=script, stdout=out, nosigint=True, readrc=False)
    debugger.use_rawinput = False
    debugger.runcall(call, module)
    return out.getvalue()


def test_breakpoint_in_a_staged_loop(module):
    at = line("steps += 1")
    shown = debug(
        module, f"break {module.__file__}:{at}", "continue", "p steps", "p x.shape", "where"
    )
    assert f"users_file.py({at})count()" in shown
    assert "-> steps += 1" in shown
    assert "torch.Size([])" in shown


def test_breakpoint_in_a_callee_and_stepping(module):
    at = line("bigger =")
    shown = debug(
        module,
        f"break {module.__file__}:{at}",
        "continue",
        "p step",
        "next",
        "p bigger.dtype",
        "args",
    )
    assert f"users_file.py({at})grow()" in shown
    assert "2.0" in shown and "torch.float32" in shown
    assert f"users_file.py({at + 1})grow()" in shown and "-> return bigger" in shown


def test_breakpoint_before_the_loop_shows_locals(module):
    at = line("while x < limit")
    shown = debug(module, f"break {module.__file__}:{at}", "continue", "p steps", "p limit.dtype")
    assert f"users_file.py({at})count()" in shown
    assert "\n(Pdb) 0\n" in shown and "torch.float32" in shown


def test_post_mortem_stops_in_the_users_frame(module):
    with pytest.raises(RuntimeError) as caught:
        tg.function(module.broken)(torch.ones(2, 3), torch.ones(2, 3), 1)
    out = io.StringIO()
    debugger = pdb.Pdb(
        stdin=io.StringIO("p y.shape\nquit\n"), stdout=out, nosigint=True, readrc=False
    )
    debugger.use_rawinput = False
    debugger.reset()
    trace = caught.value.__traceback__
    while trace.tb_next is not None:
        trace = trace.tb_next
    debugger.interaction(trace.tb_frame, caught.value.__traceback__)
    assert f"users_file.py({line('total = total @ y')})broken()" in out.getvalue()
    assert "torch.Size([2, 3])" in out.getvalue()


def test_coverage_of_the_users_file(module):
    coverage = pytest.importorskip("coverage")
    cover = coverage.Coverage(data_file=None, include=[module.__file__], config_file=False)
    cover.start()
    try:
        module.count(*ARGS)
    finally:
        cover.stop()
    covered = set(cover.get_data().lines(module.__file__))
    body = {line(text) for text in ("steps = 0", "while x", "x = grow", "x = x - 1", "steps += 10", "steps += 1", "return x, steps", "bigger =")}  # fmt: skip
    assert body <= covered
    assert line("x = x * 0") not in covered  # a Python condition that is false
    assert line("steps -= 5") not in covered
    assert line("total = x * 2") not in covered
    _, statements, _, missing, _ = cover.analysis2(module.__file__)
    assert line("while x") in statements and line("x = x * 0") in missing


def test_profiler_names_the_users_functions(module):
    profile = cProfile.Profile()
    profile.runcall(module.count, *ARGS)
    own = [(at, name) for file, at, name in pstats.Stats(profile).stats if file == module.__file__]
    assert {name for _, name in own} == {"count", "grow"}
    assert (line("def grow"), "grow") in own


def test_traceback_has_the_users_frames_only(module):
    with pytest.raises(RuntimeError) as caught:
        tg.function(module.broken)(torch.ones(2, 3), torch.ones(2, 3), 1)
    frames = [
        (f.filename, f.lineno, f.name) for f in traceback.extract_tb(caught.value.__traceback__)
    ]
    own = [f for f in frames if f[0] == module.__file__]
    assert own[-1] == (module.__file__, line("total = total @ y"), "broken")
    assert frames[-1] in own
    package = str(Path(tg.__file__).parent)
    assert [f[2] for f in frames if f[0].startswith(package)] == ["__call__"]
    assert own[-1][2] in {"broken"}


def test_every_frame_with_debug(module, monkeypatch):
    monkeypatch.setattr(settings, "DEBUG", 1)
    with pytest.raises(RuntimeError) as caught:
        tg.function(module.broken)(torch.ones(2, 3), torch.ones(2, 3), 1)
    files = {f.filename.split("/")[-1] for f in traceback.extract_tb(caught.value.__traceback__)}
    assert {"users_file.py", "tracing.py", "tracer.py"} <= files


def test_an_error_is_noted_once(module):
    @tg.function
    def again(x):
        if x > 0:
            raise ValueError("no")
        return x

    for _ in range(3):
        with pytest.raises(ValueError) as caught:
            again(torch.tensor(1.0))
        assert len(caught.value.__notes__) == 1


def test_qualified_names_are_the_users(module):
    @tg.function
    def made(x):
        def inner(a):
            return a

        class Box:
            def get(self):
                return inner

        names.append(
            (inner.__qualname__, Box.__qualname__, Box.get.__qualname__, Box().get().__name__)
        )
        return x

    names = []
    made(torch.tensor(1.0))
    before = "test_qualified_names_are_the_users.<locals>.made.<locals>."
    assert names == [(before + "inner", before + "Box", before + "Box.get", "inner")]


def test_a_mistake_in_a_staged_branch_keeps_its_explanation(module):
    f = tg.function(module.broken)
    args = torch.ones(2, 3), torch.ones(2, 3)
    assert torch.equal(f(*args, torch.tensor(-1.0)), args[0] * 2)  # the wrong branch is not taken
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            f(*args, torch.tensor(1.0))
        (note,) = caught.value.__notes__
        assert note.startswith("raised when the graph ran:")
        assert f"line {line('total = total @ y')}, in broken" in note
        assert "total = total @ y\n" in note and "^^^^^^^^^" in note
        assert "where y is float32 tensor of shape [2, 3]" in note
        assert "transpose" in note and "by the node" in note
