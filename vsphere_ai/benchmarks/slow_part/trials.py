"""Trials of a search for a slow part: which VMs, rails and GPUs run a benchmark together, in rounds.

A search is a generator: it yields the trials of a round, is sent their results, and returns what it found. Trials of a
round run at the same time, so that no GPU is in two of them. Real runs and simulations share the searches.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Trial:
    """A benchmark of some VMs; of one VM alone it measures what is inside of it.

    `rails` are the numbers of the rails that may be used, `gpus` the CUDA indexes; empty means all. Its result is the
    median of `runs` runs. `why` is the stage of the search that asks for it. `layer` names the only way that data may
    take, one of `layers.LAYERS`; empty: every way.
    """

    vms: tuple[str, ...]
    rails: tuple[int, ...] = ()
    gpus: tuple[int, ...] = ()
    runs: int = 1
    why: str = ""
    layer: str = ""

    @property
    def uses(self) -> frozenset[tuple[str, int | None]]:
        """What it occupies: VMs, or GPUs of a VM."""
        return frozenset((vm, gpu) for vm in self.vms for gpu in (self.gpus or (None,)))


Results = Mapping[Trial, float | None]
"""Bus bandwidth of each trial in GB/s; None where there is no measurement, which counts as slow."""
Search = Generator[tuple[Trial, ...], Results, T]


def can_share(trials: Sequence[Trial]) -> bool:
    """Return whether trials can run at the same time: no VM is in two of them, except with different GPUs."""
    seen: dict[str, set[int | None]] = {}
    for trial in trials:
        for vm, gpu in trial.uses:
            used = seen.setdefault(vm, set())
            if gpu in used or (used and (gpu is None or None in used)):
                return False
            used.add(gpu)
    return True


def together(searches: Sequence[Search[T]]) -> Search[list[T]]:
    """Carry out searches side by side; one whose VMs are busy waits for the next round. Returns their findings."""
    found: dict[int, T] = {}
    asked: dict[int, tuple[Trial, ...]] = {}
    for at, search in enumerate(searches):
        _go_on(at, search, None, asked, found)
    while asked:
        now: list[int] = []
        for at, trials in sorted(asked.items()):
            busy = [t for other in now for t in asked[other]]
            if can_share([*busy, *trials]) or not now:
                now.append(at)
        results = yield tuple(t for at in now for t in asked[at])
        for at in now:
            own = {t: results.get(t) for t in asked.pop(at)}
            _go_on(at, searches[at], own, asked, found)
    return [found[at] for at in range(len(searches))]


def _go_on(
    at: int, search: Search[T], results: Results | None, asked: dict[int, tuple[Trial, ...]], found: dict[int, T]
) -> None:
    try:
        asked[at] = next(search) if results is None else search.send(results)
    except StopIteration as done:
        found[at] = done.value


@dataclass
class Judge:
    """Limits of a search: a trial is slow below the middle between `reference` (GB/s) and it less `slowdown`.

    `slowdown` is the share to look for, such as 0.25; `runs` the runs per trial. The reference may be learned.
    """

    slowdown: float = 0.25
    runs: int = 1
    reference: float | None = None

    @property
    def gate(self) -> float:
        """Share of the reference below which a trial is slow."""
        return 1 - self.slowdown / 2

    def learn(self, values: Iterable[float | None]) -> None:
        """Take the median of the fastest third, and of what is as fast, for the reference where there is none.

        A slow VM of three is in two thirds of all pairs, a slow link of two switches in half of all groups.
        """
        known = sorted(v for v in values if v is not None)
        if self.reference is None and known:
            fast = median(known[-((len(known) + 2) // 3) :])
            self.reference = median(v for v in known if v >= self.gate * fast)

    def is_slow(self, value: float | None, reference: float | None = None) -> bool:
        """Return whether a result is slow, by another trial's result where one is given."""
        against = self.reference if reference is None else reference
        return value is None or (against is not None and value < self.gate * against)
