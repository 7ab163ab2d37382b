"""LLVM text of what an entry looks at before it runs its program: torch's state, the arguments, and whether they share memory.

Parts of the module that ``entry_text`` describes and puts together.
"""

PLAIN = """
; Nothing stands between Python and plain tensors.
define internal i1 @nothing_between(i64 %wanted) alwaysinline {
  %python = call zeroext i1 @key_included(i16 $python)
  %functorch = call zeroext i1 @key_included(i16 $functorch)
  %traced = call zeroext i1 @key_included(i16 $tracer)
  %plain = call zeroext i1 @key_excluded(i16 $autocast)
  %mode = call zeroext i1 @function_mode()
  %some1 = or i1 %python, %functorch
  %some = or i1 %some1, %traced
  %any = or i1 %some, %mode
  %none = xor i1 %any, true
  %dtype = call i8 @default_dtype()
  %wide = zext i8 %dtype to i64
  %usual = icmp eq i64 %wide, %wanted
  %level = call ptr @PyDict_GetItemWithError(ptr @forward_names, ptr @level_name)
  %undual = icmp eq ptr %level, @no_level ; no level of forward-mode AD is open
  %on1 = and i1 %none, %plain
  %on = and i1 %on1, %undual
  %all = and i1 %on, %usual
  ret i1 %all
}
"""

