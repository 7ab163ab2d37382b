"""Graphs with parts of fixed size: the reference interpreter gives for them what it gives for the graphs that they are made from.

Memory whose content is undefined is full of NaN and of large numbers here, so that a fold that reads it shows.
"""

import pytest
import torch
import torch.nn.functional as F

import tograph as tg
from tograph.bench import programs
from tograph.errors import OutOfRangeError
from tograph.runtime.gpu.bounded import CAPACITY, bounded
from tograph.runtime.gpu.forms import Full, Held, Items, Padded, Plain, form_of, joined
from tograph.runtime.graph import interp, ops
from tograph.runtime.graph.ordering import set_control_inputs
from tograph.runtime.graph.text import show
from tograph.runtime.graph.types import INT, TensorType, parse_type
from tograph.runtime.graph.verification import verify
from tograph.runtime.kernels.loop_ir import Unsupported


@pytest.fixture(autouse=True)
def undefined(monkeypatch):
    """Memory that nobody has written to is the worst there is."""
    row = ops.lookup("aten.empty.memory_format")

    def junk(size, dtype=None, device=None, **_):
        worst = float("nan") if dtype.is_floating_point else True if dtype == torch.bool else 77777
        return torch.full(size, worst, dtype=dtype, device=device)

    monkeypatch.setitem(ops.TABLE, row.name, ops.Op(row.name, junk, row.effects, row.gradient))


def check(fn, *args, capacity=None):
    """Values and writes of a function's graph, beside those of the bounded one."""
    concrete = tg.function(fn).get_concrete_function(*args)
    graph = concrete.value_graph
    tensors, _ = concrete._bind(concrete, args, {})
    given = [
        x.clone() if isinstance(x, torch.Tensor) else x
        for x in (*tensors, *concrete.captured_inputs)
    ]
    mine = [x.clone() if isinstance(x, torch.Tensor) else x for x in given]
    made = bounded(graph, "cpu", capacity)
    set_control_inputs(made.graph)
    verify(made.graph)
    want = interp.run(graph, given)
    got, written = made.unpack(interp.run(made.graph, made.pack(mine)))
    for i, x in zip(made.written, written, strict=True):
        mine[i].copy_(x)
    for a, b in zip([*got, *mine], [*want, *given], strict=True):
        same(a, b)
    return made


