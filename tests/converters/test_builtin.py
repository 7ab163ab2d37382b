"""len, range, int, float, bool, abs, min, max, sum, any, all, round, divmod, next."""

import collections
import dataclasses
import itertools
import math
import operator

import numpy as np
import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import StagingError, SymbolicValueError

cases = Cases()
ROWS = torch.tensor([[3.0, -1.0], [2.0, 5.0], [0.0, 4.0]])


@cases(([1, 2],), ([],), ({"a": 1},), (3,))
def length(x):
    return len(x)


@cases.tensors((ROWS,), (torch.tensor(1.0),), (torch.zeros(0, 4),))
def length_of_tensors(x):
    return len(x)


@cases((7,), (-7,), (2.5,), (-2.5,), (True,))
def casts(x):
    return int(x), float(x), bool(x)


@cases(("12", 8), ("ff", 16), ("x", 10), kinds=("python",))
def int_with_base(s, b):
    return int(s, b), float("1e3")


@cases((7,), (-7,), (2.5,))
def absolute(x):
    return abs(x), -x, +x


@cases((3, 7), (7, 3), (2.5, 2.5))
def minimum_and_maximum(a, b):
    return min(a, b), max(a, b), min([a, b, 5]), max((a, b, -1)), min(a, 4), max(3, b, a)


@cases((3, -7), (2, 1))
def with_key_and_default(a, b):
    return max(a, b, key=lambda v: -v), min([a, b], key=abs), max([], default=a)


@cases((3,))
def of_nothing(x):
    return max([])


@cases(([1, 2, 3],), ([],))
def sums(l):
    return sum(l), sum(l, 10), sum([v * 2 for v in l])


@cases.tensors((ROWS,))
def reductions_of_rows(x):
    return sum(x), sum(x[0]), max(x[1]), min(x[:, 0]), sorted(x[:, 1])


@cases(([True, False],), ([],), ([True, True],), ([0, 3],))
def any_and_all(l):
    return any(l), all(l)


@cases.tensors((torch.tensor([True, False]),), (torch.tensor([0, 0]),), (torch.tensor([1, 2]),))
def any_and_all_of_a_tensor(x):
    return any(x), all(x), any(v > 1 for v in x)


@cases((2.5,), (3.5,), (-2.5,), (1.26,), kinds=("python",))
def rounding(x):
    return round(x), round(x, 1), math.floor(x), math.ceil(x), math.trunc(x)


@cases.tensors((torch.tensor(2),), (torch.tensor(-2),), (torch.tensor(0),))
def rounding_to_digits_of_the_run(t):
    n = int(t)
    x = n * 1.2345
    return round(123.456, n), round(12345, n), round(x, n), round(n * 77, ndigits=n), round(True, n)


@cases.tensors((torch.tensor(2.5),))
def rounding_to_a_float(t):
    return round(2.5, t.item())


@cases.tensors((torch.tensor(0),), (torch.tensor(4),))
def products_and_sums_of_open_lists(t):
    n, xs, ys = int(t), [], []
    for i in range(n):
        xs.append(i * 1.5 + 1)
        ys.append(i + 1)
    sums = math.fsum(xs), math.fsum(i * 0.1 for i in range(n)), math.fsum(range(n)), math.fsum(ys)
    return sums, math.prod(ys, start=3), math.prod(xs), math.prod(range(1, n)), math.prod([n, 2])


@cases.tensors((torch.tensor([1.0, 2.5]),), (torch.tensor([-3.0, 0.0]),))
def products_and_sums_of_tensors(x):
    return math.fsum(x), math.prod(x), math.fsum(v for v in x if v > 0)


@cases((7, 2), (-7, 2), (7, -2), (7.5, 2), kinds=("python",))
def divisions(a, b):
    return divmod(a, b), a // b, a % b, a / b, pow(a, b), a**b


@cases((7, 2), (-7, 2), (7, -2), (7.5, 2), kinds=("tensor",))
def tensor_divisions(a, b):
    return a // b, a % b, a / b, pow(a, b), a**b


@cases((7, 2), (-7, 2), (7, -2))
def divisions_of_items(a, b):
    i, j = int(a), int(b)
    return divmod(i, j), i // j, i % j, i / j, i << 2, i >> 1, i & 6, i | 8, i ^ 3, ~i


