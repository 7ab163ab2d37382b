"""f-strings, format, %, print: values of staged numbers and tensors."""

import collections
import contextlib
import dataclasses
import decimal
import io
import json
import pprint
import re
import string
import sys
import textwrap

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases, compare, run
from tograph.errors import StagingError

cases = Cases()


@cases((3,), (-3,), (2.5,), (True,))
def printed_f_string(x):
    print(f"x is {x}, {x!r}, {x!s} and {x + 1=}")


@cases.tensors((torch.tensor([1.5]),), (torch.tensor([2, 3]),))
def beside_objects(x):
    counts = collections.Counter("a")
    kind, place = x.dtype, (x.shape, [x.device, x])
    texts = f"{x} {kind!s:>20} {place} {range(3)} {counts}", "%s %s %s" % (x, kind, counts)  # noqa: UP031
    more = "{} {k} {}".format(x, counts, k=kind), f"{x[0]:{len('abcdef')}} {torch.strided}"
    counts.update("b")
    return texts, more


@cases((3,), (-3,))
def views_of_dicts(x):
    d = {"k": x, "z": 2}
    print(d.items(), d.keys(), d.values())
    if x > 1:
        d["q"] = 1
    ordered = collections.OrderedDict(a=x)
    return f"{d.keys()} {d.values()!r:>40}", str(d.items()), "%s" % d.keys(), str(ordered.items())


class Boxed:
    def __init__(self):
        self.items = []

    def __repr__(self):
        return f"Boxed{self.items}"


@cases((3,), (-3,))
def containers_that_change_behind_the_text(x):
    kinds = [{1}, {}, [], collections.deque(), bytearray(b"a"), collections.Counter(), Boxed()]
    seen, found, items, queue, data, counts, held = kinds
    text = f"{[x, *kinds]} {(x, [items])}", "{} {}".format(x, {"k": items})
    print([x, *kinds], {"k": x, "s": seen})
    seen.add(2)
    found["k"] = items
    held.items.append(5)
    queue.append(6)
    data.append(98)
    counts["c"] += 1
    if x > 0:
        items.append(7)
    else:
        print([x, [items], held])
    return text, str([x, *kinds])


@cases((3,), (-3,))
def format_specs_of_items(x):
    i = int(x)
    print(f"{i:5d}|{i:<4}|{i:+}|{float(x):.2f}|{i!r:>6}")


@cases((3,), (-3,))
def percent_and_format(x):
    print("%s %s" % (x, 1), "{} {k}".format(x, k=2), str(x) + "!", repr(x))


@cases((3,), (0,))
def percent_of_items(x):
    i = int(x)
    print("%d %5.1f %s" % (i, i, i))


@cases((3,), (0,))
def percent_of_texts_in_variables(x):
    i, form = int(x), "%d of %s"
    print(form % (i, 4), f"{i} and %03d" % i, ("a%s" if x > 1 else "b%s") % i)
    form += "!"
    form %= (i, "all")
    print(form, i % 2, (form + "%s") % "x")


@cases((3,), (0,))
def percent_that_fails(x):
    print("before")
    return f"{x} %d" % "text"


@cases((3,), (-3,))
def f_string_with_a_condition(x):
    print(f"{'plus' if x > 0 else 'minus'} {abs(x)} {[x, 1]} { {'k': x} }")


@cases((3,), (0,))
def in_a_loop(n):
    for i in range(n):
        print(f"{i}: {i * n}")


@cases((3,), (0,), kinds=("python",))
def nested_specs(x):
    w = 6
    return f"{x:>{w}}|{x:{'0'}{w}}|{f'{x}!'}|{{}}"


@cases((3,), kinds=("python",))
def joins(x):
    return ", ".join(str(v) for v in [x, 1]), "a" * x, "abc"[x - 1], "%03d" % x


