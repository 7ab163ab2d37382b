"""What CUDA's real bindings hand to the driver, seen by a library in its place: structures, orders and versions of functions.

The library knows what a driver of CUDA 13.0 knows, as a machine may have under newer bindings; it says what it was called with.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cuda.bindings.driver")
pytestmark = pytest.mark.skipif(not shutil.which("cc") or sys.platform != "linux", reason="needs a C compiler")  # fmt: skip

PROGRAM = """
import contextlib, ctypes, types
import torch
from tograph.runtime.kernels import driver

torch.cuda.is_available = lambda: True
torch.cuda.stream = lambda stream: contextlib.nullcontext()
print(repr(driver.available(driver.SWITCH)), driver.version(), flush=True)
two, one = (types.SimpleNamespace(cuda_stream=n) for n in (5, 4))
for kind, count in (("while", 1), ("switch", 3)):
    graphs = driver.Handle(two).node(kind, count, two)
    print([int(g) for g in graphs], flush=True)
try:
    with driver.capturing_into(graphs[1], two):
        pass
    print(driver.kinds(graphs[1]), flush=True)
    made = driver.Function(b"text\\0", "name")
    made.finish()
    made.start(3, 64, [1, 2], 5)
    made.expect([8, 8])
    print(driver.parameter_sizes(made.handle), flush=True)
    node = driver.Node(one)
    node.expect([7, 8])
    node.set(types.SimpleNamespace(raw_cuda_graph_exec=lambda: 31), {1: 99})
    print(driver.stream(), flush=True)
    driver.Launcher(types.SimpleNamespace(raw_cuda_graph_exec=lambda: 31)).launch(5)
    made.expect([8, 1])
except driver.DriverError as error:
    print(error, flush=True)
"""

SEEN = """
'' (13, 0)
handle 11 5 0 0
node 11 21 22 edges 0 count 2 type 13: 77 1 1 5
after 5 23 0 1 1
[101]
handle 11 5 0 0
node 11 21 22 edges 0 count 2 type 13: 77 2 3 5
after 5 23 0 1 1
[101, 102, 103]
body 5 102 0 2
['KERNEL', 'CONDITIONAL']
load text
function 6 name
finish 9
launch 9 3,1,1 64,1,1 0 on 5: 1 2, 0
[8, 8]
told 31 21: 9 2: 7 99
stream 1
64
launched 31 on 5
a kernel with parameters of [8, 8] bytes where [8, 1] were expected
"""


def test_the_driver_is_called_as_its_header_says(tmp_path):
    library = tmp_path / "libcuda.so.1"
    source = Path(__file__).with_name("fake_libcuda.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", str(library), str(source)], check=True)
    environment = os.environ | {"LD_LIBRARY_PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-u", "-c", PROGRAM], env=environment, capture_output=True, text=True)  # fmt: skip
    assert done.stdout.split("\n") == SEEN.lstrip().split("\n"), done.stderr
