"""The choice of block sizes: every option is right, the fastest one is taken and kept. Times are made up; starts are noted."""

import types

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import Cuda, install
from tests.runtime.kernels.kernel_samples import op_graph
from tests.runtime.kernels.triton_samples import flat, loops_of
from tests.runtime.kernels.triton_worker import interpret
from tograph import disk, settings
from tograph.runtime.gpu import planner
from tograph.runtime.gpu.execute import Stepwise
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels import split_rows, triton_jit, tuning
from tograph.runtime.kernels.loop_ir import Unsupported

pytest.importorskip("triton")


class Clock:
    """Starts whose block sizes have ``best`` in their text are twice as fast. ``measured``: those that were timed."""

    def __init__(self, best="", pause=0.0):
        self.best, self.pause, self.measured, self.at = best, pause, [], 0.0
        self.last = None

    def now(self):
        return self.at

    def seconds(self, start, times):
        self.at += self.pause
        start()
        self.measured.append(self.last)
        return 1e-6 if self.best in str(self.last) else 2e-6


def tuner(clock, device="cpu"):
    seen = []

    def launch(source, arguments):
        clock.last = (source.constants, source.warps)
        assert set(arguments) == set(source.signature)
        seen.append((source, arguments))

    made = tuning.Tuner(device, launch, clock=clock)
    made.seen = seen
    return made


@pytest.fixture(autouse=True)
def folder(monkeypatch, tmp_path):
    monkeypatch.setattr(settings, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuning, "SMALLEST", 1)
    return tmp_path


CASES = {
    "pointwise": ([("aten.exp.default", ["x"], {})], (700,)),
    "rows": ([("aten._softmax.default", ["x", 1, False], {})], (9, 70)),
    "turned": ([("aten.add.Tensor", ["x", "y"], {})], (160, 130)),
    "long": ([("aten.sum.dim_IntList", ["x", [1]], {})], (3, 900)),
    "columns": ([("aten.sum.dim_IntList", ["x", [0]], {})], (90, 20)),
}


def kernel(name, scale=1):
    calls, size = CASES[name]
    x = torch.randn(size[0] * scale, *size[1:], generator=torch.Generator().manual_seed(0))
    given = {"x": x, "y": x.t().contiguous().t()}
    calls = [(op, [given.get(a, a) if isinstance(a, str) else a for a in args], k) for op, args, k in calls]  # fmt: skip
    inputs = [x, given["y"]] if name == "turned" else [x]
    loops, outputs = loops_of(op_graph(calls, inputs), inputs)
    return loops, inputs, outputs


@pytest.mark.parametrize("name", CASES)
def test_every_option_is_right(name, monkeypatch):
    monkeypatch.setattr(tuning, "LONG", 64)
    monkeypatch.setattr(tuning, "PART", 32)
    loops, inputs, outputs = kernel(name)
    found = tuning.options(loops)
    assert len({str(o) for o in found}) == len(found) > 2
    assert any(o.between for o in found) == (name in ("rows", "long", "columns"))
    results = []
    for option in found:
        given = {f"p{i}": flat(x) for i, x in enumerate(inputs)}
        given |= {f"o{i}": flat(x).fill_(-7) for i, x in enumerate(outputs)}
        given |= {n: torch.zeros(s, dtype=torch.float32) for n, (_, s) in option.between.items()}
        for source in option.sources(pointers=True):
            given |= interpret(source, {n: given[n] for n in source.signature})
        results.append(given["o0"])
    for other in results[1:]:
        torch.testing.assert_close(other, results[0], rtol=1e-5, atol=1e-5)


def test_the_first_option_is_the_estimate():
    for name in CASES:
        loops = kernel(name)[0]
        assert str(tuning.options(loops)[0]) == str(tuning.estimate(loops).option)


def test_the_fastest_is_taken_and_kept(folder):
    loops = kernel("pointwise")[0]
    clock = Clock(best="512}")
    made = tuner(clock)
    choice = made(loops)
    assert choice.option.parts[0][1].points == 512 and choice.how == "measured, 1.0 us"
    assert len(clock.measured) == len(tuning.options(loops)) and len(list(folder.iterdir())) == 1
    again = Clock()
    assert str(tuner(again)(loops)) == str(choice) and not again.measured


