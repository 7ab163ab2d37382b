"""Small programs of the kinds that people write: tograph beside eager PyTorch, values compared, in one table.

Each program is plain PyTorch; what it needs of native code is written beside it. Time per call is the least of ``--rounds``
rounds of CPU time, taken in turn on one thread; the first call is from the cache on disk where an earlier process filled it.
Usage: ``python benchmarks/programs.py [NAME...]``. Machines are shared: read the ratios.
"""

import math
import sys
from pathlib import Path

import torch
from torch import nn

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from side_by_side import table  # noqa: E402


def breadth_first(graph, start):
    """Masks choose rows, and are written by."""
    distance = torch.full((len(graph),), -1)
    distance[start] = 0
    front = distance == 0
    level = 0
    while front.any():
        level += 1
        front = (graph[front].sum(0) > 0) & (distance < 0)
        distance[front] = level
    return distance, level


def page_rank(source, target, n):
    """Sums at positions."""
    links = torch.zeros(n).scatter_add_(0, source, torch.ones(len(source)))
    rank = torch.full((n,), 1 / n)
    for _ in range(100):
        share = torch.where(links > 0, rank / links, torch.zeros(n))
        new = 0.15 / n + 0.85 * torch.zeros(n).index_add(0, target, share[source])
        new = new + 0.85 * rank[links == 0].sum() / n
        if (new - rank).abs().sum() < 1e-6:
            return new
        rank = new
    return rank


def shortest_paths(source, target, weight, n):
    """Minima at positions."""
    distance = torch.full((n,), math.inf)
    distance[0] = 0
    for _ in range(n):
        new = distance.scatter_reduce(0, target, distance[source] + weight, "amin")
        if torch.equal(new, distance):
            break
        distance = new
    return distance


def k_means(x, centers):
    """Counts, and sums by label."""
    label = torch.full((len(x),), -1)
    for _ in range(50):
        new = ((x[:, None] - centers) ** 2).sum(-1).argmin(1)
        if torch.equal(new, label):
            break
        label = new
        sums = torch.zeros_like(centers).index_add_(0, label, x)
        centers = sums / torch.bincount(label, minlength=len(centers)).clamp(min=1)[:, None]
    return centers, label


def suppress(boxes, scores):
    """What is left becomes shorter from iteration to iteration."""
    order, kept = scores.argsort(descending=True), []
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    while len(order) > 0:
        best, rest = order[0], order[1:]
        kept.append(best)
        least = torch.maximum(boxes[best, :2], boxes[rest, :2])
        most = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        common = (most - least).clamp(min=0).prod(1)
        order = rest[common / (area[best] + area[rest] - common) <= 0.4]
    return torch.stack(kept)


def levenberg(p, t, y):
    """Diagonals, and a solve by LAPACK."""
    damping, rest = 1e-2, p[0] * torch.exp(-p[1] * t) + p[2] - y
    for _ in range(100):
        e = torch.exp(-p[1] * t)
        jacobian = torch.stack([e, -p[0] * t * e, torch.ones_like(t)], 1)
        normal, slope = jacobian.T @ jacobian, jacobian.T @ rest
        if slope.abs().max() < 1e-8:
            break
        new = p - torch.linalg.solve(normal + damping * torch.diag(normal.diagonal()), slope)
        left = new[0] * torch.exp(-new[1] * t) + new[2] - y
        if (left**2).sum() < (rest**2).sum():
            p, rest, damping = new, left, damping / 10
        else:
            damping *= 10
    return p, damping


def hamiltonian(x, steps):
    """Gradients inside of an unrolled loop, and random numbers."""

    def slope(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x**2).sum() + ((x[1:] - x[:-1] ** 2) ** 2).sum(), x)[0]

    samples = []
    for _ in range(steps):
        p, q = torch.randn_like(x), x
        energy = (q**2).sum() + p @ p / 2
        for _ in range(8):
            p = p - 0.05 * slope(q)
            q = q + 0.1 * p
            p = p - 0.05 * slope(q)
        if torch.rand(()) < torch.exp(energy - (q**2).sum() - p @ p / 2):
            x = q
        samples.append(x)
    return torch.stack(samples)


