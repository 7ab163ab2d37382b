"""The command line: ``tograph dump FILE.py:fn`` shows what a function becomes, ``run`` runs it.

Model. A command loads the user's file as a module (``loaded``), finds the function in it by its
dotted name, and prints one text. ``STAGES`` is the table of what ``dump`` can show. The graph and
the host program need a trace; ``traces`` tells where its inputs come from.

Invariants:

* Results go to stdout, everything else to stderr. Text is coloured only in a terminal, or where
  ``--color always`` asks for it; without its escape codes it is the plain text.
* Exit status 0 is success, 1 an ``error: ...`` line (with file and line where they are known; a
  traceback only with ``--traceback``), 2 a wrong command line.
* ``sys.path``, ``sys.argv`` and ``sys.modules`` are as before when a command ends.
"""

import argparse
import contextlib
import difflib
import functools
import importlib.machinery
import importlib.util
import inspect
import os
import re
import runpy
import subprocess
import sys
import sysconfig
import traceback
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from . import __version__, function, to_code
from .highlight import highlight_graph, highlight_llvm, highlight_python
from .runtime import passes

__all__ = ["main"]

EPILOG = """\
examples:
  tograph dump samples/newton.py:newton                 the rewritten Python
  tograph dump samples/newton.py:newton --stage graph   the graph that it traces to
  tograph dump model.py:Model.step --stage host --args "Model(), torch.ones(3)"
  tograph run samples/newton.py                         the file, as python runs it
  tograph run samples/newton.py:newton                  one function, on example inputs

Inputs come from --args, else from example_inputs() in the file. NO_COLOR=1 turns colours off."""

