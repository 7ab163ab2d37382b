"""Colours for a terminal: Python and the text of graphs. Without its escape codes a text is the plain one."""

import io
import itertools
import keyword
import re
import tokenize

STYLES = {"keyword": "35", "string": "32", "comment": "90", "number": "36"}
FSTRING_PARTS = ("FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END")  # token names since Python 3.12
STRING_TOKENS = {tokenize.STRING, *(getattr(tokenize, name, -1) for name in FSTRING_PARTS)}
GRAPH_TOKEN = re.compile(
    r"""(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<comment>\#.*)
    |(?P<keyword>\b(?:If|While|Case|Call|cond|body|then|orelse|return|IF|WHILE|SWITCH|plan|kernel)\b(?=[ (]|$))
    |(?P<number>(?<![\w%.^])-?\d+(?:\.\d*)?(?:e[+-]?\d+)?(?!\w))""",
    re.VERBOSE | re.MULTILINE,
)


LLVM_TOKEN = re.compile(
    r"""(?P<string>"[^"\n]*")
    |(?P<comment>;.*)
    |(?P<keyword>\b(?:define|declare|ret|br|switch|phi|call|load|store|select|alloca)\b)
    |(?P<number>(?<![\w%.@])(?:0x[0-9A-F]+|-?\d+(?:\.\d*)?)(?!\w))""",
    re.VERBOSE | re.MULTILINE,
)


def paint(text: str, style: str) -> str:
    """Text in a style, line by line: a pager forgets colours at the end of a line."""
    lines = text.split("\n")
    return "\n".join(f"\033[{STYLES[style]}m{line}\033[0m" if line else "" for line in lines)


def _token_style(token: tokenize.TokenInfo) -> str | None:
    if token.type in STRING_TOKENS:
        return "string"
    if token.type == tokenize.NAME and keyword.iskeyword(token.string):
        return "keyword"
    return {tokenize.COMMENT: "comment", tokenize.NUMBER: "number"}.get(token.type)


def highlight_python(source: str) -> str:
    """Python with colours; what cannot be tokenized stays plain."""
    starts = [0, *itertools.accumulate(map(len, io.StringIO(source)))]
    parts, done = [], 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if style := _token_style(token):
                start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
                parts += [source[done:start], paint(source[start:end], style)]
                done = end
    except (tokenize.TokenError, SyntaxError):
        return source
    return "".join(parts) + source[done:]


def highlight_graph(text: str) -> str:
    """The text of a graph with colours."""
    return GRAPH_TOKEN.sub(lambda found: paint(found[0], str(found.lastgroup)), text)


def highlight_llvm(text: str) -> str:
    """LLVM IR with colours."""
    return LLVM_TOKEN.sub(lambda found: paint(found[0], str(found.lastgroup)), text)
