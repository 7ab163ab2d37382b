"""Local functions that assign variables of the function around them, defined and called in branches, loops and ``try``."""

import importlib.util

import torch

from tests.converters.both import Cases
from tograph import settings
from tograph.converters import functional, jumps, pipeline
from tograph.transpiler.syntax import walk

cases = Cases()


@cases((1.5,), (-1.5,))
def defined_in_a_branch(x):
    total = x
    if x > 0:

        def add():
            nonlocal total
            total = total + 10

        add()
        add()
    return total


@cases((3.5,), (-1.5,))
def defined_in_a_loop(x):
    total = x
    while x > 0:

        def step():
            nonlocal total, x
            total = total + 10
            x = x - 1

        step()
    return total, x


@cases((1.5,), (-1.5,))
def defined_in_a_try(x):
    total = x
    try:

        def add():
            nonlocal total
            total = total + 10

        add()
        assert x > 0
    except AssertionError:
        pass
    return total


@cases.tensors((torch.tensor([1.0, -2.0]),))
def defined_deeper(x):
    best, count = x[0], 0
    for v in x:

        def outer():
            def inner():
                nonlocal best
                best = best + v

            nonlocal count
            count += 1
            if v < 0:
                inner()

        outer()
    return best, count


@cases((1.5,), (-1.5,))
def of_the_function_around_the_one_with_the_branch(x):
    total = 0.5

    def outer(v):
        before = total
        if v > 0:
            after = before + 1
        else:

            def inner():
                nonlocal total
                total += v
                return total

            after = inner()
        return before + after

    return outer(x), total


test_same = cases.test()


def _looks(count, tmp_path, monkeypatch):
    """How many nodes the conversion of early exits, one in the rest of the other, asks for what is below them."""
    exits = "".join(
        f"    if x > {i}:\n        return x + {i}\n    x = x * 2\n" for i in range(count)
    )
    path = tmp_path / f"exits{count}.py"
    path.write_text(f"def f(x):\n{exits}    return x\n")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    seen = []
    with monkeypatch.context() as patched:
        below = functional.children
        patched.setattr(functional, "children", lambda n: (seen.append(n), below(n))[1])
        asked = jumps.has_yield
        patched.setattr(jumps, "has_yield", lambda n: (seen.extend(walk(n)), asked(n))[1])
        pipeline.conversion(module.f)
    return len(seen)


def test_each_body_is_counted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "CACHE_DIR", str(tmp_path))
    few, many = (_looks(n, tmp_path, monkeypatch) for n in (10, 40))
    assert 0 < many < 5 * few
