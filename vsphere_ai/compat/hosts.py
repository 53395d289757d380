"""The ESXi version a host states, wherever vCenter still shows it."""

from __future__ import annotations

from vsphere_ai.compat.releases import Version, numbers
from vsphere_ai.facts import View

PRODUCT = ("config.product", "summary.config.product")
"""The same AboutInfo twice: the summary outlives the loss of a connection."""


def host_version(view: View, ref: str) -> tuple[Version, str] | None:
    """Return the version of a host as numbers and as text, None when it is not shown or not understood."""
    facts = view.estate.get(ref)
    stated = [facts.get(path) for path in PRODUCT] if facts else []
    for text in (str(product.get("version")) for product in stated if product):
        version = numbers(text)
        if version:
            return version, text
    return None
