"""Long rows in stages: the kernels, one after another, give what one does, by Triton's interpreter and in machine code."""

import pytest
import torch

from tests.runtime.kernels.kernel_samples import op_graph
from tests.runtime.kernels.triton_samples import flat, loops_of, run
from tograph.runtime.graph import interp
from tograph.runtime.graph.types import DTYPES
from tograph.runtime.kernels import stages
from tograph.runtime.kernels.kernel import make
from tograph.runtime.kernels.stages import staged
from tograph.runtime.kernels.tiles import programs, tiles
from tograph.runtime.kernels.tuning import estimate


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(stages, "LONG", 64)
    monkeypatch.setattr(stages, "PART", 20)


def interpreted(kernel, arguments):
    pytest.importorskip("triton")
    return run(kernel, arguments, tiles(kernel)[0])[0]


def compiled(kernel, arguments):
    make(kernel).run(arguments)
    return arguments


def kernel_of(calls, x):
    graph = op_graph([(f"aten.{op}", args, {}) for op, *args in calls], [x])
    loops, outputs = loops_of(graph, [x])
    return graph, loops, outputs


def check(calls, x, start):
    """The stages; each reads only what is given, or what one before it has written."""
    graph, loops, outputs = kernel_of(calls, x)
    made = staged(loops)
    arguments = {"p0": flat(x)} | {f"o{i}": flat(o) for i, o in enumerate(outputs)}
    everything = arguments | {n: torch.full((size,), -7).to(DTYPES[d]) for n, (d, size) in made.between.items()}  # fmt: skip
    known = {"p0"}
    for kernel in made.kernels:
        written = {b.name for b in kernel.buffers if b.written}
        assert {b.name for b in kernel.buffers} - written <= known
        known |= written
        everything |= start(kernel, {b.name: everything[b.name] for b in kernel.buffers})
    assert known == everything.keys()
    for i, want in enumerate(interp.run(graph, [x])):
        torch.testing.assert_close(everything[f"o{i}"].reshape(want.shape), want, equal_nan=True)
    return made.kernels


PROGRAMS = {  # ops on x, the number of kernels for equal parts, and for others
    "a fold beside what it folds": (lambda x: [("mul.Scalar", x, 0.5), ("sum.dim_IntList", x, [1], True)], 2, 3),
    "a softmax": (lambda x: [("_softmax.default", x, 1, False)], 5, 5),
    "a layer norm": (lambda x: [("native_layer_norm.default", x, [x.shape[1]], None, None, 1e-5)], 5, 5),
    "an extreme": (lambda x: [("exp.default", x), ("argmax.default", x, 1, True)], 2, 3),
}  # fmt: skip


@pytest.mark.parametrize(("start", "length"), [(interpreted, 100), (interpreted, 97), (compiled, 97), (compiled, 100)])  # fmt: skip
@pytest.mark.parametrize("name", PROGRAMS)
def test_stages_give_the_whole(name, start, length):
    calls, equal, other = PROGRAMS[name]
    x = torch.randn(3, length, generator=torch.Generator().manual_seed(length))
    found = check(calls(x), x, start)
    assert len(found) == (equal if length == 100 else other)


@pytest.mark.parametrize("start", [interpreted, compiled])
@pytest.mark.parametrize("shape", [(10, 3, 30), (4, 3, 97)])
def test_a_row_of_several_dims_in_stages(shape, start):
    """A fold of a batch and its places beside what it folds."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    found = check([("sum.dim_IntList", x, [0, 2], True), ("mul.Scalar", x, 0.5)], x, start)
    assert len(found) == (2 if shape[0] == 10 else 3) and len(found[0].row) == 2


def test_one_point_is_many_programs():
    x = torch.zeros(1, 1 << 17)
    _, loops, _ = kernel_of([("mul.Scalar", x, 0.5), ("sum.dim_IntList", x, [1], True)], x)
    option = estimate(loops).option
    assert [programs(k, t) > 100 for k, t in option.parts] == [True, False]


@pytest.mark.parametrize(("start", "length"), [(interpreted, 1100), (compiled, 1100), (compiled, 1097)])  # fmt: skip
def test_columns_are_cut_too(start, length):
    """Where few programs would go down them, however many columns there are."""
    x = torch.randint(-3, 4, (length, 70), generator=torch.Generator().manual_seed(0)).float()
    calls = [("mean.dim", x, [0], True), ("mul.Scalar", x, 0.5), ("sum.dim_IntList", x, [0], True)]
    assert len(check(calls, x, start)) == (2 if length == 1100 else 3)
    first = staged(kernel_of(calls, x)[1]).kernels[0]
    assert first.outer[0].name == "part" and first.outer[0].size >= 18


def test_what_has_no_stages():
    few, many, plain = torch.zeros(3, 40), torch.zeros(500, 100), torch.zeros(3, 100)
    both = lambda x: [("mul.Scalar", x, 0.5), ("sum.dim_IntList", x, [1], True)]  # noqa: E731
    for x, calls in (
        (few, both(few)),
        (many, both(many)),
        (plain, [("cumsum.default", plain, 1)]),
        (plain, [("exp.default", plain)]),
    ):
        assert staged(kernel_of(calls, x)[1]) is None, calls
