"""Random programs: their graphs in parts of fixed size give, print, write and fail as the graphs do."""

import contextlib
import io

import pytest
import torch

import tograph as tg
from tests.program_generator import generate
from tests.program_runner import compile_program
from tests.runtime.gpu.test_bounded import undefined  # noqa: F401  memory that nobody wrote to is the worst there is
from tograph.runtime.gpu.bounded import bounded
from tograph.runtime.graph import interp
from tograph.runtime.graph.ir import all_nodes
from tograph.runtime.kernels.loop_ir import Unsupported

CHUNK = 20


def traced(seed):
    """(graph, run-time inputs), or None for a program that cannot be traced."""
    program = generate(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            concrete = tg.function(compile_program(program)).get_concrete_function(*program.args)
        except Exception:
            return None  # what the differential test of whole functions is about
    tensors, _ = concrete._bind(concrete, program.args, {})
    return concrete.value_graph, [*tensors, *concrete.captured_inputs]


def run(call):
    """(outputs, whether it raised, what it printed)."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            return call(), False, printed.getvalue()
        except Exception:
            return None, True, printed.getvalue()


def equal(a, b):
    if isinstance(b, (tuple, list)):
        return len(a) == len(b) and all(map(equal, a, b))
    if isinstance(b, torch.Tensor):
        return (
            a.shape == b.shape
            and a.dtype == b.dtype
            and torch.allclose(a, b, rtol=1e-4, equal_nan=True)
        )
    return type(a) is type(b) and (a == b or a != a)


def copies(inputs):
    return [x.clone() if isinstance(x, torch.Tensor) else x for x in inputs]


def difference(graph, inputs):
    """What differs, or an empty string; None where there is no bounded graph."""
    try:
        made = bounded(graph, "cpu")
    except Unsupported:
        return None
    theirs, mine = copies(inputs), copies(inputs)

    def call():
        outputs, written = made.unpack(interp.run(made.graph, made.pack(mine)))
        for i, x in zip(made.written, written, strict=True):
            mine[i].copy_(x)
        return outputs

    want, fails, text = run(lambda: interp.run(graph, theirs))
    got, failed, shown = run(call)
    if failed and not fails and any(n.op == "Try" for n in all_nodes(graph)):
        return "" if text.startswith(shown) else f"printed {shown!r}"  # what is caught ends a plan
    if fails or failed:
        return (
            "" if fails and failed and text.startswith(shown) else f"raises: {failed}, not {fails}"
        )
    return "" if equal([*got, *mine], [*want, *theirs]) and shown == text else f"{got}, not {want}"


@pytest.mark.parametrize("first", range(0, 3 * CHUNK, CHUNK))
def test_programs_in_parts_of_fixed_size(first):
    found, count = [], 0
    for seed in range(first, first + CHUNK):
        if (case := traced(seed)) is None:
            continue
        differs = difference(*case)
        count += differs is not None
        if differs:
            found.append(f"seed {seed}: {differs}")
    assert not found, "\n".join(found)
    assert count >= CHUNK * 3 // 4
