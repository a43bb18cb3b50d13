"""Real files that are empty, partial, broken or no profile: each is told for what it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import complaint, invoke

from corpus import CORPUS, corpus_files

NO_CUDA = "no CUDA activity was recorded"
NOTHING_LAUNCHED = "CUDA calls were recorded but no GPU activity"
ONLY_MEMORY = "no kernel was recorded, only copies or fills of memory"
NVPROF_NOTHING = "nvprof recorded nothing"
NVPROF_NO_ACTIVITY = "nvprof recorded no activity although CUDA was started"
DAMAGED = "damaged or incomplete SQLite file"
NO_PROFILE = "not a profile that tbd-trace knows; expected"
OTHER_SQLITE = "SQLite, but no profile that tbd-trace knows"

# What to say about each file, by the beginning of its name; the longest that fits counts.
REFUSED = {
    "DERIVED_truncated__MohanadOdema": f"{DAMAGED} (191,692 of 319,488 bytes)",
    "DERIVED_truncated__josiahdavis": f"{DAMAGED} (397,312 of 794,624 bytes)",
    "JakeFlasher_benchmark_flash_attention": NO_PROFILE,
    "MohanadOdema_DLProf__dlprof_dldb": f"{OTHER_SQLITE} (tables: aggregations,",
    "hpcgroup_pipit__docs__examples__test": f"{OTHER_SQLITE} (tables: test)",
    "josiahdavis_profiling-lm__transformer.csv": NO_PROFILE,
    "koshiq_WikiText102": "a Git LFS pointer, not the profile; run `git lfs pull`",
    "skycs97_darknet__vs_slnx": f"{OTHER_SQLITE} (tables: FileScannerCache,",
}
EMPTY = {
    "Better-Call-Paul_CUDA-Transformer__src__report1": NO_CUDA,
    "Better-Call-Paul_CUDA-Transformer__src__report2": NOTHING_LAUNCHED,
    "IhorAtlanov_assignment2-systems__result": NO_CUDA,
    "StellaWava_benchmarking-n-profiling": NO_CUDA,
    "SwatikSahoo_profile__profile": NVPROF_NOTHING,
    "YoonKyonghwan_EfficientCenterFormer__baseline": NO_CUDA,
    "Yu-gyoung-Yun_alpa__report": ONLY_MEMORY,
    "ZaidQureshi_compression": NVPROF_NO_ACTIVITY,
    "amir-ghz_DynamicViT": NO_CUDA,
    "frasertajima_WeatherBench2": ONLY_MEMORY,
    "gartangh_Master-s-Dissertation__report10": NOTHING_LAUNCHED,
    "josiahdavis_profiling-lm__net": NVPROF_NO_ACTIVITY,
    "mabdullahsoyturk_cardiac-simulation": NO_CUDA,
    "nevakrien_python_c_nvidia": NO_CUDA,
    "phonchi_Cryo-RAlib": NO_CUDA,
    "tbd-ai_tbd-suite": NVPROF_NOTHING,
}
ANSWERING = ("GindaChen_nsys-ai__tests__fixtures__healthy_1pct",)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("odd") / "x.duckdb"


def known(name: str, among: dict[str, str]) -> str | None:
    found = [begin for begin in among if name.startswith(begin)]
    return among[max(found, key=len)] if found else None


@pytest.mark.parametrize("path", corpus_files("odd/*"))
def test_odd_files(path: Path, db: Path) -> None:
    outcome = invoke("ingest", path, "--db", db)
    refused = known(path.name, REFUSED)
    if refused is not None:
        line = complaint(outcome, 1)
        assert line.startswith(f"error: {path}: {refused}")
        return
    assert outcome.code == 0, outcome
    [line] = outcome.out.splitlines()
    trace, _, kernels = line.split()[:3]
    notes = outcome.err.splitlines()
    assert all(note.startswith(f"note: {path.name}: ") for note in notes)
    if path.name.startswith(ANSWERING):
        assert (kernels, notes) == ("400", [])
        return
    expected = known(path.name, EMPTY)
    assert expected is not None, f"a new odd file: say what is wrong with it ({outcome})"
    assert kernels == "0"
    assert any(expected in note for note in notes)
    for name in ("kernel_summary", "fp32_util"):
        line = complaint(invoke("query", name, trace, "--db", db), 3)
        assert f"{name} needs single kernels; collect a timeline with" in line


@pytest.mark.skipif(not CORPUS.is_dir(), reason=f"no real traces at {CORPUS}")
def test_a_heap_of_odd_files_at_once(tmp_path: Path) -> None:
    """Each bad one is told once, the good one is ingested, and the exit code says 'not all'."""
    odd = sorted((CORPUS / "odd").iterdir())
    refused = [file for file in odd if known(file.name, REFUSED)]
    good = [file for file in odd if file.name.startswith(ANSWERING)]
    outcome = invoke("ingest", *refused[:4], *good, *refused[4:], "--db", tmp_path / "x.duckdb")
    errors = [line for line in outcome.err.splitlines() if line.startswith("error: ")]
    assert outcome.code == 1
    assert [line.split(": ")[1] for line in errors] == [str(file) for file in refused]
    assert len(outcome.out.splitlines()) == len(good) == 1
