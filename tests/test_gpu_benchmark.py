"""The GPU benchmark reports what fails, crashes or hangs, and goes on behind it."""

import argparse
import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
import torch

import tograph as tg
from tests.runtime.gpu.fake_driver import forget
from tograph.bench.workloads import WORKLOADS
from tograph.runtime.gpu import capture, direct, hazards, planner, refresh
from tograph.runtime.gpu.plan import Conditional, check
from tograph.runtime.gpu.retarget import retarget
from tograph.runtime.kernels import device

FOLDER = Path(__file__).parent.parent / "benchmarks"
WORKER = textwrap.dedent("""
    import faulthandler, json, os, signal, sys, time
    faulthandler.register(signal.SIGUSR1)
    say = lambda **f: print("@row " + json.dumps(f), flush=True)
    parts = ["good", "crashes", "hangs", "last"]
    print("other output")
    for i, name in enumerate(parts):
        if i < int(sys.argv[1]):
            continue
        say(begins=i, name=name)
        if name == "crashes":
            print("its last words", file=sys.stderr, flush=True)
            os._exit(7)
        if name == "hangs":
            time.sleep(60)
        say(row={"name": name, "rate": i + 0.5})
        say(took=0.25)
    """)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("gpu")


@pytest.fixture
def worker(gpu):
    return importlib.import_module("gpu_worker")


def run_of(gpu, tmp_path, monkeypatch, seconds=30.0):
    monkeypatch.setattr(gpu, "LIMIT", 0.7)
    made = gpu.Run(argparse.Namespace(device="cpu", output=tmp_path, seconds=seconds, cases=""))
    made.command = lambda section, skip: [sys.executable, "-c", WORKER, str(skip)]
    return made


def test_a_part_that_crashes_or_hangs_takes_no_other_with_it(gpu, tmp_path, monkeypatch):
    run = run_of(gpu, tmp_path, monkeypatch)
    run.section("loops", last=True)
    hangs = run.sections["loops"][2]["where"]
    assert 'File "<string>", line' in hangs
    assert run.sections["loops"] == [
        {"name": "good", "rate": 0.5, "took_s": 0.25},
        {"name": "crashes", "note": "the process ended: exit status 7", "where": "its last words"},
        {"name": "hangs", "note": "no answer in 1 s", "where": hangs},
        {"name": "last", "rate": 3.5, "took_s": 0.25},
    ]
    page = gpu.report(run).read_text()
    assert "| hangs |  |  | no answer in 1 s |" in page and (tmp_path / "gpu.json").exists()
    assert '* loops: {"name": "crashes", "note": "the process ended' in page and "* torch: " in page
    assert '"good"' not in page.split("## What went wrong")[1]


def test_a_process_that_does_not_get_to_its_first_part_is_started_once_more(gpu, tmp_path, monkeypatch):  # fmt: skip
    """What it imports may come from a slow disk, beside other sections that start."""
    run = run_of(gpu, tmp_path, monkeypatch)
    monkeypatch.setattr(gpu, "START", 0.7)
    slow = (
        "import faulthandler, signal, time; faulthandler.register(signal.SIGUSR1); time.sleep(60)"
    )
    ways = [slow, 'print(\'@row \' + \'{"begins": 4, "name": "part"}\')']
    run.command = lambda section, skip: [sys.executable, "-c", ways.pop(0)]
    run.section("loops", last=True)
    (row,) = run.sections["loops"]
    assert row.pop("where") and row == {"name": "start", "note": "no answer in 1 s"}
    ways += [slow, "raise SystemExit(5)", "print('never')"]
    run.section("calls", last=True)
    notes = [r["note"] for r in run.sections["calls"]]
    assert notes == ["no answer in 1 s", "the process ended: exit status 5", "nothing begins: exit status 5"]  # fmt: skip


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")
def test_a_worker_that_hangs_in_an_import_says_where(tmp_path):
    begun = tmp_path / "begun"
    text = f"import time\nopen({str(begun)!r}, 'w').close()\ntime.sleep(60)\n"
    (tmp_path / "torch.py").write_text(text)
    command = [sys.executable, str(FOLDER / "gpu.py"), "--worker", "probes", "--device", "cpu"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True) as process:
        while not begun.exists() and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGUSR1)
        said = [process.stderr.readline() for _ in range(2)]
        process.kill()
    assert "torch.py" in said[1] and "line 3" in said[1]


