"""What bound functions say of themselves."""

import inspect

import pytest
import torch

import tograph as tg
from tograph.runtime.functions.methods import BoundFunction


class Weak:
    @tg.function
    def f(self, x: torch.Tensor, k: int = 2) -> torch.Tensor:
        return x * k


class Held:
    __slots__ = ()

    @tg.function
    def f(self, x: torch.Tensor, k: int = 2) -> torch.Tensor:
        return x * k


@pytest.mark.parametrize("kind", [Weak, Held])
def test_annotations_and_signature(kind):
    """Were those of the class, once somebody had asked the class for its own."""
    assert BoundFunction.__annotations__ == {}
    x = kind()
    bound = x.f
    assert bound.__annotations__ == {"x": torch.Tensor, "k": int, "return": torch.Tensor}
    assert bound.__name__ == "f" and bound.__qualname__ == f"{kind.__name__}.f"
    assert list(inspect.signature(bound).parameters) == ["x", "k"]
    assert list(inspect.signature(inspect.unwrap(bound)).parameters)[-1] == "k"
    assert torch.equal(bound.__wrapped__(torch.ones(2)), torch.full((2,), 2.0))


def test_signature_of_the_class():
    assert list(inspect.signature(BoundFunction).parameters) == ["function", "instance", "unbound"]
