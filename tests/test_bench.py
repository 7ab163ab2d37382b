"""The benchmark's programs under tograph, and what its report says of given figures."""

import ast
import importlib
import io
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.bench import cells, clock, growth, peers, report, worker
from tograph.bench.workloads import WORKLOADS
from tograph.cli import main


def small(key):
    """The inputs of a workload, with fewer steps where they say how many."""
    arrays = WORKLOADS[key].inputs()
    for name in ("n", "n_steps"):
        if name in arrays:
            arrays[name] = np.minimum(arrays[name], 30).astype(arrays[name].dtype)
    return arrays


@pytest.mark.parametrize("key", WORKLOADS)
def test_program_gives_eagers_result(key):
    arrays = small(key)
    expected = worker._arrays(peers.PEERS["eager"](key, arrays, 1)())
    got = worker._arrays(peers.PEERS["tograph"](key, arrays, 1)())
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        np.testing.assert_allclose(a, b, rtol=5e-3, atol=1e-4)  # a step count may differ by one


@pytest.mark.parametrize("key", [k for k, w in WORKLOADS.items() if w.kind == "forward"])
def test_program_is_native_code(key):
    tensors = [torch.from_numpy(np.array(a)) for a in small(key).values()]
    function = tg.function(WORKLOADS[key].program)
    with torch.no_grad():
        for _ in range(3):
            function(*tensors)
    (concrete,) = function.concrete_functions
    assert concrete.scheduled.level == "native", concrete.scheduled.reason


def test_a_condition_of_numbers_and_tensors_of_one_element_is_native_code():
    @tg.function
    def f(x, end):
        t, token = 0, torch.ones(1, dtype=torch.int64)
        while t < 20 and token != end or t < 3:
            x = x * 1.1
            token, t = x[:1].long(), t + 1
        return x, t

    for _ in range(3):
        x, t = f(torch.ones(2), torch.tensor(3))
    assert t == 12 and f.concrete_functions[0].scheduled.level == "native"


@pytest.mark.parametrize("key", ["a1", "e", "h"])
def test_while_loop_form_is_the_same_program(key):
    from tograph.bench.torch_forms import FORMS

    tensors = [torch.from_numpy(np.array(a)) for a in small(key).values()]
    expected = worker._arrays(WORKLOADS[key].program(*tensors))
    for a, b in zip(worker._arrays(FORMS[key](*tensors)), expected):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def cell(steady, error=0.0):
    return {
        "first": 1.0,
        "warm": 0.5,
        "steady": steady,
        "turns": [steady, steady],
        "memory": 3.0,
        "quiet": True,
        "error": error,
    }


def test_ratio_is_to_the_best_peer_that_is_right():
    row = {"tograph": cell(2.0), "eager": cell(8.0), "jax": cell(4.0), "numba": cell(1.0, math.inf)}
    assert report.ratio(row) == ("jax", 0.5)


def test_ratio_is_that_of_turns_taken_together():
    """In the second turn the machine was slow: both medians moved, in different turns."""
    own, other = cell(2.0), cell(4.0)
    own["turns"], other["turns"] = [1.0, 2.0, 2.0], [2.0, 4.0, 9.0]
    assert report.ratio({"tograph": own, "eager": other}) == ("eager", 0.5)


def test_ratio_needs_a_peer():
    assert report.ratio({"tograph": cell(2.0), "jax": {"refused": "no form of it"}}) is None


def test_table_shows_refusals_and_wrong_results():
    text = report.markdown(
        {"i": {"tograph": cell(2e-6), "jax": {"refused": "x"}, "numba": cell(1.0, 1.0), "eager": cell(4e-6)}}, 2
    )  # fmt: skip
    steady = text[text.index("## Steady") : text.index("## First call in a new process, after")]
    assert "| 2 µs | 4 µs | - | wrong result | 0.50 (eager PyTorch) |" in steady


@pytest.mark.parametrize(
    "seconds, text", [(2.5, "2.5 s"), (0.0123, "12.3 ms"), (4e-6, "4 µs"), (5e-8, "50 ns")]
)
def test_duration(seconds, text):
    assert report.duration(seconds) == text


@pytest.fixture
def short_windows(monkeypatch):
    """A machine that others use has no quiet windows: not to be waited for."""
    monkeypatch.setattr(clock, "WINDOW", 0.01)


def test_steady_time_of_a_sleep(short_windows):
    timing = clock.steady(lambda: clock.time.sleep(0.002))
    assert 0.002 <= timing.seconds < 0.2