def test_what_workers_say_is_gone_with_the_run(gpu, tmp_path, monkeypatch):
    run = run_of(gpu, tmp_path, monkeypatch)
    said = run.said
    (said / "loops.txt").write_text("words")
    assert said.name.startswith("tograph-gpu-")
    del run
    gc.collect()
    assert not said.exists()


def test_sections_that_measure_nothing_run_together(gpu, tmp_path, monkeypatch):
    run = run_of(gpu, tmp_path, monkeypatch)
    begun, both = [], threading.Barrier(2, timeout=10)

    def section(name, last):
        begun.append((name, last))
        if name in ("correctness", "peers"):
            both.wait()  # each waits for the other one
        run.add(name, name=name)

    monkeypatch.setattr(run, "section", section)
    run.all(["workloads", "peers", "probes", "correctness", "loops"])
    assert begun[0] == ("probes", False) and {*begun[1:3]} == {("correctness", False), ("peers", False)}  # fmt: skip
    assert begun[3:] == [("loops", False), ("workloads", True)]
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert [*found] == ["device", "probes", "correctness", "peers", "loops", "workloads"]


def test_what_is_known_is_written_while_a_part_is_silent(gpu, tmp_path, monkeypatch):
    """Whoever ends the script finds all but the last seconds in the report."""
    monkeypatch.setattr(gpu, "PAUSE", 0.1)
    run = run_of(gpu, tmp_path, monkeypatch)
    seen = []
    written = gpu.report
    monkeypatch.setattr(gpu, "report", lambda run: (seen.append(len(run.sections.get("loops", ()))), written(run)))  # fmt: skip
    run.section("loops", last=True)
    assert seen.count(2) > 2  # while the third part hangs


def test_no_other_worker_waits_for_a_probe_that_hangs(gpu, tmp_path):
    run = gpu.Run(argparse.Namespace(device="cuda:0", output=tmp_path, seconds=9.0, cases=""))
    run.add("probes", name=gpu.PROBE, holds="NO", found="a wrong answer")
    assert run.command("loops", 0)[-3] == ""
    run.add("probes", name=gpu.FUSED, note="no answer in 60 s")
    assert run.command("loops", 0)[-3] == gpu.FUSED
    run.add("probes", name=gpu.PROBE, note="no answer in 60 s")
    assert all(name in run.command("loops", 0)[-3] for name in (gpu.FUSED, gpu.PROBE))


def test_every_section_names_its_parts(gpu, worker):
    """On the CPU, without running one."""
    sections = set(gpu.gpu_sections.SECTIONS) - {"cases"}  # which imports them all
    for section in sections:
        names = [n for n, _ in worker.parts(section, worker.Bench("cpu", print))]
        assert names and "its parts" not in names


def test_an_error_while_parts_are_named_is_a_row(gpu, worker, monkeypatch, capsys):
    def broken(bench):
        yield "first", lambda: bench.row(name="first")
        raise ImportError("no module")

    monkeypatch.setitem(gpu.gpu_sections.SECTIONS, "loops", broken)
    assert worker.work("loops", "cpu", 0) == 0
    rows = [json.loads(line.removeprefix(gpu.MARK)) for line in capsys.readouterr().out.splitlines()]  # fmt: skip
    told = [r["row"] for r in rows if "row" in r]
    assert told[1].pop("where").startswith("ImportError at test_gpu_benchmark.py:")
    assert told == [{"name": "first"}, {"name": "its parts", "note": "ImportError: no module"}]


def test_a_section_begins_nothing_at_its_end_and_says_what_is_left(gpu, worker, monkeypatch, capsys):  # fmt: skip
    def two(bench):
        yield "first", lambda: bench.row(name="first")
        yield "second", lambda: bench.row(name="second")

    monkeypatch.setitem(gpu.gpu_sections.SECTIONS, "loops", two)
    for left, want in ((60.0, [{"name": "first"}, {"name": "second"}]), (1.0, [{"note": "no time left for 2: first, second"}])):  # fmt: skip
        assert worker.work("loops", "cpu", 0, until=time.time() + left) == 0
        rows = [json.loads(line.removeprefix(gpu.MARK)) for line in capsys.readouterr().out.splitlines()]  # fmt: skip
        assert [r["row"] for r in rows if "row" in r] == want


