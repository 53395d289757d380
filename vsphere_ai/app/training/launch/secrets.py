"""Secrets of a job: fetched when it starts, given to its processes as variables, and masked in what is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from vsphere_ai.app.events import Emit, Remark
from vsphere_ai.model.bounded import json_value
from vsphere_ai.security.credentials import fetch
from vsphere_ai.security.secret_ref import NoPassword, Secret, parse
from vsphere_ai.training.job import TrainingJob
from vsphere_ai.training.launch import VARIABLES_FILE, NodeFile

JobSecrets = Mapping[str, Secret]
"""Values by the names of variables."""


def job_secrets(job: TrainingJob, base: Path) -> JobSecrets:
    """Return the secrets that a job refers to; paths begin and programs run in `base`, the folder of the job.

    `NoPassword` where one is not there.
    """
    return {name: fetch(text, base, purpose=_purpose(name)) for name, text in job.secrets.items()}


def mask_secrets(job: TrainingJob, base: Path, emit: Emit) -> None:
    """Have the secrets of a job masked in what is shown of a run; a remark names each that is not known here."""
    for name, text in job.secrets.items():
        try:
            if "prompt" not in parse(text):
                fetch(text, base, purpose=_purpose(name))
                continue
            why = "it was typed"
        except NoPassword as error:
            why = error.message
        emit(Remark("launch.secret", f"the value of {name} is not known here, and not masked in logs: {why}"))


def revealed(variables: Mapping[str, str], secrets: JobSecrets) -> dict[str, JsonValue]:
    """Return the variables of a process with its secrets, to be sent to its node."""
    return {name: secrets[name].reveal() if name in secrets else text for name, text in variables.items()}


def file_text(file: NodeFile, secrets: JobSecrets) -> str:
    """Return the text of a file of a run; the one with variables has the secrets."""
    if file.name != VARIABLES_FILE or not secrets:
        return file.text
    return json.dumps(revealed(json_value(file.text), secrets), indent=2) + "\n"


def _purpose(name: str) -> str:
    return f"variable {name} of the job"
