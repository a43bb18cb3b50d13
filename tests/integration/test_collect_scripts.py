"""``tbd-trace collect`` of training scripts as people write them, unedited.

Most of them never end. torch.profiler records them, so that no other profiler is needed.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import textwrap
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

import tbd_trace
from collected_scripts import SCRIPTS, causes, collect, document, labels, numbered, words
from tbd_collectors.recording import BARE

pytest.importorskip("torch")

LONG = SCRIPTS / "long_loop.py"
GAN = SCRIPTS / "two_optimizers.py"
WARMUP, ITERATIONS = 3, 6
WINDOW = ("--warmup", str(WARMUP), "--iterations", str(ITERATIONS))
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")


# Scripts that train until they are stopped.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "command", "boundary"),
    [
        (None, (sys.executable, GAN), "steps of Adam, the first of 2 optimizers"),
        (None, (sys.executable, GAN, "--critic-steps", "3"), "Adam, the rarest of 2 optimizers"),
        ("accelerate", (sys.executable, SCRIPTS / "accelerate_loop.py"), "steps of AdamW"),
        (None, (sys.executable, SCRIPTS / "data_parallel.py"), "steps of SGD"),
        (None, (*TORCHRUN, SCRIPTS / "data_parallel.py"), "steps of SGD"),
    ],
    ids=["two-optimizers", "three-critic-steps", "accelerate", "spawned", "torchrun"],
)
def test_enough_is_recorded_and_the_script_is_stopped(
    package: str | None, command: tuple[str | Path, ...], boundary: str, tmp_path: Path
) -> None:
    if package is not None:
        pytest.importorskip(package)
    capture = tmp_path / "capture"
    done = collect(*WINDOW, "-o", capture, "--", *command)
    assert done.returncode == 0, done.stderr
    assert f"timeline: {ITERATIONS} iterations recorded; the program is stopped" in done.stderr
    assert boundary in done.stderr
    if command[1] == GAN:
        layers = tbd_trace.open(capture).query("layer_time")["layer"].to_list()
        assert {"Sequential", "Sequential2"} <= set(layers)  # of the critic and the generator
    assert "KeyboardInterrupt" not in done.stderr
    content = document(capture)
    assert (content["status"], content["warmup"]) == ("ok", WARMUP)
    assert content["iterations"] == ITERATIONS
    assert content["unprofiled"]["iterations"] == BARE
    assert labels(capture) == numbered(WARMUP, ITERATIONS)
    assert not set(capture.iterdir()) - {
        capture / name
        for name in ("capture.json", "layers.json", "timeline.log", "timeline.pt.trace.json.gz")
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "script"),
    [("lightning", "lightning_module.py"), ("accelerate", "hf_trainer.py")],
)
def test_a_short_training_ends_by_itself(package: str, script: str, tmp_path: Path) -> None:
    pytest.importorskip(package)
    command = (sys.executable, SCRIPTS / script, tmp_path / "output")
    done = collect("--warmup", "2", "--iterations", "50", "-o", tmp_path / "c", "--", *command)
    assert done.returncode == 0, done.stderr
    assert labels(tmp_path / "c") == numbered(2, 8)
    assert document(tmp_path / "c")["iterations"] == 8
    ranges = tbd_trace.open(tmp_path / "c").query("nvtx_summary").rows(named=True)
    (loads,) = (row["instances"] for row in ranges if row["range_name"].endswith("phase:data"))
    assert loads >= 7  # HF Trainer gets the batch of the next step before it ends this one


@pytest.mark.slow
def test_times_are_those_of_the_script(tmp_path: Path) -> None:
    """Those with the profiler and those without, as the script itself takes them."""
    capture, times = tmp_path / "capture", tmp_path / "times"
    done = collect(*WINDOW, "-o", capture, "--", sys.executable, LONG, "--times", times)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("training 360000 steps\n")
    ends = [int(line) for line in times.read_text().splitlines() if line]
    periods = [after - before for before, after in pairwise(ends)]
    content = document(capture)
    bare = content["unprofiled"]["iteration_ns"]
    first = WARMUP + ITERATIONS + 1  # the iteration after the window writes the trace
    # The period of the last one also contains the report to collect. The process can be
    # interrupted between the two clocks of a period.
    by_script = periods[first - 1 : first + BARE - 2]
    assert len(by_script) == len(bare[:-1])
    assert median(bare[:-1]) == pytest.approx(median(by_script), rel=0.05, abs=1e6)
    profiled = periods[WARMUP - 1 : WARMUP - 1 + ITERATIONS]
    recorded = tbd_trace.open(capture).query("iteration_timing")["host_ns"].to_list()
    # In the last one the script also waits until the trace is written.
    assert sum(recorded[1:-1]) == pytest.approx(sum(profiled[1:-1]), rel=0.1)
    assert content["profiler_slowdown"] == pytest.approx(median(profiled) / median(bare), rel=0.2)


@pytest.mark.slow
def test_an_hour_of_training_is_answered_soon(tmp_path: Path) -> None:
    started = time.monotonic()
    done = collect("-o", tmp_path / "c", "--", sys.executable, LONG, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"note: next: tbd-trace why {tmp_path}/c\n")
    # The script sleeps before each step, but not in a loader.
    assert causes(tmp_path / "c").keys() & {"input_pipeline", "cpu_work"} == {"cpu_work"}
    asked = subprocess.run(
        [sys.executable, "-m", "tbd_trace", "why", tmp_path / "c"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (asked.returncode, "Where a step goes" in asked.stdout) == (0, True), asked.stderr
    assert time.monotonic() - started < 60


@pytest.mark.slow
def test_a_command_can_run_on(tmp_path: Path) -> None:
    times = tmp_path / "times"
    command = (sys.executable, LONG, "--times", times, "--steps", "1500")
    running = subprocess.Popen(
        words(*WINDOW, "--keep-running", "-o", tmp_path / "c", "--", *command),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    said = []
    for line in running.stderr:
        said.append(line)
        if "the command runs on" in line:
            break
    assert running.poll() is None, "".join(said)
    assert labels(tmp_path / "c") == numbered(WARMUP, ITERATIONS)
    running.communicate(timeout=60)
    assert running.returncode == 0
    assert len(times.read_text().splitlines()) == 1500


SAVES = """
    import pathlib, runpy, sys, time
    saved = pathlib.Path(sys.argv[0]).with_name("saved")
    del sys.argv[0]
    try:
        runpy.run_path(sys.argv[0])
    except KeyboardInterrupt:
        time.sleep(3)
        saved.touch()
        print("saved", flush=True)
        raise
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "profiler", ["torch", pytest.param("nsys", marks=pytest.mark.needs("nsys"))]
)
def test_a_script_has_time_to_save_its_work(profiler: str, tmp_path: Path) -> None:
    (tmp_path / "saves.py").write_text(textwrap.dedent(SAVES))
    command = (sys.executable, tmp_path / "saves.py", LONG)
    options = ("--profiler", profiler, *WINDOW, "-o", tmp_path / "c")
    done = collect(*options, "--", *command)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "saved").exists()
    assert done.stdout.startswith("training 360000 steps\nsaved\n")
    assert "Traceback" not in done.stderr


