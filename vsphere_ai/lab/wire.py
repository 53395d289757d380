"""The VIM SOAP wire format: bytes to a typed request, a typed result or fault to bytes."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO
from typing import Any
from xml.parsers.expat import ExpatError, ParserCreate

from pyVmomi import SoapAdapter as Soap
from pyVmomi import VmomiSupport as Vmomi
from pyVmomi import vmodl

from vsphere_ai.lab.writer import NAMESPACE, ObjectWriter

# `Fetch` (the reading of one property) is not in pyVmomi's method table, but every client sends it.
FETCH = Vmomi.Object(
    name="Fetch",
    wsdlName="Fetch",
    typeName=None,
    result=object,
    isTask=False,
    version=Vmomi.BASE_VERSION,
    resultFlags=Vmomi.F_OPTIONAL,
    params=(Vmomi.Object(name="prop", type=str, version=Vmomi.BASE_VERSION, flags=0),),
)


class MalformedCall(Exception):
    """The body is not a request this server understands."""


# bits of the numbers a parameter may hold; pyVmomi's parser takes any
_BITS = {Vmomi.vmodlTypes[name]: bits for name, bits in (("byte", 7), ("short", 15), ("int", 31), ("long", 63))}


@dataclass
class SoapRequest:
    """One parsed call: WSDL method name, the object it is for, its typed arguments."""

    name: str = ""
    this: Any = None
    info: Any = None
    args: dict[str, Any] = field(default_factory=dict)
    operation: str = ""
    """The ``operationID`` of the SOAP header: the client's own name for what it does."""


class RequestParser(Soap.ExpatDeserializerNSHandlers):  # type: ignore[misc]
    """Expat handlers for Envelope, Header, Body and the method element.

    Each parameter's subtree is handed to pyVmomi's deserializer, which swaps the expat handlers out and back in.
    """

    def parse(self, body: bytes) -> SoapRequest:
        """Return the request in `body`, or raise BadRequest."""
        self.path: list[str] = []
        self.pending: tuple[str, bool, Any] | None = None
        self.request = SoapRequest()
        self.params: Mapping[str, Any] = {}
        self.parser = ParserCreate(namespace_separator=Soap.NS_SEP)
        self.parser.buffer_text = True
        Soap.SetHandlers(self.parser, Soap.GetHandlers(self))
        try:
            self.parser.Parse(body, True)
        except (ExpatError, LookupError, TypeError, AttributeError, ValueError) as error:
            # what pyVmomi raises on a type, field or value it does not know, and expat on an encoding
            raise MalformedCall(f"cannot parse {self.request.name or 'request'}: {error!r}") from error
        if self.request.info is None:
            raise MalformedCall("no method in the SOAP body")
        if not isinstance(self.request.this, Vmomi.ManagedObject):
            raise MalformedCall(f"{self.request.name} names no managed object")
        return self.request

    def _flush(self) -> None:
        if self.pending is None:
            return
        name, is_list, deserializer = self.pending
        self.pending = None
        value = deserializer.GetResult()
        typ = self._type(name)
        Vmomi.CheckField(Vmomi.Object(name=name, type=typ.Item if is_list else typ, flags=Vmomi.F_OPTIONAL), value)
        if name == "_this":
            self.request.this = value
        elif is_list:
            self.request.args.setdefault(name, []).append(value)
        else:
            self.request.args[name] = value

    def StartElementHandler(self, tag: str, attr: Mapping[str, str]) -> None:  # noqa: D102 - expat's name
        self._flush()
        namespace, _, local = tag.rpartition(Soap.NS_SEP)
        if len(self.path) == 2 and self.path[1] == "Body":
            self._method(namespace, local)
        elif len(self.path) == 3 and self.path[1] == "Body":
            self._parameter(tag, local, attr)
            return  # the deserializer also eats the matching end tag
        self.path.append(local)

    def _method(self, namespace: str, local: str) -> None:
        if self.request.info is not None:
            raise MalformedCall(f"{local} after {self.request.name}: one method at a time")
        self.request.name = local
        try:
            self.request.info = FETCH if local == "Fetch" else Vmomi.GetWsdlMethod(namespace, local).info
        except KeyError:
            raise MalformedCall(f"Unable to resolve WSDL method name {local} for {namespace}") from None
        self.params = {p.name: p for p in self.request.info.params}

    def _parameter(self, tag: str, local: str, attr: Mapping[str, str]) -> None:
        typ = self._type(local)
        is_list = issubclass(typ, list)
        deserializer = _Deserializer(None)
        deserializer.Deserialize(self.parser, typ.Item if is_list else typ, False, self.nsMap)
        deserializer.StartElementHandler(tag, attr)
        self.pending = (local, is_list, deserializer)

    def _type(self, parameter: str) -> Any:
        if parameter == "_this":
            return Vmomi.ManagedObject
        if parameter not in self.params:
            raise MalformedCall(f"unexpected parameter {parameter} of {self.request.name}")
        return self.params[parameter].type

    def CharacterDataHandler(self, data: str) -> None:  # noqa: D102 - expat's name; other text is inside parameters
        if self.path[1:] == ["Header", "operationID"]:
            self.request.operation += data

    def EndElementHandler(self, tag: str) -> None:  # noqa: D102 - expat's name
        self._flush()
        self.path.pop()


