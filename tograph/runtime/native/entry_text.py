"""The LLVM text of the call path: one function for all programs, which reads from a table what a program takes and gives.

Where the word ``host`` is a Python function, it gets the arguments that fit, and what it returns is the result. ``watch`` says what tensors may require a gradient while
gradients are enabled: ``NONE``; ``THOSE`` of which a record says so, and gradients are enabled, where that function joins calls with autograd; ``ANY``, where nothing is recorded anyway.

So a new entry costs no compilation, and the text, which depends on torch's layout only, is compiled once on a machine. The table
is the content of the ``bytes`` object that is the function's ``self``. It holds words of eight bytes, written by ``entry``:

``HEAD`` words, by the names in ``WORDS``; then the numbers of the inputs that are written; then a record of ``RECORD`` words for each input:
the captured tensor or 0, rank (of a number ``number``, of a list ``LISTED``), dtype (of a list the type of its items), bytes, sizes (``OPEN`` where any is right: the bytes are those for 1), strides (``OPEN``: as of a tensor that lies in a row), how many sizes are ``OPEN``, and whether it has to require a gradient, where gradients are enabled; then one for each output: kind (``KINDS``, ``LEFT``), rank, dtype, whether it is kept,
sizes, strides, and of what a call leaves in buffers the block that tells where it is, what makes the result of it in Python, and the bytes of a row or the pool's address (of a list of a pool the dtype is how many buffers it has); then ``RESULT`` words for each result: its place among the inputs and outputs; 1 more than the place of an index, or 0; where its options stand. At the
end stand the options of all results: for each number of an index the input that is given, or -1 for what is in the result's place.

``$name`` in the text is a number of this process's torch or Python. Loops count on the stack: the text is compiled without
optimisation, which would gain nothing that can be measured.
"""

from __future__ import annotations

from string import Template
from typing import Any

import torch

from . import entry_checks, entry_left, entry_results, recycling
from .buffers import COPIED, KEPT
from .layout import MAX_RANK, Layout
from .pool import DATA

WORDS = ("given", "inputs", "outputs", "single", "random", "program", "arena", "busy", "default", "written", "first_input",
         "first_output", "items", "snapshots", "host", "repeats", "results", "first_result", "leaves", "watch")  # fmt: skip
HEAD = len(WORDS)
BLOCK = 4 + 2 * MAX_RANK  # the first of the words for what is left in buffers
RECORD = BLOCK + 3
NONE, THOSE, ANY = range(3)  # of the word ``watch``
WATCHED = BLOCK + 1  # the word of an input that says whether it has to require a gradient
RESULT = 3
KINDS = {torch.Tensor: 0, int: 1, float: 2, bool: 3}
LEFT = {
    "numbers": 4,
    "rows": 5,
    "object": 6,
    "listed": 7,
}  # a list of numbers, with their kind for a dtype; a tensor as long as the run says; what Python makes; a list that other programs read
NUMBER_TENSOR = -8  # added to what stands for a number
LISTED = -7  # stands for the rank of an input that is such a list
OPEN = (
    -1
)  # stands for a size of an input that only the run knows, and for a stride that follows from such
CELL = MAX_RANK + 1  # words of an input's cell: for sizes and the data pointer
TABLE = bytes.__basicsize__ - 1  # where the content of a bytes object is

_DECLARES = """declare zeroext i1 @function_mode()
declare zeroext i1 @key_included(i16)
declare zeroext i1 @key_excluded(i16)
declare zeroext i1 @grad_enabled()
declare zeroext i1 @requires_grad(ptr)
declare i8 @default_dtype()
declare ptr @wrap(ptr)
declare i32 @aoti_torch_get_data_ptr(ptr, ptr)
declare i32 @aoti_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @aoti_torch_delete_tensor_object(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyBool_FromLong(i64)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare double @PyFloat_AsDouble(ptr)
declare ptr @PyObject_CallNoArgs(ptr)
declare ptr @PyObject_CallOneArg(ptr, ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare ptr @PyDict_GetItemWithError(ptr, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
@miss_object = external global i8
@tensor_class = external global i8
@parameter_class = external global i8
@variable_class = external global i8
@int_class = external global i8
@rows_class = external global i8
@float_class = external global i8
@bool_class = external global i8
@true_object = external global i8
@random_state = external global i8
@set_random_state = external global i8
@new_version = external global i8
@forward_names = external global i8
@level_name = external global i8
@no_level = external global i8
"""

