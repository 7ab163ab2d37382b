"""Programs of `torch.distributed`: two processes run each natively and converted, and print what differs.

`python -m tests.distributed_programs` starts both ranks, which meet in a file. Each rank prints one line of JSON: `{"rank": ..., "program": error or null}`.
"""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import tograph as tg

ROOT = Path(__file__).parent.parent
RANKS = 2
PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


def numbers():
    return torch.tensor([1.0, 2.0, 3.0]) * (dist.get_rank() + 1)


def on_calls(function, *args, calls=2):
    """The function's results and prints, natively and converted, are the same."""
    staged = tg.function(function)
    for _ in range(calls):
        outcomes = []
        for f in (function, staged):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                outcomes.append((f(*args), out.getvalue()))
        (value, printed), (other, also) = outcomes
        torch.testing.assert_close(other, value)
        assert printed == also, (printed, also)
    return staged


@program
def reductions():
    def f(x, i):
        found = []
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
            y = x.clone()
            dist.all_reduce(y, op=op)
            found.append(y)
        j = i.clone()
        dist.all_reduce(j)
        y = x.clone()
        dist.reduce(y, 0)
        later = x * 2
        work = dist.all_reduce(later, async_op=True)
        work.wait()
        part = torch.zeros_like(x)
        dist.reduce_scatter(part, [x, x * 2])
        return found, j, later, part, y if dist.get_rank() == 0 else x

    on_calls(f, numbers(), torch.tensor([1, 2]) + dist.get_rank())


@program
def copies():
    def f(x):
        rank = dist.get_rank()
        y = x.clone()
        dist.broadcast(y, 1)
        parts = [torch.zeros_like(x) for _ in range(RANKS)]
        dist.all_gather(parts, x)
        gathered = [torch.zeros_like(x) for _ in range(RANKS)] if rank == 0 else None
        dist.gather(x, gathered, dst=0)
        scattered = torch.zeros_like(x)
        dist.scatter(scattered, [x, x + 1] if rank == 1 else None, src=1)
        turned = torch.zeros(2)
        dist.all_to_all_single(turned, x[:2])
        dist.barrier()
        return y, parts, gathered or [], scattered, turned

    on_calls(f, numbers())


@program
def two_ranks():
    def f(x):
        rank = dist.get_rank()
        other = 1 - rank
        y, z, u = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
        if rank == 0:
            dist.send(x, 1)
            dist.recv(y, 1)
        else:
            dist.recv(y, 0)
            dist.send(x + y, 0)
        for request in [dist.isend(x * 2, other), dist.irecv(z, other)]:
            request.wait()
        both = [dist.P2POp(dist.isend, x * 3, other), dist.P2POp(dist.irecv, u, other)]
        for request in dist.batch_isend_irecv(both):
            request.wait()
        return y, z, u

    on_calls(f, numbers())


@program
def in_a_loop_and_a_branch():
    def consensus(x, tolerance):
        count = 0
        while True:
            mean = x.clone()
            dist.all_reduce(mean)
            mean = mean / dist.get_world_size()
            gap = (x - mean).abs().max()
            dist.all_reduce(gap, op=dist.ReduceOp.MAX)
            if gap < tolerance:
                break
            if gap > 1:
                dist.broadcast(x, 0)
                x = x + dist.get_rank() * 0.5
            x = 0.5 * x + 0.5 * mean
            count += 1
            print("gap", round(gap.item(), 4))
        return x, count

    staged = on_calls(lambda x, t: consensus(x.clone(), t), numbers(), torch.tensor(1e-2))
    assert staged.trace_count == 1


@program
def waits_on_several_paths():
    def begun(x):
        y, peer = torch.zeros(3), 1 - dist.get_rank()
        return y, dist.isend(x, peer), dist.irecv(y, peer)

    def in_branches(x):
        y, sent, asked = begun(x)
        if x.sum() > 8:
            asked.wait()
            y = y + 1
        else:
            asked.wait()
            y = y * 2
        sent.wait()
        return y

    def in_one_iteration(x, n):
        y, sent, asked = begun(x)
        i = torch.tensor(0)
        while i < n:
            if i == 1:
                asked.wait()
            i += 1
        sent.wait()
        return y

    on_calls(in_branches, numbers())
    on_calls(in_one_iteration, numbers(), torch.tensor(4))


@program
def work_that_is_polled():
    def f(x):
        y = x.clone()
        work = dist.all_reduce(y, async_op=True)
        while not work.is_completed():
            pass
        work.wait()
        return y

    on_calls(f, numbers())


