"""What the modules of tests do with requirements, by their syntax trees.

At import no module may ask for what `requirements` knows. Outside this folder none may find out by
itself, at any time, whether it is there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from requirements import REQUIREMENTS

FOLDERS = ("CORPUS", "REFERENCE", "CASES")
# Their modules are imported by their own names.
_PATHS = ("helpers", "golden", "generated", "integration")
_HELPERS = ("corpus", "fast", "parameters", "requirements")
# What skips a test, and what makes parameters when pytest collects it.
_SKIPPING = re.compile(
    r"corpus\.(corpus_file|corpus_file_named|corpus_folder|matching|case_file|reference_\w+)"
    r"|requirements\.(require|reason|first_reason|lacks|program)"
)
_LAZY = {"corpus.corpus_files", "parameters.Parameters"}
_STAYS_LAZY = {"fast.one_in", "fast.first_of_each_format"}
_CONSUMERS = {
    *("dict", "enumerate", "filter", "len", "list", "map", "max", "min", "next", "set", "sorted"),
    *("sum", "tuple", "zip", "pytest.fixture"),
}
_PROGRAMS = re.compile(r"shutil\.which|subprocess\.\w+|os\.(system|popen)")
_SKIPS = ("pytest.skip", "pytest.mark.skip", "pytest.mark.skipif", "pytest.importorskip")
_LOOKS = {"exists", "is_file", "is_dir", "which", "geteuid", "getuid"}
_OWN_REASON = re.compile(
    r"not installed|is missing|names no interpreter|TBD_TRACE_|runtime library"
    r"|\bno (real|reference|traces?|jobs?|cases?|files?)\b"
    rf"|\b(no|needs?|without) ({'|'.join(REQUIREMENTS)})\b"
)
_TELLING = ast.Import | ast.ImportFrom | ast.If | ast.Call | ast.Attribute | ast.Constant
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, order=True)
class Finding:
    """What a line does that it may not."""

    path: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.problem}"


@dataclass
class Module:
    """The syntax tree of a module, and what its names mean.

    Args:
        path: relative to the folder ``tests``.
    """

    path: str
    tree: ast.Module
    imported: dict[str, str] = field(default_factory=dict)
    telling: list[ast.stmt | ast.expr] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.telling = [node for node in ast.walk(self.tree) if isinstance(node, _TELLING)]
        for node in self.telling:
            if isinstance(node, ast.ImportFrom):
                self.imported |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            elif isinstance(node, ast.Import):
                self.imported |= {a.asname or a.name: a.name for a in node.names}

    @cached_property
    def name(self) -> str:
        """The name by which other modules import it."""
        folder, *rest = self.path.removesuffix(".py").split("/")
        return ".".join(rest if folder in _PATHS else [folder, *rest])

    @cached_property
    def functions(self) -> dict[str, _Function]:
        return {node.name: node for node in self.tree.body if isinstance(node, _Function)}

    @cached_property
    def lazy(self) -> set[str]:
        """The names of parameters that are made at collection."""
        found: set[str] = set()
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and self.is_lazy(node.value, found):
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        return found

    def meaning(self, node: ast.expr) -> str:
        """Return the full name that an expression means, such as ``shutil.which``."""
        if isinstance(node, ast.Attribute):
            return f"{self.meaning(node.value)}.{node.attr}"
        return self.imported.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    def is_lazy(self, node: ast.AST, names: Collection[str]) -> bool:
        """Return True if an expression is parameters that are made at collection."""
        if isinstance(node, ast.Subscript):
            return self.is_lazy(node.value, names)
        if isinstance(node, ast.Call):
            name = self.meaning(node.func)
            within = node.args if name in _STAYS_LAZY else []
            return name in _LAZY or any(self.is_lazy(value, names) for value in within)
        return isinstance(node, ast.Name) and node.id in names


class Suite:
    """The modules of tests.

    Args:
        sources: texts by path, which is relative to the folder ``tests``.
    """

    def __init__(self, sources: Mapping[str, str]) -> None:
        self.modules = [Module(path, ast.parse(text)) for path, text in sources.items()]
        self._by_name = {module.name: module for module in self.modules}

    def findings(self) -> list[Finding]:
        """Return all findings, by path and line."""
        found: set[Finding] = set()
        for module in self.modules:
            self._import(found, module, [module.tree], frozenset())
            if not module.path.startswith("helpers/"):
                found.update(_at_any_time(module))
        return sorted(found)

    def _import(
        self, found: set[Finding], module: Module, body: list[ast.AST], calls: frozenset[str]
    ) -> None:
        for node in (inner for statement in body for inner in _evaluated(statement)):
            found.update(_at_import(module, node))
            of, function = self._called(module, node)
            if function and (key := f"{of.path}:{function.name}") not in calls:
                self._import(found, of, [*function.body], calls | {key})

    def _called(self, module: Module, node: ast.AST) -> tuple[Module, _Function | None]:
        where, _, name = (
            module.meaning(node.func).rpartition(".") if isinstance(node, ast.Call) else ("",) * 3
        )
        of = self._by_name.get(where, module) if where else module
        trusted = of.name in _HELPERS or (where and where not in self._by_name)
        return of, None if trusted else of.functions.get(name)


def _evaluated(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs when a statement or expression does, without the bodies of functions."""
    yield node
    for child in _children(node):
        yield from _evaluated(child)


