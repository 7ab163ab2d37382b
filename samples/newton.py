"""Newton's method for a root of f(x) = x^3 - 2x - 5: the number of steps depends on the data.

Shows a `while` on a tensor, a `break` inside a tensor `if`, and a Python counter that becomes
loop state.
"""

import torch

import tograph as tg


def f(x):
    return x**3 - 2 * x - 5


def derivative(x):
    return 3 * x**2 - 2


@tg.function
def newton(x, tolerance):
    """The root reached from x, and how many steps it took."""
    steps = 0
    y = f(x)
    while torch.abs(y) > tolerance:
        slope = derivative(x)
        if torch.abs(slope) < 1e-12:  # a flat place: no next point
            break
        x = x - y / slope
        y = f(x)
        steps += 1
    return x, steps


def example_inputs() -> tuple:
    return torch.tensor(3.0, dtype=torch.float64), torch.tensor(1e-12, dtype=torch.float64)


main_function = newton

if __name__ == "__main__":
    root, steps = main_function(*example_inputs())
    print(f"root {float(root):.12f} after {int(steps)} steps, f(root) = {float(f(root)):.1e}")
