"""Tensors that branches and loops write, views of all kinds, sizes that depend on data, and operations of which the derivative is not pointwise."""

import torch
import torch.nn.functional as F

D = torch.float64


def writes(x, w, n):
    y = torch.zeros(3, 2, dtype=D)
    for i in range(n):
        y[i % 3] = x.cos() * w[0] + y[(i + 1) % 3]
        y[0] *= w[1]
    y[:, 1] += x.sum()
    return y.sin()


def indexed_writes(x, w, n):
    y = torch.zeros(4, 2, dtype=D)
    index = torch.tensor([3, 1])
    for i in range(n):
        y[index] = w * x
        y[index, 0] += x
        y[y > 0.5] += 0.5
        y[i + 1 :] -= x.sin()
        y[..., -1] = y[..., 0] + w[0, i]
    return y.sum(0) + x


def functional_writes(x, w, n):
    y, index = torch.cat([w, w * 2]), torch.tensor([[0, 3], [2, 1]])
    for _ in range(n):
        y = y.scatter(0, index, w.sin()).scatter_add(0, index[:1], x[None])
        y = y.index_add(0, torch.tensor([1, 1]), w).index_copy(0, torch.tensor([2]), x[None])
        y = y.masked_fill(y > 1.5, 0.5).index_fill(1, torch.tensor([1]), 0.25)
    return y.t() @ y + x


def writes_by_methods(x, w, n):
    y = torch.cat([w, w * 2])
    for _ in range(n):
        y.scatter_(0, torch.tensor([[0, 3]]), x[None])
        y.index_add_(0, torch.tensor([1, 1]), w)
        y.masked_scatter_(torch.tensor([True, False]), torch.cat([x, w[0]]).cos())
        y[3].copy_(x).mul_(2).clamp_(-5, 5)
        y[:2].addcmul_(w, w).addmm_(w, w).lerp_(w, 0.3)
        y.index_put_((torch.tensor([0]), torch.tensor([1])), x[:1], accumulate=True)
    return y.sin().sum(0)


def views(x, w, n):
    y = w.clone()
    row, column = y[0], y.t()[1]
    if x.sum() > n - 2:
        row.mul_(x)
    for _ in range(n):
        column.add_(x * row.sum())
    y.diagonal().sin_()
    return y @ row


def views_in_a_loop(x, w, n):
    y = torch.cat([w, w * x, w]).view(3, 2, 2)
    for i in range(n):
        y[i].t().add_(x)
        y.view(6, 2)[i + 2].mul_(0.5)
        y.transpose(0, 2)[1].sin_()
        y.narrow(0, 1, 2)[0, i].sub_(x)
        y.permute(2, 0, 1)[0].diagonal()[1].mul_(2)
        y.unsqueeze(1)[:, 0, i].cos_()
        y.movedim(0, -1).select(0, 1)[0].add_(w[0, 0])
        y[::2, -1] *= x
    y.flatten()[3:5].exp_()
    return y.sum(0)


def parts(x, w, n):
    y = torch.cat([w, w * 2])
    for _ in range(n):
        a, b = y.chunk(2)
        y = torch.cat([a * x, b + a])
        first, *_ = y.unbind(1)
        y = y + first[:, None].sin()
        y = torch.vstack([*y.split([1, 3])[::-1]])
        y.unfold(0, 2, 2)[1].mul_(x[0])
        y.as_strided((2,), (3,), 1).add_(x)
        y = torch.tanh(y.view(1, 4, 2).squeeze(0) * torch.hstack(y.hsplit(2)[::-1]))
    return y.t() @ y[:, 0]


def expanded(x, w, n):
    y = x.expand(3, 2) * 1
    for i in range(n):
        y = y + w[i].expand_as(y) * y.roll(1, 0)
        y = torch.tanh(y * x.repeat(3, 1) + y.tile(1, 1).flip(0))
    return y.sin().sum(0)


def overwritten(x, w, n):
    y, z = x * 3, x
    for _ in range(n):
        z = y * 2
        y.add_(w[0])
    return z + y.sin()


