"""What a handler finds of variables that another `try`, inside of its body, wrote."""

import contextvars
import math
from types import SimpleNamespace

import pytest
import torch

import tograph as tg
from tograph.converters import try_stmt


def bad(x, limit, error):
    if x.sum() > limit:
        raise error
    return x * 2


def last_written_by_finally(x, first, second):
    a = 0
    try:
        y = bad(x, 1000, KeyError("k"))
        a = 1
        try:
            y = bad(x, first, ValueError("v"))
        finally:
            a = 0
    except ValueError:
        return x + a * 10
    return y


def written_back_by_a_handler(x, first, second):
    a = 0
    try:
        a = 1
        try:
            bad(x, first, KeyError("v"))
        except KeyError:
            a = 0
            raise ValueError("again") from None
        a = 0
        bad(x, second, ValueError("v"))
    except ValueError:
        return x + a * 10
    return x


def written_back_after_it(x, first, second):
    a = 0
    try:
        bad(x, 1000, KeyError("k"))
        a = 1
        try:
            bad(x, first, ValueError("v"))
        except ValueError:
            pass
        a = 0
        bad(x, second, KeyError("k"))
    except KeyError:
        return x + a * 10
    return x


class Holder:
    def __init__(self):
        self.variable = contextvars.ContextVar("held", default=None)


HOLDER = Holder()


def set_and_reset(x, first):
    token = HOLDER.variable.set({"a": 1})
    try:
        return bad(x, first, ValueError("v"))
    finally:
        HOLDER.variable.reset(token)


def a_context_variable_reset_inside(x, first, second):
    try:
        y = set_and_reset(x, first)
    except ValueError:
        y = x
    return bad(y, second, KeyError("k"))


NESTED = [
    last_written_by_finally,
    written_back_by_a_handler,
    written_back_after_it,
    a_context_variable_reset_inside,
]


@pytest.mark.parametrize("f", NESTED)
def test_what_a_handler_finds_after_one_inside(f):
    g, x = tg.function(f), torch.ones(2)
    for first in (0, 50):
        for second in (0, 50):
            limits = torch.tensor(first), torch.tensor(second)
            try:
                right = f(x, *limits)
            except KeyError:
                with pytest.raises(KeyError):
                    g(x, *limits)
            else:
                torch.testing.assert_close(g(x, *limits), right)
            assert HOLDER.variable.get() is None
    assert g.trace_count == 1


class Refused(Exception):
    level = 3

    def __init__(self, code, *args):
        super().__init__(code, *args)
        self.code = code

    @property
    def doubled(self):
        return self.code * 2 if self.code > 3 else self.code

    def plus(self, n=1):
        return self.code + n


class Late(Refused):
    def __init__(self, code, by):
        super().__init__(code)
        self.by = by


def checked(x):
    if x > 0:
        raise Refused(x + 1, "positive")
    return x


def attributes(x):
    try:
        return checked(x)
    except Refused as e:
        return e.code, e.args, e.level, e.doubled, e.plus(), e.plus(n=x)


def of_two_classes(x):
    n = 0
    for i in range(3):
        try:
            if x > i:
                raise Late(i, x)
            if x < -1:
                raise Refused("low")
        except Late as e:
            n = n + e.by + e.code
        except Refused as e:
            n = (n, e.code)[0] + len(e.code)
    return n


def raised_again(x):
    try:
        try:
            return checked(x)
        except Refused as e:
            if e.code > 3:
                raise
            raise Late(e.code, 2) from e
        finally:
            print("left")
    except Late as e:
        return e.by, e.code, getattr(e, "args", None)
    except Refused as e:
        return "again", e.code


def beside_what_python_raises(x):
    try:
        if x > 0:
            raise Refused(1)
        return 1 // int(x + 1)
    except (Refused, ZeroDivisionError) as e:
        return hasattr(e, "code"), getattr(e, "code", "none")


