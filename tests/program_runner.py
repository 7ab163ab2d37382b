"""Generated programs, run natively and through `tg.function`, compared, and shrunk.

Model. A run gives an Outcome; two outcomes agree when value, exception type, printed text and
arguments afterwards do. A mismatch belongs to a group, the kind of its difference; shrinking drops
statements as long as the program still differs within its group. Invariants: a run gets its own
copies of the tensors, and ends after a time limit. A number and the 0-d tensor of it are equal.

    python -m tests.program_runner --seeds 0:2000 [--size 6] [--shrink] [--show] [--native]
"""

import argparse
import ast
import builtins
import collections
import contextlib
import dataclasses
import io
import linecache
import math
import re
import signal

import torch
from torch.utils import _pytree as pytree

import tograph as tg
from tests.program_generator import generate


@dataclasses.dataclass
class Outcome:
    """What a run showed: its value or exception, what it printed, and its arguments afterwards."""

    value: object
    error: BaseException | None
    printed: str
    args: tuple


# --- running


def compile_program(program, names=None):
    """The function, with its source where `inspect` finds it; `names` are more globals of its module."""
    filename = f"<{program.name}>"
    lines = program.source.splitlines(keepends=True)
    linecache.cache[filename] = (len(program.source), None, lines, filename)
    namespace = {"torch": torch, "__name__": "tests.generated", **(names or {})}
    exec(compile(program.source, filename, "exec"), namespace)
    return namespace[program.name]


@contextlib.contextmanager
def time_limit(seconds):
    """TimeoutError after that many seconds of processor time, so that a loop without an end shows as a mismatch."""

    def stop(*_):
        raise TimeoutError(f"still running after {seconds} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def run(function, program, seconds=20) -> Outcome:
    args = pytree.tree_map_only(torch.Tensor, torch.clone, program.args)
    value = error = None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            with time_limit(seconds):
                value = function(*args)
        except Exception as exception:
            error = exception
    return Outcome(value, error, printed.getvalue(), args)


def run_native(program) -> Outcome:
    return run(compile_program(program), program)


def run_converted(program) -> Outcome:
    return run(tg.function(compile_program(program)), program)


# --- comparing


def nearest_builtin(error_type):
    return next(base for base in error_type.__mro__ if base.__module__ == "builtins")


def same_error(native, converted):
    if isinstance(converted, type(native)):
        return True
    base = nearest_builtin(type(converted))
    return base not in (Exception, BaseException) and isinstance(native, base)


def same_number(x, y):
    return (
        x == y
        or (math.isnan(x) and math.isnan(y))
        or math.isclose(x, y, rel_tol=1e-4, abs_tol=1e-4)
    )


def value_difference(native, converted):
    """None, or how two leaves differ."""
    if (
        isinstance(native, torch.Tensor)
        and isinstance(converted, torch.Tensor)
        and native.dtype != converted.dtype
    ):
        return f"dtype: {native.dtype} natively, {converted.dtype} converted"
    if isinstance(native, torch.Tensor | int | float) and isinstance(
        converted, torch.Tensor | int | float
    ):
        x, y = torch.as_tensor(native), torch.as_tensor(converted)
        if x.shape != y.shape:
            return f"shape: {tuple(x.shape)} natively, {tuple(y.shape)} converted"
        pairs = zip(x.flatten().tolist(), y.flatten().tolist(), strict=True)
        if all(same_number(p, q) for p, q in pairs) and (x.dtype == torch.bool) == (
            y.dtype == torch.bool
        ):
            return None
    elif type(native) is type(converted) and native == converted:
        return None
    return f"value: {native} natively, {converted} converted"


def tree_difference(native, converted):
    leaves, structure = pytree.tree_flatten(native)
    other_leaves, other_structure = pytree.tree_flatten(converted)
    if structure != other_structure:
        return f"structure: {structure} natively, {other_structure} converted"
    differences = map(value_difference, leaves, other_leaves)
    return next((difference for difference in differences if difference), None)


def print_tokens(text):
    text = re.sub(r"tensor\(|, dtype=torch\.\w+|\)|,", " ", text)
    return re.sub(r"([\[\]])", r" \1 ", text).split()


def same_token(x, y):
    try:
        return same_number(float(x), float(y))
    except ValueError:
        return x == y


def print_difference(native, converted):
    one, two = [line.split() for line in (" ".join(print_tokens(t)) for t in (native, converted))]
    if (
        len(one) == len(two)
        and all(map(same_token, one, two))
        and native.count("\n") == converted.count("\n")
    ):
        return None
    return f"print: {native!r} natively, {converted!r} converted"


def describe(error):
    return "no error" if error is None else f"{type(error).__name__}: {error}"


def compare(native: Outcome, converted: Outcome) -> str | None:
    """None where the two outcomes agree, else the first difference."""
    one, two = native.error, converted.error
    if (one is None) != (two is None) or (one is not None and not same_error(one, two)):
        return f"error: {describe(one)} natively, {describe(two)} converted"
    written = tree_difference(native.args, converted.args)
    return (
        print_difference(native.printed, converted.printed)
        or tree_difference(native.value, converted.value)
        or (written and f"argument {written}")
    )


def mismatch(program) -> str | None:
    return compare(run_native(program), run_converted(program))


def group(difference):
    """What mismatches of one cause have in common: the kind of difference, the error types."""
    kind, _, rest = difference.partition(": ")
    if kind == "error":
        one, _, two = rest.partition(" natively, ")
        message = re.sub(r"['\"`(<].*|\d+|\b[a-z]+\d+\b|\n.*", "_", two, flags=re.DOTALL)
        return f"error: {one.partition(':')[0]} natively, {message[:70]} converted"
    return f"{kind}: " + (rest if kind.endswith("dtype") else "")


# --- shrinking


def reductions(tree):
    """Every tree with one statement dropped, or replaced by one of its blocks."""
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, None)
            if not isinstance(statements, list) or isinstance(node, ast.Module):
                continue
            before = list(statements)
            for index, statement in enumerate(before):
                counts = any(getattr(n, "id", "")[:1] == "k" for n in ast.walk(statement))
                if counts and isinstance(statement, ast.Assign | ast.AugAssign):
                    continue
                blocks = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
                blocks += [case.body for case in getattr(statement, "cases", [])]
                for block in [[], *blocks] if not isinstance(statement, ast.FunctionDef) else [[]]:
                    rest = before[:index] + block + before[index + 1 :]
                    statements[:] = rest or ([ast.Pass()] if field == "body" else [])
                    yield tree
                    statements[:] = before


