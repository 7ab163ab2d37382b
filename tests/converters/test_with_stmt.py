"""``with``: managers of all kinds around bodies that fail, jump and raise by data; native against converted."""

import contextlib
import threading

import pytest
import torch

import tograph as tg
from tests.converters.both import Cases
from tograph.errors import StagingError

cases = Cases()


class Manager:
    def __init__(self, log, swallow=False):
        self.log, self.swallow = log, swallow

    def __enter__(self):
        self.log[0] = self.log[0] * 10 + 1
        return self

    def __exit__(self, kind, error, trace):
        self.log[0] = self.log[0] * 10 + (2 if kind is None else 3)
        print(error is None, trace is None, isinstance(error, ValueError), error)
        return self.swallow


@contextlib.contextmanager
def guarded(log, swallow):
    log[0] = log[0] * 10 + 4
    try:
        yield 5
    except ValueError as e:
        print("caught", e)
        log[0] = log[0] * 10 + 5
        if not swallow:
            raise
    finally:
        log[0] = log[0] * 10 + 6


@contextlib.contextmanager
def plain():
    print("before")
    yield 3
    print("after")


ROWS = [(-1, [0]), (1, [0]), (2, [0])]


@cases(*ROWS)
def raising(x, log):
    with Manager(log):
        if x > 0:
            raise ValueError("positive")
        x = x + 10
    return x


@cases(*ROWS)
def swallowed(x, log):
    with Manager(log, True):
        x = x + 1
        if x > 1:
            raise ValueError("positive")
        x = x + 10
    print("left")
    return x


@cases(*ROWS)
def swallowed_by_data(x, log):
    y = x
    with Manager(log, x > 1):
        y = y + 1
        if x > 0:
            raise KeyError("positive")
        y = y + 10
    return y


@cases(*ROWS)
def generator_that_raises_again(x, log):
    with guarded(log, False) as five:
        x = x + five
        if x > 5:
            raise ValueError("positive")
    print("left")
    return x


@cases(*ROWS)
def generator_that_swallows(x, log):
    with guarded(log, True) as five, plain() as three:
        x = x + five
        if x > 5:
            raise ValueError("positive")
        x = x + three
    print("left")
    return x


@cases(*ROWS)
def suppressed(x, log):
    with contextlib.suppress(KeyError, (IndexError, (ArithmeticError,))):
        x = x + 1
        if x > 2:
            raise KeyError("k")
        log[0] = x
        if x > 1:
            raise OverflowError("large")
        x = x + 10
    return x


@cases(*ROWS)
def stack(x, log):
    with contextlib.ExitStack() as managers:
        managers.enter_context(Manager(log, True))
        managers.push(Manager(log))
        managers.callback(lambda v: print("above" if v > 0 else "below"), x)
        x = x + 10
    return x


@cases(*ROWS)
def jumps_inside_of_a_loop(x, log):
    total = x * 0
    for i in range(x + 3):
        with Manager(log, True):
            total = total + 1
            if total > 2:
                raise ValueError("large")
            if i > 1:
                break
            if total < 0:
                return total
    return total, i


@cases(*ROWS)
def managers_that_end_no_exception(x, log):
    with contextlib.nullcontext(x + 1) as y, threading.Lock():
        if y > 2:
            raise ValueError("large")
        log[0] = y
    return y


@cases(*ROWS)
def returns_inside(x, log):
    with Manager(log):
        with Manager(log):
            if x > 0:
                return x + 1
            x = x + 3
    return x * 2


@cases(*ROWS)
def inside_of_try(x, log):
    try:
        with Manager(log) as m, plain():
            m.log[0] += 1
            if x > 1:
                raise OverflowError("large")
            if x > 0:
                raise KeyError("k")
    except OverflowError:
        log[0] += 100
    except KeyError:
        log[0] += 200
    return x


