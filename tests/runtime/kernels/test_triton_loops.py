"""Loops inside one Triton kernel: values in the interpreter, code for four architectures, and what is refused."""

import linecache

import pytest
import torch

import tograph as tg
from tests.block_programs import Writer
from tests.late_loops import until_all_are_done, while_any_is_left
from tests.runtime.kernels.loop_programs import all_move, divide, halve_each, one_slow
from tests.runtime.kernels.triton_samples import flat
from tests.runtime.kernels.triton_worker import interpret
from tograph.bench import programs
from tograph.runtime.graph import interp
from tograph.runtime.graph.types import TensorType
from tograph.runtime.kernels import triton_jit, triton_loops
from tograph.runtime.kernels.loop_ir import DIVISION_BY_ZERO, Unsupported
from tograph.runtime.kernels.triton_text import ERROR
from tograph.runtime.passes import write_in_place

pytest.importorskip("triton")


def loop_of(fn, *args):
    """(graph before the loop and with it, the While node) of a function's only loop."""
    graph = write_in_place(tg.function(fn).get_concrete_function(*args).value_graph)
    (node,) = [n for n in graph.nodes if n.op == "While"]
    return graph, node


def inputs_of(graph, node, args):
    """The run-time values of a node's arguments, and of its outputs."""
    graph.outputs = [a for a in node.args if hasattr(a, "type")]
    given = dict(zip(graph.outputs, interp.run(graph, args)))
    graph.outputs = list(node.outputs)
    return [given.get(a, a) if hasattr(a, "type") else a for a in node.args], interp.run(
        graph, args
    )


def run(node, arguments):
    """(outputs of the kernel, error code)."""
    loop = triton_loops.render(node, "loop")
    source = loop.source
    tensors = {}
    for k, x in enumerate(arguments):
        if f"p{k}" in source.signature:
            tensors[f"p{k}"] = flat(x)
        if f"s{k}" in source.signature:
            tensors[f"s{k}"] = x
    for name, v in zip(loop.outputs, node.outputs):
        n = source.programs if name in loop.counted else triton_loops.size_of(v)
        tensors[name] = torch.zeros(n, dtype=v.type.dtype)
    tensors[ERROR] = torch.zeros(1, dtype=torch.int32)
    tensors[triton_loops.STEPS] = torch.zeros(source.programs, dtype=torch.int64)
    after = interpret(source, {name: tensors[name] for name in source.signature})
    code = int(after[ERROR]) if ERROR in after else 0
    last = int(after[triton_loops.STEPS].argmax()) if triton_loops.STEPS in after else 0
    return [after[name][last] if name in loop.counted else after[name] for name in loop.outputs], code, loop  # fmt: skip


def check(fn, *args):
    graph, node = loop_of(fn, *args)
    arguments, want = inputs_of(graph, node, args)
    got, code, loop = run(node, arguments)
    assert code == 0
    for a, b, v in zip(got, want, node.outputs, strict=True):
        if isinstance(v.type, TensorType):
            torch.testing.assert_close(a.reshape(b.shape), b, rtol=1e-6, atol=1e-6)
        else:
            assert a.item() == b
    return loop


def test_newton_on_numbers():
    loop = check(programs.newton, torch.tensor(2.0), torch.tensor(20, dtype=torch.int32))
    assert loop.form == "whole" and "XBLOCK" not in loop.source.text


def test_branches_become_branches():
    loop = check(programs.collatz, torch.tensor(40, dtype=torch.int32))
    assert loop.source.text.count("if ") == 2 and loop.source.text.count("else:") == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int64])
