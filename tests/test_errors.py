"""Bad input: each is an error of tg.errors that shows file, line, variable and remedy.

After each error the function object, and the library, are usable.
"""

import logging
import signal
import threading
import time
import traceback

import pytest
import torch

import tograph as tg

ONE = torch.tensor(1.0)


def shows(caught, *parts, file="test_errors.py"):
    """The documented type, and the parts of the message."""
    error = caught.value
    assert type(error).__module__ == "tograph.errors", type(error)
    text = str(error) + "".join(getattr(error, "__notes__", ()))
    for part in (file, *parts):
        assert part in text, f"{part!r} is not in: {text}"


def line_of(function, offset):
    """How a message shows the line that is `offset` lines below the `def` of a function."""
    code = getattr(function, "python_function", function).__code__
    return f"line {code.co_firstlineno + offset}"


def still_works():
    @tg.function
    def f(x):
        while x < 5:
            x = x + 2
        return x

    assert f(ONE) == 5


@pytest.mark.parametrize("thing", [3, "text", [1], torch.ones(2)])
def test_not_a_function(thing):
    with pytest.raises(tg.errors.NotAFunctionError) as caught:
        tg.function(thing)
    assert repr(thing) in str(caught.value)
    still_works()


class SomeClass:
    pass


@pytest.mark.parametrize("thing", [SomeClass, int, torch.nn.Linear])
def test_a_class(thing):
    with pytest.raises(tg.errors.NotAFunctionError) as caught:
        tg.function(thing)
    assert thing.__name__ in str(caught.value)
    assert "class" in str(caught.value)


SIGN = ("def sign(x):\n    if x > 0:\n", "        return x\n    return -x\n")


def test_no_source():
    space = {}
    exec("".join(SIGN), space)
    with pytest.raises(tg.errors.SourceError) as caught:
        tg.function(space["sign"])(ONE)
    assert "sign" in str(caught.value) and "source" in str(caught.value)
    still_works()


def test_callee_without_source():
    space = {}
    exec("".join(SIGN), space)
    sign = space["sign"]

    @tg.function
    def f(x):
        return sign(x)

    for _ in range(2):
        with pytest.raises(tg.errors.SourceError) as caught:
            f(ONE)
        shows(caught, "sign", line_of(f, 2))
    sign = lambda x: x * 2
    assert f(ONE) == 2


def test_generator_function():
    def g(x):
        yield x

    with pytest.raises(tg.errors.TographError) as caught:
        tg.function(g)(ONE)
    shows(caught, "generator", ".g'", line_of(g, 0))


def test_async_function():
    async def g(x):
        return x

    with pytest.raises(tg.errors.TographError) as caught:
        tg.function(g)(ONE)
    shows(caught, "async", ".g'", "must return zero or more Tensors", line_of(g, 0))
    assert isinstance(caught.value, TypeError)


def test_async_callee():
    async def g(x):
        return x

    @tg.function
    def f(x):
        return g(x)

    with pytest.raises(tg.errors.TographError) as caught:
        f(ONE)
    shows(caught, "async")


@pytest.mark.parametrize(
    ("args", "kwargs", "part"),
    [((), {}, "x"), ((1,), {"z": 1}, "z"), ((1,), {"x": 1}, "x")],
)
def test_wrong_arity(args, kwargs, part):
    @tg.function
    def my_name(x, y=1):
        return x

    with pytest.raises(tg.errors.SignatureError) as caught:
        my_name(*args, **kwargs)
    shows(caught, "my_name", part, file="")
    assert isinstance(caught.value, TypeError)
    assert my_name(ONE) == 1


def test_arguments_against_an_input_signature():
    @tg.function(input_signature=[tg.TensorSpec([None, 2], torch.float32)])
    def f(x):
        return x

    for wrong in (torch.ones(2), torch.ones(2, 3), torch.ones(2, 2, dtype=torch.int64), "text"):
        with pytest.raises(tg.errors.SignatureError) as caught:
            f(wrong)
        shows(caught, "x", file="")
    assert f(torch.ones(3, 2)).shape == (3, 2)


def test_unhashable_argument():
    thing = {1: 2}.keys()

    @tg.function
    def f(x, odd):
        return x

    with pytest.raises(tg.errors.UnhashableArgumentError) as caught:
        f(ONE, thing)
    shows(caught, "odd", repr(thing), file="")
    assert f(ONE, 1) == 1


