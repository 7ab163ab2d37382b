"""The IndexError of ``x[i]``: the op that takes the item has other words for it than torch's indexing.

Items are what is taken in this way, so also ``torch.select`` is told as one.
"""

from __future__ import annotations

import re

_SELECTED = re.compile(
    r"select\(\): index (-?\d+) out of range for tensor of size \[([\d, ]+)\] at dimension (\d+)"
)


def in_words_of_indexing(error: BaseException | None) -> None:
    """Give the error of an item that is not there the text that it has in eager PyTorch."""
    found = _SELECTED.fullmatch(str(error)) if type(error) is IndexError else None
    if error is not None and found is not None:
        index, sizes, dim = found.groups()
        size = sizes.split(", ")[int(dim)]
        error.args = (f"index {index} is out of bounds for dimension {dim} with size {size}",)
