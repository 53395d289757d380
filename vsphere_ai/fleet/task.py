"""Task of a fleet: the one function that Dask calls on a worker. It decides nothing: the coordinator is asked first.

Dask may call it twice, at the same time or after it has ended: planning changes nothing, and a shard is carried out by
who has its lease. It never raises, and returns little: what comes of a shard goes to the coordinator itself.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping

from pydantic import JsonValue

from vsphere_ai import __version__
from vsphere_ai.errors import REPORT_IT, Refused, VsphereAiError
from vsphere_ai.fleet.site import SITES
from vsphere_ai.fleet.wire import cleaned, error_values
from vsphere_ai.model.bounded import json_value


def carry_out(text: str) -> str:
    """Do what a request says and return the answer, both as JSON: ``{"error": …}`` where that failed."""
    try:
        found = _answer(json_value(text))
    except VsphereAiError as error:
        found = {"error": error_values(error)}
    except Exception as error:  # a defect: Dask would log the arguments, and show a traceback of the worker's paths
        traceback.print_exc()
        internal = VsphereAiError(f"{type(error).__name__} on worker {SITES and SITES[0].name}: {error}", REPORT_IT)
        found = {"error": error_values(internal)}
    return json.dumps(cleaned(found))


def _answer(request: Mapping[str, JsonValue]) -> JsonValue:
    from vsphere_ai.fleet.planner import compare_bundle, plan_bundle
    from vsphere_ai.fleet.worker_shard import carry_out_shard

    if not SITES:
        text = "this Dask worker was not started by vsphere-ai fleet worker, so it has no inventory"
        raise Refused(text, "start it with: vsphere-ai fleet worker ADDRESS -i INVENTORY", rule="fleet.no-worker")
    site, version = SITES[0], request.get("version")
    if version != __version__:
        text = f"worker {site.name} has vsphere-ai {__version__}, and this fleet run is of {version}"
        raise Refused(text, "install the same version everywhere", rule="fleet.version")
    match request.get("op"):
        case "plan":
            return plan_bundle(site, request)
        case "compare":
            return compare_bundle(site, request)
        case _:
            return carry_out_shard(site, request)
