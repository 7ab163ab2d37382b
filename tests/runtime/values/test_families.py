"""reduce_retracing, open dimensions and numbers, and what explains retraces."""

import logging
import re

import pytest
import torch

import tograph as tg


def reduced(f):
    return tg.function(f, reduce_retracing=True)


def check(f, calls):
    g = reduced(f)
    for args in calls:
        actual, expected = g(*args), f(*args)
        assert type(actual) is type(expected)
        assert torch.equal(torch.as_tensor(actual), torch.as_tensor(expected)), args
    return g


def test_twenty_lengths_make_two_traces():
    def f(x):
        state = torch.zeros(3)
        for row in x:
            state = torch.tanh(row + state)
        return state / x.shape[0]

    g = check(f, [(torch.arange(3.0 * n).reshape(n, 3),) for n in range(1, 21)])
    assert g.trace_count == 2
    assert "takes x: float32[?, 3]" in g.explain_retraces()


def test_two_dimensions_open_one_after_the_other():
    f = lambda x: (x * 2).sum(1)
    g = check(f, [(torch.ones(2, 3),), (torch.ones(4, 3),), (torch.ones(4, 5),), (torch.ones(7, 9),)])  # fmt: skip
    assert g.trace_count == 3


@pytest.mark.parametrize("n", [0, 1])
def test_open_dimension_takes_zero_and_one(n):
    check(lambda x: x.sum() + x.shape[0], [(torch.ones(5),), (torch.ones(6),), (torch.ones(n),)])


def test_numbers_become_staged():
    def f(x, n, rate):
        for _ in range(n):
            x = x * rate
        return x + n

    g = check(f, [(torch.ones(2), n, 0.5 * n) for n in range(1, 9)])
    assert g.trace_count == 2
    assert "n: int, rate: float" in g.explain_retraces()