def same(a, b):
    if isinstance(b, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(b, torch.Tensor):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()
    else:
        assert (type(a), a) == (type(b), b)


def text(made):
    return show(made.graph)


# ---- lists


def collect(x, n):
    out = []
    for i in range(n):
        if x.sum() > 20:
            break
        out.append(x * i)
        x = x + 1
    return torch.stack(out), len(out)


@pytest.mark.parametrize("n", [1, 3, 9])
def test_a_list_is_memory_and_a_number(n):
    made = check(collect, torch.arange(3.0), torch.tensor(n))
    assert made.capacity == CAPACITY
    assert "list<" not in text(made) and "aten.select_scatter.default" in text(made)


def test_a_known_bound_is_the_capacity():
    def squares(x):
        out = []
        for i in tg.range(13):
            if x.sum() > 50:
                break
            out.append(x)
            x = x + i
        return torch.stack(out).sum(0)

    assert check(squares, torch.ones(2)).capacity == 13


def test_a_full_list_fails():
    with pytest.raises(OutOfRangeError, match="more than 2 items"):
        check(collect, torch.arange(3.0), torch.tensor(3), capacity=2)


def test_an_empty_list_has_no_items():
    def none(x, n):
        out = []
        for _ in range(n):
            out.append(x)
        for item in out:
            x = x + item
        return len(out), x

    check(none, torch.ones(2), torch.tensor(0))


def test_items_are_read_written_and_taken_from_both_ends():
    def use(x, n):
        items = []
        for i in range(n):
            items.append(x + i)
        items[-2] = items[0] * 10
        last = items.pop()
        return last + items[-1], torch.stack(items)

    check(use, torch.ones(2), torch.tensor(4))
    with pytest.raises(IndexError, match="out of range"):
        check(use, torch.ones(2), torch.tensor(1))


def test_items_joined_along_their_first_dim_are_multiplied_without_what_lies_beyond():
    def products(x, n):
        rows, others = [], []
        for i in range(n):
            rows.append(x * i)
            others.append(x + i)
        a, b = torch.cat(rows), torch.cat(others)
        return a.t() @ b, a.sum(0), a.mean(), a.amax(1), torch.softmax(a, 0)

    check(products, torch.arange(6.0).reshape(2, 3), torch.tensor(3))


def test_lists_of_numbers_and_of_truths():
    def numbers(n):
        xs, odd = [], []
        for i in range(n):
            xs.append(i * 2)
            odd.append(i % 2 == 1)
        total = 0
        for k in range(n):
            if odd[k]:
                total += xs[k]
        return total

    check(numbers, torch.tensor(7))


def test_lists_of_a_loop_in_a_loop():
    def nested(x, n):
        total, rows = torch.zeros(()), []
        for i in range(n):
            inner = []
            for k in range(i + 1):
                inner.append(x * k)
            rows.append(torch.stack(inner).sum(0))
            total = total + rows[-1].sum()
        return torch.stack(rows), total

    check(nested, torch.ones(2), torch.tensor(3))


def test_a_list_in_a_branch():
    def some(x, n):
        kept = []
        for i in range(n):
            if i % 2 == 0:
                kept.append(x + i)
        return torch.stack(kept)

    check(some, torch.ones(2), torch.tensor(5))


def test_arrays_have_zeros_where_nothing_was_written():
    def array(x, n):
        a = tg.TensorArray(torch.float32, size=6, element_shape=[2])
        for i in range(n):
            a = a.write(2 * i, x + i)
        return a.stack(), a.read(1)

    check(array, torch.ones(2), torch.tensor(2))
    with pytest.raises(OutOfRangeError, match="out of range"):
        check(array, torch.ones(2), torch.tensor(4))


def of_letters(table, n):
    letters = [n]
    for _ in range(n):
        letters.append((table[torch.stack(letters)].sum(0) * 7).argmax())
    seen = torch.stack(letters)
    return (
        seen,
        F.embedding(seen, table),
        table.t().index_select(1, seen).sum(0),
        table.t()[:, seen.view(1, -1)],
    )


def test_positions_of_open_size_are_looked_up():
    table = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    for n in (0, 3):
        check(of_letters, table, torch.tensor(n), capacity=8)


def of_items(x, at, n):
    rows = []
    for i in range(n):
        rows.append(x * i)
    return torch.stack(rows)[at], torch.stack(rows).sum(1)[torch.stack(rows)[:, 0].long() - 1]


def test_positions_in_open_sizes_fail_beyond_them():
    x = torch.arange(3.0)
    check(of_items, x, torch.tensor([3, -4, 0]), torch.tensor(4), capacity=9)
    concrete = tg.function(of_items).get_concrete_function(x, torch.tensor([3, -4, 0]), torch.tensor(4))  # fmt: skip
    made = bounded(concrete.value_graph, "cpu", 9)
    set_control_inputs(made.graph)
    for wrong in ([4, 0, 0], [-5, 0, 0]):
        with pytest.raises(IndexError):
            interp.run(made.graph, made.pack([x, torch.tensor(wrong), torch.tensor(4)]))


def advantages(x, n):
    rewards, values = [], []
    for _ in range(n):
        x = torch.tanh(x * 1.5)
        rewards.append(x.sum())
        values.append(x.mean(0))
    r, v = torch.stack(rewards), torch.stack(values)
    delta = r[:-1] + 0.9 * v[1:].sum(1) - v[:-1].sum(1)
    return (
        delta,
        (r - r.mean()) / (r.std() + 1e-8),
        v.var(0),
        v.std((0, 1), correction=0, keepdim=True).sum(),
        v[2:, :1].sum(1),
        r[1:-2],
        v.flip(0, 1).cumsum(0).flip(0),
    )


def test_differences_and_spreads_of_what_a_loop_gives():
    x = torch.randn(3, 2, generator=torch.Generator().manual_seed(0))
    for n in (5, 3, 2):
        made = check(advantages, x, torch.tensor(n), capacity=8)
    assert "aten.std" not in text(made)


def test_sizes_that_differ_fail_where_their_memory_differs():
    def f(x, n):
        rows = []
        for i in range(n):
            rows.append(x * i)
        r = torch.stack(rows)
        return r[1:] + r[:2]

    check(f, torch.ones(2), torch.tensor(3), capacity=4)
    concrete = tg.function(f).get_concrete_function(torch.ones(2), torch.tensor(3))
    made = bounded(concrete.value_graph, "cpu", 4)
    set_control_inputs(made.graph)
    with pytest.raises(IndexError):
        interp.run(made.graph, made.pack([torch.ones(2), torch.tensor(4)]))


def of_weights(table, n):
    letters = []
    for i in range(n):
        letters.append(torch.tensor(i % 3))
    at = torch.stack(letters)
    out = F.embedding(at, table).sum() * 2 + (table[at] ** 2).sum()
    return torch.autograd.grad(out, table)[0]


def test_gradients_of_what_is_looked_up():
    check(of_weights, torch.randn(5, 2).requires_grad_(), torch.tensor(7), capacity=9)


def test_gradients_through_a_loop():
    def slope(x, n):
        x = x.detach().requires_grad_()
        y = x
        for _ in range(n):
            if y.sum() > 3:
                y = y * 0.5
            else:
                y = torch.sin(y) + y * x
        (g,) = torch.autograd.grad(y.sum(), x)
        return g

    check(slope, torch.tensor([0.5, 1.5]), torch.tensor(5))


def test_optionals():
    def maybe(x):
        if x.sum() > 0:
            found = tg.Optional.from_value(x * 2)
        else:
            found = tg.Optional.empty(tg.TensorSpec([2], torch.float32))
        return found.get_value() if found.has_value() else x

    check(maybe, torch.ones(2))
    check(maybe, -torch.ones(2))


# ---- open sizes


def test_a_prefix_that_grows_is_padded():
    def attend(q, k, v):
        out, t = torch.zeros(5, 4), 0
        while t < 5 and q[t].sum() > -100:
            seen = k[: t + 1]
            weights = torch.softmax(seen @ q[t], 0)
            out[t] = weights @ v[: t + 1] + seen.mean(0) + seen.amax(0)
            t = t + 1
        return out

    torch.manual_seed(0)
    check(attend, torch.randn(5, 4), torch.randn(5, 4), torch.randn(5, 4))


def test_views_of_a_prefix():
    def views(x, n):
        part = x[:n]
        heads = part.view(-1, 2, 3).permute(1, 0, 2)
        flat = heads.transpose(0, 1).reshape(-1, 6).unsqueeze(0)
        return (heads * 2).sum(1), flat.squeeze(0).t() @ part, part.argmax(0), part

    torch.manual_seed(0)
    for n in (1, 3, 4):
        check(views, torch.randn(4, 6), torch.tensor(n))


def test_slices_of_a_known_size_are_looked_up():
    def windows(x, n):
        total, k = x[:2] * 0, n.item() % 3 + 1
        for i in range(n):
            if i + 2 <= len(x):
                total = total + x[i : i + 2]
        return total, x[-k - 2 : -k] * 2, x[:, k - 1 : k] * x

    for n in (0, 3, 8):
        made = check(windows, torch.arange(42.0).view(7, 6), torch.tensor(n))
        assert "f32[?" not in text(made) and "aten.index_select.default" in text(made)


def test_decoding_with_a_cache():
    torch.manual_seed(0)
    made = check(programs.greedy_decode, *decode_inputs())
    assert "f32[?" not in text(made) and "py.slice_stop" in text(made)


def decode_inputs(words=11, d=128):
    shapes = [(words, d), (128, d)]
    shapes += [(d, 3 * d), (d, d), (d, 4 * d), (4 * d, d)] * 2
    return [torch.randn(s) / s[0] ** 0.5 for s in shapes] + [torch.tensor(3)]


def test_sizes_that_only_the_run_knows_are_taken_for_equal():
    """Where they are not, the run fails, and the host does the call."""
    fn = lambda x, n, m: x[:n] * x[:m] @ x[:n]  # noqa: E731
    check(fn, torch.arange(4.0), torch.tensor(3), torch.tensor(3))
    with pytest.raises(OutOfRangeError):
        check(lambda x, n, m: x[:n] * x[:m], torch.arange(4.0), torch.tensor(3), torch.tensor(1))


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (lambda x, n: torch.unique(x), "known only at run time"),
        (lambda x, n: x[n:], "starts at a place"),
        (lambda x, n: x[:n].median(), "of a size"),
        (lambda x, n: x[:n].var(correction=0.5), "a correction"),
    ],
)
def test_sizes_without_a_bound_are_refused_at_the_line(fn, reason):
    with pytest.raises(Unsupported, match=rf"test_bounded.py:\d+: .*{reason}"):
        check(fn, torch.ones(4), torch.tensor(2))


