"""Code of others, and object-oriented Python, inside a tg.function: same numbers as eagerly."""

import abc
import contextlib
import copy
import dataclasses
import functools
import itertools
from collections import namedtuple

import pytest
import torch
from torch import nn

import tograph as tg


def close(x, y, tolerance=1e-5):
    if isinstance(x, torch.Tensor):
        assert isinstance(y, torch.Tensor) or x.dim() == 0, y
        y = torch.as_tensor(y)
        assert x.shape == y.shape and x.dtype == y.dtype, (x, y)
        torch.testing.assert_close(x, y, rtol=tolerance, atol=tolerance)
    elif isinstance(x, tuple | list):
        assert len(x) == len(y), (x, y)
        for a, b in zip(x, y):
            close(a, b, tolerance)
    elif isinstance(x, float | int):
        assert x == pytest.approx(float(y), rel=tolerance), (x, y)
    else:
        assert x == y


def compare(function, *args, calls=2, seed=0):
    """The function's values, eagerly and staged, from the same random numbers."""
    staged = tg.function(function)
    for _ in range(calls):
        torch.manual_seed(seed)
        native = function(*copy.deepcopy(args))
        torch.manual_seed(seed)
        close(native, staged(*copy.deepcopy(args)))
    return staged


# ---- torch.optim

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
}


def train(make, step_of, steps=4):
    torch.manual_seed(0)
    p, q = torch.randn(3), torch.randn(2, 2)
    optimizer = make([p, q])
    for i in range(steps):
        step_of(optimizer, p, q)(torch.tensor(float(i)))
    state = [v for s in optimizer.state.values() for v in s.values() if isinstance(v, torch.Tensor)]
    return p, q, state


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_made_outside(name):
    made = []

    def plain(optimizer, p, q):
        def step(k):
            with torch.no_grad():
                p.grad = p * 2 + k
                q.grad = torch.sin(q)
                optimizer.step()

        return step

    def staged(optimizer, p, q):
        if not made:
            made.append(tg.function(plain(optimizer, p, q)))
        return made[0]

    close(train(OPTIMIZERS[name], plain), train(OPTIMIZERS[name], staged))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_made_inside(name):
    def minimise(start, n):
        p = start.clone()
        optimizer = OPTIMIZERS[name]([p])
        with torch.no_grad():
            for k in range(3):
                p.grad = 2 * p + k
                optimizer.step()
        return p

    compare(minimise, torch.tensor([1.0, -2.0]), 3)


def test_optimizer_in_a_staged_loop():
    def minimise(start, n):
        p = start.clone()
        optimizer = torch.optim.SGD([p], lr=0.1)
        with torch.no_grad():
            for _ in range(n):
                p.grad = 2 * p
                optimizer.step()
        return p

    staged = compare(minimise, torch.tensor([1.0, -2.0]), torch.tensor(3))
    close(staged(torch.ones(2), torch.tensor(9)), minimise(torch.ones(2), 9))


def test_clip_grad_norm():
    def clip(x):
        with torch.no_grad():
            p = nn.Parameter(torch.zeros(3))
            p.grad = x.clone()
            norm = nn.utils.clip_grad_norm_([p], 1.0)
            return p.grad, norm

    compare(clip, torch.tensor([3.0, 4.0, 0.0]))


# ---- torch.distributions


DISTRIBUTIONS = {
    "normal": lambda a: torch.distributions.Normal(a, 1 + a.abs()),
    "categorical": lambda a: torch.distributions.Categorical(logits=a),
    "categorical_probs": lambda a: torch.distributions.Categorical(probs=a.abs() + 0.1),
    "beta": lambda a: torch.distributions.Beta(1 + a.abs(), 2.0),
    "gamma": lambda a: torch.distributions.Gamma(1 + a.abs(), 1 + a.abs()),
    "bernoulli": lambda a: torch.distributions.Bernoulli(logits=a),
    "uniform": lambda a: torch.distributions.Uniform(-a.abs() - 1, 1 + a.abs()),
    "exponential": lambda a: torch.distributions.Exponential(1 + a.abs()),
    "dirichlet": lambda a: torch.distributions.Dirichlet(1 + a.abs()),
    "multivariate": lambda a: torch.distributions.MultivariateNormal(a, torch.eye(3)),
    "independent": lambda a: torch.distributions.Independent(torch.distributions.Normal(a, 1.0), 1),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name):
    def draw(a):
        d = DISTRIBUTIONS[name](a)
        s = d.sample()
        more = d.sample((4,))
        return s, more, d.log_prob(s), d.entropy()

    compare(draw, torch.tensor([0.5, -1.0, 2.0]))