INPUT = """
; Whether an object is the tensor or number that a record describes; its data pointer, or the number, goes into the slot. A number for a
; tensor goes into a cell, and the slot says where that is; so do the sizes of a tensor that may be any, and behind them the data pointer.
define internal i1 @input(ptr %item, ptr %record, i1 %given, i1 %grad, ptr %place, ptr %cell) alwaysinline {
entry:
  %d = alloca i64
  %o = alloca i64
  %run = alloca i64
  br i1 %given, label %number, label %tensor
number:
  %rank_or_kind = call i64 @word(ptr %record, i64 1)
  %for_tensor = icmp sle i64 %rank_or_kind, $number_tensor
  %as_number = sub i64 %rank_or_kind, $number_tensor
  %described = select i1 %for_tensor, i64 %as_number, i64 %rank_or_kind
  %slot = select i1 %for_tensor, ptr %cell, ptr %place
  %cell_address = ptrtoint ptr %cell to i64
  br i1 %for_tensor, label %in_cell, label %which
in_cell:
  store i64 %cell_address, ptr %place
  br label %which
which:
  switch i64 %described, label %class [i64 $listed_input, label %listed i64 $int, label %int i64 $float, label %float i64 $bool, label %bool]
int:
  %int_at = getelementptr i8, ptr %item, i64 8
  %int_class = load ptr, ptr %int_at
  %is_int = icmp eq ptr %int_class, @int_class
  br i1 %is_int, label %word, label %no
word:
  %beyond_at = alloca i32
  %n = call i64 @PyLong_AsLongLongAndOverflow(ptr %item, ptr %beyond_at)
  store i64 %n, ptr %slot
  %beyond = load i32, ptr %beyond_at
  %small = icmp eq i32 %beyond, 0
  ret i1 %small
float:
  %float_at = getelementptr i8, ptr %item, i64 8
  %float_class = load ptr, ptr %float_at
  %is_float = icmp eq ptr %float_class, @float_class
  br i1 %is_float, label %double, label %no
double:
  %f = call double @PyFloat_AsDouble(ptr %item)
  store double %f, ptr %slot
  ret i1 true
bool:
  %bool_at = getelementptr i8, ptr %item, i64 8
  %bool_class = load ptr, ptr %bool_at
  %is_bool = icmp eq ptr %bool_class, @bool_class
  br i1 %is_bool, label %truth, label %no
truth:
  %is_true = icmp eq ptr %item, @true_object
  %b = zext i1 %is_true to i64
  store i64 %b, ptr %slot
  ret i1 true
listed: ; a list that a program left, of items of one type (``rows``)
  %list_at = getelementptr i8, ptr %item, i64 8
  %list_class = load ptr, ptr %list_at
  %is_list = icmp eq ptr %list_class, @rows_class
  br i1 %is_list, label %items, label %no
items:
  %type_at = getelementptr i8, ptr %item, i64 $rows_item
  %type = load ptr, ptr %type_at
  %type_wanted = call ptr @pointer(ptr %record, i64 2)
  %same_type = icmp eq ptr %type, %type_wanted
  br i1 %same_type, label %words, label %no
words:
  %words_at = getelementptr i8, ptr %item, i64 $rows_at
  %words_object = load ptr, ptr %words_at
  %outside_at = alloca i32
  %words_address = call i64 @PyLong_AsLongLongAndOverflow(ptr %words_object, ptr %outside_at)
  store i64 %words_address, ptr %place
  %known = icmp ne i64 %words_address, 0
  ret i1 %known
class:
  %kinds = getelementptr i8, ptr %item, i64 8
  %kind = load ptr, ptr %kinds
  %is0 = icmp eq ptr %kind, @tensor_class
  %is1 = icmp eq ptr %kind, @parameter_class
  %is2 = icmp eq ptr %kind, @variable_class
  %is01 = or i1 %is0, %is1
  %is = or i1 %is01, %is2
  br i1 %is, label %tensor, label %no
tensor:
  %handle = getelementptr i8, ptr %item, i64 $tensor
  %x = load ptr, ptr %handle
  %null = icmp eq ptr %x, null
  br i1 %null, label %no, label %fields
fields:
  %keys_at = getelementptr i8, ptr %x, i64 $keys
  %keys = load i64, ptr %keys_at
  %plain = icmp eq i64 %keys, $plain
  %dtype_at = getelementptr i8, ptr %x, i64 $dtype
  %dtype = load i16, ptr %dtype_at
  %dtype_wide = zext i16 %dtype to i64
  %dtype_wanted = call i64 @word(ptr %record, i64 2)
  %same_dtype = icmp eq i64 %dtype_wide, %dtype_wanted
  %rank_at = getelementptr i8, ptr %x, i64 $rank
  %rank = load i64, ptr %rank_at
  %rank_wanted = call i64 @word(ptr %record, i64 1)
  %same_rank = icmp eq i64 %rank, %rank_wanted
  %ok1 = and i1 %plain, %same_dtype
  %ok2 = and i1 %ok1, %same_rank
  store i64 %rank, ptr %d
  %open_count = call i64 @word(ptr %record, i64 $opens)
  store i64 %open_count, ptr %o
  store i64 1, ptr %run
  br i1 %ok2, label %dims, label %no
dims: ; from the last one on, so that the stride of a tensor that lies in a row is the product of the sizes so far
  %left = load i64, ptr %d
  %more = icmp sgt i64 %left, 0
  br i1 %more, label %dim, label %watched
dim:
  %i = sub i64 %left, 1
  store i64 %i, ptr %d
  %sizes = getelementptr i8, ptr %x, i64 $sizes
  %size = call i64 @word(ptr %sizes, i64 %i)
  %size_place = add i64 %i, 4
  %size_wanted = call i64 @word(ptr %record, i64 %size_place)
  %as_wanted = icmp eq i64 %size, %size_wanted
  %any_size = icmp eq i64 %size_wanted, $open
  br i1 %any_size, label %noted, label %stride
noted:
  %opens_left = load i64, ptr %o
  %open_number = sub i64 %opens_left, 1
  store i64 %open_number, ptr %o
  %size_at = getelementptr i64, ptr %cell, i64 %open_number
  store i64 %size, ptr %size_at
  br label %stride
stride:
  %same_size = or i1 %as_wanted, %any_size
  %strides = getelementptr i8, ptr %x, i64 $strides
  %stride_there = call i64 @word(ptr %strides, i64 %i)
  %stride_place = add i64 %i, $first_stride
  %stride_known = call i64 @word(ptr %record, i64 %stride_place)
  %in_a_row = icmp eq i64 %stride_known, $open
  %row = load i64, ptr %run
  %stride_wanted = select i1 %in_a_row, i64 %row, i64 %stride_known
  %same_stride = icmp eq i64 %stride_there, %stride_wanted
  %alone = icmp sle i64 %size, 1
  %any_stride = or i1 %same_stride, %alone
  %same = and i1 %same_size, %any_stride
  %longer = mul i64 %row, %size
  store i64 %longer, ptr %run
  br i1 %same, label %dims, label %no
watched:
  br i1 %grad, label %asks, label %data
asks:
  %wants = call zeroext i1 @requires_grad(ptr %x)
  %watch = call i64 @word(ptr %record, i64 $watched)
  %expected = icmp ne i64 %watch, 0
  %right = icmp eq i1 %wants, %expected
  br i1 %right, label %data, label %no
data:
  %opened = icmp sgt i64 %open_count, 0
  br i1 %opened, label %lengths, label %address
lengths:
  %lengths_address = ptrtoint ptr %cell to i64
  store i64 %lengths_address, ptr %place
  %address_at = getelementptr i64, ptr %cell, i64 %open_count
  br label %address
address:
  %data_place = phi ptr [%place, %data], [%address_at, %lengths]
  call i32 @aoti_torch_get_data_ptr(ptr %handle, ptr %data_place)
  ret i1 true
no:
  ret i1 false
}
"""

