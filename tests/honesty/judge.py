"""Carries a case out and judges it: did the plan tell the truth, and is anything left behind?

`plan` has to accept exactly what `apply` brings to its end. Whether the job could be done at all is known from the way
the case was made (see `faults` and `needs`), never from what the product says. What happened is read from the lab.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from honesty import needs
from honesty.case import Case
from pyVmomi import vmodl
from reliability import harness

from vsphere_ai.model.vm_sets import MemberMark

SSH_SERVICE = ("StartService", "StopService")
LOCKS = ("CreateFolder", "Rename_Task")
"""Calls of the lock in vCenter, whose folders are destroyed, too."""
REBOOTS = ("RebootHost_Task", "reboot", "esxcli system shutdown reboot")
DISRUPTS = ("ShutdownGuest", "PowerOffVM_Task", "EnterMaintenanceMode_Task", *REBOOTS)
RULE = re.compile(r"\[([a-z_]+\.[a-z-]+)\]")
TOUCHES = ("ShutdownGuest", "PowerOffVM_Task", "PowerOnVM_Task", "ReconfigVM_Task", "UpgradeVM_Task")
REFUSED = ("task-fails", "task-echoes", "fault", "fault-echoes")
BACK = ("PowerOnVM_Task", "ExitMaintenanceMode_Task")
LEFT = ("maintenance", "power", "services")
SPEC = harness.Spec(tune={**harness.TUNE, "_START_S": 2.0})
"""How the waits of the commands are scaled to the lab, whose SSH serves at once where it is started."""


@dataclass
class Verdict:
    """How a case went. `wrong` is empty when all was as promised."""

    case: Case
    planned: int = -1
    applied: int = -1
    possible: bool = True
    deferred: bool = False
    """Foreseen by `apply`, before the first disruption: planning was not allowed to try the login."""
    undecided: bool = False
    """Whether it is not known if what was refused can be done."""
    struck: int = 0
    """How often something struck during the run."""
    wrong: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether the plan called it possible."""
        return self.planned == 0

    @property
    def kind(self) -> str:
        """What happened, in a word."""
        if self.case.strikes:
            return "struck" if self.struck else "missed"
        if self.undecided:
            return "undecided"
        return "accepted" if self.accepted else "refused"


class Court:
    """Judges cases, one at a time, each on a lab of its own."""

    def __init__(self, labs, tool, folder: Path):
        self.labs, self.tool, self.folder = labs, tool, folder
        self.number = 0

    def judge(self, case: Case) -> Verdict:
        """Write the files of a case, start its lab, plan, apply, and look."""
        from vsphere_ai.lab.front import process

        self.number += 1
        here = self.folder / str(self.number)
        here.mkdir()
        case.write(here)
        lab = self.labs.start(here / "lab", here / "scenario.yml")
        before = {k: os.environ.get(k) for k in ("VSPHERE_AI_LAB_DIR", "VSPHERE_AI_STATE_DIR", "COLUMNS")}
        os.environ.update(VSPHERE_AI_LAB_DIR=str(here / "lab"), VSPHERE_AI_STATE_DIR=str(here / "state"), COLUMNS="160")
        try:
            if case.job:
                from honesty.pressed_trial import PressedTrial

                trial: Trial = PressedTrial(case, lab, self.tool, here, self.labs.ways)
            else:
                trial = Trial(case, lab, self.tool, here)
            trial.run()
            return trial.verdict
        finally:
            for key, value in before.items():
                os.environ.pop(key) if value is None else os.environ.update({key: value})
            process.stop(here / "lab", timeout=2.0)
            shutil.rmtree(here, ignore_errors=True)


