"""How often the body of a loop is traced, and that it is the loop that plain Python runs: first guesses, and loops in loops."""

import pytest
import torch

import tograph as tg
from tograph.runtime.control_flow import loop_specs, loops
from tograph.runtime.control_flow.foresight import Foresight
from tograph.runtime.control_flow.identity import Binding, settle

T = torch.tensor


@pytest.fixture
def bodies(monkeypatch):
    """A list that gets an item for each trace of a loop's body."""
    seen = []
    trace = loops.trace_with_state

    def noted(name, *args):
        if name == "body":
            seen.append(args[0])
        return trace(name, *args)

    monkeypatch.setattr(loops, "trace_with_state", noted)
    return seen


def same(f, *rows):
    """One ``tg.function`` of ``f`` gives for each row what ``f`` gives."""
    g = tg.function(f)
    for row in rows:
        ours, plain = g(*map(copied, row)), f(*map(copied, row))
        torch.testing.assert_close(ours, plain, rtol=0, atol=0)


def copied(x):
    return x.clone() if isinstance(x, torch.Tensor) else x


def test_one_round_for_variables_that_get_a_new_tensor(bodies):
    def f(x, n):
        i, total = torch.zeros_like(n), x * 0
        while i < n:
            total = total + x
            x = x * 0.5
            i = i + 1
        return total, x

    same(f, (T([1.0, 2.0]), T(3)), (T([1.0, 2.0]), T(0)))
    assert len(bodies) == 1


def test_another_round_for_a_variable_that_stays(bodies):
    """The second guess is what a first round without any would have found."""

    def f(x, y, n, scaled):
        held = y
        for _ in range(n):
            held = y
            if scaled:
                x = x * 2
            y = x if scaled else y
        return x, y, held

    same(f, (T([1.0]), T([3.0]), T(3), False), (T([1.0]), T([3.0]), T(0), False))
    assert len(bodies) == 2


def accepted(x, n):
    """A step that may be refused; all names are changed in place behind the loop."""
    i, best, last = torch.zeros_like(n), x, x
    while i < n:
        new = best * 0.5 - 1
        if new.sum() > -2 * i:
            last = best
            best = new
        i = i + 1
    new = best
    best += 100
    last *= 3
    return best, new, last, x


ACCEPTED = [(T([4.0]), T(n)) for n in (0, 1, 2, 3, 5)]


def test_two_rounds_for_a_variable_that_stays_on_some_paths(bodies):
    same(accepted, *ACCEPTED)
    assert len(bodies) == 2


def test_what_was_foreseen_and_is_not_so_is_given_up(bodies, monkeypatch):
    step = Foresight.next

    def mistaken(self, options):
        found = step(self, options)
        tensors = [x for b in found.values() for x in b.tensors]
        wrong = {k: Binding(b.which, tensors, b.variable) for k, b in found.items()}
        settle(wrong, self.graph, self.slots, self.outer)
        return wrong

    text = str(tg.function(accepted).get_concrete_function(*ACCEPTED[0]).graph)
    monkeypatch.setattr(Foresight, "next", mistaken)
    del bodies[:]
    same(accepted, *ACCEPTED)
    assert len(bodies) == 3
    assert str(tg.function(accepted).get_concrete_function(*ACCEPTED[0]).graph) == text


def test_variables_that_change_places(bodies):
    def f(a, b, n):
        for _ in range(n):
            a, b = b, a
        b += 10
        return a, b

    same(f, (T([1.0]), T([2.0]), T(3)), (T([1.0]), T([2.0]), T(4)), (T([1.0]), T([2.0]), T(0)))


