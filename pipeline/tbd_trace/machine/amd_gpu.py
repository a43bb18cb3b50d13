"""Find AMD GPUs in the list of the kernel's ROCm driver, which needs no program."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

# A directory per node with processors; `properties` has lines of a name and a number.
_NODES = Path("/sys/class/kfd/kfd/topology/nodes")


def architectures() -> list[str]:
    """Return the architecture of each AMD GPU, such as ``gfx90a``."""
    names = []
    for node in sorted(_NODES.glob("*/properties")):
        with suppress(OSError, ValueError):
            pairs = (line.split() for line in node.read_text().splitlines())
            values = {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2}
            version = values.get("gfx_target_version", 0)
            if values.get("simd_count"):  # a processor without is a CPU
                names.append(f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}")
    return names
