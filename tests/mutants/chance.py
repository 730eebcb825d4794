"""Random faults: every place in a source file where somebody could slip, and what he would have written there.

Only what could be a slip of the mind: no docstrings, no wording of messages, no logging, no types. A deletion that
would leave a name without a value is left out: it would be found by the first test that comes along.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from runtime_actors.channel.session import Phase
from runtime_actors.contract.rejection import RejectionCode
from runtime_actors.contract.tools import CallStatus
from runtime_actors.rules.calls import CallEvent
from runtime_actors.rules.instances import AttemptEvent, AttemptState, InstanceEvent, InstanceState

_ENUMS: Final[dict[str, type[StrEnum]]] = {
    one.__name__: one
    for one in (
        AttemptEvent,
        AttemptState,
        CallEvent,
        CallStatus,
        InstanceEvent,
        InstanceState,
        Phase,
        RejectionCode,
    )
}
_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_OPERATORS: Final[dict[type[ast.operator], str]] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*"}
_SQL: Final = re.compile(r"\b(select|update|delete from|insert)\b|\bwhere\b|\border by\b")
_IN_SQL: Final = (
    ("<=", "<"),
    (" < ", " <= "),
    (" > ", " >= "),
    (" is not null", " is null"),
    (" <> ", " = "),
    (" and ", " or "),
    ("+ 1", "+ 2"),
    (" desc", ""),
    ("order by number", "order by number desc"),
    ("order by seq", "order by seq desc"),
    ("order by due_boot_s", "order by due_boot_s desc"),
    (" = 1", " = 0"),
    ("not repeated", "repeated"),
)
_SAYS: Final = frozenset({"logger", "logging", "print"})
_UNSEEN: Final = frozenset({"__repr__", "__str__"})


@dataclass(frozen=True, slots=True)
class Slip:
    """One fault: in `file`, `old` between two offsets becomes `new`."""

    file: str
    line: int
    kind: str
    old: str
    new: str
    start: int
    end: int
    context: str
    """The line, stripped."""

    def text(self, source: str) -> str:
        """The file with the fault."""
        return source[: self.start] + self.new + source[self.end :]

    def is_program(self, source: str) -> bool:
        """Not where it would split an f-string, or miss its brackets."""
        try:
            ast.parse(self.text(source))
        except SyntaxError:
            return False
        return True

    @property
    def name(self) -> tuple[str, str, str, str]:
        """What it is known by while lines move."""
        return self.file, self.context, _short(self.old), _short(self.new)

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.kind}: {_short(self.old)}  ->  {_short(self.new)}"


def slips(file: str, source: str) -> list[Slip]:
    """Every slip that could be made in a file, in order."""
    finder = _Finder(file, source)
    finder.visit(ast.parse(source))
    return sorted(finder.found, key=lambda slip: (slip.start, slip.kind, slip.new))


def _short(text: str) -> str:
    return " ".join(text.split())[:100]


class _Finder(ast.NodeVisitor):
    def __init__(self, file: str, source: str) -> None:
        self.found: list[Slip] = []
        self._file, self._source = file, source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._enums: dict[str, type[StrEnum]] = dict(_ENUMS)
        self._once: Mapping[str, int] = {}
        """Of the function at hand: how often each local name is bound, if it is read at all."""

    # --- where not to look ---

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        self._negate(node.test)
        self._statements(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if node.name in _UNSEEN:
            return
        outer, self._once = self._once, _bindings(node)
        for statement in node.body:
            self._statement(statement)
        self._once = outer

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if any(isinstance(base, ast.Name) and base.id in {"Protocol", "StrEnum", "IntEnum"} for base in node.bases):
            return
        for statement in node.body:
            if not isinstance(statement, ast.AnnAssign | ast.Assign | ast.Expr):
                self.visit(statement)
            elif isinstance(statement, ast.AnnAssign) and isinstance(statement.value, ast.Constant):
                self.visit(statement.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):  # _S, _E = ...
            for target, value in zip(node.targets[0].elts, node.value.elts, strict=False):
                if isinstance(target, ast.Name) and isinstance(value, ast.Name) and value.id in _ENUMS:
                    self._enums[target.id] = _ENUMS[value.id]
        self.visit(node.value)

    def visit_Raise(self, _node: ast.Raise) -> None:
        """What is raised is wording."""

    def visit_Assert(self, _node: ast.Assert) -> None:
        """For the type checker."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        for value in node.values:
            if isinstance(value, ast.Constant):
                self._sql(value, str(value.value))

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func
        while isinstance(name, ast.Attribute):
            name = name.value
        if isinstance(name, ast.Name) and name.id in _SAYS | {"TypeVar", "Failure", "Rejection"}:
            return
        self.generic_visit(node)

    # --- what could be slipped ---

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.stmt):
            self._statements(node)
        else:
            super().generic_visit(node)

    def _statements(self, node: ast.stmt) -> None:
        for _, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.stmt):
                    self._statement(child)
                elif isinstance(child, ast.AST):
                    self.visit(child)

    def _statement(self, node: ast.stmt) -> None:
        if self._can_go(node):
            self._add("deleted", node, "pass")
        self.visit(node)

    def _can_go(self, node: ast.stmt) -> bool:
        match node:
            case ast.Expr(value=ast.Constant()) | ast.Expr(value=ast.Yield()):
                return False
            case ast.Expr(value=ast.Call(func=func)):
                return not (isinstance(func, ast.Attribute) and ast.unparse(func).partition(".")[0] in _SAYS)
            case ast.Return() | ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign() | ast.Expr():
                return True
            case ast.Assign(targets=targets):
                return all(self._is_bound_elsewhere(target) for target in targets)
            case _:
                return False

    def _is_bound_elsewhere(self, target: ast.expr) -> bool:
        match target:
            case ast.Name(id=name):
                return self._once.get(name, 2) > 1
            case ast.Tuple(elts=elements):
                return all(self._is_bound_elsewhere(one) for one in elements)
            case _:
                return True

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self._statements(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        super().generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        super().generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if len(node.ops) == 1 and (other := _COMPARISONS.get(type(node.ops[0]))):
            left, right = self._text(node.left), self._text(node.comparators[0])
            self._add("comparison", node, f"({left} {other} {right})")
        super().generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word = "or" if isinstance(node.op, ast.And) else "and"
        self._add("and/or", node, "(" + f" {word} ".join(f"({self._text(one)})" for one in node.values) + ")")
        for place, value in enumerate(node.values):
            rest = [self._text(one) for number, one in enumerate(node.values) if number != place]
            joined = f" {'and' if isinstance(node.op, ast.And) else 'or'} ".join(f"({one})" for one in rest)
            self._add("part dropped", node, f"({joined})")
            self.visit(value)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if (other := _OPERATORS.get(type(node.op))) and not _has_text(node):
            self._add("operator", node, f"(({self._text(node.left)}) {other} ({self._text(node.right)}))")
        super().generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if (
            isinstance(node.value, ast.Name)
            and (enum := self._enums.get(node.value.id))
            and node.attr in enum.__members__
        ):
            for other in enum.__members__:
                if other != node.attr:
                    self._add("constant of an enum", node, f"{node.value.id}.{other}")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self._add("constant", node, str(not node.value))
            case int():
                self._add("constant", node, str(node.value + 1))
                if node.value > 0:
                    self._add("constant", node, str(node.value - 1))
            case float():
                self._add("constant", node, str(node.value * 2 or 1.0))
            case str():
                self._sql(node, node.value)

    def _sql(self, node: ast.Constant, value: str) -> None:
        if not _SQL.search(value):
            return
        text = self._text(node)
        for old, new in _IN_SQL:
            for found in re.finditer(re.escape(old), text):
                changed = text[: found.start()] + new + text[found.end() :]
                self._add("SQL", node, changed)

    def _negate(self, test: ast.expr) -> None:
        self._add("negated", test, f"(not ({self._text(test)}))")

    # --- places ---

    def _add(self, kind: str, node: ast.stmt | ast.expr, new: str) -> None:
        start, end = self._place(node)
        old = self._source[start:end]
        context = self._lines[node.lineno - 1].strip()
        self.found.append(Slip(self._file, node.lineno, kind, old, new, start, end, context))

    def _text(self, node: ast.stmt | ast.expr) -> str:
        start, end = self._place(node)
        return self._source[start:end]

    def _place(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        return self._offset(node.lineno, node.col_offset), self._offset(node.end_lineno or 0, node.end_col_offset or 0)

    def _offset(self, line: int, utf8: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:utf8].decode())


def _has_text(node: ast.BinOp) -> bool:
    return any(isinstance(one, ast.Constant | ast.JoinedStr) and not _is_number(one) for one in (node.left, node.right))


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _bindings(function: ast.FunctionDef) -> Mapping[str, int]:
    bound: dict[str, int] = {argument.arg: 1 for argument in function.args.args + function.args.kwonlyargs}
    read: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Load):
                read.add(node.id)
            else:
                bound[node.id] = bound.get(node.id, 0) + 1
    return {name: count for name, count in bound.items() if name in read}
