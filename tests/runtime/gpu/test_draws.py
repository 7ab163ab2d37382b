"""Random numbers in plans, beside a Philox generator in NumPy that takes elements in the order of torch's CUDA kernels."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.runtime.kernels.triton_samples import flat
from tests.runtime.kernels.triton_worker import interpret
from tograph.runtime.gpu import draws, planner
from tograph.runtime.gpu.bounded import bounded
from tograph.runtime.gpu.execute import Chunked, Stepwise
from tograph.runtime.gpu.plan import Run, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.gpu.storage import Failed
from tograph.runtime.graph import interp
from tograph.runtime.graph.text import parse_graph
from tograph.runtime.kernels import device, triton_jit, triton_random
from tograph.runtime.kernels.loop_ir import Unsupported
from tograph.runtime.kernels.triton_random import Draw

pytest.importorskip("triton")
SEED, OFFSET = (1 << 40) + 12345, 8


@pytest.fixture(autouse=True)
def generator(monkeypatch):
    """Kernels in Triton's interpreter; a generator that holds a state."""

    class Generator:
        state = (SEED, OFFSET)

        def __init__(self, device): ...

        def move(self, offset):
            Generator.state = (SEED, offset)

    def launch(source, arguments):
        after = interpret(source, {n: flat(arguments[n]) for n in source.signature})
        for name in source.signature:
            torch.as_strided(arguments[name], after[name].shape, (1,)).copy_(after[name])

    monkeypatch.setattr(device, "launch", launch)
    monkeypatch.setattr(draws, "Generator", Generator)
    return Generator


def philox(counter, key):
    """Four words for each counter of four words [n, 4]: 10 rounds."""
    c = [np.array(x, dtype=np.uint64) for x in np.asarray(counter, dtype=np.uint64).T]
    k = [np.uint64(key & 0xFFFFFFFF), np.uint64(key >> 32)]
    low = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (b >> np.uint64(32)) ^ c[1] ^ k[0],
            b & low,
            (a >> np.uint64(32)) ^ c[3] ^ k[1],
            a & low,
        ]
        k = [(k[0] + np.uint64(0x9E3779B9)) & low, (k[1] + np.uint64(0xBB67AE85)) & low]
    return np.stack(c, 1).astype(np.uint32)


def test_the_reference_gives_the_published_words():
    """The known answers of the paper's library."""
    assert [hex(w) for w in philox([[0, 0, 0, 0]], 0)[0]] == [
        "0x6627e8d5",
        "0xe169c58d",
        "0xbc57ac4c",
        "0x9b00dbd8",
    ]
    ones = philox([[0xFFFFFFFF] * 4], 0xFFFFFFFFFFFFFFFF)[0]
    assert [hex(w) for w in ones] == ["0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd"]


