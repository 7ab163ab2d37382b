"""Whole programs, written as people write plain PyTorch: the same values, prints, final state and exceptions under ``tg.function``.

Each is called for every row of its arguments, in order, on objects of its own; ``ONE`` of them has one trace for all of its rows.
"""

import contextlib
import io
import math
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import nn

import tograph as tg

T = torch.tensor
D = torch.float64
PROGRAMS = []
ONE = []


def program(rows, one=False):
    def add(f):
        PROGRAMS.append(pytest.param(f, rows, id=f.__name__))
        if one:
            ONE.append(f)
        return f

    return add


# ---- numerics


@program(lambda: [(T(0.0), T(3.0)), (T(1.0), T(2.0)), (T(2.0), T(3.0))], one=True)
def bisection(a, b, tol=1e-5, max_iter=100):
    f = lambda x: x**3 - 2 * x - 2
    if f(a) * f(b) > 0:
        raise ValueError("f(a) and f(b) must have opposite signs")
    it = 0
    while (b - a).abs() > tol and it < max_iter:
        m = (a + b) / 2
        if f(m) == 0:
            return m, it
        elif f(a) * f(m) < 0:
            b = m
        else:
            a = m
        it += 1
    print(f"converged after {it} iterations: {m.item():.4f}")
    return (a + b) / 2, it


def power_rows():
    return [(T([[4.0, 1.0], [2.0, 3.0]]),), (T([[2.0, 0.0], [0.0, 1.0]]),), (torch.zeros(2, 2),)]


@program(power_rows, one=True)
def power_iteration(a):
    v, before = torch.ones(2), None
    for i in range(1000):
        w = a.mv(v)
        now = w.norm()
        if now == 0:
            break
        v = w / now
        if before is not None and (now - before).abs() < 1e-6:
            return now, v, i
        before = now
    raise RuntimeError(f"no convergence after {i + 1} steps")


@program(lambda: [(T([-1.2, 1.0], dtype=D),), (T([2.0, 2.0], dtype=D),)], one=True)
def bfgs(x0, max_iter=60):
    def f(x):
        return (1 - x[0]) ** 2 + 10 * (x[1] - x[0] ** 2) ** 2

    h, x = torch.eye(2, dtype=D), x0.clone()
    history = []
    for k in range(max_iter):
        x = x.detach().requires_grad_(True)
        fx = f(x)
        (g,) = torch.autograd.grad(fx, x)
        history.append(fx.item())
        if g.norm() < 1e-5:
            print("converged at iteration", k)
            break
        p, alpha = -h @ g, 1.0
        with torch.no_grad():
            while f(x + alpha * p) > fx + 1e-4 * alpha * torch.dot(g, p):
                alpha *= 0.5
        new = (x + alpha * p).detach().requires_grad_(True)
        s, y = (new - x).detach(), torch.autograd.grad(f(new), new)[0] - g
        if torch.dot(s, y) > 1e-10:
            v = torch.eye(2, dtype=D) - torch.outer(s, y) / torch.dot(s, y)
            h = v @ h @ v.T + torch.outer(s, s) / torch.dot(s, y)
        x = new
    else:
        print("did not converge")
    return x.detach(), len(history), history[-1] < 1e-8


class Solution(NamedTuple):
    y: torch.Tensor
    accepted: int
    rejected: int


@program(lambda: [(T([1.0, 0.0], dtype=D),), (T([0.0, 3.0], dtype=D),)], one=True)
def heun_with_step_control(y, t1=1.0, rtol=1e-4):
    f = lambda y: torch.stack([y[1], -y[0] + 0.1 * y[1]])
    t, h = 0.0, 0.1
    accepted = rejected = 0
    while t < t1:
        h = min(h, t1 - t)
        k1 = f(y)
        k2 = f(y + h * k1)
        error = ((k2 - k1) * h / 2).abs().max().item() / rtol
        if error <= 1:
            t, y = t + h, y + h * (k1 + k2) / 2
            accepted += 1
        else:
            rejected += 1
        h *= min(5.0, max(0.2, 0.9 * error**-0.5)) if error > 0 else 5.0
    return Solution(y, accepted, rejected)


