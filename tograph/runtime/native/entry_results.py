"""LLVM text of what an entry gives: places for the outputs, their objects, and new versions of what was written.

Parts of the module that ``entry_text`` describes and puts together. ``LOOK`` and ``KEEP`` stand for ``$look`` and ``$keep`` where results are kept
(``recycling``), one of the ``BUMP`` texts for ``$bump``.
"""

MAKE = """
; A place for an output: a kept tensor that nobody has, or a new one. A new tensor's handle and a kept one's object go into their arrays.
define internal i1 @place(ptr %table, i64 %i, ptr %record, ptr %slot, ptr %handles, ptr %objects, i1 %keeping) alwaysinline {
entry:
  %handle_at = getelementptr ptr, ptr %handles, i64 %i
  %object_at = getelementptr ptr, ptr %objects, i64 %i
  store ptr null, ptr %handle_at
  store ptr null, ptr %object_at
  %kind = call i64 @word(ptr %record, i64 0)
  %tensor = icmp eq i64 %kind, 0
  br i1 %tensor, label %known, label %other
other:
  %left = icmp sge i64 %kind, $numbers
  br i1 %left, label %grown, label %done
grown:
  %block = call i64 @word(ptr %record, i64 $block)
  store i64 %block, ptr %slot
  br label %done
known:
$look
new:
  %rank = call i64 @word(ptr %record, i64 1)
  %dtype = call i64 @word(ptr %record, i64 2)
  %type = trunc i64 %dtype to i32
  %sizes = getelementptr i64, ptr %record, i64 4
  %strides = getelementptr i64, ptr %record, i64 $first_stride
  %failed = call i32 @aoti_torch_empty_strided(i64 %rank, ptr %sizes, ptr %strides, i32 %type, i32 0, i32 0, ptr %handle_at)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %data, label %no
data:
  %handle = load ptr, ptr %handle_at
  call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %slot)
  ret i1 true
done:
  ret i1 true
no:
  store ptr null, ptr %handle_at
  ret i1 false
}
define internal void @give_back(ptr %handles, i64 %count) {
entry:
  %k = alloca i64
  store i64 0, ptr %k
  br label %next
next:
  %i = load i64, ptr %k
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %done
one:
  %after = add i64 %i, 1
  store i64 %after, ptr %k
  %handle = call ptr @pointer(ptr %handles, i64 %i)
  %none = icmp eq ptr %handle, null
  br i1 %none, label %next, label %delete
delete:
  call i32 @aoti_torch_delete_tensor_object(ptr %handle)
  br label %next
done:
  ret void
}
"""

LOOK = """  %keep = call i64 @word(ptr %record, i64 3)
  %small = icmp ne i64 %keep, 0
  %kept = and i1 %small, %keeping
  br i1 %kept, label %look0, label %new
look0:
  %items = call ptr @pointer(ptr %table, i64 $items)
  %snapshots = call ptr @pointer(ptr %table, i64 $snapshots)
  %number0 = mul i64 %i, 2
  %item0 = call ptr @pointer(ptr %items, i64 %number0)
  %offset0 = mul i64 %number0, $snapshot
  %snapshot0 = getelementptr i8, ptr %snapshots, i64 %offset0
  %free0 = call i1 @untouched(ptr %item0, ptr %snapshot0)
  br i1 %free0, label %again, label %look1
look1:
  %number1 = add i64 %number0, 1
  %item1 = call ptr @pointer(ptr %items, i64 %number1)
  %snapshot1 = getelementptr i8, ptr %snapshot0, i64 $snapshot
  %free1 = call i1 @untouched(ptr %item1, ptr %snapshot1)
  br i1 %free1, label %again, label %new
again:
  %object = phi ptr [%item0, %look0], [%item1, %look1]
  store ptr %object, ptr %object_at
  %kept_handle = getelementptr i8, ptr %object, i64 $tensor
  call i32 @aoti_torch_get_data_ptr(ptr %kept_handle, ptr %slot)
  ret i1 true
"""

