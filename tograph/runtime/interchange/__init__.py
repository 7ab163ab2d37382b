"""Graphs in the forms of other systems: ``fx`` (torch.fx with higher-order ops) and ``onnx`` (ONNX with If and Loop).

Other systems have fewer kinds of values and effects than the graph. What has no counterpart is an ``InterchangeError`` that
names the op and the user's line; nothing is left out but what ``without`` is told to. Rewrites make the graph fit first: ``elements``,
``expansion``, ``optionals``, ``buffers`` (``list_rules``, ``lengths``, ``trips``), ``numbers``, ``failures`` (``messages``) and ``state``.
The entries of ONNX are in ``onnx_ops``, ``onnx_views``, ``onnx_places``, ``onnx_lists`` and ``onnx_gradients``.
"""