def test_items_of_vectors_and_vectors_of_items(dtype):
    """To the last bit: a negative zero stays one."""

    def pair(y, z):
        n = torch.zeros_like(y[0])
        while n < 3:
            u, v = y[0], y[-1]
            y = torch.stack([v + u, u * z[1]])
            n = n + 1
        return y, n

    given = torch.tensor([0, 5], dtype=dtype), torch.tensor([1, -1], dtype=dtype)
    if dtype.is_floating_point:
        given[0][0] *= -1
    graph, node = loop_of(pair, *given)
    arguments, want = inputs_of(graph, node, given)
    got, code, loop = run(node, arguments)
    assert code == 0 and loop.form == "whole"
    for a, b in zip(got, want, strict=True):
        assert torch.equal(a.reshape(b.shape).view(torch.uint8), b.reshape(b.shape).view(torch.uint8)) if b.dim() else a.item() == b  # fmt: skip


def test_vectors_with_reductions_and_a_matrix():
    torch.manual_seed(0)
    a = torch.randn(20, 20)
    loop = check(programs.power_iteration, a @ a.T, torch.ones(20) / 20**0.5, torch.tensor(1e-3))
    assert loop.source.constants == {"XBLOCK": 32} and "mask[:, None]" in loop.source.text


def test_python_numbers_and_escapes():
    def walk(x, limit):
        steps, total = 0, 0.0
        while abs(x) > 1e-3:
            if steps > limit:
                break
            x = x * 0.5
            steps += 3
            total = total + steps * 0.25
        return x, steps, total

    check(walk, torch.tensor(9.0, dtype=torch.float64), 12)
    check(walk, torch.tensor(0.0, dtype=torch.float64), 12)


def test_a_loop_in_a_loop():
    def nested(x):
        total = torch.zeros(())
        while x.sum() > 1:
            inner = x
            while inner.max() > 0.5:
                inner = inner * 0.5
                total = total + 1
            x = x - 0.25 * inner
        return x, total

    check(nested, torch.rand(7, generator=torch.Generator().manual_seed(0)) * 3)


def mandelbrot_inputs(rows, columns):
    re, im = torch.meshgrid(torch.linspace(-2, 0.6, rows), torch.linspace(-1.3, 1.3, columns), indexing="ij")  # fmt: skip
    return re.contiguous(), im.contiguous(), torch.tensor(12, dtype=torch.int32)