def test_a_tensor_that_gets_longer_has_room_as_a_list_has():
    def by_state(x, n):
        i = 0
        while i < n:
            tg.set_loop_options(shape_invariants=[(x, [None])])
            x = torch.cat([x, x[:1] + i])
            i = i + 1
        return x, x.sum()

    for n in (0, 3):
        made = check(by_state, torch.arange(2.0), torch.tensor(n))
    assert "[256]" in text(made) or "[8]" in text(made)
    with pytest.raises(OutOfRangeError, match="more than"):
        check(by_state, torch.arange(2.0), torch.tensor(9), capacity=4)


def test_an_array_whose_items_are_first_seen_in_a_loop():
    def cells(x, n):
        a = tg.TensorArray(torch.float32, size=n)
        for i in range(n):
            a = a.write(i, x * i)
        return a.stack()

    check(cells, torch.arange(3.0), torch.tensor(4))


def test_tensors_that_are_made_as_large_as_a_list():
    def f(x, n):
        rows = []
        for i in range(n):
            rows.append(x * i)
        a = torch.stack(rows)
        return a * torch.ones(len(rows), 3) + torch.full((len(rows), 3), 2.0), x.expand(
            len(rows), 3
        ).sum()

    made = check(f, torch.arange(3.0), torch.tensor(4))
    assert "tg.list" not in text(made)


