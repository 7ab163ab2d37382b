"""A character model: a GRU over lines of different lengths, trained with momentum in one graph.

Shows a `for` over `range(tensor)` inside a training loop that stops early, and the gradient through
both taken inside the function.
"""

import torch
import torch.nn.functional as F

import tograph as tg

TEXT = """a loop that ends too soon
a branch that no one takes
a list that grows by one
a sum of all mistakes
a gradient that flows back
through every step it makes"""
LETTERS = sorted(set(TEXT))
HIDDEN = 24


def loss_of(weights, lines, lengths):
    """The mean cross-entropy of the next letter; `lines` [time, batch] of letter numbers, padded."""
    embedding, inner, recurrent, outer = weights
    hidden = torch.zeros(lines.shape[1], HIDDEN)
    total = torch.zeros(())
    for t in range(lengths.max() - 1):
        r, z, n = F.linear(embedding[lines[t]], inner).chunk(3, 1)
        hr, hz, hn = F.linear(hidden, recurrent).chunk(3, 1)
        gate = torch.sigmoid(z + hz)
        hidden = gate * hidden + (1 - gate) * torch.tanh(n + torch.sigmoid(r + hr) * hn)
        errors = F.cross_entropy(F.linear(hidden, outer), lines[t + 1], reduction="none")
        total = total + torch.where(t + 1 < lengths, errors, 0.0).sum()
    return total / (lengths - 1).sum()


@tg.function
def train(weights, lines, lengths, steps):
    """Weights after at most `steps` steps, and the loss before each."""
    speeds = [torch.zeros_like(w) for w in weights]
    losses = []
    for _ in range(steps):
        leaves = [w.detach().requires_grad_() for w in weights]
        loss = loss_of(leaves, lines, lengths)
        losses.append(loss.detach())
        if loss < 2.3:
            break
        slopes = torch.autograd.grad(loss, leaves)
        speeds = [0.9 * v + g for v, g in zip(speeds, slopes)]
        weights = [w.detach() - 0.3 * v for w, v in zip(leaves, speeds)]
    return weights, torch.stack(losses)


def example_inputs() -> tuple:
    generator = torch.Generator().manual_seed(0)
    shapes = [
        (len(LETTERS), HIDDEN),
        (3 * HIDDEN, HIDDEN),
        (3 * HIDDEN, HIDDEN),
        (len(LETTERS), HIDDEN),
    ]
    weights = [0.3 * torch.randn(s, generator=generator) for s in shapes]
    rows = [torch.tensor([LETTERS.index(c) for c in line]) for line in TEXT.splitlines()]
    lines = torch.nn.utils.rnn.pad_sequence(rows)
    return weights, lines, torch.tensor([len(r) for r in rows]), torch.tensor(60)


main_function = train

if __name__ == "__main__":
    _, losses = main_function(*example_inputs())
    print(f"{len(losses)} steps; loss:", [round(x, 3) for x in losses[::3].tolist()])
