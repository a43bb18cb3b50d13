"""`fit` and `collect --memory` of unedited scripts, compared with PyTorch's CPU allocator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tbd_trace
from tbd_collectors.collection_request import Command
from tbd_collectors.fit.need import need
from tbd_collectors.fit.program_memory import ProgramRuns

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parents[1] / "helpers" / "fit_scripts"
ALLOCATOR = SCRIPTS.parent / "cpu_allocator.py"
# Batch of each script, and bytes of its data set on the host, less those of the batch that is a
# view of it there, by the batch.
DATA: dict[str, tuple[int, Callable[[int], int]]] = {
    "plain_loop": (64, lambda batch: 39 * batch * (256 * 4 + 8)),
    "loader_loop": (48, lambda _batch: 0),  # of NumPy
    "recurrent": (16, lambda batch: 4 * batch * 33 * 8),
    "encoder": (8, lambda batch: 2 * 4 * batch * 96 * (8 + 8)),
    "hf_trainer": (8, lambda _batch: 0),  # lists
    "lightning_module": (64, lambda batch: 4 * batch * (512 * 4 + 8)),
}
NEEDS = {"hf_trainer": ("transformers", "accelerate"), "lightning_module": ("lightning",)}


def allocator_peak(script: Path, batch: int, directory: Path) -> int:
    """Return the most bytes of the CPU allocator, apart from the data set."""
    done = subprocess.run(
        [sys.executable, ALLOCATOR, script, str(batch)],
        capture_output=True, text=True, timeout=300, check=True, cwd=directory,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    peak: int = json.loads(done.stdout.splitlines()[-1])["peak_bytes"]
    return peak - DATA[script.stem][1](batch)


def estimated(name: str, batch: int | None, directory: Path) -> int:
    logs = directory / f"logs{batch}"
    logs.mkdir()
    command = Command((sys.executable, str(SCRIPTS / f"{name}.py")), "cpu")
    runs = ProgramRuns(command, logs, "cpu", fake=True, timeout_s=300)
    memory = runs.memory(batch)
    assert memory.batch_size == DATA[name][0]
    return need(memory.log, "cpu").peak


def fit(*words: str | Path) -> Any:
    command = [sys.executable, "-m", "tbd_trace", "fit", "--device", "cpu", "--format", "json"]
    done = subprocess.run(
        [*command, *map(str, words)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.stdout, done.stderr[-2000:]
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("name", DATA)
def test_scripts_need_what_the_allocator_holds(name: str, tmp_path: Path) -> None:
    """Within 0.1 %, and within 1 % for twice the batch that the script makes."""
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module)
    batch = DATA[name][0]
    real = allocator_peak(SCRIPTS / f"{name}.py", batch, tmp_path)
    assert estimated(name, None, tmp_path) == pytest.approx(real, rel=0.001)
    double = allocator_peak(SCRIPTS / f"{name}.py", 2 * batch, tmp_path)
    assert double > real
    assert estimated(name, 2 * batch, tmp_path) == pytest.approx(double, rel=0.01)


def test_the_largest_batch_fits_and_the_next_does_not(tmp_path: Path) -> None:
    limit = 0.2 * 2**30
    code, found = fit("0.2", "--", sys.executable, SCRIPTS / "encoder.py")
    assert code == 0
    assert found["fits"]
    batch = found["largest_batch"]
    script = SCRIPTS / "encoder.py"
    assert allocator_peak(script, batch, tmp_path) <= limit
    assert allocator_peak(script, batch + 1, tmp_path) > limit


def test_a_plan_makes_the_batch_fit(tmp_path: Path) -> None:
    """The peak of a script with torch.utils.checkpoint, edited as the plan says."""
    script = tmp_path / "loader_loop.py"
    text = (SCRIPTS / "loader_loop.py").read_text(encoding="utf-8")
    code, found = fit("260MB", "--batch-size", "1024", "--", sys.executable, SCRIPTS / script.name)
    assert code == 12
    plan = found["plan"]
    assert plan["fits"]
    limit = 260 * 2**20
    assert plan["need_bytes"] <= limit
    numbers = [int(name.removeprefix("blocks.")) for name in plan["checkpoint"]]
    assert 0 < len(numbers) < 6
    # Each block has the same work: one less must not fit.
    assert plan["recompute_flop"] == len(numbers) * 2 * 2 * 1024 * 512 * 2048
    for chosen, fits in ((numbers, True), (numbers[1:], False)):
        call = f"x = checkpoint(block, x, use_reentrant=False) if number in {chosen} else block(x)"
        edited = text.replace("x = block(x)", call)
        edited = edited.replace("for block in self", "for number, block in enumerate(self")
        edited = edited.replace("self.blocks:", "self.blocks):")
        script.write_text(f"from torch.utils.checkpoint import checkpoint\n{edited}", "utf-8")
        peak = allocator_peak(script, 1024, tmp_path)
        assert (peak <= limit) == fits
        if fits:
            assert plan["peak_bytes"] == pytest.approx(peak, rel=0.03)
            assert plan["modelled_peak_bytes"] == pytest.approx(peak, rel=0.03)


def test_a_place_for_the_batch_in_the_command(tmp_path: Path) -> None:
    code, found = fit(
        "0.3", "--batch-size", "4", "--", sys.executable, SCRIPTS / "recurrent.py", "{batch}"
    )
    assert code == 0
    assert found["batch_size"] == 4
    real = allocator_peak(SCRIPTS / "recurrent.py", 4, tmp_path)
    assert found["peak_bytes"] == pytest.approx(real, rel=0.001)


ODD = """
import torch
model = torch.nn.Linear(64, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    out = model(torch.randn(32, 64))
    counts = (out.argmax(1) % 3).clamp(min=1)
    torch.repeat_interleave(out, counts, dim=0).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_a_shape_that_no_constant_gives_needs_data(tmp_path: Path) -> None:
    script = tmp_path / "odd.py"
    script.write_text(ODD, encoding="utf-8")
    code, found = fit("1", "--", sys.executable, script)
    assert code == 0
    assert found["evidence"] == "measured"
    assert "aten.repeat_interleave.Tensor" in found["notes"][0]
    # A script without loader has the batch in itself.
    assert found["largest_batch"] is None
    assert "write {batch}" in found["notes"][1]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("print(1)", "no module of PyTorch with trained parameters was called in training mode"),
        (ODD.partition("    optimizer.step")[0], "ended before its first optimizer step"),
        (ODD.replace("optimizer.step()", "raise KeyError('nothing')"), "KeyError: 'nothing'"),
    ],
)
def test_a_script_that_does_not_train_is_one_line(text: str, reason: str, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(text.replace("torch.repeat_interleave(out, counts, dim=0)", "out"), "utf-8")
    command = [sys.executable, "-m", "tbd_trace", "fit", "1", "--", sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 1
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_recorded_and_estimated_memory_of_a_command_are_equal(tmp_path: Path) -> None:
    """`collect --memory` without a call in the script, on real tensors and from shapes."""
    found = []
    for options in ((), ("--estimate",)):
        capture = tmp_path / f"capture{len(options)}"
        command = [sys.executable, "-m", "tbd_trace", "collect", "--memory", *options]
        command += ["--device", "cpu", "-o", capture, "--", sys.executable]
        subprocess.run(
            [*map(str, command), str(SCRIPTS / "encoder.py")],
            capture_output=True, timeout=300, check=True,
        )  # fmt: skip
        assert {path.name for path in capture.iterdir()} == {
            "capture.json", "memory.jsonl", "memory.log"
        }  # fmt: skip
        rows = tbd_trace.open(capture).query("memory_breakdown", allow_unknown=True)
        found.append(dict(zip(rows["class"], rows["requested_bytes"], strict=True)))
        assert json.loads((capture / "capture.json").read_text())["batch_size"] == 8
    assert found[0] == found[1]
    assert found[0]["feature_map"] > found[0]["weight"] == found[0]["weight_gradient"]
