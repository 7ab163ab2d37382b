"""How results lie in memory: strides beside eager PyTorch, of operands that are transposed, cut, expanded or have their channels last.

Each family of ops is one function, so that a layout is traced once for all of them; they run op by op in the first call, as native code in later ones.
"""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg

LAST = torch.channels_last
PLACES, CLASSES, MASK = torch.tensor([0, 1]), torch.zeros(2, 3, 4, 6, dtype=torch.int64), torch.ones(2, 3, 4, 6) > 0  # fmt: skip
FAMILIES = {
    "pointwise": [
        lambda x: x * torch.arange(6.0), lambda x: torch.ones(2, 3, 4, 6) + x, lambda x: -(-x), lambda x: F.gelu(x), lambda x: x.double(),
        lambda x: torch.where(x > 0, x, 0.0), lambda x: x.masked_fill(MASK, 1.0), lambda x: torch.lerp(x, x * 2, 0.5), lambda x: x[:, 1:2] * 1,
        lambda x: x.diagonal(0, 2, 3) * 1, lambda x: x.real - 0.0 if x.is_complex() else x.permute(0, 2, 3, 1) / 1, lambda x: x[..., ::2] ** 1,
    ],
    "copies": [
        lambda x: x.clone(), lambda x: x.contiguous(), lambda x: x.to(memory_format=LAST), lambda x: x.to(torch.complex128, memory_format=LAST), lambda x: x.clone(memory_format=torch.contiguous_format),
        lambda x: torch.zeros_like(x) + x.sum(), lambda x: torch.ones_like(x, memory_format=LAST), lambda x: torch.full_like(x, 2.0),
        lambda x: torch.empty_like(x).copy_(x), lambda x: x.to(memory_format=LAST).flatten(2), lambda x: x.to(memory_format=LAST).relu(),
        lambda x: x.flatten(1) * 2, lambda x: x.repeat(2, 1, 1, 1), lambda x: x.transpose(1, 2) + 1,
    ],
    "joined": [
        lambda x: torch.cat([x, x * 2], 1), lambda x: torch.cat([x, torch.ones(2, 3, 4, 6)], 1), lambda x: torch.stack([x, x]), lambda x: torch.stack([x, x], 2),
        lambda x: x.roll(1, 2), lambda x: x.roll((1, 1), (2, 3)), lambda x: x.roll((1, 6), (2, 3)), lambda x: x[:1].roll(1, 0), lambda x: x.roll(1), lambda x: x.flip((1, 3)), lambda x: F.pad(x, (1, 1)),
        lambda x: F.pad(x, (1, 1, 2, 0)), lambda x: F.pad(x, (0, 0, 0, 0, 1, 0)), lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
        lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), lambda x: F.channel_shuffle(x, 3),
    ],
    "images": [
        lambda x: F.conv2d(x, torch.ones(5, 3, 3, 3)), lambda x: torch.autograd.grad(convolved(x), WEIGHT)[0], lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 2, return_indices=True)[1], lambda x: F.avg_pool2d(x, 2), lambda x: F.adaptive_avg_pool2d(x, 2),
        lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3)), lambda x: F.batch_norm(x, None, None, training=True), lambda x: F.group_norm(x, 3),
        lambda x: F.interpolate(x, scale_factor=2), lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda x: F.interpolate(x, size=(2, 3), mode="area"),
    ],
    "places": [
        lambda x: x[PLACES], lambda x: x[:, PLACES], lambda x: x[:, :, PLACES, PLACES], lambda x: x.index_select(1, PLACES), lambda x: x.gather(1, CLASSES),
        lambda x: x.index_put((PLACES,), torch.ones(())), lambda x: x.index_fill(0, PLACES, 1.0), lambda x: x.index_add(1, PLACES, x[:, :2]),
        lambda x: x.index_copy(0, PLACES, x), lambda x: x.tril(), lambda x: x.sort(1)[0], lambda x: x.sort()[0], lambda x: x.argsort(), lambda x: x.topk(2, 1)[0],
    ],
    "parts": [
        lambda x: x.select_scatter(x[0], 0, 0), lambda x: x.slice_scatter(x[:, :1], 1, 0, 1), lambda x: written(x.clone()), lambda x: written(x * 2),
    ],
    "sums": [
        lambda x: x.softmax(1), lambda x: x.cumsum(2), lambda x: x.sum(1), lambda x: x.mean((2, 3), keepdim=True), lambda x: x.amax(1), lambda x: x.var(1),
        lambda x: x.norm(dim=1), lambda x: x.logsumexp(1), lambda x: x @ torch.ones(6, 2), lambda x: torch.einsum("nchw,ndhw->ncd", x, x),
    ],
}  # fmt: skip
LAYOUTS = {
    "in a row": lambda: torch.randn(2, 3, 4, 6),
    "channels last": lambda: torch.randn(2, 3, 4, 6).to(memory_format=LAST),
    "transposed": lambda: torch.randn(2, 3, 6, 4).transpose(2, 3),
    "batch inside": lambda: torch.randn(3, 2, 4, 6).transpose(0, 1),
    "every second": lambda: torch.randn(2, 3, 4, 12)[..., ::2],
    "expanded": lambda: torch.randn(2, 1, 4, 6).expand(2, 3, 4, 6),
    "turned around": lambda: torch.randn(6, 4, 3, 2).permute(3, 2, 1, 0),
}


