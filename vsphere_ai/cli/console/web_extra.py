"""Extra `web`: what to install where its libraries are missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vsphere_ai.errors import UsageError

LIBRARIES = ("starlette", "uvicorn", "prometheus_client", "h11", "anyio")
PACKAGES = "prometheus-client starlette uvicorn"
"""By their own names: the name of the extra would have pip look for vsphere-ai in a registry."""


@contextmanager
def needed() -> Iterator[None]:
    """Turn the absence of a library of the extra into an error that names the command."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in LIBRARIES:
            raise
        remedy = f"add them: pipx inject vsphere-ai {PACKAGES}; in a virtual environment: pip install {PACKAGES}"
        raise UsageError(f"this needs {error.name}, which is not installed", remedy, rule="usage.extra") from None