APART = """
; One tensor given twice is another trace. Python keeps one object for a number.
define internal i1 @distinct(ptr %args, ptr %records, i64 %count) {
entry:
  %i = alloca i64
  %j = alloca i64
  store i64 1, ptr %i
  br label %outer
outer:
  %a = load i64, ptr %i
  %more = icmp slt i64 %a, %count
  store i64 0, ptr %j
  br i1 %more, label %first, label %yes
first:
  %start = mul i64 %a, $RECORD
  %rank_at = add i64 %start, 1
  %rank = call i64 @word(ptr %records, i64 %rank_at)
  %number = icmp slt i64 %rank, 0
  br i1 %number, label %next, label %inner
inner:
  %b = load i64, ptr %j
  %before = icmp slt i64 %b, %a
  br i1 %before, label %pair, label %next
pair:
  %x = call ptr @pointer(ptr %args, i64 %a)
  %y = call ptr @pointer(ptr %args, i64 %b)
  %b1 = add i64 %b, 1
  store i64 %b1, ptr %j
  %same = icmp eq ptr %x, %y
  br i1 %same, label %no, label %inner
next:
  %a1 = add i64 %a, 1
  store i64 %a1, ptr %i
  br label %outer
yes:
  ret i1 true
no:
  ret i1 false
}
; Where the memory of an input begins and ends. Where sizes may be any the record tells how much all others are, and the slot leads to these.
define internal [2 x i64] @span(ptr %records, ptr %slots, i64 %number) alwaysinline {
entry:
  %k = alloca i64
  %all = alloca i64
  %slot = call i64 @word(ptr %slots, i64 %number)
  %first = mul i64 %number, $RECORD
  %bytes_at = add i64 %first, 3
  %bytes = call i64 @word(ptr %records, i64 %bytes_at)
  %opens_at = add i64 %first, $opens
  %opens = call i64 @word(ptr %records, i64 %opens_at)
  %opened = icmp sgt i64 %opens, 0
  store i64 0, ptr %k
  store i64 %bytes, ptr %all
  %cell = inttoptr i64 %slot to ptr
  br i1 %opened, label %sizes, label %done
sizes:
  %i = load i64, ptr %k
  %more = icmp slt i64 %i, %opens
  br i1 %more, label %size, label %where
size:
  %count = call i64 @word(ptr %cell, i64 %i)
  %before = load i64, ptr %all
  %times = mul i64 %before, %count
  store i64 %times, ptr %all
  %next = add i64 %i, 1
  store i64 %next, ptr %k
  br label %sizes
where:
  %data = call i64 @word(ptr %cell, i64 %opens)
  br label %done
done:
  %start = phi i64 [%slot, %entry], [%data, %where]
  %length = load i64, ptr %all
  %end = add i64 %start, %length
  %one = insertvalue [2 x i64] undef, i64 %start, 0
  %both = insertvalue [2 x i64] %one, i64 %end, 1
  ret [2 x i64] %both
}
; What is written shares no memory with another tensor.
define internal i1 @apart(ptr %table, ptr %records, ptr %slots) {
entry:
  %k = alloca i64
  %j = alloca i64
  %count = call i64 @word(ptr %table, i64 $written)
  %inputs = call i64 @word(ptr %table, i64 $inputs)
  store i64 0, ptr %k
  br label %outer
outer:
  %a = load i64, ptr %k
  %more = icmp slt i64 %a, %count
  store i64 0, ptr %j
  br i1 %more, label %one, label %yes
one:
  %place = add i64 %a, $HEAD
  %own = call i64 @word(ptr %table, i64 %place)
  %span = call [2 x i64] @span(ptr %records, ptr %slots, i64 %own)
  %start = extractvalue [2 x i64] %span, 0
  %end = extractvalue [2 x i64] %span, 1
  %a1 = add i64 %a, 1
  store i64 %a1, ptr %k
  br label %inner
inner:
  %b = load i64, ptr %j
  %rest = icmp slt i64 %b, %inputs
  br i1 %rest, label %pair, label %outer
pair:
  %b1 = add i64 %b, 1
  store i64 %b1, ptr %j
  %other_span = call [2 x i64] @span(ptr %records, ptr %slots, i64 %b)
  %other = extractvalue [2 x i64] %other_span, 0
  %other_end = extractvalue [2 x i64] %other_span, 1
  %left = icmp ule i64 %end, %other
  %right = icmp ule i64 %other_end, %start
  %itself = icmp eq i64 %b, %own
  %clear = or i1 %left, %right
  %ok = or i1 %clear, %itself
  br i1 %ok, label %inner, label %no
yes:
  ret i1 true
no:
  ret i1 false
}
"""