def test_chain_has_the_length_asked_for():
    x = torch.rand(3)
    y = x * 1.001
    assert torch.equal(growth.straight_line(3)(x), torch.sin(y) + x)


@pytest.fixture
def own_processors():
    """A worker is a process of its own and keeps to as many processors as it has threads; this one is to have all again."""
    threads = torch.get_num_threads()
    processors = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    yield
    torch.set_num_threads(threads)
    if processors is not None:
        os.sched_setaffinity(0, processors)


def test_worker_answers_each_line_by_a_line_of_figures(tmp_path, monkeypatch, capsys, short_windows, own_processors):  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO("0.2\n0.2\n"))
    worker.main(["i", "eager", "1", str(tmp_path / "r.npz")])
    first, *turns = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert first["first"] > 0 and len(turns) == 2 and all(t["turn"] > 0 for t in turns)
    assert np.load(tmp_path / "r.npz")["arr_0"].shape == (4,)


def test_peers_of_a_workload_take_turns(tmp_path, monkeypatch):
    """Two real processes, and one that has no form of it."""
    monkeypatch.setattr(cells, "TURNS", 2)
    monkeypatch.setattr(cells, "BUDGET", 0.1)
    order = []
    turn = cells.Cell.turn
    monkeypatch.setattr(cells.Cell, "turn", lambda c: (order.append(c.result.stem), turn(c)))
    found = cells.rows(["d"], ["eager", "tograph", "script"], 1, 1, tmp_path)["d"]
    assert order == ["d-eager", "d-tograph", "d-script"] * 2
    assert found["script"].keys() == {"refused"}
    for name in ("eager", "tograph"):
        figures = found[name]
        assert len(figures["turns"]) == 2 and figures["steady"] > 0
        assert figures["error"] < 1e-3 and figures["warm"] > 0 and figures["memory"] >= 0


def test_a_gradient_takes_turns_with_its_forward_pass(tmp_path, monkeypatch):
    assert report._groups(["a1", "cg", "b", "c", "i"]) == [["a1"], ["b"], ["c", "cg"], ["i"]]
    assert report._groups(["cg", "i"]) == [["cg"], ["i"]]
    monkeypatch.setattr(cells, "TURNS", 2)
    order = []
    monkeypatch.setattr(cells.Cell, "__init__", lambda c, *place: vars(c).update(place=place[:2]))
    monkeypatch.setattr(cells.Cell, "turn", lambda c: order.append(c.place))
    monkeypatch.setattr(cells.Cell, "close", lambda c: {"refused": "no processes here"})
    cells.rows(["c", "cg"], ["eager", "tograph"], 1, 1, tmp_path)
    assert order == [("c", "eager"), ("cg", "eager"), ("c", "tograph"), ("cg", "tograph")] * 2


def test_table_shows_gradients_beside_their_forward_pass():
    """Of turns that were taken together: the medians alone would give another ratio."""
    forward, gradient = cell(2.0), cell(4.0)
    forward["turns"], gradient["turns"] = [2.0, 4.0, 4.0], [4.0, 8.0, 9.0]
    wrong = cell(1.0, math.inf)
    found = {
        "c": {"tograph": forward, "eager": cell(2.0), "jax": cell(1.0)},
        "cg": {"tograph": gradient, "eager": cell(5.0), "jax": wrong},
    }
    text = report.markdown(found, 2)
    table = text[text.index("## Forward and backward") : text.index("## First call in a new process, after")]  # fmt: skip
    assert "| 2.00 | 2.50 |  |" in table
    assert "## Forward and backward" not in report.markdown({"cg": found["cg"]}, 2)


def test_a_worker_that_dies_is_refused_with_its_last_words(tmp_path):
    cell = cells.Cell("no such workload", "eager", 1, tmp_path)
    cell.turn()
    assert cell.close() == {"refused": "KeyError: 'no such workload'"}


def test_unknown_workload_is_one_line(capsys):
    assert main(["bench", "--only", "zz"]) == 1
    assert "no workload 'zz'" in capsys.readouterr().err


BENCHMARKS = sorted((Path(__file__).parent.parent / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("path", BENCHMARKS, ids=lambda p: p.stem)
def test_benchmarks_import_what_there_is(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tograph":
            module = importlib.import_module(node.module)
            for name in node.names:
                if not hasattr(module, name.name):
                    importlib.import_module(f"{node.module}.{name.name}")
