"""Native programs: one call at a time has the code."""

import torch

import tograph as tg
from tograph.runtime.native.program import Native


def test_a_call_of_another_thread_in_between_has_the_code(monkeypatch):
    @tg.function
    def double(x, n):
        for _ in range(n):
            x = x * 2
        return x

    given = [torch.ones(3), torch.tensor(2)]
    made = double.get_concrete_function(*given)
    made(*given)
    native, fits = made.scheduled.native, Native._fits
    native._whole, native._runs = None, 1000  # no entry in machine code takes the call

    def busy(self, inputs):
        found = fits(self, inputs)
        self._lock[0] = 1  # as an entry claims the code, where threads switch
        return found

    assert native.run(given) is not None
    monkeypatch.setattr(Native, "_fits", busy)
    assert native.run(given) is None
    monkeypatch.undo()
    assert native._lock[0] == 1
    native._lock[0] = 0
    assert torch.equal(native.run(given)[0], torch.full((3,), 4.0))
