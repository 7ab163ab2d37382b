"""REINFORCE on CartPole: simulator, policy and training are one graph.

Shows a rollout that is a `while not done`, gradients through it taken inside the function, and a
training loop around both. The update is that of R. J. Williams, "Simple statistical
gradient-following algorithms" (1992), with the return to go and a discount; the physics are those
of A. G. Barto, R. S. Sutton and C. W. Anderson (1983).
"""

import torch

import tograph as tg

GRAVITY, CART, POLE, HALF_LENGTH, FORCE, STEP = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02


def simulate(state, push):
    """The state [x, v, angle, rate] one time step later, for a push to the right (1) or left (0)."""
    x, v, angle, rate = state
    force = FORCE * (2 * push - 1)
    pull = (force + POLE * HALF_LENGTH * rate**2 * angle.sin()) / (CART + POLE)
    swing = GRAVITY * angle.sin() - angle.cos() * pull
    swing = swing / (HALF_LENGTH * (4 / 3 - POLE * angle.cos() ** 2 / (CART + POLE)))
    drift = pull - POLE * HALF_LENGTH * swing * angle.cos() / (CART + POLE)
    return torch.stack([x + STEP * v, v + STEP * drift, angle + STEP * rate, rate + STEP * swing])


@tg.function
def train(policy, noise):
    """Policy weights [4] after one update per row of `noise` [episodes, steps], and the lengths of the episodes."""
    lengths = []
    for draws in noise:
        policy = policy.detach().requires_grad_()
        state, eligibility, gain = torch.full((4,), 0.02), torch.zeros(()), torch.zeros(())
        done, step = False, 0
        while not done:
            chance = torch.sigmoid(state @ policy)
            push = (draws[step] < chance).float()
            log_probability = torch.log(torch.where(push > 0, chance, 1 - chance))
            eligibility = 0.95 * eligibility + log_probability
            gain = gain + eligibility
            state = simulate(state, push).detach()
            step += 1
            done = state[0].abs() > 2.4 or state[2].abs() > 0.21 or step == len(draws)
        (slope,) = torch.autograd.grad(gain / step, policy)
        policy = policy + 0.5 * slope
        lengths.append(torch.tensor(step))
    return policy.detach(), torch.stack(lengths)


def example_inputs() -> tuple:
    return torch.zeros(4), torch.rand(25, 100, generator=torch.Generator().manual_seed(0))


main_function = train

if __name__ == "__main__":
    policy, lengths = main_function(*example_inputs())
    print("steps until the pole fell:", lengths.tolist())
    print("policy:", [round(w, 3) for w in policy.tolist()])