# ---- choices, and what fails


def chosen(x, n):
    for i in range(n):
        y, z = x * i, [x, x + i]
        if y.sum() > 4:
            continue
    return y, z[0] if n > 1 else x


def test_a_choice_among_tensors_by_a_number():
    made = check(chosen, torch.arange(3.0), torch.tensor(4))
    assert "tg.choose" not in text(made)


def careful(x, n):
    try:
        k = 6 // n.item()
        x = x * k
    except ZeroDivisionError:
        k, x = -1, x - 1
    finally:
        x = x + 1
    return x, k


def test_a_try_is_its_body():
    made = check(careful, torch.ones(2), torch.tensor(4))
    assert "Try" not in text(made)
    with pytest.raises(ZeroDivisionError):  # the host does the call then
        check(careful, torch.ones(2), torch.tensor(0))


def test_changes_of_objects_ahead_of_a_raise():
    def f(x, n, seen):
        seen.append(x)
        if n < 0:
            raise ValueError("negative")
        return x + n

    check(f, torch.ones(2), torch.tensor(4), [])


def test_a_gradient_at_a_place_that_only_the_run_knows():
    def f(x, n):
        return torch.autograd.grad((x[n.item()] ** 2).sum(), x)[0]

    check(f, torch.arange(6.0).reshape(3, 2).requires_grad_(), torch.tensor(1))


# ---- variables and assertions


def test_writes_are_outputs():
    weight, count = torch.ones(2), torch.zeros((), dtype=torch.int64)

    def step(x, n):
        for _ in range(n):
            if x.sum() > 2:
                weight.mul_(0.5)
            else:
                weight.add_(x)
            count.add_(1)
        return weight * 2

    made = check(step, torch.ones(2), torch.tensor(3))
    assert len(made.written) == 2 and "tg.assign" not in text(made)
    assert torch.equal(weight, torch.ones(2)) and int(count) == 0


@pytest.mark.parametrize("n", [2, 5])
def test_an_assertion_fails_as_a_position_does(n):
    def limited(x, n):
        for i in range(n):
            assert x.sum() < 10
            x = x + 2
            if i > 100:
                raise ValueError("late")
        return x

    if n == 2:
        check(limited, torch.ones(2), torch.tensor(n))
        return
    with pytest.raises(AssertionError):  # the graph itself
        check(limited, torch.ones(2), torch.tensor(n))
    graph = tg.function(limited).get_concrete_function(torch.ones(2), torch.tensor(n)).value_graph
    made = bounded(graph, "cpu")
    with pytest.raises(OutOfRangeError):
        interp.run(made.graph, [torch.ones(2), torch.tensor(n)])


# ---- sizes that nothing is known of


def as_many(x, n):
    k = n.item()
    return x.expand(k, 3).sum(0) + torch.ones(k, 3).cumsum(0).amax(0), torch.full((k,), 2.0)


def test_tensors_as_large_as_a_number_have_room_as_lists_have():
    x = torch.arange(3.0)
    for n in (1, 4, 8):
        check(as_many, x, torch.tensor(n), capacity=8)
    graph = tg.function(as_many).get_concrete_function(x, torch.tensor(1)).value_graph
    made = bounded(graph, "cpu", 8)
    for n in (9, -1):
        with pytest.raises(OutOfRangeError):
            interp.run(made.graph, [x, torch.tensor(n)])


