"""What verbosity, TOGRAPH_DUMP and a running profiler show of a trace, and progress of long work."""

import io
import logging
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest
import torch

import tograph as tg
from tograph import settings
from tograph.runtime.display import artifacts
from tograph.runtime.execution import scheduler


@pytest.fixture
def logged(caplog):
    """Runs a new function at a verbosity, and gives what the log says."""

    def run(level):
        @tg.function
        def twice(x):
            while x < 5:
                x = x * 2
            return x

        tg.set_verbosity(level)
        try:
            twice(torch.tensor(1.0))
        finally:
            tg.set_verbosity(0)
        return caplog.text

    caplog.set_level(logging.DEBUG, "tograph")
    return run


def test_verbosity(logged):
    assert logged(0) == ""
    text = logged(1)
    assert "traced 'twice' in" in text and "first call" in text
    assert "converted" not in text


def test_most_verbose(caplog):
    @tg.function
    def never_converted_before(x):
        while x < 5:
            x = x * 2
        return x

    caplog.set_level(logging.DEBUG, "tograph")
    tg.set_verbosity(5)
    try:
        never_converted_before(torch.tensor(1.0))
    finally:
        tg.set_verbosity(0)
    text = caplog.text
    assert "converted" in text and "ag__.while_stmt" in text
    assert "While(" in text and "while True:" in text


def test_dump_writes_code_graph_and_program(tmp_path, monkeypatch):
    monkeypatch.setattr(settings, "DUMP", str(tmp_path / "dumps"))

    @tg.function
    def twice(x):
        return x * 2

    twice(torch.ones(2))
    names = {p.name.split(".", 1)[1].lstrip("0123456789.") for p in (tmp_path / "dumps").iterdir()}
    assert {"graph.txt", "host.py"} <= names
    code = next((tmp_path / "dumps").glob("*twice.code.py"))
    assert "def twice(x):" in code.read_text()
    graph = next((tmp_path / "dumps").glob("twice.*.graph.txt")).read_text()
    assert str(tg.parse_graph(graph)).split() == graph.split()


def test_dump_into_a_place_that_cannot_be_written_is_one_warning(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(settings, "DUMP", str(tmp_path / "file" / "dumps"))

    @tg.function
    def twice(x):
        return x * 2

    assert twice(torch.ones(1)) == 2
    assert len([r for r in caplog.records if "TOGRAPH_DUMP" in r.getMessage()]) == 1


def test_profiler_sees_ranges_named_after_lines():
    @tg.function
    def halve(x):
        while x.sum() > 1:
            x = x / 2
        return x

    x = torch.ones(4)
    expected = halve(x)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        assert torch.equal(halve(x), expected)
    events = {e.key: e.count for e in profile.key_averages()}
    line = halve.python_function.__code__.co_firstlineno + 3
    assert events[f"test_artifacts.py:{line} aten.div.Tensor"] == 2
    assert events["tograph halve"] == 1
    assert events[f"test_artifacts.py:{line - 1} While"] == 1


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_of_long_work(monkeypatch):
    monkeypatch.setattr(artifacts, "PATIENCE", 0.02)
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with artifacts.progress("tracing 'f'"):
        deadline = time.monotonic() + 5
        while "tracing 'f' ..." not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert "tograph: tracing 'f' ... " in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\033[K")


def test_compiling_shows_progress(monkeypatch):
    shown = []
    monkeypatch.setattr(
        scheduler.artifacts, "progress", lambda what: shown.append(what) or nullcontext()
    )

    @tg.function
    def slow(x):
        while x < 5:
            x = x * 2
        return x

    assert slow(torch.tensor(1.0)) == 8
    assert "tracing 'slow'" in shown
    slow.concrete_functions[0].scheduled.compile()
    assert shown[-1] == "compiling 'slow'"


def test_no_progress_where_nobody_looks(monkeypatch):
    monkeypatch.setattr(artifacts, "PATIENCE", 0.0)
    plain = io.StringIO()
    monkeypatch.setattr("sys.stderr", plain)
    with artifacts.progress("tracing"):
        time.sleep(0.05)
    assert plain.getvalue() == ""


PROFILED = """
import sys
import torch
import tograph as tg

@tg.function
def f(x, n):
    while n > 0:
        x, n = torch.tanh(x), n - 1
    return x

args = torch.ones(3), torch.tensor(5)
f(*args)
with torch.profiler.profile(with_stack=True) as profile:
    before = set(sys.modules)
    f(*args)
    made = set(sys.modules) - before
print(any(e.key == "tograph f" for e in profile.key_averages()), made)
"""


def test_nothing_is_imported_under_a_profiler(tmp_path):
    """It keeps addresses of what it has seen, also of a module's code, which is gone."""
    file = tmp_path / "profiled.py"
    file.write_text(PROFILED)
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "True set()", done.stderr
