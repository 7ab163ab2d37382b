"""A GRU over a batch of sequences of different lengths.

Shows `for` over `range(tensor)`, in-place writes by index into a preallocated tensor, an
`nn.Module` read from the enclosing scope (its weights are captured by reference) and a mask per
sequence.
"""

import torch
from torch import nn

import tograph as tg

torch.manual_seed(0)
cell = nn.GRUCell(input_size=4, hidden_size=8)


@tg.function
def run_gru(inputs, lengths):
    """States [time, batch, 8], zero past the end of a sequence, and the last state of each."""
    time, batch, _ = inputs.shape
    states = torch.zeros(time, batch, 8)
    hidden = torch.zeros(batch, 8)
    for t in range(lengths.max()):
        active = (t < lengths).unsqueeze(1)
        hidden = torch.where(active, cell(inputs[t], hidden), hidden)
        states[t] = hidden * active
    return states, hidden


def example_inputs() -> tuple:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(12, 3, 4, generator=generator), torch.tensor([5, 9, 2])


main_function = run_gru

if __name__ == "__main__":
    inputs, lengths = example_inputs()
    states, last = main_function(inputs, lengths)
    for i, length in enumerate(lengths.tolist()):
        norms = " ".join(f"{norm:.2f}" for norm in states[:, i].norm(dim=1).tolist())
        print(f"sequence {i}, length {length}: norms of the states {norms}")
    print("norms of the last states:", [round(norm, 4) for norm in last.norm(dim=1).tolist()])
