"""Fourier transforms of frames with windows that are arguments, against eager PyTorch."""

import pytest
import torch

import tograph as tg


def back(spectrum, window):
    y = torch.istft(spectrum, 16, 4, window=window, length=64)
    return y * 2 if y.sum() > 0 else y


def by_the_method(spectrum, window):
    return spectrum.istft(16, 4, 16, window)


def phases(size, window):
    angles, n, error = torch.ones_like(size).to(torch.complex64), 0, torch.tensor(1e9)
    while error > 0.5 and n < 4:
        wave = torch.istft(size * angles, 16, 4, window=window, length=64)
        again = torch.stft(wave, 16, 4, window=window, return_complex=True)
        error = (again.abs() - size).abs().sum()
        angles, n = again / again.abs().clamp(min=1e-8), n + 1
    return wave


@pytest.mark.parametrize("f", [back, by_the_method, phases])
def test_the_window_is_an_argument(f):
    staged, size = tg.function(f), torch.rand(9, 17)
    x = size if f is phases else torch.polar(size, torch.rand(9, 17))
    for window in (torch.hann_window(16), torch.hamming_window(16)):
        torch.testing.assert_close(staged(x, window), f(x, window), rtol=1e-4, atol=1e-4)
    assert staged.trace_count == 1


def test_windows_that_add_up_to_zero_are_torchs_error():
    spectrum = torch.rand(9, 17) + 0j
    staged = tg.function(back)
    staged(spectrum, torch.hann_window(16))
    with pytest.raises(RuntimeError) as expected:
        back(spectrum, torch.zeros(16))
    with pytest.raises(RuntimeError) as found:
        staged(spectrum, torch.zeros(16))
    assert str(expected.value).split("\n", maxsplit=1)[0] in str(found.value)
    assert staged.trace_count == 1
