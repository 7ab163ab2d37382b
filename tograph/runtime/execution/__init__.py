"""How a graph runs: ``scheduler`` chooses the level, ``host`` is the program in Python, ``probes`` are put around its nodes.

``gradient_calls`` makes a call whose tensors require gradients one function of torch's autograd.
"""
