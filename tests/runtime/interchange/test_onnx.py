"""cf.to_onnx(): samples, constructs and single ops, run by onnxruntime."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree as pytree

import tograph as tg
from tests.runtime.interchange.export_programs import PROGRAMS, checked, work_list, writes
from tograph.errors import InterchangeError

pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
SAMPLES = sorted((Path(__file__).parents[3] / "samples").glob("*.py"))
COMPLEX = {"mandelbrot"}  # ONNX has no complex numbers


def tensors_of(args):
    return [x for x in pytree.tree_leaves(args) if isinstance(x, torch.Tensor)]


def check(tmp_path, function, *calls, tolerance=None):
    """onnxruntime gives what the function gives; Python numbers as 0-d arrays."""
    path = str(tmp_path / "model.onnx")
    function.get_concrete_function(*calls[0]).to_onnx(path)
    session = runtime.InferenceSession(path)
    for args in calls:
        expected = [x for x in pytree.tree_leaves(function(*args)) if x is not None]
        given = {i.name: x.detach().numpy() for i, x in zip(session.get_inputs(), tensors_of(args))}
        made = session.run(None, given)
        actual = [x for r in made for x in (r if isinstance(r, list) else [r])]
        assert len(actual) == len(expected)
        for a, e in zip(actual, expected):
            e = e.detach() if isinstance(e, torch.Tensor) else torch.as_tensor(e)
            close = {} if tolerance is None else {"rtol": tolerance, "atol": tolerance}
            check_dtype = e.dim() > 0 and not isinstance(a, list)
            torch.testing.assert_close(torch.as_tensor(a), e, check_dtype=check_dtype, **close)


@pytest.mark.parametrize("path", [p for p in SAMPLES if p.stem not in COMPLEX], ids=lambda p: p.stem)  # fmt: skip
def test_sample(tmp_path, path):
    spec = importlib.util.spec_from_file_location(f"onnx_sample_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check(tmp_path, module.main_function, module.example_inputs())


UNARY = """
x.sin() x.cos() x.exp() x.tanh() x.sigmoid() x.relu() x.abs() -x x.erf() x.floor() x.ceil() x.sign() x.reciprocal()
(x.abs()+1).log() x.abs().sqrt() (x.abs()+1).rsqrt() x.abs().log1p() F.gelu(x) F.gelu(x,approximate="tanh") F.silu(x) F.elu(x)
F.leaky_relu(x,0.1) F.softplus(x) x.clamp(-1,1) x.clamp_min(0) x.clamp_max(0.5) F.hardtanh(x) x.isnan() x**2 x**3 2-x 1/x
x.sum() x.sum(1) x.mean(0) x.mean(1,keepdim=True) x.amax(1) x.amin(0) x.max() x.min() x.prod(1) x.max(1) x.min(0) x.argmax() x.argmin(1)
(x>0).any() (x>0).all(1) (x>0).sum(1) x.norm() x.cumsum(1) x.softmax(1) x.log_softmax(0) x.topk(2) x.t() x.transpose(0,1) x.permute(1,0)
x.reshape(-1) x.view(3,2) x.unsqueeze(1) x.unsqueeze(0).squeeze(0) x.expand(4,2,3) x[0] x[:,1] x[:,-1] x[1:] x[:,:2] x[:,::2]
torch.cat([x,x*2],1) torch.stack([x,x]) x.split(2,1) x.unbind(0) x.triu() x.tril() x@x.t() x.t()[0]@x[:,0].reshape(2) torch.zeros_like(x)
x.new_ones(2,2) torch.full((2,),3.0)+x[:,0] torch.arange(3)+x x.to(torch.float64) x.long() x.bool() x.masked_fill(x>0,7.0)
torch.where(x>0,x,-x) torch.maximum(x,x*2) torch.minimum(x,-x) (x>0)&(x<1) (x>0)|(x<-1) ~(x>0) x.eq(x) x.ne(1.0) x.le(0) x.ge(0)
x%1.5 x%-1.5 x//0.7 (x*10).long()%3 (x*10).long()%-3 (x*10).long()//3 (x*10).long()//-3 x[torch.tensor([1,0])] x.gather(1,(x>0).long())
x.index_select(1,torch.tensor([2,0])) F.layer_norm(x,(3,)) F.layer_norm(x,(3,),x[0],x[1]) F.one_hot((x[0]>0).long(),2) if False else x
x.reshape(1,1,2,3) F.embedding((x>0).long(),torch.ones(2,4)) torch.addmm(x,x@x.t(),x,beta=2,alpha=3) x.div(2,rounding_mode="trunc")
x[x>0] torch.masked_select(x,x>0) (x>0).nonzero() x.flip(1) x.repeat(2,1) F.pad(x,(1,2)) x.sort(1) x.sort(0,descending=True)
x.index_add(0,torch.tensor([1,1]),x) x.scatter(1,(x>0).long(),x) x.scatter_add(1,(x>0).long(),x) x.index_put((torch.tensor([0,-1]),),x[0])
torch.slice_scatter(x,x[:,:1],1,2,3) x.index_copy(0,torch.tensor([1]),x[:1]) F.cross_entropy(x,torch.tensor([2,0])) F.nll_loss(x,torch.tensor([2,-100]),x[0])
F.conv1d(x[None],torch.ones(4,2,2)) F.conv2d(x[None,None],torch.ones(2,1,2,2),padding=1,stride=2) F.max_pool2d(x[None],2,1)
F.conv_transpose1d(x[None],torch.ones(2,4,2)) F.batch_norm(x,torch.zeros(3),torch.ones(3),torch.ones(3)*2,torch.ones(3))
""".split()  # fmt: skip
UNARY = [u for u in UNARY if u not in ("if", "False", "else", "x") and "one_hot" not in u]


@pytest.mark.parametrize("expression", UNARY)
def test_op(tmp_path, expression):
    namespace = {"torch": torch, "F": torch.nn.functional}
    path = tmp_path / "case.py"
    path.write_text(f"def f(x):\n    return {expression}\n")
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    x = torch.tensor([[0.5, -1.25, 2.0], [-0.75, 3.5, -2.5]])
    check(tmp_path, tg.function(namespace["f"]), (x,), (x.flip(1) * 0.6,), tolerance=1e-5)


def test_if_while_and_numbers(tmp_path):
    @tg.function
    def f(x):
        if x.sum() > 0:
            y, n = x * 2, 1
        else:
            y, n = x, 2
        while y.sum() < 10 and n < 20:
            if n % 2 == 0:
                y = y + n
            n += 1
        return y, n, n / 2, n // 3, -n % 5

    check(tmp_path, f, (torch.ones(3),), (-torch.ones(3),), (torch.ones(3) * 9,))


def test_dynamic_dimensions(tmp_path):
    @tg.function(input_signature=[tg.TensorSpec([None, 2], torch.float32)])
    def f(x):
        total = torch.zeros(2)
        for row in x:
            total = torch.tanh(total + row)
        return total, x.shape[0], x / x.shape[0]

    check(tmp_path, f, *[(torch.ones(n, 2) * 0.1,) for n in (1, 4, 7)])


def test_module_with_parameters(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.Linear(8, 2)).eval()  # fmt: skip
    attention = torch.nn.MultiheadAttention(4, 2, batch_first=True).eval()

    @tg.function
    def f(x):
        y, _ = attention(x, x, x, need_weights=True)
        return model(y)

    check(tmp_path, f, (torch.randn(2, 3, 4),), tolerance=1e-4)


@pytest.mark.parametrize("name", PROGRAMS)
def test_lists_optionals_and_unions(tmp_path, name):
    program, calls = PROGRAMS[name]
    check(tmp_path, tg.function(program), *calls, tolerance=1e-5)


def test_a_list_is_a_sequence(tmp_path):
    @tg.function
    def f(x):
        out = []
        while x.sum() < 10:
            x = x * 2
            out.append(x)
        return out, -x

    path = str(tmp_path / "model.onnx")
    f.get_concrete_function(torch.ones(2)).to_onnx(path)
    items, last = runtime.InferenceSession(path).run(None, {"x": torch.ones(2).numpy()})
    assert [i.tolist() for i in items] == [[2, 2], [4, 4], [8, 8]] and last.tolist() == [-8, -8]


def test_a_list_whose_length_depends_on_its_items(tmp_path):
    check(tmp_path, tg.function(work_list), (torch.ones(2),), (torch.ones(2) * 9,))


GRADIENTS = """
x.tanh() x.sigmoid() x.relu() x.softmax(1) x.log_softmax(1) F.gelu(x) F.cross_entropy(x,torch.tensor([2,0])) x[1]*x[0] x[:,1:]*2 x@x.t()
F.embedding(torch.tensor([1,0,1]),x)*x[0] x.exp().log1p() x.abs().sqrt() (x*x).mean() x.max(1)[0] torch.where(x>0,x*x,x) x.cumsum(1)*x
F.nll_loss(x,torch.tensor([2,-100]),reduction="sum") F.nll_loss(x,torch.tensor([1,0]),x[0].detach(),reduction="none") x[torch.tensor([1,1])]*x
""".split()


@pytest.mark.parametrize("expression", GRADIENTS)
def test_gradient(tmp_path, expression):
    path = tmp_path / "case.py"
    path.write_text(f"def f(x):\n    x = x.detach().requires_grad_()\n    return torch.autograd.grad(({expression}).sum(), x)[0]\n")  # fmt: skip
    namespace = {"torch": torch, "F": torch.nn.functional}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    x = torch.tensor([[0.5, -1.25, 2.0], [-0.75, 3.5, -2.5]])
    check(tmp_path, tg.function(namespace["f"]), (x,), (x.flip(1) * 0.6,), tolerance=1e-5)


def test_a_failed_check_is_an_error_that_says_which(tmp_path):
    concrete = tg.function(checked).get_concrete_function(torch.tensor(1.0))
    path = str(tmp_path / "model.onnx")
    concrete.to_onnx(path)
    session = runtime.InferenceSession(path)
    run = lambda x: session.run(None, {"x": torch.tensor(x).numpy()})  # noqa: E731
    assert run(1.0) == [3.0, [2.0, 3.0]] and run(4.0) == [4.0, []]
    with pytest.raises(Exception, match=r"AssertionError: not positive \(export_programs.py:"):
        run(-1.0)
    with pytest.raises(Exception, match=r"ValueError: ... is too large \(export_programs.py:"):
        run(6.0)
    concrete.to_onnx(path, leave_out=["checks"])
    assert runtime.InferenceSession(path).run(None, {"x": torch.tensor(-1.0).numpy()})[0] == 3


def test_what_is_written_is_an_output(tmp_path):
    """Each call's new values go into the next call."""
    total, last = tg.Variable(0.5), tg.Variable(0.0)
    function = tg.function(writes(total, last))
    path = str(tmp_path / "model.onnx")
    function.get_concrete_function(torch.tensor(1.0)).to_onnx(path)
    session = runtime.InferenceSession(path)
    names = [o.name for o in session.get_outputs()]
    assert names[1:] == ["state_0.next", "state_1.next"]
    given = {}
    for x in (1.0, 2.0, 5.0):
        made = dict(zip(names, session.run(None, {"x": torch.tensor(x).numpy(), **given})))
        given = {n.removesuffix(".next"): made[n] for n in names[1:]}
        assert made[names[0]].item() == function(torch.tensor(x)).item()
        assert [v.item() for v in given.values()] == [total.item(), last.item()]


@pytest.mark.parametrize(
    ("body", "what"),
    [("print(x)", "tg.print"), ("x = torch.fft.fft(x).real", "aten._fft_r2c"), ("x = x + torch.randn(3)", "aten.randn")],
)  # fmt: skip
def test_what_has_no_counterpart_names_op_and_line(tmp_path, body, what):
    path = tmp_path / "program.py"
    path.write_text(f"import torch\ndef f(x):\n    {body}\n    return x\n")
    namespace = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    concrete = tg.function(namespace["f"]).get_concrete_function(torch.ones(3))
    with pytest.raises(InterchangeError, match=rf"(?s)ONNX has no counterpart of {what}.*program.py.*line 3"):  # fmt: skip
        concrete.to_onnx(tmp_path / "model.onnx")


def test_complex_numbers_are_refused_with_advice(tmp_path):
    concrete = tg.function(lambda z: z * 2).get_concrete_function(
        torch.ones(2, dtype=torch.complex64)
    )
    with pytest.raises(InterchangeError, match="torch.complex64. Keep real and imaginary parts"):
        concrete.to_onnx(tmp_path / "model.onnx")