def test_a_worker_is_told_when_it_has_to_end(gpu, tmp_path, monkeypatch):
    run = run_of(gpu, tmp_path, monkeypatch)
    code = "import json, sys; print('@row ' + json.dumps({'row': {'until': sys.argv[-1], 'is': sys.argv[-2]}}))"
    run.command = lambda section, skip: [sys.executable, "-c", code]
    run.section("loops", last=True)
    (row,) = run.sections["loops"]
    assert row["is"] == "--until" and abs(float(row["until"]) - time.time() - 30) < 10


def test_a_section_ends_with_its_time(gpu, tmp_path, monkeypatch):
    run = run_of(gpu, tmp_path, monkeypatch, seconds=0.0)
    run.section("loops", last=True)
    assert run.sections["loops"] == [{"note": "no time left"}]


def test_a_worker_that_has_said_all_and_does_not_end_takes_no_time_of_others(gpu, tmp_path, monkeypatch):  # fmt: skip
    run = run_of(gpu, tmp_path, monkeypatch, seconds=1.0)
    monkeypatch.setattr(gpu, "LIMIT", 60.0)
    monkeypatch.setattr(gpu, "GRACE", 0.1)
    silent = "import os, time; os.close(1); time.sleep(50)"
    run.command = lambda section, skip: [sys.executable, "-c", silent]
    start = time.monotonic()
    run.section("loops", last=True)
    assert time.monotonic() < start + 20 and "exit status None" in run.sections["loops"][0]["note"]


def test_launches_are_counted_without_a_profile_of_the_cpu(gpu, monkeypatch):
    measures, seen = importlib.import_module("gpu_measures"), []

    class Profile:
        def __init__(self, activities):
            seen.extend(activities)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def key_averages(self):
            counts = {"cuGraphLaunch": 1, "cudaEventSynchronize": 2, "Memcpy HtoD": 3}
            return [argparse.Namespace(key=k, count=n) for k, n in counts.items()] if kept else []

    monkeypatch.setattr(torch.profiler, "profile", Profile)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    kept = True
    assert measures.launches(lambda: None) == {"launches": 1, "graphs": 1, "waits": 2}
    kept = False
    assert measures.launches(lambda: None) == {"launches": "none seen"}
    assert {*seen} == {torch.profiler.ProfilerActivity.CUDA}


def test_workloads_are_one_row_each_with_the_ratio_to_the_best_peer(gpu):
    rows = [
        {"workload": "a", "peer": "tograph", "microseconds": 2.0},
        {"workload": "a", "peer": "eager", "microseconds": 8.0},
        {"workload": "a", "peer": "compile", "microseconds": 4.0},
        {"workload": "b", "peer": "tograph", "microseconds": 1.0},
        {"workload": "b", "peer": "eager", "microseconds": 8.0},
        {"name": "b compile", "note": "RuntimeError"},
    ]
    table = importlib.import_module("gpu_report").compared(rows)
    assert [r.get("ratio") for r in table] == [2.0, 8.0, None, pytest.approx(4.0)]


def test_every_section_may_be_left_out_of_time(gpu, tmp_path, monkeypatch):
    """The last one most likely: its rows without a name do not end the script before its report is written."""
    run = run_of(gpu, tmp_path, monkeypatch)
    for section in gpu.gpu_sections.SECTIONS:
        run.sections[section] = [{"note": "no time left for 2: a, b"}, {"note": "no time left"}]
    run.sections["workloads"] += [{"workload": "a", "peer": "tograph", "microseconds": 2.0}]
    page = gpu.report(run).read_text()
    assert page.count("| no time left for 2: a, b |") == len(gpu.gpu_sections.SECTIONS)
    assert page.count('"no time left"}') == len(gpu.gpu_sections.SECTIONS) and "| a |" in page


@pytest.fixture
def assumed(gpu):
    pytest.importorskip("triton")
    return {n: importlib.import_module(f"gpu_{n}") for n in ("probes", "assumptions", "nodes", "draws")}  # fmt: skip


def planned(fn, *specs):
    graph = tg.function(fn).get_concrete_function(*specs).value_graph
    made = planner.plan(graph, whole=False)
    assert check(made) == []
    return made