class _Deserializer(Soap.SoapDeserializer):  # type: ignore[misc]
    """PyVmomi's, which would take text in the place of fields and read it as an object with nothing set."""

    def EndElementHandler(self, tag: str) -> None:
        if self.stack and isinstance(self.stack[-1], Vmomi.DataObject) and self.data.strip():
            raise ValueError(f"text inside {tag.rpartition(Soap.NS_SEP)[2]}")
        super().EndElementHandler(tag)
        self.data: str = ""


def check_complete(value: Any, version: str) -> None:
    """Refuse an argument with a number too large, or in which a field is unset that this API version demands."""
    bits = _BITS.get(type(value))
    if bits is not None and not -(1 << bits) <= value < 1 << bits:
        raise MalformedCall(f"{value} does not fit into {bits + 1} bits")
    if isinstance(value, list):
        for item in value:
            check_complete(item, version)
    if not isinstance(value, Vmomi.DataObject):
        return
    for info in value._GetPropertyList():
        held = getattr(value, info.name)
        if held is not None:
            check_complete(held, version)
        elif not info.flags & Vmomi.F_OPTIONAL and Vmomi.IsChildVersion(version, info.version):
            raise MalformedCall(
                f"Required property {info.name} is missing from data object of type {type(value)._wsdlName}"
            )


class _Serializer(ObjectWriter):
    def __init__(self, writer: StringIO, version: str) -> None:
        namespaces = Soap.SOAP_NSMAP.copy()
        namespaces[NAMESPACE] = ""
        super().__init__(writer, version, namespaces)
        self.writer: StringIO = writer
        self.outermostAttrs = ""  # pyVmomi would add versionId=..., servers do not

    def _QName(self, typ: Any, default: Any) -> Any:
        if typ is Vmomi.ManagedObject:  # servers and govmomi say ManagedObjectReference in an anyType
            return "", "ManagedObjectReference"
        return super()._QName(typ, default)

    def _Serialize(self, val: Any, info: Any, defNS: str) -> None:
        """Write a value; in an anyType the items of an array say of which type they are, as vCenter's do."""
        if info.type is not object or not isinstance(val, Vmomi.Array) or not val:
            super()._Serialize(val, info, defNS)
            return
        kind = val.Item
        whole = StringIO()
        outer, self.writer = self.writer, whole
        super()._Serialize(type(val)(), info, defNS)  # the element alone, with its own type
        self.writer = outer
        start, end = whole.getvalue().split("><")
        if Soap.isDynamicType(kind):
            name = "string"
        elif issubclass(kind, Vmomi.ManagedObject):
            name = "ManagedObjectReference"
        else:
            name = Vmomi.GetWsdlName(kind)
        item = Vmomi.Object(name=name, type=object, version=info.version, flags=info.flags)
        outer.write(f"{start}>")
        for each in val:
            self._Serialize(typed(each, kind), item, Vmomi.GetWsdlNamespace(info.version))
        outer.write(f"<{end}")


def element(value: Any, name: str, typ: Any, version: str) -> str:
    """Return `value` as an XML element, degraded to the client's API version as a real server does."""
    out = StringIO()
    info = Vmomi.Object(name=name, type=typ, version=Vmomi.BASE_VERSION, flags=Vmomi.F_OPTIONAL)
    _Serializer(out, version).Serialize(value, info)
    return out.getvalue()


def response(request: SoapRequest, result: Any, result_type: Any, version: str) -> bytes:
    """Return the reply to a call that succeeded."""
    body = "" if result is None else element(result, "returnval", result_type, version)
    return _envelope(f'<{request.name}Response xmlns="{NAMESPACE}">{body}</{request.name}Response>')


def fault(error: Exception, version: str) -> bytes:
    """Return the reply to a call that was refused: the fault with its typed detail and message."""
    message, detail = getattr(error, "msg", None) or "", ""
    if isinstance(error, vmodl.MethodFault):
        value = copy.copy(error)
        value.msg = None
        name = type(value)._wsdlName
        out = StringIO()
        info = Vmomi.Object(name=name + "Fault", type=object, version=Vmomi.BASE_VERSION, flags=0)
        _Serializer(out, version).SerializeFaultDetail(value, info)
        typed_detail = out.getvalue().replace(f"<{name}Fault", f'<{name}Fault xmlns="{NAMESPACE}"', 1)
        detail = f"<detail>{typed_detail}</detail>"
    return _envelope(
        "<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>"
        f"{Soap.XmlEscape(message)}</faultstring>{detail}</soapenv:Fault>"
    )


def _envelope(body: str) -> bytes:
    return f"{Soap.XML_HEADER}\n{Soap.SOAP_START}{body}{Soap.SOAP_END}".encode()


def typed(value: Any, typ: Any) -> Any:
    """Give a plain Python value its declared type, so that xsi:type is right in an anyType."""
    if value is None:
        return None
    if issubclass(typ, list) and not isinstance(value, Vmomi.Array):
        return typ(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value
    return value if type(value) is typ or not issubclass(typ, (int, float, str)) else typ(value)