def test_a_condition_of_the_one_element_of_a_tensor_of_any_size():
    def f(c, x):
        return x + 1 if c else x - 1

    spec = [tg.TensorSpec([None, None], torch.bool), tg.TensorSpec([2], torch.float32)]
    graph = tg.function(f, input_signature=spec).get_concrete_function().value_graph
    made = bounded(graph, "cpu")
    for c in (True, False):
        given = [torch.tensor([[c]]), torch.ones(2)]
        same(made.unpack(interp.run(made.graph, made.pack(given)))[0], interp.run(graph, given))
    with pytest.raises(OutOfRangeError):
        interp.run(made.graph, made.pack([torch.ones(2, 1, dtype=torch.bool), torch.ones(2)]))


# ---- forms


def test_packing(monkeypatch):
    items = form_of(parse_type("list<f32[2]>"), 4, "cpu")
    assert [str(t) for t in items.types] == ["f32[4,2]", "int"]
    given = (torch.ones(2), torch.zeros(2))
    parts = items.pack(given)
    back = items.unpack(iter(parts))
    same(back, given)
    assert isinstance(back, Held) and items.pack(back) is back.parts
    more = Items(items.item, items.capacity + 5, items.device)
    with monkeypatch.context() as no_item:  # one copy of each part, however many items there are
        no_item.setattr(Plain, "pack", None)
        again = more.pack(back)
    assert [p.shape[0] for p in again[:-1]] == [more.capacity] * (len(again) - 1)
    for got, want in zip(more.unpack(iter(again)), back, strict=True):
        torch.testing.assert_close(got, want)
    assert items.pack(())[-1] == 0
    with pytest.raises(Full):
        items.pack([torch.ones(2)] * 5)


def test_packing_lists_of_lists_and_optionals():
    form = form_of(parse_type("list<list<f32[]>>"), 3, "cpu")
    assert [str(t) for t in form.types] == ["f32[3,3]", "i64[3]", "int"]
    given = ((torch.tensor(1.0),), (), (torch.tensor(2.0), torch.tensor(3.0)))
    same(form.unpack(iter(form.pack(given))), given)
    maybe = form_of(parse_type("optional<i64[2]>"), 3, "cpu")
    for value in ((), (torch.tensor([1, 2]),)):
        same(maybe.unpack(iter(maybe.pack(value))), value)


def test_joined_forms_have_room_for_both():
    a, b = (Plain(TensorType(torch.float32, (n, 2))) for n in (3, 5))
    assert joined(a, b) == Padded(TensorType(torch.float32, (5, 2)), (0,))
    with pytest.raises(Unsupported):
        joined(Plain(INT), a)
    with pytest.raises(Unsupported):
        joined(Items(a, 3, "cpu"), Items(a, 4, "cpu"))


RANGES = {
    "to_a_number": lambda n, m: torch.arange(n),
    "as_floats": lambda n, m: torch.arange(n, dtype=torch.float32) * 0.5,
    "from_a_number": lambda n, m: torch.arange(m, n),
    "beyond_a_number": lambda n, m: torch.arange(m, m + n).sum(),
    "in_steps": lambda n, m: torch.arange(m, n, 3) + 1,
    "downwards": lambda n, m: torch.arange(n, m, -2, dtype=torch.int32),
    "in_a_loop": lambda n, m: sum((torch.arange(n) + i).sum() for i in range(m)),
}


@pytest.mark.parametrize("fn", RANGES.values(), ids=RANGES)
def test_ranges_of_numbers_that_only_the_run_knows(fn):
    for n, m in ((5, 1), (2, 2), (8, 0)):
        check(fn, torch.tensor(n), torch.tensor(m), capacity=9)


@pytest.mark.parametrize("name", ["to_a_number", "from_a_number", "in_steps", "downwards"])
def test_ranges_fail_where_they_are_too_long_or_end_before_they_start(name):
    given = torch.tensor(4), torch.tensor(2)
    graph = tg.function(RANGES[name]).get_concrete_function(*given).value_graph
    made = bounded(graph, "cpu", 9)
    for n, m in ((40, 2), (-3, 2)):
        with pytest.raises(OutOfRangeError):
            interp.run(made.graph, [torch.tensor(n), torch.tensor(m)])
