"""One physical NIC of a host, as a playbook states it and as it is read."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from vsphere_ai.fabric.nic_settings import Coalesce, Pause, Rings
from vsphere_ai.model.plain import PlainObject, inside
from vsphere_ai.model.state import Settings, setting

VMNIC = r"vmnic[0-9]{1,4}"
READ_BY_SSH = ("pause", "rings", "coalesce")


def _name(text: str) -> str:
    """Return the name of a NIC, which gets into a command; ValueError when it is none."""
    if not re.fullmatch(VMNIC, text):
        raise ValueError(f"{text!r} is no NIC\nwrite for example vmnic4")
    return text


Name = Annotated[str, AfterValidator(_name)]


class NicSettings(Settings):
    """One physical NIC. What is left out stays as it is."""

    pause: Pause | None = setting("Global pause: `{rx: true, tx: true}`.")
    speed: Annotated[int, Field(ge=10)] | Literal["auto"] | None = setting(
        "Speed in Mbit/s, full duplex; `auto` lets it be negotiated."
    )
    rings: Rings | None = setting("Rings, of a NIC with an RDMA device: `{rx: 4096, tx: 4096}`; more is less loss.")
    coalesce: Coalesce | None = setting(
        "Interrupt coalescing: `{rx_usecs: 3, adaptive_rx: false}`; less is less latency."
    )

    @property
    def pauses(self) -> bool:
        """Whether any global pause is on."""
        return self.pause is not None and bool(self.pause.rx or self.pause.tx)


def speed_of(nic: PlainObject) -> int | str:
    """Return the speed in Mbit/s that a NIC is set to, or `auto`."""
    speed = inside(nic, "spec.linkSpeed.speedMb")
    return speed if isinstance(speed, int) else "auto"


def settled_nic(wanted: NicSettings, now: NicSettings | None) -> NicSettings:
    """Return wanted settings with what stays of pause, rings and coalescing."""
    said = {n: getattr(wanted, n) for n in READ_BY_SSH if getattr(wanted, n) is not None}
    return wanted.model_copy(update={n: w.filled(getattr(now or NicSettings(), n)) for n, w in said.items()})