def test_only_programs_that_make_tensors_of_no_device_run_in_a_mode(gpu):
    peers, elsewhere = importlib.import_module("gpu_peers"), torch.device("meta")
    assert [k for k in "cgi" if peers.makes_tensors(WORKLOADS[k], elsewhere)] == ["c"]
    assert not peers.makes_tensors(WORKLOADS["c"], torch.device("cpu"))


def test_each_assumption_has_a_plan_that_needs_it(assumed):
    square = tg.TensorSpec([64, 64], torch.float32, device="cuda:0")
    large = tg.TensorSpec([512, 512], torch.float32, device="cuda:0")
    number = tg.TensorSpec([], torch.int64, device="cuda:0")
    kinds = {}
    for name, (fn, _) in assumed["nodes"].NODES.items():
        side = large if "fork" in name else square
        kinds[name] = planned(fn, side, side, number)
    assert kinds["WHILE with a product"].nodes()["while"] == 1
    assert kinds["IF"].nodes()["if"] == 1 and kinds["SWITCH"].nodes()["switch"] == 1
    assert kinds["nodes in nodes"].nodes()["while"] == 2
    body = next(s for s in kinds["streams that fork in a body"].steps if isinstance(s, Conditional)).bodies[0]  # fmt: skip
    assert any(hazards.streams(body, kinds["streams that fork in a body"].edges(body)))
    for draw in assumed["draws"].DRAWS.values():
        spec = tg.TensorSpec([30, 10], torch.float32, device="cuda:0")
        assert planned(lambda x, draw=draw: (draw(x), draw(x)), spec).generator is not None


def test_what_is_assumed_is_named_before_it_is_tried(gpu, assumed):
    """A part that ends its process is a row of the report by its name."""
    rows = []
    bench = argparse.Namespace(gpu=True, device=torch.device("cuda:0"), row=lambda **f: rows.append(f))  # fmt: skip
    names = [
        name
        for parts in (assumed["probes"].probes, assumed["assumptions"].assumptions)
        for name, _ in parts(bench)
    ]
    assert len(set(names)) == len(names) > 60 and not rows
    bench.gpu = False
    assert [name for name, _ in assumed["probes"].probes(bench)] == ["versions"]


def test_sections_run_on_one_simulated_device_after_another():
    """In one process: nothing of the first device is left in what the second one runs."""
    pytest.importorskip("triton")
    simulated = importlib.import_module("tests.runtime.gpu.simulated_benchmark")
    parts = {"loops": "^(1 calls, WHILE node, setter apart|a start .*|a CUDA graph .*|copies .*)$", "assumptions": "^(IF|numbers go there and back)$", "workloads": "^i (tograph|eager)$", "calls": "^i$"}  # fmt: skip
    for name, wanted in parts.items():
        rows = []
        with pytest.MonkeyPatch.context() as monkeypatch:
            module, made = simulated.prepare(monkeypatch)
            simulated.section(module, name, lambda **fields: rows.append(fields), wanted)
        forget(capture.probed)
        assert (
            rows and not made.declined and {level[1:3] for level in made.levels} <= {("device", 1)}
        )
        assert not any("note" in r or r.get("holds") == "NO" for r in rows), rows


def test_sections_run_on_a_simulated_device():
    """In a process of their own, as on a GPU."""
    pytest.importorskip("triton")
    parts = "^(IF|IF, setters fused|i|1 calls, WHILE.*|softmax)$"
    command = [sys.executable, "-m", "tests.runtime.gpu.simulated_benchmark", "assumptions", "correctness", "loops", "--parts", parts]  # fmt: skip
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True)
    assert done.returncode == 0 and "note" not in done.stdout, done.stdout + done.stderr
    assert done.stdout.count("'holds': 'yes'") == 2 and done.stdout.count("'result': 'same'") == 1
    assert done.stdout.count("microseconds") == 2 and "declined []" in done.stdout


def test_what_a_simulated_device_gives_is_compared_with_plain_calls(monkeypatch):
    pytest.importorskip("triton")
    simulated = importlib.import_module("tests.runtime.gpu.simulated_benchmark")
    module, _ = simulated.prepare(monkeypatch)
    monkeypatch.setattr(device, "launch", lambda source, arguments: None)
    rows = []
    simulated.section(module, "correctness", lambda **fields: rows.append(fields), "^i$")
    monkeypatch.undo()
    forget(capture.probed)
    assert "DIFFERENT in call 1" in rows[0]["result"]