def forgotten(x):
    try:
        try:
            checked(x)
        except Refused:
            pass
        return 1 // int(x - 1)
    except Exception as e:
        return hasattr(e, "code")


def chosen_by_what_it_holds(x):
    """The handler raises again by a condition: it is no branch in native code, and the one around is not for that failure."""
    c = None
    try:
        try:
            if x > 0:
                c = x + 1
                raise ValueError("a")
            return x
        except ValueError:
            if c > 3:
                raise
            return c * 100
    except ValueError:
        return c


KNOWN = [attributes, of_two_classes, raised_again, beside_what_python_raises, forgotten, chosen_by_what_it_holds]  # fmt: skip


@pytest.mark.parametrize("f", KNOWN)
def test_what_a_handler_knows(f, capsys):
    g = tg.function(f)
    for x in (1.0, -1.0, 5.0, -2.0, 1.0, 5.0):
        found = [(repr(h(torch.tensor(x))), capsys.readouterr().out) for h in (f, g)]
        assert found[0] == found[1]


def sets(e):
    e.code += 1


def notes(e):
    e.add_note("seen")


def deletes(e):
    del e.code


@pytest.mark.parametrize("change", [sets, notes, deletes])
def test_what_a_handler_sets_is_refused(change):
    @tg.function
    def f(x):
        try:
            if x > 0:
                raise Refused(1)
        except Refused as e:
            change(e)
            raise
        return x

    with pytest.raises(tg.errors.StagingError, match="cannot be set or changed in its handler"):
        f(torch.tensor(1.0))


def test_a_list_from_outside_that_an_exception_holds():
    class Holding(Exception):
        def __init__(self, held, own):
            super().__init__("held")
            self.held, self.own = held, own

    outer = [1]

    def f(x, ask):
        try:
            if x > 0:
                raise Holding(outer, [x, 4])
        except Holding as e:
            if ask:
                e.held.append(2)
            return e.own[1], str(e)
        return 0, "none"

    for x in (1, -1):
        assert tg.function(f)(torch.tensor(x), False) == f(torch.tensor(x), False)
    with pytest.raises(tg.errors.StagingError, match="'held' of an exception .* from outside"):
        tg.function(f)(torch.tensor(1), True)


class TooLarge(Exception):
    pass


def check(y):
    if y.sum() > 100:
        raise TooLarge("too large")


def looks_at_it(y):
    try:
        check(y)
    except TooLarge as e:
        raise ValueError(e.args[0]) from e
    return y + 1


def reads_attributes(y, owner=SimpleNamespace(always={})):
    try:
        check(y)
    except Exception:
        if owner.always:
            y = y * 2
        raise
    return y + 1


def forward_hook(y):
    layer = torch.nn.Identity()
    layer.register_forward_hook(lambda m, args, out: check(out))
    return layer(y) + 1


@pytest.mark.parametrize("step", [looks_at_it, reads_attributes, forward_hook])
def test_a_try_in_a_loop_whose_handler_knows_what_was_raised(step):
    def f(x):
        while x.sum() < 150:
            x = step(x) * 2
        return x

    staged = tg.function(f)
    for number in (30.0, 60.0, 200.0):
        found = []
        for g in (f, staged):
            try:
                found.append(g(torch.full((2,), number)).tolist())
            except (ValueError, TooLarge) as error:
                found.append((type(error).__name__, str(error)))
        assert found[0] == found[1]


def test_a_list_from_outside_that_a_body_changes_in_two_ways_before_it_fails():
    """One trace takes it for a list that grows, and refuses that; the next reads it. Both have a body that may fail when the graph runs."""
    kept = SimpleNamespace(rows=[])

    def f(x):
        try:
            kept.rows.append(x)
            kept.rows.reverse()
            if x.max() > 0:
                raise ValueError
        except ValueError:
            x = x + 1
        return x

    found = []
    for g in (f, tg.function(f)):
        kept.rows = [torch.zeros(2)]
        found.append([g(x).tolist() for x in (torch.ones(2), -torch.ones(2))] + kept.rows)
    assert str(found[0]) == str(found[1])