def test_kl():
    def kl(a):
        normal, beta = torch.distributions.Normal, torch.distributions.Beta
        one = torch.distributions.kl_divergence(normal(a, 1.0), normal(0.0, 2.0))
        two = torch.distributions.kl_divergence(beta(a.exp(), 2.0), beta(1.0, a.exp()))
        c = torch.distributions.Categorical(logits=a)
        return one, two, torch.distributions.kl_divergence(c, c)

    compare(kl, torch.tensor([0.5, -1.0, 2.0]))


def test_rsample_and_transformed():
    def draw(a):
        base = torch.distributions.Normal(a, 1.0)
        d = torch.distributions.TransformedDistribution(
            base, [torch.distributions.SigmoidTransform()]
        )
        s = d.rsample()
        return s, d.log_prob(s)

    compare(draw, torch.tensor([0.5, -1.0, 2.0]))


def test_invalid_parameter_of_a_distribution():
    def draw(a):
        return torch.distributions.Normal(0.0, a, validate_args=True).log_prob(torch.tensor(1.0))

    staged = tg.function(draw)
    close(staged(torch.tensor(2.0)), draw(torch.tensor(2.0)))
    with pytest.raises(ValueError, match="Normal"):
        staged(torch.tensor(-2.0))


# ---- torch.nn


def module_case(module, *inputs, train=False, calls=2, seed=0):
    """Values and buffers after some forward passes."""
    results = []
    module.train(train)
    for stage in (lambda f: f, tg.function):
        m = copy.deepcopy(module)
        f = stage(lambda *args: m(*args))
        torch.manual_seed(seed)
        with torch.no_grad():
            outputs = [f(*inputs) for _ in range(calls)]
        results.append((outputs, list(m.buffers())))
    close(*results)


X = torch.linspace(-1, 1, 24).reshape(2, 3, 4)


def test_sequential():
    net = nn.Sequential(
        nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 2), nn.Softmax(-1)
    )
    module_case(net, X)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("momentum", [0.1, 0.3])
def test_batch_norm(train, momentum):
    module_case(nn.BatchNorm1d(3, momentum=momentum), X, train=train, calls=3)
    module_case(nn.BatchNorm2d(2), X[None], train=train)


@pytest.mark.parametrize("train", [True, False])
def test_dropout(train):
    module_case(nn.Dropout(0.5), X, train=train)
    module_case(nn.Sequential(nn.Linear(4, 4), nn.Dropout1d(0.5)), X, train=train)


@pytest.mark.parametrize("train", [True, False])
def test_multihead_attention(train):
    attention = nn.MultiheadAttention(4, 2, batch_first=True, dropout=0.1)
    module_case(attention, X, X, X, train=train)


def test_attention_masks():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    mask = torch.ones(3, 3).triu(1).bool()
    padding = torch.tensor([[False, False, True], [False, False, False]])

    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x):
            return self.attention(
                x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False
            )[0]

    module_case(Masked(), X)


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("norm_first", [True, False])
def test_transformer_encoder(train, norm_first):
    layer = nn.TransformerEncoderLayer(
        4, 2, 8, dropout=0.1, batch_first=True, norm_first=norm_first
    )
    module_case(layer, X, train=train)


def test_transformer():
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, norm_first=True),
        2,
        enable_nested_tensor=False,
    )
    module_case(encoder, X)
    decoder = nn.TransformerDecoderLayer(4, 2, 8, batch_first=True)
    module_case(decoder, X, X)


@pytest.mark.parametrize("kind", [nn.LSTM])
def test_recurrent(kind):
    module_case(kind(4, 5, num_layers=2, batch_first=True), X)
    module_case(kind(4, 5, bidirectional=True), X)


@pytest.mark.parametrize("kind", [nn.GRUCell, nn.LSTMCell])
def test_cells(kind):
    module_case(kind(4, 5), X[0])


def test_embedding():
    i = torch.tensor([[1, 2], [0, 5]])
    module_case(nn.Embedding(6, 3, padding_idx=0), i)
    module_case(nn.Embedding(6, 3, max_norm=1.0), i)
    module_case(nn.EmbeddingBag(6, 3), i)