_WORD = """
define internal i64 @word(ptr %table, i64 %i) alwaysinline {
  %place = getelementptr i64, ptr %table, i64 %i
  %w = load i64, ptr %place
  ret i64 %w
}
define internal ptr @pointer(ptr %table, i64 %i) alwaysinline {
  %place = getelementptr i64, ptr %table, i64 %i
  %w = load ptr, ptr %place
  ret ptr %w
}
"""

_CALL = """
define ptr @call(ptr %self, ptr %args, i64 %count) {
entry:
  %k = alloca i64
  %table = getelementptr i8, ptr %self, i64 $TABLE
  %given = call i64 @word(ptr %table, i64 $given)
  %complete = icmp eq i64 %count, %given
  br i1 %complete, label %between, label %miss
between:
  %dtype = call i64 @word(ptr %table, i64 $default)
  %plain = call i1 @nothing_between(i64 %dtype)
  br i1 %plain, label %start, label %miss
start:
  %inputs = call i64 @word(ptr %table, i64 $inputs)
  %outputs = call i64 @word(ptr %table, i64 $outputs)
  %first_input = call i64 @word(ptr %table, i64 $first_input)
  %first_output = call i64 @word(ptr %table, i64 $first_output)
  %in_records = getelementptr i64, ptr %table, i64 %first_input
  %out_records = getelementptr i64, ptr %table, i64 %first_output
  %both = add i64 %inputs, %outputs
  %size = add i64 %both, 1
  %cells_size = mul i64 %size, $CELL
  %slots = alloca i64, i64 %size, align 16
  %cells = alloca i64, i64 %cells_size
  %handles = alloca ptr, i64 %size
  %objects = alloca ptr, i64 %size
  %out_slots = getelementptr i64, ptr %slots, i64 %inputs
  %grad = call zeroext i1 @grad_enabled()
  %keeping = call zeroext i1 @key_included(i16 $usual) ; in inference mode tensors are of another kind
  %watch = call i64 @word(ptr %table, i64 $watch)
  %joins = icmp eq i64 %watch, $THOSE
  %unjoined = xor i1 %joins, true
  %recorded = or i1 %grad, %unjoined
  %never = icmp eq i64 %watch, $ANY
  %always = xor i1 %never, true
  %watches = and i1 %grad, %always
  store i64 0, ptr %k
  br i1 %recorded, label %take, label %miss
take:
  %i = load i64, ptr %k
  %taking = icmp slt i64 %i, %inputs
  br i1 %taking, label %taken, label %pairs
taken:
  %i1 = add i64 %i, 1
  store i64 %i1, ptr %k
  %item = call ptr @item(ptr %args, ptr %in_records, i64 %i, i64 %given)
  %in_start = mul i64 %i, $RECORD
  %in_record = getelementptr i64, ptr %in_records, i64 %in_start
  %argument = icmp slt i64 %i, %given
  %slot = getelementptr i64, ptr %slots, i64 %i
  %cell_number = mul i64 %i, $CELL
  %cell = getelementptr i64, ptr %cells, i64 %cell_number
  %fits = call i1 @input(ptr %item, ptr %in_record, i1 %argument, i1 %watches, ptr %slot, ptr %cell)
  br i1 %fits, label %take, label %miss
pairs:
  %repeats = call i64 @word(ptr %table, i64 $repeats)
  %separately = icmp eq i64 %repeats, 0
  br i1 %separately, label %twice, label %kind
twice:
  %different = call i1 @distinct(ptr %args, ptr %in_records, i64 %given)
  br i1 %different, label %kind, label %miss
kind:
  %python = call ptr @pointer(ptr %table, i64 $host)
  %compiled = icmp eq ptr %python, null
  br i1 %compiled, label %memory, label %host
host:
  %answer = call ptr @PyObject_Vectorcall(ptr %python, ptr %args, i64 %count, ptr null)
  ret ptr %answer
memory:
  %separate = call i1 @apart(ptr %table, ptr %in_records, ptr %slots)
  br i1 %separate, label %lock, label %miss
lock:
  %busy = call ptr @pointer(ptr %table, i64 $busy)
  %at_work = load i64, ptr %busy
  %idle = icmp eq i64 %at_work, 0
  br i1 %idle, label %generator, label %miss
generator:
  %draws = call i64 @word(ptr %table, i64 $random)
  %random = icmp ne i64 %draws, 0
  br i1 %random, label %remember, label %allocate
remember:
  %asked = call ptr @PyObject_CallNoArgs(ptr @random_state)
  %unknown = icmp eq ptr %asked, null
  br i1 %unknown, label %failed, label %allocate
allocate:
  %state = phi ptr [null, %generator], [%asked, %remember]
  store i64 0, ptr %k
  br label %make
make:
  %j = load i64, ptr %k
  %making = icmp slt i64 %j, %outputs
  br i1 %making, label %made, label %run
made:
  %j1 = add i64 %j, 1
  store i64 %j1, ptr %k
  %out_start = mul i64 %j, $RECORD
  %out_record = getelementptr i64, ptr %out_records, i64 %out_start
  %out_slot = getelementptr i64, ptr %out_slots, i64 %j
  %there = call i1 @place(ptr %table, i64 %j, ptr %out_record, ptr %out_slot, ptr %handles, ptr %objects, i1 %keeping)
  br i1 %there, label %make, label %without
without:
  call void @give_back(ptr %handles, i64 %j)
  br label %forget
run:
  %arena = call i64 @word(ptr %table, i64 $arena)
  %last = getelementptr i64, ptr %slots, i64 %both
  store i64 %arena, ptr %last
  %program = call ptr @pointer(ptr %table, i64 $program)
  store i64 1, ptr %busy
  %code = call i32 %program(ptr %slots)
  %done = icmp eq i32 %code, 0
  %leaves = call i64 @word(ptr %table, i64 $leaves)
  %still = select i1 %done, i64 %leaves, i64 0
  store i64 %still, ptr %busy ; what is in buffers belongs to this call until the results are made
  br i1 %done, label %written, label %notdone
written:
  %successes_at = getelementptr i64, ptr %busy, i64 1
  %successes = load i64, ptr %successes_at
  %one_more = add i64 %successes, 1
  store i64 %one_more, ptr %successes_at
  br i1 %random, label %forget_state, label %bump
forget_state:
  call void @Py_DecRef(ptr %state)
  br label %bump
bump:
  %bumped = call i1 @versions(ptr %table, ptr %args, ptr %in_records)
  br i1 %bumped, label %deliver, label %unversioned
unversioned:
  call void @settle(ptr %busy, i64 %leaves)
  call void @give_back(ptr %handles, i64 %outputs)
  br label %failed
deliver:
  %single = call i64 @word(ptr %table, i64 $single)
  %one = icmp ne i64 %single, 0
  br i1 %one, label %alone, label %several
alone:
  %only = call ptr @given(ptr %table, ptr %args, i64 0, ptr %slots, ptr %handles, ptr %objects, i1 %keeping)
  call void @settle(ptr %busy, i64 %leaves)
  call void @give_back(ptr %handles, i64 %outputs)
  ret ptr %only
several:
  %results = call i64 @word(ptr %table, i64 $results)
  %tuple = call ptr @PyTuple_New(i64 %results)
  store i64 0, ptr %k
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %unversioned, label %fill
fill:
  %m = load i64, ptr %k
  %filling = icmp slt i64 %m, %results
  br i1 %filling, label %filled, label %full
filled:
  %m1 = add i64 %m, 1
  store i64 %m1, ptr %k
  %x = call ptr @given(ptr %table, ptr %args, i64 %m, ptr %slots, ptr %handles, ptr %objects, i1 %keeping)
  %lost = icmp eq ptr %x, null
  br i1 %lost, label %drop, label %put
put:
  call i32 @PyTuple_SetItem(ptr %tuple, i64 %m, ptr %x)
  br label %fill
drop:
  call void @Py_DecRef(ptr %tuple)
  br label %unversioned
full:
  call void @settle(ptr %busy, i64 %leaves)
  call void @give_back(ptr %handles, i64 %outputs)
  ret ptr %tuple
notdone:
  call void @give_back(ptr %handles, i64 %outputs)
  %stopped = icmp eq i32 %code, 2
  br i1 %stopped, label %raise, label %declined
raise:
  br i1 %random, label %raise_state, label %failed
raise_state:
  call void @Py_DecRef(ptr %state)
  br label %failed
declined:
  br i1 %random, label %restore, label %miss
restore:
  %restored = call ptr @PyObject_CallOneArg(ptr @set_random_state, ptr %state)
  %bad = icmp eq ptr %restored, null
  br i1 %bad, label %raise_state, label %restored_state
restored_state:
  call void @Py_DecRef(ptr %restored)
  br label %forget
forget:
  br i1 %random, label %forgotten, label %miss
forgotten:
  call void @Py_DecRef(ptr %state)
  br label %miss
failed:
  ret ptr null
miss:
  call void @Py_IncRef(ptr @miss_object)
  ret ptr @miss_object
}
"""


