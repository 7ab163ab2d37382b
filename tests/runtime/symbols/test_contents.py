"""What tensors from outside hold, where code needs it while tracing: the same as in plain Python, and a guard."""

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.errors import AliasError, SymbolicValueError

# plain Python warns too: torch's __array__ does not take numpy's ``copy``
pytestmark = pytest.mark.filterwarnings("ignore:__array_:DeprecationWarning")

SCALE = torch.tensor([1.0, 2.0, 4.0])


def both(make, *calls):
    """The results of a function's calls, plain and converted; ``make`` gives it anew."""
    plain, staged = make(), tg.function(make())
    for args in calls:
        torch.testing.assert_close(staged(*args), plain(*args))
    return staged


@pytest.mark.parametrize(
    "of",
    [
        lambda: SCALE.numpy(),
        lambda: np.asarray(SCALE),
        lambda: np.array((1 - SCALE) / SCALE),
        lambda: np.sqrt(SCALE),
        lambda: np.concatenate([np.ones(2), [SCALE[1] / 2]]),
        lambda: np.linspace(0, SCALE.sum().item(), 3),
        lambda: torch.logspace(0, 1, int(SCALE[2])),
    ],
)
def test_arrays_of_a_captured_tensor(of):
    def make():
        def f(x):
            y = x * float(of().sum())
            if y > 3:
                y = y * float(of()[0])
            return y

        return f

    staged = both(make, (torch.tensor(1.5),), (torch.tensor(-0.5),))
    assert staged.trace_count == 1


def test_another_content_traces_anew():
    table = torch.tensor([1.0, 2.0, 3.0])
    staged = tg.function(lambda x: x * float(np.array(table).sum()))
    assert staged(torch.tensor(2.0)) == 12
    table[0] = 5
    assert staged(torch.tensor(2.0)) == 20
    table.data[0] = float("nan")
    assert [staged(torch.tensor(2.0)).isnan().item() for _ in range(2)] == [True, True]
    assert staged.trace_count == 3


def test_a_zero_of_another_sign_traces_anew():
    table = torch.zeros(2)
    f = lambda x: x * float(np.copysign(1, table.numpy()).sum())  # noqa: E731
    staged, x = tg.function(f), torch.tensor(3.0)
    assert staged(x) == f(x) == 6
    table[0] = -0.0
    assert staged(x) == f(x) == 0


def test_what_the_function_writes_behind_it():
    def make():
        steps = torch.zeros(2)

        def f(x):
            y = x + np.array(steps).sum()
            steps.add_(1)
            return y

        return f

    both(make, *[(torch.tensor(2.0),)] * 3)


def test_a_schedule_that_a_method_makes_of_its_tensors():
    class Schedule:
        def __init__(self):
            self.alphas = torch.linspace(0.9, 0.1, 8)

        def start(self, n):
            at = np.linspace(0, 7, n).round()[::-1].astype(np.int64)
            sigmas = np.array(((1 - self.alphas) / self.alphas) ** 0.5)
            self.sigmas = torch.from_numpy(np.interp(at, np.arange(8), sigmas).astype(np.float32))
            self.at = torch.from_numpy(at.copy())

    def make():
        schedule = Schedule()

        def f(x):
            schedule.start(5)
            for i, t in enumerate(schedule.at):
                x = x - schedule.sigmas[i] * torch.tanh(x + t)
                if x.abs().max() > 4:
                    break
            return x, i, schedule.sigmas

        return f

    both(make, (torch.ones(2),), (-torch.ones(2),))


def test_the_window_of_an_inverse_transform():
    window = torch.hann_window(16)

    def make():
        def f(x):
            y, n = x, 0
            while n < 3 and y.norm() > 0.1:
                spectrum = torch.stft(y, 16, 4, window=window, return_complex=True)
                y, n = torch.istft(spectrum * 0.5, 16, 4, window=window, length=64), n + 1
            return y

        return f

    both(make, (torch.rand(64),), (torch.rand(64),))


def test_what_shares_memory_with_an_array_is_not_written():
    table = torch.ones(3)

    def f(x):
        a = table.numpy()
        table.add_(1)
        return x * a.sum()

    with pytest.raises(AliasError, match=r"content was needed while tracing \(line"):
        tg.function(f)(torch.tensor(2.0))

    def writes(x):
        table.numpy()[0] = 5.0
        return x

    with pytest.raises(ValueError, match="read-only"):
        tg.function(writes)(torch.tensor(2.0))


def test_what_an_iteration_writes_is_not_known():
    table = torch.ones(3)

    def f(x):
        while x < 10:
            x = x + np.array(table).sum()
            table.add_(1)
        return x

    with pytest.raises(AliasError):
        tg.function(f)(torch.tensor(2.0))


@pytest.mark.parametrize("late", [False, True])
def test_arguments_and_what_was_written_are_not_known(late):
    table = torch.ones(3)

    def f(x):
        if late:
            table.add_(x)
        return x * np.array(table if late else x).sum()

    with pytest.raises(SymbolicValueError):
        tg.function(f)(torch.tensor(2.0))


def test_a_tensor_that_requires_a_gradient_is_no_array():
    weight = torch.ones(2, requires_grad=True)
    for of in (lambda x: x * np.array(weight).sum(), lambda x: np.log(x * weight)):
        with pytest.raises(RuntimeError, match="requires grad"):
            tg.function(of)(torch.tensor(2.0))
    staged = tg.function(lambda x: x * weight.detach().numpy().sum())
    assert staged(torch.tensor(2.0)) == 4
