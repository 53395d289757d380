"""JSON Schemas of jobs, profiles of health, plans and findings: of one model each, with what commands add."""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel

from tools.docgen.schemas.draft7 import DRAFT, Schema, schema_of
from vsphere_ai.documents.assessment import AssessmentDocument
from vsphere_ai.documents.capacity import CapacityDocument
from vsphere_ai.documents.findings import CheckDocument, FindingDocument
from vsphere_ai.documents.fleets import FleetAppliedDocument, FleetPlanDocument, FleetStatusesDocument
from vsphere_ai.documents.health import HealthDocument, IdleDocument
from vsphere_ai.documents.leased_addresses import LeasesDocument, VerifiedLeasesDocument
from vsphere_ai.documents.trace import TraceDocument
from vsphere_ai.health.profile import HealthProfile
from vsphere_ai.model.finding import VERDICTS
from vsphere_ai.planning.document import SCHEMA_VERSION, SavedPlan
from vsphere_ai.training.job import TrainingJob

_TEXTS = {"type": "array", "items": {"type": "string"}}
_VALUE = {"description": "Its value; null where it is not known, or refused."}


def job_schema() -> Schema:
    """Return the schema of training jobs."""
    made = _file(TrainingJob, "Training job of vsphere-ai")
    program = [{"required": [each], "properties": {each: {"not": {"type": "null"}}}} for each in _PROGRAMS]
    return {**made, "oneOf": program}


_PROGRAMS = ("script", "module", "command")


def profile_schema() -> Schema:
    """Return the schema of profiles of health."""
    return _file(HealthProfile, "Profile of health of vsphere-ai")


def plan_schema() -> Schema:
    """Return the schema of a plan: of `plan -o json`, and of a saved plan, which has some keys more."""
    definitions: dict[str, Schema] = {}
    made = schema_of(SavedPlan, definitions, mode="serialization")
    own = ("desired", "scope")
    output = {"type": "object", "properties": {"value": _VALUE, "vms": {}, "reasons": _TEXTS, "problems": {}}}
    more: dict[str, Schema] = {
        "left_out": {"description": "What `--limit` leaves out of the plan; only of `plan -o json`."},
        "outputs": {"type": "object", "description": "Outputs by name.", "additionalProperties": output},
        "seal": {"type": "string", "description": "SHA-256 of a saved plan: one that was edited is refused."},
    }
    return {
        "$schema": DRAFT,
        "title": f"Plan of vsphere-ai, schema_version {SCHEMA_VERSION}",
        **made,
        "description": "A plan: as `plan -o json` prints it, or as `plan --to FILE` saves it.",
        "properties": {**made["properties"], **more, "schema_version": _version()},
        "required": [each for each in made["required"] if each not in own],
        "dependencies": {"seal": list(own), "desired": ["seal"], "scope": ["seal"]},
        "definitions": dict(sorted(definitions.items())),
    }


def check_schema() -> Schema:
    """Return the schema of what `check -o json` prints."""
    return _of_typed("check", CheckDocument)


def assess_schema() -> Schema:
    """Return the schema of what `assess -o json` prints."""
    return _of_typed("assess", AssessmentDocument)


def health_schema() -> Schema:
    """Return the schema of what `health -o json` prints."""
    return _of_typed("health", HealthDocument)


def idle_schema() -> Schema:
    """Return the schema of what `health --idle -o json` prints."""
    return _of_typed("health --idle", IdleDocument)


def ipam_show_schema() -> Schema:
    """Return the schema of what `ipam show -o json` prints."""
    return _of_typed("ipam show", LeasesDocument)


def ipam_verify_schema() -> Schema:
    """Return the schema of what `ipam verify -o json` prints."""
    return _of_typed("ipam verify", VerifiedLeasesDocument)


def verify_schema() -> Schema:
    """Return the schema of what `verify -o json` prints."""
    definitions: dict[str, Schema] = {}
    of_plan = schema_of(SavedPlan, definitions, mode="serialization")["properties"]
    wanted = {"type": "boolean", "description": "Whether every setting could be read and is in the desired state."}
    kept = {key: of_plan[key] for key in ("vcenter", "playbook", "items", "problems")}
    return _printed("verify", {"as_wanted": wanted, **kept}, tuple(kept), definitions)


def doctor_schema() -> Schema:
    """Return the schema of what `doctor -o json` prints."""
    definitions: dict[str, Schema] = {}
    found = _findings(definitions)
    return _printed("doctor", found, tuple(found), definitions)


def _findings(definitions: dict[str, Schema]) -> dict[str, Schema]:
    """Return the keys that the document of every command with findings has."""
    finding = schema_of(FindingDocument, definitions, mode="serialization")
    worst = {"enum": list(VERDICTS), "description": "The worst verdict; pass without findings."}
    every = {"type": "array", "items": finding, "description": "What each rule found of each subject."}
    return {"verdict": worst, "findings": every}


def capacity_schema() -> Schema:
    """Return the schema of what `capacity -o json` prints."""
    return _of_typed("capacity", CapacityDocument)


def trace_schema() -> Schema:
    """Return the schema of what `rdma trace -o json` prints."""
    return _of_typed("rdma trace", TraceDocument)


def fleet_plan_schema() -> Schema:
    """Return the schema of a fleet plan: of `fleet plan -o json`, and of a saved one."""
    return _of_typed("fleet plan", FleetPlanDocument)


def fleet_apply_schema() -> Schema:
    """Return the schema of what `fleet apply -o json` and `fleet resume -o json` print."""
    return _of_typed("fleet apply", FleetAppliedDocument)


def fleet_status_schema() -> Schema:
    """Return the schema of what `fleet status -o json` prints."""
    return _of_typed("fleet status", FleetStatusesDocument)


def _of_typed(command: str, of: type) -> Schema:
    definitions: dict[str, Schema] = {}
    made = schema_of(of, definitions, mode="serialization")
    return _printed(command, made["properties"], tuple(made["required"]), definitions)


def _printed(
    command: str, properties: Mapping[str, Schema], required: tuple[str, ...], definitions: Mapping[str, Schema]
) -> Schema:
    """Return the schema of a document that a command prints."""
    used = json.dumps(properties)
    kept: dict[str, Schema] = {}
    while new := {k: v for k, v in definitions.items() if k not in kept and f'"#/definitions/{k}"' in used}:
        kept |= new
        used = json.dumps([properties, kept])
    return {
        "$schema": DRAFT,
        "title": f"Document of vsphere-ai {command} -o json, schema_version {SCHEMA_VERSION}",
        "type": "object",
        "properties": {"schema_version": _version(), **properties},
        "required": ["schema_version", *required],
        "definitions": dict(sorted(kept.items())),
    }


def _version() -> Schema:
    return {"const": SCHEMA_VERSION, "description": "Within a schema version, keys are only ever added."}


def _file(model: type[BaseModel], title: str) -> Schema:
    definitions: dict[str, Schema] = {}
    made = schema_of(model, definitions)
    return {"$schema": DRAFT, "title": title, **made, "definitions": dict(sorted(definitions.items()))}
