"""try, except, finally, raise and with, under Python and under staged conditions."""

import contextlib
import io
import sys

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import SharedMemoryError, StagingError

cases = Cases()


@cases((1,), (-1,))
def raise_caught(x):
    try:
        if x < 0:
            raise ValueError("negative")
        r = x
    except ValueError:
        r = 100
    return r


@cases((1,), (-1,), (0,))
def finally_behind_an_else_or_handler_that_fails(x):
    try:
        k = 1
    except ValueError:
        k = 2
    else:
        if x > 0:
            raise KeyError("else")
    finally:
        print("first")
    try:
        raise ValueError("known")
    except ValueError as e:
        print("handler", e)
        if x < 0:
            raise
    finally:
        print("second")
    return k


@cases((1,), (-1,), (0,))
def two_handlers(x):
    r = 0
    try:
        if x < 0:
            raise KeyError("k")
        if x == 0:
            raise IndexError("i")
        r = 1
    except KeyError:
        r = 2
    except LookupError:
        r = 3
    else:
        r = r + 10
    finally:
        r = r + 100
    return r


@cases((1,), (-1,))
def not_caught(x):
    try:
        if x < 0:
            raise ValueError("negative")
    except KeyError:
        return 1
    finally:
        print("finally")
    return 2


@cases((3,), (1,), (0,), (-1,))
def lists_that_grow_in_a_body_that_fails(x):
    log, found = ["in"], []
    try:
        try:
            for i in range(x):
                found.append(i)
            log.append("a")
            if x < 1:
                raise ValueError("none")
            if x > 2:
                log.append("b")
            found.append(10)
        except ValueError:
            log.append("c")
            found.append(20)
            if x < 0:
                raise KeyError("less") from None
        finally:
            log.append("f")
    except KeyError:
        log.append("k")
    return log, found


@cases((0,), (1,), (2,), (3,))
def jumps_and_lists_in_nested_try(x):
    found = []
    while True:
        try:
            try:
                if x > 2:
                    break
                x = x + 1
                if x == 2:
                    raise ValueError("two")
            finally:
                found.append(x)
        except ValueError:
            found.append(x * 100)
            continue
        if len(found) > 6:
            return found
    return found, x


@cases((3,), (0,))
def a_finally_that_raises(x):
    n = 0
    try:
        try:
            if x > 2:
                raise ValueError("three")
            n = 1
        finally:
            n = n + 10
            raise KeyError("always")
    except KeyError:
        n = n + 100
    return n


@cases((1,), (-1,))
def raise_from_a_helper(x):
    def check(v):
        if v < 0:
            raise ValueError("negative")
        return v * 2

    try:
        return check(x)
    except ValueError:
        return -100


@cases((3, 1), (3, 7))
def raise_in_a_loop(n, k):
    i = 0
    try:
        while i < n:
            if i == k:
                raise StopIteration
            i += 1
    except StopIteration:
        return "stopped", i
    return "ended", i


@cases((3, 1), (3, 7))
def try_in_a_loop(n, k):
    s = 0
    for i in range(n):
        try:
            if i == k:
                raise ValueError
            s += i
        except ValueError:
            s += 1000
        else:
            s += 10
        finally:
            s += 100
    return s


@cases((1,), (-1,))
def reraise(x):
    try:
        try:
            if x < 0:
                raise ValueError("inner")
        except ValueError:
            print("seen")
            raise
    except ValueError as e:
        return str(e)
    return "none"


@cases((1,), (-1,))
def raise_from(x):
    try:
        if x < 0:
            raise KeyError("cause")
        return 0
    except KeyError as e:
        raise ValueError("effect") from e


@cases((1,), (0,))
def zero_division_of_ints(x):
    try:
        return 10 // int(x)
    except ZeroDivisionError:
        return -1


@cases(({"a": 1}, "a"), ({"a": 1}, "b"))
def key_error(d, k):
    try:
        return d[k]
    except KeyError:
        return 0


@cases((1,), (-1,))
def return_in_finally(x):
    try:
        if x < 0:
            raise ValueError
        return 1
    except ValueError:
        return 2
    finally:
        print("finally")


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, value, trace):
        self.log.append("exit")
        return self.swallow


class StagedManager:
    def __init__(self, x):
        self.x = x

    def __enter__(self):
        if self.x > 0:
            return self.x * 2
        return self.x * 3

    def __exit__(self, *args):
        print("left")
        return False


