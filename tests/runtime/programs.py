"""Concrete functions for the tests of this folder: of the samples, and of generated programs."""

import functools
import importlib.util
from pathlib import Path

import tograph as tg
from tests.program_generator import generate
from tests.program_runner import compile_program

SAMPLES = Path(__file__).parents[2] / "samples"
SAMPLE_NAMES = sorted(path.stem for path in SAMPLES.glob("*.py"))


@functools.cache
def sample(name):
    spec = importlib.util.spec_from_file_location(f"runtime_{name}", SAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def sample_concrete(name):
    module = sample(name)
    return module.main_function.get_concrete_function(*module.example_inputs())


def generated(seed):
    """The program of a seed and its concrete function, or None when tracing raises."""
    program = generate(seed)
    function = tg.function(compile_program(program))
    try:
        return program, function.get_concrete_function(*program.args)
    except Exception:  # the differential test looks at these
        return program, None