def test_what_is_not_clearly_faster_changes_nothing():
    loops = kernel("rows")[0]
    assert tuner(Clock())(loops).option == tuning.options(loops)[0]


def test_memory_of_a_measurement_belongs_to_nobody():
    loops, inputs, _ = kernel("turned")
    made = tuner(Clock())
    made(loops)
    for source, arguments in made.seen:
        assert [arguments[n].numel() for n in source.signature] == [inputs[0].numel()] * 3
        assert not any(x.any() for x in arguments.values())


def test_sizes_of_one_class_share_a_choice_and_others_do_not():
    texts = [tuning.text(kernel("rows", scale)[0]) for scale in (1, 2, 3, 10)]
    assert texts[1] != texts[0] != texts[3]
    same = [tuning.text(loops_of(op_graph([("aten.exp.default", [x], {})], [x]), [x])[0]) for x in (torch.ones(1600), torch.ones(1920), torch.ones(1601))]  # fmt: skip
    assert same[0] == same[1] != same[2]


def test_numbers_by_value_are_given_as_numbers():
    x = torch.ones(700)

    def half(x, n):
        return x * n

    graph = tg.function(half).get_concrete_function(x, torch.tensor(2.0)).graph
    region_loops = loops_of(graph, [x, torch.tensor(2.0)])[0]
    assert tuner(Clock())(region_loops, pointers=False).how.startswith("measured")


# ---- when nothing is measured


def test_small_kernels_are_not_worth_it(monkeypatch):
    monkeypatch.setattr(tuning, "SMALLEST", 1 << 22)
    clock = Clock()
    assert tuner(clock)(kernel("pointwise")[0]).how == "estimated" and not clock.measured


def test_the_budget_of_a_plan():
    """What is not measured any more is neither kept nor lost: a later plan measures it."""
    loops, other = kernel("pointwise")[0], kernel("rows")[0]
    clock = Clock(pause=tuning.SECONDS / 2)
    made = tuner(clock)
    made(loops)
    assert len(clock.measured) == 3
    assert made(other).how == "estimated"
    later = Clock()
    tuner(later)(loops)
    assert len(later.measured) == len(tuning.options(loops))


def test_the_budget_in_starts(monkeypatch):
    monkeypatch.setattr(tuning, "LAUNCHES", 2 * tuning.TIMES)
    clock = Clock()
    tuner(clock)(kernel("pointwise")[0])
    assert len(clock.measured) == 2


def test_folds_keep_their_order_where_that_is_asked_for():
    torch.use_deterministic_algorithms(True)
    try:
        assert tuner(Clock())(kernel("rows")[0]).how == "estimated"
        assert tuner(Clock())(kernel("pointwise")[0]).how != "estimated"
    finally:
        torch.use_deterministic_algorithms(False)


def test_an_option_that_does_not_compile_is_left_out():
    loops = kernel("pointwise")[0]
    first = tuning.options(loops)[0].sources(True)[0]

    def launch(source, arguments):
        if source.constants == first.constants:
            raise Unsupported("too much shared memory")

    choice = tuning.Tuner("cpu", launch, clock=Clock())(loops)
    assert choice.how.startswith("measured") and choice.option != tuning.options(loops)[0]

    def never(source, arguments):
        raise Unsupported("no")

    assert tuning.Tuner("cpu", never, clock=Clock())(kernel("rows")[0]).how == "estimated"


def test_too_little_memory_gives_the_estimate(monkeypatch, folder):
    monkeypatch.setattr(tuning, "_free", lambda device: 100)
    assert tuner(Clock())(kernel("pointwise")[0]).how == "estimated"
    assert not list(folder.iterdir())


def test_a_device_that_cannot_be_measured_on_gives_estimates():
    class Broken(Clock):
        def seconds(self, start, times):
            self.measured.append(None)
            raise RuntimeError("CUDA error: operation not supported")

    clock = Broken()
    made = tuner(clock)
    assert {made(kernel(n)[0]).how for n in ("pointwise", "rows")} == {"estimated"}
    assert len(clock.measured) == 1


