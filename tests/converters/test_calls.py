"""Calls: callees of every kind, *args, super(), decorators, recursion, unconverted code."""

import collections
import dataclasses
import enum
import functools
import itertools
import linecache
import operator

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tests.converters.both import Cases, compare

cases = Cases()


def clip(x, top=3):
    if x > top:
        return top
    return x


@cases((1,), (9,))
def helper(x):
    return clip(x) + clip(x, 2) + clip(top=5, x=x)


@cases((1,), (9,))
def star_arguments(x):
    def total(a, *rest, k=1, **more):
        s = a * k
        for r in rest:
            if r > 2:
                s += r
        return s, sorted(more), more

    args = [x, 5]
    return total(*args), total(1, *args, k=2), total(*args, 7, **{"k": 3, "z": x}, y=1)


@cases((1,))
def wrong_arity(x):
    return clip(x, 1, 2)


@cases((1,))
def not_callable(x):
    return x(1)


@cases((4,), (0,))
def recursion_on_python_values(x):
    def power(b, k):
        if k == 0:
            return 1
        return b * power(b, k - 1)

    return power(x, 5)


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


@cases((3,))
def mutual_and_global_recursion(x):
    def even(k):
        return True if k == 0 else odd(k - 1)

    def odd(k):
        return False if k == 0 else even(k - 1)

    return fib(8) * x, even(7)


@cases((1,), (-1,))
def lambdas(x):
    f = lambda v, k=2: v * k if v > 0 else v - k
    return f(x), f(x, k=3), (lambda *a: a[0] if a[0] > 0 else a[1])(x, 5)


@cases((1,), (-1,))
def partials(x):
    f = functools.partial(clip, top=0)
    g = functools.partial(f, x)
    return f(x), g()


def twice(f):
    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        r = f(*args, **kwargs)
        if r > 0:
            return r * 2
        return r

    return wrapped


@twice
def decorated(x):
    if x > 3:
        return x + 1
    return x


@cases((1,), (9,), (-1,))
def decorators(x):
    return decorated(x), decorated.__name__


@cases((1,), (9,))
def decorated_inside(x):
    @twice
    @functools.wraps(clip)
    def g(v):
        return v if v < 5 else 5

    return g(x), g.__name__


class Base:
    def __init__(self, v):
        if v < 0:
            v = -v
        self.v = v

    def value(self, k=1):
        if self.v > 2:
            return self.v * k
        return k

    def __call__(self, y):
        return self.value() if y > 0 else -self.value()


class Derived(Base):
    def __init__(self, v):
        super().__init__(v)
        self.w = 1 if self.v > 2 else 0

    def value(self, k=1):
        if k == 1:
            return super().value(3) + super(Derived, self).value()
        return Base.value(self, k)


@cases((1, 1), (-5, -1), (5, 0))
def classes(v, y):
    d = Derived(v)
    m = d.value
    return d(y), m(), m(4), d.w, Base(v)(y)


class Number:
    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        if self.v > 0:
            return Number(self.v + other.v)
        return Number(other.v)

    def __radd__(self, other):
        return self.v if other == 0 else self.v + other

    def __iadd__(self, k):
        if k > 0:
            self.v = self.v + k
        return self

    def __neg__(self):
        return Number(-self.v if self.v > 0 else self.v)

    def __iter__(self):
        for i in range(3):
            yield self.v + i

    def __getitem__(self, k):
        return self.v if k > 0 else -self.v

    def __abs__(self):
        return self.v if self.v > 0 else -self.v


def counter():
    n = 0

    def step(k):
        nonlocal n
        if k > 0:
            n = n + k
        return n

    return step


@cases((1,), (-1,))
def factories(x):
    c, d = counter(), counter()
    return c(x), c(2), d(x), c(x)


@cases((3,), (0,))
def functions_as_arguments(n):
    def apply(f, *args):
        return f(*args)

    def g(v):
        if v > 1:
            return v * 10
        return v

    return apply(g, n), [apply(f, n) for f in (g, clip, abs)], list(map(g, [n, 2]))


@cases((3,), (0,))
def sort_key_and_reduce(n):
    l = sorted(["bb", "a", "ccc"], key=lambda s: -len(s))
    return l, functools.reduce(lambda a, b: a + b if b > 1 else a, [1, 2, n])


@cases((3,), (0,))
def defaults_evaluated_once(n):
    def f(v, seen=[]):
        seen.append(v)
        return len(seen)

    return f(1), f(2), f(n)


@cases((3,), (-3,))
def keyword_only_and_positional_only(x):
    def f(a, /, b=2, *, c=3):
        if a > 0:
            return a, b, c
        return c, b, a

    return f(x), f(x, 4), f(x, b=1, c=x)


@functools.lru_cache
def cached(k):
    if k > 2:
        return k * 10
    return k


@cases((3,), (0,))
def lru_cache_on_python_values(x):
    return cached(5) + cached(1) + x


@cases((3,), (-3,), kinds=("python",))
def immediately_called(x):
    return (lambda f: f(f, x))(lambda g, v: v if v > 0 else g(g, v + 2))


class WithCall:
    def __call__(self, x):
        if x > 0:
            return "plus"
        return "minus"


@cases((3,), (-3,))
def callable_object_and_bound_call(x):
    w = WithCall()
    return w(x), w.__call__(x), WithCall()(x), list(map(w, [x, 1]))


@cases((3,), (-3,))
def evaluation_order(x):
    log = []

    def a(v):
        log.append(v)
        return v

    def f(*args, **kwargs):
        return log

    return f(a(1), *[a(2)], a(3), k=a(4), **{"m": a(5)})