@cases.tensors((torch.tensor([1.0, 2.0]),), (torch.tensor([[True], [False]]),))
def printed_tensors(x):
    print(x)
    print("x:", x, x.shape, x.dtype)
    print(f"{x}")


@cases((3,), (-3,))
def string_chosen(x):
    name = "plus" if x > 0 else "minus"
    print("it is " + name, name.upper(), len(name))
    return name + "!", f"<{name}>"


@cases((3,), (-3,))
def string_built_in_branches(x):
    s = "a"
    if x > 0:
        s += "b"
    return s + "c"


@cases((3,), (-3,))
def message_of_an_exception(x):
    if x < 0:
        raise ValueError(f"value {x} is negative")


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def text_that_grows(x):
    s = ""
    for v in x:
        s += "+" if v > 0 else "-"
    return s


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def text_that_grows_in_branches(x):
    s = ""
    for v in x:
        if v > 0:
            s = s + "+"
        else:
            s = s + "-"
    return s


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def text_that_is_asked_after_the_loop(x):
    s = "a"
    for v in x:
        if v > 0:
            s = s + "+"
    return s, len(s), s == "a++"


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def text_put_together(x):
    s = "a"
    if x[0] > 0:
        s += "b"
    if x[1] > 0:
        s += "c"
    if x[2] > 0:
        s += "d"
    return s + "!"


@cases.tensors((torch.tensor([1.5, -2.0, 3.0]),), (torch.tensor([-1.5, -2.0, 3.0]),))
def text_that_alternates(x):
    s = "a"
    i = 0
    while i < x[2]:
        s = "b" if s == "a" else "a"
        i += 1
    return s


@dataclasses.dataclass
class Shown:
    a: object
    b: object = 1


class Told:
    def __init__(self, v):
        self.v = v

    def __repr__(self):
        return f"Told({self.v!r})" if self.v > 0 else "none"


@cases.tensors((torch.tensor(3),), (torch.tensor(0),))
def values_of_several_kinds_and_in_objects(x):
    s, n = "abc", None
    if x > 1:
        s, n = "de", x
    shown = Shown(x, [n])
    print(shown, [Told(x)], (s, n), {"k": s})
    texts = "%s %s" % (s, n), "%s" % [s], "%s" % n, "%(k)s" % {"k": n}, "{} {}".format(s, [n])
    try:
        raise ValueError(x, s)
    except ValueError as error:
        texts += (str(error),)
    return *texts, str([n]), f"{shown} {[Told(x)]}", repr(shown), str({"k": Told(x + 1)})


@cases.tensors((torch.tensor(3),), (torch.tensor(0),))
def raised_on_every_path(x):
    print("before", x)
    x.add_(1)
    n = x if x > 1 else None
    raise ValueError(x, [n], f"{x}")


test_same = cases.test()


def test_the_arguments_of_an_exception_that_every_call_raises():
    f = tg.function(lambda x: raising(x + 1))
    for value in (1, 5):
        with pytest.raises(ValueError) as caught:
            f(torch.tensor(value))
        assert caught.value.args == (value + 1, [str(value + 1)])


def raising(x):
    raise ValueError(x, [f"{x}"])


def test_print_acts_at_every_execution():
    f = tg.function(in_a_loop)
    x = torch.tensor(2)
    for _ in range(3):
        assert run(f, (x,)).printed == run(in_a_loop, (x,)).printed
    assert f.trace_count == 1


def test_message_of_an_exception():
    f = tg.function(message_of_an_exception)
    native = run(message_of_an_exception, (torch.tensor(-3),)).error
    converted = run(f, (torch.tensor(-3),)).error
    assert str(native) in str(converted)


