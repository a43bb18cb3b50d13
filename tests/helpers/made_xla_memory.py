"""A made memory plan of XLA."""

from __future__ import annotations

from pathlib import Path

# One dense layer: y = x @ w; backward dw = x^T @ dy; v = 0.9 v - dw; w += v.
MADE = """\
BufferAssignment:
allocation 0: size 400, parameter 0, shape |f32[10,10]| at ShapeIndex {}, maybe-live-out:
 value: <0 w @0> (size=400,offset=0): f32[10,10]{1,0}
 value: <8 add @0> (size=400,offset=0): f32[10,10]{0,1}
allocation 1: size 400, parameter 1, shape |f32[10,10]| at ShapeIndex {}, maybe-live-out:
 value: <1 v @0> (size=400,offset=0): f32[10,10]{1,0}
 value: <7 sub @0> (size=400,offset=0): f32[10,10]{1,0}
allocation 2: size 80, parameter 2, shape |f32[2,10]| at ShapeIndex {}:
 value: <2 x @0> (size=80,offset=0): f32[2,10]{1,0}
allocation 3: size 16, output shape is |(f32[10,10], f32[10,10])|, maybe-live-out:
 value: <9 tuple{} @0> (size=16,offset=0): (f32[10,10]{1,0}, f32[10,10]{1,0})
allocation 4: size 4, constant:
 value: <3 c @0> (size=4,offset=0): f32[]
allocation 5: size 560, preallocated-temp:
 value: <4 y @0> (size=80,offset=0): f32[2,10]{1,0}
 value: <5 dy @0> (size=80,offset=80): f32[2,10]{1,0}
 value: <6 dw @0> (size=400,offset=160): f32[10,10]{1,0}
 value: <10 relayout @0> (size=80,offset=160): f32[2,10]{0,1}

Total bytes used: 1460 (1.4KiB)

Used values:
"""
INSTRUCTIONS = {
    0: ("w", "parameter(0)", "XLA_Args", ["y", "add"]),
    1: ("v", "parameter(1)", "XLA_Args", ["sub"]),
    2: ("x", "parameter(2)", "XLA_Args", ["y", "dw"]),
    3: ("c", "constant(0.9)", "sgd/mul", ["sub"]),
    4: ("y", "dot(%x, %w)", "model/dense/MatMul", ["relayout"]),
    5: ("dy", "fusion(%relayout)", "gradient_tape/model/loss", ["dw"]),
    6: ("dw", "dot(%x, %dy)", "gradient_tape/model/dense/MatMul", ["sub"]),
    7: ("sub", "fusion(%v, %dw, %c)", "sgd/Sub", ["add", "tuple"]),
    8: ("add", "fusion(%w, %sub)", "sgd/AssignAddVariableOp", ["tuple"]),
    9: ("tuple", "tuple(%add, %sub)", "", []),
    10: ("relayout", "copy(%y)", "", ["dy"]),
}


def made(tmp_path: Path, instructions=INSTRUCTIONS, text: str = MADE) -> Path:
    for number, (name, code, operation, readers) in instructions.items():
        uses = "".join(f"  {reader}, operand {index}\n" for index, reader in enumerate(readers))
        metadata = f', metadata={{op_name="{operation}"}}' if operation else ""
        text += (
            f"<{number} {name} @0>\n positions:\n  {name}\n uses:\n{uses}"
            f" from instruction: %{name} = f32[2]{{0}} {code}{metadata}\n"
        )
    path = tmp_path / "module_0001.step.cpu_after_optimizations-buffer-assignment.txt"
    path.write_text(text)
    return path
