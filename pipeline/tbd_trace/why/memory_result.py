"""The verdict on memory as a Python object, JSON and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from tbd_trace.why.memory_diagnosis import MemoryDiagnosis
from tbd_trace.why.memory_screen import markdown, text


@dataclass(frozen=True, slots=True)
class MemoryVerdict:
    """What holds the memory: a diagnosis of each device, one with a failed request first."""

    diagnoses: Sequence[MemoryDiagnosis]
    whole = "the memory"  # what shares are parts of

    @property
    def slowest(self) -> MemoryDiagnosis:
        """The first diagnosis, named as in the verdict on time."""
        return self.diagnoses[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the first diagnosis; other devices are listed under ``others``."""
        others = [
            {
                "trace_id": other.trace_id,
                "device_id": other.device_id,
                "allocator": other.allocator,
                "memory_kind": other.memory_kind,
                "live_bytes": other.base.live_bytes,
                "held_bytes": other.base.held_bytes,
                "cause": other.causes[0].cause if other.causes else None,
                "share_pct": other.causes[0].share_pct if other.causes else None,
            }
            for other in self.diagnoses[1:]
        ]
        return self.slowest.to_dict() | {"others": others}

    def text(self, top: int = 4, **options: Any) -> str:
        """Return the screen; options as in :func:`tbd_trace.why.memory_screen.text`."""
        return text(self.diagnoses, top, **options)

    def markdown(self, *, everything: bool = False) -> str:
        """Return the classes of the first diagnosis as a Markdown table."""
        return markdown(self.slowest, everything=everything)

    def __repr__(self) -> str:
        first, others = self.slowest, len(self.diagnoses) - 1
        more = f", {others} more" if others else ""
        return f"<MemoryVerdict of {first.trace}: {first.base.live_bytes:,} bytes{more}>"

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"
