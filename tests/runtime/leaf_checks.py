"""What tests of leaves share."""

import torch
from torch.utils._pytree import tree_leaves

import tograph as tg


def shown(x):
    """What is seen of a result: its values, and of a tensor what it is for autograd and its gradient."""
    if not isinstance(x, torch.Tensor):
        return x
    grad = x.grad if x.is_leaf else None
    return x.detach(), x.is_leaf, x.requires_grad, grad is not None and grad.detach()


def compared(program):
    """``program`` as a function of a leaf and of a number of trips gives what it gives in eager PyTorch; the converted function."""
    converted = tg.function(program)
    for n in map(torch.tensor, (0, 1, 3)):
        rows = []
        for f in (converted, program):
            a = torch.tensor([1.0, 2.0], requires_grad=True)
            rows.append([shown(x) for x in (*tree_leaves(f(a, n)), a)])
        torch.testing.assert_close(*rows)
    return converted