LOOKED_INTO = [
    lambda s: s == "1", lambda s: s != "1", lambda s: s < "5", lambda s: len(s), lambda s: s[0], lambda s: s[-1:], lambda s: s.upper(),
    lambda s: s * 2, lambda s: 2 * s, lambda s: "1" in s, lambda s: s in "a1b-2c", lambda s: s in ["1", "z"], lambda s: 1 if s else 2,
    lambda s: s.startswith("-"), lambda s: s.replace("1", "x").find("x"), lambda s: {"1": 10}.get(s, 20), lambda s: {"1": 10, "-2": 3}[s],
    lambda s: sorted([s, "0", "3"]), lambda s: "a" + s + "b" == "a1b", lambda s: (s, 1) in {("1", 1): 2}, lambda s: {"1": 5, "-2": 6}.pop(s),
    lambda s: (s + ",3").split(","), lambda s: s.rsplit(sep="-", maxsplit=1), lambda s: [c * 2 for c in s], lambda s: sorted(s), lambda s: int(s) + 1,
    lambda s: float(s), lambda s: ord(s[0]), lambda s: sum(ord(c) for c in s), lambda s: int("a" + s), lambda s: ord(s + "12"),
    lambda s: [int(part) for part in f"{s};7".split(";")], lambda s: " ".join(f"{s} b".split()),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(LOOKED_INTO)))
@pytest.mark.parametrize("x", [1, -2])
def test_a_staged_string_is_looked_into_when_the_graph_runs(number, x):
    use = LOOKED_INTO[number]

    def f(x):
        return use(f"{x}")

    compare(f, (torch.tensor(x),))


def test_strings_of_many_parts_that_are_each_one_of_several_are_made_when_the_graph_runs():
    """One of 9 to the power of 6: each ``+`` multiplied them."""

    def letters(x):
        out, other, last = "", "<", 0
        for t in range(6):
            i = int(x[t])
            if i != last:
                out += "_abcdefgh"[i]
            other = other + "_abcdefgh"[i]
            last = i
        return out, other, out == other[1:]

    compare(letters, (torch.tensor([1, 1, 2, 8, 8, 3]),))
    compare(letters, (torch.tensor([1, 2, 3, 4, 5, 6]),))


@pytest.mark.parametrize("use", [hash, lambda s: s.encode()])
def test_what_needs_the_text_while_tracing_is_refused(use):
    def f(x):
        return use(f"{x}")

    with pytest.raises(StagingError, match="a string made of staged values cannot be"):
        tg.function(f)(torch.tensor(1))


def printed_to_streams(x):
    print("o", x, file=sys.stdout)
    print("e", x, file=sys.stderr)


def test_print_to_a_standard_stream_finds_that_of_the_call():
    f = tg.function(printed_to_streams)
    for _ in range(3):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            f(torch.tensor(1))
        assert (out.getvalue(), err.getvalue()) == ("o tensor(1)\n", "e tensor(1)\n")


class Said:
    """A stream of the user's, with one of the standard streams beside it."""

    def __init__(self):
        self.text, self.stream = "", sys.stdout

    def write(self, text):
        self.text += text


def test_print_to_a_stream_that_an_object_keeps(capsys):
    said, out = Said(), io.StringIO()

    @tg.function
    def f(x):
        print("kept", x, file=said.stream)
        print("said", x, file=said)

    f(torch.tensor(1))
    with contextlib.redirect_stdout(out):
        f(torch.tensor(2))
    assert capsys.readouterr().out == "kept tensor(1)\nkept tensor(2)\n"
    assert out.getvalue() == ""
    assert said.text == "said tensor(1)\nsaid tensor(2)\n"


def matched(x):
    word = "abc" if x > 0 else "xyz"
    found = re.match("(a)(.)", word)
    return found.group(2) if found else "none", re.compile("x").search(word) is None


def test_a_text_of_several_is_matched():
    f = tg.function(matched)
    for x in (torch.tensor(1), torch.tensor(-1)):
        assert f(x) == matched(x)


class Lines:
    """A file that keeps what it is given, as its `write` says."""

    def __init__(self):
        self.found = []

    def write(self, text):
        if text.strip():
            self.found.append(text)


