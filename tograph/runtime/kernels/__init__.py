"""Kernels: fused regions of a graph as loops of one small IR, and its renderers: LLVM IR for CPUs, Triton source for GPUs.

* From nodes to loops: ``regions`` chooses what becomes one kernel, ``build`` makes its loops (``loop_ir``, ``exprs``) from the rows of
  ``pointwise`` (``half_forms``), ``reductions`` (``elements``, ``normalisations``, ``losses``), ``creators``, ``gathers`` (``turns``), ``positions``, ``beside``, ``pools``, ``resampling``, ``activations``, ``loss_gradients``, ``products`` and ``views``;
  ``simplify`` orders them; ``lower`` puts the kernels into the graph.
* For CPUs: ``planning`` says which loop becomes lanes, ``llvm`` writes the loops (``llvm_values``, ``far_reads``, ``folds``) of instructions (``llvm_text``,
  ``vectors``, ``vector_ops``, ``llvm_math``, ``llvm_tables``); ``read_ahead`` brings LLVM into memory, ``jit`` compiles by
  ``llvm_library`` (long modules in ``parts``), ``objects`` loads, ``kernel`` calls, ``threads`` shares units out.
* For GPUs: ``tiles`` shares points out, ``triton_source`` writes a kernel (``triton_ops``, ``triton_folds``, ``triton_text``), ``triton_rows`` and
  ``triton_random`` kernels of their own; ``triton_jit`` compiles, ``tuning`` measures, ``split_rows`` and ``stages`` cut long rows; ``gpu_forms`` shows it all
  without a GPU, ``device`` calls it on one, by way of ``driver``, ``images`` and ``setter``; ``recording`` captures.
* A whole ``While`` as one GPU kernel: ``triton_loops``, with ``loop_graphs``, ``loop_expressions``, ``loop_formulas``, ``loop_numbers``,
  ``loop_vectors``, and ``loop_blocks``, ``loop_choices`` and ``settled`` for large state, on CPUs too.
"""
