"""Entries of a lab's ledger about what a run writes in vCenter of itself, which changes no host and no VM."""

ATTRIBUTE = "vsphere-ai out of service"
HOME = "vsphere-ai locks"


def is_bookkeeping(entry):
    """Whether an entry is about the record of what a run has out of service, or the folder that it is in."""
    if entry["call"] == "AddCustomFieldDef":
        return entry["detail"]["name"] == ATTRIBUTE
    return entry["object"].startswith("out ") or entry["object"] == HOME