@pytest.mark.parametrize("content", [b"", b"[]", b'{"option": "7 points"}', b"\xff"])
def test_a_file_of_something_else_is_measured_again(folder, content):
    loops = kernel("pointwise")[0]
    tuner(Clock())(loops)
    (file,) = folder.iterdir()
    disk.store(file.name, content)
    clock = Clock()
    tuner(clock)(loops)
    assert clock.measured


def test_a_folder_that_cannot_be_written_is_no_failure(monkeypatch, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(settings, "CACHE_DIR", str(file / "folder"))
    monkeypatch.setattr(disk, "_warned", set())
    with pytest.warns(RuntimeWarning, match="cannot be"):
        assert tuner(Clock(best="512}"))(kernel("pointwise")[0]).how == "measured, 1.0 us"


def test_nothing_is_measured_while_the_caller_captures(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    clock = Clock()
    assert tuner(clock, "cuda:0")(kernel("pointwise")[0]).how == "estimated" and not clock.measured


# ---- in plans


def test_a_plan_runs_what_was_chosen(monkeypatch):
    from_worker = lambda source, given: _start(source, given)  # noqa: E731
    monkeypatch.setattr("tograph.runtime.kernels.device.launch", from_worker)
    monkeypatch.setattr(tuning, "LONG", 64)
    monkeypatch.setattr(tuning, "PART", 32)
    graph = tg.function(lambda x: (x * 2).sum() + 1).get_concrete_function(torch.ones(900)).value_graph  # fmt: skip
    parts = lambda loops: tuning.Choice(next(o for o in tuning.options(loops) if o.between), "told")  # noqa: E731
    plan = planner.plan(retarget(graph, "cuda:0"), choose=parts)
    runs = [s for s in plan.steps if hasattr(s, "choice")]
    assert len(runs) == 2 and all(
        s.choice.endswith("(told)") and " parts" in s.choice for s in runs
    )
    assert Stepwise(plan, "cpu").run(torch.arange(900.0))[0] == 900 * 899 + 1


def test_kernels_tell_their_choice():
    made = tg.function(lambda x: torch.softmax(x, -1)).get_concrete_function(torch.ones(64, 1000))
    made.scheduled.compile()
    assert made.kernels[0].choice == "1 x 1024 points, 4 warps (estimated)"
    assert split_rows.split(made.kernels[0].loops) is None


def test_the_clock_captures_and_replays(monkeypatch):
    """What is asked of torch: one start before, a captured graph, events around its second replay."""
    install(monkeypatch, Cuda())
    calls = []
    graph = types.SimpleNamespace(
        capture_begin=lambda pool, capture_error_mode: calls.append("begin"),
        capture_end=lambda: calls.append("end"), replay=lambda: calls.append("replay"))  # fmt: skip
    event = lambda enable_timing: types.SimpleNamespace(  # noqa: E731
        record=lambda: calls.append("record"), synchronize=lambda: None, elapsed_time=lambda other: 8.0)  # fmt: skip
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: graph)
    monkeypatch.setattr(torch.cuda, "Event", event)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    assert tuning.Clock().seconds(lambda: calls.append("start"), 2) == 0.004
    assert calls == ["start", "begin", "start", "start", "end", "replay", "record", "replay", "record"]  # fmt: skip


def _start(source, given):
    after = interpret(source, {n: flat(given[n]) for n in source.signature})
    for name, x in after.items():
        torch.as_strided(given[name], x.shape, (1,)).copy_(x)


def test_all_options_are_compiled_before_the_first_is_measured(monkeypatch):
    clock, compiled = Clock(), []
    monkeypatch.setattr(triton_jit, "compiled", lambda s, *given: compiled.append((s.text, *given)))
    made = tuner(clock)
    made.architecture = lambda: "sm_90"
    loops = kernel("rows")[0]
    made(loops)
    options = [s for o in tuning.options(loops) for s in o.sources(True)]
    assert sorted(compiled) == sorted((s.text, "sm_90", None) for s in options)
