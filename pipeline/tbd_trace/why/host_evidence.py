"""What shows the causes of steps without a GPU: operators, layers and collectives."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import NamedTuple

import duckdb

from tbd_trace.why.evidence import waiting

RELATIONS = ("host_operator_time", "layer_host_time", "annotation_semantics", "_host_span",
             "collective", "matched_collective", "straggler_cause")  # fmt: skip
"""Relations behind the evidence."""

# Layers of the kind operator are operators, and ranges of record_function may be anything.
_OPERATORS = """
SELECT cause, regexp_replace(operator, '^autograd::engine::evaluate_function: ', ''),
    sum(self_ns)::BIGINT, any_value(input_type)
FROM host_operator_time
WHERE trace_id = $trace AND process_id = $process
GROUP BY ALL
ORDER BY 3 DESC, 2"""
_LAYERS = """
SELECT CASE phase WHEN 'loss' THEN 'cpu_forward' ELSE 'cpu_' || phase END, layer,
    sum(host_ns)::BIGINT
FROM layer_host_time
SEMI JOIN (
    SELECT layer FROM annotation_semantics
    WHERE trace_id = $trace AND process_id = $process AND layer_kind <> 'operator'
      AND (layer_kind <> 'plain' OR origin = 'nvtx')
) USING (layer)
WHERE trace_id = $trace AND process_id = $process
GROUP BY ALL
ORDER BY 3 DESC, 2"""
_COLLECTIVES = """
SELECT c.kind, c.bytes,
    CASE WHEN m.is_synchronizing AND m.start_skew_ns > m.uncertainty_ns AND m.wait_ns > 0
         THEN m.last_rank END,
    m.collective_id IS NOT NULL, s.sentence
FROM collective c
LEFT JOIN matched_collective m ON m.trace_id = c.trace_id AND m.collective_id = c.collective_id
LEFT JOIN straggler_cause s ON s.job = m.job AND s.rank = m.last_rank
WHERE c.trace_id = $trace AND c.process_id = $process AND c.source = 'gloo'
  AND EXISTS (
    SELECT 1 FROM _host_span s
    WHERE s.trace_id = c.trace_id AND s.process_id = c.process_id
      AND c.start_ns >= s.start_ns AND c.start_ns < s.end_ns)"""
_SHOWN = 3
_LEAST_PCT = 1.0  # of an operator or layer that is listed


class Operator(NamedTuple):
    """An operator of a cause; without a name, the time outside operators."""

    name: str | None
    self_ns: int
    input_type: str | None


class Collective(NamedTuple):
    """A collective of gloo; ``last_rank`` is the rank that it waits for, and ``why``."""

    kind: str | None
    size: int | None
    last_rank: int | None
    is_matched: bool
    why: str | None


@dataclass(frozen=True, slots=True)
class HostEvidence:
    """Operators and layers of each cause, the longest first, and the collectives of a process."""

    elapsed_ns: int
    steps: int
    operators: dict[str, list[Operator]] = field(default_factory=dict)
    layers: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    collectives: list[Collective] = field(default_factory=list)

    def work(self, cause: str) -> str:
        """Name the operators and layers that take most of a cause, in shares of the step."""
        own = self.operators.get(cause, [])
        is_known = any(operator.name for operator in own)
        operators = [
            f"{operator.name or 'outside operators'} {self._pct(operator.self_ns)}"
            + (f" ({operator.input_type})" if operator.input_type else "")
            for operator in own
            if is_known and self._is_listed(operator.self_ns)
        ][:_SHOWN]
        layers = [
            f"{name} {self._pct(ns)}"
            for name, ns in self.layers.get(cause, [])
            if self._is_listed(ns)
        ][:_SHOWN]
        named = f"layers: {', '.join(layers)}" if layers else ""
        return "; ".join(filter(None, (", ".join(operators), named)))

    def communication(self) -> str:
        """Say which collectives of gloo the steps have."""
        number = len(self.collectives)
        if not number:
            return "the thread of the steps is in ranges of communication"
        kinds = ", ".join(sorted({collective.kind or "unknown" for collective in self.collectives}))
        sizes = [collective.size for collective in self.collectives if collective.size is not None]
        size = f"{sum(sizes) / max(self.steps, 1) / 1e6:.3g} MB" if len(sizes) == number else ""
        each = f"{number / max(self.steps, 1):.3g} collectives ({kinds})"
        amount = " of ".join(filter(None, (each, size)))
        return f"the thread waits for gloo: {amount}{' a step' if self.steps else ''}"

    def straggler(self) -> str:
        """Say which rank the collectives wait for."""
        last = [
            collective.last_rank
            for collective in self.collectives
            if collective.last_rank is not None
        ]
        if not last:
            return "collectives wait for another rank to begin"
        rank = max(sorted(set(last)), key=last.count)
        why = next(
            collective.why for collective in self.collectives if collective.last_rank == rank
        )
        return waiting(len(last), last.count(rank), rank, why)

    def _pct(self, ns: int) -> str:
        return f"{100 * ns / self.elapsed_ns:.0f} %"

    def _is_listed(self, ns: int) -> bool:
        return 100 * ns >= _LEAST_PCT * self.elapsed_ns


def load_host_evidence(
    connection: duckdb.DuckDBPyConnection,
    trace_id: str,
    process_id: int,
    elapsed_ns: int,
    steps: int,
) -> HostEvidence:
    """Read what shows the causes of a process; the relations of ``RELATIONS`` exist.

    Args:
        elapsed_ns: time of all steps, to which shares refer.
        steps: number of steps; 0 for the whole trace.
    """
    parameters = {"trace": trace_id, "process": process_id}
    operators: dict[str, list[Operator]] = defaultdict(list)
    for cause, *operator in connection.execute(_OPERATORS, parameters).fetchall():
        operators[cause].append(Operator(*operator))
    layers: dict[str, list[tuple[str, int]]] = defaultdict(list)
    for cause, layer, ns in connection.execute(_LAYERS, parameters).fetchall():
        layers[cause].append((layer, ns))
    collectives = connection.execute(_COLLECTIVES, parameters).fetchall()
    return HostEvidence(
        elapsed_ns, steps, operators, layers, [Collective(*row) for row in collectives]
    )