def test_convolutions():
    image = torch.linspace(-1, 1, 2 * 3 * 8 * 8).reshape(2, 3, 8, 8)
    module_case(nn.Conv1d(3, 5, 3, padding="same"), X)
    module_case(nn.Conv2d(3, 4, 3, stride=2, padding=1, padding_mode="reflect"), image)
    module_case(nn.ConvTranspose2d(3, 4, 3, stride=2), image)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    module_case(net, image)
    module_case(nn.Upsample(scale_factor=2, mode="bilinear"), image)


def test_losses_and_norms():
    target = torch.zeros(2, 4).long()
    module_case(nn.CrossEntropyLoss(label_smoothing=0.1), X, target % 3)
    module_case(nn.GroupNorm(3, 3), X)
    module_case(nn.InstanceNorm1d(3, affine=True, track_running_stats=True), X, train=True)
    module_case(nn.RMSNorm(4), X)


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        if x.sum() > 0:
            self.count += 1
            return self.linear(x)
        for _ in range(2):
            x = x * 0.5
        return x


@pytest.mark.parametrize("sign", [1, -1])
def test_user_module_with_a_condition(sign):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Sequential(Gate(), nn.ReLU()), Gate())
    module_case(net, X * sign + sign)


def test_module_list_and_dict():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
            self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 3)})

        def forward(self, x):
            for i, layer in enumerate(self.layers):
                if x.mean() > 0 or i == 0:
                    x = layer(x).relu()
            return {k: h(x) for k, h in self.heads.items()}["b"]

    module_case(Net(), X)


def test_hooks():
    def before(module, args):
        (x,) = args
        if x.sum() > 0:
            return (x + 1,)
        return (x - 1,)

    def after(module, args, output):
        return output * 2 if output.mean() > 0 else output * 3

    for sign in (1, -1):
        net = nn.Sequential(nn.Linear(4, 4), Gate())
        net[1].register_forward_pre_hook(before)
        net[0].register_forward_hook(after)
        module_case(net, X * sign + sign)


def test_weight_norm_and_parametrization():
    net = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
    module_case(net, X)
    module_case(nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)), X)


# ---- linear algebra written in Python


def test_svd_lowrank():
    def lowrank(a):
        u, s, v = torch.svd_lowrank(a, q=2)
        return s

    compare(lowrank, torch.randn(6, 5))


def test_einops():
    einops = pytest.importorskip("einops")

    def arrange(x):
        y = einops.rearrange(x, "b n (h d) -> b h n d", h=2)
        if y.sum() > 100:
            return y
        return einops.reduce(y, "b h n d -> b n", "mean") + einops.repeat(x[0, 0], "d -> d")[0]

    compare(arrange, X)


# ---- Python's own


@dataclasses.dataclass
class State:
    x: object
    steps: int = 0
    log: list = dataclasses.field(default_factory=list)

    def __post_init__(self):
        if self.steps < 0:
            self.steps = 0

    def advance(self, dx):
        if self.x > 3:
            return dataclasses.replace(self, steps=self.steps + 10)
        return State(self.x + dx, self.steps + 1)


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object


def test_frozen_dataclass_argument_and_result():
    def double(s):
        if s.x > 0:
            return Frozen(s.x * 2)
        return s

    for x in (1.0, -1.0):
        got = tg.function(double)(Frozen(torch.tensor(x)))
        assert type(got) is Frozen
        close(got.x, double(Frozen(torch.tensor(x))).x)


Pair = namedtuple("Pair", "a b")


def test_namedtuple():
    def run(p, n):
        for _ in range(n):
            p = p._replace(a=p.b, b=p.a + p.b)
        return p

    p = Pair(torch.tensor(0), torch.tensor(1))
    for n in (5, torch.tensor(5)):
        assert type(compare(run, p, n)(p, n)) is Pair


def test_partial_wraps_and_lru_cache():
    def logged(f):
        @functools.wraps(f)
        def wrapped(*args, scale=1, **kwargs):
            r = f(*args, **kwargs)
            return r * scale if r > 0 else r

        return wrapped

    @logged
    def base(x, k):
        return x + k if x < k else x - k

    @functools.lru_cache(maxsize=None)
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    half = functools.partial(base, k=2, scale=3)
    for x in (1.0, 5.0, -9.0):
        compare(lambda x: half(x) + fib(10) + base(x, 1), torch.tensor(x))


