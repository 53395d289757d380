"""Advanced settings of VMs that may hold secrets: they are compared and named, and their values are not shown."""

from __future__ import annotations

import re

NOT_SHOWN = "not shown: it may hold secrets"
LONGEST_SHOWN = 256
"""Characters of the longest value that is shown: what is longer is packed by some program."""
_KEY = re.compile(
    r"(?i)guestinfo\."  # what cloud-init, Ignition, Talos, Kubernetes and others are given; vCenter shows it to readers
    r"|encryption\.|dataFileKey|remotedisplay\.vnc\.(key|password)"  # keys of encrypted VMs; a console's password
    r"|.*(passwo?r?d|passphrase|secret|token|credential|private_?key|api_?key)"
)


def may_hold_secret(key: str, *values: object) -> bool:
    """Return whether an advanced setting may hold a secret: by its key, or because one of its values is a long one."""
    return _KEY.match(key) is not None or any(isinstance(v, str) and len(v) > LONGEST_SHOWN for v in values)
