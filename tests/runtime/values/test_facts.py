"""What a branch knows: one `if` that sets several variables, conditions asked again, sizes that a condition decides."""

import torch
import torch.nn.functional as F

import tograph as tg

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])


def agree(function, *rows):
    staged = tg.function(function)
    for row in rows:
        torch.testing.assert_close(staged(*row), function(*row))
    assert staged.trace_count == 1
    return str(staged.concrete_functions[0].graph)


def test_two_variables_that_one_if_sets():
    def f(x):
        if x.sum() > 0:
            a, b = None, 3.0
        else:
            a, b = x, None
        return x + b if a is None else a * 2

    assert "raise" not in agree(f, (UP,), (DOWN,))


def test_variables_of_a_tuple():
    def pick(x):
        if x.sum() > 0:
            return None, {"scale": 3.0}
        return x, {"scale": None}

    def f(x):
        a, b = pick(x)
        return x + b["scale"] if a is None else a * 2

    assert "raise" not in agree(f, (UP,), (DOWN,))


def test_what_was_learned_of_the_second_holds_for_the_first():
    def f(x):
        a = b = c = None
        if x.sum() > 0:
            a = b = x
            c = a
        return a + c if b is not None else x

    assert "raise" not in agree(f, (UP,), (DOWN,))


def test_a_condition_asked_again():
    def f(x):
        up = bool(x.sum() > 0)
        down = not up
        a = None if up else x
        if up:
            return x.sum() if up and not down else a
        return (a * 2).sum() if down else a

    assert "raise" not in agree(f, (UP,), (DOWN,))


def test_a_loop_on_a_condition_that_is_known_before_it():
    def f(x):
        up = bool(x.sum() > 0)
        if up:
            while up:
                x = x - 1
                up = bool(x.sum() > 0)
        return x

    agree(f, (UP,), (DOWN,))


def test_knowledge_ends_with_the_branch():
    def f(x):
        a = None if x.sum() > 0 else x
        y = x if a is None else a
        if x[0] > 0:
            a = x
        return y if a is None else y + a

    agree(f, (UP,), (DOWN,), (torch.tensor([1.0, -2.0]),), (torch.tensor([-1.0, 2.0]),))


def test_a_size_that_a_condition_decides():
    def f(q, k):
        mask, wide = None, bool(q.sum() > 0)
        if wide:
            k = k.repeat(1, 2, 1, 1)
        else:
            mask = torch.ones(3, 3, dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q, k, k, attn_mask=mask, enable_gqa=not wide)

    q, k = torch.rand(2, 4, 3, 5), torch.rand(2, 2, 3, 5)
    agree(f, (q, k), (-q, k))
