"""Random programs about state: each call returns, prints and raises as natively and leaves every outer object the same.

`TOGRAPH_TEST_PROGRAMS=400` in the environment runs that many of each kind instead of the 200 of every run. By hand, more of them:
`python -m tests.test_state_differential 0:5000 [names|language]`.
"""

import collections
import contextlib
import dataclasses
import functools
import io
import linecache
import os
import sys

import pytest
import torch

import tograph as tg
from tests import alias_writer, language_writer, program_writer
from tests.program_runner import describe, print_difference, same_error, time_limit, tree_difference

CHUNK, COUNT = 50, int(os.environ.get("TOGRAPH_TEST_PROGRAMS", "200"))
REFUSED = (tg.errors.StructureError, tg.errors.StagingError)


def load(program, name):
    """The module of a program, fresh."""
    lines = program.source.splitlines(keepends=True)
    linecache.cache[name] = (len(program.source), None, lines, name)
    module = {
        "torch": torch,
        "tg": tg,
        "collections": collections,
        "contextlib": contextlib,
        "functools": functools,
        "dataclasses": dataclasses,
        "__name__": "tests.generated",
    }
    exec(compile(program.source, name, "exec"), module)
    return module


def plain(x):
    """An object as containers, to compare."""
    if isinstance(x, torch.Tensor):
        return x.detach().clone()
    if isinstance(x, (list, tuple, collections.deque)):
        return [type(x).__name__, *map(plain, x)]
    if isinstance(x, dict):
        return {k: plain(v) for k, v in x.items()}
    if isinstance(x, (set, frozenset)):
        return sorted(x)
    if isinstance(x, (bool, int, float, str, type(None))):
        return x
    return {k: plain(v) for k, v in sorted(vars(x).items())}


def run(program, convert, name, seen=program_writer.SEEN):
    """What each call showed: result or error, printed text, and all outer objects afterwards."""
    module = load(program, name)
    f = convert(module["f"])
    shown = []
    for a, n in program.calls:
        result = error = None
        args = [x.clone() if isinstance(x, torch.Tensor) else x for x in (a, n)]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                with time_limit(20):
                    result = plain(f(*args))
            except Exception as exception:
                error = exception
        final = {k: plain(module[k]) for k in seen}
        if "step" in module:
            final["total"] = module["Box"].total
            final["count"] = module["step"].__closure__[0].cell_contents
        shown.append((result, error, printed.getvalue(), final))
    return shown


def difference(seed, writer=program_writer):
    """None where a program does the same, else how it differs; "refused" for a clear error of the converted one."""
    program = writer.generate(seed)
    natively = run(program, lambda f: f, f"<state {seed}>", writer.SEEN)
    converted = run(program, tg.function, f"<state {seed}>", writer.SEEN)
    for one, two in zip(natively, converted, strict=True):
        if isinstance(two[1], REFUSED) and not (one[1] and same_error(one[1], two[1])):
            return "refused: " + str(two[1]).splitlines()[0]
        if (one[1] is None) != (two[1] is None) or (
            one[1] is not None and not same_error(one[1], two[1])
        ):
            return f"error: {describe(one[1])} natively, {describe(two[1])} converted"
        found = print_difference(one[2], two[2]) or tree_difference(one[0], two[0])
        for name in one[3]:
            written = tree_difference(one[3][name], two[3][name])
            found = found or (written and f"{name}: {written}")
        if found:
            return found
    return None


CHUNKS = [  # half of it is of optimised code
    *((program_writer, first) for first in range(0, COUNT, CHUNK)),
    *(pytest.param(alias_writer, k, marks=pytest.mark.unoptimised) for k in range(0, COUNT, CHUNK)),
    (language_writer, 0),
]


@pytest.mark.parametrize(("writer", "first"), CHUNKS)
def test_native_against_converted(writer, first):
    found = {seed: difference(seed, writer) for seed in range(first, first + CHUNK)}
    refused = [s for s, d in found.items() if d and d.startswith("refused")]
    wrong = [
        f"seed {s}: {d}\n{writer.generate(s).source}"
        for s, d in found.items()
        if d and s not in refused
    ]
    assert not wrong, f"{len(wrong)} of {CHUNK} programs differ\n" + "\n".join(wrong[:2])
    assert len(refused) <= CHUNK // 5


def test_programs_do_something():
    shown = [run(program_writer.generate(seed), lambda f: f, "<native>") for seed in range(60)]
    again = [run(program_writer.generate(seed), lambda f: f, "<native>") for seed in range(60)]
    assert sum(calls[0][1] is None for calls in shown) >= 30
    assert all(
        tree_difference(a[-1][3], b[-1][3]) is None for a, b in zip(shown, again, strict=True)
    )
    assert len({str(calls[-1][3]) for calls in shown}) >= 40


if __name__ == "__main__":
    first, end = map(int, sys.argv[1].split(":"))
    kinds = collections.Counter()
    kinds_of_programs = {"names": alias_writer, "language": language_writer}
    chosen = kinds_of_programs.get(sys.argv[-1], program_writer)
    for number in range(first, end):
        text = difference(number, chosen)
        kinds[text.split(":")[0] if text else "same"] += 1
        if text:
            print(number, text[:300])
    print(dict(kinds))
