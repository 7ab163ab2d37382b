"""The code of kernels that set handles: its text, that it assembles with a name undefined, and what its instructions do."""

import re

import pytest
import torch

from tograph.runtime.gpu import fused_code
from tograph.runtime.gpu.plan import Cell, Setting, Telling
from tograph.runtime.graph.types import TensorType
from tograph.runtime.kernels import driver, images, setter, triton_jit
from tograph.runtime.kernels.loop_ir import Unsupported
from tograph.runtime.kernels.triton_text import HEADER, Source

pytest.importorskip("triton")
PLAIN = Source("step", HEADER + """

@triton.jit
def step(x, go, at, XBLOCK: tl.constexpr):
    i = tl.arange(0, XBLOCK)
    total = tl.sum(tl.load(x + i), 0)
    tl.store(go, total > 1)
    tl.store(at, total.to(tl.int64))
""", {"x": "*fp32", "go": "*i1", "at": "*i64"}, {"XBLOCK": 256}, 1, 4)  # fmt: skip
TOLD = (Telling(0, setter.SET, "go"), Telling(0, setter.INVERTED, "go"), Telling(1, setter.SET_INDEX, "at", 2))  # fmt: skip


def setting(told=TOLD, error=True):
    names = [*PLAIN.signature, *(["error"] if error else [])]
    cells = {n: Cell(n, TensorType(torch.float32, (), "cuda:0")) for n in names}
    return Setting(PLAIN, cells, writes=frozenset(["go", "at"]), told=told)


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_the_code_assembles_with_its_symbol_undefined(architecture):
    source = fused_code.source_of(setting())
    image, shared, warps = fused_code.image(source, architecture, frozenset(), len(TOLD))
    assert image[0].startswith(b"\x7fELF") and b"cudaGraphSetConditional" in image[0]
    assert image[1].lstrip().startswith(b"//") and image[1].endswith(b"\0")
    assert warps == 4 and shared > 0


def test_a_driver_that_does_not_bind_the_symbol_of_an_image_gets_the_ptx(monkeypatch):
    loaded = []

    class Function:
        def __init__(self, image, name, shared):
            if image.startswith(b"\x7fELF"):
                raise driver.DriverError("CUDA driver: CUDA_ERROR_NOT_FOUND")
            loaded.append((image, name))

        def expect(self, sizes):
            assert sizes == [8] * 9

        def finish(self):
            loaded.append("finished")

    monkeypatch.setattr(driver, "Function", Function)
    monkeypatch.setattr(images, "architecture", lambda index: "sm_90")
    fused_code.Kernel(setting(), {n: torch.zeros(16) for n in ("x", "go", "at", "error")})
    assert b"call cudaGraphSetConditional" in loaded[0][0] and loaded[1:] == ["finished"]


@pytest.mark.parametrize("warps", [4, 1])
def test_one_thread_calls_behind_a_barrier_behind_the_stores(warps):
    step = setting()
    step.source = Source(**{**vars(PLAIN), "warps": warps})
    source = fused_code.source_of(step)
    ptx = fused_code.spliced(triton_jit.compiled(source, "sm_90").asm["ptx"], len(TOLD))
    assert ptx.count("call cudaGraphSetConditional") == 3 and ptx.count(setter.EXTERN) == 1
    assert fused_code.MARK not in ptx
    barrier = max(m.start() for m in re.finditer(r"\bbar(rier)?\.(warp\.)?(cta\.)?sync", ptx))
    stores = [m.start() for m in re.finditer(r"st\.global", ptx)]
    calls = [m.start() for m in re.finditer("call cudaGraph", ptx)]
    assert max(stores) < barrier < min(calls)


def test_the_source_has_the_handles_and_the_error_behind_its_parameters():
    assert list(fused_code.source_of(setting()).signature) == ["x", "go", "at", "handle0", "handle1", "handle2", "error"]  # fmt: skip
    assert "error" not in fused_code.source_of(setting(error=False)).signature
    guarded = Source(**{**vars(PLAIN), "signature": PLAIN.signature | {"error": "*i32"}, "text": PLAIN.text.replace("at, X", "at, error, X")})  # fmt: skip
    step = setting()
    step.source = guarded
    assert list(fused_code.source_of(step).signature)[3:] == ["error", "handle0", "handle1", "handle2"]  # fmt: skip


def test_a_text_of_another_form_is_refused():
    step = setting()
    step.source = Source(**{**vars(PLAIN), "text": PLAIN.text.replace("def step(x", "def step( x")})
    with pytest.raises(Unsupported, match="another form"):
        fused_code.source_of(step)
    with pytest.raises(Unsupported, match="0 marks of handles in the PTX where 1"):
        fused_code.spliced(".version 8.3\n.target sm_80\n.address_size 64\n", 1)


