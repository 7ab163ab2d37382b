"""What is known of code goes with the code."""

import gc
import linecache
import weakref

import torch

import tograph as tg
from tograph.runtime.values import code_names

SOURCE = """
def outer(limit):
    total = torch.zeros(())
    def add(x):
        nonlocal total
        while total < limit:
            total = total + x
        return total
    return add
"""


def made():
    namespace = {"torch": torch, "__name__": "made"}
    exec(compile(SOURCE, "<made>", "exec"), namespace)
    return namespace["outer"]


def test_names():
    code = made()(1.0).__code__
    assert code_names.stored_names(code) == {"total"}
    assert code_names.loaded_variables(code) == {"total", "limit"}
    assert code_names.writes(made().__code__) == (frozenset(), ())
    assert code_names.writes(code)[0] == {"total"}
    assert "zeros" in code_names.code_names(made().__code__)


def test_names_behind_256_others():
    """Their places take more than a byte of an instruction."""
    many = "\n    ".join(f"g{i}, c{i} = h{i}, c{i}" for i in range(300))
    cells = " = ".join(f"c{i}" for i in range(300))
    source = f"def outer():\n  {cells} = 0\n  def inner():\n    nonlocal {', '.join(f'c{i}' for i in range(300))}\n"
    source += f"    global {', '.join(f'g{i}' for i in range(300))}\n    {many}\n  return inner\n"
    namespace = {}
    exec(source, namespace)
    code = namespace["outer"]().__code__
    free = {f"c{i}" for i in range(300)}
    assert code_names.loaded_globals(code) == tuple(f"h{i}" for i in range(300))
    assert code_names.loaded_variables(code) == free
    assert code_names.stored_names(code) == free | {f"g{i}" for i in range(300)}
    assert code_names.writes(code) == (free, tuple(sorted(f"g{i}" for i in range(300))))


def test_the_conversion_of_a_function_goes_with_it(monkeypatch):
    monkeypatch.setitem(linecache.cache, "<made>", (len(SOURCE), None, SOURCE.splitlines(keepends=True), "<made>"))  # fmt: skip
    add = made()(3.0)
    assert tg.function(add)(torch.tensor(2.0)) == 4
    code = weakref.ref(add.__code__)
    del add
    gc.collect()
    assert code() is None