def test_blocks_end_when_their_own_elements_do(monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    loop = check(programs.mandelbrot, *mandelbrot_inputs(25, 30))
    assert loop.form == "blocks" and loop.source.programs == 3 and "mask" in loop.source.text


def test_the_number_of_steps_is_the_largest_of_all_blocks(monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    check(halve_each, one_slow())
    check(halve_each, torch.zeros(600))


def test_a_block_that_would_change_further_is_noticed(monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    x = one_slow()
    graph, node = loop_of(all_move, x)
    arguments, _ = inputs_of(graph, node, (x,))
    assert run(node, arguments)[1] == triton_loops.UNSETTLED


def drift(x, n):
    for i in range(n):
        x = x * 0.5 + i
    return x


def halve_masked(x):
    step = torch.zeros(())
    while (x > 1).any():
        x = torch.where(x > 1, x * 0.5 - step, x)
        step = step + 1
    return x, step


def until_done(x):
    done = torch.zeros_like(x, dtype=torch.bool)
    while not done.all():
        x = torch.where(done, x, x * 0.5)
        done = done | (x < 1)
    return x, done


@pytest.mark.parametrize("fn", [halve_masked, until_done])
def test_elements_whose_mask_is_computed(fn, monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    assert check(fn, one_slow()).form == "blocks"


def test_a_loop_that_numbers_end(monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    assert check(drift, torch.linspace(-2, 2, 600), torch.tensor(7)).form == "blocks"


@pytest.mark.parametrize("fn", [until_all_are_done, while_any_is_left])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 40])
def test_a_body_that_asks_what_it_has_made(fn, n, monkeypatch):
    """With 2, the elements of some blocks end in the iteration in which the number ends the others."""
    monkeypatch.setattr(triton_loops, "MOST", 64)
    loop = check(fn, one_slow(), torch.tensor(n))
    assert loop.form == "blocks" and triton_loops.GOING in loop.source.text


@pytest.mark.parametrize("seed", [14, 27, 62, 134, 208])
def test_random_bodies_that_ask_what_they_have_made(seed, monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 63)
    program = Writer(seed)
    loop = check(defined(program), *program_inputs(program, seed), torch.tensor(seed % 10))
    assert loop.form == "blocks" and triton_loops.GOING in loop.source.text


def defined(program):
    name = "<a loop over elements>"
    linecache.cache[name] = (len(program.source), None, program.source.splitlines(True), name)
    space = {"torch": torch}
    exec(compile(program.source, name, "exec"), space)
    return space["f"]


def program_inputs(program, seed):
    made = torch.Generator().manual_seed(seed)
    kinds = [(dtype, program.shape) for dtype in program.state.values()] + [*program.others.values()]  # fmt: skip
    for dtype, shape in kinds:
        x = torch.randn(shape, generator=made) * 4
        yield x > 0 if dtype == "bool" else x.abs().to(torch.uint8) if dtype == "uint8" else x.to(getattr(torch, dtype))  # fmt: skip


@pytest.mark.parametrize("value", [3, 0])
def test_failures_in_a_loop_are_reported(value):
    args = torch.tensor(1000), torch.tensor(value)
    graph, node = loop_of(divide, torch.tensor(1000), torch.tensor(3))
    _, code, _ = run(node, list(args)) if value == 0 else run(node, inputs_of(graph, node, args)[0])
    assert code == (0 if value else DIVISION_BY_ZERO)


def test_an_int_beyond_64_bits_is_reported():
    def grow(x):
        n = 1 << 60
        while x > 0:
            n = n + n
            x = x - 1
        return n

    for steps, expected in ((2, 0), (3, triton_loops.OVERFLOW)):
        graph, node = loop_of(grow, torch.tensor(2))
        arguments, _ = inputs_of(graph, node, (torch.tensor(2),))
        arguments = [torch.tensor(steps) if isinstance(a, torch.Tensor) else a for a in arguments]
        assert run(node, arguments)[1] == expected


def smoothed(x):
    while (x.abs() > 1).any():
        x = x - x.mean()
    return x


def counted(x):
    step = torch.zeros(())
    while (x > 1).any():
        x = x * 0.5 - step
        step = step + 1
    return x


def until_one(x):
    while not (x < 1).any():
        x = x * 0.5
    return x


def left_while_it_changes(x):
    """An element that is done goes on to change."""
    while True:
        x = x * 0.5
        if (x < 1).all():
            break
    return x


def printed(x):
    while x.sum() > 1:
        tg.print(x)
        x = x * 0.5
    return x


@pytest.mark.parametrize(
    ("fn", "size", "reason"),
    [
        (smoothed, 600, "a reduction in a loop over blocks"),
        (counted, 600, "elements that depend on the counted numbers"),
        (until_one, 600, "a condition that a mask makes false"),
        (left_while_it_changes, 600, "elements that may change when their block has ended"),
        (printed, 4, "in a kernel"),
        (lambda x: smoothed_rows(x), 16, "of a vector that is broadcast"),
        (lambda x: with_pairs(x), 16, "vectors of different sizes"),
    ],
    ids=["reduction", "numbers", "until one", "changes", "print", "rows", "pairs"],
)
def test_what_is_no_kernel_says_why(fn, size, reason, monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", 64)
    x = torch.full((size,), 3.0)
    _, node = loop_of(fn, x.view(4, -1) if size == 16 else x)
    with pytest.raises(Unsupported, match=reason):
        triton_loops.render(node, "loop")


def with_pairs(x):
    """Sizes of which none is a part of the other."""
    pair = x[0, :2].clone()
    while x.abs().sum() > 1:
        x, pair = x * 0.5, pair + 1
    return x, pair


def smoothed_rows(x):
    while x.abs().sum() > 1:
        x = x * 0.5 - x.sum(1, keepdim=True)
    return x


@pytest.mark.parametrize("architecture", triton_jit.ARCHITECTURES)
def test_loops_compile_everywhere_and_spill_nothing(architecture):
    a = torch.ones(64, 64)
    cases = [
        (programs.newton, (torch.tensor(2.0), torch.tensor(3, dtype=torch.int32))),
        (programs.collatz, (torch.tensor(3, dtype=torch.int32),)),
        (programs.power_iteration, (a, torch.ones(64), torch.tensor(1e-3))),
        (programs.mandelbrot, mandelbrot_inputs(80, 80)),
        (while_any_is_left, (torch.ones(6400), torch.tensor(9))),
        (steps_of, (torch.ones(80, 80), torch.ones(80), torch.tensor(9))),
        (programs.runge_kutta, (torch.ones(2, 1024), torch.ones(4, 1024), torch.tensor(1.0))),
    ]
    for fn, args in cases:
        loop = triton_loops.render(loop_of(fn, *args)[1], fn.__name__)
        binary = triton_jit.compiled(loop.source, architecture)
        assert binary.resources.spills == 0 and "scf.while" in binary.asm["ttir"]


@pytest.mark.parametrize("size", [1 << 20, 1 << 31])
def test_blocks_beyond_31_bits_have_positions_of_64_bits(size):
    _, node = loop_of(halve_each, tg.TensorSpec([size], torch.float32))
    text = triton_loops.render(node, "loop").source.text
    assert ("tl.program_id(0).to(tl.int64)" in text) == (size == 1 << 31)


def steps_of(x, rate, n, shift=0.5):
    i = torch.zeros_like(n)
    while i < n:
        x = torch.where(x > rate, x * 0.5 - shift * rate, x + rate)
        i = i + 1
    return x


def masked_steps(x, rate, n):
    done = x < rate
    for _ in range(n):
        x = torch.where(done, x, x * 0.5)
        done = done | (x < rate)
        if done.all():
            break
    return x, done


@pytest.mark.parametrize("fn", [steps_of, masked_steps])
@pytest.mark.parametrize("shape", [(33,), (4, 1, 1), (1, 20, 33), (20, 1), (4, 1, 33)])
@pytest.mark.parametrize("most", [63, 4096])
def test_what_is_broadcast_to_the_state(fn, shape, most, monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", most)
    x, rate = torch.linspace(0, 9, 4 * 20 * 33).reshape(4, 20, 33), torch.rand(shape)
    loop = check(fn, x, rate, torch.tensor(4))
    assert loop.form == ("blocks" if most == 63 else "whole") and "i // " in loop.source.text


def folded(x, rate, i):
    return x - (rate * i).sum()


def of_another_shape(x, rate, i):
    return x - (rate * i).view(20, 1)


def in_two_shapes(x, rate, i):
    return (x * 0.5).view(30, 20) + 0 * rate


def carried(x, rate, i):
    return x


@pytest.mark.parametrize("step", [folded, of_another_shape, in_two_shapes, carried])
@pytest.mark.parametrize("most", [63, 4096])
def test_other_uses_of_smaller_vectors(step, most, monkeypatch):
    monkeypatch.setattr(triton_loops, "MOST", most)

    def repeated(x, rate, n):
        i = torch.zeros_like(n)
        while i < n:
            x = step(x + rate, rate, i).view(x.shape)
            if step is carried:
                rate = rate * 0.5
            i = i + 1
        return x, rate

    x, rate = torch.linspace(0, 9, 600).view(30, 20), torch.rand(20)
    if step is in_two_shapes:
        x, rate = x.view(1, 30, 20), rate.view(1, 20)
    _, node = loop_of(repeated, x, rate, torch.tensor(2))
    with pytest.raises(Unsupported):
        triton_loops.render(node, "loop")
