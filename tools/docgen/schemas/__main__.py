"""Writes every JSON Schema: ``python -m tools.docgen.schemas docs/schemas``."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tools.docgen.schemas.documents import (
    assess_schema,
    capacity_schema,
    check_schema,
    doctor_schema,
    fleet_apply_schema,
    fleet_plan_schema,
    fleet_status_schema,
    health_schema,
    idle_schema,
    ipam_show_schema,
    ipam_verify_schema,
    job_schema,
    plan_schema,
    profile_schema,
    trace_schema,
    verify_schema,
)
from tools.docgen.schemas.inventory import inventory_schema
from tools.docgen.schemas.playbook import playbook_schema
from tools.docgen.schemas.run import run_schema
from tools.docgen.schemas.variables import values_schema

SCHEMAS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "playbook": playbook_schema,
    "inventory": inventory_schema,
    "values": values_schema,
    "job": job_schema,
    "profile": profile_schema,
    "plan": plan_schema,
    "check": check_schema,
    "verify": verify_schema,
    "capacity": capacity_schema,
    "trace": trace_schema,
    "doctor": doctor_schema,
    "assess": assess_schema,
    "health": health_schema,
    "health-idle": idle_schema,
    "ipam-show": ipam_show_schema,
    "ipam-verify": ipam_verify_schema,
    "run": run_schema,
    "fleet-plan": fleet_plan_schema,
    "fleet-apply": fleet_apply_schema,
    "fleet-status": fleet_status_schema,
}


def text_of(name: str) -> str:
    """Return a schema as the text of its file."""
    return json.dumps(SCHEMAS[name](), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    """Write the schemas into the given folder."""
    folder = Path(arguments[0] if arguments else "docs/schemas")
    for name in SCHEMAS:
        (folder / f"{name}.schema.json").write_text(text_of(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
