"""Programs that ask for a GPU, on the CPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corpus import ROOT

pytest.importorskip("torch")

PROGRAM = """
import torch
from torch import nn
from tbd_models.unedited.without_gpu_pytorch import WithoutGpu
found = WithoutGpu()
model = nn.Linear(3, 2).cuda().to(torch.device("cuda:0"))
assert not found.is_compiled
model = torch.compile(model)
x = torch.zeros(4, 3, device="cuda").pin_memory().cuda(non_blocking=True)
torch.cuda.synchronize()
torch.cuda.set_device(0)
with torch.autocast("cuda", torch.float16):
    assert model(x).dtype is torch.bfloat16
assert (model.weight.device.type, x.device.type) == ("cpu", "cpu")
assert found.is_compiled and not torch.cuda.is_available()
"""


@pytest.mark.slow
def test_the_cpu_takes_the_place_of_the_gpu() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={"PYTHONPATH": str(ROOT / "models"), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-1500:]