def test_a_loop_of_training_is_traced_twice(monkeypatch):
    """The loss has a history, and the parameters get gradients: the first round says both."""
    rounds, trace = [], loops.Rounds._trace
    monkeypatch.setattr(loops.Rounds, "_trace", lambda r, s: rounds.append(r) or trace(r, s))
    net = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    def f(x, n):
        loss = torch.zeros(())
        for _ in range(n):
            loss = net(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return loss.detach()

    tg.function(f)(torch.ones(4, 3), T(2))
    assert len(rounds) == 2


def test_a_guess_that_cannot_be_traced():
    """With ``held`` unknown the body is refused; it is known."""
    table = {}

    @tg.do_not_convert
    def look(x):
        return table[id(x)]

    def f(x, n, changes):
        held = x * 1
        table[id(held)] = 3
        total = torch.zeros(())
        for _ in range(n):
            total = total + held.sum()
            held = held + 1 if changes else held
        return total

    same(f, (T([1.0]), T(3), False), (T([1.0]), T(3), True))


def test_a_tensor_that_is_kept_when_a_variable_moves_on():
    def f(x, n):
        best, y = x, x
        for i in range(n):
            y = y - 1
            if y.abs().sum() < best.abs().sum():
                best = y
        best += 100
        return x, y, best

    same(f, (T([3.0]), T(5)), (T([3.0]), T(0)), (T([-1.0]), T(2)))


def nested(x, n):
    """Three loops, one in the other; ``best`` is None at first."""
    total, best, count, i = torch.zeros(()), None, 0, 0
    while i < n:
        j, h = 0, x
        while j < n:
            k = 0
            while k < n:
                h = h * 0.75 + 1
                if h.sum() > 3:
                    h = h / 2
                    best = h
                k += 1
                count += 1
            j += 1
        x = x + h
        total = total + h.sum()
        i += 1
    return x, total, best, count


def test_an_inner_loop_begins_where_it_ended_in_the_round_before(bodies):
    same(nested, (torch.ones(3), T(3)), (torch.ones(3), T(0)), (torch.zeros(3), T(1)))
    assert len(bodies) <= 9  # 14 where each search begins anew


def test_an_inner_loop_that_changes_objects_and_tensors_of_outer_ones(bodies):
    class Cell:
        def __init__(self):
            self.h, self.n = torch.zeros(3), 0

    def f(x, n):
        cell = Cell()
        for i in range(n):
            for j in range(n):
                cell.h = torch.tanh(cell.h + x)
                cell.n += 1
                x[j % 3] += cell.h.sum()
        return cell.h, cell.n, x

    same(f, (torch.ones(3), T(3)), (torch.ones(3), T(1)), (torch.ones(3), T(0)))
    assert len(bodies) <= 6


def test_an_inner_loop_over_what_the_outer_body_makes():
    """Containers and tensors that each iteration of the outer loop makes anew are others in each of its rounds."""

    def f(x, n):
        out = []
        for i in range(n):
            row, made = torch.zeros(4), []
            for j in range(4):
                row[j] = x.sum() * j
                made.append(row[j])
                if row[j] > 5:
                    x = x / 2
            out.append(row + torch.stack(made).sum())
        return torch.stack(out), x

    same(f, (torch.ones(3), T(3)), (torch.ones(3) * 4, T(2)))


def test_an_inner_loop_whose_state_changes_kind_in_a_later_round():
    def f(x, n):
        last, width = None, 1
        for i in range(n):
            for j in range(n):
                if last is None:
                    last = x
                elif last.sum() > 2:
                    last = last - x
                else:
                    last = last + width
                width = width + 0.5 if x.sum() > 1 else width
        return last, width

    same(f, (T([1.0, 2.0]), T(3)), (T([0.1, 0.2]), T(3)), (T([1.0]), T(1)))


def test_an_inner_loop_over_what_the_outer_body_makes_settles_once(bodies):
    """Lists, a tensor that is written in place, and names that take what others held before the inner loop."""

    def f(x, n):
        box, steps = {"total": x * 0}, 0
        for i in range(n):
            low, high, buffer = x + i, x * 2 + i, torch.zeros(2)
            pair, last = [low, high], low
            k = 0
            while k < n:
                if buffer.sum() > 1:
                    low, high = high, low
                    pair[0] = last
                else:
                    last = high
                buffer[0] += 0.4
                pair[1] = pair[1] + 1
                k += 1
                steps += 1
            last += 1  # it may be others too
            made = low * 2 + high * 3 + pair[0] + pair[1] * 5 + buffer
            box["total"] = box["total"] + made
        return box, steps

    same(f, (torch.ones(2), T(4)), (torch.ones(2), T(0)), (torch.ones(2), T(1)), (T([2.0, -1.0]), T(6)))  # fmt: skip
    assert (
        len(bodies) <= 2 + 3 + 1
    )  # of the outer loop; of the inner one in its first round, and in its second


def test_an_inner_loop_whose_lists_differ_from_round_to_round():
    def f(x, n):
        kept, first = [x], None
        for i in range(n):
            items = kept if i > 1 else [x * i, x + i]
            if first is None:
                first = items
            k = 0
            while k < n:
                items[-1] = items[-1] * 1.5 + k
                if items[-1].sum() > 30:
                    kept[0] = items[-1]
                    break
                k += 1
            x = x + items[-1] * 0.1
        return x, kept

    same(f, (torch.ones(2), T(4)), (torch.ones(2), T(0)), (torch.ones(2), T(1)), (T([2.0, -1.0]), T(7)))  # fmt: skip


def test_an_inner_loop_that_a_staged_break_ends():
    def f(n, m):
        tries, out = 0, torch.zeros(())
        for i in range(n):
            x = torch.zeros(())
            while True:
                x = x + 0.3 * (i + 1)
                tries += 1
                if x > 1:
                    break
            for k in range(m):
                out = out + x * k
                if out > 20:
                    return out, tries
        return out, tries

    same(f, (T(3), T(4)), (T(0), T(4)), (T(9), T(5)))


def test_gradients_gathered_in_nested_loops(bodies):
    def f(w, x, n):
        total = torch.zeros(())
        for _ in range(n):
            for _ in range(n):
                loss = ((x * w).sum() - 1) ** 2
                (g,) = torch.autograd.grad(loss, w)
                with torch.no_grad():
                    w -= 0.05 * g
                total = total + loss.detach()
        return total, w.detach()

    def rows(n):
        return torch.ones(3, requires_grad=True), T([1.0, 2.0, 3.0]), T(n)

    g = tg.function(f)
    for n in (3, 0, 1):
        torch.testing.assert_close(g(*rows(n)), f(*rows(n)))


def test_an_inner_loop_that_lets_an_outer_list_grow():
    def f(x, n):
        rows = [x]
        for i in range(n):
            k = 0
            while k < n:
                if k + i > 1:
                    rows.append(x * k)
                else:
                    rows[-1] = rows[-1] + 1
                k += 1
        return torch.stack(rows)

    same(f, (T([1.0, 2.0]), T(3)), (T([1.0, 2.0]), T(0)), (T([1.0, 2.0]), T(1)))


def test_a_copy_of_a_loop_takes_one_round(bodies):
    def f(x, n):
        out = []
        for i in range(5):
            low, high, best = x, x + 4, x
            while (high - low).max() > 0.5 + 0 * n:
                middle = (low + high) / 2
                if middle.sum() > n + i:
                    high = middle
                else:
                    low, best = middle, high
            out.append((low, best))
        return out

    same(f, (torch.zeros(2), T(3.0)), (torch.zeros(2), T(30.0)))
    assert len(bodies) <= 3 + 4  # of the first copy, and one for each other


class Search:
    """What each copy of a loop makes anew and changes."""

    def __init__(self, x, kind):
        self.low, self.high, self.best, self.kind = x, x + 4, x, kind

    def step(self, n):
        while (self.high - self.low).max() > 0.5 + 0 * n:
            middle = (self.low + self.high) / 2
            if middle.sum() > n + self.kind:
                self.high = middle
            elif self.kind == 3:
                self.low = self.best = middle
            else:
                self.low, self.best = middle, self.high
            if self.kind == 2:
                self.found = middle * 2

    def result(self):
        if self.kind == 3:
            self.low += 1  # it may be the best one too
        return self.low, self.best, getattr(self, "found", None)


def test_a_copy_of_a_loop_on_an_object_of_its_own_takes_one_round(bodies):
    def f(x, n):
        out = []
        for _ in range(6):
            search = Search(x, 1)
            search.step(n)
            out.append(search.result())
        return out

    same(f, (torch.zeros(2), T(3.0)), (torch.zeros(2), T(30.0)))
    assert len(bodies) <= 4 + 5


def test_copies_on_objects_that_differ_are_what_they_are(bodies):
    def f(x, n):
        out = []
        for kind in (1, 2, 2, 3, 1, 3, 3):
            search = Search(x if kind < 3 else torch.cat([x, x]), kind)
            search.step(n)
            out.append(search.result())
        return out

    same(f, (torch.zeros(2), T(3.0)), (torch.zeros(2), T(30.0)), (torch.zeros(2), T(-30.0)))


def test_copies_that_differ_in_python_values_are_what_they_are(bodies):
    def f(x, n):
        out = []
        kept = {"a": x}
        for i in range(4):
            y, z, count = x, x * 2, 0
            w = x if i % 2 else None
            while count < n + i:
                if i == 1:
                    y, z = z, y
                elif i == 2:
                    z = y
                    kept["a"] = z
                else:
                    w = y + count
                y = y + (i if i else x)
                count += 1
            out.append((y, z, -1 if w is None else w, count))
            if i == 3:
                y += 1  # z and the entry may be the same tensor
        return out, kept["a"]

    same(f, (torch.ones(2), T(0)), (torch.ones(2), T(1)), (torch.ones(2), T(3)))


def test_a_copy_that_adds_numbers_does_not_add_tensors_as_another_did(bodies):
    def total(x, one):
        count, last, parts = 0, None, {"sum": (0, 0)}
        for v in x:
            if v > 0:
                count, last = count + one, one
                parts["sum"] = (parts["sum"][0] + one, 1)
        return count, last, parts

    def f(x):
        return (
            total(x, x[0]),
            total(x, 1),
            total(x, 0.5),
            total(x, 1),
            sum(v for v in x if v > 0),
            sum(1 for v in x if v > 0),
        )

    same(f, (T([1.0, -2.0, 3.0]),))


def test_a_copy_whose_list_holds_numbers_does_not_hold_tensors_as_another_does():
    def collected(n, form):
        found = []
        for i in range(n):
            found.append(form(i))
        return found

    @tg.function
    def f(n, x):
        many = [3, 1]
        if x > 1:
            many.append(2)
        tensors, numbers = collected(n, lambda i: x * i), collected(n, lambda i: i * 2)
        return tensors, numbers, collected(n, lambda i: i * 0.5), sorted(many), many

    tensors, *others = f(torch.tensor(3), torch.tensor(2.0))
    assert [t.item() for t in tensors] == [0.0, 2.0, 4.0]
    assert repr(others) == "[[0, 2, 4], [0.0, 0.5, 1.0], [1, 2, 3], [3, 1, 2]]"


def test_the_size_of_a_copy_does_not_come_from_another(bodies):
    def f(x, n):
        found = []
        for i in range(3):
            y, k = x, 0
            while k < n:
                y = torch.cat([y, x]) if i == 0 else y * 2
                k += 1
            if i:
                found.append(torch.zeros([1] * y.shape[0]).dim())  # has to be known
            found.append(y)
        return found

    same(f, (torch.ones(2), T(0)), (torch.ones(2), T(2)))


def test_the_first_iteration_makes_state_that_later_ones_find(bodies):
    class Average:
        def __init__(self):
            self.state = {}
            self.last = None

        def add(self, x):
            if len(self.state) == 0:
                self.state["mean"] = torch.zeros_like(x)
            self.state["mean"].lerp_(x, 0.5)
            self.last = x if self.last is None else self.last + x

    def f(x, limit):
        average = Average()
        for _ in range(3):
            i = torch.tensor(0)
            while i < len(x):
                if x[i].sum() < limit:
                    average.add(x[i])
                i = i + 1
                if i < 2:
                    average.add(x[i])
        return average.state["mean"], average.last

    x = torch.arange(8.0).reshape(4, 2)
    same(f, (x, T(3.0)), (x, T(-1.0)), (x, T(100.0)))
    g = tg.function(f)
    assert str(g.get_concrete_function(x, T(3.0)).graph).count("While(") == 3


def test_no_first_iteration_that_may_not_be(bodies):
    def f(x, n):
        state, i = {}, 0
        while i < n:
            state["sum"] = state["sum"] + x if "sum" in state else x
            i += 1
        return state["sum"] if "sum" in state else -x

    same(f, (torch.ones(2), T(0)), (torch.ones(2), T(1)), (torch.ones(2), T(3)))


def test_a_test_with_effects_is_asked_once_for_each_copy(capsys):
    def f(x, n):
        kept = []
        for i in range(3):

            def more(y):
                print("asked", i)
                return y.sum() < n

            y, z = x, None if i == 1 else x
            while more(y):
                y = y + 1
                z = y if i == 2 else z
            kept.append((y, -1 if z is None else z))
        return kept

    g = tg.function(f)
    for n in (T(0.0), T(3.0)):
        capsys.readouterr()
        ours = g(torch.zeros(2), n)
        shown = capsys.readouterr().out
        torch.testing.assert_close(ours, f(torch.zeros(2), n))
        assert shown == capsys.readouterr().out


class Branching:
    def __init__(self, key):
        self.key, self.left, self.right = key, None, None

    def add(self, key):
        if key < self.key:
            if self.left is None:
                self.left = Branching(key)
            else:
                self.left.add(key)
        elif self.right is None:
            self.right = Branching(key)
        else:
            self.right.add(key)

    def keys(self):
        left = self.left.keys() if self.left else []
        return left + [self.key] + (self.right.keys() if self.right else [])


def sorted_by_a_tree(x):
    root = Branching(x[0].item())
    for v in x[1:]:
        root.add(v.item())
    return root.keys()


def test_a_tree_that_grows_with_each_iteration_is_unrolled_or_refused_soon():
    f = tg.function(sorted_by_a_tree)
    for row in ([1.0, 2.0, 3.0], [2.0, 3.0, 1.0], [3.0, 2.0, 1.0]):
        x = torch.tensor(row)
        assert f(x) == sorted_by_a_tree(x)
    with pytest.raises(tg.errors.StagingError):
        f(torch.ones(80))


def new_keys(x):
    d, n = {"x": x}, 0
    while n < 4:
        twice = {k: v * 2 for k, v in d.items()}
        d["y"] = twice["x"] + len(twice)
        d["x"] = sum(twice.values())
        n += 1
        if d["x"].sum() > 20:
            break
    return d, n


def step(x, cache=None, **rest):
    cache = x * 0 if cache is None else cache
    return x + cache + len(rest), {"cache": cache + 1, "extra": 1}


def keyword_arguments(x):
    options, done, n = {}, False, 0
    while not done:
        x, new = step(x, **options)
        options.update(new)
        n += 1
        done = bool(x.sum() > 20)
    return x, n, len(list(options))


@pytest.mark.parametrize("f", [new_keys, keyword_arguments])
def test_what_only_the_first_iteration_does_stands_before_the_loop(f):
    """The keys of the dict depended on whether there was an iteration."""
    staged = tg.function(f)
    for x in (torch.tensor([1.5, 0.2]), torch.tensor([30.0, 1.0])):
        torch.testing.assert_close(staged(x), f(x))
    assert staged.trace_count == 1


def test_the_first_iteration_turns_on_a_gradient():
    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("zero", torch.tensor(0.0))
            self.w = torch.nn.Parameter(torch.tensor(0.5))

        def forward(self, x):
            return self.zero.requires_grad_() + (x * self.w).sum()

    def run(loss, x):
        n = 0
        while n < 4:
            value = loss(x)
            x = x + value.detach()
            n += 1
            if value > 20:
                break
        return value, n

    plain, made, staged = Loss(), Loss(), tg.function(run)
    for x in (torch.tensor([1.5, 0.2]), torch.tensor([30.0, 1.0])):
        torch.testing.assert_close(staged(made, x), run(plain, x))
        assert made.zero.requires_grad is plain.zero.requires_grad is True


def test_a_module_is_not_made_again_by_another_try_of_the_loop():
    class Lazy(torch.nn.Module):
        inner = None

        def forward(self, x):
            if self.inner is None:
                self.inner = torch.nn.Linear(2, 2)
            return self.inner(x)

    def run(x):
        n = 0
        while n < 4 and x.sum() < 20:
            x, n = x + lazy(x), n + 1
        return x

    lazy = Lazy()
    with pytest.raises(tg.errors.CreationError):
        tg.function(run)(torch.ones(2))


def grouped(x, n):
    groups = [[], [], []]
    for i in range(n):
        groups[i % 3] = groups[i % 3] + [x[i].item()]
    return groups


def beams(x, n):
    found = [([], 0.0), ([], -1.0)]
    for i in range(n):
        longer = []
        for tokens, score in found:
            for token in range(2):
                longer.append((tokens + [token], score - x[i].item() * token))
        longer.sort(key=lambda c: -c[1])
        found = longer[:2]
    return found


def record(x, n):
    state = {"path": [], "cost": 0.0, "seen": ([], 1)}
    for i in range(n):
        state = {"path": state["path"] + [i], "cost": state["cost"] + x[i].item(), "seen": (state["seen"][0] + [x[i]], i)}  # fmt: skip
    state["path"].append(3)
    return state


def changed_places(x, n):
    parts = [[], []]
    for i in range(n):
        parts = [parts[1], parts[0] + [x[i].item()]]
    return parts


def shorter(x, n):
    rows = [[1.0], [2.0, 3.0]]
    for i in range(n):
        rows[0] = rows[0] + [x[i].item()]
        if x[i] > 2:
            rows[1] = rows[1][1:]
    return rows, sum(rows[0])


@pytest.mark.parametrize("f", [grouped, beams, record, changed_places, shorter])
def test_lists_in_containers_that_each_iteration_replaces_by_longer_ones(f):
    g, x = tg.function(f), torch.arange(6.0)
    for n in (5, 0, 1, 2, 4):
        assert repr(g(x, T(n))) == repr(f(x, T(n)))


class Log:
    def __init__(self):
        self.steps, self.more = [1], {"deep": [2]}


def from_an_attribute(log, n):
    steps, pair = log.steps, (log.steps, 0)
    for i in range(n):
        steps = steps + [i]
        pair = (pair[0] + [i * 2], i)
    return steps, pair


def to_an_attribute(log, n):
    for i in range(n):
        log.steps = log.steps + [i]
        log.more["deep"] = log.more["deep"] + [i]
    return len(log.steps)


@pytest.mark.parametrize("f", [from_an_attribute, to_an_attribute])
def test_lists_from_outside_that_each_iteration_replaces_by_longer_ones(f):
    g, one, two = tg.function(f), Log(), Log()
    for n in (2, 0, 3):
        assert repr(g(two, T(n))) == repr(f(one, T(n)))
        assert vars(one) == vars(two)


def test_an_item_that_is_replaced_by_longer_lists_and_may_have_another_name_is_not_changed():
    def f(x, n):
        groups = [[], []]
        first = groups[0]
        for i in range(n):
            groups[i % 2] = groups[i % 2] + [x[i].item()]
        first.append(9.0)
        return groups

    with pytest.raises(tg.errors.AliasError, match="held by 'a list' and by another name"):
        tg.function(f)(torch.ones(5), T(0))


def test_an_item_that_each_iteration_replaces_by_a_list_with_one_more_set_is_refused_soon(bodies):
    """The rounds end when the list has grown in so many of them, and the first iteration is not tried apart."""

    def f(x, n):
        groups = [[], []]
        for i in range(n):
            groups[i % 2] = groups[i % 2] + [{1}]
        return len(groups[0])

    with pytest.raises(tg.errors.LoopTypeError, match="append to a list"):
        tg.function(f)(torch.ones(5), T(5))
    assert len(bodies) <= 2 * (loop_specs.MAX_LONGER + 2)  # with tables of lists, and without


def test_a_function_that_each_iteration_makes_anew_is_refused_soon(bodies):
    def f(x, n):
        for i in range(n):

            def more(v, by=i):
                return v + by

            if x.sum() > 3:
                x = more(x)
        return more(x)

    with pytest.raises(tg.errors.LoopTypeError, match="'more' does not have"):
        tg.function(f)(torch.ones(5), T(5))
    assert len(bodies) <= 2 * (loop_specs.MAX_COPIES + 3)
