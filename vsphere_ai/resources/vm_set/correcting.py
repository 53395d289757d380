"""Play of a set that brings corrections of its VMs about: place, storage, and adapters."""

from __future__ import annotations

from collections.abc import Sequence

from vsphere_ai.model.estate.correction import Correction
from vsphere_ai.model.estate.vm_corrections import SetOfVms
from vsphere_ai.model.plain import Plain
from vsphere_ai.resources.corrections import Corrects

_SCRATCH: Plain = {"name": "scratch", "gb": 500, "controller": "nvme"}
"""Its size is an example: the operator knows how much the data of a job takes."""


class CorrectsSets(Corrects):
    """Corrections of a set."""

    @classmethod
    def correcting(cls, corrections: Sequence[Correction]) -> Plain:
        """What the set is to have; of several corrections the later one decides."""
        play: dict[str, Plain] = {}
        for wanted in (c for c in corrections if isinstance(c, SetOfVms)):
            play |= {"placement": {"anti_affinity": "should"}} if wanted.apart else {}
            play |= {"datastore": wanted.datastore} if wanted.datastore else {}
            play |= {"resource_pool": wanted.pool} if wanted.pool else {}
            play |= {"nics": (_rdma_nic(wanted.port_group),)} if wanted.port_group else {}
            play |= {"disks": (_SCRATCH,)} if wanted.fast_disk else {}
        return play


def _rdma_nic(port_group: str) -> Plain:
    return {"name": "rdma0", "type": "pvrdma", "port_group": port_group, "role": "rdma"}