RESULT = """
; The object of an output, with a reference for the caller.
define internal ptr @result(ptr %table, i64 %outputs, i64 %i, ptr %record, ptr %slot, ptr %handles, ptr %objects, i1 %keeping) alwaysinline {
entry:
  %kind = call i64 @word(ptr %record, i64 0)
  switch i64 %kind, label %tensor [i64 1, label %int i64 2, label %float i64 3, label %bool i64 $numbers, label %numbers i64 $rows, label %rows i64 $object, label %object i64 $listed, label %listed]
int:
  %n = load i64, ptr %slot
  %long = call ptr @PyLong_FromLongLong(i64 %n)
  ret ptr %long
float:
  %f = load double, ptr %slot
  %double = call ptr @PyFloat_FromDouble(double %f)
  ret ptr %double
bool:
  %b = load i8, ptr %slot
  %wide = zext i8 %b to i64
  %truth = call ptr @PyBool_FromLong(i64 %wide)
  ret ptr %truth
numbers:
  %list = call ptr @numbers(ptr %record)
  ret ptr %list
rows:
  %rows_made = call ptr @rows(ptr %record)
  ret ptr %rows_made
listed:
  %list_made = call ptr @listed(ptr %record)
  ret ptr %list_made
object:
  %maker = call ptr @pointer(ptr %record, i64 $maker)
  %object_made = call ptr @PyObject_CallNoArgs(ptr %maker)
  ret ptr %object_made
tensor:
  %kept = call ptr @pointer(ptr %objects, i64 %i)
  %new = icmp eq ptr %kept, null
  br i1 %new, label %wrapped, label %again
again:
  call void @Py_IncRef(ptr %kept)
  ret ptr %kept
wrapped:
  %handle_at = getelementptr ptr, ptr %handles, i64 %i
  %handle = load ptr, ptr %handle_at
  %made = call ptr @wrap(ptr %handle)
  store ptr null, ptr %handle_at
  call i32 @aoti_torch_delete_tensor_object(ptr %handle)
$keep
  ret ptr %made
}
"""

# The older of the two kept tensors makes room: its object may go here, and with it what hangs on it.
KEEP = """  %keep = call i64 @word(ptr %record, i64 3)
  %fine = icmp ne ptr %made, null
  %small = icmp ne i64 %keep, 0
  %wanted = and i1 %small, %keeping
  %keeps = and i1 %fine, %wanted
  br i1 %keeps, label %store, label %out
store:
  %items = call ptr @pointer(ptr %table, i64 $items)
  %snapshots = call ptr @pointer(ptr %table, i64 $snapshots)
  %turns_offset = mul i64 %outputs, $both
  %turns = getelementptr i8, ptr %snapshots, i64 %turns_offset
  %turn_at = getelementptr i64, ptr %turns, i64 %i
  %turn = load i64, ptr %turn_at
  %other = xor i64 %turn, 1
  store i64 %other, ptr %turn_at
  %twice = mul i64 %i, 2
  %number = add i64 %twice, %turn
  %item_at = getelementptr ptr, ptr %items, i64 %number
  %old = load ptr, ptr %item_at
  %offset = mul i64 %number, $snapshot
  %snapshot = getelementptr i8, ptr %snapshots, i64 %offset
  call void @note(ptr %made, ptr %snapshot)
  call void @Py_IncRef(ptr %made)
  store ptr %made, ptr %item_at
  call void @Py_DecRef(ptr %old)
  br label %out
out:"""