def written_by_a_branch(x, w, n):
    y = x * 2
    z = y + 1
    if n == 1:
        y.mul_(w[0])
    elif n == 2:
        y[0] = w.sum()
    return y * z


def written_aliases(x, w, n):
    y, z = x * 1, w[0] * 1
    v = y if n > 0 else z
    v += 1
    v.mul_(w[1])
    return y * z


def zero_dimensional(x, w, n):
    a = x[0]
    for _ in range(n):
        a = a - (a * a * a - w.sum()) / (3 * a * a + 1)
    return a


def unused_in_a_branch(x, w, n):
    return x * 2 if n > 0 else w @ x


def unused_argument(x, w, n):
    for _ in range(n):
        w = w.sin()
    return x.cos()


def state_without_gradient(x, w, n):
    h = torch.zeros(2, dtype=D)
    for _ in range(n):
        h = torch.tanh(h @ w + x)
    return h


def masked(x, w, n):
    y = w.view(-1)
    for i in range(n + 1):
        chosen = y[y > 0.1 * i]
        y = torch.cat([chosen.sin() * x.sum(), x])
    return y.sum().sin() * x


def masked_rows(x, w, n):
    for _ in range(n):
        keep = w[:, 0] * x[0] > -9
        w = w[keep] @ w[keep].t() * 0.5
    return w @ x


def nonzero(x, w, n):
    where = torch.nonzero(w > 0.1)
    y = w[where[:, 0], where[:, 1]] * n
    for i, j in where:
        x = x + w[i] * w[:, j]
    return x * y.sum() + torch.where(w > 0.1, w, x).sum(0)


def growing(x, w, n):
    y = x
    for i in range(n):
        y = torch.cat([y, y[i:] * w[0, 0]])
    return y.cumsum(0) * y.flip(0)


def slices_of_the_run(x, w, n):
    y = torch.cat([x, w[0], w[1]])
    total = x * 0
    for i in range(n + 1):
        total = total + y[i : i + 2] * y[: i + 1].prod() + y[-(i + 1) :].sum()
    return total


def sorts(x, w, n):
    y = torch.cat([x, w[0], w[1]])
    for i in range(n):
        top, at = (y * (i + 1)).sin().topk(3)
        down, order = y.sort(descending=True)
        y = torch.cat([top * down[:3], y[order][at], y[y.argsort()][:1]])
    return y.sum() * x + y.max() * y.min() + y.kthvalue(2).values + y.median()


def gathers(x, w, n):
    for i in range(n):
        at = w.argmax(1, keepdim=True)
        w = w.gather(1, at) * w.index_select(1, torch.tensor([1, 0])) + w.take(torch.tensor([0, 3]))
        w = torch.tanh(w * torch.take_along_dim(w, at, 1) + w[i % 2, at[0]] + w[[1, 0]])
    return w @ x


def cumulations(x, w, n):
    for _ in range(n):
        w = w.cumsum(0) * 0.5 + w.cumprod(1) + w.logcumsumexp(0) + w.cummax(1).values
    return w.diff(dim=0).sum(0) * x + torch.trapezoid(w, dim=0)


def reductions(x, w, n):
    for _ in range(n):
        y = w.amax(0) + w.norm(dim=1) + w.logsumexp(0) + w.var(0) + w.prod(1) + w.mean()
        w = w * y.softmax(0) + torch.outer(y.log_softmax(0), x)
        w = w / (1 + w.max(0).values ** 2) + torch.einsum("i,j->ij", x, w.std(1))
    return w @ x


def pointwise(x, w, n):
    for _ in range(n):
        x = (
            torch.exp(-x)
            + torch.log1p(x * x)
            + torch.sqrt(1 + x * x)
            + torch.atan2(x, 1 + w[0] ** 2)
        )
        x = torch.erf(x) + F.gelu(x) + F.softplus(x) + F.silu(x) + torch.sigmoid(x) + x.abs() + x.clamp(-1, 9)  # fmt: skip
        x = torch.tanh(x * 0.1)
        x = torch.maximum(x, w[0]) + torch.hypot(x, w[1]) + x.pow(3) * 0.01 + 2**x * 0.1 + (x + 2).reciprocal() + x % 2.7  # fmt: skip
    return x / (1 + w.sum() ** 2)