# Runs that do not end as they should.


@pytest.mark.slow
def test_what_was_recorded_before_a_crash_is_kept(tmp_path: Path) -> None:
    command = (sys.executable, LONG, "--fail-at", "7")
    done = collect(*WINDOW, "-o", tmp_path / "c", "--", *command)
    assert done.returncode == 1
    reason = "the program failed with exit code 1: ValueError: no sample of step 7; 4 iterations"
    assert f"error: {tmp_path}/c: {reason} are recorded" in done.stderr
    content = document(tmp_path / "c")
    assert (content["status"], content["iterations"]) == ("failed", 4)
    assert labels(tmp_path / "c") == numbered(WARMUP, 4)


@pytest.mark.slow
def test_what_was_recorded_before_the_time_is_up_is_kept(tmp_path: Path) -> None:
    command = (sys.executable, LONG, "--pause", "0.3")
    window = ("--warmup", "2", "--iterations", "100000", "--timeout", "20")
    done = collect(*window, "-o", tmp_path / "c", "--", *command)
    assert done.returncode == 1
    (found,) = re.findall(r"than --timeout allows; (\d+) iterations are recorded", done.stderr)
    assert len(labels(tmp_path / "c")) == int(found) > 1
    assert "KeyboardInterrupt" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.2, 1.5, 3, 4.5])