@cases((1,), (-1,))
def condition_in_enter(x):
    with StagedManager(x) as y, StagedManager(-x) as z:
        return y + z


@contextlib.contextmanager
def doubled(x):
    print("in")
    yield x * 2
    print("out")


@cases((1,), (-1,))
def contextmanager_generator(x):
    with doubled(x) as y:
        if y > 0:
            y = y + 1
    return y


@cases.tensors((torch.tensor([1.0]),), (torch.tensor([-1.0]),))
def no_grad(x):
    with torch.no_grad():
        y = x * 2
        if y.sum() > 0:
            y = y + 1
    return y


@cases.tensors((torch.arange(4.0),), (torch.arange(4.0) - 5,))
def view_of_a_changed_tensor(x):
    x = x * 1
    y = x[1:]
    x += 1
    try:
        z = y + 1
        if z.sum() > 0:
            raise ValueError
    except ValueError:
        x -= 1
        z = y * 2
    return y, z


class Slotted:
    __slots__ = ("k", "x")


class Plain:
    pass


@cases((1,), (-1,))
def unbound_on_one_path(x):
    if x > 0:
        k = x
    try:
        return k
    except UnboundLocalError:
        return -100


@cases((1,), (-1,))
def missing_attributes_and_keys_on_one_path(x):
    d, found = {}, []
    for made in (Slotted(), Plain()):
        if x > 0:
            made.k = 1
            d["k"] = 2
        try:
            found.append(made.k)
        except AttributeError:
            found.append(-1)
        try:
            found.append(d["k"])
        except KeyError:
            found.append(-2)
        found.append(hasattr(made, "k"))
        found.append(getattr(made, "k", 5))
    return found


@cases((1,), (-1,), (0,))
def name_of_the_kind_of_an_exception(x):
    try:
        if x > 0:
            raise KeyError("k")
        if x < 0:
            raise ValueError("v")
    except (KeyError, ValueError) as e:
        return type(e).__name__, f"{type(e).__name__}: {e}"
    return "none"


@cases.tensors((torch.tensor(1),), (torch.tensor(-1),))
def ambiguous_condition_on_one_path(x):
    k = [x, 2] if x > 0 else torch.ones(2)
    try:
        return 1 if k else 2
    except RuntimeError as e:
        return str(e)


@cases((1,), (-1,))
def items_of_one_kind_or_another(x):
    k = (x, 3) if x > 0 else [4, x, 5]
    first = k if x > 0 else {"a": 1, "b": x}
    return (
        list(k),
        sum(k),
        tuple(first),
        [type(v).__name__ for v in (first,)],
        str(k),
        sorted(first, key=str) if x < 0 else 0,
    )


