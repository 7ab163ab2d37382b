"""Arguments and results a size of which only the run knows, behind other dimensions: they lie row by row, and entries take and give them."""

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native.program import MISS

pytestmark = pytest.mark.skipif(jit.llvm is None, reason="needs llvmlite")


def grown(x):
    for _ in tg.range(2):
        x = torch.cat([x, x[..., :1] + 1], -1)
    return x


def listed(x):
    found = []
    for i in tg.range(3):
        found.append(x * i)
    return found[2]


def chosen(x):
    y = torch.cat([x, x], -1) if x.sum() > 0 else x - 1
    return y, y.sum(-1)


PROGRAMS = {
    "elements": lambda x: (x * 2 + 1, x.exp()),
    "rows": lambda x: torch.softmax(x, -1) + x.mean(0),
    "product": lambda x: x @ x.mT,
    "turned": lambda x: (x.transpose(0, -1).contiguous(), x.mT * 2),
    "parts": lambda x: (x[1:] + 1, x[..., 1:] * 2, torch.cat([x, x], 0)),
    "reshaped": lambda x: (x.reshape(-1) * 2, x.flatten(0, 1) + 1),
    "sorted": lambda x: torch.sort(x, -1)[0] + 1,
    "asked of torch": lambda x: torch.linalg.matrix_exp(x @ x.mT * 0.01) + 1,
    "chosen": chosen,
    "grown": grown,
    "listed": listed,
}


@pytest.mark.parametrize("spec", [(3, None), (2, None, 4), (2, 3, None), (1, None), (None, None)], ids=str)  # fmt: skip
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name, spec):
    f = PROGRAMS[name]
    g = tg.function(f, input_signature=[tg.TensorSpec(spec, torch.float32)])
    for n in (5, 9, 70, 1):
        x = torch.randn([n if m is None else m for m in spec])
        for _ in range(2):
            got, want = g(x), f(x)
            torch.testing.assert_close(got, want)
            for a, b in zip(*((y if isinstance(y, tuple) else (y,)) for y in (got, want))):
                steps = [{d: s for d, s in enumerate(t.stride()) if t.shape[d] > 1} for t in (a, b)]
                assert steps[0] == steps[1]


@pytest.mark.parametrize("spec", [(3, None), (2, None, 4), (None, None), (None, 2, None)], ids=str)
def test_an_entry_takes_and_gives_them(spec):
    g = tg.function(lambda x: x * 2, input_signature=[tg.TensorSpec(spec, torch.float32)])
    cf = g.get_concrete_function()
    cf.scheduled.compile()
    entry = cf.entry
    for n in (4, 900, 40_000):
        x = torch.randn([n if m is None and d else m or 3 for d, m in enumerate(spec)])
        got = entry(x)
        assert got is not MISS
        assert torch.equal(got, x * 2)
        assert got.stride() == (x * 2).stride()
    assert entry(torch.randn(7, 5).t()) is MISS
    assert entry(x.double()) is MISS


def test_nothing_is_copied_where_nothing_grows():
    for spec in ((8, None), (2, None, 8), (None, None)):
        g = tg.function(lambda x: torch.relu(x) * 2, input_signature=[tg.TensorSpec(spec, torch.float32)])  # fmt: skip
        cf = g.get_concrete_function()
        cf.scheduled.compile()
        low = cf.scheduled.native.low
        assert low.buffers == 1  # the result is where it was computed
        assert len(low.kernels) == 1


def test_no_elements_to_look_at():
    """What an inner loop does not change is read before it, and there may be nothing."""

    def f(x):
        first = x.gather(1, torch.zeros_like(x, dtype=torch.long))
        return first + 1, first.sum(1)

    for spec in ((3, None), (None, None), (3, None, 40)):
        g = tg.function(f, input_signature=[tg.TensorSpec(spec, torch.float32)])
        for n in (2, 0, 3, 0):
            x = torch.randn([3, n, *spec[2:]])
            for got, want in zip(g(x), f(x), strict=True):
                assert torch.equal(got, want)