@cases((7, 0))
def item_divided_by_zero(a, b):
    return int(a) // int(b)


@cases((2,), (-2,))
def powers_of_items(a):
    i = int(a)
    return i**2, i**3, 2.0**i, pow(i, 3, 5)


@cases((2.5,), (-2.5,))
def math_of_items(a):
    x = float(a)
    return round(x), round(x, 1), math.floor(x), math.ceil(x), abs(x), x.is_integer(), math.exp(x)


@cases((2.5, 3), (-0.25, 1))
def more_math_of_items(x, n):
    a, k = float(x), int(n)
    parts = (
        math.modf(a),
        math.frexp(a),
        math.ldexp(a, k),
        math.fsum([a, k, 0.1]),
        math.dist((a, k), [1, 2]),
    )
    logs = (
        math.log(abs(a) + 1, 3),
        math.log(k + 1, 2),
        math.hypot(a, k, 2.0),
        math.hypot(a),
        math.cbrt(a),
    )
    ints = (
        operator.index(k),
        k.bit_length(),
        (k > 1).bit_count(),
        math.lcm(k, 6),
        k.numerator,
        pow(k, 3, 5),
    )
    return parts, logs, ints, a.real, a.imag, a.conjugate(), ascii(a), ascii([k, "\xe4"])


@cases((2.625, 7), (float("inf"), 1), (float("nan"), 1))
def ratios_of_items(x, n):
    a, b = float(x).as_integer_ratio()
    if x > 2:
        b = b + 1
    return a, b, int(n).as_integer_ratio()


@cases((0.5,), (2,))
def logs_of_two_bases_where_one_fails(x):
    try:
        return math.log(float(x) - 0.25, 3), math.log(2, float(x) * 2)
    except ZeroDivisionError:
        return math.hypot(float(x), 1, 2), -1.0


@cases((2.5, 3, "&"), (2.5, 3, "<<"), (2.5, 3, "~"), (2.5, 3, "index"))
def bits_of_a_float(x, n, op):
    a, k = float(x), int(n)
    if op == "~":
        return ~a
    return k & a if op == "&" else a << k if op == "<<" else operator.index(a)


@cases((2.5, 0), (2, 0), (2, 1))
def parts_of_a_division(x, n):
    try:
        return str(divmod(x.item() if isinstance(x, torch.Tensor) else x, int(n)))
    except ZeroDivisionError as e:
        return str(e)


@cases((7,))
def iterators(x):
    it = iter([x, 2])
    return next(it), next(it), next(it, "end"), next(iter([]), x)


@cases((7,))
def backwards_over_a_list_that_loses_items(x):
    xs, seen = [1, 2, 3, 4, 5, int(x)], []
    for v in reversed(xs):
        seen.append(v)
        xs.pop()
        if len(xs) > 3:
            xs.pop()
    return xs, seen


@cases((7,))
def an_item_that_is_not_there(x):
    return [1, 2].index(int(x))


@cases((7,))
def next_past_the_end(x):
    return next(iter([]))


@cases((7,), (7.5,), (True,), kinds=("python",))
def types_of_python_values(x):
    return isinstance(x, int), isinstance(x, (float, str)), type(x) is int, type(x).__name__


@cases((7,), (-7,))
def a_class_by_a_condition(x):
    c = int if x > 0 else str
    kinds = (
        isinstance("x", c),
        isinstance(int(x), c),
        isinstance(2.5, (c, float)),
        isinstance(None, c),
    )
    return kinds, issubclass(str, c), issubclass(c, str), issubclass(bool, (str, c))


@cases((7,))
def no_class(x):
    return isinstance(1, (str, int(x)))


@cases((7,))
def no_class_either(x):
    return issubclass(int, int(x))


@cases.tensors((torch.tensor(7),))
def types_of_tensors(x):
    return isinstance(x, torch.Tensor), isinstance(x, int), callable(x)


@cases((3,), (0,))
def ranges(n):
    r = range(n)
    return len(r), list(r), list(range(1, n + 3, 2)), 2 in r, list(reversed(r)), sum(r)


@cases((2.5,), (-4.0,))
def sorting_different_numbers(x):
    a = sorted([3, x, True, -4.0]), sorted([(3, x), (x, 2)]), sorted([1, x], key=lambda v: -v)
    return a, (1, 2).count(x), [x, 3].count(3), (1, x).index(x)


