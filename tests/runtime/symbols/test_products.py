"""Products and attention of tensors that grow in a staged loop: the same values and shapes as in eager PyTorch."""

import itertools

import pytest
import torch
import torch.nn.functional as F

import tograph as tg


def grown(op, *tensors, steps=2):
    """``op`` of tensors whose first dimension a loop made longer, converted and as written."""

    def program(steps, *tensors):
        x = tensors[0]
        while steps > 0:
            x = torch.cat([x, x[:1] * 0.5])
            steps = steps - 1
        return op(x, *tensors[1:])

    expected = program(torch.tensor(steps), *tensors)
    got = tg.function(program)(torch.tensor(steps), *tensors)
    torch.testing.assert_close(got, expected)
    assert got.stride() == expected.stride()


def r(*shape):
    return torch.randn(*shape, dtype=torch.float64)


LEFT = {1: (2,), 2: (2, 4), 3: (2, 3, 4), 4: (2, 1, 3, 4)}


@pytest.mark.parametrize("other", [(4,), (4, 5), (3, 4, 5), (1, 4, 5), (6, 1, 4, 5)], ids=str)
@pytest.mark.parametrize("rank", [2, 3])
def test_matmul(rank, other):
    if rank == 3 and len(other) == 4:
        grown(lambda x, y: torch.matmul(x.unsqueeze(1), y[:, 0]), r(*LEFT[3]), r(*other))
        return
    if len(other) == 3 and rank == 3:
        other = (1, *other[1:])
    for product in (torch.matmul, lambda x, y: x @ y, lambda x, y: x.matmul(y)):
        grown(product, r(*LEFT[rank]), r(*other))


@pytest.mark.parametrize("first", [(3,), (5, 3), (2, 5, 3)], ids=str)
def test_an_open_right_operand(first):
    def product(x, y):
        right = x.transpose(0, 1) if x.dim() == 2 else x.permute(1, 2, 0)
        return y @ right

    grown(product, r(2, 3), r(*first))
    if len(first) < 3:
        grown(lambda x, y: y @ x, r(2, 3, 4), r(*first))


def test_both_sides_open():
    grown(lambda x: x @ x.mT, r(2, 3, 4))
    grown(lambda x: torch.matmul(x[:, 0, 0], x[:, 1, 1]), r(2, 3, 4))
    grown(lambda x: x[:, None] @ x.mT, r(3, 3, 3), steps=0)
    with pytest.raises(RuntimeError, match="at least 1D"):
        grown(lambda x: torch.matmul(x, x.sum()), r(2, 3))


@pytest.mark.parametrize(("bias", "rank"), list(itertools.product((False, True), (2, 3))))
def test_linear(bias, rank):
    layer = torch.nn.Linear(4, 5, bias=bias, dtype=torch.float64)
    grown(lambda x: layer(x), r(*LEFT[rank]))
    grown(lambda x, w: F.linear(x, w), r(*LEFT[rank]), r(5, 4))


MASKS = {"none": None, "flags": torch.tensor([[True, False], [False, False]]).repeat_interleave(2, 1), "added": torch.eye(2, 4, dtype=torch.float64)}  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
def test_attention_to_a_sequence_that_grows(mask):
    def attend(x, query):
        keys = x.permute(1, 0, 2)
        return F.scaled_dot_product_attention(query, keys, keys + 1, MASKS[mask])

    grown(attend, r(2, 3, 4), r(3, 2, 4))


@pytest.mark.parametrize("options", [{"is_causal": True}, {"scale": 0.3}, {"scale": -0.3}], ids=str)
def test_options_of_attention(options):
    grown(lambda x: F.scaled_dot_product_attention(x.mT, x.mT, x.mT, **options), r(2, 3, 4))
    grown(
        lambda x, q: F.scaled_dot_product_attention(
            q, x.unsqueeze(0).transpose(1, 2), x.unsqueeze(0).transpose(1, 2), enable_gqa=True, **options
        ),
        r(2, 3, 4),
        r(1, 6, 5, 4),
    )  # fmt: skip


def test_attention_over_features_whose_number_is_a_quotient():
    def attend(x):
        heads = x.view(1, x.shape[0], 2, -1).transpose(1, 2)
        return F.scaled_dot_product_attention(heads, heads, heads).contiguous()

    grown(attend, r(2, 8))


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits])  # fmt: skip
def test_losses_compare_sizes(loss):
    grown(lambda x: loss(x, x.sigmoid()), r(2, 3))
    grown(lambda x: loss(x, torch.cat([x[1:], x[:1]]).sigmoid()), r(2, 3))


COMPARING = {
    "dist": torch.dist,
    "soft margin": lambda x, y: F.soft_margin_loss(x, y.sign()),
    "cosine": F.cosine_similarity,
    "labels": lambda x, y: F.cross_entropy(x, y.argmax(1)),
    "logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "probabilities": lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    "batches": lambda x, y: torch.addbmm(y.new_zeros(3, 3), x.unsqueeze(2), y.unsqueeze(1)),
}  # fmt: skip

if torch.__version__ >= "2.12":  # the C++ of 2.11 reads the sizes of probabilities as numbers
    COMPARING["cross entropy"] = lambda x, y: F.cross_entropy(x, y.softmax(1))


@pytest.mark.parametrize("name", COMPARING)
def test_an_open_size_beside_a_known_one(name):
    def program(x, y, n):
        return COMPARING[name](x[:n], y)

    x, y, n = r(5, 3), r(5, 3), torch.tensor(5)
    torch.testing.assert_close(tg.function(program)(x, y, n), program(x, y, n))


@pytest.mark.parametrize("dim", [0, 1, -1, None])
def test_take_along_dim(dim):
    grown(lambda x: x.take_along_dim(x.argsort(dim or 0), dim), r(3, 4))
    grown(lambda x: torch.take_along_dim(x, x.argmax(1, keepdim=True) - 4, 1), r(3, 4))
    if dim is not None:
        grown(lambda x, y: torch.take_along_dim(y, x[:1].argsort(1), dim), r(3, 4), r(4, 4) if dim == 0 else r(1, 4))  # fmt: skip


def test_equal():
    f = tg.function(lambda x, y, n: torch.equal(x[:n], y))
    for n, size, expected in [(3, (3, 2), True), (3, (4, 2), False), (2, (3, 2), False), (3, (3,), False)]:  # fmt: skip
        assert f(torch.ones(4, 2), torch.ones(size), torch.tensor(n)) is expected


def test_gradients():
    w = r(4, 4).requires_grad_()

    def program(x, steps, w):
        while steps > 0:
            x = torch.cat([x, x[:1] @ w])
            steps = steps - 1
        return F.scaled_dot_product_attention(x, x @ w, x).square().sum()

    x, steps = r(2, 3, 4), torch.tensor(2)
    (expected,) = torch.autograd.grad(program(x, steps, w), w)
    (got,) = torch.autograd.grad(tg.function(program)(x, steps, w), w)
    torch.testing.assert_close(got, expected)
