"""Sets of VMs on a farm: the command line as forks, and the judge: no VM twice or lost, no address twice or leaked."""

from __future__ import annotations

import json
from collections import Counter

from reliability import harness
from support.vm_sets import INVENTORY

from vsphere_ai.model.vm_sets import MemberMark

OTHERS = {"other-01", "ubuntu-22.04"}
CALLS = ("CloneVM_Task", "Destroy_Task", "ReconfigVM_Task", "PowerOnVM_Task", "ShutdownGuest", "PowerOffVM_Task")


class World:
    """A farm with other VMs than those of sets, and playbooks for it in a folder."""

    def __init__(self, lab, tool, folder):
        self.lab, self.tool, self.folder = lab, tool, folder
        self.inventory = self.book(INVENTORY, "inventory.yml")

    def book(self, text, name="play.yml"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def __call__(self, command, *given, spec=None):
        return self.tool(*command.split(), "-i", self.inventory, *given, spec=spec)

    def go_on(self, *given, spec=None):
        """Resume what is unfinished, else do this."""
        return self.tool("resume", spec=spec) if self.unfinished() else self(*given, spec=spec)

    def ledger(self):
        return self.lab.get("/lab/ledger")["entries"]

    def effects(self, begins="train"):
        """What took effect on VMs whose names begin so, counted by object and call."""
        return Counter(
            (e["object"], e["call"]) for e in self.ledger() if e["call"] in CALLS and e["object"].startswith(begins)
        )

    def vms(self):
        """The VMs by their names, each of which is there once."""
        found = self.lab.get("/lab/farm")["vms"]
        assert len({vm["name"] for vm in found}) == len(found), [vm["name"] for vm in found]
        return {vm["name"]: vm for vm in found}

    def runs(self):
        return harness.Mission.runs(self)

    def unfinished(self):
        return [r for r in self.runs() if r["state"] != "finished"]

    def leases(self):
        held = self("ipam show", "-o", "json")
        return sorted(x["address"].partition("/")[0] for x in json.loads(held.text)["leases"])

    def judge(self, playbook, names, said="", *, sets=("train",), nics=2):
        """The VMs are those of the playbook, each with addresses of its own, which the ledger has and no more.

        The others are as they were, the plan is empty, and no run is unfinished.
        """
        there = self.vms()
        assert set(there) == {*names, *OTHERS}, said
        marks = {name: MemberMark.read(there[name]["extra_config"]) for name in names}
        wanted = {n: (n.rpartition("-")[0], int(n[-2:])) for n in names}
        assert {name: (m.set, m.index) for name, m in marks.items()} == wanted, said
        assert {m.set for m in marks.values()} <= set(sets), said
        assert all(there[n]["power"] == "poweredOn" for n in (*names, "other-01")), said
        used = [a.partition("/")[0] for m in marks.values() for n in m.nics for a in n.addresses]
        assert len(set(used)) == len(used) == nics * len(names), said
        assert self.leases() == sorted(used), said
        assert not self.effects("other-01") + self.effects("ubuntu-22.04"), said
        left = self("plan", playbook, "--detailed-exitcode")
        assert left.code == 0, f"{left.text}\n{said}"
        self.books(said)

    def books(self, said=""):
        harness.Mission.books(self, said)