class Only:
    def __init__(self, *kinds):
        self.kinds = kinds

    def __enter__(self):
        return None

    def __exit__(self, kind, error, trace):
        if kind is None:
            return False
        print(kind.__name__, kind is ValueError, kind in (KeyError, OSError))
        print(issubclass(kind, LookupError), kind is not KeyError)
        return issubclass(kind, self.kinds) and kind is not IndexError


@cases(*ROWS)
def chosen_kinds(x, log):
    with Only(ValueError, LookupError):
        if x > 1:
            raise ValueError("two")
        if x > 0:
            raise KeyError("one")
        log[0] = [1, 2, 3][x + 10]
    return x


@cases(*ROWS)
def target_of_parts(x, log):
    @contextlib.contextmanager
    def pair():
        yield x, log

    with pair() as (a, b):
        b[0] = a + 1
    return a


@contextlib.contextmanager
def one_of(x):
    if x > 0:
        print("above")
        yield x * 2
    else:
        yield x * 3
    print("end")


class Scaling:
    def __init__(self, factor):
        self.factor, self.open = factor, 0

    @contextlib.contextmanager
    def scaled(self, by):
        self.factor, self.open = self.factor * by, self.open + 1
        try:
            yield self.factor
        finally:
            self.factor, self.open = self.factor / by, self.open - 1


@cases(*ROWS)
def manager_method(x, log):
    s = Scaling(3)
    with s.scaled(2) as f:
        log[0] = f * s.open
        if x > 0:
            with s.scaled(by=4):
                return x * s.factor
    return s.factor, s.open


@cases(*ROWS)
def generator_with_a_condition(x, log):
    with one_of(x) as y:
        log[0] = y
        if y > 3:
            return y + 100
    return y


@contextlib.contextmanager
def nothing(x):
    if x > 0:
        yield x


@contextlib.contextmanager
def twice(x):
    yield x
    if x > 1:
        yield x


@cases(*ROWS)
def generators_that_yield_not_once(x, log):
    with twice(x):
        log[0] += 1
    with nothing(x):
        log[0] += 1
    return x


@cases((1,), (-1,))
def generators_that_are_defined_inside(x):
    log = [0]

    @contextlib.contextmanager
    def swallowing(n):
        log[0] += n
        try:
            yield n * 2 if x > 0 else n
        except KeyError:
            log[0] = -log[0]
        finally:
            print("end of", n)

    class Keeper:
        @contextlib.contextmanager
        def holding(self, v):
            self.v = v
            try:
                yield self
            finally:
                self.v = -1

    keeper = Keeper()
    with swallowing(2) as a, keeper.holding(a) as k:
        if x > 0:
            k.v = 5
            raise KeyError("x")
        log[0] = log[0] + k.v
    return a, log, keeper.v, k is keeper


@contextlib.contextmanager
def announced(x):
    print("in", x)
    try:
        yield
    except KeyError as error:
        print("caught", error)
    print("out", x)


@cases((3,), kinds=("python",))
def managers_as_decorators(n):
    @announced("plain")
    def plain(x):
        print("body", x)
        return x + 1

    @announced("failing")
    def failing():
        print("body")
        raise KeyError(n)

    return plain(n), plain(n + 1), failing()


test_same = cases.test()


def test_what_is_refused_does_not_pass_through_exit():
    def f(x):
        with Manager([0], True):
            x.data_ptr()
        return x

    with pytest.raises(StagingError, match="data_ptr"):
        tg.function(f)(torch.tensor(1))


def test_the_traceback_is_not_known():
    class Looks:
        def __enter__(self):
            return None

        def __exit__(self, kind, error, trace):
            return trace is not None and trace.tb_lineno > 0

    def f(x):
        with Looks():
            if x > 0:
                raise ValueError("positive")
        return x

    with pytest.raises(StagingError, match="tb_lineno"):
        tg.function(f)(torch.tensor(1))


class Named:
    def __init__(self, name, log, swallow=False):
        self.name, self.log, self.swallow = name, log, swallow

    def __enter__(self):
        self.log.append("+" + self.name)
        return self

    def __exit__(self, kind, error, trace):
        self.log.append(f"-{self.name}" + ("" if kind is None else f":{kind.__name__}"))
        return self.swallow and kind is ValueError


