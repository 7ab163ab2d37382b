"""Writes of memory that is also read: PyTorch's own errors, its values where it allows them, and a refusal where order counts."""

import pytest
import torch

import tograph as tg

STATEMENTS = """
x[1:].copy_(x[:-1])
x[1:] = x[:-1]
x[1:] += x[:-1]
x[1:] += x[0]
x.add_(x[0])
x[1:].masked_fill_(x[:-1] > 0, 0)
x.expand(3, 6).fill_(7)
x[:1].expand(3).fill_(7)
x[:2].view(2, 1).expand(5, 2, 3).zero_()
x.expand(3, 6).add_(1)
x.expand(3, 6).copy_(x)
x[:4].view(2, 2).add_(x[:4].view(2, 2).t())
x.copy_(x[0])
torch.add(x[:-1], 1, out=x[1:])
torch.where(x[1:] > 0, x[:-1], x[1:], out=x[1:])
torch.cumsum(x[:-1], 0, out=x[1:])
x.index_put_((torch.tensor([0, 1]),), x[2:4])
x.scatter_(0, torch.tensor([0, 1]), x[1:3])
x[::2].add_(x[1::2])
x.mul_(x[1])
x.div_(x.view(2, 3)[0, 0])
x[1:].lerp_(x[:-1], 0.5)
x.masked_fill_(x > 0, x[1])
x[:] = x
x += x
x[1:] *= x[1:]
x.view(2, 3).add_(x.view(2, 3))
x[:3] = x[2:5].clone()
x += x.detach()
x.mul_(x.detach()[0])
x[0] += x[1]
x.view(3, 2)[:, 0] += x.view(3, 2)[:, 1]
x.view(3, 2)[:, 0] += x.view(3, 2)[0]
x.eq_(x[1])
x.unfold(0, 3, 1)[0] += 1
x[x > 2] = x[1]
x[:4][x[:4] > 0] = x[2:3]
x.view(2, 3)[torch.tensor([True, False])] = x[1]
x[torch.tensor([0, 1])] = x[1]
x.index_put_((x > 0,), x[1], accumulate=True)
x.put_(torch.tensor([0]), x[1:2])
""".strip().splitlines()


@pytest.mark.parametrize("statement", STATEMENTS)
def test_as_in_eager(statement, tmp_path):
    file = tmp_path / "program.py"
    file.write_text(f"def f(x):\n    {statement}\n    return x\n")
    space = {"torch": torch}
    exec(compile(file.read_text(), str(file), "exec"), space)
    outcomes = []
    for f in (space["f"], tg.function(space["f"])):
        x = torch.arange(6.0)
        try:
            f(x)
            outcomes.append(x.tolist())
        except RuntimeError as error:
            outcomes.append(str(error)[:60])
            assert x.tolist() == [0, 1, 2, 3, 4, 5]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x[:-1:2].add_(x[:3]),
        lambda x: x.unfold(0, 3, 1).add_(1),
        lambda x: x.as_strided((3, 3), (1, 1)).mul_(2),
    ],
)
def test_a_result_that_depends_on_the_order_of_elements_is_refused(write):
    with pytest.raises(tg.errors.SharedMemoryError):
        tg.function(write)(torch.arange(6.0))


@pytest.mark.parametrize("m", [5, 6])
def test_one_of_several_that_overlap_themselves(m):
    def f(x):
        v = x[:3].expand(6, 3) if x.sum() > 0 else x[3:6].expand(m, 3)
        v.add_(1)

    for g in (f, tg.function(f)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            g(torch.arange(6.0))


@pytest.mark.parametrize("n", [3, 4])
def test_one_of_several_of_which_one_overlaps_itself(n):
    def f(x):
        v = x.unfold(0, 3, 1) if x.sum() > 0 else x[:3].expand(n, 3).clone()
        v.add_(1)

    with pytest.raises(tg.errors.SharedMemoryError):
        tg.function(f)(torch.arange(6.0))


MATRIX = torch.arange(4.0).view(2, 2)


@pytest.mark.parametrize("write", [lambda: MATRIX.add_(MATRIX.t()), lambda: torch.mul(MATRIX, 2, out=MATRIX.t())])  # fmt: skip
def test_of_a_captured_tensor(write):
    for f in (write, tg.function(write)):
        with pytest.raises(RuntimeError, match="unsupported operation: some elements"):
            f()
        assert MATRIX.tolist() == [[0, 1], [2, 3]]
