"""Steps of real traces without marks, against a table of their repeats."""

from __future__ import annotations

import pytest

import tbd_trace
from corpus import corpus_file_named, reference_rows
from fast import one_in
from parameters import Parameters

MISSED = {"gartangh_Master-s-Dissertation__Darknet-19.qdrep.exp2022.4.sqlite"}
"""Traces in which the table has repeats of a few kernels, and tbd-trace finds none."""

LAYERS = {
    "AMD-AGI_TraceLens__tests__traces__b200__eager_trace.json.gz",
    *(
        f"GindaChen_nsys-ai__tests__fixtures__{name}.sqlite"
        for name in ("h100_2gpu_1s", "mfu_2gpu_before", "mfu_2gpu_after")
    ),
}
"""Traces whose repeats are the layers of a model, as the names of ranges show.

The first is one call of ``GptOssForCausalLM`` with 36 blocks, of which each second one repeats: 18.
In the others, FSDP names another block in each repeat. The second lasts a second, and comes from
``encoder.block.14`` through all blocks back to it after 0.86 s. The last two run ``blocks.3`` to
``blocks.19`` and ``blocks.9`` to ``blocks.23``, once each: 17 and 15 repeats, as in the table.
"""


def rows() -> list[tuple[str, int]]:
    table = reference_rows("why/iterations_anchor.csv")
    return list(dict.fromkeys((row["file"], int(row["n"])) for row in table))


@pytest.mark.parametrize(("name", "repeats"), one_in(6, Parameters(rows, 2), then_one_in=10))
def test_steps_are_those_of_the_table(name: str, repeats: int) -> None:
    path = corpus_file_named(name)
    found = tbd_trace.open(path).sql(
        "SELECT method, count(*) AS steps FROM iteration GROUP BY process_id, method"
    )
    by_anchor = [steps for method, steps in found.rows() if method == "anchor kernel"]
    if name in MISSED | LAYERS or repeats == 0:
        assert by_anchor == []
    elif by_anchor:
        # The last repeat may be incomplete.
        assert max(by_anchor) == pytest.approx(repeats, abs=max(1, repeats // 10))
    else:
        assert set(found["method"]) <= {"nvtx range", "torch range"}
        assert found.height > 0