def _children(node: ast.AST) -> Iterable[ast.AST]:
    if isinstance(node, _Function | ast.Lambda):
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        return [*decorators, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
        return node.orelse
    return ast.iter_child_nodes(node)


def _at_import(module: Module, node: ast.AST) -> Iterator[Finding]:
    sources: list[ast.expr] = []
    if isinstance(node, ast.Call):
        name = module.meaning(node.func)
        if _PROGRAMS.fullmatch(name) or _SKIPPING.fullmatch(name):
            yield Finding(module.path, node.lineno, f"{name} at import")
        if name in _CONSUMERS:
            sources = [*node.args, *(keyword.value for keyword in node.keywords)]
    elif isinstance(node, ast.comprehension | ast.For):
        sources = [node.iter]
    elif isinstance(node, ast.Starred):
        sources = [node.value]
    for source in sources:
        if module.is_lazy(source, module.lazy):
            yield Finding(module.path, source.lineno, "makes parameters at import")


def _at_any_time(module: Module) -> Iterator[Finding]:
    for node in module.telling:
        for problem in _problems(module, node):
            yield Finding(module.path, node.lineno, problem)


def _problems(module: Module, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom) and node.module in _HELPERS:
        yield from (f"{a.name} itself" for a in node.names if a.name in FOLDERS)
    elif isinstance(node, ast.Attribute):
        if module.meaning(node) == "pytest.mark.tool":
            yield "mark tool, which follows from needs"
        elif module.meaning(node.value) in _HELPERS and node.attr in FOLDERS:
            yield f"{node.attr} itself"
    elif isinstance(node, ast.Constant) and node.value == "TBD_TRACE_CORPUS":
        yield "TBD_TRACE_CORPUS itself"
    elif isinstance(node, ast.If):
        skips = any(_is_skip(module, inner) for part in node.body for inner in ast.walk(part))
        if skips and _looks(module, node.test):
            yield "finds out whether to skip"
    elif isinstance(node, ast.Call):
        yield from _of_call(module, node)


def _of_call(module: Module, node: ast.Call) -> Iterator[str]:
    if module.meaning(node.func) == "shutil.which":
        yield "shutil.which"
    if not _is_skip(module, node):
        return
    texts = [inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant)]
    if any(_OWN_REASON.search(str(text)) for text in texts):
        yield "a reason of its own to skip"
    if any(_looks(module, argument) for argument in node.args):
        yield "finds out whether to skip"


def _is_skip(module: Module, node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and module.meaning(node.func) in _SKIPS


def _looks(module: Module, test: ast.expr) -> bool:
    called = (node.func for node in ast.walk(test) if isinstance(node, ast.Call))
    return any(module.meaning(function).rpartition(".")[2] in _LOOKS for function in called)