def test_a_number_keeps_its_python_meaning():
    f = lambda x, n: (x * n, n // 2, n**2, -n % 7, n / 4)
    g = reduced(f)
    for n in (1, 9, -5, 2**40):
        actual, expected = g(torch.ones(2, dtype=torch.float16), n), f(torch.ones(2, dtype=torch.float16), n)  # fmt: skip
        assert torch.equal(actual[0], expected[0]) and actual[0].dtype == torch.float16
        assert [(type(a), a) for a in actual[1:]] == [(type(e), e) for e in expected[1:]]
    assert g.trace_count == 2


def test_a_number_that_no_tensor_holds():
    check(lambda x, n: float(n) + x, [(torch.ones(1), 1), (torch.ones(1), 2), (torch.ones(1), 2**70)])  # fmt: skip


def test_a_number_that_python_needs_is_traced_for_each_value():
    words = ["a", "bb", "ccc"]

    def f(x, n):
        return x * len(words[n].encode().center(n + 4))

    g = check(f, [(torch.ones(1), n) for n in (0, 1, 2, 1, 0)])
    assert g.trace_count == 3


def test_flags_and_strings_stay_python():
    def f(x, flag, mode):
        return x + 1 if flag and mode == "a" else x

    g = check(f, [(torch.ones(1), a, b) for a in (True, False) for b in "ab"])
    assert g.trace_count == 4


def test_numbers_in_containers():
    def f(x, options):
        return x * options["scale"] + options["steps"][1]

    g = check(f, [(torch.ones(1), {"scale": s, "steps": [1, s + 1]}) for s in (2, 3, 4, 5)])
    assert g.trace_count == 2


def test_sizes_of_two_arguments_are_guarded():
    g = check(lambda x, y: x + y, [(torch.ones(n), torch.ones(n)) for n in (2, 3, 4, 5)])
    assert g.trace_count == 2
    assert "only if x.shape[0] == y.shape[0]" in g.explain_retraces()
    assert torch.equal(g(torch.ones(4), torch.ones(1)), torch.full((4,), 2.0))
    with pytest.raises(RuntimeError, match="must match"):
        g(torch.ones(4), torch.ones(3))


def test_what_cannot_be_open_is_traced_as_it_is():
    f = lambda x: torch.nn.functional.interpolate(
        x[None, None], scale_factor=2.0, mode="area"
    ).sum()
    g = check(f, [(torch.ones(n),) for n in (2, 3, 4)])
    assert g.trace_count >= 3


def test_parts_of_an_open_dimension_make_two_traces():
    g = check(lambda x: torch.stack(x.split(1)).sum(), [(torch.ones(n),) for n in (2, 3, 4)])
    assert g.trace_count == 2


def test_a_failed_attempt_leaves_nothing_behind():
    log = []

    def f(x, n, seen):
        seen.append(x.sum())
        if type(n) is not int:
            raise TypeError("a plain number, please")
        return x * n

    g = reduced(f)
    for n in (1, 2, 3):
        seen = []
        assert g(torch.ones(2), n, seen).tolist() == [n, n]
        assert [v.item() for v in seen] == [2.0] and not log


def test_errors_are_those_of_the_call():
    def f(x, n):
        if x.shape[0] == 3:
            raise KeyError(n)
        return x

    g = reduced(f)
    g(torch.ones(1), 1)
    g(torch.ones(2), 2)
    with pytest.raises(KeyError, match="7"):
        g(torch.ones(3), 7)


def test_open_trace_serves_other_calls():
    g = tg.function(lambda x: x * 2)
    concrete = g.get_concrete_function(tg.TensorSpec([None, 3], torch.float32))
    for n in (0, 1, 5):
        assert g(torch.ones(n, 3)).shape == (n, 3)
    assert g.trace_count == 1
    assert g.get_concrete_function(tg.TensorSpec([None, 3], torch.float32)) is concrete
    g(torch.ones(2, 4))
    assert g.trace_count == 2


def test_methods():
    class Model:
        @tg.function(reduce_retracing=True)
        def run(self, x, k):
            return x * k + x.shape[0]

    m = Model()
    for n in range(1, 7):
        assert torch.equal(m.run(torch.ones(n), n), torch.ones(n) * n + n)
    assert m.run.trace_count == 2


def test_gradients_of_an_open_trace():
    g = reduced(lambda x, k: (x**2).sum() * k)
    for n in range(2, 6):
        x = torch.ones(n, requires_grad=True)
        g(x, n).backward()
        assert x.grad.tolist() == [2.0 * n] * n
    assert g.trace_count == 2


# ---- explanations


def test_explanation_names_every_argument():
    g = tg.function(lambda x, n: x * n)
    g(torch.ones(2), 1)
    g(torch.ones(3), 2)
    text = g.explain_retraces()
    assert text.splitlines()[0] == "trace 1: first call"
    assert "argument 'x' changed from float32[2] to float32[3], argument 'n' changed from 1 to 2" in text  # fmt: skip


@pytest.mark.parametrize(
    ("calls", "options", "advice"),
    [
        ([(torch.ones(n), 1) for n in range(7)], {}, r"reduce_retracing=True\), or an input_signature with None"),
        ([(torch.ones(1), n) for n in range(7)], {}, r"Pass the number as a tensor, or use tg.function\(reduce_retracing=True\)"),
        ([(torch.ones(1), str(n)) for n in range(7)], {}, "Pass the same kinds of arguments"),
    ],
)  # fmt: skip
def test_warning_names_the_setting(caplog, calls, options, advice):
    g = tg.function(lambda x, n: x + len(str(n)), **options)
    with caplog.at_level(logging.WARNING, "tograph"):
        for args in calls:
            g(*args)
    assert len(caplog.records) == 1

    assert re.search(advice, caplog.records[0].getMessage())


def test_guards_and_advice_are_readable(caplog):
    f = tg.function(lambda x: x.t().reshape(-1)[::2], reduce_retracing=True)
    for size in ((2, 3), (4, 3), (4, 5)):
        f(torch.ones(size))
    told = f.explain_retraces()
    assert "only if (3 * x.shape[0]) != 0, x.shape[0] != 1" in told and "not (" not in told

    g = tg.function(lambda xs: torch.stack(xs).sum(), reduce_retracing=True)
    for n in range(1, 7):
        g([torch.ones(2)] * n)
    assert "Each length of a list is a trace of its own: stack its items" in caplog.text
