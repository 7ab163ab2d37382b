"""Attributes with the names of tensor methods and fields: a change of them between calls is seen."""

import pytest
import torch

import tograph as tg


class Named(torch.nn.Module):
    """Attributes that are called like methods and fields of tensors."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(4)
        self.blocks = torch.nn.ModuleList([torch.nn.Module()])
        self.blocks[0].exp = torch.nn.Linear(4, 4)
        self.T, self.H, self.shape = 2.0, 3, (1, 2)
        self.names, self.data, self.index = ["a"], {"k": 1.0}, [1.0, 2.0]
        self.max = lambda x: x * 1

    def forward(self, x):
        y = self.norm(x) / self.T * self.H * len(self.names) + self.shape[1]
        y = self.blocks[0].exp(y) * self.data["k"] + self.index[0]
        return y + self.max(x) + x.ndim * x.shape[0]


CHANGES = {
    "T": lambda m: setattr(m, "T", 5.0),
    "H": lambda m: setattr(m, "H", 7),
    "shape": lambda m: setattr(m, "shape", (3, 4)),
    "names": lambda m: m.names.append("b"),
    "data": lambda m: m.data.update(k=9.0),
    "index": lambda m: m.index.__setitem__(0, 4.0),
    "norm": lambda m: setattr(m, "norm", torch.nn.Identity()),
    "weight": lambda m: setattr(m.norm, "weight", torch.nn.Parameter(torch.full((4,), 3.0))),
    "bias in place": lambda m: m.norm.bias.data.add_(1),
    "inner": lambda m: setattr(m.blocks[0], "exp", torch.nn.Identity()),
    "max": lambda m: setattr(m, "max", lambda x: x * 100),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_calls(change):
    torch.manual_seed(0)
    m, x = Named(), torch.arange(4.0)
    f = tg.function(m)
    with torch.no_grad():
        for _ in range(4):
            torch.testing.assert_close(f(x), m.forward(x))
        assert f.trace_count == 1
        before = f(x)
        CHANGES[change](m)
        torch.testing.assert_close(f(x), m.forward(x))
        assert not torch.equal(f(x), before)


class Window:
    """The last few of what was pushed, in an attribute that tensors have too."""

    def __init__(self):
        self.data = []

    def push(self, x):
        self.data.append(x)
        if len(self.data) > 2:
            self.data.pop(0)
        return x * len(self.data)


def test_a_list_that_the_call_changes_and_asks():
    one, other = Window(), Window()
    push = tg.function(one.push)
    for i in range(6):
        x = torch.tensor(float(i))
        assert torch.equal(push(x), other.push(x))
        assert one.data == other.data
