"""Seeds and states of torch's random generators, which a graph sets and reads when it runs (``runtime.library.random_states``)."""

from __future__ import annotations

import torch

from ...runtime.library import random_states
from ..registry import METHODS, handles

handles(torch.Generator)(random_states.new_generator)
handles(torch.manual_seed)(lambda seed: random_states.manual_seed(seed))
handles(torch.initial_seed)(lambda: random_states.initial_seed())
handles(torch.seed)(lambda: random_states.seed())
handles(torch.get_rng_state)(lambda: random_states.get_state())
handles(torch.set_rng_state)(lambda new_state: random_states.set_state(new_state))
METHODS[(torch.Generator, "manual_seed")] = lambda g, seed: random_states.manual_seed(seed, g)
METHODS[(torch.Generator, "initial_seed")] = lambda g: random_states.initial_seed(g)
METHODS[(torch.Generator, "seed")] = lambda g: random_states.seed(g)
METHODS[(torch.Generator, "get_state")] = lambda g: random_states.get_state(g)
METHODS[(torch.Generator, "set_state")] = lambda g, state: random_states.set_state(state, g)
METHODS[(torch.Generator, "clone_state")] = lambda g: random_states.clone_state(g)


@handles(torch.cuda.get_rng_state)
def gpu_state(device="cuda"):
    return random_states.get_state(random_states.of_device(device))


@handles(torch.cuda.set_rng_state)
def set_gpu_state(new_state, device="cuda"):
    random_states.set_state(new_state, random_states.of_device(device))


@handles(torch.cuda.manual_seed)
def seed_gpu(seed):
    random_states.manual_seed_gpu(seed, all_of_them=False)


@handles(torch.cuda.manual_seed_all)
def seed_gpus(seed):
    random_states.manual_seed_gpu(seed, all_of_them=True)
