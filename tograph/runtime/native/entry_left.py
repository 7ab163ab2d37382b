"""LLVM text of what an entry makes of results that a call leaves in buffers (``rows``): lists, and tensors as long as the run says.

A part of the module that ``entry_text`` puts together. The buffers belong to the call, whose lock is held, until all of these are made; what is
not in the text ``rows.leaver`` makes.
"""

TEXT = """
; What a call left in buffers: a tuple of numbers, and a tensor whose sizes the block tells. Long tensors get the memory itself, by Python.
define internal void @settle(ptr %busy, i64 %leaves) alwaysinline {
entry:
  %none = icmp eq i64 %leaves, 0
  br i1 %none, label %done, label %idle
idle:
  store i64 0, ptr %busy
  br label %done
done:
  ret void
}
define internal ptr @elements(ptr %block) {
  %place = call ptr @pointer(ptr %block, i64 1)
  %data = load ptr, ptr %place
  ret ptr %data
}
define internal ptr @numbers(ptr %record) {
entry:
  %k = alloca i64
  store i64 0, ptr %k
  %block = call ptr @pointer(ptr %record, i64 $block)
  %kind = call i64 @word(ptr %record, i64 2)
  %count = call i64 @word(ptr %block, i64 0)
  %tuple = call ptr @PyTuple_New(i64 %count)
  %no_tuple = icmp eq ptr %tuple, null
  br i1 %no_tuple, label %lost, label %any
any:
  %empty = icmp eq i64 %count, 0
  br i1 %empty, label %full, label %some
some:
  %data = call ptr @elements(ptr %block)
  br label %next
next:
  %i = load i64, ptr %k
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %full
one:
  %i1 = add i64 %i, 1
  store i64 %i1, ptr %k
  %word_at = getelementptr i64, ptr %data, i64 %i
  switch i64 %kind, label %bool [i64 1, label %int i64 2, label %float]
int:
  %n = load i64, ptr %word_at
  %long = call ptr @PyLong_FromLongLong(i64 %n)
  br label %made
float:
  %f = load double, ptr %word_at
  %double = call ptr @PyFloat_FromDouble(double %f)
  br label %made
bool:
  %byte_at = getelementptr i8, ptr %data, i64 %i
  %b = load i8, ptr %byte_at
  %wide = zext i8 %b to i64
  %truth = call ptr @PyBool_FromLong(i64 %wide)
  br label %made
made:
  %x = phi ptr [%long, %int], [%double, %float], [%truth, %bool]
  %missing = icmp eq ptr %x, null
  br i1 %missing, label %drop, label %put
put:
  call i32 @PyTuple_SetItem(ptr %tuple, i64 %i, ptr %x)
  br label %next
full:
  ret ptr %tuple
drop:
  call void @Py_DecRef(ptr %tuple)
  ret ptr null
lost:
  ret ptr null
}
; A list that other programs read: an object of the pool that nobody else has, with the blocks that are full now; the buffers get its blocks.
define internal i1 @goes_round(ptr %object, ptr %words, i64 %last) alwaysinline {
entry:
  %none = icmp eq ptr %object, null
  br i1 %none, label %no, label %look
look:
  %count = load i32, ptr %object
  %ours = icmp eq i32 %count, 1
  %taken = call i64 @word(ptr %words, i64 %last)
  %apart = icmp eq i64 %taken, 0
  %free = and i1 %ours, %apart
  ret i1 %free
no:
  ret i1 false
}
define internal ptr @listed(ptr %record) {
entry:
  %k = alloca i64
  %j = alloca i64
  %block = call ptr @pointer(ptr %record, i64 $block)
  %pool = call ptr @pointer(ptr %record, i64 $row)
  %depth = call i64 @word(ptr %record, i64 2)
  %depths = shl i64 %depth, 1
  %last = add i64 %depths, $DATA
  store i64 0, ptr %k
  br label %next
next:
  %i = load i64, ptr %k
  %more = icmp slt i64 %i, $KEPT
  br i1 %more, label %one, label %python
one:
  %i1 = add i64 %i, 1
  store i64 %i1, ptr %k
  %object_at = shl i64 %i, 1
  %words_at = or i64 %object_at, 1
  %object = call ptr @pointer(ptr %pool, i64 %object_at)
  %words = call ptr @pointer(ptr %pool, i64 %words_at)
  %free = call i1 @goes_round(ptr %object, ptr %words, i64 %last)
  br i1 %free, label %again, label %next
again:
  %length = call i64 @word(ptr %block, i64 0)
  store i64 %length, ptr %words
  store i64 0, ptr %j
  br label %swap
swap:
  %n = load i64, ptr %j
  %n1 = add i64 %n, 1
  store i64 %n1, ptr %j
  %place = call ptr @pointer(ptr %block, i64 %n1)
  %size_at = getelementptr i64, ptr %place, i64 1
  %data_number = add i64 %n, $DATA
  %data_at = getelementptr i64, ptr %words, i64 %data_number
  %capacity_at = getelementptr i64, ptr %data_at, i64 %depth
  %full = load i64, ptr %place
  %size = load i64, ptr %size_at
  %old = load i64, ptr %data_at
  %capacity = load i64, ptr %capacity_at
  store i64 %full, ptr %data_at
  store i64 %size, ptr %capacity_at
  store i64 %old, ptr %place
  store i64 %capacity, ptr %size_at
  %others = icmp slt i64 %n1, %depth
  br i1 %others, label %swap, label %round
round:
  call void @Py_IncRef(ptr %object)
  ret ptr %object
python:
  %maker = call ptr @pointer(ptr %record, i64 $maker)
  %made = call ptr @PyObject_CallNoArgs(ptr %maker)
  ret ptr %made
}
; A tensor: the block has the sizes that only the run knows, and where the buffer is.
define internal ptr @rows(ptr %record) {
entry:
  %sizes = alloca i8, i64 $max_rank_bytes, align 8
  %strides = alloca i8, i64 $max_rank_bytes, align 8
  %handle_at = alloca ptr
  %data_at = alloca ptr
  %d = alloca i64
  %o = alloca i64
  %run = alloca i64
  %all = alloca i64
  %block = call ptr @pointer(ptr %record, i64 $block)
  %row = call i64 @word(ptr %record, i64 $row)
  %rank = call i64 @word(ptr %record, i64 1)
  %opens = call i64 @word(ptr %record, i64 3)
  store i64 %rank, ptr %d
  store i64 %opens, ptr %o
  store i64 1, ptr %run
  store i64 %row, ptr %all
  br label %dims
dims:
  %left = load i64, ptr %d
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %dim, label %ready
dim:
  %i = sub i64 %left, 1
  store i64 %i, ptr %d
  %size_place = add i64 %i, 4
  %known = call i64 @word(ptr %record, i64 %size_place)
  %any_size = icmp eq i64 %known, $open
  br i1 %any_size, label %length, label %sized
length:
  %opens_left = load i64, ptr %o
  %number = sub i64 %opens_left, 1
  store i64 %number, ptr %o
  %told = call i64 @word(ptr %block, i64 %number)
  %before = load i64, ptr %all
  %times = mul i64 %before, %told
  store i64 %times, ptr %all
  br label %sized
sized:
  %size = phi i64 [%known, %dim], [%told, %length]
  %size_at = getelementptr i64, ptr %sizes, i64 %i
  store i64 %size, ptr %size_at
  %stride = load i64, ptr %run
  %stride_at = getelementptr i64, ptr %strides, i64 %i
  store i64 %stride, ptr %stride_at
  %none = icmp eq i64 %size, 0
  %at_least = select i1 %none, i64 1, i64 %size
  %longer = mul i64 %stride, %at_least
  store i64 %longer, ptr %run
  br label %dims
ready:
  %bytes = load i64, ptr %all
  %short = icmp ule i64 %bytes, $COPIED
  br i1 %short, label %new, label %python
new:
  %dtype = call i64 @word(ptr %record, i64 2)
  %type = trunc i64 %dtype to i32
  %failed = call i32 @aoti_torch_empty_strided(i64 %rank, ptr %sizes, ptr %strides, i32 %type, i32 0, i32 0, ptr %handle_at)
  %made = icmp eq i32 %failed, 0
  br i1 %made, label %filled, label %python
filled:
  %handle = load ptr, ptr %handle_at
  %empty = icmp eq i64 %bytes, 0
  br i1 %empty, label %wrapped, label %copied
copied:
  call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %data_at)
  %to = load ptr, ptr %data_at
  %place = call ptr @pointer(ptr %block, i64 %opens)
  %from = load ptr, ptr %place
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  br label %wrapped
wrapped:
  %x = call ptr @wrap(ptr %handle)
  call i32 @aoti_torch_delete_tensor_object(ptr %handle)
  ret ptr %x
python:
  %maker = call ptr @pointer(ptr %record, i64 $maker)
  %y = call ptr @PyObject_CallNoArgs(ptr %maker)
  ret ptr %y
}
"""
