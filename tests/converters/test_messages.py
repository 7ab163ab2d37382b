"""Log records, warnings and text written to files: at every run of the graph, in order, from taken branches only."""

import contextlib
import io
import logging
import sys
import tempfile
import warnings

import pytest
import torch

import tograph as tg
from tograph.errors import StagingError


class Keep(logging.Handler):
    def __init__(self):
        super().__init__()
        self.records = []

    def emit(self, record):
        self.records.append(record)


@pytest.fixture
def logger():
    made = logging.getLogger("tograph_test_messages")
    made.setLevel(logging.INFO)
    made.handlers, made.propagate = [Keep()], False
    return made


def taken(logger):
    return [(r.levelname, r.getMessage()) for r in logger.handlers[0].records]


def test_log_records(logger):
    adapter = logging.LoggerAdapter(logger, {})

    @tg.function
    def f(x):
        logger.info("x is %.1f and %s", x, "y")
        if x > 0:
            logger.warning(f"large: {x}")
        else:
            adapter.error("small")
        logger.debug("not shown")
        logger.log(logging.CRITICAL, "end")
        return x

    f(torch.tensor(1.0))
    f(torch.tensor(-1.0))
    assert taken(logger) == [
        ("INFO", "x is 1.0 and y"), ("WARNING", "large: 1.0"), ("CRITICAL", "end"),
        ("INFO", "x is -1.0 and y"), ("ERROR", "small"), ("CRITICAL", "end"),
    ]  # fmt: skip
    record = logger.handlers[0].records[0]
    assert record.pathname == __file__
    assert record.lineno == f.python_function.__code__.co_firstlineno + 2


def test_a_level_that_is_raised_later_counts(logger):
    @tg.function
    def f(x):
        logger.info("hello")
        return x

    f(torch.tensor(1.0))
    logger.setLevel(logging.ERROR)
    f(torch.tensor(1.0))
    assert taken(logger) == [("INFO", "hello")]


def test_warnings_of_a_branch():
    @tg.function
    def f(x):
        if x > 0:
            warnings.warn(f"too large: {x}", RuntimeWarning, stacklevel=1)
        return x

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        f(torch.tensor(-1.0))
        assert not found
        f(torch.tensor(2.0))
    assert [(w.category, str(w.message), w.filename) for w in found] == [
        (RuntimeWarning, "too large: 2.0", __file__)
    ]


class Late(UserWarning):
    pass


def test_the_text_of_a_warning_is_one_of_the_run():
    @tg.function
    def f(x, n):
        k = 0
        while k < n:
            k += 1
        warnings.warn(Late(f"{k} steps"))
        if x > 0:
            warnings.warn(Late("large: %s" % float(x)))
        return x

    x = torch.tensor(2.0)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            f(x, torch.tensor(3))
        assert [(w.category, str(w.message)) for w in found] == [
            (Late, "3 steps"),
            (Late, "large: 2.0"),
        ]


def test_explicit_warnings_of_a_branch():
    @tg.function
    def f(x):
        if x > 0:
            warnings.warn_explicit(f"large: {x}", UserWarning, "their.py", 7)
        return x

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        f(torch.tensor(-1.0))
        assert not found
        f(torch.tensor(2.0))
        f(torch.tensor(3.0))
    assert [(str(w.message), w.filename, w.lineno) for w in found] == [
        ("large: 2.0", "their.py", 7),
        ("large: 3.0", "their.py", 7),
    ]


def test_files(capsys):
    with tempfile.TemporaryFile("w+") as file:

        @tg.function
        def f(x):
            n = file.write("a")
            if x > 0:
                n = n + file.write(f"{x:.0f}")
                sys.stdout.write("out")
            file.writelines(["b", "c"])
            file.flush()
            return n

        assert int(f(torch.tensor(2.0))) == 2
        assert int(f(torch.tensor(-2.0))) == 1
        file.seek(0)
        assert file.read() == "a2bcabc"
    assert capsys.readouterr().out == "out"


def test_redirected_streams():
    def redirected(x):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            print("out")
            print("err", file=sys.stderr)
        return out.getvalue(), err.getvalue(), x + 1

    assert tg.function(redirected)(1) == ("out\n", "err\n", 2)


def test_warnings_of_a_branch_under_filters_of_the_function():
    def ignored(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if x > 1:
                warnings.warn("large", stacklevel=1)
        if x > 2:
            warnings.warn("huge", stacklevel=1)
        return x + 1

    def recorded(x):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            if x > 1:
                warnings.warn("large", stacklevel=1)
        return len(found)

    def raised(x):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if x > 1:
                warnings.warn("large", stacklevel=1)

    f = tg.function(ignored)
    for x, texts in ((3.0, ["huge"]), (2.0, []), (0.0, []), (4.0, ["huge"])):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            f(torch.tensor(x))
        assert [str(w.message) for w in found] == texts
    for plain in (recorded, raised):
        with pytest.raises(StagingError, match="write that around the call of the function"):
            tg.function(plain)(torch.tensor(0.0))
