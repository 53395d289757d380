"""Parts of pyVmomi in use, and the shapes of its values: its own annotations are too few for strict checking."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

import pyVmomi
import pyVmomi.Iso8601
import pyVmomi.SoapAdapter
import pyVmomi.VmomiSupport

_whole: Any = pyVmomi
VmomiSupport: Any = _whole.VmomiSupport
Iso8601: Any = _whole.Iso8601
SoapAdapter: Any = _whole.SoapAdapter
vim: Any = _whole.vim
vmodl: Any = _whole.vmodl
Collector: Any = vmodl.query.PropertyCollector
VimType: TypeAlias = type[Any]
"""A class of pyVmomi: a data object, a managed object, an enumeration, a list or a scalar."""


class RemoteObject(Protocol):
    """An object on the server, known by its reference."""

    def _GetMoId(self) -> str: ...  # noqa: N802 pyVmomi's name


class Parameter(Protocol):
    """A parameter of a method, or a field of a data object. `version` is the API version it came with."""

    name: str
    type: VimType
    flags: int
    version: str


class Method(Protocol):
    """A method of the API."""

    wsdlName: str  # noqa: N815
    params: Sequence[Parameter]
    result: VimType
    resultFlags: int  # noqa: N815
    version: str
    typeName: str  # noqa: N815


class Property(Protocol):
    """A property path and its value."""

    name: str
    val: object


class MissingProperty(Protocol):
    """A property path without a value, and the fault that says why."""

    path: str
    fault: object


class ObjectContent(Protocol):
    """What a bulk read returns of one object."""

    obj: RemoteObject
    propSet: Sequence[Property]  # noqa: N815
    missingSet: list[MissingProperty]  # noqa: N815


class VimPage(Protocol):
    """One page of a bulk read, as pyVmomi reads it; `token` fetches the next one."""

    objects: Sequence[ObjectContent]
    token: str | None


class Update(Protocol):
    """What has changed of one object since the last update; `kind` is ``enter``, ``modify`` or ``leave``."""

    kind: str
    obj: RemoteObject
    changeSet: Sequence[Property]  # noqa: N815


class PrivilegeAvailability(Protocol):
    """Whether the account has one privilege."""

    privId: str  # noqa: N815
    isGranted: bool  # noqa: N815


class EntityPrivileges(Protocol):
    """The privileges of the account on one object."""

    entity: RemoteObject
    privAvailability: Sequence[PrivilegeAvailability] | None  # noqa: N815


class AboutInfo(Protocol):
    """The product behind a session."""

    name: str
    version: str
    build: str
    instanceUuid: str | None  # noqa: N815
    apiType: str  # noqa: N815
    apiVersion: str | None  # noqa: N815


class ServiceContent(Protocol):
    """The managers of a server. Only those are listed that every vCenter has; others are asked for by name."""

    about: AboutInfo
    rootFolder: RemoteObject  # noqa: N815
    propertyCollector: RemoteObject  # noqa: N815
    viewManager: RemoteObject  # noqa: N815
    sessionManager: RemoteObject  # noqa: N815