def test_tg_function_on_a_partial_and_an_object():
    def scaled(k, x):
        return x * k if x > 0 else x

    class Scaler:
        def __call__(self, x):
            return x * 5 if x > 0 else x

    for x in (torch.tensor(2.0), torch.tensor(-2.0)):
        close(tg.function(functools.partial(scaled, 3))(x), scaled(3, x))
        close(tg.function(Scaler())(x), Scaler()(x))


def test_contextlib():
    @contextlib.contextmanager
    def scaled(x, log):
        log.append("in")
        try:
            yield x * 2 if x > 0 else x * 3
        finally:
            log.append("out")

    def run(x):
        log = []
        with scaled(x, log) as y, contextlib.nullcontext(1) as k, contextlib.ExitStack() as stack:
            stack.callback(log.append, "callback")
            if y > 3:
                y = y + k
        return y, log

    for x in (1.0, 2.0, -1.0):
        compare(run, torch.tensor(x))


def test_itertools():
    def run(x):
        s = x
        for a, b in itertools.pairwise([1, 2, 4]):
            s = s * a + b if s > 0 else s - a
        for k, group in itertools.groupby("aab"):
            s = s + len(list(group))
        for v in itertools.chain([1], (2,)):
            s = s + v
        for v in itertools.accumulate([1, 2, 3], lambda p, q: p + q):
            s = s + v
        for v in itertools.takewhile(lambda v: v < 3, itertools.count()):
            s = s * 2 + v
        return s + sum(itertools.starmap(lambda a, b: a * b, [(1, 2), (3, 4)]))

    for x in (1.0, -1.0):
        compare(run, torch.tensor(x))


class Vector:
    def __init__(self, x):
        self.x = x

    def __add__(self, other):
        if self.x.sum() > 0:
            return type(self)(self.x + other.x)
        return type(self)(self.x - other.x)

    def __getitem__(self, i):
        return self.x[i] if self.x[i] > 0 else -self.x[i]

    def __len__(self):
        return len(self.x)

    def __iter__(self):
        return iter(self.x)

    def __enter__(self):
        return self

    def __exit__(self, *args):
        return None

    @property
    def norm(self):
        n = (self.x * self.x).sum().sqrt()
        if n > 1:
            return n
        return torch.ones(())


class Unit(Vector):
    def __init__(self, x):
        super().__init__(x)
        if self.norm > 1:
            self.x = self.x / self.norm

    @property
    def norm(self):
        return super().norm * 1.0


def test_inheritance_with_a_mixin_and_abstract_base():
    class Shape(abc.ABC):
        @abc.abstractmethod
        def area(self): ...

        def describe(self, x):
            if x > self.area():
                return "small"
            return "large"

    class Named:
        def describe(self, x):
            return "a " + super().describe(x)

    class Square(Named, Shape):
        def __init__(self, a):
            self.a = a

        def area(self):
            return self.a * self.a

    for x in (1.0, 9.0):
        compare(lambda x: Square(2).describe(x), torch.tensor(x))


def test_factories_of_closures():
    def make(k):
        total = torch.zeros(())

        def step(x):
            nonlocal total
            if x > k:
                total = total + x
            else:
                total = total - x
            return total

        return step

    def run(x):
        a, b = make(1), make(2)
        return a(x), b(x), a(x), b(x * 2)

    for x in (1.5, -1.0, 5.0):
        compare(run, torch.tensor(x))


def test_recursion_on_python_values():
    def tree(depth, x):
        if depth == 0:
            return x
        left = tree(depth - 1, x * 2)
        if left > 10:
            return left
        return left + tree(depth - 1, x + 1)

    for x in (1.0, 0.1, 9.0):
        compare(lambda x: tree(3, x), torch.tensor(x))


def test_generators_in_loops():
    def chunks(n):
        i = 0
        while i < n:
            yield i, min(i + 2, n)
            i += 2

    def nested(n):
        for a, b in chunks(n):
            yield from range(a, b)

    def run(x):
        s = torch.zeros(())
        for a, b in chunks(len(x)):
            part = x[a:b].sum()
            if part > 0:
                s = s + part
        for i in nested(3):
            s = s * 2 + i
        return s

    compare(run, torch.tensor([1.0, -2.0, -1.0, 5.0, 3.0]))


@torch.jit.script
def scripted_step(x: torch.Tensor, bound: float, n: int = 2) -> torch.Tensor:
    if bool(x.sum() > bound):
        x = x * 0.5
    for i in range(n):
        x = x + i
    return x