class Stop(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


@cases((1,), (5,), (-1,))
def finally_that_returns(x):
    try:
        x = [1, 2][int(x)]
    finally:
        return x


@cases((1,), (5,), (-1,))
def finally_that_breaks(x):
    for i in range(3):
        try:
            y = [1, 2][int(x)]
        finally:
            break
    return i


@cases((1,), (5,), (-1,))
def finally_that_continues_sometimes(x):
    n = 0
    for i in range(3):
        try:
            y = [1, 2][int(x) + i]
        finally:
            n += 1
            if x > 0:
                continue
        n += 10
    return n


@cases((1,), (5,), (-1,))
def failing_finally_after_return(x):
    try:
        try:
            pass
        except KeyError:
            pass
        else:
            return 1
        finally:
            if x > 0:
                pass
            else:
                [][5]
    except IndexError:
        pass
    return 2


@cases((1,), (5,), (-1,))
def failing_finally_after_break(x):
    for i in range(3):
        try:
            try:
                break
            finally:
                assert x > 0
        except AssertionError:
            pass
    return i


@cases((1,), (5,), (-1,))
def failing_finally_with_a_message(x):
    try:
        try:
            if x > 0:
                return 10
        finally:
            print("f")
            assert x > 1, "no"
    except AssertionError as e:
        return type(e).__name__
    return 3


@cases((1,), (-1,))
def raised_from_what_is_handled(x):
    try:
        if x > 0:
            raise ValueError("a")
    except ValueError as e:
        raise KeyError("b") from e
    return x


@cases((1,), (-1,))
def raised_from_none(x):
    try:
        if x > 0:
            raise ValueError("a")
    except ValueError:
        raise KeyError("b") from None
    return x


def test_the_context_and_the_cause_of_an_exception():
    with pytest.raises(KeyError) as found:
        tg.function(raised_from_what_is_handled)(torch.tensor(1))
    cause = found.value.__cause__
    assert type(cause) is ValueError and cause.args == ("a",) and found.value.__context__ is cause
    with pytest.raises(KeyError) as found:
        tg.function(raised_from_none)(torch.tensor(1))
    assert found.value.__suppress_context__ and found.value.__cause__ is None


@cases((1,), (0,), (5,), (-1,))
def return_in_finally_replaces_return(x):
    try:
        if x > 0:
            return x * 2
        y = x + 5
    finally:
        if x != 1:
            return x + 1
    return y


@cases((1,), (0,), (5,), (-1,), (3,))
def jumps_in_finally_replace_jumps(x):
    total = 0
    for i in range(5):
        try:
            for j in range(3):
                if i * j > x:
                    break
                if j + i == 5:
                    return total
            else:
                continue
            if total > 20:
                break
        except ValueError:
            return -1
        finally:
            total = total + i * x
            if total == 3:
                continue
            if total == 15:
                break
        total = total + 100
    return total


@cases((1,), (0,), (7,))
def jump_in_finally_drops_an_exception(x):
    for i in range(3):
        try:
            if x > i:
                raise ValueError(i)
            return i
        finally:
            if i < 2 and x != 7:
                continue
            if x == 1:
                return "end"
    return -1


@cases((1,), (0,), (5,), (-1,))
def continue_in_try_skips_else(x):
    n = 0
    for i in range(3):
        try:
            if x > i:
                continue
        except ValueError:
            pass
        else:
            n += 1
    return n


@cases((1,), (0,), (5,), (-1,))
def else_is_not_for_the_handlers(x):
    try:
        y = [1, 2][int(x)]
    except IndexError:
        return -1
    else:
        try:
            z = {"a": 1}["b"]
        except ZeroDivisionError:
            pass
    return y


@cases((1,), (0,), (5,), (-1,))
def else_fails_before_finally(x):
    try:
        try:
            y = [1, 2][int(x)]
        except Exception:
            y = 7
        else:
            assert x > 0, "zero"
        finally:
            print("fin")
    except AssertionError:
        return 100
    return y


@cases((1,), (0,), (5,), (-1,))
def return_in_try_skips_else(x):
    try:
        if x > 0:
            return 5
    except ValueError:
        pass
    else:
        print("else")
    return 6


@cases((1,), (0,), (5,), (-1,))
def break_in_try_skips_else_not_finally(x):
    while True:
        try:
            x = x - 1
            if x < 0:
                break
        except ValueError:
            pass
        else:
            print("e")
        finally:
            print("f")
    return x


@cases.tensors(
    (torch.tensor(1.0),), (torch.tensor(5.0),), (torch.tensor(0.2),), (torch.tensor(-1.0),)
)
def raise_with_the_length_of_a_growing_list(t):
    v = [z for z in [t, t * 2] if z > 1]
    if t > 0:
        raise KeyError("k0" if len(v) == 2 else "k1")
    return 0


@cases.tensors(
    (torch.tensor(1.0),), (torch.tensor(5.0),), (torch.tensor(0.2),), (torch.tensor(-1.0),)
)
def raised_later(t):
    e = None
    try:
        y = [1, 2][int(t)]
    except IndexError as err:
        e = err
    print("x")
    if e is not None:
        raise e
    return y


@cases.tensors(
    (torch.tensor(1.0),), (torch.tensor(5.0),), (torch.tensor(0.2),), (torch.tensor(-1.0),)
)
def the_last_error_is_raised(t):
    last = None
    for i in range(3):
        try:
            return [1, 2][int(t) - i]
        except IndexError as err:
            last = err
    raise last


@cases.tensors(
    (torch.tensor(1.0),), (torch.tensor(5.0),), (torch.tensor(0.2),), (torch.tensor(-1.0),)
)
def what_a_kept_error_says(t):
    e = None
    try:
        y = [1, 2][int(t)]
    except IndexError as err:
        e = err
    if e is not None:
        return str(e), isinstance(e, IndexError), repr(e)
    return "fine"


@cases.tensors(
    (torch.tensor(1.0),), (torch.tensor(5.0),), (torch.tensor(0.2),), (torch.tensor(-1.0),)
)
def raise_one_or_another(t):
    e = ValueError("a") if t > 1 else KeyError("b")
    if t > 0:
        raise e
    return 1


@cases.tensors(
    (torch.tensor(1.0),), (torch.tensor(5.0),), (torch.tensor(0.2),), (torch.tensor(-1.0),)
)
def raise_of_one_class_or_another(t):
    E = ValueError if t > 1 else KeyError
    if t > 0:
        raise E("x")
    return 1


@cases.tensors(
    (torch.tensor(1.0),), (torch.tensor(5.0),), (torch.tensor(0.2),), (torch.tensor(-1.0),)
)
def kept_error_of_two_kinds(t):
    try:
        if t > 1:
            raise ValueError("v")
        elif t > 0:
            raise KeyError("k")
    except (ValueError, KeyError) as e:
        saved = e
    else:
        saved = None
    return repr(saved)


class Held:
    def __init__(self, value):
        self.value, self.items = value, []


def _may_fail(n):
    """An op before which a ``try`` keeps what its variables hold."""
    return torch.arange(4)[n]


@cases.tensors((2,), (3,))
def changed_in_place_after_an_op_that_may_fail(n):
    x, y, z = n, n, n
    try:
        x = torch.tensor([1.0, -1.0, 2.0])
        x[x > 0] = 0.5
        y = torch.zeros(3)
        _may_fail(n)
        y += 1
        z = y[1:]
        _may_fail(n)
        z += 1
        if n == 2:
            raise ValueError("two")
        y += 1
    except ValueError:
        pass
    return x, y, z


@cases.tensors((2,), (3,))
def containers_changed_after_an_op_that_may_fail(n):
    held, items, table = None, [], {}
    try:
        held, items, table = Held(n * 1), [n], {"a": [n * 1, {"k": n * 1}]}
        _may_fail(n)
        held.value = held.value + 1
        held.items.append(n)
        items.append(n * 2)
        items[0] = n * 3
        table["a"][1]["k"] += 3
        _may_fail(n)
        table["a"][0] = n + 9
        table["b"] = n
        if n == 2:
            raise ValueError("two")
        held.value = held.value * 100
    except ValueError:
        pass
    return held.value, len(held.items), items, table


@cases.tensors((2,), (7,))
def left_by_an_op_that_fails(n):
    x = n * 1
    try:
        x = torch.zeros(2)
        x[0] = _may_fail(n % 4)
        x += 1
        _may_fail(n)
        x += 1
    except IndexError:
        pass
    return x


@cases.tensors((torch.eye(2),), (-torch.eye(2),), (torch.full((2, 2), -7.0),))
def the_text_of_an_error(x):
    try:
        if x.sum() < -20:
            raise ValueError("too small")
        y, how = torch.linalg.cholesky(x), "fine"
    except (RuntimeError, ValueError) as e:
        y, how = x, "other"
        if "positive-definite" in e.args[0]:
            how = "not positive"
        elif e.args[0].startswith("too"):
            how = e.args[0] + "!"
    return y, how


@cases((torch.ones(3), 1.0), (torch.ones(3), -1.0))
def a_condition_of_many_elements_is_the_error_of_torch(x, c):
    x += 1
    print("before")
    try:
        if x:
            print("never")
    except ValueError:
        print("ValueError")
    except RuntimeError as error:
        print(error)
    x *= 2
    if c > 0 and x > 1:
        return 0
    return 1


@cases((torch.ones(3), [1]), (torch.ones(1), [1]))
def effects_before_such_a_condition(x, log):
    x.add_(1)
    log.append(2)
    print("before", x)
    while not x:
        x = x - 1
    return x


@cases((1,))
def body_that_fails_is_run_once(n):
    items, log = iter(io.StringIO("a\nb\nc")), []
    try:
        log.append(next(items))
        log.append([n][3])
    except IndexError:
        log.append(next(items))
    finally:
        log.append("end")
    return log, list(items)


@cases((1,), (0,))
def interrupts(n):
    try:
        if n > 0:
            raise KeyboardInterrupt
        sys.exit(4)
    except KeyboardInterrupt:
        return "interrupt"
    except SystemExit as error:
        return str(error)


@cases((1,), kinds=("python",))
def groups_that_are_raised_again(n):
    try:
        try:
            raise ExceptionGroup("found", [ValueError(n), TypeError(n)])
        except* ValueError:
            raise
    except ExceptionGroup as error:
        return error.message, [type(e).__name__ for e in error.exceptions]


@cases((2,), (1,), (0,), (-1,))
def handlers_that_name_no_class(n):
    def attempt(kind):
        try:
            try:
                if n > 1:
                    raise KeyError(n)
                if n > 0:
                    raise ValueError(n)
            except ValueError:
                return "value"
            except kind:
                return "kind"
            except nothing_of_this_name:  # noqa: F821
                return "nothing"
        except (TypeError, NameError) as error:
            return type(error).__name__, str(error)
        return "none"

    return (
        attempt("KeyError"),
        attempt((KeyError, 3)),
        attempt(KeyError),
        attempt(LookupError("x")),
        attempt(OSError),
    )


@cases((2,), (1,), (0,))
def classes_that_are_returned(n):
    kinds = {}
    try:
        if n > 0:
            raise KeyError(n) if n > 1 else IndexError(n)
    except LookupError as error:
        kinds["found"] = type(error)
        return type(error), kinds
    return None, kinds


@cases((1,), (2,), kinds=("python",))
def groups_and_jumps(n):
    def leave(kind):
        try:
            if kind > 1:
                raise KeyError(kind)
        except* LookupError:
            n.append("caught")
        finally:
            return n  # noqa: B012
        n.append("behind")

    n, count = [n], 0
    for i in range(4):
        try:
            if i == 1:
                continue
            if i == 3:
                break
            if i == 0:
                raise KeyError("g")
        except* LookupError:
            count += 1
        else:
            count += 10
    return count, leave(n[0])


test_same = cases.test()


def test_what_is_refused_is_no_error_of_the_program():
    def f(x):
        try:
            return x.data_ptr()
        except (TypeError, NotImplementedError):
            return 0

    with pytest.raises(StagingError, match="data_ptr"):
        tg.function(f)(torch.tensor(1))


def test_what_finally_raises_does_not_hide_what_is_refused():
    def f(x):
        try:
            return x.data_ptr()
        finally:
            raise ValueError

    with pytest.raises(StagingError, match="data_ptr"):
        tg.function(f)(torch.tensor(1))


def test_what_finally_raises_on_every_path_does_not_hide_what_is_refused():
    log = []

    def f(x, c):
        try:
            if c:
                log.append(x)
        finally:
            x.add_(1)  # an item of a list that grows by a staged condition: refused
            int("yes" if x > 0 else "no")

    with pytest.raises(SharedMemoryError, match="is changed in place"):
        tg.function(f)(torch.tensor(1), torch.tensor(True))
    assert log == []


class Noting:
    def __init__(self, notes):
        self.notes = notes

    def __enter__(self):
        pass

    def __exit__(self, *error):
        self.notes.append(error[0])


def test_a_finally_that_raises_behind_a_manager_that_appends_to_a_list_from_outside():
    notes = []

    def f(n):
        try:
            with Noting(notes):
                print(7 // n)
        finally:
            raise ValueError

    shown = []
    for function in (f, tg.function(f)):
        notes.clear()
        with contextlib.redirect_stdout(io.StringIO()) as out, pytest.raises(ValueError):
            function(torch.tensor(3))
        shown.append((out.getvalue(), list(notes)))
    assert shown[0] == shown[1] == ("tensor(2)\n", [None])


def cause_of_an_error(x):
    try:
        try:
            if x > 0:
                raise ValueError("a")
        except ValueError as e:
            raise RuntimeError("b") from e
    except RuntimeError as e:
        return type(e.__cause__).__name__


def test_the_cause_of_an_error_is_not_known_while_tracing():
    with pytest.raises(tg.errors.StagingError, match="'__cause__'"):
        tg.function(cause_of_an_error)(torch.tensor(1))


def test_handlers_of_what_no_op_raises():
    """The body stays where it is: a graph does not raise TypeError or KeyError by itself."""

    def f(x, i):
        try:
            y = x[i]
            if x.sum() < 2:
                y = y * 2
        except TypeError as e:
            raise ValueError("bad") from e
        except KeyError:
            y = x.sum()
        return y

    staged = tg.function(f)
    x = torch.tensor([1.0, 2.0])
    for i in (0, 1):
        assert torch.equal(staged(x, torch.tensor(i)), f(x, torch.tensor(i)))
    assert "Try" not in str(staged.concrete_functions[0].graph)
    with pytest.raises(IndexError):
        staged(x, torch.tensor(5))

    def raised(x):
        try:
            if x.sum() > 0:
                raise KeyError("k")
        except (TypeError, KeyError):
            return x + 1
        return x

    for sign in (1, -1):
        assert torch.equal(tg.function(raised)(x * sign), raised(x * sign))


def test_a_tensor_that_only_the_body_of_a_try_in_a_loop_uses():
    """The body is traced twice: a tensor of the first time is none of the graph."""

    def f(x, n):
        for v in x:
            try:
                count = 0 * n
                while count < n:
                    count += 1
                    for _ in x:
                        pass
            except LookupError:
                pass
            if v > 0:
                break
        return x * v

    g = tg.function(f)
    for n in (2, 0, 1):
        x = torch.tensor([-1.0, 2.0, -3.0], requires_grad=True)
        assert g(x, torch.tensor(n)).tolist() == f(x, torch.tensor(n)).tolist()


def rows_of(log):
    """Text of a log whose entries are of several kinds."""
    rows = [["row"]]
    for entry in log:
        if entry is not None and len(entry) == 2:
            rows.append([entry[0], None, *map(str, entry[1].shape)])
        elif entry is not None:
            rows.append([entry[0], "!"])
    return "; ".join(map(str, rows))


def state_of_several_kinds(x):
    log = []
    try:
        log.append(("a", x))
        if x.sum() < 0:
            raise ValueError("negative")
        log.append(("b", x, x + 1))
        if x.sum() > 10:
            raise ValueError("large")
        log.append(None)
        y = x.log()
    except ValueError as e:
        raise RuntimeError(f"{e}: {rows_of(log)}") from e
    return y


def state_of_an_inner_handler(x):
    log = []
    try:
        log.append(("a", x))
        try:
            if x.sum() < 0:
                raise ValueError("negative")
            log.append(("b", x, x + 1))
            if x.sum() > 10:
                raise ValueError("large")
        finally:
            log.append(None)
    except ValueError as e:
        raise RuntimeError(f"{e}: {rows_of(log)}") from e
    return x


def another_of_its_class(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
        if x.sum() > 10:
            raise IndexError("large")
    except (ValueError, IndexError) as e:
        raise type(e)("more: " + str(e)) from e
    return x


def what_is_handled(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
        if x.sum() > 10:
            raise IndexError("large")
    except (ValueError, IndexError):
        kind, error, trace = sys.exc_info()
        assert kind is not None
        raise kind(f"more: {error}").with_traceback(trace) from None
    return x


def name_of_its_class(x):
    try:
        if x.sum() < 0:
            raise ValueError("negative")
        if x.sum() > 10:
            raise IndexError("large")
    except (ValueError, IndexError) as e:
        raise KeyError(e.__class__.__name__, type(e) is e.__class__) from e
    return x


def outcome(f, x):
    try:
        return f(x)
    except Exception as error:
        return type(error), error.args, type(error.__cause__), error.__suppress_context__


@pytest.mark.parametrize(
    "f",
    [
        state_of_several_kinds,
        state_of_an_inner_handler,
        another_of_its_class,
        what_is_handled,
        name_of_its_class,
    ],
)
def test_what_a_handler_raises(f):
    staged = tg.function(f)
    for number in (1.0, -1.0, 20.0):
        x = torch.full((2,), number)
        plain, made = outcome(f, x), outcome(staged, x)
        assert str(plain) == str(made)


def test_a_gradient_through_a_cause_is_recorded():
    @tg.function
    def f(w):
        y = w * 2
        try:
            if y.sum() < 0:
                raise ValueError("negative")
            y = y.exp()
        except ValueError as e:
            raise RuntimeError(f"wrong: {e}") from e
        return torch.autograd.grad(y.sum(), w)[0]

    w = torch.ones(2, requires_grad=True)
    torch.testing.assert_close(f(w), 2 * (w * 2).exp().detach())
    with pytest.raises(RuntimeError, match="wrong: negative"):
        f((-w).detach().requires_grad_())


@pytest.mark.parametrize("final", [False, True])
def test_groups_that_the_run_raises_are_refused(final):
    def caught(x):
        y = 0
        try:
            if x > 0:
                raise ExceptionGroup("g", [ValueError(1)])
        except* ValueError:
            y = 1
        return y

    def passing(x):
        try:
            if x > 0:
                raise KeyError(1)
        finally:
            print("end")
        return x

    def ended(x):
        try:
            if x > 0:
                raise KeyError(1)
        except* ValueError:
            x = x + 1
        finally:
            print("end")
        return x

    def another(x):
        try:
            if x > 0:
                raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* TypeError:
            x = x + 1
        return x

    for f in (ended,) if final else (caught, another):
        with pytest.raises(StagingError, match=r"may fail when the graph runs, and `except\*`"):
            tg.function(f)(torch.tensor(1))
    with pytest.raises(KeyError):
        tg.function(passing)(torch.tensor(1))
