"""Bad input about state: a clear error that names the cause, and the state as it was before the op that failed."""

import gc
import linecache
import threading

import pytest
import torch

import tograph as tg


class Model:
    def __init__(self):
        self.w = tg.Variable(torch.ones(2), requires_grad=False)


def test_a_resource_that_died():
    model = Model()
    concrete = tg.function(lambda x: x + model.w).get_concrete_function(torch.ones(2))
    assert concrete(torch.ones(2)).tolist() == [2, 2]
    model.w = None
    gc.collect()
    with pytest.raises(tg.errors.DeadResourceError, match="does not exist any more.*Keep the"):
        concrete(torch.ones(2))


def test_a_captured_variable_that_another_thread_writes_during_a_call():
    model, written, waiting = Model(), threading.Event(), threading.Event()

    def wait(_):
        waiting.set()
        written.wait(10)

    def f(x):
        y = x + model.w
        tg.py_function(wait, [y], None)
        return y, y + model.w

    def write():
        waiting.wait(10)
        model.w.assign(torch.full((2,), 5.0))
        written.set()

    thread = threading.Thread(target=write)
    thread.start()
    before, after = tg.function(f)(torch.ones(2))
    thread.join()
    assert before.tolist() == [2, 2] and after.tolist() == [7, 7]


@pytest.mark.parametrize("other", ["{'k': 1}"])
def test_a_list_whose_element_type_changes_in_a_loop(other):
    namespace = {"torch": torch}
    source = f"""
def f(x, n):
    xs = []
    for i in range(n):
        xs.append(x[i])
        xs.append({other})
    return xs
"""
    name = "<elements>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    exec(compile(source, name, "exec"), namespace)
    f = tg.function(namespace["f"])
    with pytest.raises(tg.errors.StructureError, match="all of one kind"):
        f(torch.ones(4), torch.tensor(2))


def test_a_variable_that_no_iteration_bound():
    @tg.function
    def f(x, n):
        for _ in range(n):
            y = x
        return y

    with pytest.raises(UnboundLocalError, match="'y'"):
        f(torch.ones(2), torch.tensor(0))
    assert f(torch.ones(2), torch.tensor(1)).tolist() == [1, 1]


def test_a_variable_made_in_a_loop():
    @tg.function
    def f(x, n):
        for _ in range(n):
            tg.Variable(x)
        return x

    with pytest.raises(tg.errors.CreationError, match="made in a staged branch or loop"):
        f(torch.ones(2), torch.tensor(2))


RESULTS = {
    "raises": (KeyError, "bad"),
    "text": (TypeError, "returned 'text', which is no tensor"),
    "shape": (TypeError, r"of shape \(5,\), not TensorSpec"),
    "dtype": (TypeError, r"returned a torch.int64 tensor"),
    "nothing": (TypeError, "returned None, which is no tensor"),
}


@pytest.mark.parametrize("kind", RESULTS)
def test_a_py_function_that_fails(kind):
    state = tg.Variable(torch.zeros(2), requires_grad=False)

    def callback(_):
        if kind == "raises":
            raise KeyError("bad")
        wrong = {"text": "text", "shape": torch.ones(5), "dtype": torch.ones(2, dtype=torch.int64)}
        return wrong.get(kind)

    @tg.function
    def f(x):
        state.assign_add(x)
        y = tg.py_function(callback, [x], tg.TensorSpec([2], torch.float32))
        state.assign_add(x * 100)
        return y

    error, message = RESULTS[kind]
    with pytest.raises(error, match=message):
        f(torch.ones(2))
    assert state.tolist() == [1, 1], "what was before the callback is done, what is after is not"


def test_a_gradient_inside_does_not_pass_over_python_code():
    @tg.function
    def f(x):
        y = tg.py_function(lambda z: z * z, [x], tg.TensorSpec([2], torch.float32))
        return torch.autograd.grad((y + x).sum(), x)[0]

    with pytest.raises(tg.errors.GradientError, match="through tg.py_function"):
        f(torch.ones(2, requires_grad=True))


def test_a_gradient_outside_goes_through_python_code_in_a_loop():
    @tg.function
    def f(x, n):
        for _ in range(n):
            x = tg.py_function(lambda z: z * z, [x], tg.TensorSpec([2], torch.float32))
        return x.sum()

    x = torch.tensor([1.0, 2.0], requires_grad=True)
    f(x, torch.tensor(2)).backward()
    assert x.grad.tolist() == [4, 32]