LEAKED = []


@tg.do_not_convert
def leak(x):
    LEAKED[:] = [x]


def test_tensor_outside_its_graph():
    leaked = LEAKED

    @tg.function
    def f(x):
        leak(x * 2)
        return x

    f(ONE)
    for use in (lambda t: t + 1, lambda t: t.sum(), torch.sin):
        with pytest.raises(tg.errors.ScopeError) as caught:
            use(leaked[0])
        assert "Return it" in str(caught.value)
    assert f(ONE) == 1


def test_leaked_tensor_in_another_function():
    leaked = LEAKED

    @tg.function
    def f(x):
        leak(x * 2)
        return x

    @tg.function
    def g(x):
        return x + leaked[0]

    f(ONE)
    for _ in range(2):
        with pytest.raises(tg.errors.ScopeError) as caught:
            g(ONE)
        shows(caught, line_of(g, 2))
    leaked[0] = torch.tensor(5.0)
    assert g(ONE) == 6


def numpy_of(x):
    return torch.tensor(float(x.numpy()))


def bool_of(x):
    return torch.tensor(1.0) if x > 0 else x


def while_of(x):
    while x > 5:
        x = x - 1
    return x


def int_of(x):
    return torch.zeros(int(x))


def list_of(x):
    return [v for v in range(int(x))]


@pytest.mark.parametrize("function", [numpy_of, bool_of, while_of, int_of, list_of])
def test_value_asked_in_unconverted_code(function):
    left = tg.do_not_convert(function)

    @tg.function
    def f(x):
        return left(x)

    for _ in range(2):
        with pytest.raises(tg.errors.GraphBoolError) as caught:
            f(ONE)
        shows(caught)
        frames = [(e.frame.code.raw.co_filename, e.lineno + 1) for e in caught.traceback]
        assert (__file__, function.__code__.co_firstlineno + 1) in frames
    still_works()


def test_item_branch_in_unconverted_code():
    @tg.do_not_convert
    def left(x):
        return 1 if x.item() > 0 else 2

    @tg.function
    def f(x):
        return left(x)

    with pytest.raises(tg.errors.GraphBoolError) as caught:
        f(ONE)
    shows(caught)
    still_works()


def test_numpy_in_converted_code():
    @tg.function
    def f(x):
        y = x.half()
        return y.numpy()

    with pytest.raises(tg.errors.SymbolicValueError) as caught:
        f(ONE)
    shows(caught, "numpy", "tg.py_function", line_of(f, 3))
    assert isinstance(caught.value, NotImplementedError)


