"""Run the notebooks in docs/notebooks and store their outputs: ``python tools/notebooks.py``.

Cells run in this interpreter, in the root of the checkout, without a Jupyter kernel. The value of
a last expression is stored as text and, if the object has it, as HTML or SVG.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "docs" / "notebooks"
_FORMS = {"text/html": "_repr_html_", "image/svg+xml": "_repr_svg_"}


def code_cells(notebook: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the code cells of a notebook."""
    yield from (cell for cell in notebook["cells"] if cell["cell_type"] == "code")


def run(notebook: dict[str, Any]) -> None:
    """Run the code cells in one namespace, and replace their outputs.

    Raises:
        Exception: as a cell does.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), 1):
        value = _value("".join(cell["source"]), names)
        cell["execution_count"] = number
        cell["outputs"] = [] if value is None else [_output(value, number)]


def _value(source: str, names: dict[str, Any]) -> Any:
    statements = ast.parse(source).body
    last = statements.pop() if statements else None
    if isinstance(last, ast.stmt) and not isinstance(last, ast.Expr):
        statements.append(last)
    exec(compile(ast.Module(statements, []), "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def _output(value: Any, number: int) -> dict[str, Any]:
    data: dict[str, Any] = {"text/plain": _lines(repr(value))}
    for form, method in _FORMS.items():
        if hasattr(value, method):
            data[form] = _lines(getattr(value, method)())
    return {
        "output_type": "execute_result",
        "execution_count": number,
        "metadata": {},
        "data": data,
    }


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def main() -> None:
    """Renew all notebooks."""
    os.chdir(ROOT)
    for path in sorted(PLACE.glob("*.ipynb")):
        notebook = json.loads(path.read_text(encoding="utf-8"))
        run(notebook)
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
