"""What came of the cases: two rates, and every broken promise as files that repeat it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from honesty.judge import Verdict


@dataclass(frozen=True)
class Outcome:
    """What is known of a case after it was judged."""

    kind: str
    planned: int
    applied: int
    faults: tuple[str, ...]
    wrong: tuple[str, ...]
    text: str


def outcome(verdict: Verdict, seed: int, number: int) -> Outcome:
    """Return what a verdict comes to."""
    case = verdict.case
    faults = tuple(f"{f.name} ({f.about})" for f in case.faults)
    faults = faults or (("little is left; " + (case.fate or "applied"),) if case.job else ())
    about = ", ".join(faults) or (f"during apply: {case.strikes}" if case.strikes else "nothing is wrong")
    head = f"case {number} of seed {seed}: plan {verdict.planned}, apply {verdict.applied}; {about}"
    text = "\n".join((head, *(f"  ! {w}" for w in verdict.wrong), "", *verdict.said))
    return Outcome(verdict.kind, verdict.planned, verdict.applied, faults, tuple(verdict.wrong), text)


def keep(verdict: Verdict, folder: Path, found: Outcome) -> None:
    """Write a case that broke a promise: its farm, inventory, playbook, faults, and what was said."""
    folder.mkdir(parents=True, exist_ok=True)
    verdict.case.write(folder)
    (folder / "said.txt").write_text(found.text, encoding="utf-8")


@dataclass
class Report:
    """Counts cases as they end."""

    seed: int
    counts: Counter = field(default_factory=Counter)
    wrong: dict[int, Outcome] = field(default_factory=dict)

    def add(self, number: int, found: Outcome) -> None:
        """Count a case, and say so when a promise was broken."""
        self.counts[found.kind, not found.wrong] += 1
        if found.wrong:
            self.wrong[number] = found
            print("\n".join((found.text.partition("\n")[0], *(f"  ! {w}" for w in found.wrong))), flush=True)

    def text(self) -> str:
        """The rates."""
        words = {
            "accepted": "foreseen: what plan accepted, apply brought to its end",
            "refused": "kept:     what plan refused could not be done, and nothing was changed",
            "undecided": "open:   whether what plan refused could be done was not found out",
            "struck":  "restored: what was struck during the run ended well, or was left as it has to be",
            "missed":  "missed:   what was to strike during the run found nothing to strike",
        }  # fmt: skip
        rows = []
        for kind, said in words.items():
            well, unhealthy = self.counts[kind, True], self.counts[kind, False]
            if well + unhealthy:
                rows.append(f"{said}: {well} of {well + unhealthy} ({100 * well / (well + unhealthy):.1f} %)")
        again = f"one case again: .venv/bin/python tests/honesty/run.py --seed {self.seed} --case N"
        failed = f"broken: cases {', '.join(map(str, sorted(self.wrong)))}; kept in .failures/" if self.wrong else ""
        return "\n".join((*rows, *([failed] if failed else []), again))
