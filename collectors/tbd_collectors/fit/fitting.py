"""Answer whether a program fits: its need, the largest batch, and the cheapest checkpointing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tbd_collectors.fit.checkpoint_model import CheckpointModel
from tbd_collectors.fit.checkpoint_plan import Planner
from tbd_collectors.fit.memory_log import BatchLine, MemoryLog
from tbd_collectors.fit.need import Need, need
from tbd_collectors.fit.program_memory import ProgramMemory, ProgramRuns
from tbd_collectors.fit.sharding import Sharding
from tbd_collectors.largest_batch import search
from tbd_collectors.process import CollectionError

_ROUNDS = 3  # of a plan whose peak differs from the modelled one


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """The largest batch that fits, 0 if none does, with the need of this batch and the next."""

    batch: int
    needs: dict[int, int]  # bytes of the device by batch size, both of runs with this batch
    is_predicted: bool  # True if the sizes of two batches predicted it


@dataclass(frozen=True, slots=True)
class AppliedPlan:
    """Blocks to checkpoint, and the need of a run with them."""

    blocks: tuple[str, ...]
    flop: int
    modelled_peak: int  # bytes of tensors
    need: Need
    fits: bool
    is_cheapest: bool  # as solved; False for all blocks, where no plan fits as modelled


@dataclass(slots=True)
class Fit:
    """The answer."""

    memory: ProgramMemory
    batch: int | None
    need: Need
    limit: int | None
    notes: list[str] = field(default_factory=list)
    largest: LargestBatch | None = None
    plan: AppliedPlan | None = None
    is_fake: bool = True  # tensors had shapes and no data

    @property
    def fits(self) -> bool | None:
        """Return True if the program fits the limit; None without one."""
        return None if self.limit is None else self.need.total <= self.limit


class Fitting:
    """Runs of a program, and the needs that follow.

    Args:
        runs: of the program.
        limit: bytes of the device; None asks for the need alone.
        shard: scheme and number of GPUs that divide the states.
        say: gets a line about each step.
    """

    def __init__(
        self,
        runs: ProgramRuns,
        limit: int | None,
        shard: tuple[str, int] | None,
        say: Callable[[str], None],
    ) -> None:
        self._runs = runs
        self._limit = limit
        self._shard = shard
        self._say = say
        self._known: dict[int | None, ProgramMemory] = {}

    def answer(self, batch: int | None) -> Fit:
        """Return the need with a batch size, None for the program's own.

        Raises:
            CollectionError: the program failed or does not train.
        """
        memory, notes = self._first(batch)
        used = batch or memory.batch_size
        self._known[used] = memory
        fit = Fit(memory, used, self._need(memory), self._limit, notes)
        fit.is_fake = self._runs.fake
        if self._limit is None:
            return fit
        if used is None or not self._runs.can_resize(memory):
            notes.append(
                "the largest batch is unknown: write {batch} in place of it in the command"
            )
        else:
            self._add_largest(fit, used)
        if not fit.fits and fit.is_fake:
            fit.plan = self._plan(fit)
        elif not fit.fits:
            notes.append("no plan of layers to checkpoint: their work is known without data only")
        return fit

    def _first(self, batch: int | None) -> tuple[ProgramMemory, list[str]]:
        self._say("the training step on tensors without data")
        try:
            return self._runs.memory(batch), []
        except CollectionError as error:
            # Operators of other libraries may need real data.
            note = f"tensors are real, on the CPU: without data, {error}"
            self._say(f"{error}; again with data")
            self._runs = self._runs.on_real_tensors()
            try:
                return self._runs.memory(batch), [note]
            except CollectionError as second:
                if str(second) == str(error):
                    raise
                raise CollectionError(f"{error}; with data on the CPU: {second}") from second

    def _need(self, memory: ProgramMemory) -> Need:
        return need(memory.log, self._runs.device, self._sharding(memory))

    def _sharding(self, memory: ProgramMemory) -> Sharding | None:
        if self._shard is None:
            return None
        blocks = tuple(entry["name"] for entry in memory.report["blocks"])
        return Sharding(*self._shard, blocks)

    def _add_largest(self, fit: Fit, used: int) -> None:
        try:
            fit.largest = self._largest(used)
        except CollectionError as error:
            fit.notes.append(f"the largest batch is unknown: {error}")

    def _largest(self, used: int) -> LargestBatch:
        self._say(f"the same with batch {2 * used}")
        line = BatchLine(self._run(used).log, self._run(2 * used).log, (used, 2 * used))
        if line.is_straight():
            batch = self._search({}, lambda size: self._total(line.at(size)))
            self._say(f"predicted largest batch {batch}; runs with {batch} and {batch + 1}")
            needs = self._confirm(batch)
            if self._is_boundary(batch, needs):
                return LargestBatch(batch, needs, is_predicted=True)
        known = {size: self._total(self._run(size).log) for size in (used, 2 * used)}
        batch = self._search(known, lambda size: self._total(self._run(size).log))
        return LargestBatch(batch, self._confirm(batch), is_predicted=False)

    def _search(self, known: dict[int, int], total: Callable[[int], int]) -> int:
        assert self._limit is not None
        if not known:
            known = {1: total(1)}
        return search(known, total, self._limit)

    def _confirm(self, batch: int) -> dict[int, int]:
        sizes = [size for size in (batch, batch + 1) if size]
        return {size: self._total(self._run(size).log) for size in sizes}

    def _is_boundary(self, batch: int, needs: dict[int, int]) -> bool:
        assert self._limit is not None
        fits = not batch or needs[batch] <= self._limit
        return fits and needs[batch + 1] > self._limit

    def _run(self, batch: int) -> ProgramMemory:
        if batch not in self._known:
            self._known[batch] = self._runs.memory(batch)
        return self._known[batch]

    def _total(self, log: MemoryLog) -> int:
        first = next(iter(self._known.values()))
        return need(log, self._runs.device, self._sharding(first)).total

    def _plan(self, fit: Fit) -> AppliedPlan | None:
        assert self._limit is not None
        log, sharding = fit.memory.log, self._sharding(fit.memory)
        if sharding is not None:
            log = log.resized(sharding.size)
        planner = Planner(CheckpointModel(log, fit.memory.report["blocks"]))
        limit = self._limit - (fit.need.total - fit.need.peak)
        applied = None
        for _ in range(_ROUNDS):
            plan = planner.plan(limit)
            is_last = plan is None
            plan = plan or planner.smallest()
            if not plan.blocks:
                return None
            self._say(f"the same with {len(plan.blocks)} blocks checkpointed")
            found = self._need(self._runs.memory(fit.batch, plan.blocks))
            fits = found.total <= self._limit
            applied = AppliedPlan(plan.blocks, plan.flop, plan.peak_bytes, found, fits, not is_last)
            if fits or is_last:
                return applied
            limit -= found.total - self._limit
        return applied
