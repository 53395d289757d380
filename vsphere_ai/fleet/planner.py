"""Planning and comparing on a worker: with its inventory and its secrets, of a playbook that came as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue, TypeAdapter

from vsphere_ai.app.estate.scope import EstateRequest
from vsphere_ai.app.events import Event
from vsphere_ai.app.runs.apply_plan import ApplyRequest, apply
from vsphere_ai.errors import Mark, VsphereAiError
from vsphere_ai.fleet.bundle import bundle_of, unpacked
from vsphere_ai.fleet.fence import require_privilege
from vsphere_ai.fleet.plan import FleetPlanRequest, plan_one
from vsphere_ai.fleet.wire import error_values, event_values
from vsphere_ai.planning.document import checksum

if TYPE_CHECKING:
    from vsphere_ai.fleet.site import Site

_MARK: TypeAdapter[Mark] = TypeAdapter(Mark)
_ESTATE: TypeAdapter[EstateRequest] = TypeAdapter(EstateRequest)


def estate_values(estate: EstateRequest) -> JsonValue:
    """Return how an estate is read, without files of this machine, as JSON values."""
    here = replace(estate, inventory=None, vars_files=(), inventory_from="")
    found: JsonValue = _ESTATE.dump_python(here, mode="json")
    return found


def _estate(site: Site, request: Mapping[str, JsonValue]) -> EstateRequest:
    made = _ESTATE.validate_python(request["estate"])
    return replace(made, inventory=site.inventory, inventory_from=f"of worker {site.name}")


def plan_bundle(site: Site, request: Mapping[str, JsonValue]) -> JsonValue:
    """Return the plan of one vCenter, its plays with why they mean nothing there, and what was said."""
    said: list[JsonValue] = []
    bundle, name, others = bundle_of(request["bundle"]), str(request["vcenter"]), request.get("others")
    with unpacked(bundle) as (playbook, values, renamed):
        estate = replace(_estate(site, request), vars_files=values)
        try:
            require_privilege(replace(estate, vcenter=name, vars_files=()))
            known = tuple(map(str, others)) if isinstance(others, list) else ()
            asked = FleetPlanRequest(playbook, estate, others=known)
            shard, plays = plan_one(asked, name, lambda event: _keep(said, event))
        except VsphereAiError as error:
            return renamed({"error": error_values(error), "said": said})
        document = renamed(dict(shard.document)) if shard else None
        why: list[JsonValue] = [[_MARK.dump_python(m), error_values(e) if e else None] for m, e in plays.items()]
        return {"document": _sealed(document), "plays": renamed(why), "said": renamed(said)}


def _sealed(document: JsonValue) -> JsonValue:
    """Return a saved plan with the names of another machine, sealed as it is."""
    if not isinstance(document, dict):
        return None
    content = {key: value for key, value in document.items() if key != "seal"}
    return {**content, "seal": checksum(content)}


def compare_bundle(site: Site, request: Mapping[str, JsonValue]) -> JsonValue:
    """Lock, plan again and compare with a saved plan; an error where it is not as planned."""
    said: list[JsonValue] = []
    name, lock = str(request["vcenter"]), request.get("lock")
    estate = replace(_estate(site, request), vcenter=name)
    what, text = Path(f"the plan of {name}"), json.dumps(request["document"])
    require_privilege(estate)
    mode = lock if lock in ("none", "local", "vcenter") else None
    apply(
        ApplyRequest(what, estate, yes=True, lock=mode, document=text, compare_only=True),  # type: ignore[arg-type]
        lambda event: _keep(said, event),
    )
    return {"said": said}


def _keep(said: list[JsonValue], event: Event) -> None:
    values = event_values(event)
    if values is not None and "status" not in values:
        said.append(values)