def linear_algebra(x, w, n):
    a = w @ w.t() + torch.eye(2, dtype=D)
    for _ in range(n):
        x = torch.linalg.solve(a, x) + torch.linalg.cholesky(a)[1] * torch.logdet(a)
    return x


def decompositions(x, w, n):
    a = w @ w.t() + torch.diag(torch.tensor([1.0, 3.0], dtype=D))
    for _ in range(n):
        x = torch.linalg.eigvalsh(a) * x + torch.linalg.inv(a)[0] * torch.det(a)
        x = torch.tanh(x + torch.linalg.matrix_exp(w * 0.1) @ x + torch.linalg.svdvals(a))
    return x


def layers(x, w, n):
    y = torch.cat([w, w.flip(0), x[None]])[None]
    for _ in range(n):
        y = F.layer_norm(F.linear(y, w, x), (2,)) + y
        y = y + F.scaled_dot_product_attention(y, y.sin(), y)
        y = y + F.conv1d(y.transpose(1, 2), w[:, :, None], padding="same").transpose(1, 2)
        y = torch.tanh(y + F.max_pool1d(y, 2, 1, 1)[..., :2] + F.pad(y, (1, 0))[..., :-1])
    return F.embedding(torch.tensor([1, 0]), y[0]) + F.cosine_similarity(y, y.cos(), -1).sum()


def losses(x, w, n):
    for i in range(n):
        x = (
            x
            + F.mse_loss(w, w.t() + 1)
            + F.huber_loss(x, w[0])
            + F.cross_entropy(w, torch.tensor([1, 0]))
        )
        x = x * F.binary_cross_entropy_with_logits(x, w[i].sigmoid()) + F.kl_div(
            x.log_softmax(0), w[1].softmax(0), reduction="sum"
        )
    return x


def recurrent(x, w, n):
    h = c = torch.zeros(1, 2, dtype=D)
    wide = torch.cat([w, w.t(), w * 0.5, -w])
    for _ in range(n):
        h = torch.gru_cell(x[None], h, wide[:6], wide[2:])
        h, c = torch.lstm_cell(h, (h, c), wide, wide.flip(0))
    return h[0] + c[0] * x


def complex_values(x, w, n):
    c = torch.complex(x, w[0])
    for _ in range(n):
        c = c * torch.exp(1j * c.abs()) + c.conj() / (2 + 1j)
        if c.real.sum() > -99:
            c = torch.polar(c.abs(), c.angle() * 0.5)
    return c.real * c.imag + torch.view_as_real(c).sum(1)


def complex_writes(x, w, n):
    c = torch.complex(x, w[0])
    d = torch.zeros(2, 2, dtype=c.dtype)
    d[:, 0], d[-1:] = c.conj(), c * 1j
    if n > 0:
        d[0, 1] = 2j
        d[..., -1] = c[0] * x
    return torch.view_as_real(d @ c).sin().sum(1)


def transforms_of_signals(x, w, n):
    y = torch.cat([x, w[0], w[1]])
    for _ in range(n):
        y = torch.fft.irfft(torch.fft.rfft(y) * torch.complex(x.sum(), y[0]), n=6).real
    return y


CONSTRUCTS = [
    writes, indexed_writes, functional_writes, writes_by_methods, views, views_in_a_loop, parts, expanded, overwritten,
    written_by_a_branch, written_aliases, zero_dimensional, unused_in_a_branch, unused_argument, state_without_gradient, masked,
    masked_rows, nonzero, growing, slices_of_the_run, sorts, gathers, cumulations, reductions, pointwise, linear_algebra, decompositions,
    layers, losses, recurrent, complex_values, complex_writes, transforms_of_signals,
]  # fmt: skip