def test_ctrl_c_keeps_what_was_recorded(seconds: float, tmp_path: Path) -> None:
    running = subprocess.Popen(
        words("--iterations", "100000", "-o", tmp_path / "c", "--", sys.executable, LONG),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert "timeline (torch)" in running.stderr.readline()
    time.sleep(seconds)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130, said
    content = document(tmp_path / "c")
    assert content["status"] == "interrupted"
    if content["files"]:
        assert len(labels(tmp_path / "c")) == content["iterations"] > 0
        assert f"{content['iterations']} iterations are recorded" in said
    else:
        assert "interrupted by Ctrl-C; nothing is recorded" in said


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "profiler", ["torch", pytest.param("nsys", marks=pytest.mark.needs("nsys"))]
)
def test_signals_keep_what_was_recorded(
    profiler: str, number: signal.Signals, tmp_path: Path
) -> None:
    times = tmp_path / "times"
    options = ("--profiler", profiler, "--iterations", "100000", "-o", tmp_path / "c")
    running = subprocess.Popen(
        words(*options, "--", sys.executable, LONG, "--times", times),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    trained_until(times, 60)
    running.send_signal(number)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 128 + number, said
    assert f"interrupted by {number.name}; " in said
    assert document(tmp_path / "c")["status"] == "interrupted"
    assert len(labels(tmp_path / "c")) > 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "profiler", ["torch", pytest.param("nsys", marks=pytest.mark.needs("nsys"))]
)
def test_ctrl_c_again_keeps_what_was_recorded(profiler: str, tmp_path: Path) -> None:
    times = tmp_path / "times"
    (tmp_path / "saves.py").write_text(textwrap.dedent(SAVES).replace("sleep(3)", "sleep(300)"))
    options = ("--profiler", profiler, "--iterations", "100000", "-o", tmp_path / "c")
    command = (sys.executable, tmp_path / "saves.py", LONG, "--times", times)
    running = subprocess.Popen(
        words(*options, "--", *command),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    trained_until(times, 60)
    running.send_signal(signal.SIGINT)
    said = ""
    while "the program gets up to 60 s to end" not in said:
        said += running.stderr.readline()
    running.send_signal(signal.SIGINT)
    _, rest = running.communicate(timeout=60)
    assert running.returncode == 130, said + rest
    assert "the program gets Ctrl-C again, and 10 s to end" in rest
    assert not (tmp_path / "saved").exists()
    assert document(tmp_path / "c")["status"] == "interrupted"
    assert len(labels(tmp_path / "c")) > 1


def trained_until(times: Path, steps: int) -> None:
    for _ in range(1200):
        if times.exists() and times.read_text().count("\n") >= steps:
            return
        time.sleep(0.1)
    raise AssertionError(f"fewer than {steps} steps within 2 minutes")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "why"),
    [
        ("1", "trained 1 step, and marks begin with the third"),
        ("2", "trained 2 steps, and marks begin with the third"),
        ("5", "trained 5 steps, of which 5 are warm-up; --warmup 2 records 3 of them"),
        ("0", "no training by PyTorch, Keras fit or gluon.Trainer was found"),
    ],
)
def test_too_few_steps_are_counted(steps: str, why: str, tmp_path: Path) -> None:
    done = collect("-o", tmp_path / "c", "--", sys.executable, LONG, "--steps", steps)
    assert done.returncode == 1
    assert why in done.stderr
    assert "no capture was written" in done.stderr
    assert done.stdout == f"training {steps} steps\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "code", "message"),
    [
        ("import os; print('bad', flush=True); os.abort()", 134, "ended by SIGABRT: bad"),
        (
            "import os; os.kill(os.getpid(), 9)",
            137,
            "ended by SIGKILL, which Linux also sends when memory runs out",
        ),
        ("import sys; sys.exit('no data')", 1, "failed with exit code 1: no data"),
        ("import sys; sys.exit(42)", 42, "failed with exit code 42: no output"),
    ],
)
def test_the_exit_code_is_that_of_the_program(
    source: str, code: int, message: str, tmp_path: Path
) -> None:
    done = collect("-o", tmp_path / "c", "--", sys.executable, "-c", source)
    assert (done.returncode, message in done.stderr) == (code, True), done.stderr
    assert document(tmp_path / "c")["status"] == "failed"


