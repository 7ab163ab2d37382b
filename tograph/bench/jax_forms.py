"""JAX forms of the workloads: the loops rewritten with ``lax`` by hand, as JAX asks for."""

import jax
import jax.numpy as jnp
from jax import lax

from .programs import ERROR, STAGES


def newton(x, n):
    def body(state):
        y, i = state
        return 0.5 * (y + x / y), i + 1

    return lax.while_loop(lambda s: (s[1] < n) & (s[0] > 0), body, (x, jnp.int32(0)))


def collatz(n_steps):
    def step(start, n):
        return lax.cond(n % 2 == 0, lambda: (start, n // 2), lambda: (start, 3 * n + 1))

    def body(state):
        start, n, k = state
        start, n = lax.cond(n == 1, lambda: (start + 2, start + 2), lambda: step(start, n))
        return start, n, k + 1

    three = jnp.int32(3)
    return lax.while_loop(lambda s: s[2] < n_steps, body, (three, three, jnp.int32(0)))[:2]


def power_iteration(a, v, tolerance):
    def body(state):
        v, _, i = state
        u = a @ v
        u = u / jnp.sqrt((u * u).sum())
        return u, jnp.sqrt(((u - v) * (u - v)).sum()), i + 1

    start = v, jnp.float32(1), jnp.float32(0)
    v, _, i = lax.while_loop(lambda s: (s[1] > tolerance) & (s[2] < 5000), body, start)
    return v, i


def gru_cell(x, h, wx, wh, bx, bh):
    xr, xz, xn = jnp.split(x @ wx + bx, 3, 1)
    hr, hz, hn = jnp.split(h @ wh + bh, 3, 1)
    z = jax.nn.sigmoid(xz + hz)
    return (1 - z) * jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn) + z * h


def gru(x, lengths, wx, wh, bx, bh):
    def body(state):
        t, h = state
        new = gru_cell(x[t], h, wx, wh, bx, bh)
        return t + 1, jnp.where((lengths > t)[:, None], new, h)

    start = jnp.int32(0), jnp.zeros((x.shape[1], wh.shape[0]))
    return lax.while_loop(lambda s: (s[0] < x.shape[0]) & (lengths > s[0]).any(), body, start)[1]


def gru_gradient(x, lengths, *weights):
    # There is no reverse mode through lax.while_loop: a scan over all steps, where finished ones are skipped.
    def loss(weights):
        def step(h, now):
            xt, t = now
            new = lambda: jnp.where((lengths > t)[:, None], gru_cell(xt, h, *weights), h)  # noqa: E731
            return lax.cond((lengths > t).any(), new, lambda: h), None

        start = jnp.zeros((x.shape[1], weights[1].shape[0]))
        h, _ = lax.scan(step, start, (x, jnp.arange(x.shape[0])))
        return (h * h).sum()

    return jax.grad(loss)(weights)


def _norm(x):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def _layer(x, keys, values, t, mask, qkv, out, up, down):
    q, k, v = jnp.split(_norm(x) @ qkv, 3, 1)
    keys = lax.dynamic_update_slice(keys, k, (t, 0))
    values = lax.dynamic_update_slice(values, v, (t, 0))
    score = jnp.einsum("hd,thd->ht", q.reshape(4, 32), keys.reshape(128, 4, 32)) / 32**0.5
    score = jax.nn.softmax(score + mask, -1)
    mixed = jnp.einsum("ht,thd->hd", score, values.reshape(128, 4, 32))
    x = x + mixed.reshape(1, 128) @ out
    return x + jax.nn.relu(_norm(x) @ up) @ down, keys, values


def greedy_decode(embedding, position, qkv0, o0, u0, p0, qkv1, o1, u1, p1, eos):
    def body(state):
        t, token, tokens, k0, v0, k1, v1 = state
        mask = jnp.where(jnp.arange(128) <= t, 0.0, -jnp.inf)
        x = embedding[token][None] + position[t]
        x, k0, v0 = _layer(x, k0, v0, t, mask, qkv0, o0, u0, p0)
        x, k1, v1 = _layer(x, k1, v1, t, mask, qkv1, o1, u1, p1)
        token = jnp.argmax((_norm(x) @ embedding.T)[0]).astype(jnp.int32)
        return t + 1, token, tokens.at[t + 1].set(token), k0, v0, k1, v1

    zeros = jnp.zeros((128, 128))
    tokens = jnp.zeros(128, jnp.int32).at[0].set(1)
    start = (jnp.int32(0), jnp.int32(1), tokens, zeros, zeros, zeros, zeros)
    return lax.while_loop(lambda s: (s[0] < 127) & (s[1] != eos), body, start)[2]


def _slopes(u, v, p):
    return p[0] * u - p[1] * u * v, -p[2] * v + p[3] * u * v


def _weighted(weights, slopes):
    return sum(w * s for w, s in zip(weights, slopes) if w)


def _relative(e, old, new):
    return (jnp.abs(e) / (1e-5 + 1e-4 * jnp.maximum(jnp.abs(old), jnp.abs(new)))).max()


def runge_kutta(y, p, end):
    def body(state):
        u, v, t, h, n = state
        h = jnp.minimum(h, end - t)
        us, vs = ([s] for s in _slopes(u, v, p))
        for row in STAGES:
            new_u, new_v = u + h * _weighted(row, us), v + h * _weighted(row, vs)
            for slopes, s in zip((us, vs), _slopes(new_u, new_v, p)):
                slopes.append(s)
        error = jnp.maximum(
            _relative(h * _weighted(ERROR, us), u, new_u),
            _relative(h * _weighted(ERROR, vs), v, new_v),
        )
        u, v, t = lax.cond(error <= 1.0, lambda: (new_u, new_v, t + h), lambda: (u, v, t))
        return u, v, t, h * jnp.clip(0.9 * (error + 1e-10) ** -0.2, 0.2, 5.0), n + 1

    start = (y[0], y[1], jnp.float32(0), jnp.float32(0.5), jnp.float32(0))
    u, v, _, _, n = lax.while_loop(lambda s: s[2] < end, body, start)
    return jnp.stack([u, v]), n


def _loss(weights, x, target):
    w0, b0, w1, b1, w2, b2 = weights
    h = jax.nn.relu(jax.nn.relu(x @ w0 + b0) @ w1 + b1)
    chosen = jnp.take_along_axis(jax.nn.log_softmax(h @ w2 + b2), target[:, None], 1)
    return -chosen.mean()


def _train_step(weights, momenta, x, target):
    loss, gradients = jax.value_and_grad(_loss)(weights, x, target)
    momenta = [0.9 * m + g for m, g in zip(momenta, gradients)]
    return [w - 0.05 * m for w, m in zip(weights, momenta)], momenta, loss


def norm_gelu_residual(x, scale, shift):
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    y = (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift
    return x + jax.nn.gelu(y, approximate=False)


def mandelbrot(re, im, n):
    def body(state):
        zr, zi, count, active, i = state
        new_r, new_i = zr * zr - zi * zi + re, 2 * zr * zi + im
        zr, zi = jnp.where(active, new_r, zr), jnp.where(active, new_i, zi)
        active = zr * zr + zi * zi <= 4.0
        return zr, zi, count + active.astype(count.dtype), active, i + 1

    zeros = jnp.zeros_like(re)
    start = (zeros, zeros, zeros, jnp.ones_like(re, dtype=bool), jnp.int32(0))
    return lax.while_loop(lambda s: (s[4] < n) & s[3].any(), body, start)[2]


def trivial(x, y):
    return x * y + 1


FORMS = {
    "a1": newton,
    "a2": collatz,
    "b": power_iteration,
    "c": gru,
    "cg": gru_gradient,
    "d": greedy_decode,
    "e": runge_kutta,
    "g": norm_gelu_residual,
    "h": mandelbrot,
    "i": trivial,
}


def prepare(key, arrays, threads):
    """A call without arguments of a workload's form. XLA takes its threads from the processor's count."""
    args = [jnp.asarray(a) for a in arrays.values()]
    if key != "f":
        form = jax.jit(FORMS[key])
        return lambda: jax.block_until_ready(form(*args))
    x, target, *weights = args
    state = [weights, [jnp.zeros_like(w) for w in weights]]
    step = jax.jit(_train_step, donate_argnums=(0, 1))

    def call():
        state[0], state[1], loss = step(*state, x, target)
        return jax.block_until_ready((loss, state))[0]

    return call