@program(lambda: [(torch.arange(9.0).reshape(3, 3) % 5,), (torch.zeros(3, 3),)], one=True)
def pivoted_lu(a):
    n, lu, perm, sign = a.size(0), a.clone(), torch.arange(a.size(0)), 1
    for k in range(n - 1):
        pivot = int(torch.argmax(lu[k:, k].abs())) + k
        if lu[pivot, k] == 0:
            raise ZeroDivisionError("singular")
        if pivot != k:
            lu[[k, pivot]] = lu[[pivot, k]]
            perm[[k, pivot]] = perm[[pivot, k]]
            sign = -sign
        lu[k + 1 :, k] /= lu[k, k]
        lu[k + 1 :, k + 1 :] -= torch.outer(lu[k + 1 :, k], lu[k, k + 1 :])
    return lu, perm, sign * torch.prod(torch.diagonal(lu))


# ---- decoding and interpreters


@program(
    lambda: [(T([3, 1, 2, 0, 0]),), (T([5, 0, 4, 1, 2]),)],
    one=True,
)
def stack_machine(code):
    stack, pc = [T(1), T(1)], 0
    while pc < len(code):
        op = code[pc]
        if op == 1 or op == 2:
            a, b = stack.pop(), stack.pop()
            stack.append(a + b if op == 1 else a * b)
        elif op == 4:
            stack.append(stack[-1])
        else:
            stack.append(op + 2)
        pc += 1
    return stack[-1], len(stack)


@program(lambda: [(T(list(b"hello  world foo")),), (T(list(b"  a bb         ")) + 0,)])
def words(text):
    found, start, inside = [], 0, False
    for i, c in enumerate(text):
        if c == 32:
            if inside:
                found.append((start, i))
            inside = False
        elif not inside:
            inside, start = True, i
    if inside:
        found.append((start, len(text)))
    return found


def beam_rows():
    table = torch.arange(25.0).reshape(5, 5).mul(2.7).sin().log_softmax(1)
    return [(table,), (table.flip(0),)]


@program(beam_rows, one=True)
def beam_search(table, width=2, max_len=8, eos=0):
    seqs = torch.full((width, max_len), eos)
    seqs[:, 0] = 1
    scores, t = T([0.0, -math.inf]), 1
    done = torch.zeros(width, dtype=torch.bool)
    while t < max_len and not done.all():
        lp = table[seqs[:, t - 1]]
        lp = torch.where(done[:, None], torch.full_like(lp, -math.inf), lp)
        lp[done, eos] = 0.0
        scores, flat = (scores[:, None] + lp).flatten().topk(width)
        beam, token = flat // 5, flat % 5
        seqs = seqs[beam]
        seqs[:, t] = token
        done = done[beam] | (token == eos)
        t += 1
    return seqs[scores.argmax(), :t], scores.max(), t


# ---- objects with a state


class Kalman:
    def __init__(self):
        self.x, self.p = torch.zeros(2, 1), torch.eye(2)
        self.f, self.h = T([[1.0, 0.1], [0.0, 1.0]]), T([[1.0, 0.0]])

    def predict(self):
        self.x = self.f @ self.x
        self.p = self.f @ self.p @ self.f.T + 0.01 * torch.eye(2)

    def update(self, z, gate=9.0):
        y = z - self.h @ self.x
        s = self.h @ self.p @ self.h.T + 0.5
        if (y * y / s).item() > gate:
            return False
        k = self.p @ self.h.T / s
        self.x = self.x + k @ y
        self.p = (torch.eye(2) - k @ self.h) @ self.p
        return True


@program(
    lambda: [(k := Kalman(), T([0.1, 0.2, 30.0, 0.4])), (k, T([9.0, 0.6, 0.7, 0.5]))], one=True
)
def gated_filter(kf, zs):
    track, used = [], 0
    for z in zs:
        kf.predict()
        if kf.update(z.view(1, 1)):
            used += 1
        track.append(kf.x.flatten())
    print("used", used)
    return torch.stack(track), used


class Replay:
    def __init__(self, size):
        self.s, self.r = torch.zeros(size, 2), torch.zeros(size)
        self.at, self.count, self.size = T(0), T(0), size

    def push(self, s, r):
        self.s[self.at], self.r[self.at] = s, r
        self.at = (self.at + 1) % self.size
        self.count = torch.clamp(self.count + 1, max=self.size)


def q_rows():
    torch.manual_seed(5)
    q, buffer = nn.Linear(2, 2), Replay(4)
    return [(q, torch.optim.SGD(q.parameters(), lr=0.1), buffer)] * 3


@program(q_rows)
def q_learning(q, optimizer, buffer):
    s, total = torch.zeros(2), 0.0
    for _ in range(3):
        a = q(s).argmax()
        new = s + (2 * a - 1) * T([0.6, 0.1])
        reward = 1.0 if new[0] > 0.5 else -0.1
        buffer.push(new, reward)
        total += reward
        s = torch.zeros(2) if new.abs().max() > 1 else new
        if buffer.count >= 2:
            loss = (q(buffer.s).max(1).values - buffer.r).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return total


