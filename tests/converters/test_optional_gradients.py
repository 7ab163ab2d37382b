"""Training steps inside of a function in which the path of a run decides which gradients are None: as in eager PyTorch."""

import pytest
import torch

import tograph as tg

SGD = lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, dampening=0.3, weight_decay=0.1)  # noqa: E731
OPTIMIZERS = [SGD, lambda p: torch.optim.AdamW(p, 0.1), lambda p: torch.optim.Rprop(p, 0.1)]


def branches(net, x):
    h = net[0](x).tanh()
    if h.sum() > 0:
        return net[1](h).square().mean()
    while h.sum() < -2:
        h = net[2](h) * 0.5
    return h.square().mean()


def plain(net, opt, x):
    opt.zero_grad()
    loss = branches(net, x)
    loss.backward()
    opt.step()
    return loss.detach()


def clipped(net, opt, x):
    opt.zero_grad()
    (net[0].weight.sum() * 0).backward()
    for row in x:
        if row.sum() > 0:
            (branches(net, row) / 3).backward()
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    torch.nn.utils.clip_grad_value_(net.parameters(), 0.05)
    opt.step()
    return norm


def by_closure(net, opt, x):
    def closure():
        opt.zero_grad()
        loss = branches(net, x)
        loss.backward()
        return loss

    return opt.step(closure).detach()


def by_hand(net, opt, x):
    loss = branches(net, x)
    grads = torch.autograd.grad(loss, list(net.parameters()), allow_unused=True)
    with torch.no_grad():
        for p, g in zip(net.parameters(), grads):
            if g is not None:
                p -= 0.1 * (g + 0.1 * p)
    return sum(0 if g is None else g.abs().sum() for g in grads)


def rarely(net, opt, x):
    loss = branches(net, x)
    if x.sum() > 0:
        opt.zero_grad()
        loss.backward()
    opt.step()
    return loss.detach()


class Counting(torch.optim.SGD):
    steps = 0

    def step(self, closure=None):
        self.steps += 1
        return super().step(closure)


def train(decorator, step, kind):
    torch.manual_seed(0)
    net = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
    opt = kind(net.parameters())
    function = decorator(lambda x: step(net, opt, x))
    seen = []
    for _ in range(7):
        found = function(torch.randn(3, 4))
        seen.append((found, [p.grad is None for p in net.parameters()]))
    return seen, [p.detach() for p in net.parameters()], opt.state_dict()["state"]


# Each optimiser with the plain step and with another one.
STEPS = [*((plain, k) for k in range(3)), (clipped, 1), (by_closure, 1), (by_closure, 2), (by_hand, 0), (rarely, 0)]  # fmt: skip


@pytest.mark.parametrize(("step", "kind"), [(s, OPTIMIZERS[k]) for s, k in STEPS], ids=[f"{s.__name__}-{k}" for s, k in STEPS])  # fmt: skip
def test_as_in_eager(step, kind):
    got, want = train(tg.function, step, kind), train(lambda f: f, step, kind)
    assert [none for _, none in got[0]] == [none for _, none in want[0]]
    for (a, _), (b, _) in zip(got[0], want[0]):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(got[1], want[1])
    state = {k: v for k, v in got[2].items() if k in want[2]}  # zeros of what was never stepped
    torch.testing.assert_close(state, want[2])


def test_a_class_of_ones_own_steps_once():
    torch.manual_seed(0)  # the first call does not reach all parameters
    for decorator in (tg.function, lambda f: f):
        net = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
        opt = Counting(net.parameters(), 0.1, momentum=0.9)
        function = decorator(lambda x, net=net, opt=opt: plain(net, opt, x))
        for _ in range(3):
            function(torch.randn(3, 4))
        assert opt.steps == 3


def test_schedule_and_scaler():
    def run(decorator):
        torch.manual_seed(1)
        net = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
        opt = SGD(net.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

        @decorator
        def step(x):
            opt.zero_grad()
            loss = branches(net, x)
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            scaler.step(opt)
            scaler.update()
            return loss.detach()

        found = []
        for _ in range(6):
            found.append(step(torch.randn(3, 4)))
            schedule.step()
        return found, [p.detach() for p in net.parameters()]

    torch.testing.assert_close(run(tg.function), run(lambda f: f))


@pytest.mark.parametrize("allow_unused", [False, True])
def test_gradients_of_an_untaken_path(allow_unused):
    def f(x, w):
        y = x * 2 if x.sum() > 0 else w.exp()
        return torch.autograd.grad(y.sum(), (x, w), allow_unused=allow_unused)

    def history(function, sign):
        x, w = sign * torch.ones(2), torch.ones(2)
        try:
            return function(x.requires_grad_(), w.requires_grad_())
        except RuntimeError as error:
            # torch 2.11 has other words before these
            return str(error).partition("not have been used")[1:]

    converted = tg.function(f)
    for sign in (1, -1):
        got, want = history(converted, sign), history(f, sign)
        assert str(got) == str(want)


def test_backward_of_what_needs_no_gradient():
    w = torch.ones(2, requires_grad=True)

    @tg.function
    def f(x):
        w.grad = None
        y = w * x if x.sum() > 0 else x * 2
        y.sum().backward()
        return w.grad

    assert f(torch.ones(2)).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="does not require grad"):
        f(-torch.ones(2))


