"""Strings: literals, docstrings, f-strings, and the template strings of Python 3.14.

Model. A literal is its prefix, quotes, and the value escaped for them. A string with fields is a
list of pieces, code or text, printed between the first quotes that every field leaves free.

Invariant: before Python 3.12 a string inside a replacement field may hold neither a quote that
encloses it nor a backslash. ``_quotes`` holds the quotes still free; None means that anything goes.

Not handled: before Python 3.12, a field whose strings no quotes can hold. No source can express
that; the printer raises ValueError.
"""

import ast
import re
import sys

from ..syntax_trees import parse
from .writing import OR, TEST, Writer, constant

__all__ = ["Quoting", "docstring"]

# PEP 701: inside a replacement field any quotes and backslashes may stand.
FREE_FIELDS = sys.version_info >= (3, 12)
QUOTES = ('"', "'", '"""', "'''")

_SPECIAL = re.compile(r"[^\x20-\x7e]|\\")
_SPECIAL_IN_DOCSTRING = re.compile(r"[^\n\t\x20-\x7e]|\\")
# What no literal can hold unescaped, by the length of its quotes.
_IMPOSSIBLE = {1: re.compile("[\\\\\n\r\0\ud800-\udfff]"), 3: re.compile("[\\\\\r\0\ud800-\udfff]")}


class _NoQuotesLeft(ValueError):
    """A string inside a replacement field fits between none of the quotes that are still free."""


def _escape(value: str | bytes, special: re.Pattern) -> str:
    """The inside of a literal, with every character but the quotes escaped where it must be."""
    if isinstance(value, bytes):
        special = special if value.isascii() else _SPECIAL
        return special.sub(lambda m: ascii(m[0])[1:-1], value.decode("latin-1"))
    return special.sub(lambda m: repr(m[0])[1:-1], value)


def _escape_quotes(text: str, quote: str) -> str:
    """Escaped text that may stand between two of ``quote``."""
    if len(quote) == 1:
        return text.replace(quote, "\\" + quote)
    end = text[-1:] if text.endswith(quote[0]) else ""
    text = text.removesuffix(end).replace(quote, ("\\" + quote[0]) * 3)
    return text + end.replace(quote[0], "\\" + quote[0])


def docstring(value: str) -> str:
    """The triple-quoted literal of a docstring, raw where that saves doubled backslashes."""
    plain = not _SPECIAL_IN_DOCSTRING.search(value.replace("\\", ""))
    if "\\" in value and plain and '"""' not in value and value[-1] not in '"\\':
        return f'r"""{value}"""'
    return f'"""{_escape_quotes(_escape(value, _SPECIAL_IN_DOCSTRING), QUOTES[2])}"""'


def _joined(pieces: list[tuple[bool, str]], quote: str) -> str:
    """The pieces of a string with fields, as they stand between ``quote``."""
    return "".join(text if is_code else _escape_quotes(text, quote) for is_code, text in pieces)


def _free_inside(quote: str, free: tuple[str, ...]) -> tuple[str, ...]:
    """The quotes that a replacement field between two of ``quote`` may still use."""
    if len(quote) == 3:
        return tuple(q for q in free if q != quote)
    # A triple-quoted literal holds line ends, which one-character quotes around it forbid.
    return tuple(q for q in free if len(q) == 1 and q != quote)


def _ends_in_lambda(node: ast.expr) -> bool:
    while isinstance(node, ast.IfExp):
        node = node.orelse
    return isinstance(node, ast.Lambda)


