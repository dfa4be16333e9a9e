"""Dominators, loops and blocks that run together, on graphs small enough to draw; parts of structures folded."""

from __future__ import annotations

from rooflab.loops.lowered import control_flow
from rooflab.loops.lowered.folding import fold
from rooflab.loops.lowered.ir_text import Places, functions

#   entry → outer ⇄ (inner ⇄ body, check → fault) → exit
NEST = {
    "entry": ["outer"],
    "outer": ["inner", "exit"],
    "inner": ["check", "latch"],
    "check": ["body", "fault"],
    "body": ["inner"],
    "latch": ["outer"],
    "fault": [],
    "exit": [],
}


def test_loops_nest():
    found = control_flow.loops(NEST, "entry")
    assert [(each.head, each.parent) for each in found] == [("outer", None), ("inner", 0)]
    assert found[1].blocks == {"inner", "check", "body"}
    assert control_flow.innermost_of(found)["latch"] == 0


def test_dominators():
    nearest = control_flow.immediate_dominators(NEST, "entry")
    assert nearest["body"] == "check"
    assert nearest["exit"] == "outer"
    assert control_flow.dominates(nearest, "outer", "body")
    assert not control_flow.dominates(nearest, "body", "outer")


def test_what_only_an_exception_leaves_runs_together():
    stands = control_flow.run_together(NEST, "entry", {"fault"})
    # body runs whenever check does, if nothing fails; outer once more than latch
    assert stands["body"] == "check"
    assert stands["latch"] == "latch"
    assert stands["exit"] == "entry"
    # where the fault is a way like any other, check may run without body
    assert control_flow.run_together(NEST, "entry", ())["body"] == "body"


def test_a_part_of_a_structure_is_found():
    ir = """define i64 @f(i64 %a, i64 %b) {
  %one = insertvalue { i64, i64 } undef, i64 %a, 0
  %two = insertvalue { i64, i64 } %one, i64 %b, 1
  %first = extractvalue { i64, i64 } %two, 0
  %other = extractvalue { i64, i64 } undef, 1
  ret i64 %first
}"""
    text, changed = fold(ir)
    assert changed == 1
    assert "%first = bitcast i64 %a to i64" in text
    assert "%other = extractvalue" in text


def test_text_is_read():
    ir = """define internal i32 @"odd name"(ptr noalias captures(none) %result, i64 %n) #0 !dbg !4 {
entry:
  switch i64 %n, label %"a b" [
    i64 1, label %last
  ], !dbg !7

"a b":                                            ; preds = %entry
  %x = add i64 %n, 1, !dbg !8
  br label %last

last:
  ret i32 0
}
!7 = !DILocation(line: 12, column: 1, scope: !4)
!8 = !DILocation(line: 90, column: 1, scope: !9, inlinedAt: !7)
"""
    (function,) = functions(ir)
    assert function.name == "odd name"
    assert function.parameters == {"%result": "ptr", "%n": "i64"}
    assert function.blocks["%entry"].following == ('%"a b"', "%last")
    add = function.blocks['%"a b"'].instructions[0]
    assert (add.result, add.opcode) == ("%x", "add")
    # inlined code stands where it was called
    assert Places(ir).line(add.debug) == 12
