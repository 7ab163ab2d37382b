"""The records of texts while a program runs, in LLVM IR: new ones, joined ones, Python's string of one, sweeps, comparisons. See ``text_pool``."""

from __future__ import annotations

MOST = 1 << 25  # the weight of all texts, of about 32 bytes each
OFTEN = 1 << 13  # the weight that a loop adds between two sweeps
LONGEST = 1 << 31  # characters
FIRST = 256  # records that there is room for at first


_FAULTS = ("ValueError", "TypeError", "OverflowError", "MemoryError")  # what texts themselves raise
_FORGET = "\n".join(f"""try{k}:
  %at{k} = load ptr, ptr @PyExc_{name}
  %is{k} = call i32 @PyErr_ExceptionMatches(ptr %at{k})
  %ours{k} = icmp ne i32 %is{k}, 0
  br i1 %ours{k}, label %clear, label %try{k + 1}""" for k, name in enumerate(_FAULTS))  # fmt: skip
FAULTS = {f"PyExc_{name}": f"@PyExc_{name} = external global ptr" for name in _FAULTS}
RECORDS = f"""; Forget that a text could not be made, so that the host makes it. What a handler of a signal has raised stays: Python runs them where it writes numbers.
define internal void @text_forget() noinline cold {{
  %error = call ptr @PyErr_Occurred()
  %none = icmp eq ptr %error, null
  br i1 %none, label %done, label %try0
{_FORGET}
clear:
  call void @PyErr_Clear()
  br label %done
try{len(_FAULTS)}:
  br label %done
done:
  ret void
}}
define internal ptr @text_at(ptr %pool, i64 %i) alwaysinline {{
  %base = load ptr, ptr %pool
  %at = getelementptr [4 x i64], ptr %base, i64 %i
  ret ptr %at
}}
define internal ptr @text_field(ptr %pool, i64 %i, i64 %k) alwaysinline {{
  %at = call ptr @text_at(ptr %pool, i64 %i)
  %field = getelementptr i64, ptr %at, i64 %k
  ret ptr %field
}}
define internal i64 @text_length(ptr %pool, i64 %i) alwaysinline {{
  %at = call ptr @text_field(ptr %pool, i64 %i, i64 2)
  %length = load i64, ptr %at
  ret i64 %length
}}
; A new record; -1 where there is no room.
define internal i64 @text_new(ptr %pool, i64 %left, i64 %right, i64 %length, ptr %flat, i64 %heavy) noinline {{
entry:
  %used_at = getelementptr i64, ptr %pool, i64 1
  %fits_at = getelementptr i64, ptr %pool, i64 2
  %weight_at = getelementptr i64, ptr %pool, i64 3
  %used = load i64, ptr %used_at
  %fits = load i64, ptr %fits_at
  %weight = load i64, ptr %weight_at
  %total = add i64 %weight, %heavy
  %over = icmp ugt i64 %total, {MOST}
  br i1 %over, label %none, label %look
look:
  %full = icmp uge i64 %used, %fits
  br i1 %full, label %more, label %ready
more:
  %old = load ptr, ptr %pool
  %twice = shl i64 %fits, 1
  %bytes = shl i64 %twice, 5
  %new = call ptr @realloc(ptr %old, i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %none, label %grown
grown:
  store ptr %new, ptr %pool
  store i64 %twice, ptr %fits_at
  br label %ready
ready:
  store i64 %total, ptr %weight_at
  %next = add i64 %used, 1
  store i64 %next, ptr %used_at
  %at = call ptr @text_at(ptr %pool, i64 %used)
  store i64 %left, ptr %at
  %right_at = getelementptr i64, ptr %at, i64 1
  store i64 %right, ptr %right_at
  %length_at = getelementptr i64, ptr %at, i64 2
  store i64 %length, ptr %length_at
  %flat_at = getelementptr i64, ptr %at, i64 3
  store ptr %flat, ptr %flat_at
  ret i64 %used
none:
  ret i64 -1
}}
; A string of Python, whose reference the record takes; -1 where there is none, with Python's error forgotten.
define internal i64 @text_own(ptr %pool, ptr %object) noinline {{
entry:
  %none = icmp eq ptr %object, null
  br i1 %none, label %failed, label %made
made:
  %length = call i64 @PyUnicode_GetLength(ptr %object)
  %bulk = lshr i64 %length, 5
  %heavy = add i64 %bulk, 1
  %i = call i64 @text_new(ptr %pool, i64 0, i64 0, i64 %length, ptr %object, i64 %heavy)
  %full = icmp slt i64 %i, 0
  br i1 %full, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %object)
  br label %done
failed:
  call void @text_forget()
  ret i64 -1
done:
  ret i64 %i
}}
define internal i64 @text_join(ptr %pool, i64 %a, i64 %b) noinline {{
entry:
  %m = call i64 @text_length(ptr %pool, i64 %a)
  %n = call i64 @text_length(ptr %pool, i64 %b)
  %first = icmp eq i64 %n, 0
  br i1 %first, label %left, label %look
look:
  %second = icmp eq i64 %m, 0
  br i1 %second, label %right, label %both
both:
  %length = add i64 %m, %n
  %long = icmp ugt i64 %length, {LONGEST}
  br i1 %long, label %none, label %new
new:
  %i = call i64 @text_new(ptr %pool, i64 %a, i64 %b, i64 %length, ptr null, i64 1)
  ret i64 %i
left:
  ret i64 %a
right:
  ret i64 %b
none:
  ret i64 -1
}}
; Python's string, which the record keeps; null where there is no memory.
define internal ptr @text_flat(ptr %pool, i64 %i) {{
  %at = call ptr @text_field(ptr %pool, i64 %i, i64 3)
  %flat = load ptr, ptr %at
  %known = icmp ne ptr %flat, null
  br i1 %known, label %done, label %write
write:
  %made = call ptr @text_write(ptr %pool, i64 %i)
  br label %done
done:
  %found = phi ptr [%flat, %0], [%made, %write]
  ret ptr %found
}}
define internal ptr @text_write(ptr %pool, i64 %i) noinline {{
entry:
  %top = alloca i64
  %used_at = getelementptr i64, ptr %pool, i64 1
  %used = load i64, ptr %used_at
  %bytes = shl i64 %used, 3
  %stack = call ptr @malloc(i64 %bytes)
  %no_stack = icmp eq ptr %stack, null
  br i1 %no_stack, label %none, label %begin
begin:
  store i64 0, ptr %top
  %parts = call ptr @PyList_New(i64 0)
  %no_parts = icmp eq ptr %parts, null
  br i1 %no_parts, label %lost, label %descend
pop:
  %above = load i64, ptr %top
  %empty = icmp eq i64 %above, 0
  br i1 %empty, label %join, label %take
take:
  %below = sub i64 %above, 1
  store i64 %below, ptr %top
  %next_at = getelementptr i64, ptr %stack, i64 %below
  %next = load i64, ptr %next_at
  br label %descend
descend:
  %k = phi i64 [%i, %begin], [%next, %take], [%left, %inner]
  %at = call ptr @text_at(ptr %pool, i64 %k)
  %flat_at = getelementptr i64, ptr %at, i64 3
  %flat = load ptr, ptr %flat_at
  %known = icmp ne ptr %flat, null
  br i1 %known, label %leaf, label %inner
inner:
  %left = load i64, ptr %at
  %right_at = getelementptr i64, ptr %at, i64 1
  %right = load i64, ptr %right_at
  %height = load i64, ptr %top
  %push_at = getelementptr i64, ptr %stack, i64 %height
  store i64 %right, ptr %push_at
  %higher = add i64 %height, 1
  store i64 %higher, ptr %top
  br label %descend
leaf:
  %failed = call i32 @PyList_Append(ptr %parts, ptr %flat)
  %fine = icmp eq i32 %failed, 0
  br i1 %fine, label %pop, label %drop
drop:
  call void @Py_DecRef(ptr %parts)
  br label %lost
join:
  call void @free(ptr %stack)
  %nothing_at = call ptr @text_field(ptr %pool, i64 0, i64 3)
  %nothing = load ptr, ptr %nothing_at
  %joined = call ptr @PyUnicode_Join(ptr %nothing, ptr %parts)
  call void @Py_DecRef(ptr %parts)
  %no_text = icmp eq ptr %joined, null
  br i1 %no_text, label %none, label %made
made:
  %own_at = call ptr @text_field(ptr %pool, i64 %i, i64 3)
  store ptr %joined, ptr %own_at
  %length = call i64 @text_length(ptr %pool, i64 %i)
  %bulk = lshr i64 %length, 5
  %weight_at = getelementptr i64, ptr %pool, i64 3
  %weight = load i64, ptr %weight_at
  %total = add i64 %weight, %bulk
  store i64 %total, ptr %weight_at
  ret ptr %joined
lost:
  call void @free(ptr %stack)
  br label %none
none:
  call void @text_forget()
  ret ptr null
}}
; Drop the records from a number on.
define internal void @text_drop(ptr %pool, i64 %from) noinline {{
entry:
  %used_at = getelementptr i64, ptr %pool, i64 1
  %weight_at = getelementptr i64, ptr %pool, i64 3
  %used = load i64, ptr %used_at
  store i64 %from, ptr %used_at
  br label %head
head:
  %i = phi i64 [%from, %entry], [%next, %after]
  %more = icmp slt i64 %i, %used
  br i1 %more, label %one, label %done
one:
  %at = call ptr @text_at(ptr %pool, i64 %i)
  %flat_at = getelementptr i64, ptr %at, i64 3
  %flat = load ptr, ptr %flat_at
  %weight = load i64, ptr %weight_at
  %lighter = sub i64 %weight, 1
  store i64 %lighter, ptr %weight_at
  %joined = icmp eq ptr %flat, null
  br i1 %joined, label %after, label %string
string:
  %length_at = getelementptr i64, ptr %at, i64 2
  %length = load i64, ptr %length_at
  %bulk = lshr i64 %length, 5
  %rest = sub i64 %lighter, %bulk
  store i64 %rest, ptr %weight_at
  call void @Py_DecRef(ptr %flat)
  br label %after
after:
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}
define internal void @text_reset(ptr %pool) {{
  %kept_at = getelementptr i64, ptr %pool, i64 4
  %kept = load i64, ptr %kept_at
  call void @text_drop(ptr %pool, i64 %kept)
  ret void
}}
; Drop the records from a number on but for some, which become new ones; whether that could be done.
define internal i1 @text_sweep(ptr %pool, i64 %from, ptr %roots, ptr %strings, i64 %count) noinline {{
entry:
  br label %hold
hold:
  %i = phi i64 [0, %entry], [%next, %held]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %root, label %drop
root:
  %root_at = getelementptr i64, ptr %roots, i64 %i
  %string_at = getelementptr ptr, ptr %strings, i64 %i
  %text = load i64, ptr %root_at
  store ptr null, ptr %string_at
  %new = icmp sge i64 %text, %from
  br i1 %new, label %write, label %held
write:
  %string = call ptr @text_flat(ptr %pool, i64 %text)
  %lost = icmp eq ptr %string, null
  br i1 %lost, label %failed, label %found
found:
  call void @Py_IncRef(ptr %string)
  store ptr %string, ptr %string_at
  br label %held
held:
  %next = add i64 %i, 1
  br label %hold
drop:
  call void @text_drop(ptr %pool, i64 %from)
  br label %back
back:
  %k = phi i64 [0, %drop], [%after, %kept]
  %any = icmp slt i64 %k, %count
  br i1 %any, label %one, label %done
one:
  %place = getelementptr ptr, ptr %strings, i64 %k
  %kept_string = load ptr, ptr %place
  %old = icmp eq ptr %kept_string, null
  br i1 %old, label %kept, label %own
own:
  %number = call i64 @text_own(ptr %pool, ptr %kept_string)
  %number_at = getelementptr i64, ptr %roots, i64 %k
  store i64 %number, ptr %number_at
  %full = icmp slt i64 %number, 0
  br i1 %full, label %failed, label %kept
kept:
  %after = add i64 %k, 1
  br label %back
done:
  ret i1 true
failed:
  ret i1 false
}}
; -1, 0 or 1 as Python orders two texts; 2 where there is no memory.
define internal i32 @text_compare(ptr %pool, i64 %a, i64 %b) noinline {{
entry:
  %same = icmp eq i64 %a, %b
  br i1 %same, label %equal, label %left
left:
  %x = call ptr @text_flat(ptr %pool, i64 %a)
  %no_x = icmp eq ptr %x, null
  br i1 %no_x, label %none, label %right
right:
  %y = call ptr @text_flat(ptr %pool, i64 %b)
  %no_y = icmp eq ptr %y, null
  br i1 %no_y, label %none, label %both
both:
  %order = call i32 @PyUnicode_Compare(ptr %x, ptr %y)
  ret i32 %order
equal:
  ret i32 0
none:
  ret i32 2
}}
define internal i32 @text_differ(ptr %pool, i64 %a, i64 %b) {{
entry:
  %m = call i64 @text_length(ptr %pool, i64 %a)
  %n = call i64 @text_length(ptr %pool, i64 %b)
  %may = icmp eq i64 %m, %n
  br i1 %may, label %look, label %no
look:
  %order = call i32 @text_compare(ptr %pool, i64 %a, i64 %b)
  ret i32 %order
no:
  ret i32 1
}}
"""
