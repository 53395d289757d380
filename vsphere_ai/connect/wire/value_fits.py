"""Types of values that were read as plain ones: whether they are those that their properties are declared with."""

from __future__ import annotations

from vsphere_ai.connect.wire.plain import NAMESPACE, fits_type, item_of
from vsphere_ai.connect.wire.vmomi import VimType, VmomiSupport
from vsphere_ai.model.plain import Plain


def fits_plain(value: Plain, kind: VimType, declared: VimType) -> bool:
    """Return whether a value of a type is of the declared one; references in a list say what they are themselves."""
    if not (issubclass(declared, list) and issubclass(kind, list) and isinstance(value, tuple)):
        return fits_type(kind, declared)
    if not issubclass(item_of(kind), VmomiSupport.ManagedObject):
        return fits_type(kind, declared)
    targets = {str(ref).partition(":")[0] for ref in value}
    return all(fits_type(VmomiSupport.GetWsdlType(NAMESPACE, name), item_of(declared)) for name in targets)


def always_fits(kind: VimType, declared: VimType) -> bool:
    """Return whether any value of a type is of the declared one, so that values need not be looked at."""
    refers = issubclass(kind, list) and issubclass(item_of(kind), VmomiSupport.ManagedObject)
    return fits_type(kind, declared) and not refers
