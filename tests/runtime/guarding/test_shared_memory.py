"""Arguments that lie in the memory of a captured tensor, from the second call on."""

import pytest
import torch

import tograph as tg

OPEN = tg.TensorSpec([None], torch.float32)


def adds(w):
    def f(*xs):
        for _ in range(3):
            for x in xs:
                w.add_(x.sum())
        return xs[0] + 1

    return f


def reads(w):
    return lambda x: x.mul_(2).add_(w.sum())


def rows(w, spec):
    @tg.function(input_signature=[spec])
    def f(x):
        n = 0
        while n < 3:
            w.add_(x.sum())
            n += 1
        return x + 1

    return f


def base():
    return torch.arange(64.0)


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (lambda b: tg.function(adds(b[50:54])), lambda b: (b[:60],)),
        (lambda b: tg.function(adds(b[50:54])), lambda b: (b[:60], b[3:8])),
        (lambda b: tg.function(adds(b[50:54])), lambda b: (b[:60:2],)),
        (lambda b: tg.function(adds(b[40:60:4])), lambda b: (b[55:58],)),
        (lambda b: rows(b[50:54], OPEN), lambda b: (b[48:54],)),
        (lambda b: rows(b[50:54], OPEN), lambda b: (b[:60:4],)),
        (lambda b: tg.function(reads(b[50:54])), lambda b: (b[:60],)),
    ],
    ids=["row", "around another", "strided", "strided variable", "open", "open strided", "read"],
)
def test_an_argument_in_the_memory_of_a_captured_tensor_is_an_error_in_later_calls(make, given):
    b = base()
    f, shared = make(b), given(b)
    for _ in range(4):
        f(*(torch.empty_strided(x.shape, x.stride()).zero_() for x in shared))
    before = b.clone()
    with pytest.raises(tg.errors.SharedMemoryError, match="shares memory"):
        f(*shared)
    assert torch.equal(b, before)


def test_the_captured_tensor_itself_as_an_argument_is_traced_anew():
    w, u = torch.arange(4.0), torch.arange(4.0)
    f, g = tg.function(adds(w)), adds(u)
    for _ in range(3):
        for x, y in ((torch.ones(4), torch.ones(4)), (w, u)):
            assert torch.equal(f(x), g(y))
            assert torch.equal(w, u)
    assert f.trace_count == 2


def test_an_argument_beside_a_captured_tensor_is_taken():
    b, u = base(), base()
    f, g = tg.function(adds(b[50:54])), adds(u[50:54])
    for x, y in ((torch.ones(4), torch.ones(4)), (b[46:50], u[46:50]), (b[54:58], u[54:58])):
        assert torch.equal(f(x), g(y))
    assert torch.equal(b, u)
