"""Triton's own launcher, built and called here, hands the driver what ``images.pack`` packs; a library in the driver's place tells.

So what is assumed of nodes (``refresh``), and of code that is compiled ahead of a start, is seen without a GPU.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(not shutil.which("cc") or sys.platform != "linux", reason="needs a C compiler")  # fmt: skip

PROGRAM = """
import torch

torch.cuda.is_available = lambda: True
torch.cuda.current_device = lambda: 0
torch.cuda.get_device_capability = lambda device=None: (9, 0)
torch._C._cuda_getCurrentRawStream = lambda device: 77

from triton.backends.nvidia.compiler import CUDABackend

from tograph.runtime.kernels import images, triton_jit
from tograph.runtime.kernels.triton_text import HEADER, Source, parameters

signature, constants = {"x": "*fp32", "n": "i64", "s": "fp64", "b": "u1"}, {"XBLOCK": 128}
text = HEADER + f'''

@triton.jit
def scaled({parameters(signature, constants)}):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(x + i, tl.where(b, tl.load(x + i) * s + n, 0.0), i < n)
'''
source = Source("scaled", text, signature, constants, 8, 2)
assemble, made = CUDABackend.make_cubin, []
CUDABackend.make_cubin = lambda *given, **named: (made.append(1), assemble(*given, **named))[1]
x = torch.zeros(1024)
assert x.data_ptr() % 16 == 0
print(repr(triton_jit.launcher()), flush=True)
triton_jit.compile_all([(source, "sm_90", None), (source, "sm_90", [])])
before = len(made)
for n, s, b in ((5, 2.5, True), (1 << 40, 1.0, False)):
    triton_jit.launch(source, [x, n, s, b])
    print(*images.pack(source, {"x": x, "n": n, "s": s, "b": b}), flush=True)
    print(len(made) - before, "compiled late", flush=True)
    before = len(made)
"""


def test_tritons_launcher_starts_what_is_packed(tmp_path):
    source = Path(__file__).with_name("fake_launches.c")
    library = tmp_path / "libcuda.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-o", str(library), str(source)], check=True)  # fmt: skip
    own = {"LD_LIBRARY_PATH": str(tmp_path), "TRITON_LIBCUDA_PATH": str(tmp_path), "TRITON_CACHE_DIR": str(tmp_path / "cache")}  # fmt: skip
    done = subprocess.run([sys.executable, "-u", "-c", PROGRAM], env=os.environ | own, capture_output=True, text=True)  # fmt: skip
    launcher, *lines = done.stdout.splitlines() or [done.stderr]
    if launcher != "''":  # such as no headers of Python
        pytest.skip(launcher or done.stderr)
    starts = [line.split(":") for line in lines if "programs of" in line]
    packed = [line for line in lines if line and line.replace(" ", "").isdigit()]
    assert [values.strip() for *_, values in starts] == packed and len(packed) == 2, done.stderr
    assert {head for _, head, _ in starts} == {" 8,1,1 programs of 64,1,1 threads, 0 bytes, on 77, 0 attributes, 0"}  # fmt: skip
    late = [line for line in lines if line.endswith("compiled late")]
    assert late[0].startswith("0 "), lines  # for a number that vectors do not divide, found on disk
