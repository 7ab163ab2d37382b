"""Programs of the host: what they call."""

import linecache
import traceback

import pytest
import torch

import tograph as tg
from tograph.runtime.execution import host
from tograph.runtime.graph import interp


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


CHAIN = f"""def chain(n):
    if n == 0: r = 1
{"".join(f"    elif n == {i}: r = 6 // (n - 77) + {i}" + chr(10) for i in range(1, 120))}    else: r = -1
    return r
"""


def test_what_nests_deeper_than_python_allows_is_a_function_of_its_own():
    linecache.cache["chain.py"] = (len(CHAIN), None, CHAIN.splitlines(True), "chain.py")
    namespace = {}
    exec(compile(CHAIN, "chain.py", "exec"), namespace)
    plain = namespace["chain"]
    made = tg.function(plain)
    for n in (0, 5, 119, 300):
        assert made(torch.tensor(n)) == plain(torch.tensor(n))
    concrete = made.get_concrete_function(torch.tensor(0))
    assert "def part" in concrete.host_code
    program = host.build(concrete.graph)
    assert program.run(torch.tensor(119)) == interp.run(concrete.graph, [torch.tensor(119)])
    with pytest.raises(RuntimeError, match="ZeroDivisionError") as caught:
        program.run(torch.tensor(77))
    frame, line = list(traceback.walk_tb(caught.value.__traceback__))[-1]
    node, graph = host.node_of(frame.f_code, line)
    assert graph is concrete.graph
    assert node.location[1] == 79
