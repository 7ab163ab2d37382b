"""Python's statements and expressions."""

import contextlib

import torch


def if_(x, w, n):
    if x.sum() > n - 2:
        y = (x @ w).sin()
    else:
        y = x * w.sum()
    return y


def elif_(x, w, n):
    if n == 0:
        y = x.cos()
    elif x.sum() > 50:
        y = x
    elif n == 1:
        y = x @ w
        x = y * y
    else:
        y = w[1] * x
    return y * x


def conditional_expression(x, w, n):
    return (x @ w).sin() if x.sum() > n - 2 else x * x * w[0]


def nested_conditional_expressions(x, w, n):
    return (x if n > 1 else x @ w) * (w[0] if n == 0 else w[1] if n == 1 else x.sin())


def while_(x, w, n):
    i = 0
    while i < n:
        x = torch.tanh(x @ w) + x * w[0, 0]
        i += 1
    return x


def while_on_a_value(x, w, n):
    while x.sum() < 2.5 * n:
        x = x * 1.3 + 0.1 * w[0].cos()
    return x


def while_true(x, w, n):
    i = 0
    while True:
        x = (x @ w).sin()
        if i >= n:
            break
        i += 1
    return x


def while_else(x, w, n):
    i = 0
    while i < n:
        i += 1
        x = x @ w + 1
        if i == 2:
            x = x.cos()
            break
    else:
        x = x * w[0]
    return x


def break_(x, w, n):
    for i in range(5):
        x = torch.tanh(x @ w)
        if i >= n:
            break
    else:
        x = x * 2
    return x


def continue_(x, w, n):
    y = x
    for i in range(n):
        if i % 2 == 1:
            continue
        y = y * x.cos() + w[0]
    return y


def early_return(x, w, n):
    for i in range(n):
        x = x @ w
        if i == 1:
            return x.exp()
        x = x + w[1]
    return x.sin()


def early_return_in_nested_loops(x, w, n):
    for i in range(n + 1):
        for j in range(i + 1):
            x = torch.tanh(x @ w) + x
            if i + j == 2:
                return x * w[1]
        x = x + 0.5 * i * w[0]
    return x.cos()


def for_rows(x, w, n):
    for row in w:
        x = torch.tanh(x * row) + n * row
        if n == 1:
            break
    return x


def for_some_rows(x, w, n):
    for row in w[:n]:
        x = torch.tanh(x * row) + x
    return x


def for_elements(x, w, n):
    for a in x:
        for b in w.view(-1):
            if b > 0:
                x = x + n * (a * b).sin()
    return x


def zip_(x, w, n):
    for row, column in zip(w, w.t()):
        if n > 0:
            x = x * row.cos() + column
    return x


def enumerate_(x, w, n):
    for i, row in enumerate(w, 1):
        if i <= n:
            x = (x * row).sin() * i
    return x


def enumerate_of_zip(x, w, n):
    for i, (row, a) in enumerate(zip(w, x)):
        x = x + row * a if i < n else x * row
    return x


def reversed_(x, w, n):
    for i in reversed(range(n)):
        x = x * (i + 1) + w[i].sin()
    for row in reversed(w):
        x = x * row
    return x


def unpacked_rows(x, w, n):
    a = x[0]
    for c, d in w:
        a = a * c.cos() + d if n > 0 else a * d
    return a


def match_(x, w, n):
    match n:
        case 0:
            return x.sin()
        case 1:
            return x @ w
        case _:
            return x * w.sum() + x.exp()


def match_guard(x, w, n):
    match n:
        case k if k > 1 and x.sum() > -9:
            y = x * k
        case 0 | 5:
            y = w[0] * x
        case k:
            y = (x @ w) * (k + 1)
    return y.sin()


def match_captures(x, w, n):
    state = {"kind": n, "pair": (x, w[0])}
    for _ in range(2):
        match state:
            case {"kind": 0, "pair": (a, _)}:
                y = a.sin()
            case {"pair": [a, b], **rest} if n == 1:
                y = a * b * len(rest)
            case {"pair": (a, *others)}:
                y = a @ w + others[0]
        state["pair"] = (y, a.cos())
    return state["pair"][0] * state["pair"][1]


def walrus(x, w, n):
    i = 0
    while (y := torch.tanh(x @ w) + x).sum() < 99 and (i := i + 1) <= n:
        x = y * 0.5
    return y * x if (z := y.sum()) > -9 else z * x


def attempt(x, w, n):
    y = x @ w
    try:
        if y.sum() > n:
            raise ValueError("large")
        y = y.sin()
    except ValueError:
        y = y * y * w[1]
    return y * x


def attempt_in_a_loop(x, w, n):
    for i in range(n):
        try:
            x = x @ w
            if i == 1:
                raise KeyError("second")
        except KeyError:
            x = x.sin()
        else:
            x = x * w[0]
        finally:
            x = x + 1
    return x


def finally_(x, w, n):
    def inner(y):
        nonlocal x
        try:
            for i in range(n):
                y = y @ w
                if i == 1:
                    return y * 2
            return y.sin()
        finally:
            x = x * y

    return inner(x) + x


def raised_in_a_call(x, w, n):
    def checked(y):
        if n == 1:
            raise ArithmeticError("one")
        return y.sin()

    try:
        return checked(x) * w[0]
    except ArithmeticError:
        return x @ w


class Scaled:
    def __init__(self, k):
        self.k = k

    def __enter__(self):
        self.k = self.k * 2
        return self

    def __exit__(self, *error):
        self.k = self.k.sin()


def with_(x, w, n):
    for _ in range(n):
        with Scaled(x) as scaled:
            x = scaled.k @ w
        x = x * scaled.k
    return x


def with_contextmanager(x, w, n):
    y = x

    @contextlib.contextmanager
    def noted(k):
        nonlocal y
        yield y * k
        y = y + k

    with noted(w[0]) as a, noted(w[1]) as b:
        if n > 0:
            x = a * b
    return x * y


def assert_(x, w, n):
    for i in range(n):
        assert x.sum() < 99, "large"
        x = x @ w + i
    return x


def logical(x, w, n):
    if x.sum() > -9 and not (w.sum() > 99) and n < 9:
        x = x @ w
    return x * (x.sin() if n > 0 or x.sum() > 5 else x)


def chained_comparison(x, w, n):
    if 0 < n <= 1 < x.sum() + 5:
        return x @ w
    return x * w[1] if -1 < n != 2 else x.exp()


def deleted(x, w, n):
    y = x @ w
    if n > 0:
        del y
        y = x * w[1]
    return y.sin()


def augmented(x, w, n):
    y = x * 1
    for i in range(n):
        y += w[0]
        y *= x
        y -= i
        y /= 2
        y **= 2
        y @= w
    return y


CONSTRUCTS = [
    if_, elif_, conditional_expression, nested_conditional_expressions, while_, while_on_a_value, while_true, while_else,
    break_, continue_, early_return, early_return_in_nested_loops, for_rows, for_some_rows, for_elements, zip_, enumerate_,
    enumerate_of_zip, reversed_, unpacked_rows, match_, match_guard, match_captures, walrus, attempt, attempt_in_a_loop,
    finally_, raised_in_a_call, with_, with_contextmanager, assert_, logical, chained_comparison, deleted, augmented,
]  # fmt: skip
