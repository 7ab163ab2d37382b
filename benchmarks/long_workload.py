"""A function of 100 lines with every common construct, for the cost of conversion."""

import torch


def simulate(x, w, limit, table):  # noqa: C901
    """A made-up simulation: nested loops, branches, early exits, lists, dicts, comparisons and calls."""
    log = []
    scores = {"best": x.sum(), "last": x.sum()}
    total = torch.zeros(())
    scale = 1.0
    for step in range(4):
        if x.abs().max() > limit:
            x = x / 2
            scale = scale * 2
        elif x.abs().min() < 0.01:
            x = x + 0.1
            scale = scale - 0.1
        else:
            x = x * 0.9
        row = w[step % 2]
        y = x @ w + row
        for k in range(3):
            z = torch.tanh(y) * k
            if z.sum() > 1 and total < 100:
                total = total + z.mean()
            elif z.sum() < -1 or total > 50:
                total = total - z.mean()
            if k == 2 and not z.sum() > 5:
                log.append(z.sum())
        if total > 1000:
            break
        scores["last"] = total
        if total > scores["best"]:
            scores["best"] = total
        x = y[:, : x.shape[1]] if y.shape[1] > x.shape[1] else y
    count = 0
    while count < 3 and total.abs() < 1e6:
        total = total * 1.5 if total > 0 else total - 1
        count += 1
        if total > 500:
            continue
        x = x + total * 0.001
    values = [v * scale for v in (1, 2, 3) if v != 2]
    for name, entry in table.items():
        if entry is None:
            continue
        if name.startswith("a"):
            total = total + entry
        else:
            total = total - entry
    for i, v in enumerate(values):
        x[i % 2] = x[i % 2] + v
        x[:, i] *= 0.5
    try:
        index = int(total.abs()) % 2
        picked = x[index]
    except IndexError:
        picked = x[0]
    finally:
        count += 1

    def inner(a, b=2):
        if a.sum() > b:
            return a - b
        return a + b

    def outer(a):
        nonlocal count
        count += 1
        return inner(a) + inner(a, b=3)

    picked = outer(picked)
    match count:
        case 0:
            flag = "none"
        case 1 | 2:
            flag = "few"
        case _:
            flag = "many"
    assert x.shape[0] > 0, "x must have rows"
    if flag == "few" and (picked > 0).all():
        return picked, scores
    low, high = picked.min(), picked.max()
    if not low < high:
        high = low + 1
    norm = (picked - low) / (high - low)
    best = None
    for i in range(norm.shape[0]):
        if best is None or norm[i] > best:
            best = norm[i]
    result = {"best": best, "log": log, "count": count}
    result["total"] = total if total > 0 else -total
    for key in ("best", "total"):
        value = result[key]
        if 0.1 < value < 0.9:
            result[key] = value * 2
        elif value is not None:
            result[key] = value + 1
    print(f"total {total:.3f} after {count} steps")
    x.clamp_(-10, 10)
    return x, result, scores