@pytest.mark.parametrize("x", [1, -1, 3])
def test_a_stack_around_a_body_that_fails(x, capsys):
    def f(x, xs):
        log = []
        try:
            with contextlib.ExitStack() as managers:
                for name in "abc":
                    managers.enter_context(Named(name, log, name == "b"))
                managers.push(lambda *error: log.append(error[0] is None))
                managers.callback(print, "end")
                if x < 0:
                    raise ValueError("negative")
                log.append("body")
                log.append(xs[int(x)])
        except IndexError:
            log.append("caught")
        return log

    args = torch.tensor(x), torch.tensor([1.0, 2.0])
    assert tg.function(f)(*args) == f(*args)
    assert capsys.readouterr().out == "end\n" * 2


def test_one_of_several_managers_by_a_staged_condition():
    class Scale:
        def __init__(self, k):
            self.k, self.n = k, 0

        def __enter__(self):
            self.n += 1
            return self.k

        def __exit__(self, *error):
            self.n += 10

    def make():
        a, b = Scale(2.0), Scale(3.0)

        def f(x, w):
            n = 0
            while n < 4:
                with a if x > 3 else b as k:
                    y = x * k
                    if y > 12:
                        x = y + 1
                        break
                    x = y
                with torch.no_grad() if n == 1 else contextlib.nullcontext():
                    x = x * w
                n += 1
            return x, n, y, a.n, b.n

        return f

    plain, staged = make(), tg.function(make())
    for x in (1.5, 4.0, -2.0, 1.5):
        w, v = (torch.tensor(1.25, requires_grad=True) for _ in range(2))
        wanted, found = plain(torch.tensor(x), w), staged(torch.tensor(x), v)
        assert found == wanted
        if wanted[0].requires_grad:
            wanted[0].backward()
            found[0].backward()
            assert v.grad == w.grad

    def stacked(x):
        with contextlib.ExitStack() as stack:
            stack.enter_context(a if x > 3 else b)
            return x

    a, b = Scale(2.0), Scale(3.0)
    with pytest.raises(StagingError, match="which manager an ExitStack enters"):
        tg.function(stacked)(torch.tensor(1.0))


def test_the_text_of_the_class_of_an_exception(capsys):
    class Shown:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            print(kind, f"{kind}", [kind], "%s" % kind)
            return True

    def f(x):
        with Shown():
            if x > 0:
                raise KeyError("k")
            x = 10 // x
        try:
            if x < 0:
                raise ValueError("negative")
        except Exception as e:
            return str(type(e))
        return "none"

    for x in (1, -1, 0):
        want = f(torch.tensor(x)), capsys.readouterr().out
        assert (tg.function(f)(torch.tensor(x)), capsys.readouterr().out) == want


@pytest.mark.parametrize(
    "make",
    [
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.1, total_steps=12, cycle_momentum=False),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    ],
)
def test_a_scheduler_of_torch_whose_step_may_fail(make):
    """Its ``with`` is in torch's code, which is converted."""

    def steps(opt, schedule, n):
        for _ in range(n):
            opt.step()
            schedule.step()

    seen = []
    for function in (steps, tg.function(steps)):
        p = torch.ones(2, requires_grad=True)
        opt = torch.optim.SGD([p], lr=0.5)
        schedule = make(opt)
        p.grad = torch.ones(2)
        for n in (4, 2):
            function(opt, schedule, torch.tensor(n))
        seen.append((p.detach().clone(), schedule.get_last_lr(), schedule.last_epoch))
        if isinstance(schedule, torch.optim.lr_scheduler.OneCycleLR):
            with pytest.raises(ValueError):
                function(opt, schedule, torch.tensor(9))
            seen[-1] += (schedule.last_epoch,)
    (a, *native), (b, *staged) = seen
    assert native[1:] == staged[1:] and native[0] == pytest.approx(staged[0])
    torch.testing.assert_close(a, b)
