"""The command line: ``dump``, ``explain`` and ``report`` show what a function becomes, ``run`` runs it.

Model. A command finds the function that ``FILE.py:fn`` names (``targets``), and prints one text or writes one file.
``STAGES`` is the table of what ``dump`` can show.

Invariants:

* Results go to stdout, everything else to stderr. Text is coloured only in a terminal, or where
  ``--color always`` asks for it; without its escape codes it is the plain text.
* Exit status 0 is success, 1 an ``error: ...`` line (with file and line where they are known; a
  traceback only with ``--traceback``), 2 a wrong command line.
* ``sys.path``, ``sys.argv`` and ``sys.modules`` are as before when a command ends.
"""

import argparse
import contextlib
import functools
import os
import re
import runpy
import sys
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from . import __version__, bench, explaining, function, to_code
from .explaining import Explained
from .highlight import highlight_graph, highlight_llvm, highlight_python
from .runtime import passes
from .runtime import report as pages
from .runtime.gpu import program as gpu
from .targets import (
    CommandError,
    call_of,
    environment,
    existing,
    find,
    functions_of,
    loaded,
    split_target,
    suggestion,
    traces,
)

__all__ = ["main"]

EPILOG = """\
examples:
  tograph dump samples/newton.py:newton                 the rewritten Python
  tograph dump samples/newton.py:newton --stage graph   the graph that it traces to
  tograph dump model.py:Model.step --stage host --args "Model(), torch.ones(3)"
  tograph explain samples/newton.py:newton              what was staged, line by line
  tograph report samples/newton.py:newton -o out.html   a page: sources, graph, times
  tograph run samples/newton.py                         the file, as python runs it
  tograph run samples/newton.py:newton                  one function, on example inputs

Inputs come from --args, else from example_inputs() in the file. NO_COLOR=1 turns colours off."""

_LIBRARIES = {sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")}
NOT_OF_THE_USER = (*(f"{path}{os.sep}" for path in (*_LIBRARIES, Path(__file__).parent)), "<")
PLACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+)')


# ---- colours


def wants_colour(choice: str) -> bool:
    """Whether to colour stdout: as told, else in a terminal that does not ask for none."""
    if choice != "auto":
        return choice == "always"
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


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


def plan_report(made: Any) -> str:
    """The plan on a GPU, of a trace on the CPU as it would be there."""
    return gpu.described(made.value_graph)


STAGES = {
    "code": Stage("the rewritten Python", False, to_code, highlight_python),
    "graph": Stage("the traced graph", True, lambda made: str(made.graph), highlight_graph),
    "passes": Stage("the graph after each pass", True, pass_report, highlight_graph),
    "host": Stage("the generated program", True, lambda made: made.host_code, highlight_python),
    "plan": Stage("what one CUDA graph would do", True, plan_report, highlight_graph),
    "kernels": Stage("the machine code's LLVM text", True, kernel_report, highlight_llvm),
}


def dump(options: argparse.Namespace) -> None:
    """``tograph dump``: print one stage of a function, for each of its traces."""
    file, name = split_target(options.target)
    path = existing(file)
    stage = STAGES["passes" if options.all else options.stage]
    with loaded(path) as module:
        if not name:
            names = ", ".join(functions_of(module)) or "none"
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
        with environment(path, "__main__", None):
            runpy.run_path(str(path), run_name="__main__")
        return
    with loaded(path) as module:
        fn = find(module, path, name)
        print(call_of(fn, name, module, options.args)())


def _fresh(options: argparse.Namespace) -> tuple[Any, functools.partial, list[Explained]]:
    """A trace of the function that a command names, made now; its call; what was staged and why."""
    file, name = split_target(options.target)
    path = existing(file)
    with loaded(path) as module:
        if not name:
            names = ", ".join(functions_of(module)) or "none"
            raise CommandError(f"which function? write {file}:NAME; functions in it: {names}")
        fn = find(module, path, name)
        staged = fn if hasattr(fn, "get_concrete_function") else function(fn)
        if options.args is None and staged.has_specs():
            call = functools.partial(staged)
        else:
            call = call_of(staged, name, module, options.args)
            args, kwargs = staged.fitted(call.args, call.keywords)
            call = functools.partial(staged, *args, **kwargs)
        staged.clear_cache()
        made, lines = explaining.explain(
            lambda: staged.get_concrete_function(*call.args, **call.keywords)
        )
        return made, call, lines


def explain(options: argparse.Namespace) -> None:
    """``tograph explain``: line by line, what was staged, what stayed Python, and why."""
    made, _, functions = _fresh(options)
    text = explaining.show(functions, _short)
    print(explaining.highlight(text) if wants_colour(options.color) else text)
    if gpu.on_gpu(made.graph):
        made.scheduled.compile()
        level, reason = made.scheduled.level, made.scheduled.reason
        print(f"\n{made.name} runs at level {level}" + (f": {reason}" if reason else ""))
        for kernel in made.kernels:
            print(f"  kernel {kernel.name}" + (f": {kernel.choice}" if kernel.choice else ""))


def report(options: argparse.Namespace) -> None:
    """``tograph report``: one HTML page about a function."""
    made, call, functions = _fresh(options)
    extras = made.timed(*call.args, **call.keywords)
    extras.kinds = {
        (f.file, line.number): (line.kind, line.why) for f in functions for line in f.lines
    }
    try:
        path = pages.write(pages.collect(made, extras), options.output)
    except OSError as error:
        raise CommandError(f"cannot write {options.output}: {error.strerror}") from error
    print(f"{path}: open it in a browser")


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
    about = "Tell line by line what is staged. Each line is part of the graph, or stayed Python, and why."
    command = _add_command(commands, explain, "FILE.py:fn", about)
    command.add_argument("--color", choices=["always", "never", "auto"], default="auto")
    about = "Write one HTML page about a function. It shows sources, graph, program, kernels and times of a run."
    command = _add_command(commands, report, "FILE.py:fn", about)
    command.add_argument(
        "-o", "--output", metavar="OUT.html", default="report.html", help="default: report.html"
    )
    about = "Run a file, or one function of it. A function's result is printed."
    _add_command(commands, run, "FILE.py[:fn]", about)
    bench.add(commands)
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
