"""Beam search over a bigram model, until the best hypothesis has ended.

Shows reordered loop state (`sequences[parents]`), writes by index into a column, and a `break`
on a tensor.
"""

import torch

import tograph as tg

VOCABULARY, WIDTH, MAX_LENGTH, END = 12, 4, 20, 0


@tg.function
def beam_search(log_probabilities, start):
    """The sequences of the beam, best first, their scores, and the number of steps taken."""
    sequences = torch.full((WIDTH, MAX_LENGTH), END)
    sequences[:, 0] = start
    scores = torch.full((WIDTH,), -torch.inf)
    scores[0] = 0.0  # the beams start equal: only the first may expand
    stay = torch.full((VOCABULARY,), -torch.inf)
    stay[END] = 0.0  # an ended hypothesis keeps its score
    length = 1
    while length < MAX_LENGTH:
        last = sequences[:, length - 1]
        ended = (last == END).unsqueeze(1)
        extended = scores.unsqueeze(1) + torch.where(ended, stay, log_probabilities[last])
        scores, best = extended.flatten().topk(WIDTH)
        sequences = sequences[best // VOCABULARY]
        sequences[:, length] = best % VOCABULARY
        if sequences[0, length] == END:  # no other hypothesis can overtake it
            break
        length += 1
    return sequences, scores, length


def example_inputs() -> tuple:
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(VOCABULARY, VOCABULARY, generator=generator)
    logits[:, END] -= 0.5
    return logits.log_softmax(dim=1), torch.tensor(5)


main_function = beam_search

if __name__ == "__main__":
    sequences, scores, length = main_function(*example_inputs())
    print(f"stopped at length {int(length)}")
    for sequence, score in zip(sequences.tolist(), scores.tolist(), strict=True):
        print(f"{score:8.3f}  {sequence[: int(length) + 1]}")