class Quoting(Writer):
    """Prints constants and strings with fields."""

    def _Constant(self, t):
        value = t.value
        if isinstance(value, (str, bytes)):
            prefix = "b" if isinstance(value, bytes) else "u" if t.kind == "u" else ""
            self._write_lines(self._literal(value, prefix), t)
        elif value is Ellipsis:
            self.write("...")
        else:
            self.write(constant(value))

    def _literal(self, value, prefix):
        """A string or bytes literal between quotes that are free here."""
        text = repr(value).removeprefix("b")
        if self._quotes is None:
            return prefix + text
        for quote in sorted(self._quotes, key=lambda quote: quote != text[0]):
            inside = _escape_quotes(_escape(value, self._special(quote)), quote)
            if FREE_FIELDS or "\\" not in inside:
                return prefix + quote + inside + quote
        raise _NoQuotesLeft(f"no quotes are left for {prefix}{text} inside an f-string")

    def _special(self, quote):
        """What to escape between ``quote`` here; where no backslash may stand, the least."""
        return _SPECIAL if self._quotes is None or FREE_FIELDS else _IMPOSSIBLE[len(quote)]

    # Strings with fields: f-strings, and the template strings of 3.14

    def _JoinedStr(self, t):
        marked = [isinstance(v, ast.Constant) and v.kind == "u" for v in t.values]
        if not any(marked):
            self._write_lines(self._string_with_fields("f", t.values), t)
            return
        # `u"a" f"{x}"` marks its constants; before 3.12 the first literal marks all of them.
        texts = [] if marked[0] or FREE_FIELDS else ["u''"]
        run = []
        for value, is_marked in zip(t.values, marked, strict=True):
            if not is_marked:
                run.append(value)
                continue
            if run:
                texts.append(self._string_with_fields("f", run))
            texts.append(self._literal(value.value, "u"))
            run = []
        if run or all(marked):
            texts.append(self._string_with_fields("f", run))
        self._write_lines(" ".join(texts), t)

    def _TemplateStr(self, t):
        self._write_lines(self._string_with_fields("t", t.values), t)

    def _FormattedValue(self, t):
        self._write_lines(self._string_with_fields("f", [t]), t)

    def _Interpolation(self, t):
        self._write_lines(self._string_with_fields("t", [t]), t)

    def _string_with_fields(self, prefix, values):
        """An f-string or t-string: the first quotes between which all of its fields can stand."""
        failure = _NoQuotesLeft("no quotes are left for an f-string inside an f-string")
        free = QUOTES if self._quotes is None else self._quotes
        for quote in free:
            try:
                pieces = self._pieces(values, quote, _free_inside(quote, free))
                return prefix + self._join_pieces(pieces, quote, free)
            except _NoQuotesLeft as error:
                failure = error
        if not FREE_FIELDS:
            raise failure
        quote = QUOTES[0]
        return prefix + quote + _joined(self._pieces(values, quote, None), quote) + quote

    def _join_pieces(self, pieces, quote, free):
        """Pieces between quotes; if no field has quotes, the ones that repr would choose."""
        code = "".join(text for is_code, text in pieces if is_code)
        if quote in code:
            raise _NoQuotesLeft(f"a field of an f-string holds {quote}")
        if len(quote) == 1 and not re.search("['\"]", code):
            likely = repr("".join(text for is_code, text in pieces if not is_code))[0]
            quote = likely if likely in free else quote
        inside = _joined(pieces, quote)
        if "\\" in inside and self._quotes is not None and not FREE_FIELDS:
            raise _NoQuotesLeft("an f-string inside an f-string needs a backslash")
        return quote + inside + quote

    def _pieces(self, values, quote, free, in_format=False):
        """The parts of a string as pairs (is code, text); literal text has no quotes escaped."""
        pieces = []
        for value in values:
            if isinstance(value, ast.JoinedStr):
                pieces += self._pieces(value.values, quote, free, in_format)
            elif isinstance(value, ast.Constant):
                text = _escape(value.value, self._special(quote))
                # A doubled brace does not stand for a brace in a format specification.
                braces = ("\\x7b", "\\x7d") if in_format else ("{{", "}}")
                text = text.translate(dict(zip(map(ord, "{}"), braces, strict=True)))
                pieces.append((False, text))
            else:
                pieces += self._field(value, quote, free)
        return pieces

    def _field(self, t, quote, free):
        code = self._verbatim(t) or self._code(t.value, free)
        code = ("{ " if code.startswith("{") else "{") + code
        if t.conversion is not None and t.conversion != -1:
            code += "!" + chr(t.conversion)
        if t.format_spec is None:
            return [(True, code + "}")]
        specification = self._pieces([t.format_spec], quote, free, in_format=True)
        return [(True, code + ":"), *specification, (True, "}")]

    def _code(self, node, quotes):
        """The text of an expression that stands in a replacement field."""
        saved = self._parts, self._quotes
        self._parts, self._quotes = [], quotes
        self._fields += 1
        try:
            # The colon of a bare lambda would start the format specification.
            self.nested(node, OR if _ends_in_lambda(node) else TEST)
            return "".join(self._parts)
        finally:
            self._fields -= 1
            self._parts, self._quotes = saved

    def _verbatim(self, t):
        """The text that an Interpolation remembers, as long as it still means the expression."""
        text = getattr(t, "str", None)
        if not isinstance(text, str):
            return None
        try:
            (field,) = parse(f'f"{{ {text}}}"', mode="eval").body.values
        except (SyntaxError, ValueError):
            return None
        bare = isinstance(field, ast.FormattedValue) and field.conversion == -1
        same = bare and field.format_spec is None and ast.dump(field.value) == ast.dump(t.value)
        return text if same else None
