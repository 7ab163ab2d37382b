"""The GPU benchmark reports what fails, crashes or hangs, and goes on behind it."""

import argparse
import importlib
import sys
import textwrap
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "benchmarks"
WORKER = textwrap.dedent("""
    import json, os, sys, time
    say = lambda **f: print("@row " + json.dumps(f), flush=True)
    parts = ["good", "crashes", "hangs", "last"]
    print("other output")
    for i, name in enumerate(parts):
        if i < int(sys.argv[1]):
            continue
        say(begins=i, name=name)
        if name == "crashes":
            os._exit(7)
        if name == "hangs":
            time.sleep(60)
        say(row={"name": name, "rate": i + 0.5})
    """)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("gpu")


def run_of(gpu, tmp_path, monkeypatch, seconds=30.0):
    monkeypatch.setattr(gpu, "LIMIT", 0.7)
    made = gpu.Run(argparse.Namespace(device="cpu", output=tmp_path, seconds=seconds))
    made.command = lambda section, skip: [sys.executable, "-c", WORKER, str(skip)]
    return made


def test_a_part_that_crashes_or_hangs_takes_no_other_with_it(gpu, tmp_path, monkeypatch):
    run = run_of(gpu, tmp_path, monkeypatch)
    run.section("loops", last=True)
    assert run.sections["loops"] == [
        {"name": "good", "rate": 0.5},
        {"name": "crashes", "note": "the process ended: exit status 7"},
        {"name": "hangs", "note": "no answer in 1 s"},
        {"name": "last", "rate": 3.5},
    ]
    page = gpu.report(run, "a device").read_text()
    assert "| hangs |  | no answer in 1 s |" in page and (tmp_path / "gpu.json").exists()


def test_a_section_ends_with_its_time(gpu, tmp_path, monkeypatch):
    run = run_of(gpu, tmp_path, monkeypatch, seconds=0.0)
    run.section("loops", last=True)
    assert run.sections["loops"] == [{"note": "no time left"}]


def test_workloads_are_one_row_each_with_the_ratio_to_the_best_peer(gpu):
    rows = [
        {"workload": "a", "peer": "tograph", "microseconds": 2.0},
        {"workload": "a", "peer": "eager", "microseconds": 8.0},
        {"workload": "a", "peer": "compile", "microseconds": 4.0},
        {"workload": "b", "peer": "tograph", "microseconds": 1.0},
        {"workload": "b", "peer": "eager", "microseconds": 8.0},
        {"name": "b compile", "note": "RuntimeError"},
    ]
    table = gpu.compared(rows)
    assert [r.get("ratio") for r in table] == [2.0, 8.0, None, pytest.approx(4.0)]
