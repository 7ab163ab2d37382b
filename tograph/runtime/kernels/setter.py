"""The kernel that writes a condition into the handle of a conditional node, as PTX text.

``cudaGraphSetConditional`` exists on the device only; the driver binds the name when it loads the module, so the module that is
assembled here leaves it undefined. It is a module of its own: a driver that does not know the name still loads
everything else. ``tg_set`` writes 1 where the cell is true and the error cell, if there is one, is 0; ``tg_set_index`` writes
the number of a SWITCH body: the cell's where it is below ``last``, else ``last``. ``inline`` is the same for the inside of another
kernel (``fused_code``).
"""

from __future__ import annotations

SET, SET_INDEX, INVERTED = "tg_set", "tg_set_index", "tg_set_inverted"

EXTERN = ".extern .func cudaGraphSetConditional (.param .b64 p_handle, .param .b32 p_value);\n"

_CALL = """  {{
    .param .b64 p_handle;
    .param .b32 p_value;
    st.param.b64 [p_handle], %handle;
    st.param.b32 [p_value], {value};
    call.uni cudaGraphSetConditional, (p_handle, p_value);
  }}
  ret;
"""

_PREDICATE = """.visible .entry {name}(.param .u64 a_handle, .param .u64 a_cell, .param .u64 a_error)
{{
  .reg .pred %false, %none, %failed;
  .reg .b16 %byte;
  .reg .b32 %value, %code;
  .reg .b64 %handle, %cell, %error;
  ld.param.u64 %handle, [a_handle];
  ld.param.u64 %cell, [a_cell];
  ld.param.u64 %error, [a_error];
  cvta.to.global.u64 %cell, %cell;
  ld.global.u8 %byte, [%cell];
  setp.eq.u16 %false, %byte, 0;
  selp.u32 %value, {if_false}, {if_true}, %false;
  setp.eq.u64 %none, %error, 0;
  @%none bra SET;
  cvta.to.global.u64 %error, %error;
  ld.global.u32 %code, [%error];
  setp.ne.u32 %failed, %code, 0;
  selp.u32 %value, 0, %value, %failed;
SET:
{call}}}
"""

_INDEX = """.visible .entry {name}(.param .u64 a_handle, .param .u64 a_cell, .param .u64 a_last)
{{
  .reg .pred %inside;
  .reg .b32 %value;
  .reg .b64 %handle, %cell, %index, %last;
  ld.param.u64 %handle, [a_handle];
  ld.param.u64 %cell, [a_cell];
  ld.param.u64 %last, [a_last];
  cvta.to.global.u64 %cell, %cell;
  ld.global.u64 %index, [%cell];
  setp.lo.u64 %inside, %index, %last;
  selp.u64 %index, %index, %last, %inside;
  cvt.u32.u64 %value, %index;
{call}}}
"""


def ptx() -> str:
    """The module's text, for sm_80 and every later architecture: PTX is assembled for a newer one as it is."""
    call = _CALL.format(value="%value")
    parts = [
        ".version 8.3\n.target sm_80\n.address_size 64\n",
        EXTERN,
        _PREDICATE.format(name=SET, if_false=0, if_true=1, call=call),
        _PREDICATE.format(name=INVERTED, if_false=1, if_true=0, call=call),
        _INDEX.format(name=SET_INDEX, call=call),
    ]
    return "\n".join(parts)


_INLINE = """  {{
  .reg .pred tg_other, tg_test;
  .reg .b16 tg_byte;
  .reg .b32 tg_thread, tg_value, tg_code;
  .reg .b64 tg_index;
  mov.u32 tg_thread, %tid.x;
  setp.ne.u32 tg_other, tg_thread, 0;
  @tg_other bra TG_DONE_{number};
{value}{failed}  {{
    .param .b64 p_handle;
    .param .b32 p_value;
    st.param.b64 [p_handle], {handle};
    st.param.b32 [p_value], tg_value;
    call cudaGraphSetConditional, (p_handle, p_value);
  }}
TG_DONE_{number}:
  }}"""

_TRUTH = """  ld.global.u8 tg_byte, [{cell}];
  setp.eq.u16 tg_test, tg_byte, 0;
  selp.u32 tg_value, {if_false}, {if_true}, tg_test;
"""

_FAILED = """  ld.global.u32 tg_code, [{error}];
  setp.ne.u32 tg_test, tg_code, 0;
  selp.u32 tg_value, 0, tg_value, tg_test;
"""

_NUMBER = """  ld.global.u64 tg_index, [{cell}];
  setp.lo.u64 tg_test, tg_index, {last};
  selp.u64 tg_index, tg_index, {last}, tg_test;
  cvt.u32.u64 tg_value, tg_index;
"""


def inline(number: int, how: str, last: str, handle: str, cell: str, error: str | None) -> str:
    """What the setter ``how`` does, for the first thread of a kernel; ``handle``, ``cell`` and ``error`` are its registers.

    ``number`` tells the places of one kernel apart. A switch has no error: as in the setter, its number is what the cell says.
    """
    if how == SET_INDEX:
        value, failed = _NUMBER.format(cell=cell, last=last), ""
    else:
        value = _TRUTH.format(cell=cell, if_false=int(how == INVERTED), if_true=int(how == SET))
        failed = _FAILED.format(error=error) if error else ""
    return _INLINE.format(number=number, value=value, failed=failed, handle=handle)
