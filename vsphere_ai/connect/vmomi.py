"""The parts of pyVmomi in use, as Any: its own annotations are too few for strict checking."""

from __future__ import annotations

from typing import Any

import pyVmomi
import pyVmomi.SoapAdapter
import pyVmomi.VmomiSupport

_whole: Any = pyVmomi
VmomiSupport: Any = _whole.VmomiSupport
SoapAdapter: Any = _whole.SoapAdapter
vim: Any = _whole.vim
vmodl: Any = _whole.vmodl
Collector: Any = vmodl.query.PropertyCollector
