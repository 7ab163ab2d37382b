"""What tests of native ops share."""

import torch

import tograph as tg


def check(f, n=3, ops=()):
    """Native code gives what eager PyTorch gives, with no call of torch but of ``ops``."""
    g = tg.function(f)
    for seed in range(3):
        x = torch.randn(7, 6, generator=torch.Generator().manual_seed(seed))
        torch.testing.assert_close(g(x, torch.tensor(n)), f(x, torch.tensor(n)))
    program = g.get_concrete_function(x, torch.tensor(n)).scheduled
    assert (program.level, program.reason) == ("native", "")
    assert {c.node.op for c in program.native.low.asked} <= set(ops)


def compiled(f, *args, calls=3, **tolerance):
    """The concrete function of ``f``: native code, which gives what eager PyTorch gives in each of some calls."""
    g = tg.function(f)
    cf = g.get_concrete_function(*args)
    cf.scheduled.compile()
    assert cf.scheduled.level == "native", cf.scheduled.reason
    for _ in range(calls):
        torch.testing.assert_close(g(*args), f(*args), **tolerance)
    return cf


def r(*shape, dtype=torch.float32, seed=0):
    """Numbers drawn for a shape."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(seed + sum(shape)))
    return x.to(dtype) if dtype.is_floating_point else (x * 4).to(dtype)