class Fault(Exception):
    def __init__(self, code, text):
        super().__init__(code, text)
        self.code = code


def test_what_an_inner_handler_knew_is_nothing_to_those_around():
    def f(n):
        k = n.item()
        try:
            try:
                try:
                    if n > 1:
                        raise Fault(k, str(k))
                except Fault as error:
                    raise RuntimeError(f"from {error.code}") from error
            except RuntimeError as error:
                k = str(error)
        except ValueError:
            k = 0
        return k

    staged = tg.function(f)
    for n in (2, 0, 3):
        assert staged(torch.tensor(n)) == f(torch.tensor(n))


def four_deep(x, n):
    y = x
    try:
        y = y * x[n]
        try:
            y = y + x[n + 1]
            try:
                y = y * x[n + 2]
                try:
                    y = y - x[n + 3]
                except IndexError:
                    y = y - 1
            except IndexError:
                y = y - 2
        except IndexError:
            y = y - 3
    except IndexError:
        y = y - 4
    return y


def test_a_body_is_traced_apart_once_for_each_try(monkeypatch):
    """Each ``try`` in another one doubled the traces of what is in it."""
    apart, attempted = [], try_stmt.attempted
    monkeypatch.setattr(try_stmt, "attempted", lambda *a: apart.append(1) or attempted(*a))
    staged, x = tg.function(four_deep), torch.arange(8.0)
    for n in (1, 5, 6, 7, 8):
        assert staged(x, torch.tensor(n)).equal(four_deep(x, torch.tensor(n)))
    assert staged.trace_count == 1 and len(apart) == 4


class Counting:
    count = 0


class Told(Counting):
    pass


def of_a_place_that_changes_behind_the_first_failure(x, rows):
    n, total = int(x), 0.5
    for _ in rows:
        try:
            Told.last = n
            print({1: 2, 3: 4}[n])
        except RuntimeError:
            Told.count += n
        else:
            total /= math.sin(float(n))
        finally:
            print("finally")
    return total


def test_a_handler_around_others_finds_what_each_point_of_the_body_left(capsys):
    f = of_a_place_that_changes_behind_the_first_failure
    found = []
    for g in (f, tg.function(f)):
        for name in vars(Told).keys() & {"count", "last"}:
            delattr(Told, name)
        for x in (1.5, 0.5, 3.0):
            try:
                result = f"{g(torch.tensor(x), torch.ones(2)):.4f}"
            except KeyError as error:
                result = repr(error)
            found.append((result, Told.last, vars(Told).get("count"), capsys.readouterr().out))
    assert found[:3] == found[3:]


def test_a_list_that_body_and_finally_extend():
    """What a handler makes to fit the lists of several points of the body to each other is its own, and no state of the ``try``."""

    def f(x, i):
        out = []
        try:
            try:
                out.append(x.sum())
                out.append(x[i])
            finally:
                out.append(x)
        except IndexError:
            out.append(x + 1)
        return out

    g = tg.function(f)
    x = torch.tensor([1.0, 2.0])
    for i in (1, 5, 0):
        torch.testing.assert_close(g(x, torch.tensor(i)), f(x, i))
    assert g.trace_count == 1


def test_three_in_each_other():
    def f(x, i):
        out, r = [], x
        try:
            try:
                try:
                    r = x[i] * 2
                except IndexError:
                    r = x.sum()
                    out.append(r)
                q = x[int(r)]
            except ValueError:
                q = r * 10
            finally:
                out.append(r)
            return q, out
        except IndexError:
            return r - 100, out

    g = tg.function(f)
    for values, i in (((1.0, 0, 2), 1), ((1.0, 0, 1), 5), ((9.0, 0, 2), 0), ((1.0, 0, 3), 5)):
        x = torch.tensor(values)
        torch.testing.assert_close(g(x, torch.tensor(i)), f(x, i))