def shrink_program(program, find=mismatch):
    """The smallest program reached by dropping statements that still differs in the same way."""
    wanted = group(find(program))
    source, progress = program.source, True
    while progress:
        progress = False
        for tree in reductions(ast.parse(source)):
            text = ast.unparse(tree) + "\n"
            try:
                candidate = dataclasses.replace(program, source=text)
                difference = find(candidate) if len(text) < len(source) else None
            except SyntaxError:
                continue
            if difference and group(difference) == wanted:
                source, progress = text, True
                break
    return dataclasses.replace(program, source=source)


def shrink(seed, size=6):
    """Prints the smallest program found for a seed, and how it differs."""
    program = shrink_program(generate(seed, size))
    print(f"# seed {seed}, args {program.args}\n{program.source}# {mismatch(program)}\n")
    return program


# --- command line


def native_statistics(seeds, size):
    """How the native runs end, and how many programs branch or loop on a tensor."""
    counts = collections.Counter()
    touched = []
    saved = {name: getattr(torch.Tensor, name) for name in ("__bool__", "__index__", "__iter__")}
    for name, method in saved.items():
        setattr(torch.Tensor, name, lambda self, m=method: (touched.append(1), m(self))[1])
    try:
        for seed in seeds:
            touched.clear()
            program = generate(seed, size)
            outcome = run_native(program)
            counts["programs"] += 1
            counts["lines"] += program.source.count("\n")
            counts["tensor control flow"] += bool(touched)
            counts["returned" if outcome.error is None else type(outcome.error).__name__] += 1
            if outcome.error and type(outcome.error).__name__ not in EXPECTED_ERRORS:
                print(f"# seed {seed}: {describe(outcome.error)}\n{program.source}")
    finally:
        for name, method in saved.items():
            setattr(torch.Tensor, name, method)
    print(dict(counts.most_common()))


EXPECTED_ERRORS = {"ValueError", "RuntimeError", "KeyError", "AssertionError", "UnboundLocalError"}
assert all(hasattr(builtins, name) for name in EXPECTED_ERRORS)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", default="0:200", help="first:end")
    parser.add_argument("--size", type=int, default=6)
    parser.add_argument(
        "--shrink", action="store_true", help="shrink the first mismatch of each group"
    )
    parser.add_argument("--show", action="store_true", help="print the programs, run nothing")
    parser.add_argument("--native", action="store_true", help="statistics of the native runs only")
    options = parser.parse_args()
    first, _, end = options.seeds.partition(":")
    seeds = range(int(first), int(end or int(first) + 1))
    if options.native:
        return native_statistics(seeds, options.size)
    groups = collections.defaultdict(list)
    for seed in seeds:
        program = generate(seed, options.size)
        if options.show:
            print(f"# seed {seed}, args {program.args}\n{program.source}")
        elif difference := mismatch(program):
            groups[group(difference)].append((seed, difference))
    for key, found in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"{len(found):5d}  {key}")
        for seed, difference in found[:3]:
            print(f"         seed {seed}: {difference[:300]}")
        if options.shrink:
            shrink(found[0][0], options.size)
    print(f"{sum(map(len, groups.values()))} mismatches in {len(seeds)} programs")


if __name__ == "__main__":
    main()
