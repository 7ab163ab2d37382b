"""What an op gives, without running it: sizes, strides and dtypes.

``infer`` asks the rules of ``shapes`` (of ``pointwise_shapes``, ``maker_shapes``, ``reduction_shapes``, ``index_shapes``, ``linalg_shapes``, ``nn_shapes``, ``part_shapes``, ``special_shapes``, ``data_shapes``), else torch's own kernels on meta tensors (``meta_kernel``)
or on tensors that stand in for what is not known (``stand_in``); of the ops that libraries register, their own rules (``library_shapes``). ``fitting`` tells whether sizes that only the run knows may not fit, ``layouts`` which tensors a graph takes, ``memory_formats`` how images lie, ``refusals`` which dtypes.
"""