class Trial:
    """One case on one lab."""

    def __init__(self, case: Case, lab, tool, here: Path):
        self.case, self.lab, self.tool, self.here = case, lab, tool, here
        self.verdict = Verdict(case, possible=not any(f.spoils(case, f.about) for f in case.faults))
        self.inventory = case.write_inventory(here, lab.directory)

    def run(self) -> None:
        """Prepare the farm, plan, apply, judge."""
        if self.case.earlier:
            ended = self._say("apply", "--yes", playbook="earlier.yml")
            if ended.code:
                raise RuntimeError(f"what was there before could not be made:\n{ended.text}")
            self.lab.post("/lab/ledger/clear")
        prepare(self.case, self.lab)
        self.lab.mark()
        if self.case.rules:
            self.lab.set_faults(self.case.rules, seed=1)
        self._plan()
        if self.case.strikes:
            self.lab.set_faults([*self.case.rules, *self.case.strikes], seed=1)
        known = len(self._ledger())
        counted = ("--destroy", str(self.case.destroyed)) if self.case.destroyed else ()
        self.verdict.applied = self._say("apply", "--yes", *counted).code
        self.verdict.struck = len(self.lab.get("/lab/faults")["fired"]) if self.case.strikes else 0
        if self.verdict.applied == 0:
            self._after_success()
        else:
            self._after_failure(self._ledger()[known:])
        if (self.case.ssh or {}).get("start_service") == "never":
            started = sorted({e["object"] for e in self._ledger() if e["call"] == "StartService"})
            if started:
                self._wrong(f"start_service is never, and SSH was started on {', '.join(started)}")
        agents = {v.name for v in self.case.vms if v.more.get("agent")}
        if touched := sorted(f"{e['call']} of {e['object']}" for e in self._ledger()
                             if e["object"] in agents and e["call"] in TOUCHES):  # fmt: skip
            self._wrong(f"agent VMs are vCenter's, and there was {', '.join(touched)}")
        self._whole()
        self._agree()

    def _whole(self) -> None:
        """No VM of a set is there twice or with the address of another one; no other VM was touched."""
        if not self.case.sets:
            return
        there = [v for v in self.lab.get("/lab/farm")["vms"] if MemberMark.read(v["extra_config"])]
        used = [a for v in there for n in MemberMark.read(v["extra_config"]).nics for a in n.addresses]
        if len({v["name"] for v in there}) < len(there) or len(set(used)) < len(used):
            self._wrong(f"a VM or an address twice: {[v['name'] for v in there]}, {used}")
        others = {v.name for v in self.case.vms}
        if touched := sorted(f"{e['call']} of {e['object']}" for e in self._ledger() if e["object"] in others):
            self._wrong(f"VMs that are in no set, and there was {', '.join(touched)}")

    def _plan(self) -> None:
        known = len(self._ledger())
        ended = self._say("plan")
        code = ended.code
        may_start = (self.case.ssh or {}).get("start_service") == "always"
        self._unchanged("plan", known, SSH_SERVICE if may_start else ())
        if "SSH is stopped" in ended.text and set(RULE.findall(ended.text)) == {
            "ssh.stopped"
        }:  # it names the option with which it may look
            code = self._say("plan", "--start-ssh").code
            self._unchanged("plan --start-ssh", known, SSH_SERVICE)
        self.verdict.planned = code

    def _unchanged(self, command: str, known: int, allowed: tuple[str, ...]) -> None:
        """Nothing was changed; SSH may have been started, and is as it was."""
        allowed = (*allowed, *LOCKS) if self.case.sets else allowed
        changed = [f"{e['call']} of {e['object']}" for e in self._ledger()[known:] if e["call"] not in allowed]
        if changed or self._violated("services"):
            self._wrong(f"{command} changed the farm: {', '.join(changed) or self._violated('services')}")

    def _after_success(self) -> None:
        if self.case.strikes:
            self.lab.clear_faults()
        down = max([1, *(self._allowed(h) for h in needs.windows(self.case))])
        found, struck = self.lab.check(max_down=down)["invariants"], self._struck()
        spared = {"sessions"} if self.case.fate == "killed" else set()  # that of the process that was killed
        bad = {v["name"]: f for v in found if v["name"] not in spared for f in v["findings"]
               if not self._about(f) & struck}  # fmt: skip
        if bad:
            self._wrong(f"apply ended with 0, and lab judge finds {bad}")
        again = self._say("plan", "--detailed-exitcode", "--start-ssh")
        if again.code:
            self._wrong(f"apply ended with 0, and the plan is not empty: exit {again.code}")

    def _allowed(self, host) -> int:
        said = needs.rolling(self.case, host).get("max_unavailable", 1)
        return said if isinstance(said, int) else 2

    def _after_failure(self, done: list[dict]) -> None:
        """Only what has to be so may be so: a host whose reboot was sent, and its VMs."""
        self.verdict.deferred = not any(e["call"] in DISRUPTS for e in done)
        rebooted = {e["object"] for e in done if e["call"] in REBOOTS} | self._struck()
        for name in LEFT:
            for finding in self._violated(name):
                if not self._about(finding) & rebooted:
                    self._wrong(f"apply ended with {self.verdict.applied} and left behind: {finding}")

    def _about(self, finding: str) -> set[str]:
        """The VM or host a finding begins with, and the host that VM is on."""
        about = finding.partition(" ")[0].rstrip(":")
        return {about, *(v["host"] for v in self.lab.get("/lab/farm")["vms"] if v["name"] == about)}

    def _struck(self) -> set[str]:
        """What cannot be as it was: what lost its power, or was refused the very call that would put it back."""
        fired = self.lab.get("/lab/faults")["fired"] if self.case.strikes else ()
        refused = [f for f in fired if f["event"] in BACK and f["do"] in REFUSED]
        dark = [f for f in fired if f["do"] == "power-loss"]
        homes = {v.name: v.host for v in self.case.vms}
        return {f["object"] for f in refused} | {homes.get(f["object"], f["object"]) for f in dark}

    def _agree(self) -> None:
        """Hold the plan against what came of it, and against what was possible."""
        v = self.verdict
        if self.case.strikes:
            return
        ended = v.applied == 0
        foreseen = ended or (v.deferred and any(f.hidden(self.case) for f in self.case.faults))
        if v.accepted and not foreseen:
            self._wrong(f"not foreseen: plan accepts, apply ends with {v.applied}")
        if not v.accepted and ended:
            self._wrong(f"plan refuses with {v.planned}, and apply does it")
        if not v.accepted and v.possible:
            self._wrong(f"plan refuses with {v.planned} what can be done")
        if v.accepted and ended and not v.possible:
            self._wrong("what cannot be done was done: the lab is too kind, or the judge is wrong")

    def _violated(self, name: str) -> list[str]:
        found = self.lab.check(max_down=9)["invariants"]
        return [f for v in found if v["name"] == name for f in v["findings"]]

    def _ledger(self) -> list[dict]:
        entries: list[dict] = self.lab.get("/lab/ledger")["entries"]
        return entries

    def _wrong(self, text: str) -> None:
        self.verdict.wrong.append(text)

    def _say(self, command: str, *options: str, playbook: str = "playbook.yml", after: tuple[str, ...] = ()):
        """Run a command on a playbook, which some commands take none of; `after` are arguments behind it."""
        of = [str(self.here / playbook)] if playbook and command != "resume" else []
        argv = [command, "-i", str(self.inventory), *of, *after, *options]
        try:
            ended = self.tool(*argv, spec=SPEC)
        except AssertionError as error:
            self._wrong(f"{command} crashed: {str(error)[-2000:]}")
            ended = harness.Ended(70, "", 0.0)
        self.verdict.said.append(f"$ vsphere-ai {command} {' '.join(options)}: exit {ended.code}, "
                                 f"{ended.seconds:.1f} s\n{ended.text}")  # fmt: skip
        return ended


