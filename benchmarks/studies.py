"""Whole small studies beside eager PyTorch: solvers, samplers, metrics, searches and training steps, with what they keep outside of the function.

Rows, columns and clocks are those of ``programs.py``: values are compared where the program draws no numbers of Python's, else the generators are
set before both. Usage: ``python benchmarks/studies.py [NAME...]``. Machines are shared: read the ratios.
"""

import heapq
import math
import random
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

from side_by_side import table  # noqa: E402


def spins(x, beta, n):
    """An Ising model, single sites by Python's generator."""
    x, size = x.clone(), len(x)
    for _ in range(n):
        i, j = random.randrange(size), random.randrange(size)
        around = x[(i + 1) % size, j] + x[i - 1, j] + x[i, (j + 1) % size] + x[i, j - 1]
        cost = 2 * x[i, j].item() * around.item()
        if cost <= 0 or random.random() < math.exp(-beta.item() * cost):
            x[i, j] = -x[i, j]
    return x


def anneal(distance, n):
    """A tour as a list of Python's, two places of which change."""
    size, heat = len(distance), 1.0
    tour = list(range(size))
    cost = sum(distance[tour[i], tour[(i + 1) % size]] for i in range(size))
    for _ in range(n):
        i, j = random.sample(range(size), 2)
        new = tour[:]
        new[i], new[j] = new[j], new[i]
        other = sum(distance[new[k], new[(k + 1) % size]] for k in range(size))
        if other < cost or random.random() < math.exp((cost - other).item() / heat):
            tour, cost = new, other
        heat *= 0.99
    return torch.tensor(tour), cost


class Scores:
    """Counts of pairs of labels, in attributes, and what follows from them."""

    def __init__(self, labels):
        self.labels = labels
        self.right, self.wrong, self.missed = (torch.zeros(labels, dtype=torch.long) for _ in range(3))  # fmt: skip

    def update(self, scores, target):
        n = self.labels
        pairs = torch.bincount(target * n + scores.argmax(1), minlength=n * n).reshape(n, n)
        hits = pairs.diag()
        self.right += hits
        self.wrong += pairs.sum(0) - hits
        self.missed += pairs.sum(1) - hits
        precision = self.right / (self.right + self.wrong).clamp(min=1)
        recall = self.right / (self.right + self.missed).clamp(min=1)
        return precision.mean(), recall.mean()


def warped(x, y):
    """Dynamic time warping by loops over known sizes."""
    least = torch.full((len(x) + 1, len(y) + 1), math.inf)
    least[0, 0] = 0
    for i in range(1, len(x) + 1):
        for j in range(1, len(y) + 1):
            before = torch.minimum(least[i - 1, j], least[i, j - 1])
            least[i, j] = (x[i - 1] - y[j - 1]).abs() + torch.minimum(before, least[i - 1, j - 1])
    return least[-1, -1]


def fit(search):
    """A logistic regression by an LBFGS that was made outside."""
    w = torch.zeros(5, requires_grad=True)
    optimizer = torch.optim.LBFGS([w], max_iter=10, line_search_fn=search)

    def step(x, y):
        def closure():
            optimizer.zero_grad()
            loss = F.softplus(-(x @ w) * y).mean() + 0.1 * (w**2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return w.detach().clone()

    step.__name__ = f"fit_{search or 'fixed'}"
    return step


def encode():
    """A step of a variational autoencoder, with distributions."""
    code, mean, spread = nn.Linear(20, 32), nn.Linear(32, 4), nn.Linear(32, 4)
    back = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 20))
    parts = nn.ModuleList([code, mean, spread, back])
    optimizer = torch.optim.SGD(parts.parameters(), 1e-4)
    prior = torch.distributions.Normal(torch.zeros(4), torch.ones(4))

    def encoded(x):
        h = F.relu(code(x))
        found = torch.distributions.Normal(mean(h), torch.exp(0.5 * spread(h)))
        away = torch.distributions.kl_divergence(found, prior).sum(-1).mean()
        loss = F.binary_cross_entropy_with_logits(back(found.rsample()), x) + away
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return encoded


def nearest(weight, start):
    """Dijkstra's paths by a heap of tuples."""
    n, heap, found = len(weight), [(0.0, 0, -1)], []
    heap[0] = (0.0, start.item(), -1)
    while heap:
        far, at, _ = heapq.heappop(heap)
        if at in found:
            continue
        found.append(at)
        for v in range(n):
            if v not in found and weight[at, v] < 1:
                heapq.heappush(heap, (far + weight[at, v].item(), v, at))
    return torch.tensor(found)


def filtered(seen):
    """A particle filter that draws anew where few particles count."""
    n, means = 256, []
    x, w = torch.randn(n), torch.full((n,), 1 / n)
    for y in seen:
        x = 0.9 * x + torch.sin(x) + 0.5 * torch.randn(n)
        w = torch.softmax(torch.log(w) - 0.5 * (y - x) ** 2, 0)
        means.append((w * x).sum())
        if 1 / (w**2).sum() < n / 2:
            at = (torch.arange(n) + torch.rand(())) / n
            x = x[torch.searchsorted(torch.cumsum(w, 0), at).clamp(max=n - 1)]
            w = torch.full((n,), 1 / n)
    return torch.stack(means)


def transported(cost, a, b):
    """Sinkhorn's iterations until they stand still."""
    f, g = torch.zeros_like(a), torch.zeros_like(b)
    for _ in range(200):
        new = 0.05 * (a.log() - torch.logsumexp((g - cost) / 0.05, 1))
        g = 0.05 * (b.log() - torch.logsumexp((new[:, None] - cost) / 0.05, 0))
        moved, f = (new - f).abs().max(), new
        if moved < 1e-4:
            break
    return f, g


def cases():
    torch.manual_seed(0)
    places, graph = torch.rand(15, 2), torch.rand(10, 10)
    graph[torch.rand(10, 10) < 0.5] = math.inf
    data, sign = torch.randn(40, 5), torch.sign(torch.randn(40))
    return [
        (spins, (torch.sign(torch.randn(16, 16)), torch.tensor(0.4), torch.tensor(200))),
        (anneal, (torch.cdist(places, places), torch.tensor(100))),
        (Scores(8).update, (torch.randn(128, 8), torch.randint(0, 8, (128,)))),
        (warped, (torch.randn(30), torch.randn(25))),
        (fit(None), (data, sign)),
        (fit("strong_wolfe"), (data, sign)),
        (encode(), (torch.rand(32, 20),)),
        (nearest, (graph, torch.tensor(0))),
        (filtered, (torch.randn(30),)),
        (transported, (torch.rand(40, 50), torch.full((40,), 1 / 40), torch.full((50,), 1 / 50))),
    ]


# What keeps something outside is not the same in two calls: there only times are compared.
KEEPING = ("update", "fit_fixed", "fit_strong_wolfe", "encoded")


if __name__ == "__main__":
    table(__doc__, cases(), KEEPING)
