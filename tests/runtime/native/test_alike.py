"""Parts of other dtypes, and parts without elements, in what is joined."""

import pytest
import torch

from tests.runtime.native.checks import compiled, r

EMPTY = {
    "before": lambda x, i: torch.cat([torch.tensor([]), x * 2], -2) + 1,
    "between": lambda x, i: torch.cat([x, torch.tensor([]), x * 2], 1),
    "alone with one": lambda x, i: torch.cat([torch.tensor([]), x]),
    "of another dtype": lambda x, i: torch.cat([torch.tensor([], dtype=torch.float64), x, x], 2),
    "that makes integers floats": lambda x, i: torch.cat([torch.tensor([]), i], 1) * 0.5,
    "of one dimension": lambda x, i: torch.cat([torch.tensor([]), i[0, 0]]),
}
MIXED = {
    "integers and floats": lambda x, i: torch.cat([i, x * 2, x], 1),
    "one twice": lambda x, i: torch.cat([i, i, x], -1),
    "bools": lambda x, i: torch.cat([x > 0, i]),
    "half": lambda x, i: torch.cat([x.half(), i], 2),
    "a stack": lambda x, i: torch.stack([i, x * 2, x > 0], 1),
    "a stack of rows": lambda x, i: torch.stack([i[0, 0], x[0, 1]]),
}


@pytest.mark.parametrize("name", EMPTY)
def test_a_part_without_elements(name):
    compiled(EMPTY[name], r(2, 3, 4), r(2, 3, 4, dtype=torch.int64))


@pytest.mark.parametrize("name", MIXED)
def test_parts_of_several_dtypes(name):
    compiled(MIXED[name], r(2, 3, 4), r(2, 3, 4, dtype=torch.int64))


def test_a_tensor_that_grows_by_another_dtype_in_a_loop():
    def f(x, n):
        k = torch.cat([torch.tensor([]), x], 1)
        for i in range(n):
            k = torch.cat([k, (x * i).long()], 1)
            if k.sum() > 50:
                break
        return k

    compiled(f, r(2, 3, 4).abs(), torch.tensor(5))