def test_a_start_packs_addresses_and_handles(monkeypatch):
    started = []

    class Function:
        def __init__(self, image, name, shared):
            self.loaded = False

        def finish(self):
            self.loaded = True

        def start(self, programs, threads, arguments, stream):
            started.append((self.loaded, programs, threads, arguments, stream))

        def expect(self, sizes):
            assert sizes == [8] * 9

    monkeypatch.setattr(driver, "Function", Function)
    monkeypatch.setattr(images, "architecture", lambda index: "sm_90")
    seen = []
    monkeypatch.setattr(
        fused_code, "image", lambda *given: seen.append(given) or ((b"", b""), 0, 4)
    )
    given = {"x": torch.zeros(257)[1:], "go": torch.zeros(1, dtype=torch.bool), "at": torch.zeros(1, dtype=torch.int64), "error": torch.zeros(1, dtype=torch.int32)}  # fmt: skip
    kernel = fused_code.Kernel(setting(), given)
    assert seen[0][2] == {"go", "at", "error"}  # that are aligned
    kernel.start(given, {"handle0": 7, "handle1": (1 << 63) + 9, "handle2": 8}, 5)
    x, go, at, error = (t.data_ptr() for t in given.values())
    ((loaded, programs, threads, values, stream),) = started
    assert (loaded, programs, threads, stream) == (True, 1, 128, 5)
    assert values == [x, go, at, 7, (1 << 63) + 9, 8, error, 0, 0]
    kernel.start(given | {"x": torch.zeros(256)}, {f"handle{i}": i for i in range(3)}, 5)
    with pytest.raises(driver.DriverError, match="not aligned"):
        kernel.start(given | {"error": given["x"]}, {f"handle{i}": i for i in range(3)}, 5)


@pytest.mark.parametrize("refused", ["made", "finished"])
def test_a_driver_that_refuses_machine_code_is_given_the_text(refused, monkeypatch):
    """When the module is loaded, or, by a lazy one, when the kernel is."""
    tried = []

    class Function:
        def __init__(self, image, name, shared):
            tried.append(image)
            self._refuse("made")

        def expect(self, sizes):
            assert sizes[-2:] == [8, 8]

        def finish(self):
            self._refuse("finished")

        def _refuse(self, when):
            if tried[-1] == b"code" and when == refused:
                raise driver.DriverError("CUDA driver: CUDA_ERROR_INVALID_IMAGE")

    monkeypatch.setattr(driver, "Function", Function)
    monkeypatch.setattr(images, "architecture", lambda index: "sm_90")
    monkeypatch.setattr(fused_code, "image", lambda *_: ((b"code", b"text"), 0, 4))
    fused_code.Kernel(setting(), {"x": torch.zeros(256), "go": torch.zeros(1, dtype=torch.bool), "at": torch.zeros(1, dtype=torch.int64), "error": torch.zeros(1, dtype=torch.int32)})  # fmt: skip
    assert tried == [b"code", b"text"]


# ---- what the instructions do


def executed(text, thread, memory, registers):
    """The (handle, value) of each call of PTX as ``inline`` writes it; ``memory`` by address."""
    r = {"%tid.x": thread, **registers}
    number = lambda word: r[word] if word in r else int(word)  # noqa: E731
    calls, lines, at = [], [line.strip().rstrip(";") for line in text.splitlines()], 0
    while at < len(lines):
        line, at = lines[at], at + 1
        if not line or line in "{}" or line.startswith(".") or line.endswith(":"):
            continue
        if line.startswith("@"):
            guard, _, label = line.partition(" bra ")
            at = lines.index(f"{label}:") if r[guard[1:]] else at
            continue
        op, _, rest = line.partition(" ")
        words = re.findall(r"[%\w.]+", rest)
        kind = op.split(".")[0]
        if kind == "call":
            calls.append((r["p_handle"], r["p_value"]))
        elif kind == "setp":
            a, b = map(number, words[1:])
            r[words[0]] = {"ne": a != b, "eq": a == b, "lo": a % (1 << 64) < b}[op.split(".")[1]]
        elif kind == "selp":
            r[words[0]] = number(words[1] if r[words[3]] else words[2])
        else:
            assert kind in ("mov", "st", "cvt", "ld"), line
            r[words[0]] = memory[number(words[1])] if kind == "ld" else number(words[1])
    return calls


@pytest.mark.parametrize("how, value, code, want", [
    (setter.SET, 1, 0, 1), (setter.SET, 0, 0, 0), (setter.SET, 1, 3, 0), (setter.SET, 1, None, 1),
    (setter.INVERTED, 1, 0, 0), (setter.INVERTED, 0, 0, 1), (setter.INVERTED, 0, 2, 0),
    (setter.SET_INDEX, 1, 0, 1), (setter.SET_INDEX, 7, 0, 2), (setter.SET_INDEX, -1, 0, 2), (setter.SET_INDEX, 1, 5, 1),
])  # fmt: skip
def test_the_first_thread_sets_the_handle_and_no_other_does(how, value, code, want):
    error = None if code is None else "%rd3"
    text = setter.inline(0, how, "2", "%rd1", "%rd2", error)
    registers = {"%rd1": 77, "%rd2": 100, "%rd3": 200}
    for thread in (0, 1, 127):
        found = executed(text, thread, {100: value, 200: code}, registers)
        assert found == ([(77, want)] if thread == 0 else [])