WEIGHT = torch.ones(5, 3, 3, 3, requires_grad=True)


def convolved(x):
    return (F.conv2d(x, WEIGHT) * 2).sum()


def written(y):
    y[:, 0] = 1
    return y


def _lies(x):
    return [s for s, n in zip(x.stride(), x.shape) if n > 1]


def _all(family, make):
    return lambda x: tuple(op(make(x)) for op in family)


@pytest.mark.parametrize("inside", [False, True], ids=["given", "made"])
@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_results_lie_as_in_eager_pytorch(family, inside):
    f = _all(family, (lambda x: x * 1.5) if inside else lambda x: x)
    for name, make in LAYOUTS.items():
        x, g = make(), tg.function(f)
        for call in range(2):
            for i, (found, expected) in enumerate(zip(g(x), f(x))):
                torch.testing.assert_close(found, expected)
                assert _lies(found) == _lies(expected), (name, call, i)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_strides_are_known_while_tracing(family):
    def told(f):
        return lambda x: [(_lies(y), y.is_contiguous()) for y in f(x)]

    for name, make in LAYOUTS.items():
        for before in (lambda x: x, lambda x: x * 1.5, lambda x: (x * 2).contiguous(memory_format=LAST)):  # fmt: skip
            f, x = told(_all(family, before)), make()
            for i, (found, expected) in enumerate(zip(tg.function(f)(x), f(x), strict=True)):
                assert found == expected, (name, i)


def test_layouts_of_what_is_made_inside():
    """A format for images that the function itself asks for."""
    for family in FAMILIES.values():
        f = _all(family, lambda x: (x * 2).contiguous(memory_format=LAST))
        x, g = torch.randn(2, 3, 4, 6), tg.function(f)
        for _ in range(2):
            for i, (found, expected) in enumerate(zip(g(x), f(x))):
                torch.testing.assert_close(found, expected)
                assert _lies(found) == _lies(expected), i


@pytest.mark.parametrize("layer", [F.relu, F.gelu, F.leaky_relu, torch.sigmoid, F.silu, F.hardtanh])
def test_gradients_of_activations(layer):
    """Of what comes in another order than the operand."""

    def f(x):
        x = x.detach().requires_grad_()
        y = layer(x)
        return torch.autograd.grad((y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum(), x)

    for name, make in LAYOUTS.items():
        x, g = make(), tg.function(f)
        for _ in range(2):
            (found,), (expected,) = g(x), f(x)
            torch.testing.assert_close(found, expected)
            assert _lies(found) == _lies(expected), name


WRITES = [
    lambda z: z.cumsum_(-1), lambda z: z.cumprod_(0), lambda z: z.masked_fill_(z > 0, 2.0), lambda z: z.scatter_(0, torch.tensor([[0, 1, 1, 0]]), 1.0),
    lambda z: z.index_add_(0, PLACES, torch.ones(2, 4)), lambda z: z.index_copy_(0, PLACES, torch.ones(2, 4)), lambda z: z.tril_(), lambda z: z.renorm_(2, 0, 1.0),
    lambda z: z.copy_(torch.arange(12.0).view(3, 4)), lambda z: z.masked_scatter_(z > 0, torch.ones(12)), lambda z: torch.add(torch.ones(3, 4), 1, out=z),
    lambda z: z.addmm_(torch.ones(3, 2), torch.ones(2, 4)),
]  # fmt: skip


def test_what_is_computed_of_a_written_tensor_lies_as_it_does():
    """Whatever order the op that wrote it computes in, also where nobody else sees the tensor, and so are numbers drawn in its likeness."""

    def f(y, n):
        out, i = [], 0
        for write in WRITES:
            z = y.t() * 1
            write(z)
            out += [z * 1.5, torch.rand_like(z)]
        w = z * 1.5
        while i < n:
            z = y.t() * 1
            z.cumsum_(-1)
            w, i = z * 1.5, i + 1
        return *out, w

    y, g = torch.randn(4, 3), tg.function(f)
    for _ in range(2):
        torch.manual_seed(0)
        expected = f(y, torch.tensor(2))
        torch.manual_seed(0)
        for k, (found, wanted) in enumerate(zip(g(y, torch.tensor(2)), expected, strict=True)):
            torch.testing.assert_close(found, wanted)
            assert _lies(found) == _lies(wanted), k


def test_rows_that_are_joined_lie_in_a_row_whatever_their_parts_do():
    """As the tokens of a vision transformer: no image, so the order of dims of the parts does not matter."""

    def f(x, token):
        rows = x.reshape(2, 3, 24).permute(0, 2, 1)
        return torch.cat([token.expand(2, 1, 3), rows * 2], 1) + 1, torch.stack(
            [rows[0], rows[1] * 2]
        )

    x, token, g = torch.randn(2, 3, 4, 6), torch.randn(1, 1, 3), tg.function(f)
    for _ in range(2):
        for found, expected in zip(g(x, token), f(x, token)):
            torch.testing.assert_close(found, expected)
            assert _lies(found) == _lies(expected)
    assert g.concrete_functions[0].scheduled.level == "native"
