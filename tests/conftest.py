"""What every test begins with."""

import pytest

from tograph.runtime.native import program


@pytest.fixture(autouse=True)
def nothing_lowered():
    """Tests change what lowering does: each lowers its own graphs."""
    program._lowered.clear()