def test_samples_on_a_simulated_device_are_smaller(gpu, monkeypatch):
    pytest.importorskip("triton")
    simulated = importlib.import_module("tests.runtime.gpu.simulated_benchmark")
    correct = importlib.import_module("gpu_correctness")
    for name in ("neural_ode", *simulated.SMALLER):
        path = correct.SAMPLES / f"{name}.py"
        whole, cut = correct.sample(path), simulated.smaller(correct.sample(path))
        before, after = ([x.numel() for x in correct.leaves(m.example_inputs())] for m in (whole, cut))  # fmt: skip
        assert after < before if name in simulated.SMALLER else cut.STEPS < whole.STEPS


def test_every_sample_and_workload_has_a_plan_without_the_host(monkeypatch):
    """As the report of plans tells it; it would say why not, how often the host is asked, and what no body may hold."""
    monkeypatch.syspath_prepend(str(FOLDER))
    plans = importlib.import_module("plans")
    monkeypatch.setattr(plans, "CASES", [])
    rows = [plans.row(name, graph) for name, call, calls in plans.programs() for graph in plans.graphs(call, calls)]  # fmt: skip
    assert {r["program"] for r in rows} >= {"sample reinforce", "workload cg", "gradient e"}
    assert [r for r in rows if r.get("host") or r.get("forbidden") or "bytes" not in r] == []
    shifted = tg.function(lambda x: x + 1)  # its first call compiles nothing
    (graph,) = plans.graphs(lambda: shifted(torch.ones(3)), 1)
    assert plans.row("shifted", graph)["nodes"] == "1 kernel"


def test_the_details_of_what_went_wrong_are_in_a_file(gpu, worker, tmp_path, monkeypatch, capsys):
    """The error in full, the plans of the part and their kernels; nothing of parts that went well."""
    gpu_details = importlib.import_module("gpu_details")

    def planned(name):
        x = torch.ones(64)
        made = tg.function(lambda x: torch.exp(x) + 1).get_concrete_function(x)
        made.value_graph.name = name
        planner.plan(retarget(made.value_graph, "cuda:0"))

    def parts(bench):
        yield "good", lambda: planned("good")
        yield "different", lambda: (planned("different"), bench.row(result="DIFFERENT in call 2"))
        yield "raises", lambda: (planned("raises"), int("no number"))

    monkeypatch.setitem(gpu.gpu_sections.SECTIONS, "correctness", parts)
    now = tmp_path / "now"
    details = gpu_details.Details(tmp_path / "new" / gpu_details.NAME, now)
    assert worker.work("correctness", "cpu", 0, details=details) == 0
    text = details.file.read_text()
    assert "plan different on cuda:0" in text and "def different_kernel" in text
    assert "plan raises on" in text and 'int("no number")' in text and "ValueError: invalid" in text
    assert "plan good" not in text and "plan raises on" in now.read_text()
    capsys.readouterr()


def test_a_part_that_crashes_or_hangs_leaves_what_it_had_planned(gpu, tmp_path, monkeypatch):
    run = run_of(gpu, tmp_path, monkeypatch)
    run.now("correctness").write_text("plan of the part")
    run.section("correctness", last=True)
    text = run.details.read_text()
    assert "correctness: crashes: exit status 7" in text and "its last words" in text
    assert "correctness: hangs: no answer in 1 s" in text and text.count("plan of the part") == 2
    told = [gpu.Run.command(run, section, 0)[-5] for section in ("correctness", "loops")]
    assert told[0].endswith("correctness.plans") and "plans" not in told[1]  # it would be measured


def test_what_is_assumed_of_graphs_is_tried_with_a_graph(gpu):
    """Not with kernels that are started one by one, whose inputs are nowhere told."""
    specs = [tg.TensorSpec([n, 1024], torch.float32, device="cuda:0") for n in (4096, 1024)]
    calls = importlib.import_module("gpu_calls")
    made = planner.plan(tg.function(calls.products).get_concrete_function(*specs).value_graph)
    assert refresh.movable(made) and not direct.worth(made)
