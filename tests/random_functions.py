"""Functions made of generated text, and calls of them without conversion."""

import linecache

import torch

import tograph as tg


def define(source, name, result="f"):
    """The function ``result`` of a source text, which is found under ``name``."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    space = {"torch": torch, "tg": tg}
    exec(compile(source, name, "exec"), space)
    return space[result]


def eager(call):
    tg.run_functions_eagerly(True)
    try:
        return call()
    finally:
        tg.run_functions_eagerly(False)
