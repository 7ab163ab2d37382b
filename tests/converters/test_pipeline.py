"""Which conversions are kept in a process, and for how long."""

import gc
import importlib.util
import sys

import torch

import tograph as tg
from tograph.converters.pipeline import conversion, converted_in


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