@cases((4,), (1,))
def not_found(x):
    return (1, 2).index(x), [1, 2].remove(x)


@cases(([3, -1, 2],), ([],))
def sorting(l):
    return sorted(l), sorted(l, reverse=True), sorted(l, key=lambda v: -v)


@cases.tensors((ROWS,))
def enumerate_zip_map_filter_of_rows(x):
    return (
        list(enumerate(x)),
        list(zip(x, x + 1)),
        list(map(torch.sum, x)),
        [r for r in filter(lambda r: r[0] > 1, x)],
        tuple(reversed(x)),
    )


@cases.tensors((2,), (-1,), (True,))
def enumerate_from_a_staged_number(k):
    k = int(k)
    letters = {q: i for i, q in enumerate("ab", k)}
    return letters, list(enumerate([5, 6], k + 1)), dict(enumerate((), k)), next(enumerate("z", k))


@cases(([1], [2]), ([1], [2, 3]))
def strict_zip(a, b):
    return list(zip(a, b, strict=True))


@cases((3,), (0,))
def dict_methods(n):
    d = dict(a=n)
    d.update(b=2)
    d |= {"c": n}
    return d, list(d), list(d.values()), d.pop("a"), d.popitem(), {**d, "z": 1}


@cases((3,), (0,))
def set_methods(n):
    s = {1, 2}
    s.add(5)
    s.discard(1)
    return s, s | {9}, len(s), 5 in s


@cases((3,), (-3,))
def attribute_functions(x):
    class Box:
        v = x

    return getattr(Box, "v"), getattr(Box, "w", 1), hasattr(Box, "w"), callable(Box)


@cases((3.7,), (-3.7,))
def item_methods(x):
    t = torch.as_tensor(x)
    i = t.item()
    return i > 0, int(i), t.tolist(), float(t) + 1


@cases((65,), kinds=("python",))
def strings_and_codes(x):
    return chr(x), ord("a"), hex(x), bin(x), repr(x), str(x), format(x, "04d"), ascii("e"), hash(x)


@cases((3,), (0,))
def slices_and_ids(n):
    l = [1, 2, 3, 4]
    s = slice(1, n)
    return l[s], id(l) == id(l), isinstance(s, slice)


@cases((3,), (0,))
def print_options(n):
    print("a", n, sep="-", end="!\n")
    print()
    print([n, 1], {"k": n})


@cases((3,), (-3,))
def builtin_stored_in_a_name(x):
    f, g = abs, max
    return f(x), g(x, 1), [h(x) for h in (abs, float)]


@cases((3,), (0,))
def as_a_size(n):
    return torch.zeros(int(n)), torch.arange(int(n)), torch.ones(2).expand(int(n), 2).sum()


@cases.tensors((ROWS,))
def filter_is_lazy_and_keeps_by_data(x):
    kept = [v * 2 for v in filter(lambda r: r.sum() > 0, x)]
    first, total = None, 0
    for v in filter(lambda r: r[0] != 0, x):
        total = total + v.sum()
        if total > 1:
            break
    else:
        total = total + 100
    some = filter(lambda k: k % 2, [1, 2, 3, 4, 5])
    first = next(some)
    return (
        kept,
        total,
        first,
        list(some),
        any(filter(None, [0, "", None])),
        list(map(len, filter(None, ["a", ""]))),
    )


@cases.tensors((ROWS,))
def zip_of_a_tensor_and_things(x):
    twice = x[0].clone()
    for row, same in zip(x, [twice, twice]):
        same *= row.sum()
    rest = iter([1, 2, 3, 4, 5, 6])
    pairs = [v.sum() * n for v, n in zip(x, rest)]
    named = dict(zip(["a", "b"], x))
    return (
        twice,
        pairs,
        list(rest),
        named,
        [v for v, n in zip(x, itertools.count())],
        list(map(lambda a, b: a * b, x, (x[0], 2))),
    )


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def sorted_by_what_data_decides(v):
    rows = [(x, i) for i, x in enumerate(v)]
    named = {"a": v[0], "b": v[1]}
    pairs = [(v[0], "a"), (v[1], "b"), (v[2], "c")]
    pairs.sort(key=lambda p: p[0], reverse=True)
    signs = sorted([(int(x > 0), i) for i, x in enumerate(v)], reverse=True)
    return (
        sorted(rows),
        signs,
        sorted(named.items(), key=lambda kv: kv[1]),
        pairs,
        max(pairs)[1],
        sorted(v.tolist(), key=lambda z: (z > 0, -z)),
    )


