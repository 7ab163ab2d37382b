"""What would be a race on a GPU is an error of the interpreter."""

import pytest
import torch

from tests.runtime.kernels.triton_worker import Failed, interpret
from tograph.runtime.kernels.triton_text import HEADER, Source

pytest.importorskip("triton")


def run(body: str, programs: int = 1, warps: int = 1, **arguments):
    given = arguments or {"x": torch.arange(1024.0)}
    kinds = {torch.float32: "*fp32", torch.int32: "*i32"}
    signature = {n: kinds[t.dtype] for n, t in given.items()}
    text = HEADER + f"\n\n@triton.jit\ndef k({', '.join(signature)}):\n    i = tl.program_id(0) * 512 + tl.arange(0, 512)\n"  # fmt: skip
    text += "".join(f"    {line}\n" for line in body.split("; "))
    return interpret(Source("k", text, signature, {}, programs, warps), given)


def test_programs_that_store_one_element():
    with pytest.raises(Failed, match="two programs store one element"):
        run("tl.store(x + i % 512, 1.0)", programs=2)
    run("tl.store(x + i, 1.0)", programs=2)


def test_a_program_that_loads_what_another_one_stores():
    for order in ("i + 512", "(i + 512) % 1024"):  # stored behind it, or before
        with pytest.raises(Failed, match="a program loads what another one stores"):
            run(f"tl.store(x + i, tl.load(x + {order}, {order} < 1024))", programs=2)
    run("tl.store(x + i, tl.load(x + i) * 2)", programs=2)


def test_a_number_that_is_stored_where_threads_still_load_it():
    body = "v = tl.load(x); tl.store(x, v + 1)"
    with pytest.raises(Failed, match="a store behind a load without a barrier"):
        run(body, warps=2)
    run(body, warps=1)
    run("v = tl.load(x); tl.debug_barrier(); tl.store(x, v + 1)", warps=2)


def test_an_element_that_another_thread_has_stored():
    body = "tl.store(x + i, 1.0); {}tl.store(x + 512 + i, tl.load(x + 511 - i))"
    with pytest.raises(Failed, match="a load behind a store without a barrier"):
        run(body.format(""), warps=4)
    run(body.format("tl.debug_barrier(); "), warps=4)


def test_elements_in_place_are_those_of_one_thread_where_threads_have_no_copies():
    body = "v = tl.load(x + i); tl.store(x + i, v + tl.sum(v))"
    run(body, warps=16)
    with pytest.raises(Failed, match="a store behind a load"):
        run(body, warps=32)


def test_programs_may_all_set_the_error_cell():
    error = torch.zeros(1, dtype=torch.int32)
    after = run("tl.store(error, tl.maximum(tl.load(error), 3))", programs=2, warps=4, error=error)
    assert after["error"].item() == 3
