"""``while_loop`` forms of some workloads, as torch.compile asks for them: the loops rewritten by hand."""

import torch
from torch._higher_order_ops import while_loop

from .programs import ERROR, STAGES, gru_cell, lotka_volterra, relative_error, weighted


def newton(x, n):
    return while_loop(
        lambda y, i: (i < n) & (y > 0),
        lambda y, i: (0.5 * (y + x / y), i + 1),
        (x.clone(), torch.zeros_like(n)),
    )


def power_iteration(a, v, tolerance):
    def body(v, change, i):
        u = a @ v
        u = u / torch.sqrt((u * u).sum())
        return u, torch.sqrt(((u - v) * (u - v)).sum()), i + 1

    start = v.clone(), torch.ones_like(tolerance), torch.zeros_like(tolerance)
    v, _, i = while_loop(lambda v, d, i: (d > tolerance) & (i < 5000), body, start)
    return v, i


def gru(x, lengths, wx, wh, bx, bh):
    def body(t, h):
        now = x.index_select(0, t.view(1)).squeeze(0)
        new = gru_cell(now, h, wx, wh, bx, bh)
        return t + 1, torch.where((lengths > t).unsqueeze(1), new, h)

    start = torch.zeros((), dtype=torch.int64), torch.zeros(x.shape[1], wh.shape[0])
    return while_loop(lambda t, h: (t < x.shape[0]) & (lengths > t).any(), body, start)[1]


def runge_kutta(y, p, end):
    def body(u, v, t, h, n):
        h = torch.minimum(h, end - t)
        us, vs = ([s] for s in lotka_volterra(u, v, p))
        for row in STAGES:
            new_u, new_v = u + h * weighted(row, us), v + h * weighted(row, vs)
            for slopes, s in zip((us, vs), lotka_volterra(new_u, new_v, p)):
                slopes.append(s)
        error = torch.maximum(
            relative_error(h * weighted(ERROR, us), u, new_u),
            relative_error(h * weighted(ERROR, vs), v, new_v),
        )
        good = error <= 1.0
        u, v = torch.where(good, new_u, u), torch.where(good, new_v, v)
        t = torch.where(good, t + h, t)
        return u, v, t, h * torch.clamp(0.9 * torch.pow(error + 1e-10, -0.2), 0.2, 5.0), n + 1

    zero = torch.zeros_like(end)
    start = y[0].clone(), y[1].clone(), zero, zero + 0.5, zero.clone()
    u, v, _, _, n = while_loop(lambda u, v, t, h, n: t < end, body, start)
    return torch.stack([u, v]), n


def mandelbrot(re, im, n):
    def body(zr, zi, count, active, i):
        new_r, new_i = zr * zr - zi * zi + re, 2 * zr * zi + im
        zr, zi = torch.where(active, new_r, zr), torch.where(active, new_i, zi)
        active = zr * zr + zi * zi <= 4.0
        return zr, zi, count + active.to(count.dtype), active, i + 1

    zeros = torch.zeros_like(re)
    active = torch.ones_like(re, dtype=torch.bool)
    start = zeros, zeros.clone(), zeros.clone(), active, torch.zeros_like(n)
    return while_loop(lambda zr, zi, c, a, i: (i < n) & a.any(), body, start)[2]


FORMS = {
    "a1": newton,
    "b": power_iteration,
    "c": gru,
    "e": runge_kutta,
    "h": mandelbrot,
}