def printed_to_own_lines(x):
    lines = Lines()
    for v in x:
        if v > 0:
            print("item", v.item(), sep=":", file=lines)
    with contextlib.redirect_stdout(lines):
        print("sum", x.sum())
    print("after", len(lines.found))
    return lines.found


def test_prints_to_a_file_of_a_class_that_the_function_makes_call_its_write():
    for x in (torch.tensor([1.0, -2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])):
        expected, found = run(printed_to_own_lines, (x,)), run(tg.function(printed_to_own_lines), (x,))  # fmt: skip
        assert (found.value, found.printed) == (expected.value, expected.printed)


def kept_in_memory(x, log):
    text = io.StringIO()
    print("n", 3, file=text)
    with contextlib.redirect_stdout(text):
        print("inside")
    with contextlib.redirect_stdout(None):
        print(x)
    log.write("first ")
    print(x.item(), file=log)
    if x > 1:
        log.write("large ")
    return text.getvalue()


def test_texts_in_memory():
    f, logs = tg.function(kept_in_memory), (io.StringIO(), io.StringIO())
    for v in (1.0, 2.0, 3.0):
        assert f(torch.tensor(v), logs[0]) == kept_in_memory(torch.tensor(v), logs[1])
    assert logs[0].getvalue() == logs[1].getvalue()


def printed_and_read(x, log):
    print(x, file=log)
    return log.getvalue()


def test_a_text_in_memory_that_the_graph_prints_to_is_not_read():
    with pytest.raises(StagingError, match=r"getvalue\(\) of a text in memory that"):
        tg.function(printed_and_read)(torch.tensor(1), io.StringIO())
    with pytest.raises(StagingError, match="written to a text in memory"):
        tg.function(lambda x: print(x, file=io.StringIO()))(torch.tensor(1))


class Held:
    def __init__(self):
        self.n = 1

    def __repr__(self):
        return f"n={self.n}"


@pytest.mark.parametrize("text", [lambda o, x: "%r %s" % (o, x), lambda o, x: "{} {}".format([o], x), lambda o, x: "%(o)s %(x)s" % {"o": o, "x": x}, lambda o, x: f"{[o]} {x}"])  # fmt: skip
def test_a_text_shows_what_an_object_from_outside_holds_at_the_call(text):
    held = Held()
    staged = tg.function(lambda x: text(held, x.item()))
    for _ in range(3):
        assert staged(torch.tensor(1)) == text(held, 1)
        held.n += 1
    assert staged.trace_count == 3


@dataclasses.dataclass
class Level:
    at: object


def test_percent_of_one_object():
    assert tg.function(lambda x: "%s" % Level(x + 1))(torch.tensor(1)) == "Level(at=tensor(2))"


@dataclasses.dataclass(slots=True)
class Slotted:
    v: int


@pytest.mark.parametrize("held", [Slotted(1), bytearray(b"a"), [Slotted(1)], {"k": Slotted(1)}])
def test_objects_beside_staged_values_show_what_they_hold_now(held):
    def texts(x):
        return "%s %s" % (held, x.item()), "{} {}".format(held, x.item()), f"{held} {x.item()}"

    staged, x = tg.function(texts), torch.tensor(1.0)
    assert staged(x) == texts(x)
    one = held if not isinstance(held, (list, dict)) else next(iter(held.values() if isinstance(held, dict) else held))  # fmt: skip
    if isinstance(one, bytearray):
        one[0] = 98
    else:
        one.v = 2
    assert staged(x) == texts(x)