def words_of(count, offset, most, wide=False):
    """The word of each element, with a walk over the threads of torch's kernel; two words ``wide``, [count, 2]."""
    threads, per = triton_random.threads(count, most), 2 if wide else 4
    out = np.zeros((count, 4 // per), np.uint32)
    for thread in range(threads):
        drawn, step = None, offset // 4
        for taken, i in enumerate(range(thread, count, threads)):
            if taken % per == 0:
                drawn, step = philox([[step, 0, thread, 0]], SEED)[0].reshape(per, -1), step + 1
            out[i] = drawn[taken % per]
    return out if wide else out[:, 0]


def words_of_runs(count, offset, threads, run):
    """The word of each element where each thread takes ``run`` elements beside each other: a step for every four or fewer of them."""
    out = np.zeros(count, np.uint32)
    for thread in range(threads):
        step = offset // 4
        for start in range(thread * run, count, threads * run):
            for first in range(start, start + run, 4):
                drawn, step = philox([[step, 0, thread, 0]], SEED)[0], step + 1
                part = out[first : min(first + 4, start + run)]
                part[:] = drawn[: len(part)]
    return out


def uniform(words):
    return (words.astype(np.float32).astype(np.float64) * 2.0**-32 + 2.0**-33).astype(np.float32)


KINDS = {"i1": torch.bool, "fp32": torch.float32, "fp64": torch.float64, "fp16": torch.float16, "bf16": torch.bfloat16, "i64": torch.int64, "i8": torch.int8}  # fmt: skip


def run(draw, count, most=2, kind="fp32", x=None):
    given = {v: k for k, v in KINDS.items()}[x.dtype] if x is not None else ""
    source = triton_random.render("k", draw, count, most, kind, given)
    out = torch.full((count,), 77, dtype=KINDS[kind])
    known = {
        "out": out,
        "seed": torch.tensor([SEED]),
        "offset": torch.tensor([OFFSET]),
        "p": x,
        "error": torch.zeros(1, dtype=torch.int32),
    }
    return interpret(source, {n: known[n] for n in source.signature})


@pytest.mark.parametrize("count", [1, 5, 300, 513, 2500])
def test_uniform_numbers_follow_the_threads(count):
    got = run(Draw("uniform"), count)["out"].numpy()
    want = uniform(words_of(count, OFFSET, 2))
    assert np.array_equal(got, np.where(want == 1, np.float32(0), want))


def test_the_bounds_round_as_numbers_of_the_type():
    """The interval is [0.1, 0.3) in halves, of a size that is a half too."""
    words = words_of(700, OFFSET, 2)
    low, high = (torch.tensor(x, dtype=torch.float16) for x in (0.1, 0.3))
    want = torch.from_numpy(uniform(words)).double() * (high - low).double() + low.double()
    want = want.to(torch.float32).to(torch.float16)
    want = torch.where(want == high, low, want)
    assert torch.equal(run(Draw("uniform", 0.1, 0.3), 700, kind="fp16")["out"], want)


def test_wide_numbers_take_two_words():
    words = words_of(1300, OFFSET, 2, wide=True).astype(np.uint64)
    unit = (words[:, 0] ^ words[:, 1] << np.uint64(21)).astype(np.float64) * 2.0**-53 + 2.0**-54
    assert np.array_equal(run(Draw("uniform"), 1300, kind="fp64")["out"].numpy(), unit)
    assert triton_random.words(Draw("uniform"), 1300, 2, "fp64") == 8
    assert triton_random.words(Draw("uniform"), 1300, 2, "fp32") == 4
    got = run(Draw("exponential", 0.5), 1300, kind="fp64")["out"].numpy()
    np.testing.assert_allclose(got, -2 * np.log(unit), rtol=1e-14)
    got = run(Draw("normal"), 1300, kind="fp64")["out"].numpy()
    pairs = (words[:, 0] ^ words[:, 1] << np.uint64(21)).astype(np.float64) * 2.0**-53
    threads = triton_random.threads(1300, 2)
    for i in (0, threads - 1, threads, 2 * threads - 1):  # both turns of a thread are one pair
        a, b = pairs[i % threads], pairs[i % threads + threads]
        s = math.sqrt(-2 * math.log(a + 2.0**-54))
        want = s * (math.sin, math.cos)[i // threads](math.pi * (2 * b + 2.0**-53))
        assert got[i] == pytest.approx(want, abs=1e-12)


def test_exponential_numbers_are_never_0():
    words = words_of(700, OFFSET, 2)
    got = run(Draw("exponential", 2.0), 700)["out"].numpy()
    np.testing.assert_allclose(got, -0.5 * np.log(uniform(words).astype(np.float64)), rtol=2e-5, atol=1e-7)  # fmt: skip
    assert (got > 0).all() and triton_random.rounded(-1.0 / 3, "fp32") == float(np.float32(-1 / 3))


def test_normal_numbers_are_pairs():
    count = 1100
    got = run(Draw("normal", 3.0, 0.5), count)["out"].numpy()
    threads = triton_random.threads(count, 2)
    want = np.zeros(count)
    for i in range(count):
        thread, turn = i % threads, i // threads
        w = philox([[turn // 4 + OFFSET // 4, 0, thread, 0]], SEED)[0][turn % 4 // 2 * 2 :][
            :2
        ].astype(float)
        s = math.sqrt(-2 * math.log(w[0] * 2.0**-32 + 2.0**-33))
        angle = 2 * math.pi * (w[1] * 2.0**-32 + 2.0**-33)
        want[i] = 3.0 + 0.5 * s * (math.sin, math.cos)[turn % 2](angle)
    np.testing.assert_allclose(got, want, atol=3e-5)


@pytest.mark.parametrize(("kind", "count", "beside"), [
    ("fp32", 2400, 4), ("fp32", 1002, 2), ("fp32", 5002, 2), ("fp32", 1301, 1),
    ("fp16", 12000, 8), ("bf16", 1204, 4), ("fp16", 4098, 2), ("bf16", 301, 1), ("fp64", 3000, 2), ("fp64", 77, 1),
])  # fmt: skip
def test_dropout_takes_elements_beside_each_other(kind, count, beside):
    draw = Draw("kept", 0.3, of=kind)
    assert triton_random.run_of(draw, count) == beside
    got = run(draw, count, kind="i1")
    threads = triton_random.threads(count, 2)
    words = words_of_runs(count, OFFSET, threads, beside) if beside > 1 else words_of(count, OFFSET, 2)  # fmt: skip
    real = torch.float64 if kind == "fp64" else torch.float32
    keep = torch.tensor(0.7, dtype=real)
    kept = torch.from_numpy(uniform(words)).to(real) < keep
    assert torch.equal(got["out"], kept)


@pytest.mark.parametrize(("kind", "of"), [("fp32", "fp32"), ("fp64", "fp64"), ("fp16", "fp16"), ("i1", "fp32"), ("i64", "bf16"), ("fp32", "fp64")])  # fmt: skip
def test_chances_are_a_run_of_four_for_each_thread(kind, of):
    count = 1501
    p = torch.linspace(0, 1, count, dtype=torch.float64).to(KINDS[of])
    got = run(Draw("chances"), count, kind=kind, x=p)
    real = torch.float64 if kind == "fp64" else torch.float32
    unit = torch.from_numpy(uniform(words_of_runs(count, OFFSET, count, 4))).to(real)
    assert torch.equal(got["out"], (unit <= p.to(real)).to(KINDS[kind])) and not got["error"].any()
    assert triton_random.words(Draw("chances"), count, 2, kind) == 12


@pytest.mark.parametrize("bad", [-0.1, 1.5, math.nan])
def test_what_is_no_chance_is_an_error(bad):
    p = torch.full((700,), 0.5)
    p[699] = bad
    assert run(Draw("chances"), 700, x=p)["error"].item() == 2


def test_integers_and_truths():
    words = words_of(700, OFFSET, 2)
    got = run(Draw("integers", -3, 4), 700, kind="i64")["out"].numpy()
    assert np.array_equal(got, words % 7 - np.int64(3))
    for kind in ("i8", "bf16", "fp16"):
        assert np.array_equal(run(Draw("integers", -3, 4), 700, kind=kind)["out"].double().numpy(), got)  # fmt: skip
    for kind in ("fp32", "bf16", "fp16"):
        got = run(Draw("bernoulli", 0.3), 700, kind=kind)["out"].float().numpy()
        assert np.array_equal(got, (uniform(words) < 0.3).astype(np.float32))


@pytest.mark.parametrize("kind", ["uniform", "normal", "exponential", "bernoulli", "kept", "integers", "chances"])  # fmt: skip
def test_the_kernels_compile_and_spill_nothing(kind):
    draw = Draw(kind, 0.3) if kind != "integers" else Draw(kind, 0, 7)
    types = {
        "integers": ["i64"],
        "bernoulli": ["fp32"],
        "kept": ["fp32", "fp16"],
        "chances": ["bf16"],
    }
    for of in types.get(kind, ["fp32", "bf16", "fp64"]):
        if kind == "kept":
            draw, of = Draw(kind, 0.3, of=of), "i1"
        source = triton_random.render("k", draw, 1 << 16, 1056, of)
        for architecture in ("sm_90", "gfx942"):
            assert triton_jit.compiled(source, architecture).resources.spills == 0
        ptx = triton_jit.compiled(source, "sm_90").asm["ptx"]
        assert ("sin.approx" in ptx) == (kind == "normal" and of != "fp64")  # cuRAND's
        assert ("fma.rn" in ptx) == (kind != "integers")  # where nvcc contracts


# ---- in plans


def plan_of(fn, *args):
    graph = tg.function(fn).get_concrete_function(*args).value_graph
    made = planner.plan(retarget(graph, "cuda:0"), whole=False)
    assert check(made) == []
    return made


def walk(x):
    steps = 0
    while x.sum() < 4:
        x = x + torch.rand_like(x)
        steps += 1
    return x, steps


@pytest.mark.parametrize("runner", [Stepwise, Chunked])
def test_each_iteration_draws_anew_and_the_generator_moves_on(runner, generator):
    made = plan_of(walk, torch.zeros(3))
    generator.state = (SEED, OFFSET)
    want, steps, offset = np.zeros(3, np.float32), 0, OFFSET
    while want.sum() < 4:
        want = want + uniform(words_of(3, offset, draws.BLOCKS))
        steps, offset = steps + 1, offset + 4
    machine = runner(made, "cpu")
    x, count = machine.run(torch.zeros(3))
    np.testing.assert_allclose(x.numpy(), want, rtol=1e-6)
    assert count == steps and generator.state == (SEED, offset)
    again, _ = machine.run(torch.zeros(3))
    assert not torch.equal(again, x)


def test_draws_outside_of_loops_are_counted_by_the_host(generator, monkeypatch):
    """No kernel moves the offset, and nobody waits for it; loops that draw nothing change nothing about that."""

    def draw(x):
        y = torch.rand_like(x)
        while y.sum() < 50:
            y = y * 2
        return y * 0 + torch.rand_like(x), torch.randn(3, device=x.device)

    made = plan_of(draw, torch.ones(2, 3))
    assert not any("_next" in s.source.name for s, _ in made.walk() if isinstance(s, Run))
    machine = Stepwise(made, "cpu")
    monkeypatch.setattr(torch.Tensor, "cpu", None)
    generator.state, offset = (SEED, OFFSET), OFFSET
    for _ in range(2):
        got, _ = machine.run(torch.ones(2, 3))
        np.testing.assert_array_equal(
            got.flatten().numpy(), uniform(words_of(6, offset + 4, draws.BLOCKS))
        )
        offset += 12
        assert generator.state == (SEED, offset)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_what_is_kept_is_scaled_and_rounded_once(dtype, generator):
    """By a kernel that does what stands around dropout too; the kernel that draws waits for nothing."""

    def drop(x):
        return F.dropout(x.neg(), 0.3).abs()

    x = torch.linspace(-9, 9, 64, dtype=torch.float64).to(dtype)
    made = planner.plan(
        tg.function(drop)
        .get_concrete_function(tg.TensorSpec([64], dtype, device="cuda:0"))
        .value_graph
    )
    assert [type(s) for s in made.steps] == [Run, Run] and "x" not in made.steps[0].source.signature
    real = torch.float64 if dtype is torch.float64 else torch.float32
    run = 16 // dtype.itemsize
    kept = torch.from_numpy(uniform(words_of_runs(64, OFFSET, 256, run))).to(real) < torch.tensor(
        0.7, dtype=real
    )
    generator.state = (SEED, OFFSET)
    want = (
        (x.to(real) * kept * (1.0 / torch.tensor(0.7, dtype=real).double()).to(real))
        .abs()
        .to(dtype)
    )
    rtol = 2**-7 if dtype is torch.bfloat16 else 0  # Triton's interpreter cuts bits off
    torch.testing.assert_close(Stepwise(made, "cpu").run(x)[0], want, rtol=rtol, atol=0)


def test_the_gradient_of_dropout_is_a_part_of_kernels():
    text = """f(%g: f32[4,6]@cuda:0, %k: bool[4,6]@cuda:0) {
  %0: f32[4,6]@cuda:0 = aten.native_dropout_backward.default(%g, %k, 2.0)
  %1: f32[4,6]@cuda:0 = aten.sin.default(%0)
  return %1
}"""
    (step,) = planner.plan(parse_graph(text)).steps
    assert isinstance(step, Run)


def test_dropout_in_a_plan(generator):
    def drop(x):
        return F.dropout(x, 0.5) + F.dropout(x.t(), 0.5).sum()

    spec = tg.TensorSpec([4, 6], torch.float32, device="cuda:0")
    made = planner.plan(tg.function(drop).get_concrete_function(spec).value_graph)
    generator.state = (SEED, OFFSET)
    out = Stepwise(made, "cpu").run(torch.ones(4, 6))[0]
    first, second = (uniform(words_of_runs(24, o, 256, 4)) < 0.5 for o in (OFFSET, OFFSET + 4))
    want = 2.0 * first.reshape(4, 6) + 2.0 * second.sum()
    np.testing.assert_allclose(out.numpy(), want, rtol=1e-6)
    assert generator.state == (SEED, OFFSET + 8)


def test_chances_in_the_loop_of_a_plan(generator):
    def flip(p):
        heads = 0
        while torch.bernoulli(p).sum() > 1:
            p = p * 0.9
            heads += 1
        return p, heads

    made = plan_of(flip, torch.full((5,), 0.8))
    assert made.error is not None
    generator.state = (SEED, OFFSET)
    p, heads, offset = np.full(5, 0.8, np.float32), 0, OFFSET
    while (uniform(words_of_runs(5, offset, 2, 4)) <= p).sum() > 1:
        p, heads, offset = p * np.float32(0.9), heads + 1, offset + 12
    got, count = Stepwise(made, "cpu").run(torch.full((5,), 0.8))
    np.testing.assert_allclose(got.numpy(), p, rtol=1e-6)
    assert count == heads and generator.state == (SEED, offset + 12)
    with pytest.raises(Failed):
        Stepwise(made, "cpu").run(torch.full((5,), 1.2))


@pytest.mark.parametrize(("shape", "count"), [((9,), 1), ((4, 9), 1), ((3, 9), 4)])
def test_samples_are_those_of_torch(shape, count):
    """On the CPU, where the reference interpreter runs the same ops."""
    p = torch.rand(shape) * (torch.rand(shape) > 0.3)
    made = tg.function(lambda p: torch.multinomial(p, count)).get_concrete_function(p)
    graph = bounded(made.value_graph, "cpu").graph
    assert "multinomial" not in str(graph)
    for seed in range(5):
        torch.manual_seed(seed)
        want = torch.multinomial(p, count)
        torch.manual_seed(seed)
        assert torch.equal(interp.run(graph, [p])[0], want)


NORMAL = {
    "both": torch.normal,
    "wider": lambda m, s: torch.normal(m[:, None], s),
    "a mean": lambda m, s: torch.normal(m, 2.5),
    "a deviation": lambda m, s: torch.normal(0.1, s),
    "a distribution": lambda m, s: torch.distributions.Normal(m, s, validate_args=False).sample(
        (2,)
    ),
    "none": lambda m, s: torch.normal(m[:0], s[:0]),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", NORMAL)
def test_normal_numbers_with_means_and_deviations_are_those_of_torch(name, dtype):
    m, s = (torch.rand(40, dtype=torch.float64).to(dtype) for _ in range(2))
    graph = tg.function(NORMAL[name]).get_concrete_function(m, s).value_graph
    graph = bounded(graph, "cpu").graph
    assert "aten.normal." not in str(graph)
    for seed in range(3):
        torch.manual_seed(seed)
        want = NORMAL[name](m, s)
        torch.manual_seed(seed)
        assert torch.equal(interp.run(graph, [m, s])[0], want)


def test_normal_numbers_in_a_plan(generator):
    made = plan_of(lambda m, s: torch.normal(m, s), torch.ones(300), torch.ones(300))
    generator.state = (SEED, OFFSET)
    m, s = torch.rand(300), torch.rand(300)
    got = Stepwise(made, "cpu").run(m, s)[0]
    unit = plan_of(torch.randn_like, torch.ones(300))
    generator.state = (SEED, OFFSET)
    assert torch.equal(got, Stepwise(unit, "cpu").run(m)[0] * s + m)
    s[7] = -1e-6
    with pytest.raises(Failed):
        Stepwise(made, "cpu").run(m, s)


def test_chances_of_another_size(generator):
    made = plan_of(lambda x, p: torch.empty_like(x).bernoulli_(p), torch.ones(6, 5), torch.ones(5))
    generator.state = (SEED, OFFSET)
    p = torch.linspace(0.1, 0.9, 5)
    got = Stepwise(made, "cpu").run(torch.ones(6, 5), p)[0]
    unit = torch.from_numpy(uniform(words_of_runs(30, OFFSET, 30, 4))).reshape(6, 5)
    assert torch.equal(got, (unit <= p).float()) and generator.state == (SEED, OFFSET + 12)


def test_samples_in_a_plan(generator):
    made = plan_of(lambda p: torch.multinomial(p, 1), torch.ones(3, 40))
    generator.state = (SEED, OFFSET)
    p = torch.rand(3, 40)
    q = -np.log(uniform(words_of(120, OFFSET, draws.BLOCKS)).astype(np.float64))
    want = (p.numpy() / q.reshape(3, 40)).argmax(1)
    assert np.array_equal(Stepwise(made, "cpu").run(p)[0][:, 0].numpy(), want)
    assert generator.state == (SEED, OFFSET + 4)
    for bad in (p - 1, p * math.inf, p * torch.tensor([[1.0], [0.0], [1.0]])):
        with pytest.raises(Failed):
            Stepwise(made, "cpu").run(bad)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.multinomial(x, 2, replacement=True),
        torch.poisson,
        lambda x: torch.normal(x, x.double()),
    ],
)
def test_other_draws_stay_on_the_host(fn):
    with pytest.raises(Unsupported, match=r"test_draws.py:\d+: .*draws random numbers"):
        plan_of(lambda x: fn(x) + 0, torch.full((3,), 0.5))


@pytest.mark.parametrize("fn, most", [(torch.rand_like, 4), (lambda x: torch.randint_like(x, 9, dtype=torch.int64), 8)])  # fmt: skip
def test_torch_draws_more_than_two_gigabytes_in_several_goes(fn, most):
    sizes = ((1 << 31) - 8) // most, (1 << 31) // most
    specs = [tg.TensorSpec([n], torch.float32, device="cuda:0") for n in sizes]
    graphs = [tg.function(lambda x: fn(x)).get_concrete_function(spec).value_graph for spec in specs]  # fmt: skip
    assert planner.plan(graphs[0]).generator is not None
    with pytest.raises(Unsupported, match="draws more than 2 GiB of random numbers"):
        planner.plan(graphs[1])
