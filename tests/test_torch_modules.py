"""torch as it is used: optimisers, modules, losses, distributions, contexts, data-dependent sizes: eager's numbers."""

import copy
import importlib.util
import pathlib

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import tograph as tg

_SPEC = importlib.util.spec_from_file_location("third_party", pathlib.Path(__file__).with_name("test_third_party.py"))  # fmt: skip
third_party = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(third_party)

X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)
V = torch.tensor([1.0, 2.0, 3.0])
IMAGE = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)


def plain(x):
    """Values without gradients, NaN made comparable."""
    if isinstance(x, torch.Tensor):
        x = x.detach()
        return torch.nan_to_num(x, nan=12345.0) if x.is_floating_point() else x
    return [plain(v) for v in x] if isinstance(x, tuple | list) else x


def same(function, *args, calls=2):
    """The same values, errors and changes of arguments from the function and the staged function."""
    staged = tg.function(function)
    for _ in range(calls):
        native, ours = copy.deepcopy(args), copy.deepcopy(args)
        torch.manual_seed(0)
        expected = function(*native)
        torch.manual_seed(0)
        third_party.close(plain(expected), plain(staged(*ours)))
        third_party.close(plain(native), plain(ours))


def same_module(module, *inputs, train=False):
    """The same outputs, buffers and parameters after two calls."""
    results = []
    for stage in (lambda f: f, tg.function):
        m = copy.deepcopy(module).train(train)
        f = stage(lambda *args: m(*args))
        torch.manual_seed(0)
        outputs = [f(*inputs) for _ in range(2)]
        results.append(plain([outputs, list(m.buffers()), list(m.parameters())]))
    third_party.close(*results)


# ---- optimisers

OPTIMIZERS = {
    "adadelta": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "adamax": lambda p: torch.optim.Adamax(p, lr=0.05),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.05),
    "radam": lambda p: torch.optim.RAdam(p, lr=0.05),
    "asgd": lambda p: torch.optim.ASGD(p, lr=0.05, t0=2),
    "rprop": lambda p: torch.optim.Rprop(p, lr=0.05),
    "adafactor": lambda p: torch.optim.Adafactor(p, lr=0.05),
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True, amsgrad=True),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "sgd_fused": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True, fused=True),
    "adagrad_fused": lambda p: torch.optim.Adagrad(p, lr=0.05, fused=True),
    "adam_tensor_lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01)),
    "rmsprop_centered": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_with_backward(name):
    """State made while tracing; the optimiser as an argument, and a second one later."""
    make = OPTIMIZERS[name]
    third_party.close(train(make, lambda f: f), train(make, tg.function))


def train(make, stage):
    """Losses, the parameter and the state of six steps, by two optimisers."""
    p = nn.Parameter(torch.linspace(-1, 2, 6).reshape(2, 3))

    def step(optimizer, x):
        optimizer.zero_grad()
        loss = ((p * p - x) ** 2).sum() + p.sin().sum()
        loss.backward()
        optimizer.step()
        return loss.detach()

    run, outputs = stage(step), []
    for _ in range(2):
        optimizer = make([p])
        outputs += [run(optimizer, torch.tensor(float(k))) for k in range(3)]
    state = [v for s in optimizer.state.values() for v in s.values() if torch.is_tensor(v)]
    return plain([outputs, p, state])


# ---- modules


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
def test_recurrent_batch_first(kind, bidirectional, train):
    net = kind(4, 5, num_layers=2, batch_first=True, bidirectional=bidirectional, dropout=0.2)
    same_module(net, X, train=train)


