"""From ``FILE.py:fn`` on a command line to a function, its inputs and its traces.

A command loads the user's file as a module (``loaded``), finds the function in it by its dotted name, and calls it with
the inputs of ``--args``, or of ``example_inputs()`` in the file. ``sys.path``, ``sys.argv`` and ``sys.modules`` are as
before when a command ends.
"""

import contextlib
import difflib
import functools
import importlib.machinery
import importlib.util
import re
import sys
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import torch

from .converters.api import function
from .runtime.functions.signatures import signature_of


class CommandError(Exception):
    """What a user has to change; the text is the whole message."""


# ---- from FILE.py:fn to a function


def suggestion(name: str, known: Iterable[str], what: str) -> str:
    """The end of a message about an unknown name: the likely one, else all there are."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f"; did you mean {close[0]!r}?"
    return f"; {what}: {', '.join(names)}" if names else f"; there are no {what}"


def split_target(target: str) -> tuple[str, str]:
    """FILE.py and fn of ``FILE.py:fn``; fn may be missing, and ``C:\\x.py`` has none."""
    file, colon, name = target.rpartition(":")
    if not colon or re.search(r"[\\/]", name) or name.endswith(".py"):
        return target, ""
    return file, name


def existing(file: str) -> Path:
    """The path of a file that is there."""
    path = Path(file)
    if not file:
        raise CommandError("which file? write FILE.py:NAME")
    if path.is_file():
        return path
    if path.is_dir():
        raise CommandError(f"{file} is a directory, not a Python file")
    siblings = [str(p) for p in path.parent.glob("*.py")]
    raise CommandError(f"no file {file!r}{suggestion(file, siblings, 'Python files there')}")


@contextlib.contextmanager
def environment(path: Path, name: str, module: types.ModuleType | None) -> Iterator[None]:
    """What ``python FILE.py`` gives a file: its folder on ``sys.path``, itself in ``sys.argv``."""
    saved = sys.path[:], sys.argv[:], sys.modules.get(name)
    sys.path[:0] = [str(path.resolve().parent)]
    sys.argv[:] = [str(path)]
    if module is not None:
        sys.modules[name] = module
    try:
        yield
    finally:
        sys.path[:], sys.argv[:], before = saved
        if module is not None and before is None:
            sys.modules.pop(name, None)
        elif before is not None:
            sys.modules[name] = before


@contextlib.contextmanager
def loaded(path: Path) -> Iterator[types.ModuleType]:
    """The user's file as a module, importable by its name until the command ends."""
    name = path.stem if path.stem not in sys.modules else f"__tograph_{path.stem}__"
    file = str(path.resolve())
    loader = importlib.machinery.SourceFileLoader(name, file)
    spec = importlib.machinery.ModuleSpec(name, loader, origin=file)
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    with environment(path, name, module):
        try:
            loader.exec_module(module)
        except SyntaxError as error:
            if error.filename is None:  # of a file that is no text
                error.filename, error.lineno = file, 1
            raise
        except SystemExit as stop:
            advice = "put its main part under `if __name__ == '__main__':`"
            raise CommandError(f"{path} exited while it was imported: {advice}") from stop
        yield module


def functions_of(holder: Any) -> list[str]:
    """The names of the functions and classes that a module or class defines."""
    members = vars(holder) if isinstance(holder, types.ModuleType | type) else {}
    home = holder.__name__ if isinstance(holder, types.ModuleType) else None
    return [
        name
        for name, value in members.items()
        if callable(getattr(holder, name)) and not name.startswith("__")
        if home is None or getattr(value, "__module__", None) == home
    ]


def find(module: types.ModuleType, path: Path, dotted: str) -> Any:
    """The function of a dotted name."""
    found: Any = module
    for index, part in enumerate(dotted.split(".")):
        if not hasattr(found, part):
            where = ".".join([str(path), *dotted.split(".")[:index]])
            hint = suggestion(part, functions_of(found), "functions in it")
            raise CommandError(f"{where} has no function {part!r}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise CommandError(
            f"{dotted!r} in {path} cannot be called: it is of type {type(found).__name__}, not a function"
        )
    return found


# ---- inputs and traces


def evaluate(fn: Any, text: str, module: types.ModuleType) -> functools.partial:
    """The call that ``--args`` spells, with the names of the user's file and torch."""
    namespace = {
        "torch": torch,
        **vars(module),
        "__call__": functools.partial(functools.partial, fn),
    }
    try:
        return eval(compile(f"__call__({text})", "--args", "eval"), namespace)
    except SyntaxError as error:
        raise CommandError(f"--args: {error.msg} in {text!r}") from error


def _misfit(fn: Any, call: functools.partial) -> str | None:
    """Why the function cannot be called so, if it cannot."""
    try:
        signature_of(fn).bind(*call.args, **call.keywords)
    except TypeError as error:
        return str(error)
    return None


def call_of(fn: Any, name: str, module: types.ModuleType, text: str | None) -> functools.partial:
    """The function with its inputs: --args, none for no parameters, else ``example_inputs()``."""
    parameters = signature_of(fn).parameters
    source, call = "no inputs", functools.partial(fn)
    if text is not None:
        source, call = "--args", evaluate(fn, text, module)
    elif parameters and hasattr(module, "example_inputs"):
        source, made = "example_inputs()", module.example_inputs()
        call = functools.partial(fn, *(made if isinstance(made, tuple | list) else [made]))
    reason = _misfit(fn, call)
    if reason is None:
        return call
    called = f"{name}({', '.join(map(str, parameters.values()))})"
    hint = 'give its inputs with --args "torch.ones(3), 2"'
    if source == "no inputs":
        raise CommandError(f"{called} needs inputs: {hint}, or define example_inputs() in its file")
    raise CommandError(f"{source} does not fit {called}: {reason}; {hint}")


def traces(fn: Any, name: str, module: types.ModuleType, text: str | None) -> list[Any]:
    """The traces to show: one for --args, else those that exist, else a new one."""
    staged = fn if hasattr(fn, "get_concrete_function") else function(fn)
    if text is None and staged.concrete_functions:
        return staged.concrete_functions
    if text is None and staged.has_specs():
        return [staged.get_concrete_function()]
    call = call_of(fn, name, module, text)
    return [staged.get_concrete_function(*call.args, **call.keywords)]
