"""Adaptive Dormand-Prince 5(4) on the Lotka-Volterra equations.

Shows accept/reject: the step size, and so the number of steps, depends on an error estimate.
The seven stages are a Python list in a Python loop (unrolled while tracing); the time loop is
one While.
"""

import torch

import tograph as tg

STAGES = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0.0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
ERROR = (71 / 57600, 0.0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40)


def lotka_volterra(y):
    prey, predator = y[0], y[1]
    return torch.stack([1.5 * prey - prey * predator, prey * predator - 3 * predator])


@tg.function
def integrate(y, end, tolerance=1e-8):
    """The state at time `end`, and how many steps were accepted and rejected."""
    t = torch.zeros_like(end)
    h = torch.full_like(end, 0.01)
    accepted, rejected = 0, 0
    while t < end:
        h = torch.minimum(h, end - t)
        slopes = [lotka_volterra(y)]
        for row in STAGES:
            candidate = y + h * sum(c * k for c, k in zip(row, slopes, strict=True))
            slopes.append(lotka_volterra(candidate))
        error = h * sum(c * k for c, k in zip(ERROR, slopes, strict=True))
        ratio = torch.max(torch.abs(error) / (tolerance * (1 + torch.abs(y))))
        if ratio <= 1:
            t, y = t + h, candidate
            accepted += 1
        else:
            rejected += 1
        h = h * torch.clamp(0.9 * (ratio + 1e-10) ** -0.2, 0.2, 5.0)
    return y, accepted, rejected


def example_inputs() -> tuple:
    return torch.tensor([10.0, 5.0], dtype=torch.float64), torch.tensor(5.0, dtype=torch.float64)


main_function = integrate

if __name__ == "__main__":
    (prey, predator), accepted, rejected = main_function(*example_inputs())
    print(f"prey {float(prey):.8f}, predators {float(predator):.8f} at t = 5")
    print(f"{int(accepted)} steps accepted, {int(rejected)} rejected")