@torch.jit.script
def scripted_search(x: torch.Tensor):
    k = 0
    while bool(x.norm() > 1.0):
        x, k = scripted_step(x, 2.0) / 8, k + 1
    return x, k


def test_functions_of_torchscript_keep_their_branches():
    f = tg.function(lambda x: scripted_search(x))
    for x in ([3.0, 4.0], [-30.0, 40.0], [0.1, 0.1]):
        close(scripted_search(torch.tensor(x)), f(torch.tensor(x)))
    assert f.trace_count == 1


# ---- classes that refuse what containers have, and wrappers without source


class Count(tuple):
    """A pair that is no sequence to its users."""

    def __new__(cls, count, kind):
        return super().__new__(cls, (count, kind))

    count = property(lambda self: tuple.__getitem__(self, 0))

    def __len__(self):
        raise NotImplementedError

    def __iter__(self):
        raise NotImplementedError


def test_a_tuple_without_length():
    plan, seen = (Count(2, "a"), Count(4, "b")), {}

    def f(x):
        if x.sum() > 0:
            seen["n"] = x.sum()
        y = x * plan[0].count
        return y / y.norm() if y.norm() > 1 else y

    compare(f, torch.ones(3))
    compare(f, -torch.ones(3) / 9)


def checked(inner):
    """A decorator that writes the code of its wrapper, as those that check types do."""
    names = {"inner_": inner, "Tensor_": torch.Tensor}
    lines = [
        "def wrapper(*args, inner_=inner_):",
        "    if not isinstance(args[0], Tensor_):",
        "        raise TypeError('not a tensor')",
        "    found = inner_(*args)",
        "    if not isinstance(found, Tensor_):",
        "        raise TypeError('gave no tensor')",
        "    return found",
    ]
    exec("\n".join(lines), names)
    return functools.wraps(inner)(names["wrapper"])


def test_wrappers_without_source():
    @checked
    def step(x, n):
        if x.sum() > 0:
            return x * n
        return -x

    def loop(x):
        y = step(x, 2)
        while y.norm() < 9:
            y = step(y, 3)
        return y

    compare(loop, torch.ones(2))
    compare(loop, -torch.ones(2))
    compare(step, torch.ones(2), 2)
    with pytest.raises(TypeError, match="not a tensor"):
        tg.function(lambda x: step(3, x))(torch.ones(2))


# ---- modules that a metaclass makes (factorised weights)


class Made(type(nn.Module)):
    def __call__(cls, *args, **kwargs):
        made = cls.__new__(cls, *args, **kwargs)
        made.__init__(*args, **kwargs)
        return made


class Scaled(nn.Module, metaclass=Made):
    def __init__(self, weight):
        super().__init__()
        self.register_buffer("weight", weight)

    def forward(self, x):
        return x * self.weight


def test_a_module_that_a_metaclass_makes_before_the_first_step_of_an_optimiser():
    def losses(wrap):
        weight = nn.Parameter(torch.ones(3))
        optimizer = torch.optim.Adam([weight], 0.1)

        def step(x):
            optimizer.zero_grad()
            loss = Scaled(weight * 2)(x).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        step = wrap(step)
        return [step(torch.ones(3)) for _ in range(3)]

    close(losses(lambda f: f), losses(tg.function))


# ---- dicts with parameters as keys, as optimisers have beside their ``state``


def masks_of(params, masks, n):
    """A key is there by the run's first iteration only."""
    total = torch.tensor(0.0)
    while n > 0:
        for p in params:
            if p not in masks:
                masks[p] = torch.arange(3.0)
            total = total + (masks[p] * p).sum()
        n = n - 1
    return total


def dropped_masks(params, masks, n):
    """The last key goes in a branch and comes back."""
    first, second = params
    masks[first], masks[second] = first * 1, second * 2
    if n > 1:
        kept = masks.pop(second)
        masks[second] = kept + 1
    return sum(m.sum() * (k + 1) for k, m in enumerate(masks.values()))


@pytest.mark.parametrize("program", [masks_of, dropped_masks])
def test_a_dict_with_tensors_as_keys_in_a_staged_construct(program):
    params = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([3.0, 1.0, 2.0])
    plain, converted = {}, {}
    staged = tg.function(lambda n: program(params, converted, n))
    for n in (2, 1, 3):
        close(program(params, plain, torch.tensor(n)), staged(torch.tensor(n)))
        assert [params.index(p) if p is params[0] else 1 for p in plain] == [
            0 if p is params[0] else 1 for p in converted
        ]
