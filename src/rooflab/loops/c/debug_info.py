"""What a module's debug information says: types of parameters, names of variables, which line each place is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rooflab.loops.lowered.ir_text import Places

_NODE = re.compile(r"^!(\d+) = (?:distinct )?!(?:(\w+)\((.*)\)|\{(.*)\})$", re.MULTILINE)
_FIELD = re.compile(r"(\w+): (?:\"([^\"]*)\"|(![0-9]+)|([^,()]+(?:\([^()]*\))?))")
_THROUGH = (
    "DW_TAG_typedef",
    "DW_TAG_const_type",
    "DW_TAG_volatile_type",
    "DW_TAG_restrict_type",
    "DW_TAG_atomic_type",
)
_POINTERS = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_WORDS = {
    "DW_TAG_const_type": "const",
    "DW_TAG_volatile_type": "volatile",
    "DW_TAG_restrict_type": "restrict",
    "DW_TAG_atomic_type": "_Atomic",
}
_ENCODINGS = {
    "DW_ATE_float": "float",
    "DW_ATE_complex_float": "complex",
    "DW_ATE_signed": "int",
    "DW_ATE_unsigned": "uint",
    "DW_ATE_boolean": "bool",
    "DW_ATE_signed_char": "char",
    "DW_ATE_unsigned_char": "char",
    "DW_ATE_UTF": "uint",
}


class CType(NamedTuple):
    """A type of C.

    Attributes:
        kind: "float", "complex", "int", "uint", "bool", "char", "pointer", "array", "struct", "void", "function".
        text: as C writes it.
        nbytes: its size; 0 where unknown.
        to: what a pointer points to, what an array is made of.
        members: of a structure: name, byte from its beginning, type.
        restrict: whether the pointer promises that nothing else leads to what it points to.
        reference: whether it is a reference of C++.
    """

    kind: str
    text: str
    nbytes: int
    to: CType | None = None
    members: tuple[tuple[str, int, CType], ...] = ()
    restrict: bool = False
    reference: bool = False


_MORE = CType("more", "...", 0)  # of a variable number of arguments


class Parameter(NamedTuple):
    """A parameter of a function of C."""

    name: str
    type: CType


class Subprogram(NamedTuple):
    """A function that the debug information knows: `linkage` is its name in the IR."""

    name: str
    linkage: str
    file: str
    line: int
    result: CType
    parameters: tuple[Parameter, ...]

    @property
    def signature(self) -> str:
        """As C declares it."""
        given = ", ".join(_declared(each.type.text, each.name) for each in self.parameters) or "void"
        return f"{_declared(self.result.text, self.name)}({given})"


def _declared(kind: str, name: str) -> str:
    return f"{kind}{name}" if kind.endswith(("*", "&")) else f"{kind} {name}".rstrip()


class DebugInfo:
    """The nodes of a module's debug information, by number."""

    def __init__(self, ir: str) -> None:
        """`ir`: the text of the module."""
        self._nodes: dict[int, tuple[str, Mapping[str, str]]] = {}
        self._lists: dict[int, list[str]] = {}
        self._types: dict[str, CType] = {}
        self._attached: dict[str, str] = {}
        for number, kind, fields, items in _NODE.findall(ir):
            if kind:
                held = {name: text or node or plain for name, text, node, plain in _FIELD.findall(fields)}
                self._nodes[int(number)] = kind, held
            else:
                self._lists[int(number)] = [each.strip() for each in items.split(",")] if items else []
        for name, node in re.findall(r"^define [^\n]*?@(\"[^\"]*\"|[\w.$]+)\([^\n]*!dbg (!\d+)", ir, re.MULTILINE):
            self._attached[node] = name.strip('"')
        self._inlined: dict[int, int] = {}

    def _node(self, reference: str) -> tuple[str, Mapping[str, str]]:
        return self._nodes.get(int(reference[1:]), ("", {})) if reference.startswith("!") else ("", {})

    def _items(self, reference: str) -> list[str]:
        return self._lists.get(int(reference[1:]), []) if reference.startswith("!") else []

    def subprograms(self) -> Iterator[Subprogram]:
        """Every function that the module defines."""
        for number, (kind, fields) in self._nodes.items():
            if kind == "DISubprogram" and f"!{number}" in self._attached:
                yield self._subprogram(f"!{number}", fields)

    def _subprogram(self, reference: str, fields: Mapping[str, str]) -> Subprogram:
        _, routine = self._node(fields.get("type", ""))
        types = self._items(routine.get("types", "")) or ["null"]
        names = {}
        for kind, variable in self._nodes.values():
            if kind == "DILocalVariable" and variable.get("scope") == reference and "arg" in variable:
                names[int(variable["arg"])] = variable.get("name", "")
        parameters = tuple(
            Parameter(names.get(n) or f"arg{n}", _MORE if each == "null" else self.type(each))
            for n, each in enumerate(types[1:], 1)
        )
        return Subprogram(
            fields.get("name", ""),
            self._attached[reference],
            self._file(fields),
            int(fields.get("line", "0")),
            self.type(types[0]),
            parameters,
        )

    def _file(self, fields: Mapping[str, str]) -> str:
        _, file = self._node(fields.get("file", ""))
        name, folder = file.get("filename", ""), file.get("directory", "")
        return name if name.startswith("/") or not folder else f"{folder}/{name}"

    def type(self, reference: str) -> CType:
        """The type that a node describes; void of null."""
        if not reference.startswith("!"):
            return CType("void", "void", 0)
        if reference not in self._types:
            self._types[reference] = CType("struct", "…", 0)  # a structure may point to itself
            self._types[reference] = self._read(reference)
        return self._types[reference]

    def _read(self, reference: str) -> CType:
        kind, fields = self._node(reference)
        tag = fields.get("tag", "")
        nbytes = int(fields.get("size", "0")) // 8
        name = fields.get("name", "")
        if kind == "DIBasicType":
            return CType(_ENCODINGS.get(fields.get("encoding", ""), "void"), name, nbytes)
        if kind == "DISubroutineType":
            return CType("function", "function", 0)
        if kind == "DICompositeType":
            return self._composite(tag, fields, name, nbytes)
        inner = self.type(fields.get("baseType", "null"))
        if tag in _POINTERS:
            reference_type = tag != "DW_TAG_pointer_type"
            mark = "&" if reference_type else "*"
            text = f"{inner.text}{'' if inner.text.endswith('*') else ' '}{mark}"
            return CType("pointer", text, nbytes or 8, inner, reference=reference_type)
        if tag in _THROUGH:
            word = _WORDS.get(tag)
            if word is None:
                return inner._replace(text=name or inner.text)
            behind = inner.kind == "pointer"
            text = f"{inner.text}{word}" if behind else f"{word} {inner.text}"
            return inner._replace(text=text, restrict=inner.restrict or word == "restrict")
        return CType("void", name or "void", nbytes)

    def _composite(self, tag: str, fields: Mapping[str, str], name: str, nbytes: int) -> CType:
        if tag == "DW_TAG_array_type":
            inner = self.type(fields.get("baseType", "null"))
            return CType("array", f"{inner.text}[]", nbytes, inner)
        if tag == "DW_TAG_enumeration_type":
            return CType("int", f"enum {name}".rstrip(), nbytes)
        members = []
        for each in self._items(fields.get("elements", "")):
            _, member = self._node(each)
            if member.get("tag") == "DW_TAG_member" and "DIFlagStaticMember" not in member.get("flags", ""):
                at = int(member.get("offset", "0")) // 8
                members.append((member.get("name", ""), at, self.type(member.get("baseType", "null"))))
        word = {"DW_TAG_union_type": "union", "DW_TAG_class_type": "class"}.get(tag, "struct")
        return CType("struct", f"{word} {name}".rstrip(), nbytes, members=tuple(members))

    def variables(self) -> Mapping[str, tuple[str, int]]:
        """Names and lines of local variables by the number of their node ("!12")."""
        return {
            f"!{number}": (fields.get("name", ""), int(fields.get("line", "0")))
            for number, (kind, fields) in self._nodes.items()
            if kind == "DILocalVariable"
        }

    def globals(self) -> Mapping[str, str]:
        """Names of global variables by the number of the node that is attached to them ("!0")."""
        found = {}
        for number, (kind, fields) in self._nodes.items():
            if kind == "DIGlobalVariableExpression":
                found[f"!{number}"] = self._node(fields.get("var", ""))[1].get("name", "")
        return found

    def location(self, debug: int) -> Iterator[tuple[str, int, int]]:
        """(file, line, column) of a place, then of the call that it was inlined at, and so on outwards."""
        while debug in self._nodes:
            kind, fields = self._nodes[debug]
            if kind != "DILocation":
                return
            yield (
                self._scope_file(fields.get("scope", "")),
                int(fields.get("line", "0")),
                int(fields.get("column", "0")),
            )
            outer = fields.get("inlinedAt")
            if outer is None:
                return
            debug = int(outer[1:])

    def _scope_file(self, reference: str) -> str:
        while reference.startswith("!"):
            _, fields = self._node(reference)
            if "file" in fields:
                return self._file(fields)
            reference = fields.get("scope", "")
        return ""

    def producer(self) -> str:
        """What compiled the module, as it says itself."""
        for kind, fields in self._nodes.values():
            if kind == "DICompileUnit":
                return fields.get("producer", "")
        return ""


class LinesOf(Places):
    """Lines of one file: what was inlined from it has its own line, what came from elsewhere that of its call."""

    def __init__(self, known: DebugInfo, file: str) -> None:
        """`file`: as the debug information writes it."""
        super().__init__("")
        self._known, self._file = known, file

    def line(self, debug: int) -> int:
        """The line of a place; 0 where it is not known."""
        return self.place(debug)[0]

    def place(self, debug: int) -> tuple[int, int]:
        """Line and column of a place, 0 where not known."""
        for file, line, column in self._known.location(debug):
            if file == self._file:
                return line, column
        return 0, 0