def prepare(case: Case, lab) -> None:
    """Do to the farm what was done before anybody planned; the ledger begins after it."""
    if case.before:
        with client(lab) as soap:
            # once the certificate is another one, this client does nothing more
            for what, name in sorted(case.before, key=lambda each: each[0] == "certificate"):
                _do(soap, lab, what, name)
        lab.clear_faults()
        lab.post("/lab/ledger/clear")


@contextlib.contextmanager
def client(lab):
    """A plain pyVmomi client."""
    from conftest import Client

    made = Client(lab)
    try:
        yield made
        with contextlib.suppress(OSError):  # the lab shows another certificate by now
            made.content.sessionManager.Logout()
    finally:
        made.close()


def _do(soap, lab, what: str, name: str) -> None:
    if what == "certificate":
        lab.set_faults([{"on": "CurrentTime", "do": "cert-swap"}], seed=1)
        with contextlib.suppress(ssl.SSLError, OSError):
            soap.instance.CurrentTime()
        return
    host = soap.find(soap.vim.HostSystem, name)
    if what == "maintenance":
        soap.wait(host.EnterMaintenanceMode_Task(5))
    elif what == "away":
        lab.set_faults([{"on": "CurrentTime", "do": {"power-loss": name}}], seed=1)
        soap.instance.CurrentTime()
        soap.until(lambda: host.runtime.connectionState != "connected")
    elif what == "alarm":
        lab.set_faults([{"on": "RetrieveHardwareUptime", "do": {"raise-alarm": "Host memory usage"}}], seed=1)
        with contextlib.suppress(vmodl.fault.HostNotConnected):  # the rule has struck by then
            host.RetrieveHardwareUptime()
