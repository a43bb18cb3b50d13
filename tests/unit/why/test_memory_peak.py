"""The peak of the memory beside a verdict on time."""

from __future__ import annotations

from made_checks_memory import Profile
from made_trace import MadeTrace
from tbd_trace.why.memory_peak import INPUTS, memory_peaks


def peaks(made: MadeTrace) -> dict[str, str]:
    with made.connect() as database:
        database.derive(INPUTS)
        return memory_peaks(database.connection)


def test_peaks_of_the_devices_in_words() -> None:
    made = Profile().hold(300)
    made.make("weight", 100)
    other = Profile(device=1)
    other.make("weight", 200)
    host = Profile(device=None)
    host.make("weight", 900)
    assert peaks(made.join(other).join(host)) == {
        "t": "at the peak 200.0 MiB live on device 1, 100.0 MiB live on device 0 (300.0 MiB held); "
        "tbd-trace query memory_at_peak shows its parts"
    }


def test_allocations_of_the_driver_are_no_peak_of_a_framework() -> None:
    made = Profile()
    made.head["allocator"] = "cuda"
    made.make(None, 100)
    assert peaks(made) == {}