@pytest.mark.slow
def test_a_program_in_the_background_is_recorded(tmp_path: Path) -> None:
    source = f"import subprocess, sys; subprocess.Popen([sys.executable, {str(LONG)!r}])"
    done = collect(*WINDOW, "-o", tmp_path / "c", "--", sys.executable, "-c", source)
    assert done.returncode == 0, done.stderr
    assert labels(tmp_path / "c") == numbered(WARMUP, ITERATIONS)


@pytest.mark.slow
def test_a_table_for_programs_has_the_standard_output_for_itself(tmp_path: Path) -> None:
    command = (sys.executable, LONG)
    done = collect(*WINDOW, "--format", "json", "-o", tmp_path / "c", "--", *command)
    (row,) = json.loads(done.stdout)
    assert (row["status"], row["iterations"]) == ("ok", ITERATIONS)
    assert row["size_bytes"] == (tmp_path / "c" / row["files"]).stat().st_size
    assert "training 360000 steps" in done.stderr


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "script.sh").touch()
    for name, why, code in (
        ("script.sh", "Permission denied", 126),
        (".", "Permission denied", 126),
        ("none.sh", "No such file", 127),
    ):
        path = f"{tmp_path}/{name}"
        for profiler in ("torch", "nsys"):
            done = collect("--profiler", profiler, "-o", tmp_path / "c", "--", path)
            assert done.returncode == code
            assert f"error: {path}: cannot be run ({why}" in done.stderr
            assert not (tmp_path / "c").exists()


@pytest.mark.slow
def test_a_corrected_command_replaces_a_capture_without_records(tmp_path: Path) -> None:
    capture = tmp_path / "c"
    capture.mkdir()
    options = (*WINDOW, "-o", capture, "--", sys.executable)
    assert collect(*options, tmp_path / "none.py").returncode == 2
    assert document(capture)["files"] == []
    done = collect(*options, LONG)
    assert done.returncode == 0, done.stderr
    assert labels(capture) == numbered(WARMUP, ITERATIONS)
    done = collect(*options, LONG)
    assert (done.returncode, "exists; choose another -o" in done.stderr) == (2, True)
    done = collect("--force", *options, tmp_path / "none.py")
    assert done.returncode == 2
    assert "nothing is recorded, so the earlier capture is kept" in done.stderr
    assert labels(capture) == numbered(WARMUP, ITERATIONS)


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    for more, why in (
        (("resnet50",), "--keep-running is for commands"),
        (("--ranks", "2", "--", "python", "x.py"), "--keep-running is for one process"),
    ):
        done = collect("--keep-running", "-o", tmp_path / "c", *more)
        assert (done.returncode, why in done.stderr) == (2, True), done.stderr
