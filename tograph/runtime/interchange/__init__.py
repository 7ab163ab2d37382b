"""Graphs in the forms of other systems: ``fx`` (torch.fx with higher-order ops).

Other systems have fewer kinds of values and effects than the graph. What has no counterpart is an ``InterchangeError`` that
names the op and the user's line; nothing is left out.
"""
