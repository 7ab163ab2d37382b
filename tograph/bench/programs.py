"""The workloads as plain PyTorch: what a user would write, with no hint for any compiler."""

import torch
import torch.nn.functional as F


def newton(x, n):
    """Square root by Newton's iteration, on 0-d tensors."""
    y = x
    i = torch.zeros_like(n)
    while (i < n) & (y > 0):
        y = 0.5 * (y + x / y)
        i = i + 1
    return y, i


def collatz(n_steps):
    """``n_steps`` steps of Collatz walks, from 3 on; a walk that reaches 1 starts the next one."""
    start = torch.zeros_like(n_steps) + 3
    n = start
    k = torch.zeros_like(n_steps)
    while k < n_steps:
        if n == 1:
            start = start + 2
            n = start
        elif n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        k = k + 1
    return start, n


def power_iteration(a, v, tolerance):
    """The dominant eigenvector of a symmetric matrix."""
    change = torch.ones_like(tolerance)
    i = torch.zeros_like(tolerance)
    while (change > tolerance) & (i < 5000):
        u = a @ v
        u = u / torch.sqrt((u * u).sum())
        change = torch.sqrt(((u - v) * (u - v)).sum())
        v = u
        i = i + 1
    return v, i


def gru_cell(x, h, wx, wh, bx, bh):
    xr, xz, xn = torch.addmm(bx, x, wx).chunk(3, 1)
    hr, hz, hn = torch.addmm(bh, h, wh).chunk(3, 1)
    z = torch.sigmoid(xz + hz)
    return (1 - z) * torch.tanh(xn + torch.sigmoid(xr + hr) * hn) + z * h


def gru(x, lengths, wx, wh, bx, bh):
    """A GRU over sequences of different lengths; it stops when the longest one has ended."""
    h = torch.zeros(x.size(1), wh.size(0))
    t = 0
    while t < x.size(0) and (lengths > t).any():
        alive = (lengths > t).unsqueeze(1)
        h = torch.where(alive, gru_cell(x[t], h, wx, wh, bx, bh), h)
        t = t + 1
    return h


def attention_layer(x, keys, values, t, qkv, out, up, down):
    q, k, v = (F.layer_norm(x, [128]) @ qkv).chunk(3, 1)
    keys[t] = k[0]
    values[t] = v[0]
    seen = keys[: t + 1].view(-1, 4, 32).permute(1, 2, 0)
    score = torch.softmax(torch.matmul(q.view(4, 1, 32), seen).squeeze(1) / 32**0.5, -1)
    mixed = torch.matmul(score.unsqueeze(1), values[: t + 1].view(-1, 4, 32).permute(1, 0, 2))
    x = x + mixed.reshape(1, 128) @ out
    return x + torch.relu(F.layer_norm(x, [128]) @ up) @ down


def greedy_decode(embedding, position, qkv0, o0, u0, p0, qkv1, o1, u1, p1, eos):
    """Greedy decoding of a two-layer transformer with a KV cache, until the end of the sequence."""
    k0 = torch.zeros(128, 128)
    v0 = torch.zeros(128, 128)
    k1 = torch.zeros(128, 128)
    v1 = torch.zeros(128, 128)
    tokens = torch.zeros(128, dtype=torch.int64)
    token = torch.ones(1, dtype=torch.int64)
    tokens[0] = 1
    t = 0
    while t < 127 and token != eos:
        x = embedding.index_select(0, token) + position[t]
        x = attention_layer(x, k0, v0, t, qkv0, o0, u0, p0)
        x = attention_layer(x, k1, v1, t, qkv1, o1, u1, p1)
        token = (F.layer_norm(x, [128]) @ embedding.t()).argmax(1)
        t = t + 1
        tokens[t] = token[0]
    return tokens


# Dormand and Prince, "A family of embedded Runge-Kutta formulae" (1980): rows of a, then the error weights.
STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def lotka_volterra(u, v, p):
    return p[0] * u - p[1] * u * v, -p[2] * v + p[3] * u * v


def weighted(weights, slopes):
    total = 0.0
    for weight, slope in zip(weights, slopes):
        total = total + weight * slope
    return total


def relative_error(e, old, new):
    return (e.abs() / (1e-5 + 1e-4 * torch.maximum(old.abs(), new.abs()))).max()


def runge_kutta(y, p, end):
    """Adaptive Runge-Kutta 4(5) for a batch of predators and prey, with accepted and rejected steps."""
    u, v = y[0], y[1]
    t = torch.zeros_like(end)
    h = torch.zeros_like(end) + 0.5
    n = torch.zeros_like(end)
    while t < end:
        h = torch.minimum(h, end - t)
        du, dv = lotka_volterra(u, v, p)
        us, vs = [du], [dv]
        for row in STAGES:
            new_u = u + h * weighted(row, us)
            new_v = v + h * weighted(row, vs)
            du, dv = lotka_volterra(new_u, new_v, p)
            us.append(du)
            vs.append(dv)
        error = torch.maximum(
            relative_error(h * weighted(ERROR, us), u, new_u),
            relative_error(h * weighted(ERROR, vs), v, new_v),
        )
        if error <= 1.0:
            t = t + h
            u, v = new_u, new_v
        h = h * torch.clamp(0.9 * torch.pow(error + 1e-10, -0.2), 0.2, 5.0)
        n = n + 1
    return torch.stack([u, v]), n


def perceptron(x, target, weights):
    w0, b0, w1, b1, w2, b2 = weights
    h = torch.relu(torch.addmm(b0, x, w0))
    h = torch.relu(torch.addmm(b1, h, w1))
    return F.cross_entropy(torch.addmm(b2, h, w2), target)


def train_step(x, target, weights, momenta):
    """One step of SGD with momentum, gradient included; weights and momenta are updated in place."""
    loss = perceptron(x, target, weights)
    gradients = torch.autograd.grad(loss, weights)
    with torch.no_grad():
        for w, m, g in zip(weights, momenta, gradients):
            m.mul_(0.9).add_(g)
            w.sub_(0.05 * m)
    return loss.detach()


def norm_gelu_residual(x, scale, shift):
    return x + F.gelu(F.layer_norm(x, [1024], scale, shift))


def mandelbrot(re, im, n):
    """How many iterations each point stays, until all have escaped."""
    zr = torch.zeros_like(re)
    zi = torch.zeros_like(re)
    count = torch.zeros_like(re)
    i = torch.zeros_like(n)
    active = torch.ones_like(re, dtype=torch.bool)
    while (i < n) & active.any():
        new_r = zr * zr - zi * zi + re
        new_i = 2 * zr * zi + im
        zr = torch.where(active, new_r, zr)
        zi = torch.where(active, new_i, zi)
        active = zr * zr + zi * zi <= 4.0
        count = count + active.to(count.dtype)
        i = i + 1
    return count


def trivial(x, y):
    return x * y + 1
