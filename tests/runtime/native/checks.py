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
