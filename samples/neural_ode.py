"""A neural ODE trained through an adaptive solver: gradient descent in one graph.

Shows a `while` whose trip count depends on the weights (the step size follows the estimated error)
and the gradient through it, taken inside the function. The pair of methods is Heun's with Euler's
(E. Hairer, S. P. Norsett, G. Wanner, "Solving ordinary differential equations I", II.4).
"""

import torch

import tograph as tg

TOLERANCE = 1e-2
STEPS = 50  # of gradient descent


def slope(y, weights):
    first, second = weights
    return torch.tanh(y @ first) @ second


def solve(y, weights):
    """The state at time 1 and the number of trials."""
    t, step, trials = torch.zeros(()), torch.tensor(0.2), 0
    while t < 1:
        step = torch.minimum(step, 1 - t)
        begin = slope(y, weights)
        euler = y + step * begin
        heun = y + step / 2 * (begin + slope(euler, weights))
        error = (heun - euler).detach().abs().max()
        if error < TOLERANCE:
            y, t = heun, t + step
        step = step * torch.clamp(0.9 * torch.sqrt(TOLERANCE / (error + 1e-9)), 0.2, 3.0)
        trials += 1
    return y, trials


@tg.function
def train(first, second, start, target):
    """Weights [2, 8] and [8, 2] after ``STEPS`` steps, the losses, and how many trials the last solution took."""
    losses, trials = [], 0
    for _ in tg.range(STEPS):
        weights = [first.detach().requires_grad_(), second.detach().requires_grad_()]
        end, trials = solve(start, weights)
        loss = (end - target).square().mean()
        first, second = (
            w.detach() - 0.5 * g for w, g in zip(weights, torch.autograd.grad(loss, weights))
        )
        losses.append(loss.detach())
    return first, second, torch.stack(losses), trials


def example_inputs() -> tuple:
    generator = torch.Generator().manual_seed(0)
    first, second = (0.5 * torch.randn(s, generator=generator) for s in ((2, 8), (8, 2)))
    start = torch.randn(16, 2, generator=generator)
    return first, second, start, start @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]])


main_function = train

if __name__ == "__main__":
    *_, losses, trials = main_function(*example_inputs())
    print(
        "loss:",
        [round(x, 4) for x in losses[::10].tolist()],
        "at the end",
        round(losses[-1].item(), 4),
    )
    print("trial steps of the last solution:", int(trials))
