"""Long rows in parts: the two kernels give what one does, by Triton's interpreter and in machine code."""

import pytest
import torch

from tests.runtime.kernels.kernel_samples import op_graph
from tests.runtime.kernels.triton_samples import flat, loops_of, run
from tograph.runtime.graph import interp
from tograph.runtime.graph.types import DTYPES
from tograph.runtime.kernels import split_rows
from tograph.runtime.kernels.kernel import make
from tograph.runtime.kernels.split_rows import split
from tograph.runtime.kernels.tiles import Tile


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(split_rows, "LONG", 64)
    monkeypatch.setattr(split_rows, "PART", 20)


def between(made):
    return {n: torch.zeros(size, dtype=DTYPES[d]) for n, (d, size) in made.between.items()}


def folded(made, arguments, start):
    """The buffers after both kernels; ``start`` runs one."""
    everything = arguments | between(made)
    for kernel in made.kernels:
        names = [*(b.name for b in kernel.buffers), *(s.name for s in kernel.scalars)]
        everything |= start(kernel, {n: everything[n] for n in names})
    return everything


def interpreted(kernel, arguments):
    return run(kernel, arguments, Tile(2, 64, True, 1))[0]


def compiled(kernel, arguments):
    make(kernel).run(arguments)
    return arguments


def check(calls, x, start, *options):
    graph = op_graph(calls, [x])
    loops, outputs = loops_of(graph, [x])
    made = split(loops, *options)
    assert made is not None and made.partial.outer[0 if options else -1].size > 1
    assert (made.rest is not None) == bool(options)
    arguments = {"p0": flat(x)} | {f"o{i}": flat(o) for i, o in enumerate(outputs)}
    after = folded(made, arguments, start)
    for i, want in enumerate(interp.run(graph, [x])):
        torch.testing.assert_close(after[f"o{i}"].reshape(want.shape), want, equal_nan=True)


FOLDS = {
    "sum": [("sum.dim_IntList", ([1], True))],
    "mean and more": [("mean.dim", ([1], True)), ("amax.default", ([1], True))],
    "argmax": [("argmax.default", (1, True))],
    "argmin": [("argmin.default", (1, True))],
    "any": [("any.dim", (1, True))],
    "norm": [("linalg_vector_norm.default", (2, [1], True))],
}


@pytest.mark.parametrize(("start", "length"), [(interpreted, 97), (compiled, 100)])
@pytest.mark.parametrize("name", FOLDS)
def test_parts_give_the_whole(name, length, start):
    if start is interpreted:
        pytest.importorskip("triton")
    x = torch.randn(3, length, generator=torch.Generator().manual_seed(length))
    x[1, 50] = x[1, 90] = 9.0
    x[2] = 0
    check([(f"aten.{op}", (x, *args), {}) for op, args in FOLDS[name]], x, start)


@pytest.mark.parametrize("start", [interpreted, compiled])
@pytest.mark.parametrize("name", FOLDS)
def test_equal_parts_and_the_rest_give_the_whole(name, start):
    if start is interpreted:
        pytest.importorskip("triton")
    x = torch.randn(3, 97, generator=torch.Generator().manual_seed(1))
    x[1, 50] = x[1, 95] = 9.0
    x[0, 96] = -9.0
    x[2] = 0
    calls = [(f"aten.{op}", (x, *args), {}) for op, args in FOLDS[name]]
    check(calls, x, start, 5, True, True)


def test_equal_parts_that_leave_nothing_are_all():
    x = torch.randn(2, 100)
    loops, _ = loops_of(op_graph([("aten.sum.dim_IntList", (x, [1]), {})], [x]), [x])
    assert split(loops, 5, True, True).rest is None


def test_a_full_sum_of_integers(monkeypatch):
    x = torch.arange(1000).reshape(10, 100)
    check([("aten.sum.default", (x,), {})], x, compiled)


def test_nan_and_the_first_of_equals_are_found_across_parts():
    x = torch.zeros(2, 97)
    x[0, 30] = x[0, 80] = float("nan")
    check([("aten.argmax.default", (x, 1, True), {}), ("aten.amax.default", (x, [1], True), {})], x, compiled)  # fmt: skip


# The interpreter takes its time for a position: those of rows are run by it above.
@pytest.mark.parametrize(("name", "start"), [("sum", interpreted), ("sum", compiled), ("argmax", compiled)])  # fmt: skip
def test_columns_are_cut_where_few_programs_would_go_down_them(name, start):
    """Of many columns as of few: a program takes 64 of them. Parts lie beside each other in memory, as the columns do."""
    if start is interpreted:
        pytest.importorskip("triton")
    x = torch.randn(1100, 70, generator=torch.Generator().manual_seed(0))
    x[7, 3] = x[1090, 3] = 9.0
    ((op, args),) = FOLDS[name]
    (dim, *rest) = args
    calls = [(f"aten.{op}", (x, [0] if isinstance(dim, list) else 0, *rest), {})]
    graph = op_graph(calls, [x])
    loops, outputs = loops_of(graph, [x])
    made = split(loops)
    assert made.partial.outer[0].size == 18 and made.between["t0"][1] == 18 * 70
    after = folded(made, {"p0": flat(x), "o0": flat(outputs[0])}, start)
    (want,) = interp.run(graph, [x])
    torch.testing.assert_close(after["o0"].reshape(want.shape), want)
    wide = torch.zeros(8192, 8192, device="meta")
    assert split_rows.down(loops_of(op_graph([("aten.sum.dim_IntList", (wide, [0]), {})], [wide]), [wide])[0]) == 16  # fmt: skip


@pytest.mark.parametrize("start", [interpreted, compiled])
@pytest.mark.parametrize(("shape", "parts"), [((12, 3, 20), 12), ((6, 3, 41), 13), ((2, 3, 7), 7)])
def test_of_a_row_of_several_dims_one_is_cut(shape, parts, start, monkeypatch):
    """The outermost one that gives the parts, else the longest."""
    monkeypatch.setattr(split_rows, "LONG", 10)
    monkeypatch.setattr(split_rows, "PART", max(shape[0] * shape[2] // 12, 1))
    if start is interpreted:
        pytest.importorskip("triton")
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    graph = op_graph([("aten.sum.dim_IntList", (x, [0, 2]), {}), ("aten.amax.default", (x, [0, 2]), {})], [x])  # fmt: skip
    loops, outputs = loops_of(graph, [x])
    made, even = split(loops), split(loops, 5, first=True, equal=True)
    assert made.partial.outer[-1].size == parts and len(made.partial.row) == 2
    assert even.partial.outer[0].size == 5 and len(even.partial.row) == 2
    for found in (made, even):
        after = folded(found, {"p0": flat(x)} | {f"o{i}": flat(o) for i, o in enumerate(outputs)}, start)  # fmt: skip
        for i, want in enumerate(interp.run(graph, [x])):
            torch.testing.assert_close(after[f"o{i}"].reshape(want.shape), want)


def test_what_is_not_split():
    short_row, many = torch.zeros(3, 40), torch.zeros(500, 100)
    for x, op, args in (
        (short_row, "sum.dim_IntList", ([1], True)),
        (many, "sum.dim_IntList", ([1], True)),
        (torch.zeros(3, 100), "_softmax.default", (1, False)),
        (torch.zeros(3, 100), "cumsum.default", (1,)),
        (torch.zeros(1100, 1 << 15), "sum.dim_IntList", ([0],)),  # programs enough
    ):
        loops, _ = loops_of(op_graph([(f"aten.{op}", (x, *args), {})], [x]), [x])
        assert split(loops) is None, op
