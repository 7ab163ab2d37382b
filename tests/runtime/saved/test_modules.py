"""tg.save and tg.load of modules."""

import copy

import pytest
import torch

import tograph as tg


class Cell(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.register_buffer("scale", torch.tensor(2.0))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)
        self.register_parameter("nothing", None)

    @tg.function
    def step(self, x):
        return torch.tanh(self.linear(x)) * self.scale


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell()
        self.tied = self.cell
        self.layers = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)])
        self.calls = tg.Variable(0)

    @tg.function
    def forward(self, x, steps=2):
        for _ in tg.range(torch.tensor(steps)):
            x = self.cell.step(x)
        self.calls.assign_add(1)
        return self.layers[1](self.layers[0](x))

    def plain(self, x):
        return x


@pytest.fixture
def saved(tmp_path):
    torch.manual_seed(0)
    model = Model()
    x = torch.randn(4, 3)
    model(x)
    model.cell.step(x)
    tg.save(model, tmp_path / "m")
    return model, tg.load(tmp_path / "m"), x


def test_same_names_and_values(saved):
    model, loaded, _ = saved
    first, second = model.state_dict(), loaded.state_dict()
    assert list(first) == list(second)
    assert all(torch.equal(first[k], second[k]) for k in first)
    assert loaded.tied is loaded.cell and loaded.layers[1].training
    assert loaded.calls.item() == 1 and isinstance(loaded.calls, tg.Variable)
    assert "scratch" in dict(loaded.cell.named_buffers())
    assert "saved Model" in repr(loaded) and "saved Linear" in repr(loaded)


def test_runs_trains_and_keeps_buffers(saved):
    model, loaded, x = saved
    for m in (model, loaded):
        optimiser = torch.optim.Adam(m.parameters(), lr=0.1)
        for _ in range(4):
            optimiser.zero_grad()
            m(x).square().sum().backward()
            optimiser.step()
        m.cell.step(x)
    for (name, a), (_, b) in zip(model.state_dict().items(), loaded.state_dict().items()):
        assert torch.equal(a, b), name
    assert loaded.calls.item() == 5
    assert loaded.layers[1].num_batches_tracked.item() == 5


def test_unsaved_method(saved):
    _, loaded, x = saved
    assert not hasattr(loaded, "plain")
    with pytest.raises(NotImplementedError, match="this Cell was saved without a `forward`.*step"):
        loaded.cell(x)


def test_deepcopy_is_apart(saved):
    _, loaded, x = saved
    other = copy.deepcopy(loaded)
    before = loaded(x)
    with torch.no_grad():
        for p in other.parameters():
            p.zero_()
    assert not other.cell.step(x).any()
    assert torch.equal(loaded(x), before)


def test_saved_again(saved, tmp_path):
    _, loaded, x = saved
    expected = loaded.cell.step(x)
    tg.save(loaded, tmp_path / "again")
    torch.testing.assert_close(tg.load(tmp_path / "again").cell.step(x), expected)


def test_one_method(saved, tmp_path):
    model, _, x = saved
    tg.save(model.cell.step, tmp_path / "step")
    step = tg.load(tmp_path / "step")
    torch.testing.assert_close(step(x), model.cell.step(x))
    assert [tuple(p.shape) for p in step.parameters()] == [(3, 3), (3,)]
