"""Collatz: how many steps until n reaches 1.

Shows `while` and `if` / `elif` / `else` on scalar tensors, with integer arithmetic.
"""

import torch

import tograph as tg


@tg.function
def collatz(n):
    """Steps to 1, and the largest odd number met on the way."""
    steps = 0
    largest = torch.ones_like(n)
    while n != 1:
        if n % 2 == 1 and n > largest:
            largest = n
        if n % 2 == 0:
            n = n // 2
            steps += 1
        elif n % 4 == 1:  # 3n + 1 is divisible by 4: three steps at once
            n = (3 * n + 1) // 4
            steps += 3
        else:
            n = (3 * n + 1) // 2
            steps += 2
    return steps, largest


def example_inputs() -> tuple:
    return (torch.tensor(27),)


main_function = collatz

if __name__ == "__main__":
    for start in (1, 6, 27, 97, 871):
        steps, largest = main_function(torch.tensor(start))
        print(f"{start:4d}: {int(steps):4d} steps, largest odd number {int(largest)}")
