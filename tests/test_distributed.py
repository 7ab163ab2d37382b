"""`torch.distributed` in a function: two processes, each program natively and converted."""

import pytest
import torch.distributed as dist

from tests import distributed_programs


@pytest.mark.skipif(
    not (dist.is_available() and dist.is_gloo_available()), reason="torch without gloo"
)
def test_same_as_plainly():  # one test, since the processes are started once
    for said in distributed_programs.outcomes():
        failed = {name: error for name, error in said.items() if name != "rank" and error}
        assert not failed, f"rank {said['rank']}: {failed}"
        assert said.keys() - {"rank"} == distributed_programs.PROGRAMS.keys()