VERSIONS = """
; New versions for what was written.
define internal i1 @versions(ptr %table, ptr %args, ptr %records) {
entry:
  %k = alloca i64
  %count = call i64 @word(ptr %table, i64 $written)
  %given = call i64 @word(ptr %table, i64 $given)
  store i64 0, ptr %k
  br label %next
next:
  %a = load i64, ptr %k
  %more = icmp slt i64 %a, %count
  br i1 %more, label %one, label %yes
one:
  %a1 = add i64 %a, 1
  store i64 %a1, ptr %k
  %place = add i64 %a, $HEAD
  %i = call i64 @word(ptr %table, i64 %place)
  %item = call ptr @item(ptr %args, ptr %records, i64 %i, i64 %given)
$bump
yes:
  ret i1 true
no:
  ret i1 false
}
define internal ptr @item(ptr %args, ptr %records, i64 %i, i64 %given) alwaysinline {
  %argument = icmp slt i64 %i, %given
  %start = mul i64 %i, $RECORD
  %arg_at = getelementptr ptr, ptr %args, i64 %i
  %captured_at = getelementptr ptr, ptr %records, i64 %start
  %at = select i1 %argument, ptr %arg_at, ptr %captured_at
  %item = load ptr, ptr %at
  ret ptr %item
}
"""

GIVEN = """
; What is given: an input itself, or the object of an output.
define internal ptr @given(ptr %table, ptr %args, i64 %i, ptr %slots, ptr %handles, ptr %objects, i1 %keeping) alwaysinline {
entry:
  %inputs = call i64 @word(ptr %table, i64 $inputs)
  %given = call i64 @word(ptr %table, i64 $given)
  %first_input = call i64 @word(ptr %table, i64 $first_input)
  %in_records = getelementptr i64, ptr %table, i64 %first_input
  %first_result = call i64 @word(ptr %table, i64 $first_result)
  %start = mul i64 %i, $RESULT
  %at = add i64 %first_result, %start
  %words = getelementptr i64, ptr %table, i64 %at
  %place = call i64 @word(ptr %words, i64 0)
  %choice = call i64 @word(ptr %words, i64 1)
  %one = icmp eq i64 %choice, 0
  br i1 %one, label %found, label %chosen
chosen:
  %index_place = sub i64 %choice, 1
  %index = call i64 @word(ptr %slots, i64 %index_place)
  %options = call i64 @word(ptr %words, i64 2)
  %option_at = add i64 %options, %index
  %option = call i64 @word(ptr %table, i64 %option_at)
  %new = icmp slt i64 %option, 0
  br i1 %new, label %found, label %known
found:
  %in = icmp slt i64 %place, %inputs
  br i1 %in, label %known, label %made
known:
  %number = phi i64 [%option, %chosen], [%place, %found]
  %item = call ptr @item(ptr %args, ptr %in_records, i64 %number, i64 %given)
  call void @Py_IncRef(ptr %item)
  ret ptr %item
made:
  %output = sub i64 %place, %inputs
  %outputs = call i64 @word(ptr %table, i64 $outputs)
  %first_output = call i64 @word(ptr %table, i64 $first_output)
  %out_records = getelementptr i64, ptr %table, i64 %first_output
  %out_start = mul i64 %output, $RECORD
  %record = getelementptr i64, ptr %out_records, i64 %out_start
  %slot = getelementptr i64, ptr %slots, i64 %place
  %x = call ptr @result(ptr %table, i64 %outputs, i64 %output, ptr %record, ptr %slot, ptr %handles, ptr %objects, i1 %keeping)
  ret ptr %x
}
"""

BUMP_DIRECTLY = """  %handle = getelementptr i8, ptr %item, i64 $tensor
  %x = load ptr, ptr %handle
  %counted = getelementptr i8, ptr %x, i64 $counter
  %counter = load ptr, ptr %counted
  %version = getelementptr i8, ptr %counter, i64 $version
  atomicrmw add ptr %version, i32 1 seq_cst
  br label %next"""

BUMP_BY_PYTHON = """  %got = call ptr @PyObject_CallOneArg(ptr @new_version, ptr %item)
  %failed = icmp eq ptr %got, null
  br i1 %failed, label %no, label %bumped
bumped:
  call void @Py_DecRef(ptr %got)
  br label %next"""
