"""Programs of the host: what they call."""

import torch

import tograph as tg


def first_word(n):
    words, out, found = ["ab", "cd", "ef", "gh"], "", 0
    while len(out) < n and words[found % 4] != out:
        out = out + words[found % 4] if out < "ef" else words[0] + out
        found = found + 1
    return out, out[0], found


def test_strings_are_written_as_in_python():
    made = tg.function(first_word)
    for n in (1, 7, 0):
        n = torch.tensor(n)
        try:
            expected = first_word(n)
        except IndexError as error:
            expected = error
        try:
            found = made(n)
        except IndexError as error:
            found = error
        assert repr(found) == repr(expected)
    code = made.get_concrete_function(torch.tensor(1)).host_code
    assert "py_text" not in code
    assert "('ab', 'cd', 'ef', 'gh')[" in code


def test_a_number_becomes_a_tensor_by_torchs_own_function():
    def f(x, n):
        while x.sum() > 0 and n < 5:
            x = x - 1
            n = n + 1
        return x, n

    made = tg.function(f)
    code = made.get_concrete_function(torch.ones(3) * 4, torch.tensor(0)).host_code
    assert "aten_scalar_tensor" not in code
    for got, want in zip(
        made(torch.ones(3) * 4, torch.tensor(0)), f(torch.ones(3) * 4, torch.tensor(0))
    ):
        torch.testing.assert_close(got, want)
