"""``finally`` behind a body that fails when the graph runs: what it does follows from where that fails."""

import contextvars

import pytest
import torch

import tograph as tg
from tograph.converters import idle_finally

VARIABLE = contextvars.ContextVar("VARIABLE", default=0)


class Owner:
    def __init__(self, n):
        self.failed, self.busy, self.n, self.log = False, False, n, []

    def note(self):
        if self.busy:
            self.failed = True


owner = Owner(0)


def done_at_the_end(x, i):
    done = False
    try:
        y = x[i]
        done = True
    finally:
        if not done:
            owner.failed = True
    return y * 2


def only_in_between(x, i):
    stage = 0
    try:
        stage = 1
        y = x[i]
        stage = 2
    finally:
        if stage == 1:
            owner.failed = True
    return y


def an_attribute_in_between(x, i):
    try:
        owner.busy = True
        y = x[i]
        owner.busy = False
    finally:
        owner.note()
    return y


def a_list_in_between(x, i):
    owner.log = []
    try:
        owner.log.append(1)
        y = x[i]
        owner.log.pop()
    finally:
        if owner.log:
            owner.failed = True
    return y


def none_as_long_as_it_fails(x, i):
    y = None
    try:
        y = x[i]
    finally:
        if y is None:
            owner.failed = True
    return y


def what_the_body_counts(x, i):
    n = 0
    for j in range(3):
        n = j
        try:
            y = x[i + j]
            n = 0
        finally:
            owner.n = n
    return y


def variable_put_back(x, i):
    token = VARIABLE.set(7)
    try:
        y = x[i] * VARIABLE.get()
    finally:
        VARIABLE.reset(token)
    return y


def variable_seen_by_an_earlier_failure(x, i):
    token = VARIABLE.set(7)
    y = x[i]
    try:
        y = x[i + 1] * VARIABLE.get()
    finally:
        VARIABLE.reset(token)
    return y + x[i + 1]


def variables_nested(x, i):
    def inner():
        token = VARIABLE.set(8)
        try:
            return x[i] * VARIABLE.get()
        finally:
            VARIABLE.reset(token)

    token = VARIABLE.set(7)
    try:
        y = inner() + VARIABLE.get() + x[i]
    finally:
        VARIABLE.reset(token)
    return y + x[i + 1]


def variable_in_a_loop(x, i):
    k = 0
    while k < i:
        token = VARIABLE.set(k)
        try:
            y = x[k] * 2
        finally:
            VARIABLE.reset(token)
        k += 1
    return y


def variable_put_back_and_more(x, i):
    token = VARIABLE.set(7)
    try:
        y = x[i + 1] * VARIABLE.get()
    finally:
        VARIABLE.reset(token)
        owner.n += 1
    return y + x[i + 1]


def number_put_back(x, i):
    old = owner.n
    owner.n = 5
    try:
        y = x[i] * owner.n
    finally:
        owner.n = old
    return y


def number_set(x, i):
    owner.n = 5
    try:
        y = x[i] * owner.n
    finally:
        owner.n = 0
    return y


def counted(x, i):
    try:
        y = x[i]
    finally:
        owner.n += 1
    return y


PROGRAMS = (
    done_at_the_end, only_in_between, an_attribute_in_between, a_list_in_between, none_as_long_as_it_fails, what_the_body_counts, variable_put_back,
    variable_seen_by_an_earlier_failure, variables_nested, variable_in_a_loop, variable_put_back_and_more, number_put_back, number_set, counted,
)  # fmt: skip
CALLS = ((0, 1), (0, 1), (0, 9), (3, 1), (3, 9), (0, 2), (0, 9), (4, 2))


def seen(call, n, i):
    vars(owner).update(vars(Owner(n)))
    token = VARIABLE.set(n)
    try:
        result = call(torch.arange(4.0), torch.tensor(i)).item()
    except Exception as error:
        result = type(error)
    try:
        return result, VARIABLE.get(), {**vars(owner), "log": list(owner.log)}
    finally:
        VARIABLE.reset(token)


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_is_seen(program):
    converted = tg.function(program)
    for n, i in CALLS:
        assert seen(converted, n, i) == seen(program, n, i), (n, i)


@pytest.mark.parametrize(
    "program", (variable_put_back, variables_nested, variable_in_a_loop, number_put_back)
)
def test_what_puts_back_needs_no_region(program):
    converted = tg.function(program)
    seen(converted, 0, 1)
    assert "Try" not in str(converted.concrete_functions[0].graph)


class Lookup(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.kept, self.busy = torch.arange(5.0), None, False
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x, i, asks):
        before, seen = self.busy, self.seen
        try:
            self.busy = True
            self.seen = self.seen + 1
            y = self.table[i] * x
            self.kept = y
        finally:
            self.seen = seen
            self.busy = isinstance(self.kept, torch.Tensor) if asks else before
        return y


@pytest.mark.parametrize("asks", [False, True])
def test_attributes_and_buffers_of_a_module(asks):
    """Was an internal error: a module asks of what it is given whether it is a parameter."""
    plain, staged = Lookup(), Lookup()

    def run(m, x, i):
        y = x
        while y < 20:
            y = y + m(x, int(i), asks) + 1
        return y

    converted = tg.function(run)
    for i in (2, 9, 1):
        x, at = torch.tensor(1.5), torch.tensor(i)
        if i == 9:
            for f, m in ((run, plain), (converted, staged)):
                with pytest.raises(IndexError):
                    f(m, x, at)
        else:
            assert converted(staged, x, at) == run(plain, x, at)
        assert (staged.busy, staged.kept, staged.seen) == (plain.busy, plain.kept, plain.seen)


def test_no_object_that_lasts_raises_where_it_is_asked_for_its_class():
    """Was an exception where all of ``gc.get_objects()`` are asked whether they are tensors."""
    layer = torch.nn.Linear(2, 2)

    @tg.function
    def f(x):
        was, layer.training = layer.training, False
        try:
            return x / int(x.sum())
        finally:
            layer.training = was

    f(torch.ones(2))
    assert not any(isinstance(o, torch.Tensor) for o in vars(idle_finally).values())