@pytest.mark.parametrize(
    "write, why",
    [
        (lambda x: io.StringIO().write(f"{x.item()}"), "written to a text in memory"),
        (lambda x: json.dumps({"x": x.item()}), r"dumps\(\) asks for the text"),
        (lambda x: json.dumps([f"{x.item()}", 1]), r"dumps\(\) asks for the text"),
        (lambda x: json.dump(x.item(), io.StringIO()), r"dump\(\) asks for the text"),
        (lambda x: f"{x.item()}".encode(), "encode"),
    ],
)
def test_texts_that_leave_the_graph_are_refused(write, why):
    def f(x):
        return write(x)

    with pytest.raises(StagingError, match=why):
        tg.function(f)(torch.tensor(1.5))


def test_what_json_cannot_write_is_its_own_error():
    def f(x):
        try:
            return x, json.dumps({1, 2})
        except TypeError as e:
            return x, str(e)

    assert tg.function(f)(torch.tensor(1.5)) == f(torch.tensor(1.5))


def asked_for_a_text(x):
    s, text = f"{x.item()}", "1.5|-2.25|1.5"
    found = text.find(s), text.count(s), text.replace(s, "z"), text.split(s), text.rsplit(sep=s)
    return (
        found,
        text.startswith(s),
        text.startswith(("7", s)),
        text.partition(s),
        s.rpartition("."),
    )


def asked_by_numbers(x):
    n = int(x.item()) + 5
    found = "ab".center(n), "7".zfill(n), "a,b,c,d".split(",", n - 3), "abcabc".find("a", n - 4)
    return found, "aXbX".replace("X", "y", n - 3), "abc".startswith("b", n - 5)


def asked_for_one_of_two(x):
    part = "1.5" if x > 0 else "2"
    return "1.5a".startswith(part), "a2".endswith(("x", part)), "1.52".find(part)


def asked_for_what_is_not_there(x):
    return "abc".index(f"{x.item()}")


def asked_for_a_number(x):
    return "abc".find(x.item())


@pytest.mark.parametrize("program", [asked_for_a_text, asked_by_numbers, asked_for_one_of_two, asked_for_what_is_not_there, asked_for_a_number])  # fmt: skip
def test_methods_of_plain_strings(program):
    compare(program, (torch.tensor(1.5),), (torch.tensor(-2.25),))


class Dashed(string.Template):
    delimiter = "#"


@pytest.mark.parametrize("names", [{"x", "y"}, {"x"}])
def test_templates(names):
    def texts(x):
        given = {name: int(x) + len(name) for name in sorted(names)}
        kept = string.Template("$$ $x, ${y} $ {z}").safe_substitute(given)
        dashed = Dashed("#x ##").substitute({"x": 1}, x=x.item() / 2)
        return kept, dashed, string.Template("$x ${y} $x").substitute(given)

    compare(texts, (torch.tensor(3),), (torch.tensor(-3),))


def test_a_template_with_a_place_that_is_no_name():
    compare(lambda x: string.Template("a\n $x $ {y}").substitute(x=x.item()), (torch.tensor(1.5),))


def test_text_that_a_library_makes_of_a_staged_value_is_refused():
    with pytest.raises(StagingError, match=r"saferepr\(\) makes a text of a value"):
        tg.function(lambda x: pprint.saferepr([int(x)]))(torch.tensor(1))


def test_methods_of_the_class():
    def f(x):
        text = f"a{x.item():.1f}"
        return str.upper(text), str.join(",", [text, "b"]), list(map(str.title, [text, "c"]))

    compare(f, (torch.tensor(1.0),), (torch.tensor(2.0),))


@pytest.mark.parametrize(
    "use",
    [
        lambda text: re.sub("a", "b", text),
        json.loads,
        decimal.Decimal,
        textwrap.fill,
        lambda text: bytes(text, "utf8"),
        lambda text: int("10", len(text)),
        lambda text: bytes(len(text)),
        lambda text: len(text) + 1j,
        lambda text: 2j * len(text),
    ],
)
def test_libraries_that_need_the_text_or_number_refuse_it(use):
    with pytest.raises(StagingError, match="known only when the graph runs"):
        tg.function(lambda x: use(f"a{x.item()}"))(torch.tensor(1.0))
