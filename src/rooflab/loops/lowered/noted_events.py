"""The object file of what notes branches, stores and loads of a run, which counted code calls."""

from __future__ import annotations

import functools

from llvmlite import binding

from rooflab.loops.compiled.target import target_machine
from rooflab.loops.lowered import counted_access, predictor

DECLARED = """
declare void @rl_branch(i64, i64)
declare void @rl_stored(i64, i64, i64)
declare void @rl_loaded(i64, i64, i64)
"""


@functools.cache
def machine_code() -> bytes:
    """The object file of what notes branches, stores and loads in the arrays whose addresses `rl_held` has."""
    parts = [counted_access.compiled(*each) for each in (predictor.BRANCH, predictor.STORED, predictor.LOADED)]
    module = binding.parse_assembly(_text([name for _, name in parts]))
    for bitcode, name in parts:
        module.link_in(binding.parse_bitcode(bitcode))
        module.get_function(name).linkage = "internal"
    machine = target_machine()
    builder = binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=3))
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def _text(names: list[str]) -> str:
    branch, stored, loaded = names
    held = [f"getelementptr ([4 x i64], ptr @rl_held, i64 0, i64 {n})" for n in range(4)]
    state, branches, table, notes = (f"load i64, ptr {each}" for each in held)
    return f"""
@rl_held = global [4 x i64] zeroinitializer
@rl_result = internal global i64 0
@rl_raised = internal global ptr null
declare i32 @{branch}(ptr, ptr, i64, i64, i64, i64)
declare i32 @{stored}(ptr, ptr, i64, i64, i64, i64)
declare i32 @{loaded}(ptr, ptr, i64, i64, i64, i64, i64)
define void @rl_branch(i64 %n, i64 %taken) {{
  %state = {state}
  %branches = {branches}
  %s = call i32 @{branch}(ptr @rl_result, ptr @rl_raised, i64 %state, i64 %branches, i64 %n, i64 %taken)
  ret void
}}
define void @rl_again(i64 %count) {{
start:
  %none = icmp sle i64 %count, 0
  %state = {state}
  %noted = add i64 %state, {8 * predictor.NOTED}
  %place = inttoptr i64 %noted to ptr
  %asked = load ptr, ptr %place
  br i1 %none, label %end, label %each
each:
  %at = phi i64 [ 0, %start ], [ %next, %each ]
  %where = getelementptr i64, ptr %asked, i64 %at
  %word = load i64, ptr %where
  %number = ashr i64 %word, 1
  %taken = and i64 %word, 1
  call void @rl_branch(i64 %number, i64 %taken)
  %next = add i64 %at, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %each, label %end
end:
  ret void
}}
define void @rl_stored(i64 %n, i64 %a, i64 %clock) {{
  %where = inttoptr i64 %clock to ptr
  %now = load i64, ptr %where
  %table = {table}
  %s = call i32 @{stored}(ptr @rl_result, ptr @rl_raised, i64 %table, i64 %n, i64 %a, i64 %now)
  ret void
}}
define void @rl_loaded(i64 %n, i64 %a, i64 %clock) {{
  %where = inttoptr i64 %clock to ptr
  %now = load i64, ptr %where
  %table = {table}
  %notes = {notes}
  %s = call i32 @{loaded}(ptr @rl_result, ptr @rl_raised, i64 %table, i64 %notes, i64 %n, i64 %a, i64 %now)
  ret void
}}
"""
