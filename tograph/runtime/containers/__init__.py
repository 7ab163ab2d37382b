"""Containers with value semantics: ``TensorList``, ``TensorArray`` and ``Optional``. They may be state and results.

Every method that changes a container returns a new one. While tracing, the content is a graph value (a ``Handle``);
outside it is a tuple of tensors, and the methods run at once.
"""

from .optional import Optional
from .tensor_array import TensorArray
from .tensor_list import TensorList

__all__ = ["Optional", "TensorArray", "TensorList"]