_LIBRARIES = {sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")}
NOT_OF_THE_USER = (*(f"{path}{os.sep}" for path in (*_LIBRARIES, Path(__file__).parent)), "<")
PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


class CommandError(Exception):
    """What a user has to change; the text is the whole message."""


# ---- colours


def wants_colour(choice: str) -> bool:
    """Whether to colour stdout: as told, else in a terminal that does not ask for none."""
    if choice != "auto":
        return choice == "always"
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


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
    if path.is_file():
        return path
    if path.is_dir():
        raise CommandError(f"{file} is a directory, not a Python file")
    siblings = [str(p) for p in path.parent.glob("*.py")]
    raise CommandError(f"no file {file!r}{suggestion(file, siblings, 'Python files there')}")


@contextlib.contextmanager
def _environment(path: Path, name: str, module: types.ModuleType | None) -> Iterator[None]:
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
    with _environment(path, name, module):
        try:
            loader.exec_module(module)
        except SystemExit as stop:
            advice = "put its main part under `if __name__ == '__main__':`"
            raise CommandError(f"{path} exited while it was imported: {advice}") from stop
        yield module


def _functions(holder: Any) -> list[str]:
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
            hint = suggestion(part, _functions(found), "functions in it")
            raise CommandError(f"{where} has no function {part!r}{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise CommandError(f"{dotted!r} in {path} is a {type(found).__name__}, not a function")
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
        inspect.signature(fn).bind(*call.args, **call.keywords)
    except TypeError as error:
        return str(error)
    return None


def call_of(fn: Any, name: str, module: types.ModuleType, text: str | None) -> functools.partial:
    """The function with its inputs: --args, none for no parameters, else ``example_inputs()``."""
    parameters = inspect.signature(fn).parameters
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
    if text is None and staged.input_signature is not None:
        return [staged.get_concrete_function()]
    call = call_of(fn, name, module, text)
    return [staged.get_concrete_function(*call.args, **call.keywords)]


# ---- commands


class Stage(NamedTuple):
    """One form of a function. ``show`` takes the function and its traces."""

    help: str
    traced: bool
    show: Callable[[Any], str]
    highlight: Callable[[str], str]


def pass_report(made: Any, every: bool = False) -> str:
    """The graph after each pass that changed it, or after each."""
    return passes.report(made.graph, every)


def kernel_report(made: Any) -> str:
    """The level at which a trace runs, why not a higher one, and its LLVM text."""
    made.scheduled.compile()
    level, reason = made.scheduled.level, made.scheduled.reason
    head = f"; {made.name} runs at level {level}" + (f": {reason}" if reason else "")
    return f"{head}\n{made.scheduled.llvm}"


STAGES = {
    "code": Stage("the rewritten Python", False, to_code, highlight_python),
    "graph": Stage("the traced graph", True, lambda made: str(made.graph), highlight_graph),
    "passes": Stage("the graph after each pass", True, pass_report, highlight_graph),
    "host": Stage("the generated program", True, lambda made: made.host_code, highlight_python),
    "kernels": Stage("the machine code's LLVM text", True, kernel_report, highlight_llvm),
}


def dump(options: argparse.Namespace) -> None:
    """``tograph dump``: print one stage of a function, for each of its traces."""
    file, name = split_target(options.target)
    path = existing(file)
    stage = STAGES["passes" if options.all else options.stage]
    with loaded(path) as module:
        if not name:
            names = ", ".join(_functions(module)) or "none"
            raise CommandError(f"which function? write {file}:NAME; functions in it: {names}")
        fn = find(module, path, name)
        shown = traces(fn, name, module, options.args) if stage.traced else [fn]
        show = functools.partial(pass_report, every=True) if options.all else stage.show
        text = "\n\n".join(show(one).rstrip("\n") for one in shown)
    print(stage.highlight(text) if wants_colour(options.color) else text)


def run(options: argparse.Namespace) -> None:
    """``tograph run``: the file as ``__main__``, or one function, whose result is printed."""
    file, name = split_target(options.target)
    path = existing(file)
    if not name:
        if options.args is not None:
            raise CommandError(f"--args needs a function to call: write {file}:NAME")
        with _environment(path, "__main__", None):
            runpy.run_path(str(path), run_name="__main__")
        return
    with loaded(path) as module:
        fn = find(module, path, name)
        print(call_of(fn, name, module, options.args)())


# ---- the command line and its errors


class _Parser(argparse.ArgumentParser):
    """Names the likely command or stage where an unknown one is given."""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            what = "command" if isinstance(action, argparse._SubParsersAction) else action.dest
            hint = suggestion(value, action.choices, f"{what}s")
            raise argparse.ArgumentError(None, f"no {what} {value!r}{hint}")


def _add_command(commands: Any, action: Callable, target: str, about: str) -> _Parser:
    """A command with the options that all have."""
    command = commands.add_parser(action.__name__, help=about.split(".")[0], description=about)
    command.set_defaults(command=action)
    command.add_argument("target", metavar=target, help="a file and fn in it; Class.fn works too")
    example = '--args "torch.ones(3), n=2"'
    command.add_argument("--args", metavar="ARGS", help=f"inputs, as in a call: {example}")
    command.add_argument("--traceback", action="store_true", help="show an error's full traceback")
    return command


BENCHMARKS = Path(__file__).parent.parent / "benchmarks" / "peers.py"


def bench(options: argparse.Namespace) -> None:
    """``tograph bench``: the programs of benchmarks/peers.py on tograph and its peers."""
    if not BENCHMARKS.exists():
        raise CommandError(
            "the benchmarks are in tograph's repository, not in an installed package"
        )
    status = subprocess.call([sys.executable, str(BENCHMARKS), *options.rest])
    if status:
        raise CommandError(f"the benchmarks ended with status {status}")


def _parser() -> _Parser:
    layout = argparse.RawDescriptionHelpFormatter
    about = "AutoGraph for PyTorch: show what a function becomes, or run it."
    parser = _Parser("tograph", description=about, epilog=EPILOG, formatter_class=layout)
    version = f"tograph {__version__} (torch {torch.__version__})"
    parser.add_argument("--version", action="version", version=version)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    stages = "; ".join(f"{name}: {stage.help}" for name, stage in STAGES.items())
    about = f"Print what a function becomes. The stages are {stages}."
    command = _add_command(commands, dump, "FILE.py:fn", about)
    command.add_argument("--stage", choices=STAGES, default="code", help="default: code")
    command.add_argument(
        "--all", action="store_true", help="--stage passes, with the passes that change nothing"
    )
    command.add_argument("--color", choices=["always", "never", "auto"], default="auto")
    about = "Run a file, or one function of it. A function's result is printed."
    _add_command(commands, run, "FILE.py[:fn]", about)
    about = (
        "Time eleven programs on tograph and on every installed peer: ratios, a table and a plot."
    )
    command = commands.add_parser("bench", description=about, help=about, add_help=False)
    command.add_argument("rest", nargs=argparse.REMAINDER, help="options of benchmarks/peers.py")
    command.set_defaults(command=bench, traceback=False)
    return parser


def _short(file: str) -> str:
    """A file as seen from the current folder, if it is inside."""
    with contextlib.suppress(ValueError):
        return str(Path(file).resolve().relative_to(Path.cwd()))
    return file


def _place(error: BaseException) -> tuple[str, Any] | None:
    """File and line behind an error: what it says itself, or a note of it, or its last frame."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    if location := getattr(error, "location", None):
        return location
    noted = list(PLACE.finditer("\n".join(getattr(error, "__notes__", ()))))
    if noted:
        return noted[-1]["file"], noted[-1]["line"]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not frame.filename.startswith(NOT_OF_THE_USER)]
    return (own[-1].filename, own[-1].lineno) if own else None


def _message(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, CommandError):
        return str(error)
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    first = next(iter(text.strip().splitlines()), "")
    place = _place(error)
    start = f"{_short(place[0])}:{place[1]}: " if place else ""
    return f"{start}{type(error).__name__}" + (f": {first}" if first else "")


def main(argv: list[str] | None = None) -> int:
    """Run the command line; the exit status."""
    options = _parser().parse_args(argv)
    try:
        options.command(options)
        sys.stdout.flush()
    except BrokenPipeError:  # `tograph dump ... | head`: the reader has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:  # the user's code may raise anything; here it becomes one line
        if options.traceback:
            traceback.print_exception(error)
        print(f"error: {_message(error)}", file=sys.stderr)
        return 1
    return 0