@cases(1.0, -1.0, 3.0)
def extremes_of_numbers_and_a_tensor(x):
    found = min([1, x, 2]), max(x, 1, 2), min([x, 1, 2], key=lambda v: v * 1)
    return found, max([x, 1, 2], key=lambda v: -v), sorted([2, x, 1])


@cases.tensors((torch.tensor(1.5),), (torch.tensor(-1.5),))
def extremes_of_a_list_of_unknown_length(t):
    kept = [z for z in [t, -t, t * 2] if z > 0.5]
    none = [z for z in [t] if z > 9]
    return (
        min(kept, key=lambda z: -z, default=t),
        max(kept, default=t),
        max(none, default=7.0),
        min(none, key=abs, default=None),
    )


@cases.tensors((torch.tensor(1.5),))
def extreme_of_an_empty_list_of_unknown_length(t):
    return max([z for z in [t] if z > 9])


@cases.tensors((torch.tensor([1.0, 2.0, 3.0]),))
def numbers_beside_a_tensor_are_exact(v):
    total, last = 0.0, 0
    for x, weight, big in zip(v, [0.1, 0.2, 0.3], [1, 2**62 + 1, 3]):
        total = total + weight
        last = max(last, big)
    return total == 0.1 + 0.2 + 0.3, last, [n for _, n in zip(v, [2**70, 1])]


def test_an_iterator_beside_a_tensor_of_unknown_length_is_refused():
    f = tg.function(lambda v: [n for _, n in zip(v[v > 0], itertools.accumulate(iter([1, 2])))])
    with pytest.raises(StagingError, match="an iterator beside a tensor"):
        f(torch.tensor([1.0, -1.0]))


def test_a_cycle_beside_a_tensor_of_unknown_length():
    def f(v):
        return [n for _, n in zip(v[v > 0], itertools.cycle([1, 2]))]

    for x in ([1.0, -1.0], [1.0, 2.0, 3.0], [-1.0]):
        assert tg.function(f)(torch.tensor(x)) == f(torch.tensor(x))


@cases((torch.tensor([1.0, -2.0, 3.0]),), (torch.tensor([-1.0, 2.0, 0.5]),))
def sorted_by_tuples_and_rows(x):
    rows = torch.stack([x, x * 2, -x])
    some = x[x > 0]
    return (
        sorted(x, key=lambda v: (v < 0, abs(v))),
        sorted(some, key=lambda v: (-v, 1)),
        sorted(rows, key=lambda r: r[0]),
    )


@cases(([1.0, -2.0, 3.0],), ([-1.0, 2.0, 0.5],), ([-1.0, -2.0],))
def a_dict_in_any_order_sorted(x):
    found = {}
    for v in x:
        key = "pos" if v > 0 else "neg"
        found[key] = found.get(key, 0) + 1
    return sorted(found), sorted(found.items()), sorted(found.values())


@cases(([1.0, -2.0, 3.0],), ([-1.0, 2.0, 0.5],), ([-1.0, -2.0],))
def slices_of_strings_and_tuples(x):
    s, t, n = "hello", (1, 2, 3, 4), sum(1 for v in x if v > 0)
    return s[:n], s[n:], s[:: n + 1], t[:n], t[n:] + t[:n], s[n:] + "!"


@cases((torch.zeros(0), True), (torch.zeros(0, 2), False), (torch.tensor([-3.0, 2.0]), True))
def of_nothing_with_a_key(x, c):
    y = x if c else x + 1
    return min(x, key=abs, default=5), max(x, key=lambda v: v, default=None), torch.equal(y, x)


KINDS = [(torch.tensor(v),) for v in (2, [3], True, 2.5, [1, 2])]


@cases(*KINDS)
def repeated_by_a_tensor(x):
    return x * [1], (1, 2) * x, "ab" * x, x * "ab"


@cases(*KINDS)
def digits_of_a_tensor(x):
    return hex(x), bin(x), chr(x + 65)


