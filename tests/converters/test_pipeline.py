"""Which conversions are kept in a process, and for how long."""

import gc
import importlib.util
import linecache
import sys
import weakref

import torch

import tograph as tg
from tograph.converters import pipeline
from tograph.converters.pipeline import conversion, convert_function, converted_in


def test_a_conversion_stays_while_a_copy_of_its_function_lives(tmp_path):
    path = tmp_path / "users.py"
    path.write_text("def f(x):\n    return x + 1 if x > 0 else x\n")

    def loaded():
        spec = importlib.util.spec_from_file_location("users", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    first, second = loaded(), loaded()
    conversion(first.f)
    assert conversion(second.f) is conversion(first.f)
    conversion(second.f)
    del first
    gc.collect()
    assert [name for _, _, name, *_ in converted_in(str(path))] == ["f"]


def test_long_expressions(tmp_path):
    path = tmp_path / "long.py"
    path.write_text("def f(x):\n    return " + " + ".join(["x"] * 600) + "\n")
    spec = importlib.util.spec_from_file_location("long", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    limit = sys.getrecursionlimit()
    assert tg.function(module.f)(torch.tensor(1.0)) == 600
    assert sys.getrecursionlimit() == limit


def test_what_is_known_of_a_function_goes_with_it():
    """Its own code, the converted code, and what is kept for the file of a cell."""

    def one(k):
        source = f"def g(x):\n    return x + {k} if x > 0 else x\n"
        name = f"<cell {k}>"
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        space = {}
        exec(compile(source, name, "exec"), space)
        found = convert_function(space["g"])
        assert found(1) == 1 + k
        del linecache.cache[name]
        return [weakref.ref(found.__code__), weakref.ref(space["g"].__code__)]

    codes = [ref for k in range(20) for ref in one(k)]
    gc.collect()
    assert [ref() for ref in codes] == [None] * len(codes)
    one(20)
    assert [name for name in pipeline._cache if name.startswith("<cell")] == ["<cell 20>"]
