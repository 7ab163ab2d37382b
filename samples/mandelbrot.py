"""The Mandelbrot set: iterate until every point of the grid has escaped, or the limit is reached.

Shows a `while` that stops on a reduction of a whole tensor, with complex loop state.
"""

import torch

import tograph as tg


@tg.function
def mandelbrot(c, limit):
    """For each point of c, the number of steps before |z| passes 2 (`limit` if it never does)."""
    z = torch.zeros_like(c)
    counts = torch.zeros(c.shape, dtype=torch.int64)
    alive = torch.ones(c.shape, dtype=torch.bool)
    step = 0
    while alive.any() and step < limit:
        z = torch.where(alive, z * z + c, z)
        alive = z.abs() <= 2
        counts += alive
        step += 1
    return counts, step


def example_inputs() -> tuple:
    real = torch.linspace(-2.2, 0.8, 64)
    imaginary = torch.linspace(-1.2, 1.2, 25)
    return torch.complex(real.expand(25, 64), imaginary.unsqueeze(1).expand(25, 64)), 60


main_function = mandelbrot

if __name__ == "__main__":
    counts, steps = main_function(*example_inputs())
    shades = " .:-=+*%#@"
    for row in counts.tolist():
        print("".join(shades[min(count, 27) // 3] for count in row))
    outside, steps = main_function(torch.tensor([0.5 + 0.5j, 1 + 1j, -1 + 1j]), 1000)
    print(f"three points outside escape within {int(steps)} steps: {outside.tolist()}")
