"""How kernels read and write memory: blocks of two axes where loops differ, vectors where sizes are odd."""

import re

import pytest
import torch

from tests.runtime.kernels.kernel_samples import op_graph
from tests.runtime.kernels.triton_samples import loops_of, run_triton
from tograph.runtime.kernels import triton_jit
from tograph.runtime.kernels.tiles import crossed, product, programs, tiles
from tograph.runtime.kernels.triton_source import render

pytest.importorskip("triton")


def random(*shape, dtype=torch.float32):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
    return made.to(dtype)


def sum_of(x, y):
    return op_graph([("aten.add.Tensor", (x, y), {})], [x, y])


PAIRS = {
    "transpose": lambda: (random(200, 130).t(), random(130, 200)),
    "even": lambda: (random(128, 128).t(), random(128, 128)),
    "permuted": lambda: (random(24, 40, 30).permute(2, 0, 1), random(30, 24, 40)),
    "batched": lambda: (random(6, 70, 60).transpose(1, 2), random(6, 60, 70)),
    "broadcast": lambda: (random(200, 1, 130).permute(2, 1, 0), random(130, 2, 200)),
    "halves": lambda: (random(140, 130, dtype=torch.float16).t(), random(130, 140, dtype=torch.float16)),
    "doubles": lambda: (random(140, 130, dtype=torch.float64).t(), random(130, 140, dtype=torch.float64)),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_values(name):
    x, y = PAIRS[name]()
    graph = sum_of(x, y)
    loops, _ = loops_of(graph, [x, y])
    candidates = tiles(loops)
    assert candidates[0].across and all(t.across for t in candidates)
    for tile in (candidates[0], candidates[-1]):
        (got,) = run_triton(graph, [x, y], tile)
        torch.testing.assert_close(got, x + y, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (random(200, 130), random(200, 130)),  # one order
        (random(8, 8).t(), random(8, 8)),  # small
        (random(4000, 8).t(), random(8, 4000)),  # a narrow side
    ],
)
def test_other_kernels_have_blocks_of_one_axis(x, y):
    assert not tiles(loops_of(sum_of(x, y), [x, y])[0])[0].across


def test_the_loop_across_comes_last_of_the_others():
    x, y = PAIRS["permuted"]()
    loops, _ = loops_of(sum_of(x, y), [x, y])
    tile = tiles(loops)[0]
    made = crossed(loops, tile.across)
    assert made.outer[-1].name == tile.across and made.row == loops.outer[-1:]
    assert product(made.outer) * product(made.row) == product(loops.outer)
    assert programs(loops, tile) * tile.points * tile.row >= product(loops.outer)


def test_every_access_is_of_16_bytes():
    """Both loads and the store are vectors of four floats; a block goes through shared memory once."""
    x, y = random(1024, 1024).t(), random(1024, 1024)
    loops, _ = loops_of(sum_of(x, y), [x, y])
    ptx = triton_jit.compiled(render(loops, tiles(loops)[0]), "sm_90").asm["ptx"]
    assert {*re.findall(r"(?:ld|st)\.global[.\w:]*", ptx)} == {"ld.global.v4.b32", "st.global.v4.b32"}  # fmt: skip
    assert "st.shared" in ptx


@pytest.mark.parametrize("shape", [(401, 401), (400, 400), (131, 1001)])
def test_odd_sizes_are_read_in_vectors_too(shape):
    x, y = random(*shape), random(*shape) + 1
    graph = op_graph([("aten.add.Tensor", (x, y), {}), ("aten.floor_divide.default", (x, y), {})], [x, y])  # fmt: skip
    loops, _ = loops_of(graph, [x, y])
    source = render(loops, tiles(loops)[0])
    odd = (shape[0] * shape[1]) % 16 != 0
    assert ("else:" in source.text) == odd
    ptx = triton_jit.compiled(source, "sm_90").asm["ptx"]
    found = {*re.findall(r"(?:ld|st)\.global[.\w:]*", ptx)}
    assert {"ld.global.v4.b32", "st.global.v4.b32"} <= found and (("ld.global.b32" in found) == odd)
    for got, want in zip(run_triton(graph, [x, y]), (x + y, x // y), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
