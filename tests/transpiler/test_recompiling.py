"""Files that changed after they were imported are not taken for what runs."""

import importlib.util
import linecache
import types

import pytest
import torch

import tograph as tg

PROGRAM = """
import math

def plain(x):
    if x > 0:
        return x + math.floor(1.5)
    return x

def closing(k):
    def inner(x, again=True):
        if x > 0:
            return inner(x, False) + k if again else x
        return x - 1
    return inner

class Base:
    def of_class(self, x):
        return x

class Private(Base):
    def of_class(self, x):
        self.__k = [v * 1 for v in (1, 2)]
        return super().of_class(x) + self.__k[0] if x > 0 else x

short = lambda x: x + 1 if x > 0 else x
"""


@pytest.fixture
def module(tmp_path):
    file = tmp_path / "edited.py"
    file.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("edited", file)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def forms(module):
    return [module.plain, module.closing(1), module.Private().of_class, module.short]


@pytest.mark.parametrize("k", range(4))
def test_new_files(module, k):
    for x in (torch.tensor(2), torch.tensor(-2)):
        assert tg.function(forms(module)[k])(x) == forms(module)[k](x)


@pytest.mark.parametrize("k", range(4))
def test_files_edited_in_place(module, k):
    edited = PROGRAM.replace("(1.5)", "(2.5)").replace("+ 1", "+ 2").replace("x - 1", "x - 2")
    with open(module.__file__, "w") as file:
        file.write(edited.replace("v * 1", "v * 2"))
    linecache.checkcache(module.__file__)
    with pytest.raises(tg.errors.SourceError, match="the file changed after it was imported"):
        tg.function(forms(module)[k])(torch.tensor(2))


@pytest.mark.parametrize("text", ["# a comment\n# another\n" + PROGRAM, "f(\n", "\n" * 9 + "    x = (\n", "\n"])  # fmt: skip
def test_files_that_hold_something_else(module, text):
    with open(module.__file__, "w") as file:
        file.write(text)
    linecache.checkcache(module.__file__)
    for f in forms(module):
        with pytest.raises(tg.errors.SourceError):
            tg.function(f)(torch.tensor(2))


def test_a_module_that_is_loaded_again(module):
    """Its lines are read again, where those that Python knows are of the file as it was."""
    old = tg.function(module.plain)
    assert old(torch.tensor(2)) == 3
    with open(module.__file__, "w") as file:
        file.write("# longer\n" + PROGRAM.replace("(1.5)", "(20.5)"))
    module.__spec__.loader.exec_module(module)
    assert tg.function(module.plain)(torch.tensor(2)) == 22
    assert old(torch.tensor(2)) == 3


def test_a_function_that_a_decorator_compiled_anew(module):
    plain = module.plain.__code__
    code = (lambda x: len(str(x))).__code__.replace(co_name=plain.co_name, co_filename=plain.co_filename, co_firstlineno=plain.co_firstlineno)  # fmt: skip
    made = types.FunctionType(code, vars(module), "plain")
    with pytest.raises(tg.errors.SourceError, match="a decorator compiled the function anew"):
        tg.function(made)(torch.tensor(2))
