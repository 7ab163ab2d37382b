"""Greedy decoding with a two-layer transformer, until the end-of-sequence token.

Shows a `while` over a tensor and a counter, and a key-value cache written in place inside a module.
"""

import torch
from torch import nn

import tograph as tg

VOCABULARY, WIDTH, HEADS, LAYERS, MAX_LENGTH, END = 40, 32, 4, 2, 24, 0


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(MAX_LENGTH, WIDTH)
        self.project = nn.ModuleList(nn.Linear(WIDTH, 3 * WIDTH) for _ in range(LAYERS))
        self.mlp = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, token, position, keys, values):  # writes its keys and values
        x = self.tokens(token) + self.positions.weight[position]
        for layer in range(LAYERS):
            query, key, value = self.project[layer](x).view(3, HEADS, -1)
            keys[layer, :, position], values[layer, :, position] = key, value
            scores = torch.einsum("htd,hd->ht", keys[layer], query) / query.shape[-1] ** 0.5
            scores = scores.masked_fill(torch.arange(MAX_LENGTH) > position, -torch.inf)
            x = x + torch.einsum("ht,htd->hd", scores.softmax(dim=-1), values[layer]).flatten()
            x = x + self.mlp[layer](x).relu()
        return self.head(x)


torch.manual_seed(2)
decoder = Decoder().requires_grad_(False)


@tg.function
def greedy_decode(token):
    keys, values = torch.zeros(2, LAYERS, HEADS, MAX_LENGTH, WIDTH // HEADS)
    output = torch.full((MAX_LENGTH,), END)
    length = 0
    while token != END and length < MAX_LENGTH:
        output[length] = token
        token = decoder(token, length, keys, values).argmax()
        length += 1
    return output, length


def example_inputs() -> tuple:
    return (torch.tensor(7),)


main_function = greedy_decode

if __name__ == "__main__":
    tokens, count = main_function(*example_inputs())
    print(f"{int(count)} tokens: {tokens[: int(count)].tolist()}")
