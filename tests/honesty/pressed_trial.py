"""Judges a case of `pressed`: what was accepted is carried out, what was refused cannot be, and no VM is left off.

Some runs are killed in their middle and brought to their end by `resume`; after others the run is rolled back, or a VM
of the set is replaced.
"""

from __future__ import annotations

import time

from honesty import needs
from honesty.judge import DISRUPTS, LOCKS, SPEC, SSH_SERVICE, Trial

BOOKKEEPING = (*SSH_SERVICE, *LOCKS, "AddCustomFieldDef", "SetField", "Destroy_Task")
PLENTY = 60.0


class PressedTrial(Trial):
    """One case on one lab; `ways` tells whether there is a way to do a job, None where it is not known."""

    def __init__(self, case, lab, tool, here, ways):
        super().__init__(case, lab, tool, here)
        self.ways = ways

    def run(self) -> None:
        """Plan, apply, and what comes after that."""
        self.lab.mark()
        self._plan()
        known = len(self._ledger())
        verdict = self.verdict
        if not verdict.accepted:
            verdict.applied = self._say("apply", "--yes").code
            self._refused(known)
            return
        killed = self.case.fate == "killed" and self._killed()
        verdict.applied = self._say(*(("resume", "--yes") if killed else ("apply", "--yes"))).code
        if verdict.applied:
            self._wrong(f"not foreseen: plan accepts, {'resume' if killed else 'apply'} ends with {verdict.applied}")
            self._after_failure(self._ledger()[known:])
            return
        self._after_success()
        if self.case.fate == "rolled back":
            self._rolled_back()
        if self.case.fate == "replaced":
            self._replaced()

    def _refused(self, known: int) -> None:
        """Nothing was done, and there is no way to do it."""
        changed = [f"{e['call']} of {e['object']}" for e in self._ledger()[known:] if e["call"] not in BOOKKEEPING]
        if changed:
            self._wrong(f"apply was refused, and there was {', '.join(changed)}")
        if self.verdict.applied == 0:
            self._wrong(f"plan refuses with {self.verdict.planned}, and apply does it")
            return
        way = None if self.case.job.get("open") else self.ways(self.here / "scenario.yml", self.case.job)
        self.verdict.possible = bool(way)
        self.verdict.undecided = way is None
        if way:
            self._wrong(f"plan refuses with {self.verdict.planned} what can be done")

    # -- what comes in the middle, and after it

    def _killed(self) -> bool:
        """Start a run and kill it at one of its calls; return whether it was there to be killed."""
        rule = {"on": "any-mutation", "nth": self.case.killed_at, "when": self.case.killed_when, "do": "hang"}
        self.lab.set_faults([rule], seed=1)
        argv = ["apply", "-i", str(self.inventory), str(self.here / "playbook.yml"), "--yes"]
        going = self.tool.start(*argv, spec=SPEC)
        end = time.monotonic() + PLENTY
        while not self.lab.get("/lab/faults")["fired"] and not going.has_ended() and time.monotonic() < end:
            time.sleep(0.02)
        ended = going.kill_after(0.0)
        self.lab.clear_faults()
        self.verdict.said.append(f"$ vsphere-ai apply --yes, killed: exit {ended.code}\n{ended.text}")
        from vsphere_ai.runs import journal

        return bool(ended.code) and any(not record.finished for record in journal.every())

    def _rolled_back(self) -> None:
        from vsphere_ai.runs import journal

        known, runs = len(self._ledger()), [record.id for record in journal.every()]
        if len(runs) != 1:
            return
        code = self._say("rollback", runs[0], "--yes", playbook="").code
        if code and any(e["call"] in DISRUPTS for e in self._ledger()[known:]):
            self._wrong(f"not foreseen: rollback begins, and ends with {code}")
        self._none_left_off("rollback")

    def _replaced(self) -> None:
        """Replace one VM of the set: it ran there, so there is a place for it."""
        names = sorted(v["name"] for v in self.lab.get("/lab/farm")["vms"] if v["name"].startswith("trn-"))
        code = self._say("replace", "--yes", "--destroy", "1", after=(names[0],)).code
        if code:
            self._wrong(f"replace of {names[0]}, which runs, ends with {code}")
        self._none_left_off("replace")

    def _none_left_off(self, command: str) -> None:
        down = max([1, *(self._allowed(h) for h in needs.windows(self.case))])
        found = self.lab.check(max_down=down)["invariants"]
        bad = {
            v["name"]: v["findings"] for v in found if v["findings"] and v["name"] in ("power", "maintenance", "macs")
        }
        if bad:
            self._wrong(f"after {command}, lab judge finds {bad}")
