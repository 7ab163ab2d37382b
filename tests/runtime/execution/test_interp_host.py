"""The host program means what the reference interpreter means: same values, same prints, same errors."""

import pytest
import torch

import tograph as tg
from tests.program_generator import generate
from tests.program_runner import compare, run_converted
from tests.runtime.programs import SAMPLE_NAMES, sample, sample_concrete
from tests.test_samples import assert_same
from tograph.runtime.execution import host, scheduler
from tograph.runtime.graph import interp
from tograph.runtime.graph.text import parse_graph

CHUNK = 20


def interpreted(graph):
    return host.Program("", lambda *inputs: interp.run(graph, inputs), {})


@pytest.fixture
def oracle(monkeypatch):
    """A runner of generated programs through the interpreter; `seen` holds the graphs that ran."""
    seen = []

    def run(program):
        def record(graph):
            seen.append(graph)
            return interpreted(graph)

        monkeypatch.setattr(host, "build", record)
        monkeypatch.setattr(scheduler.Program, "compile", lambda self: None)  # no native code
        try:
            return run_converted(program)
        finally:
            monkeypatch.undo()

    run.seen = seen
    return run


@pytest.mark.parametrize("name", SAMPLE_NAMES)
def test_sample(name):
    concrete, module = sample_concrete(name), sample(name)
    tensors = concrete._with_late(concrete._bind(concrete, module.example_inputs(), {})[0])
    expected = interp.run(concrete.graph, tensors)
    assert_same(host.build(concrete.graph).run(*tensors), expected)


@pytest.mark.parametrize("first", range(5000, 5100, CHUNK))
def test_generated(first, oracle):
    found = []
    for seed in range(first, first + CHUNK):
        program = generate(seed)
        if difference := compare(oracle(program), run_converted(program)):
            found.append(f"seed {seed}: {difference}\n{program.source}")
    assert not found, f"{len(found)} differ\n{found[0]}"
    assert len(oracle.seen) > CHUNK // 2
    words = "".join(map(str, oracle.seen))
    assert "If(" in words
    assert "While(" in words


# ---- one construct each: the text of a graph, its inputs, what it gives

X = torch.tensor([1.0, 2.0])
PROGRAMS = {
    "if": (
        """main(%p: bool[], %x: f32[2]) {
  %0: f32[2], %1: int = If(%p, %x, 3) {
    then(%a: f32[2], %n: int) {
      %2: f32[2] = aten.mul.Tensor(%a, %n)
      return %2, %n
    }
    orelse(%a: f32[2], %n: int) {
      %3: int = py.add(%n, 1)
      return %a, %3
    }
  }
  return %0, %1
}""",
        [((True, X), [X * 3, 3]), ((torch.tensor(False), X), [X, 4])],
    ),
    "swap in a loop": (
        """main(%n: int, %x: f32[2], %y: f32[2]) {
  %0: int, %1: f32[2], %2: f32[2] = While(%n, %x, %y, 1, carried=3) {
    cond(%i: int, %a: f32[2], %b: f32[2], %one: int) {
      %3: bool = py.gt(%i, 0)
      return %3
    }
    body(%i: int, %a: f32[2], %b: f32[2], %one: int) {
      %4: int = py.sub(%i, %one)
      return %4, %b, %a
    }
  }
  return %1, %2, %0
}""",
        [((0, X, -X), [X, -X, 0]), ((3, X, -X), [-X, X, 0]), ((4, X, -X), [X, -X, 0])],
    ),
    "swap in a branch": (
        """main(%p: bool, %x: f32[2], %y: f32[2]) {
  %0: f32[2], %1: f32[2] = If(%p, %x, %y) {
    then(%a: f32[2], %b: f32[2]) {
      return %b, %a
    }
    orelse(%a: f32[2], %b: f32[2]) {
      return %a, %b
    }
  }
  return %0, %1, %x
}""",
        [((True, X, -X), [-X, X, X]), ((False, X, -X), [X, -X, X])],
    ),
    "case": (
        """main(%i: int) {
  %0: int = Case(%i, %i) {
    branch0(%a: int) {
      %1: int = py.constant(10)
      return %1
    }
    branch1(%a: int) {
      %2: int = py.mul(%a, 20)
      return %2
    }
    branch2(%a: int) {
      return %a
    }
  }
  return %0
}""",
        [((0,), [10]), ((1,), [20]), ((2,), [2]), ((7,), [7]), ((-1,), [-1])],
    ),
    "try": (
        """main(%i: int) {
  %0: int = Try(%i, kinds=[<py ZeroDivisionError>]) {
    body(%a: int) {
      %1: int = py.floordiv(10, %a)
      return %1
    }
    handler0(%a: int) {
      %2: int = py.constant(-1)
      return %2
    }
  }
  return %0
}""",
        [((2,), [5]), ((0,), [-1])],
    ),
    "call": (
        """main(%x: f32[2]) {
  %0: f32[2] = Call(%x) {
    function(%a: f32[2]) {
      %1: f32[2] = aten.neg.default(%a)
      return %1
    }
  }
  %2: f32[2] = Call(%0) {
    function(%a: f32[2]) {
      return %a
    }
  }
  return %2, %0
}""",
        [((X,), [-X, -X])],
    ),
    "lists": (
        """main(%x: f32[2]) {
  %0: list<f32[2]> = tg.list_new()
  %1: list<f32[2]> = tg.list_push(%0, %x)
  %2: list<f32[2]> = tg.list_push(%1, %x)
  %3: list<f32[2]>, %4: f32[2] = tg.list_pop(%2, -1)
  %5: int = tg.list_size(%3)
  %6: list<f32[2]> = tg.list_of(%4)
  %7: f32[1] = aten.cat.default([%x, %4])
  return %5, %4, %6, %7
}""",
        [((X,), [1, X, (X,), torch.cat([X, X])])],
    ),
    "several outputs": (
        """main(%x: f32[2]) {
  %0: f32[], %1: i64[] = aten.max.dim(%x, 0)
  %2: f32[], %3: f32[] = aten.unbind.int(%x)
  %4: f32[2] = aten.split.Tensor(%x, 2)
  return %0, %1, %2, %3, %4
}""",
        [((X,), [X[1], torch.tensor(1), X[0], X[1], X])],
    ),
    "numbers": (
        """main(%i: int, %f: float, %x: i64[]) {
  %0: float = py.truediv(%i, 2)
  %1: int = py.floordiv(%i, -2)
  %2: float = py.pow(%f, -inf)
  %3: bool = py.not(%i)
  %4: int = py.add(%x, 1)
  %5: int = py.neg(%i)
  %6: float = py.pow(%5, 0.5)
  %7: int = py.pow(-2, 2)
  return %0, %1, %2, %3, %4, %7
}""",
        [((7, 2.0, torch.tensor(4)), [3.5, -4, 0.0, False, 5, 4])],
    ),
    "dead values in a loop": (
        """main(%n: int, %x: f32[2]) {
  %0: int = While(%n, %x, carried=1) {
    cond(%i: int, %a: f32[2]) {
      %1: bool = py.gt(%i, 0)
      return %1
    }
    body(%i: int, %a: f32[2]) {
      %2: f32[2] = aten.neg.default(%a)
      %3: f32[2] = aten.neg.default(%2)
      %4: int = py.sub(%i, 1)
      return %4
    }
  }
  return %x
}""",
        [((2, X), [X])],
    ),
}


