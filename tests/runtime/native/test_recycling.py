"""Results that are tensors of earlier calls: only where nobody can tell them from new ones."""

import ctypes
import gc
import weakref

import pytest
import torch

import tograph as tg
from tograph.runtime.kernels import jit
from tograph.runtime.native import entry, entry_text, layout, recycling

pytestmark = pytest.mark.skipif(
    layout.layout() is None or entry._symbols() is None, reason="this torch has another layout"
)


def affine(x, y):
    return x * y + 1


def fast(f=affine, *args):
    made = tg.function(f)
    for _ in range(4):
        made(*(args or (X, Y)))
    assert made._entry
    return made


X, Y = torch.arange(4.0), torch.ones(4)
MORE = {
    "shared memory": torch.Tensor.share_memory_,
    "hook": lambda x: x.requires_grad_().register_hook(lambda g: g),
    "transposed": lambda x: x.t_(),
    "another class": lambda x: setattr(x, "__class__", torch.nn.Parameter),
    "attribute that went": lambda x: (setattr(x, "mark", 1), delattr(x, "mark")) and None,
    "retained": lambda x: (x.requires_grad_() * 2).sum().backward(),
    "numpy array written": lambda x: x.numpy().fill(7),
}


def test_this_machine_keeps_results():
    """On the versions that are tested here; others may make every result anew."""
    assert recycling.offsets() is not None
    assert entry._method()[1] is not None


def test_padding_that_looks_like_a_pointer(monkeypatch):
    """Memory that nothing was written to has what was there before: now and then the same in a tensor and in its alias."""
    words, seen, behind = recycling._words, {}, layout.layout().dtype // 8

    def with_padding(address, count):
        found = words(address, count)
        if count > behind:
            found[behind] = 1 + seen.setdefault(address, len(seen)) // 2
        return found

    expected = recycling.offsets()
    monkeypatch.setattr(recycling, "_words", with_padding)
    for tensors in range(4):
        seen.clear()
        kept = [torch.empty(3) for _ in range(tensors)]
        found = recycling.offsets()
        assert found == expected
        del kept


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_first_call_without_gradients(mode):
    """What is found out at the first call of a process, and kept, is found out there too."""
    with mode():
        assert layout.layout.__wrapped__() == layout.layout()
        assert entry._method.__wrapped__()[1] is not None


@pytest.mark.parametrize("name", [*recycling.CHANGES, *MORE])
def test_what_was_done_to_a_result_is_not_seen_in_a_later_one(name):
    f, change = fast(), {**recycling.CHANGES, **MORE}[name]
    for _ in range(6):
        got = f(X, Y)
        assert torch.equal(got, X + 1)
        assert (type(got), got.shape, got.stride(), got._version) == (torch.Tensor, (4,), (1,), 0)
        assert not got.requires_grad
        assert got.grad is None
        assert got.grad_fn is None
        assert not hasattr(got, "_tograph_probe")
        assert not hasattr(got, "mark")
        assert not got.is_shared()
        assert got.storage_offset() == 0
        assert len(got.untyped_storage()) == 16
        held = change(got)
        del got, held


@pytest.mark.parametrize("name", [n for n in recycling.CHANGES if n not in ("storage", "gradient")])
def test_what_is_held_stays_as_it_is(name):
    """Views, aliases, arrays and capsules of earlier results."""
    f, held = fast(), []
    for k in range(6):
        x = torch.full((4,), float(k))
        held.append(recycling.CHANGES[name](f(x, Y)))
    for k, kept in enumerate(held):
        if name in ("view", "alias", "name", "saved by autograd"):
            assert kept.detach()[-1] == k + 1
        if name == "array":
            assert kept[-1] == k + 1
        if name == "capsule":
            assert torch.equal(torch.utils.dlpack.from_dlpack(kept), torch.full((4,), k + 1.0))
        if name == "weak reference":
            assert kept() is None or torch.equal(kept(), torch.full((4,), k + 1.0))


def test_results_that_are_held_are_apart():
    f = fast()
    made = [f(torch.full((4,), float(k)), Y) for k in range(10)]
    assert len({x.data_ptr() for x in made}) == len({id(x) for x in made}) == 10
    assert [float(x[0]) for x in made] == [k + 1.0 for k in range(10)]


def test_a_result_comes_back_once_it_was_dropped():
    f = fast()
    places = {id(f(X, Y)) for _ in range(8)}
    assert len(places) <= recycling.KEPT