@cases(*KINDS)
def whole_numbers_of_a_tensor(x):
    return math.gcd(x, 4), math.factorial(x), math.comb(5, x)


@cases(*KINDS)
def math_of_a_tensor(x):
    return math.floor(x), math.sqrt(x), math.isfinite(x), math.hypot(x, 2)


@cases(*KINDS)
def rounded_tensor(x):
    return round(x)


@cases((1,), (-1,))
def truth_of_a_text(x):
    some, maybe = f"{x}", f"{x}" if x > 0 else ""
    return bool(some), bool(maybe), not maybe, maybe and 1, maybe or 2


class Formatted:
    def __format__(self, spec):
        return f"<{spec}>"


@cases((3,))
def formats_of_a_class(n):
    x = Formatted()
    return format(x), format(x, "a"), f"{x}", f"{x:b}", "{:c}".format(x), str(object=5)


class Seven(int):
    def __index__(self):
        return 7


@cases((3,))
def index_of_a_subclass_of_int(n):
    return operator.index(Seven(8)), list(range(9))[Seven(8)], n


@cases((3,), kinds=("python",))
def classes_say_their_module(n):
    made = type("Made", (), {"x": n})
    point = collections.namedtuple("point", "x y")
    return made.__module__, made.__name__, made().x, point.__module__, tuple(point(n, 1))


@cases((3,), kinds=("python",))
def names_of_repeat(n):
    return list(itertools.repeat(object="a", times=n)), list(zip(range(2), itertools.repeat(n)))


@cases((3,))
def counters_lose_what_they_lack(n):
    counter = collections.Counter("aba")
    del counter["z"]
    del counter["a"]
    return dict(counter), counter["q"]


@dataclasses.dataclass
class Prepared:
    x: int
    hidden: int = dataclasses.field(default=4, init=False)
    items: list = dataclasses.field(default_factory=list)

    @staticmethod
    def __post_init__():
        print("made")


@dataclasses.dataclass(init=False)
class Bare:
    x: int = 5


@dataclasses.dataclass
class Doubling:
    x: int
    items: list = dataclasses.field(default_factory=list)

    def __setattr__(self, name, value):
        print(name)
        super().__setattr__(name, value)


@dataclasses.dataclass
class Begun:
    x: int
    by: dataclasses.InitVar[int]

    def __post_init__(self, by):
        self.x = self.x + by


@cases((3,))
def dataclasses_are_made_as_written(n):
    prepared = Prepared(n)
    try:
        dataclasses.replace(Begun(n, 1), x=2)
    except ValueError as error:
        print(error)
    again = dataclasses.replace(Begun(n, 1), x=2, by=5)
    return "hidden" in vars(prepared), prepared.hidden, Bare().x, vars(Doubling(n)), again.x


class Told:
    def __init__(self, x):
        self.x = x

    def __bool__(self):
        print("asked", float(self.x))
        return bool(self.x > 0)


@cases((3, -1), (-3, 1), (-1, -1), kinds=("python",))
def truths_are_asked_for_in_turn(x, y):
    items = [Told(x), Told(y), Told(2)]
    rest = iter([0, x, y])
    return any(items), all(items), any([1, Told(x)]), all([0, Told(x)]), any(rest), list(rest)


test_same = cases.test()


def test_len_of_a_dynamic_dimension():
    f = tg.function(length, input_signature=[tg.TensorSpec([None, 2], torch.float32)])
    assert [f(torch.zeros(n, 2)) for n in (0, 1, 5)] == [0, 1, 5]
    assert f.trace_count == 1


def test_python_int_of_a_tensor_does_not_wrap():
    @tg.function
    def f(n):
        k = 1
        for _ in range(n):
            k = k * 10
        return k

    assert f(torch.tensor(12)) == 10**12


def class_of_a_tensor(x):
    kinds = isinstance(x, torch.nn.Parameter), isinstance(x, torch.Tensor), isinstance(x, (list, torch.nn.Parameter))  # fmt: skip
    return kinds, type(x).__name__, type(x) is torch.Tensor, isinstance(x * 2, torch.nn.Parameter)