def text(at: Layout, kept: recycling.Offsets | None, listed: tuple[int, int]) -> str:
    """The module: ``call`` is the function. ``kept``: how kept tensors are recognised; None: every result is new. ``listed``: where ``Rows`` has its type and words."""
    numbers = {
        "python": _key("Python"), "functorch": _key("FuncTorchDynamicLayerFrontMode"), "autocast": _key("AutocastCPU"), "tracer": _key("Tracer"),
        "usual": _key("ADInplaceOrView"),
        "tensor": at.tensor, "keys": at.keys, "plain": at.plain, "dtype": at.dtype, "rank": at.sizes - 8, "sizes": at.sizes,
        "number_tensor": NUMBER_TENSOR, "strides": at.strides, "first_stride": 4 + MAX_RANK, "HEAD": HEAD, "RECORD": RECORD, "RESULT": RESULT, "TABLE": TABLE,
        "block": BLOCK, "maker": BLOCK + 1, "watched": WATCHED, "THOSE": THOSE, "ANY": ANY, "row": BLOCK + 2, "COPIED": COPIED, "KEPT": KEPT, "DATA": DATA,
        "listed_input": LISTED, "open": OPEN, "opens": BLOCK, "CELL": CELL, "rows_item": listed[0], "rows_at": listed[1], "max_rank_bytes": 8 * MAX_RANK,
        **{name: i for i, name in enumerate(WORDS)}, **LEFT,
        **{kind.__name__: number(kind) for kind in KINDS if kind is not torch.Tensor},
    }  # fmt: skip
    more, look, keep = "", "  br label %new", "  br label %out\nout:"
    bump = entry_results.BUMP_BY_PYTHON
    if kept is not None:
        numbers |= {"snapshot": kept.size, "both": 2 * kept.size, "counter": kept.counter, "version": kept.version}  # fmt: skip
        more, look, keep = recycling.text(kept, at.tensor), entry_results.LOOK, entry_results.KEEP
        bump = entry_results.BUMP_DIRECTLY
    checks = (entry_checks.PLAIN, entry_checks.INPUT, entry_checks.APART)
    results = (
        entry_results.MAKE,
        entry_left.TEXT,
        entry_results.RESULT,
        entry_results.VERSIONS,
        entry_results.GIVEN,
    )
    chosen = {"look": look, "keep": keep, "bump": bump}
    body = "".join(
        Template(part).safe_substitute(chosen) for part in (_WORD, *checks, *results, _CALL)
    )
    return _DECLARES + more + Template(body).substitute({k: str(v) for k, v in numbers.items()})


def number(kind: type, for_tensor: bool = False) -> int:
    """What stands for the rank of an input that is a number; ``for_tensor``: the program takes a tensor of it."""
    return -1 - KINDS[kind] + (NUMBER_TENSOR if for_tensor else 0)


def _key(name: str) -> int:
    key: Any = torch._C._parse_dispatch_key(name)  # not all of them have a name in Python
    return int(key)
