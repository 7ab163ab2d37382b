"""Programs whose graphs have lists, optionals, unions, writes and checks: for the forms of other systems.

``PROGRAMS``: name -> (function, the arguments of some calls). A tensor list in a result is its stacked items in torch.fx.
"""

import torch

import tograph as tg


def list_of_a_while(x):
    out = []
    while x.sum() < 10:
        x = x * 2
        out.append(x)
    return out, torch.stack(out), len(out)


def list_of_numbers(x):
    out = []
    n = 1
    while n < x.sum() * 10:
        out.append(n)
        n = n * 2
    return torch.tensor(out), len(out)


def list_in_one_branch(x):
    out = [x]
    if x.sum() > 0:
        while x.sum() < 20:
            x = x * 2
            out.append(x)
    else:
        out.append(x)
        out.append(x)
    return torch.stack(out)


def list_in_nested_loops(x):
    out = []
    for i in tg.range(3):
        y = x + i
        while y.sum() < 20:
            y = y * 2 + 1
            out.append(y)
        out.append(-y)
    return torch.stack(out), len(out)


def list_made_anew(x):
    batch, done = [], []
    for i in tg.range(7):
        batch.append(x + i)
        if len(batch) == 3:
            done.append(torch.stack(batch).sum(0))
            batch = []
    return torch.stack(done), torch.stack(batch)


def insert_and_pop(x):
    out = [x]
    for i in tg.range(4):
        out.insert(0, x + i)
        out.insert(-1, x - i)
        if i % 2 == 0:
            out.pop(1)
    return torch.stack(out), out[1]


def slices(x):
    out = []
    while x.sum() < 30:
        x = x * 1.5 + 1
        out.append(x)
    return (
        torch.stack(out[1:]),
        torch.stack(out[::-1]),
        torch.stack(out[-2:]),
        out[-1],
        len(out[:3]),
    )


def extend(x):
    a = [x]
    for i in tg.range(3):
        if x.sum() > i:
            a.extend([x * 2, x * 3])
        a += [x]
    return torch.stack(a)


def set_item(x):
    out = [x, x * 2, x * 3]
    for i in tg.range(3):
        out[i] = out[i] + i
    return torch.stack(out)


def comprehension(x):
    return torch.stack([row * 2 for row in x if row.sum() > 0])


def tensor_array(x):
    a = tg.TensorArray(torch.float32, size=0, dynamic_size=True, element_shape=())
    i = 0
    while i < x.sum():
        a = a.write(i * 2, x[0] * i)
        i += 1
    return a.stack()


def optional(x):
    if x.sum() > 0:
        found = tg.Optional.from_value(x * 2)
    else:
        found = tg.Optional.empty(tg.TensorSpec([3], torch.float32))
    return found.get_value() if found.has_value() else x


def none_or_tensor(x):
    best = None
    for row in x:
        if row.sum() > 0:
            best = row if best is None else torch.maximum(best, row)
    return x[0] * 0 if best is None else best * 1


def switch(x):
    total = 0.0
    for i in tg.range(6):
        total += tg.switch_case(i, [lambda: x.sum(), lambda: x.sum() * 2, lambda: x.sum() * 3])
    return total


def gradient_of_a_counted_loop(x):
    x = x.detach().requires_grad_()
    y = x
    for _ in tg.range(4):
        y = torch.tanh(y) * 2 if y.sum() > 1 else y * y
    (g,) = torch.autograd.grad(y.sum(), x)
    return g


def gradient_of_a_while(x):
    x = x.detach().requires_grad_()
    y = x
    while y.sum() < 50:
        y = y * y + 1
    (g,) = torch.autograd.grad(y.sum(), x)
    return g, y


# ---- not of ``PROGRAMS``: a list that needs a bound, what fails at run time, writes of variables


def work_list(x):
    stack = [x]
    n = 0
    while len(stack) > 0:
        t = stack.pop()
        n += 1
        if t.sum() < 10:
            stack.append(t * 2)
            if n < 4:
                stack.append(t * 3)
    return n


def checked(x):
    out = []
    while x < 3:
        assert x > 0, "not positive"
        x = x + 1
        out.append(x)
    if x > 5:
        raise ValueError(f"{x} is too large")
    return x, out


def writes(total, last):
    def f(x):
        while x < 3:
            total.assign_add(x)
            if total > 2:
                last.assign(total)
            x = x + 1
        return x + total

    return f


ONES = torch.ones(3)
ROWS = torch.tensor([[1.0, -2, 3], [-4, 5, -6], [-7, -8, -9], [2, 2, 2]])
VECTORS = [(ONES,), (ONES * 0.7,)]
PROGRAMS = {
    f.__name__: (f, calls)
    for f, calls in [
        (list_of_a_while, VECTORS), (list_of_numbers, [*VECTORS, (-ONES,)]), (list_in_one_branch, [*VECTORS, (-ONES,)]),
        (list_in_nested_loops, VECTORS), (list_made_anew, VECTORS), (insert_and_pop, VECTORS), (slices, VECTORS),
        (extend, [(ONES * 0.5,), (ONES * 0,)]), (set_item, VECTORS), (comprehension, [(ROWS,), (ROWS + 5,)]),
        (tensor_array, VECTORS), (optional, [(ONES,), (-ONES,)]), (none_or_tensor, [(ROWS,), (ROWS * 0 - 1,)]),
        (switch, VECTORS), (gradient_of_a_counted_loop, VECTORS), (gradient_of_a_while, VECTORS),
    ]
}  # fmt: skip