def test_a_parameter_is_one_as_an_argument():
    f, outer = tg.function(class_of_a_tensor), tg.function(lambda x: f(x))
    for x in (torch.nn.Parameter(torch.ones(2)), torch.ones(2), torch.ones(2, requires_grad=True)):
        for _ in range(2):
            assert f(x) == outer(x) == class_of_a_tensor(x)
    assert f.trace_count == 2


class Sized:
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n


def test_the_truth_of_an_object_with_a_length_is_a_bool():
    f = tg.function(lambda x: (bool(Sized(int(x.sum()))), bool(Sized(3)), not Sized(int(x.sum()))))
    for x in (torch.ones(2), torch.zeros(2)):
        assert repr(f(x)) == repr((bool(x.sum()), True, not x.sum()))


def test_the_memory_of_a_captured_tensor_is_no_array():
    held = torch.arange(3.0)

    @tg.function
    def f(x):
        return x + float(np.from_dlpack(held)[0])

    with pytest.raises(SymbolicValueError, match="from_dlpack"):
        f(torch.tensor(1.0))


def test_a_power_with_a_modulus():
    for base, exp, mod in ((3, -1, 7), (3, 100, 1000007), (-3, 3, 5), (3, 3, -5)):
        f = tg.function(lambda x, e, m: pow(int(x), int(e), m))
        result = f(torch.tensor(base), torch.tensor(exp), mod)
        assert type(result) is int and result == pow(base, exp, mod)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x: pow(int(x), -1, 6), ValueError),
        (lambda x: pow(int(x), 2, 0), ValueError),
        (lambda x: pow(float(x), 2, 3), TypeError),
        (lambda x: pow(x, 2, 3), TypeError),
    ],
)
def test_a_power_that_python_refuses(function, error):
    with pytest.raises(error):
        tg.function(function)(torch.tensor(3))


@pytest.mark.parametrize(
    "divide", [lambda x: divmod(x, 2), lambda x: divmod(2, x), lambda x: divmod(x[0].item(), x)]
)
def test_divmod_of_tensors_is_a_type_error(divide):
    texts = []
    for f in (divide, tg.function(divide)):
        with pytest.raises(
            TypeError, match=r"unsupported operand type\(s\) for divmod\(\)"
        ) as caught:
            f(torch.tensor([7.0, 3.0]))
        texts.append(str(caught.value).splitlines()[0])
    assert texts[0] == texts[1]


def test_print_with_a_separator_and_an_end_that_only_the_run_knows(capsys):
    def f(i):
        words = ["1", "22", "-3"]
        print(words[i], 0, sep=words[i], end="|")
        print(0, 1, sep=f"<{i}>", end=words[i] if i > 0 else None)
        return i

    texts = []
    for run in (f, tg.function(f)):
        for i in (0, 2):
            run(torch.tensor(i))
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]


@pytest.mark.parametrize("of", [lambda x: int(x).to_bytes(2, "big"), lambda x: float(x).hex()])
def test_what_a_staged_number_cannot_give_names_the_method(of):
    with pytest.raises(StagingError, match=r"(int\.to_bytes|float\.hex) of a staged Python"):
        tg.function(of)(torch.tensor(3))


def test_a_staged_number_has_no_attributes_that_a_number_has_not():
    with pytest.raises(AttributeError, match="'int' object has no attribute 'hex'"):
        tg.function(lambda x: int(x).hex())(torch.tensor(3))


def test_arithmetic_of_a_size_that_only_the_run_knows():
    """torch's own class of such sizes, and of what its operators make of them, lacks some of Python's operators."""

    def f(x):
        n = x[x > 0].shape[0]
        few, half = n < 3, n / 2
        found = [few + 1, -few, few << 2, few > 0, max(few, 2), round(half), round(half, 1)]
        found += [half.is_integer(), round(n, -1), ~n, n // 1.5, divmod(n, -1.5), (2.0 > n) * 1.5]
        return [*found, n // float("nan") if n else 0.0]

    staged = tg.function(f)
    for x in (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, 2.0, 0.0])):
        assert str(staged(x)) == str(f(x))


@pytest.mark.parametrize("name", ["is_integer", "hex", "bit_length"])
def test_a_staged_number_has_the_methods_of_its_class(name):
    def f(x):
        n = x.item()
        return hasattr(n, name), hasattr(n / 2, name), hasattr(n > 1, name)

    assert tg.function(f)(torch.tensor(3)) == f(torch.tensor(3))