def graph_of(name):
    graph = parse_graph(PROGRAMS[name][0])
    for node in graph.nodes:
        for kind in node.kwargs.get("kinds", ()):
            kind.value = (ZeroDivisionError,)
    return graph


@pytest.mark.parametrize("name", PROGRAMS)
def test_construct(name):
    graph = graph_of(name)
    for run in (interpreted(graph).run, host.build(graph).run):
        for inputs, expected in PROGRAMS[name][1]:
            found = run(*inputs)
            assert [type(v) for v in found] == [type(v) for v in expected]
            for value, wanted in zip(found, expected, strict=True):
                torch.testing.assert_close(value, wanted, rtol=0, atol=0)


def test_host_program_frees_values_after_their_last_use():
    source = host.build(graph_of("dead values in a loop")).source
    assert source.count("del ") == 2


def test_node_of_a_line():
    graph = graph_of("case")
    program = host.build(graph)
    lines = program.source.splitlines()
    found = {
        node.op: lines[at - 1] for at in range(1, len(lines) + 1) if (node := program.nodes.get(at))
    }
    assert "* 20" in found["py.mul"]


def test_grad_mode_is_restored_after_an_error():
    def f(x):
        with torch.no_grad():
            y = x[int(x.sum())] * 2
        return x * y

    concrete = tg.function(f).get_concrete_function(torch.zeros(3, requires_grad=True))
    for run in (concrete.program.run, interpreted(concrete.graph).run):
        with pytest.raises(IndexError):
            run(torch.full((3,), 9.0))
        assert torch.is_grad_enabled()
        (out,) = run(torch.zeros(3, requires_grad=True))
        assert out.requires_grad


@pytest.mark.parametrize(
    "label", ["torch", "set_grad", "add", "v0", "main", "class", "index", "float", "v1", "divmod"]
)
def test_any_argument_name(label):
    graph = parse_graph("""main(%x: f32[2], %i: int) {
  %0: f32[2] = aten.add.Tensor(%x, %x)
  %1: f32[2] = aten.add.Tensor(%0, %x, alpha=inf)
  %2: float = py.float(%i)
  %3: int = Case(%i, %i) {
    branch0(%a: int) {
      return %a
    }
    branch1(%a: int) {
      return %a
    }
  }
  return %0, %2, %3
}""")
    graph.input_names = [label, "i"]
    assert [
        float(v.sum()) if isinstance(v, torch.Tensor) else v for v in host.build(graph).run(X, 1)
    ] == [6.0, 1.0, 1]
