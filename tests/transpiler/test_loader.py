"""Converted functions as code objects."""

import sys

import pytest
import torch

import tograph as tg

GENERIC = """
def first[T: torch.Tensor](x: T) -> T:
    def twice[U](y: U) -> U:
        return y * 2 if y.sum() > 0 else y
    return twice(x)
"""


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters")
def test_function_with_type_parameters(tmp_path):
    """Its code is that of the scope of its parameters."""
    file = tmp_path / "generic.py"
    file.write_text(GENERIC)
    names = {"torch": torch}
    exec(compile(GENERIC, str(file), "exec"), names)
    staged = tg.function(names["first"])
    assert [staged(torch.tensor(v)).item() for v in (2.0, -2.0)] == [4.0, -2.0]