def test_a_result_that_is_the_next_argument():
    f = fast()
    x = X
    for _ in range(50):
        x = f(x, Y)
    assert torch.equal(x, X + 50)
    x = f(f(f(X, Y), Y), Y)
    assert torch.equal(x, X + 3)


def test_several_results():
    def two(x, y):
        return x + y, x.sum(), x * y

    f = fast(two)
    kept = []
    for k in range(20):
        x = torch.full((4,), float(k))
        a, s, b = f(x, Y)
        assert [float(a[0]), float(s), float(b[0])] == [k + 1, 4 * k, k]
        if k % 3 == 0:
            kept.append((k, a, b))
    assert all(float(a[0]) == k + 1 and float(b[0]) == k for k, a, b in kept)


def test_results_of_inference_mode_stay_there():
    f = fast()
    for _ in range(4):
        with torch.inference_mode():
            inside = [f(X, Y) for _ in range(3)]
            assert all(x.is_inference() for x in inside)
            del inside
        outside = [f(X, Y) for _ in range(3)]
        assert not any(x.is_inference() for x in outside)
        del outside


def test_large_results_are_not_kept():
    n = recycling.SMALL // 4 + 1
    f = fast(affine, torch.ones(n), torch.zeros(n))
    seen = weakref.ref(f(torch.ones(n), torch.zeros(n)))
    assert seen() is None


def test_kept_results_go_with_the_function():
    f = fast()
    result = weakref.ref(f(X, Y))  # it is kept, and not used again while it has a weak reference
    assert result() is not None
    f(X, Y)
    del f
    gc.collect()
    assert result() is None


def test_results_are_new_where_changes_are_not_noticed(monkeypatch):
    monkeypatch.setattr(recycling, "noticed", lambda *_: False)
    entry._method.cache_clear()
    try:
        f = fast()
        seen = weakref.ref(f(X, Y))
        assert seen() is None
        assert torch.equal(f(X, Y), X + 1)
        state = torch.zeros(2)

        def write(x):
            with torch.no_grad():
                state.add_(x)
            return state * 2

        g = fast(write, torch.ones(2))
        version = state._version
        g(torch.ones(2))
        assert state._version == version + 1
    finally:
        entry._method.cache_clear()


def test_code_that_notices_nothing_is_found_out():
    at = recycling.offsets()
    text = "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)\n" + recycling.text(at, layout.layout().tensor)  # fmt: skip
    blind = text.replace("br i1 %same2, label %on2, label %touched", "br label %on2")
    code = jit.compile_module(blind, ["note", "untouched"], level=0)
    assert not recycling.noticed(at, code)
    assert recycling.noticed(at, jit.compile_module(text, ["note", "untouched"], level=0))


def test_the_table_is_read_where_python_keeps_it():
    content = b"abcdefgh"
    assert ctypes.string_at(id(content) + entry_text.TABLE, 8) == content
    items = [object(), object()]
    pointer = entry._pointer(items, entry._LIST_ITEMS)
    assert ctypes.c_size_t.from_address(pointer + 8).value == id(items[1])


def test_a_result_does_not_keep_what_its_gradient_saved():
    """A small result of a call that saves something is the end of torch's graph, which holds all of that."""
    w = torch.randn(16, requires_grad=True)
    f = tg.function(lambda x: (x * w).tanh().exp().sum())
    for _ in range(6):
        y = f(torch.randn(16))
    node = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert node() is None


@pytest.mark.parametrize("body", [lambda x, w: (x * w).sum(), lambda x, w: x * w])
def test_a_result_does_not_keep_the_arguments(body):
    """Nor one of a call that saves its inputs alone."""
    f = tg.function(body)
    for _ in range(8):
        w = torch.randn(16, requires_grad=True)
        x = torch.randn(16)
        f(x, w).sum().backward()
    argument = weakref.ref(x)
    del x
    gc.collect()
    assert argument() is None


def test_what_a_gradient_saved_is_recycled():
    w, x = torch.randn(16, requires_grad=True), torch.randn(16)
    f = tg.function(lambda x: (x * w).tanh().exp().sum())
    for _ in range(6):
        f(x).backward()
    (pair,) = f.concrete_functions[-1].gradients.differentiable._pairs.values()
    seen = set()
    quick = pair.program.quick

    def noted(inputs):
        outs = quick(inputs)
        seen.update(map(id, outs[1:]))
        return outs

    pair.program.quick = noted
    expected = torch.autograd.grad((x * w).tanh().exp().sum(), w)[0]
    for _ in range(12):
        w.grad = None
        f(x).backward()
        torch.testing.assert_close(w.grad, expected)
    assert 0 < len(seen) <= recycling.KEPT * pair.saved