@cases((3,), (-3,))
def yield_from_and_send(x):
    def inner():
        got = yield 1
        return got

    def outer():
        r = yield from inner()
        yield r

    g = outer()
    first = next(g)
    return first, g.send(x)


def doubled(generator):
    def run(*args):
        for v in generator(*args):
            yield v * 2

    return run


@cases((1,), (-1,))
def a_decorated_generator(x):
    @doubled
    def steps(n):
        for i in range(n):
            yield i if x > i else -i

    return list(steps(3))


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5

    @classmethod
    def _missing_(cls, value):
        return cls.HIGH if value > 100 else None


@cases((1,), (5,), (300,), (7,))
def members_of_enums(x):
    found = Level(int(x))
    return found, found + 1, found is Level.HIGH, Level(Level.LOW if x > 1 else Level.HIGH)


@cases((1,), (0,))
def functions_of_operator(x):
    return operator.not_(x), operator.truth(x), operator.contains([1, 3], x), operator.is_(x, None)


test_same = cases.test()


def only_python(x):
    if x > 0:
        return 1
    return 2


def test_do_not_convert():
    left = tg.do_not_convert(only_python)

    @tg.function
    def f(x):
        return left(x)

    with pytest.raises(tg.errors.GraphBoolError):
        f(torch.tensor(1))
    assert f(5) == 1


def test_autograph_off():
    f = tg.function(autograph=False)(only_python)
    assert f(5) == 1
    with pytest.raises(tg.errors.GraphBoolError):
        f(torch.tensor(1))


def test_function_calls_function():
    inner = tg.function(clip)

    @tg.function
    def outer(x):
        return inner(x) + inner(x, 1)

    assert outer(torch.tensor(5)) == 4
    assert outer(torch.tensor(0)) == 0


def test_method_has_a_trace_for_each_instance():
    class Scale:
        def __init__(self, k):
            self.k = k

        @tg.function
        def __call__(self, x):
            if x > 0:
                return x * self.k
            return x

    two, three = Scale(2), Scale(3)
    x = torch.tensor(5)
    assert [two(x), three(x), two(-x)] == [10, 15, -5]


def test_changed_closure_value_is_seen():
    k = 2

    @tg.function
    def f(x):
        if x > 0:
            return x * k
        return x

    assert f(torch.tensor(5)) == 10
    k = 3
    assert f(torch.tensor(5)) == 15


def test_python_values_have_traces_of_their_own():
    @tg.function
    def f(v):
        return v

    assert [type(f(v)) for v in (1, True, 1.0)] == [int, bool, float]

    @tg.function
    def g(v):
        return torch.tensor(1.0) / v

    assert [g(0.0), g(-0.0)] == [float("inf"), float("-inf")]


def test_classes_of_a_cell_of_a_notebook():
    name = "<a cell of test_calls>"
    source = """
class Counted:
    made = 0

    def __init__(self, x):
        self.items, type(self).made = [x], type(self).made + 1

def f(x):
    c = Counted(x)
    if x > 0:
        c.items.append(Counted(x).items[0])
    return len(c.items), Counted.made
"""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace = {"__name__": "cell"}
    exec(compile(source, name, "exec"), namespace)
    f = tg.function(namespace["f"])
    assert f(torch.tensor(1.0)) == (2, 2)
    assert f(torch.tensor(-1.0)) == (1, 3)


def test_arguments_by_the_names_that_the_library_has():
    def f(x):
        w = x.clone().requires_grad_()
        (w * w).sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters=[w], max_norm=1.0)
        normed = F.batch_norm(input=x, running_mean=None, running_var=None, training=True)
        grouped = F.group_norm(input=x, num_groups=1), F.instance_norm(input=x[None])
        slope = torch.func.grad(func=lambda v: (v * v).sum())(x)
        same = torch.equal(input=x, other=x), torch.allclose(input=x, other=x + 1)
        sums = list(itertools.accumulate(iterable=[1, 2], func=operator.mul))
        groups = [(k, list(g)) for k, g in itertools.groupby(iterable=[1, 1, 2], key=bool)]
        return (
            norm,
            w.grad,
            normed,
            grouped,
            slope,
            same,
            sums,
            groups,
            dataclasses.asdict(obj=Held(x)),
        )

    compare(f, (torch.tensor([[1.0, 2.0, 4.0], [0.5, -1.0, 3.0]]),))


@dataclasses.dataclass
class Held:
    x: object


NAMES = {n: n for n in ("self", "x", "text", "f", "function", "args", "kwargs", "call", "form", "owner", "name", "items", "first")}  # fmt: skip


def test_names_of_keyword_arguments_are_free():
    def f(x):
        found, other = dict(**NAMES), {"x": 1}
        found.update(**NAMES, y=x)
        if x > 0:
            found.update(x=x, self=2, items=3)
            other = {"y": 2}
        other.update(x=3, function=x)
        counts = collections.Counter()
        counts.update(x=1, others=2)
        counts.subtract(self=1)
        text = "{text} {self} {x:.1f}".format(text="a", self=1, x=x.item())
        return (
            found,
            other,
            counts,
            text,
            inner(**NAMES),
            torch.func.grad(scaled)(x, f=2.0, args=3.0),
        )

    compare(f, (torch.tensor(1.0),), (torch.tensor(-1.0),))


def inner(**names):
    return sorted(names)


def scaled(x, f, args):
    return x * x * f * args


def test_a_parameter_called_self():
    @tg.function
    def f(self, args=1):
        return self + args

    x = torch.ones(2)
    assert torch.equal(f(self=x, args=2), x + 2)
    assert torch.equal(f.get_concrete_function(self=x)(self=x), x + 1)