def collapse(logits):
    """A list of numbers that begins empty."""
    found, last = [], -1
    for word in logits.argmax(1):
        word = word.item()
        if word not in (last, 0):
            found.append(word)
        last = word
    return torch.tensor(found)


def forward_sums(log_p, words):
    """Sums of exponentials, one by one."""
    alpha = torch.full((len(words),), -1e30)
    alpha[0] = log_p[0, words[0]]
    for t in range(1, len(log_p)):
        moved = torch.cat([torch.full((1,), -1e30), alpha[:-1]])
        alpha = torch.logaddexp(alpha, moved) + log_p[t, words]
        if alpha.max() < -1e20:
            break
    return alpha[-1]


class Experts(nn.Module):
    """Rows go to the experts that they choose."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    @torch.no_grad()
    def forward(self, x):
        weight, best = self.gate(x).softmax(1).topk(2)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            mine = best == i
            if mine.any():
                row, slot = torch.where(mine)
                out.index_add_(0, row, expert(x[row]) * weight[row, slot][:, None])
        return out


def metropolis(n):
    """A random number or two in each iteration."""
    x, kept = torch.zeros(4), []
    energy = (x**2).sum() / 2
    while len(kept) < n:
        new = x + 0.5 * torch.randn(4)
        other = (new**2).sum() / 2
        if torch.rand(()) < torch.exp(energy - other):
            x, energy = new, other
        kept.append(x)
    return torch.stack(kept)


def learn_walk(q, n):
    """Random actions, and updates of a table."""
    q, state, k = q.clone(), torch.tensor(0), 0
    while k < n:
        if torch.rand(()) < 0.2:
            action = torch.randint(0, 2, ())
        else:
            action = q[state].argmax()
        following = (state + action * 2 - 1).clamp(0, len(q) - 1)
        reward = (following == len(q) - 1).float()
        q[state, action] += 0.5 * (reward + 0.9 * q[following].max() - q[state, action])
        state = torch.where(reward > 0, 0, following)
        k += 1
    return q


def kalman(z):
    """Inverses of small matrices."""
    x, p = torch.zeros(4), torch.eye(4)
    move, see = torch.eye(4) + 0.1 * torch.diag(torch.ones(2), 2), torch.eye(2, 4)
    states = []
    for seen in z:
        x, p = move @ x, move @ p @ move.T + 0.01 * torch.eye(4)
        gain = p @ see.T @ torch.linalg.inv(see @ p @ see.T + 0.1 * torch.eye(2))
        x, p = x + gain @ (seen - see @ x), p - gain @ see @ p
        states.append(x)
    return torch.stack(states)


def choose_points(kernel, n):
    """Systems that grow."""
    chosen = [torch.tensor(0)]
    while len(chosen) < n:
        at = torch.stack(chosen)
        solved = torch.linalg.solve(kernel[at][:, at], kernel[at])
        left = torch.diagonal(kernel) - (kernel[at] * solved).sum(0)
        left[at] = -1.0
        chosen.append(left.argmax())
    return torch.stack(chosen)


def serve(x):
    """Items leave a list at its front, and get into its middle."""
    waiting, total = [], torch.zeros(())
    for v in x:
        waiting.insert(len(waiting) // 2, v)
        if len(waiting) > 3:
            total = total * 0.9 + waiting.pop(0)
    return total, len(waiting)


def runge_kutta(y):
    """A plain range is unrolled, and its body found again."""

    def slope(y):
        a, b, c = y.unbind(-1)
        return torch.stack([10 * (b - a), a * (28 - c) - b, a * b - 8 / 3 * c], -1)

    for _ in range(200):
        k1 = slope(y)
        k2 = slope(y + 0.0025 * k1)
        k3 = slope(y + 0.0025 * k2)
        y = y + 0.005 / 6 * (k1 + 2 * k2 + 2 * k3 + slope(y + 0.005 * k3))
    return y


class Averages:
    """Ops on lists of tensors."""

    def __init__(self):
        self.weights = [torch.randn(32, 32) for _ in range(8)]

    def each_at_once(self, x):
        moved = [w + x for w in self.weights]
        for _ in range(5):
            torch._foreach_mul_(moved, 0.99)
            torch._foreach_add_(moved, self.weights, alpha=0.01)
        return moved


WORDS = ["the", " cat", "##s", " sat", "##ing", " on", " a", " mat", ".", " é"]


def write_words(table, first, n):
    """Greedy decoding to text: words of a vocabulary, cut and joined."""
    token, out = first, ""
    for _ in range(n):
        token = table[token].argmax()
        word = WORDS[int(token)]
        out += word[2:] if word.startswith("##") else word
        if len(out) > 200:
            break
    return out


def run_lengths(x):
    """Numbers written in f-strings."""
    out, count = "", 1
    for i in range(1, len(x)):
        if x[i] == x[i - 1]:
            count += 1
        else:
            out += f"{count}x{x[i - 1]:.1f} "
            count = 1
    return out + f"{count}x{x[-1]:.1f}"


def fractal(c):
    """Complex numbers."""
    z, n = torch.zeros_like(c), torch.zeros(c.shape, dtype=torch.int64)
    while n.max() < 30:
        z = z * z + c
        n = n + (z.abs() < 2)
        if (z.abs() > 2).all():
            break
    return n


def look_up(x, table):
    """Bodies of ``try`` that fail."""
    total, missed = torch.tensor(0.0), 0
    for i in x:
        try:
            total = total + table[int(i)]
        except IndexError:
            missed += 1
    return total, missed


def ways(n, most):
    """A function that calls itself twice."""
    if n == 0:
        return 1
    if n < 0 or most == 0:
        return 0
    return ways(n - most, most) + ways(n, most - 1)


class UnrolledCell(nn.Module):
    """Rows by number, and a list of results."""

    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(32, 64)

    def forward(self, xs):
        h, seen = torch.zeros(8, 64), []
        for t in range(40):
            h = self.cell(xs[t], h)
            seen.append(h)
        return torch.stack(seen), h


def cases():
    """(program, arguments) for each."""
    torch.manual_seed(0)
    source, target = torch.randint(0, 24, (2, 80))
    corner, t = torch.rand(40, 2), torch.linspace(0, 4, 40)
    boxes = torch.cat([corner, corner + 0.2 + 0.2 * torch.rand(40, 2)], 1)
    y = 2.5 * torch.exp(-1.3 * t) + 0.5
    return [
        (breadth_first, ((torch.rand(30, 30) < 0.06).float(), 0)),
        (page_rank, (source, target, 24)),
        (shortest_paths, (source, target, torch.rand(80), 24)),
        (k_means, (torch.randn(100, 3), torch.randn(5, 3))),
        (suppress, (boxes, torch.rand(40))),
        (levenberg, (torch.tensor([1.0, 1.0, 0.0]).double(), t.double(), y.double())),
        (hamiltonian, (torch.randn(4), 10)),
        (collapse, (torch.randn(60, 6),)),
        (forward_sums, (torch.randn(60, 6).log_softmax(1), torch.randint(0, 6, (9,)))),
        (Experts(), (torch.randn(12, 16),)),
        (metropolis, (torch.tensor(100),)),
        (learn_walk, (torch.zeros(8, 2), torch.tensor(60))),
        (kalman, (torch.randn(50, 2),)),
        (choose_points, (torch.eye(12) + 0.5 * torch.ones(12, 12), torch.tensor(8))),
        (serve, (torch.rand(30),)),
        (runge_kutta, (torch.randn(256, 3),)),
        (Averages().each_at_once, (torch.randn(32, 32),)),
        (UnrolledCell().requires_grad_(False), (torch.randn(40, 8, 32),)),
        (write_words, (torch.randn(10, 10), torch.tensor(0), torch.tensor(40))),
        (run_lengths, (torch.randint(0, 3, (60,)) * 0.5,)),
        (fractal, (torch.complex(torch.rand(24, 32) * 3 - 2, torch.rand(24, 32) * 2 - 1),)),
        (look_up, (torch.randint(0, 12, (30,)), torch.randn(8))),
        (ways, (torch.tensor(12), torch.tensor(4))),
    ]


if __name__ == "__main__":
    table(__doc__, cases())