def trained(net, x, limit):
    """Losses of steps until one is small, with gradients that are taken inside."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses, loss = [], torch.tensor(torch.inf)
    while loss > limit and len(losses) < 4:
        loss = net(x)[0].square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
def test_gradients_of_recurrent_layers(kind, train):
    results = []
    for stage in (lambda f: f, tg.function):
        torch.manual_seed(0)
        net = kind(4, 5, num_layers=2, batch_first=True, bidirectional=True).train(train)
        outside = stage(lambda x, net=net: net(x)[0].sin().sum())
        for _ in range(3):
            outside(X).backward()
        gradients = [p.grad.clone() for p in net.parameters()]
        results.append([gradients, stage(trained)(net, X, torch.tensor(0.01))])
    third_party.close(*results)


def test_arrays_as_arguments_are_tensors():
    def f(a, x):
        while x.sum() < 50:
            x = x + torch.from_numpy(a)
        torch.from_numpy(a).add_(1)
        return x

    native, ours = np.ones(3), np.ones(3)
    assert torch.equal(f(native, V.double()), tg.function(f)(ours, V.double()))
    assert (native == ours).all()


def test_gradient_of_leaks_that_are_drawn():
    def f(x):
        y = x.clone().requires_grad_()
        return torch.autograd.grad(F.rrelu(y, training=True).sum(), y)[0] + F.rrelu(
            x, training=True
        )

    found = []
    for g in (f, tg.function(f)):
        x = X.clone().requires_grad_()
        torch.manual_seed(0)
        g(x).sum().backward()
        found.append(x.grad)
    assert torch.equal(*found)


@pytest.mark.parametrize("train", [False, True])
def test_normalisations(train):
    same_module(nn.BatchNorm1d(3, momentum=None), X, train=train)
    same_module(nn.BatchNorm2d(2, momentum=None, affine=False), X[None], train=train)
    same_module(nn.InstanceNorm1d(3, track_running_stats=True), X, train=train)
    same_module(nn.RReLU(), X, train=train)
    same_module(nn.MultiheadAttention(4, 2, dropout=0.1, add_bias_kv=True), X, X, X, train=train)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("train", [False, True])
def test_parametrizations(train):
    same_module(nn.utils.spectral_norm(nn.Linear(4, 3)), X, train=train)
    parametrizations = nn.utils.parametrizations
    same_module(parametrizations.spectral_norm(nn.Linear(4, 3)), X, train=train)
    same_module(parametrizations.orthogonal(nn.Linear(4, 4), orthogonal_map="cayley"), X, train=train)  # fmt: skip


@pytest.mark.filterwarnings("ignore:None of the inputs")
def test_checkpoint_of_a_function_with_a_condition():
    class Net(nn.Module):
        def __init__(self, reentrant):
            super().__init__()
            self.a, self.b, self.reentrant = nn.Linear(4, 4), nn.Linear(4, 4), reentrant

        def part(self, x):
            return self.a(x).relu() if x.sum() > 0 else self.b(x)

        def forward(self, x):
            return checkpoint(self.part, x, use_reentrant=self.reentrant)

    for reentrant in (False, True):
        same_module(Net(reentrant), X + 1)
        same_module(Net(reentrant), X - 1)


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy_modules():
    results = []
    for stage in (lambda f: f, tg.function):
        torch.manual_seed(0)
        m = nn.Sequential(nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
        f = stage(lambda x, m=m: m(x))
        results.append(plain([f(IMAGE), f(IMAGE), list(m.parameters())]))
        assert type(m[0]) is nn.Conv2d
    third_party.close(*results)


LOSSES = {
    "gaussian": (nn.GaussianNLLLoss(full=True), (X[0], X[0] * 2, X[0].abs() + 0.1)),
    "ctc": (nn.CTCLoss(zero_infinity=True), (X.log_softmax(-1).repeat(3, 1, 1), torch.tensor([[1, 2], [2, 3], [1, 3]]),
                                             torch.tensor([6, 5, 6]), torch.tensor([2, 1, 2]))),
    "triplet": (nn.TripletMarginLoss(swap=True), (X[0], X[0] * 2, X[0] * 3)),
    "margin": (nn.MultiLabelMarginLoss(), (X[0], torch.tensor([[0, 1, -1, 2]] * 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name):
    loss, args = LOSSES[name]
    same_module(loss, *args)


# ---- distributions

D = torch.distributions
DISTRIBUTIONS = {
    "binomial": lambda a: D.Binomial(5, logits=a),
    "von_mises": lambda a: D.VonMises(a, a.exp()),
    "low_rank": lambda a: D.LowRankMultivariateNormal(a, a[:, None], a.exp()),
    "negative_binomial": lambda a: D.NegativeBinomial(5.0, a.sigmoid() * 0.9),
    "mixture": lambda a: D.MixtureSameFamily(D.Categorical(a.softmax(-1)), D.Normal(a, a.exp())),
    "lkj": lambda a: D.LKJCholesky(3, a[0].exp()),
    "relaxed": lambda a: D.RelaxedOneHotCategorical(torch.tensor(0.7), logits=a),
    "multinomial": lambda a: D.Multinomial(5, a.softmax(-1)),
    "pareto": lambda a: D.Pareto(a.exp(), a.exp() + 2),
    "student": lambda a: D.StudentT(a.exp() + 3, a, a.exp()),
    "kumaraswamy": lambda a: D.Kumaraswamy(a.exp(), a.exp()),
    "transformed": lambda a: D.TransformedDistribution(D.Normal(a, 1.0), [D.AffineTransform(1.0, 2.0), D.TanhTransform()]),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name):
    def draw(a):
        d = DISTRIBUTIONS[name](a)
        s = d.sample((4,))
        out = [s, d.log_prob(s)]
        for moment in ("mean", "variance", "stddev", "mode"):
            try:
                out.append(getattr(d, moment))
            except NotImplementedError:
                out.append(0)
        return out

    same(draw, torch.tensor([0.5, -1.0, 2.0]))


def test_entropy_of_counts_and_mode_of_a_dirichlet():
    def values(a):
        return (
            D.Binomial(5, logits=a).entropy(),
            D.Dirichlet(a.exp()).mode,
            D.Dirichlet(a.exp() * 0.1).mode,
        )

    same(values, torch.tensor([0.5, -1.0, 2.0]))


# ---- contexts


def test_decorators_and_contexts():
    @torch.no_grad()
    def halved(x):
        return x / 2 if x.sum() > 0 else x

    @torch.inference_mode()
    def doubled(x):
        if x.sum() > 0:
            return x * 2
        return x

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def squared(x):
        return x @ x if x.sum() > 0 else x

    for x in (V, -V):
        same(lambda x: (halved(x), doubled(x) + 0, squared(x[:, None] * x)), x)


def test_default_dtype_is_that_of_the_line():
    def make(x):
        torch.set_default_dtype(torch.float64)
        try:
            y = torch.zeros(2) + 1.5
        finally:
            torch.set_default_dtype(torch.float32)
        return y, torch.ones(1) * x.sum()

    same(make, V)


# ---- what C++ decides on data


DECISIONS = {
    "equal": lambda x: 1 if torch.equal(x, V) else 2,
    "allclose": lambda x: x.allclose(x + 1e-9),
    "one_hot": lambda x: F.one_hot(x.long()),
    "cov": lambda x: torch.cov(torch.outer(x, x) + torch.eye(3)),
    "unique": lambda x: torch.unique(x.long() // 2, return_inverse=True, return_counts=True),
    "bincount": lambda x: torch.bincount(x.long()),
    "repeat_interleave": lambda x: torch.repeat_interleave(x, x.long()),
    "nonzero": lambda x: torch.nonzero(x - 2, as_tuple=True),
    "masked": lambda x: (~(x[x > 1] > 2)).sum() + x[x > 1].argmax(),
    "combinations": lambda x: torch.combinations(x),
    "lstsq": lambda x: torch.linalg.lstsq(torch.outer(x, x) + torch.eye(3), x[:, None]).solution,
    "quantile": lambda x: torch.quantile(x, 0.3),
    "stft": lambda x: torch.stft(x.repeat(9), 8, window=torch.hann_window(8), return_complex=True),
    "conjugate": lambda x: torch.view_as_real(torch.complex(x, x)).sum() + torch.complex(x, x).conj().imag,
    "topk": lambda x: torch.topk(x, 2),
}  # fmt: skip


@pytest.mark.parametrize("name", DECISIONS)
def test_decision(name):
    same(DECISIONS[name], V)


def test_in_place_views():
    def views(x):
        y = x * 1
        y.transpose_(0, 1)
        y[0] += 1
        z = y.clone().unsqueeze_(0)
        z.squeeze_(0).t_()
        return y, z, y.shape, x

    same(views, torch.arange(6.0).reshape(2, 3))

    def argument(x):
        return x.t_()

    with pytest.raises(tg.errors.UnsupportedOpError, match="made before"):
        tg.function(argument)(torch.ones(2, 3))


FILLS = {
    "transposed": lambda: torch.zeros(16, 16)[::2, 1:].t(),
    "permuted": lambda: torch.zeros(4, 3, 8).permute(1, 2, 0),
    "strided": lambda: torch.zeros(5, 8)[:, ::2].t(),
}


@pytest.mark.parametrize("layout", FILLS)
def test_random_fills_draw_in_eager_order(layout):
    def fill(x):
        y = torch.empty_strided(x.shape, x.stride()).normal_()
        return x.normal_(), y, x.clone().uniform_(), (x * 0 + 0.5).bernoulli_(0.3), x.exponential_()

    native, staged = FILLS[layout](), FILLS[layout]()
    torch.manual_seed(0)
    expected = fill(native)
    torch.manual_seed(0)
    third_party.close(expected, tg.function(fill)(staged))
    third_party.close(native, staged)
