"""What asks the world outside, or acts on it, does so at every call; where that cannot be, it is refused."""

import collections
import contextvars
import datetime
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

import tograph as tg
from tograph.errors import ScopeError, StagingError

X = torch.ones(())
DEPTH = contextvars.ContextVar("DEPTH", default=0)


def test_clocks_and_numbers_of_the_system_are_others_at_every_call():
    def asks(x):
        return uuid.uuid4(), os.urandom(8), datetime.datetime.now(), x

    made = tg.function(asks)
    for a, b in zip(made(X)[:-1], made(X)[:-1], strict=True):
        assert a != b


def test_a_clock_of_a_given_time_is_no_question():
    made = tg.function(lambda x: (time.strftime("%Y", time.gmtime(0)), x))
    made(X), made(X)
    assert made(X)[0] == "1970" and made.trace_count == 1


def test_files(tmp_path):
    def log(x, folder):
        before = os.path.exists(folder + "/log") and Path(folder, "log").read_text()
        with open(folder + "/log", "a") as f:
            f.write("line\n")
            print("more", 1, sep="-", file=f)
        return before, x

    made = tg.function(log)
    found = [made(X, str(tmp_path))[0] for _ in range(3)]
    assert found == [False, "line\nmore-1\n", "line\nmore-1\n" * 2]


@pytest.mark.parametrize("act", [os.mkdir, os.path.exists, open])
def test_in_a_staged_branch_it_is_refused(act, tmp_path):
    def branch(x):
        if x > 5:
            act(str(tmp_path / "new"))
        return x

    with pytest.raises(StagingError, match=f"{act.__name__}.. .* outside of the program"):
        tg.function(branch)(X)
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_opened_inside_takes_no_text_of_the_run(tmp_path):
    def log(x):
        with open(tmp_path / "log", "w") as f:
            f.write(f"{x}")

    def shown(x):
        with open(tmp_path / "log", "w") as f:
            print(x, file=f)

    for f in (log, shown):
        with pytest.raises(StagingError, match="this file is opened in the function"):
            tg.function(f)(X)


def test_what_has_acted_is_not_traced_a_second_time(tmp_path):
    def log(x):
        with open(tmp_path / "log", "a") as f:
            f.write("line\n")
        return (
            x * np.ones(np.random.randint(1, 3)).sum()
        )  # found out late: the number is drawn while tracing

    with pytest.raises(StagingError, match=r"open\(\) has acted while tracing"):
        tg.function(log)(X)
    assert (tmp_path / "log").read_text() == "line\n"


def test_context_variables_are_read_at_every_call():
    made = tg.function(lambda x: x * DEPTH.get())
    found = []
    for n in (1, 2, 2, 1):
        token = DEPTH.set(n)
        found.append(made(X).item())
        DEPTH.reset(token)
    assert found == [1, 2, 2, 1] and made.trace_count == 2


def test_context_variables_are_set_at_every_call():
    def deeper(x):
        DEPTH.set(DEPTH.get() + 1)
        return x * DEPTH.get()

    made = tg.function(deeper)

    def calls():
        return [made(X).item() for _ in range(3)]

    assert contextvars.copy_context().run(calls) == [1, 2, 3]


def test_warnings_name_the_line_of_the_user():
    def warn(x):
        warnings.warn("careful")
        return x

    with pytest.warns(UserWarning, match="careful") as found:
        tg.function(warn)(X)
    assert found[0].filename == __file__
    assert found[0].lineno == warn.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    "make", [tempfile.NamedTemporaryFile, tempfile.TemporaryDirectory, tempfile.mkdtemp]
)
def test_files_without_a_name_in_a_branch_are_refused(make, tmp_path):
    def f(x):
        if x.sum() > 0:
            make(dir=tmp_path)
        return x + 1

    with pytest.raises(StagingError, match=f"{make.__name__}.. acts"):
        tg.function(f)(-torch.ones(3))
    assert not list(tmp_path.iterdir())


def test_processes_begin_at_every_call(tmp_path):
    def f(x):
        subprocess.Popen(["mkdir", str(tmp_path / "new")]).wait()
        return x

    made = tg.function(f)
    made(X)
    (tmp_path / "new").rmdir()
    made(X)
    assert (tmp_path / "new").is_dir()


def _tensor(x, out):
    return lambda: out.append(x * 2)


def _number(x, out):
    n = int(x.sum())
    return lambda: out.append(n + 1)


def _growing(x, out):
    if x.sum() > 0:
        out.append(1)
    return lambda: out.append(2)


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("work", [_tensor, _number, _growing])
def test_a_thread_that_uses_what_the_run_knows_is_refused(work, joined, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda failed: None)

    def f(x):
        out = []
        thread = threading.Thread(target=work(x, out))
        thread.start()
        if joined:
            thread.join()
            return out[0]
        while thread.is_alive():
            pass
        return out

    with pytest.raises(ScopeError, match="thread that is started here.*\n.*\n.*thread.start"):
        tg.function(f)(X)


def test_threads_begin_at_every_call_and_in_no_staged_branch():
    seen = []

    def f(x):
        thread = threading.Thread(target=seen.append, args=(1,))
        thread.start()
        thread.join()
        return x

    made = tg.function(f)
    made(X)
    made(X)
    assert seen == [1, 1]
    with pytest.raises(StagingError, match="start.. acts"):
        tg.function(lambda c, x: f(x) if c else x)(torch.tensor(False), X)
    assert seen == [1, 1]


@pytest.mark.parametrize(
    "change", [lambda: torch.set_num_threads(1), lambda: sys.setrecursionlimit(5000), lambda: logging.getLogger("unused").setLevel(10)]
)  # fmt: skip
def test_settings_of_the_process_in_a_branch_are_refused(change):
    def f(c):
        if c:
            change()
        return c

    with pytest.raises(StagingError, match="acts on what is outside of the program"):
        tg.function(f)(torch.tensor(False))


def in_plain_loops(folder, x):
    n = 0
    while n < 3:
        with open(folder / f"f{n}", "w") as file:
            print("line", n, file=file)
        n += 1
    found, order = sorted(os.listdir(folder)), collections.OrderedDict(a=1, b=2)
    with open(folder / "f2", "rb") as file:
        chunks = []
        while chunk := file.read(3):
            chunks.append(chunk)
    while os.listdir(folder):
        os.remove(folder / os.listdir(folder)[0])
        order.move_to_end("a")
    return found, chunks, list(order), x


def test_files_in_plain_loops(tmp_path):
    assert tg.function(in_plain_loops)(tmp_path, 1) == in_plain_loops(tmp_path, 1)


def test_files_in_loops_that_come_to_be_staged(tmp_path):
    path = tmp_path / "lines"
    path.write_text("a\nb\nc\n")

    def ahead(x):
        with open(path) as file:
            total = 0.0
            while total < x:
                if total == 0.0:
                    file.readline()
                total = total + x / 3
            return total, file.readline()

    def each(x):
        with open(path) as file:
            total = 0.0
            while total < x:
                total = total + x * len(file.readline())
            return total

    for f in (ahead, each):
        with pytest.raises(StagingError, match="does not show what it holds"):
            tg.function(f)(torch.tensor(3.0))