def test_lists_of_gradients_that_are_there():
    w, v = (torch.ones(2, requires_grad=True) for _ in range(2))

    def f(x):
        w.grad = v.grad = None
        ((w if x.sum() > 0 else v * 2) * x).sum().backward()
        found = [p.grad for p in (w, v) if p.grad is not None]
        return torch.stack(found), len(found)

    converted = tg.function(f)
    for sign in (1, -1):
        x = sign * torch.ones(2)
        torch.testing.assert_close(converted(x), f(x))


def test_what_cannot_tell_none_from_tensors_takes_the_paths_to_be_taken():
    w, v = (torch.ones(2, requires_grad=True) for _ in range(2))

    @tg.function
    def f(x):
        w.grad = v.grad = None
        ((w if x.sum() > 0 else v * 2) * x).sum().backward()
        found = []
        for p in (w, v):
            if p.grad is not None:
                found.append([p.grad])
        return found[0][0]

    with pytest.raises(tg.errors.NoGradientError, match="if p.grad is not None"):
        f(torch.ones(2))


def in_a_list(x, w, n):
    loss = (x * w).sin().sum() if n > 0 else (x * x).sum()
    loss.backward()
    return torch.nn.utils.clip_grad_norm_([x, w], 0.3)


def of_own_leaves(x, w, n):
    a, b = x.detach().clone().requires_grad_(), w.detach().clone().requires_grad_()
    optimizer = torch.optim.SGD([a, b], lr=0.1)
    for i in range(n + 2):
        optimizer.zero_grad()
        loss = (a * b).sin().sum() if i % 2 == 0 else (a * a).sum()
        loss.backward()
        if torch.nn.utils.clip_grad_norm_([a, b], 0.3) > 0.1:
            optimizer.step()
    return a.detach() + b.detach()


@pytest.mark.parametrize("f", [in_a_list, of_own_leaves], ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [0, 1])
def test_clipping_of_a_list_that_the_code_makes(f, n):
    found = []
    for g in (f, tg.function(f)):
        x, w = (torch.tensor(v, requires_grad=True) for v in ([0.3, 0.4], [0.7, -0.4]))
        found.append([g(x, w, torch.tensor(n)), x.grad, w.grad])
    assert [g is None for g in found[0]] == [g is None for g in found[1]]
    for a, b in zip(*found):
        torch.testing.assert_close(a, b) if a is not None else None


def one_after_the_other(a, b, c, n):
    """Of parameters that a staged condition chooses, one is trained."""
    opt = torch.optim.Adam([a if c else b], lr=0.1)
    for _ in range(n):
        opt.zero_grad()
        ((a * b).sin().sum() + (a**2).sum()).backward()
        opt.step()


def by_turns(a, b, c, n):
    p = a if c else b
    opt = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    for _ in range(2):
        opt.zero_grad()
        (p**2).sum().backward()
        opt.step()
    q = b if c else a
    (q * n).sum().backward()


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("f", [one_after_the_other, by_turns], ids=lambda f: f.__name__)
def test_a_parameter_that_is_one_of_several(f, c):
    g = tg.function(f)
    for n in (0, 2):
        left = []
        for function in (f, g):
            a, b = (torch.tensor([v, 1.0], requires_grad=True) for v in (0.5, -2.0))
            function(a, b, torch.tensor(c), torch.tensor(n))
            left.append((a.detach(), b.detach(), a.grad, b.grad))
        torch.testing.assert_close(*left)


def test_a_parameter_that_is_no_leaf_in_a_run():
    def f(a, c):
        return torch.optim.SGD([a if c else a * 2], lr=0.1).param_groups[0]["lr"]

    a, g = torch.ones(2, requires_grad=True), tg.function(f)
    assert g(a, torch.tensor(True)) == 0.1
    with pytest.raises(ValueError, match="non-leaf"):
        g(a, torch.tensor(False))
