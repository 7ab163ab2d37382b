"""Power iteration: the largest eigenvalue of a symmetric matrix, until converged.

Shows `while True` with a `return` that depends on a tensor, and a loop-carried vector.
"""

import torch

import tograph as tg


@tg.function
def power_iteration(matrix, vector, tolerance=1e-10):
    """The dominant eigenvalue, its eigenvector and the number of iterations."""
    vector = vector / torch.linalg.vector_norm(vector)
    iterations = 0
    while True:
        product = matrix @ vector
        eigenvalue = vector @ product
        residual = torch.linalg.vector_norm(product - eigenvalue * vector)
        if residual <= tolerance * torch.abs(eigenvalue):
            return eigenvalue, vector, iterations
        vector = product / torch.linalg.vector_norm(product)
        iterations += 1


def example_inputs() -> tuple:
    generator = torch.Generator().manual_seed(0)
    factor = torch.randn(16, 16, generator=generator, dtype=torch.float64)
    start = torch.randn(16, generator=generator, dtype=torch.float64)
    return factor @ factor.T, start


main_function = power_iteration

if __name__ == "__main__":
    matrix, start = example_inputs()
    eigenvalue, _, iterations = main_function(matrix, start)
    exact = torch.linalg.eigvalsh(matrix)[-1]
    print(f"eigenvalue {float(eigenvalue):.10f} after {int(iterations)} iterations")
    print(f"eigvalsh   {float(exact):.10f}")