@program
def views_and_outer_tensors():
    buffer = torch.zeros(4)

    def f(x):
        buffer.copy_(torch.cat([x, x])[:4])
        dist.all_reduce(buffer[1:3])
        y = x.clone()
        if x.sum() > 0:
            dist.all_reduce(y[:2])
            y[0] += 1
        return buffer.clone(), y

    on_calls(f, numbers())


@program
def of_some_ranks():
    group = dist.new_group([0])

    def f(x):
        y = x * 2
        if dist.get_rank() == 0:
            dist.all_reduce(y, group=group)
        return y

    on_calls(f, numbers())


@program
def gradients_pass_by_a_write():
    def f(x, w):
        y = x * w
        dist.all_reduce(y)
        return y.square().sum()

    grads = []
    for g in (f, tg.function(f)):
        w = torch.ones(3, requires_grad=True)
        g(numbers(), w).backward()
        grads.append(w.grad)
    torch.testing.assert_close(*grads)


def _net():
    torch.manual_seed(3)
    layers = nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 1)
    return nn.parallel.DistributedDataParallel(nn.Sequential(*layers))


def _state(m):
    return [t.detach().clone() for t in (*m.parameters(), *m.buffers())]


@program
def data_parallel():
    def train(convert):
        m = _net()
        f = convert(m)
        optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
        torch.manual_seed(dist.get_rank())
        for i in range(4):
            x = torch.randn(5, 3)
            optimizer.zero_grad()
            if i == 2:
                with m.no_sync():
                    f(x).square().mean().backward()
            f(x).square().mean().backward()
            optimizer.step()
        return _state(m)

    torch.testing.assert_close(train(tg.function), train(lambda m: m))


@program
def data_parallel_in_a_loop():
    def train(convert):
        m = _net()
        optimizer = torch.optim.Adam(m.parameters(), lr=0.05)

        def loop(x, most):
            last, k = torch.tensor(9.0), 0
            while last > 0.02 and k < most:
                loss = m(x).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                last = loss.detach().clone()
                dist.all_reduce(last)
                k += 1
            return k

        torch.manual_seed(dist.get_rank())
        return [int(convert(loop)(torch.randn(6, 3), torch.tensor(7))), *_state(m)]

    torch.testing.assert_close(train(tg.function), train(lambda f: f))


def _refused(function, text):
    try:
        tg.function(function)(numbers())
    except tg.errors.UnsupportedOpError as error:
        assert text in str(error), error
    else:
        raise AssertionError("not refused")


@program
def refused():
    _refused(lambda x: dist.all_gather_object([None] * RANKS, 1), "sends Python objects")
    _refused(lambda x: dist.recv(x), "name the rank")
    _refused(lambda x: dist.all_reduce(x, async_op=True).get_future(), "read the tensors")
    hooked = _net()
    hooked.register_comm_hook(None, lambda state, bucket: None)
    _refused(lambda x: hooked(x), "a communication hook")


@program
def nothing_goes_or_is_moved():
    def f(x, n):
        for _ in range(n):
            y = torch.ones(2)
            dist.all_reduce(y)  # nobody reads it, and it is the same each time
        z, u = torch.ones(2), torch.ones(2)
        dist.all_reduce(z)
        dist.all_reduce(u)
        return z + u

    made = tg.function(f).get_concrete_function(numbers(), torch.tensor(3))
    torch.testing.assert_close(made(numbers(), torch.tensor(3)), f(numbers(), 3))
    lines = str(made.scheduled.graph).splitlines()
    assert sum("tg.collective" in line for line in lines) == 3, lines
    assert any(line.startswith("      ") and "tg.collective" in line for line in lines), lines


def _rank(rank, path):
    warnings.simplefilter("ignore")  # torch's own, about names of collectives
    dist.init_process_group("gloo", rank=rank, world_size=RANKS, init_method=f"file://{path}")
    found = {"rank": rank}
    for name, run in PROGRAMS.items():
        try:
            run()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {error}"
        else:
            found[name] = None
    print(json.dumps(found), flush=True)
    dist.destroy_process_group()


def outcomes(seconds=240):
    """What both ranks say; ranks that wait for each other are ended."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "tests.distributed_programs"]
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
        ranks = [
            subprocess.Popen([*command, str(r), f"{folder}/meeting"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for r in range(RANKS)
        ]  # fmt: skip
        try:
            said = [r.communicate(timeout=seconds) for r in ranks]
        finally:
            for r in ranks:
                r.kill()
    for out, err in said:
        assert out, err
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _rank(int(sys.argv[1]), sys.argv[2])
    else:
        print(*outcomes(), sep="\n")