@dataclass
class Search:
    alpha: float
    low: float = 0.0
    high: float = math.inf
    steps: int = 0
    done: bool = False


@program(lambda: [(T([3.0, -2.0]), T([-1.0, 1.0])), (T([0.3, 2.0]), T([-1.0, -2.0]))], one=True)
def wolfe(x, p):
    def phi(a):
        z = (x + a * p).detach().requires_grad_(True)
        f = (z**2).sum() + torch.cos(3 * z[0])
        (g,) = torch.autograd.grad(f, z)
        return f.detach(), g @ p

    f0, g0 = phi(0.0)
    s = Search(alpha=1.0)
    while not s.done and s.steps < 30:
        f, g = phi(s.alpha)
        if f > f0 + 1e-4 * s.alpha * g0:
            s.high = s.alpha
            s.alpha = 0.5 * (s.low + s.high)
        elif g < 0.9 * g0:
            s.low = s.alpha
            s.alpha = 2 * s.low if s.high == math.inf else 0.5 * (s.low + s.high)
        else:
            s.done = True
        s.steps += 1
    return s


class Average:
    def __init__(self, module):
        self.module, self.shadow = module, [p.detach().clone() for p in module.parameters()]

    def update(self):
        for s, p in zip(self.shadow, self.module.parameters()):
            s.sub_(0.1 * (s - p.detach()))

    @contextlib.contextmanager
    def averaged(self):
        kept = [p.detach().clone() for p in self.module.parameters()]
        with torch.no_grad():
            for p, s in zip(self.module.parameters(), self.shadow):
                p.copy_(s)
        try:
            yield
        finally:
            with torch.no_grad():
                for p, k in zip(self.module.parameters(), kept):
                    p.copy_(k)


def average_rows():
    torch.manual_seed(1)
    module = nn.Linear(2, 2)
    return [(module, Average(module), torch.randn(4, 2)) for _ in range(2)]


@program(average_rows)
def weight_averaging(module, average, x):
    for _ in range(2):
        (grads,) = torch.autograd.grad(module(x).pow(2).mean(), [module.weight])
        with torch.no_grad():
            module.weight -= 0.5 * grads
        average.update()
    with average.averaged():
        y = module(x)
    return y.detach(), module(x).detach()


# ---- the check


def leaves(x, path="", seen=()):
    """(path, value) of all numbers, strings and tensors in a value, through containers and objects."""
    if isinstance(x, torch.Tensor):
        yield path, (str(x.dtype), tuple(x.shape)), x.detach().double().flatten().tolist()
    elif isinstance(x, bool | int | str | None):
        yield path, type(x).__name__, x
    elif isinstance(x, float):
        yield path, "float", [x]
    elif isinstance(x, list | tuple):
        yield path, type(x).__name__, len(x)
        for i, v in enumerate(x):
            yield from leaves(v, f"{path}[{i}]", seen)
    elif isinstance(x, nn.Module):
        yield from leaves(list(x.state_dict().values()), path, seen)
    elif hasattr(x, "__dict__") and id(x) not in seen:
        for k, v in vars(x).items():
            yield from leaves(v, f"{path}.{k}", (*seen, id(x)))


def outcome(f, rows):
    """What every call gave, printed and raised, and the arguments afterwards."""
    found, rows = [], rows()
    for args in rows:
        error = value = None
        with contextlib.redirect_stdout(io.StringIO()) as out:
            try:
                value = f(*args)
            except Exception as raised:
                error = raised
        found.append((list(leaves(value)), out.getvalue(), error))
    return found, list(leaves(rows))


def check(native, converted):
    assert [x[:2] for x in native] == [x[:2] for x in converted]
    for (path, _, a), (_, _, b) in zip(native, converted):
        assert (a == pytest.approx(b, rel=1e-4, abs=1e-5, nan_ok=True)) if isinstance(a, list) else a == b, path  # fmt: skip


@pytest.mark.parametrize(("f", "rows"), PROGRAMS)
def test_program(f, rows):
    native, native_state = outcome(f, rows)
    staged = tg.function(f)
    converted, state = outcome(staged, rows)
    for (value, text, error), (value2, text2, error2) in zip(native, converted):
        assert type(error) in type(error2).__mro__, error2
        assert error is None or str(error) == str(error2).splitlines()[0]
        check(value, value2)
        assert text == text2
    check(native_state, state)
    assert f not in ONE or staged.trace_count == 1