def interrupt(after):
    """The signal of Ctrl-C, in some seconds; the returned event of the thread prevents it."""
    done = threading.Event()

    def send():
        if not done.wait(after):
            signal.raise_signal(signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()
    return done


# The interrupt may land in a garbage collection callback, which Python reports and drops.
DROPPED = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@DROPPED
def test_interrupted_staged_while():
    @tg.function
    def f(x, step):
        while x < 10:
            x = x + step
        return x

    assert f(ONE, torch.tensor(1.0)) == 10
    start = time.perf_counter()
    done = interrupt(0.3)
    with pytest.raises(KeyboardInterrupt):
        f(ONE, torch.tensor(0.0))
    done.set()
    assert time.perf_counter() - start < 5
    assert f(ONE, torch.tensor(1.0)) == 10
    assert f.trace_count == 1
    still_works()


@DROPPED
def test_interrupted_in_place_while():
    x = torch.zeros(1)

    @tg.function
    def f(x, stop):
        while x[0] >= 0:
            x += 1
            if stop:
                break

    f(x, torch.tensor(True))
    done = interrupt(0.3)
    with pytest.raises(KeyboardInterrupt):
        f(x, torch.tensor(False))
    done.set()
    before = x.clone()
    f(x, torch.tensor(True))
    assert x == before + 1


@DROPPED
def test_interrupted_while_tracing():
    endless = True

    @tg.function
    def f(x):
        while endless:
            x = x + 1
        return x

    start = time.perf_counter()
    done = interrupt(0.3)
    with pytest.raises(KeyboardInterrupt):
        f(ONE)
    done.set()
    assert time.perf_counter() - start < 5
    endless = False
    assert f(ONE) == 1
    still_works()


@DROPPED
def test_interrupted_inside_a_staged_branch_while_tracing():
    endless = True

    @tg.function
    def f(x):
        y = x
        if x > 0:
            y = x + 1
            while endless:
                pass
        return y

    done = interrupt(0.3)
    with pytest.raises(KeyboardInterrupt):
        f(ONE)
    done.set()
    endless = False
    assert f(ONE) == 2
    still_works()


@pytest.fixture
def limit_of_ten():
    before = tg.debug.python_iteration_limit
    tg.debug.python_iteration_limit = 10
    yield
    tg.debug.python_iteration_limit = before


def python_while(x, n):
    k = 0
    while k < n:
        k += 1
    return x + k


def python_for(x, n):
    k = 0
    for k in range(n):
        pass
    return x + k


@pytest.mark.parametrize("function", [python_while, python_for])
def test_python_iteration_limit(function, limit_of_ten):
    f = tg.function(function)
    with pytest.raises(tg.errors.IterationLimitError, match="iteration limit exceeded") as caught:
        f(ONE, 50)
    shows(caught, "python_iteration_limit", "10", line_of(function, 2))
    assert f(ONE, 5) == function(ONE, 5)
    assert f(ONE, 10) == function(ONE, 10)
    tg.debug.python_iteration_limit = 100
    assert f(ONE, 50) == function(ONE, 50)


def test_limit_does_not_count_staged_loops(limit_of_ten):
    f = tg.function(python_while)
    assert f(ONE, torch.tensor(50)) == 51


def test_unroll_warning():
    messages = []
    handler = type("Handler", (logging.Handler,), {})()
    handler.emit = lambda record: messages.append(record.getMessage())
    before = tg.debug.unroll_warning_threshold
    tg.debug.unroll_warning_threshold = 5
    logger = logging.getLogger("tograph")
    logger.addHandler(handler)

    @tg.function
    def f(x):
        for _ in range(20):
            x = x + 1
        return x

    try:
        assert f(ONE) == 21
    finally:
        tg.debug.unroll_warning_threshold = before
        logger.removeHandler(handler)
    assert len(messages) == 1
    assert "Large unrolled loop" in messages[0] and "test_errors.py" in messages[0]


def deepest(x):
    y = x * 2
    raise ValueError(f"no: {y.shape}")


def middle(x):
    if x > 0:
        return deepest(x)
    return x


def test_run_time_error_shows_where():
    @tg.function
    def f(x, i):
        y = x + 1
        return y[i]

    for _ in range(2):
        with pytest.raises(IndexError) as caught:
            f(torch.ones(3), torch.tensor(7))
        text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
        assert "test_errors.py" in text and line_of(f, 3) in text
    assert f(torch.ones(3), torch.tensor(1)) == 2


def pick(y, i):
    return y[i]


def picked_in_a_branch(x, i):
    if i > 0:
        x = pick(x, i) + 1
    return x


def test_run_time_error_shows_the_calls_that_led_there():
    @tg.function
    def f(x, i):
        for _ in range(i):
            x = x + picked_in_a_branch(x, i)
        return x

    with pytest.raises(IndexError) as caught:
        f(torch.ones(3), torch.tensor(7))
    (note,) = caught.value.__notes__
    assert note.startswith("raised when the graph ran:\nin user code (* converted):\n")
    places = [line.rpartition(", line ")[2] for line in note.splitlines() if "  File " in line]
    assert places == [
        f"{f.python_function.__code__.co_firstlineno + 3}, in f  *",
        f"{picked_in_a_branch.__code__.co_firstlineno + 2}, in picked_in_a_branch  *",
        f"{pick.__code__.co_firstlineno + 1}, in pick  *",
    ]
    assert "return y[i]" in note and "aten.select.int" in note and "help: valid indices" in note


def test_errors_that_the_code_raises_get_no_advice():
    def staged(x):
        if x > 0:
            raise KeyError("mine")
        return x

    def plain(x):
        raise ZeroDivisionError(
            "mine",
        )

    def looked_up(x):
        raise KeyError({"a": 1}["b"])

    def raised_again(x):
        try:
            return {"a": 1}["b"]
        except KeyError:
            raise

    for function, advised in [(staged, 0), (plain, 0), (looked_up, 1), (raised_again, 1)]:
        with pytest.raises((KeyError, ZeroDivisionError)) as caught:
            tg.function(function)(torch.tensor(1.0))
        assert "".join(caught.value.__notes__).count("help: ") == advised


def test_run_time_error_of_converted_torch_code_shows_the_users_line():
    @tg.function
    def draw(scale):
        d = torch.distributions.Normal(0.0, scale, validate_args=True)  # THE LINE
        return d.sample()

    draw(torch.tensor(1.0))
    with pytest.raises(ValueError, match="constraint GreaterThan") as caught:
        draw(torch.tensor(-1.0))
    note = "".join(caught.value.__notes__)
    assert f'"{__file__}", line' in note and "THE LINE" in note
    assert torch.__file__.removesuffix("__init__.py") not in note


def test_shape_mismatch_shows_the_line():
    @tg.function
    def f(x, y):
        z = x * 2
        return z + y

    with pytest.raises(RuntimeError) as caught:
        f(torch.ones(2), torch.ones(3))
    frames = [(e.frame.code.raw.co_filename, e.lineno + 1) for e in caught.traceback]
    code = f.python_function.__code__
    assert (__file__, code.co_firstlineno + 3) in frames
    assert f(torch.ones(2), torch.ones(2)).tolist() == [3, 3]


def test_condition_of_many_elements():
    @tg.function
    def f(x):
        y = x
        if x > 0:
            y = x + 1
        return y

    with pytest.raises(RuntimeError) as caught:
        f(torch.ones(3))
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    frames = [(e.frame.code.raw.co_filename, e.lineno + 1) for e in caught.traceback]
    line = f.python_function.__code__.co_firstlineno + 3
    assert f"line {line}" in text or (__file__, line) in frames
    assert f(ONE) == 2


def test_error_in_a_branch_leaves_no_trace():
    @tg.function
    def f(x):
        if x > 0:
            y = torch.ones(2) + torch.ones(3)
        else:
            y = x
        return y

    for _ in range(2):
        with pytest.raises(RuntimeError):
            f(ONE)
    still_works()


def test_traceback_shows_the_users_lines():
    f = tg.function(middle)
    with pytest.raises(ValueError, match="no: ") as caught:
        f(ONE)
    frames = [(e.frame.code.raw.co_filename, e.lineno + 1) for e in caught.traceback]
    text = str(caught.value) + "".join(getattr(caught.value, "__notes__", ()))
    first = deepest.__code__.co_firstlineno
    shown = (__file__, first + 2) in frames or f"line {first + 2}" in text
    assert shown, (frames, text)
    assert f(-ONE) == -1


def test_the_error_of_a_branch_before_one_on_every_other_path():
    def f(x):
        if x.sum() > 0:
            y = x @ torch.ones(5, 5)  # this line
        return y

    with pytest.raises(RuntimeError, match="cannot be multiplied|mismatch") as caught:
        tg.function(f)(torch.ones(3))
    assert caught.value.__context__ is None
    assert "# this line" in "".join(caught.value.__notes__)
    with pytest.raises(UnboundLocalError):
        tg.function(f)(-torch.ones(3))


def test_a_traceback_shows_nothing_that_the_library_caught_and_points_at_heads():
    @tg.function
    def product(x, y, n):
        for _ in range(n):
            with torch.no_grad():
                try:
                    x = x @ y
                except IndexError:
                    pass
        return x

    with pytest.raises(RuntimeError) as caught:
        product(torch.ones(2, 3), torch.ones(2, 3), 2)
    text = "".join(traceback.format_exception(caught.value))
    assert "During handling" not in text
    assert "    for _ in range(n):\n    ^^^^^^^^^^^^^^^^^\n" in text
    assert "    \n" not in text


def test_a_traceback_keeps_what_the_user_caught():
    @tg.function
    def found(x, name):
        try:
            return {"a": x}[name]
        except KeyError:
            raise ValueError(f"no {name}")

    with pytest.raises(ValueError) as caught:
        found(ONE, "b")
    assert isinstance(caught.value.__context__, KeyError)
