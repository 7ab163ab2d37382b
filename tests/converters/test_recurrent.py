"""nn.RNN, nn.GRU and nn.LSTM over sequences that grow while the graph runs: torch's own numbers."""

import pytest
import torch
from torch import nn

import tograph as tg
from tograph.runtime.graph.ir import all_nodes

LAYERS = [
    (nn.GRU, {}, False, False),
    (nn.GRU, {"num_layers": 2, "bidirectional": True, "batch_first": True}, False, True),
    (nn.GRU, {"bias": False}, True, False),
    (nn.LSTM, {}, False, True),
    (nn.LSTM, {"bidirectional": True, "batch_first": True, "proj_size": 2}, False, False),
    (nn.LSTM, {"batch_first": True}, True, True),
    (nn.RNN, {"nonlinearity": "relu", "num_layers": 2}, False, False),
    (nn.RNN, {"bidirectional": True}, True, True),
]


def repeated(layer, x, n, state):
    time = 1 if layer.batch_first and x.dim() == 3 else 0
    while n > 0:
        x = torch.cat([x, x.narrow(time, 1, 1) * 0.5], time)
        n = n - 1
    return layer(x, state)


def flat(result):
    output, state = result
    return [output, *(state if isinstance(state, tuple) else (state,))]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("cls", "options", "single", "given"), LAYERS)
def test_grown_sequences(cls, options, single, given):
    torch.manual_seed(0)
    layer = cls(3, 4, **options)
    x = torch.randn(*((2, 3) if single else (2, 2, 3)))
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    state = torch.randn(*((rows, 4) if single else (rows, 2, 4))) if given else None
    if given and cls is nn.LSTM:
        state = (state, state * 0.5)
    f = tg.function(repeated)
    for n in (0, 3):
        expected = flat(repeated(layer, x, torch.tensor(n), state))
        for a, b in zip(expected, flat(f(layer, x, torch.tensor(n), state)), strict=True):
            torch.testing.assert_close(b, a)
    assert f.trace_count == 1


@pytest.mark.filterwarnings("ignore:LSTM with projections")
@pytest.mark.parametrize(("cls", "options", "single", "given"), LAYERS)
def test_long_sequences(cls, options, single, given):
    def trained(layer, x, state):
        results = flat(layer(x, state))
        loss = sum(r.square().sum() for r in results)
        return results, torch.autograd.grad(loss, [x, *layer.parameters()])

    torch.manual_seed(0)
    layer = cls(3, 4, **options)
    time = () if single else (2,)
    x = torch.randn(*((*time, 20) if layer.batch_first else (20, *time)), 3, requires_grad=True)
    rows = layer.num_layers * (2 if layer.bidirectional else 1)
    sizes = (layer.proj_size or 4, 4)[: 2 if cls is nn.LSTM else 1]
    state = tuple(torch.randn(rows, *time, n) for n in sizes) if given else None
    if given and cls is not nn.LSTM:
        state = state[0]
    f = tg.function(trained)
    torch.testing.assert_close(f(layer, x, state), trained(layer, x, state))
    count = len(list(all_nodes(f.concrete_functions[0].graph)))
    f(layer, torch.cat([x, x], time_of(layer, x)), state)
    assert len(list(all_nodes(f.concrete_functions[1].graph))) == count  # one loop, of any length


def time_of(layer, x):
    return 1 if layer.batch_first and x.dim() == 3 else 0


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="needs oneDNN")
def test_one_op_for_all_steps_of_a_wide_layer():
    layer, x = nn.LSTM(4, 256), torch.randn(12, 2, 4)
    for f, loops in ((torch.no_grad()(lambda x: layer(x)[0]), 0), (lambda x: layer(x)[0], 1)):
        converted = tg.function(f)
        torch.testing.assert_close(converted(x), f(x), rtol=1e-4, atol=1e-5)
        graph = converted.get_concrete_function(x).graph
        assert sum(n.op == "While" for n in graph.nodes) == loops


def test_dropout_between_the_layers_of_a_long_sequence():
    layer, x = nn.GRU(3, 4, num_layers=3, dropout=0.5), torch.randn(12, 2, 3)
    results = []
    for f in (layer, tg.function(lambda x: layer(x))):
        torch.manual_seed(1)
        results.append(f(x))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize(
    ("x", "state"),
    [
        (torch.randn(12, 2, 5), None),
        (torch.randn(12, 2, 3), torch.randn(1, 3, 4)),
        (torch.randn(12, 3), torch.randn(1, 1, 4)),
        (torch.randn(12, 2, 3, dtype=torch.float64), None),
    ],
)
def test_what_torch_refuses_of_a_long_sequence(x, state):
    layer = nn.GRU(3, 4)
    with pytest.raises((RuntimeError, ValueError)) as expected:
        layer(x, state)
    with pytest.raises(expected.type) as found:
        tg.function(lambda x, state: layer(x, state))(x, state)
    assert str(expected.value).splitlines()[0] in str(found.value)


def test_gradients_of_a_grown_sequence():
    torch.manual_seed(0)
    layer, x = nn.GRU(3, 4), torch.randn(2, 2, 3)

    def gradients(x, n):
        x = x.clone().requires_grad_()
        output, _ = repeated(layer, x, n, None)
        return torch.autograd.grad(output.pow(2).sum(), [x, layer.weight_hh_l0])

    for a, b in zip(gradients(x, torch.tensor(2)), tg.function(gradients)(x, torch.tensor(2))):
        torch.testing.assert_close(b, a)


def test_an_empty_sequence():
    layer = nn.GRU(3, 4)

    def shortened(x, n):
        return layer(x[: int(n)])[0]

    f = tg.function(shortened)
    torch.testing.assert_close(f(torch.ones(2, 3), torch.tensor(2)), layer(torch.ones(2, 3))[0])
    with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0"):
        f(torch.ones(2, 3), torch.tensor(0))


@pytest.mark.parametrize("cls", [nn.RNNCell, nn.GRUCell, nn.LSTMCell])
@pytest.mark.parametrize("looped", [False, True])
def test_cells_take_as_many_rows_as_there_are(cls, looped):
    torch.manual_seed(0)
    cell = cls(3, 4)

    def f(x, steps):
        state = None
        if looped:
            zeros = torch.zeros(x.shape[0], 4)
            state = (zeros, zeros) if cls is nn.LSTMCell else zeros
            for _ in range(steps):
                state = cell(x, state)
        else:
            state = cell(x)
        return state

    specs = [tg.TensorSpec([None, 3], torch.float32), tg.TensorSpec([], torch.int64)]
    g = tg.function(f, input_signature=specs)
    for rows in (3, 5, 1, 0):
        x, steps = torch.randn(rows, 3), torch.tensor(rows)
        torch.testing.assert_close(g(x, steps), f(x, steps))
    assert g.trace_count == 1


def test_a_cell_refuses_a_state_of_other_rows():
    cell = nn.GRUCell(3, 4)
    specs = [tg.TensorSpec([None, n], torch.float32) for n in (3, 4)]
    f = tg.function(lambda x, h: cell(x, h), input_signature=specs)
    for rows in (3, 3, 1):
        x, h = torch.ones(3, 3), torch.ones(rows, 4)
        if rows == 3:
            torch.testing.assert_close(f(x, h), cell(x, h))
            continue
        for g in (f, cell):
            with pytest.raises(RuntimeError, match="doesn't match hidden"):
                g(x, h)
