"""Answers that are well-formed, but hold a value that pyVmomi has no type for: read without that value.

A newer server may send a type, a field or an enumeration value that the installed pyVmomi does not know, or a value of
another type than declared. pyVmomi then raises out of its parser and gives up the whole page of up to 500 objects.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from xml.parsers import expat

from vsphere_ai.connect.wire.page import ERRORS
from vsphere_ai.connect.wire.page_text import ElementSpan, objects_of, without
from vsphere_ai.connect.wire.vmomi import Collector, SoapAdapter, VimPage, VimType, vmodl
from vsphere_ai.model.facts import UNTYPED

NEXT = "ContinueRetrievePropertiesEx"
PAGES = ("RetrievePropertiesEx", NEXT)
"""Methods that answer with objects and their properties, each of which can be left out."""


class Untypable(Exception):
    """The answer came whole and well-formed, and pyVmomi cannot make objects of it; asked again, it is the same."""


def reason_of(error: BaseException) -> str:
    """Return pyVmomi's reason why it cannot type a value."""
    text = " ".join(str(error).split())
    return f"does not know {text}" if isinstance(error, KeyError) else f"cannot read it: {text or type(error).__name__}"


def is_well_formed(body: bytes) -> bool:
    """Return whether an answer is a whole XML document."""
    try:
        expat.ParserCreate().Parse(body, True)
    except expat.ExpatError:
        return False
    return True


def read_without(stub: object, body: bytes, result: VimType) -> VimPage:
    """Return a page of objects without the properties that cannot be typed, which are in `missingSet` instead.

    Raises what pyVmomi raises when an object cannot be typed even without its properties.
    """
    objects = objects_of(body)
    if not objects:
        raise ValueError("it holds no objects")

    def parsed(document: bytes) -> VimPage:
        page: VimPage = SoapAdapter.SoapResponseDeserializer(stub).Deserialize(io.BytesIO(document), result)
        return page

    def typed(text: bytes) -> VimPage:
        return parsed(body[: objects[0].start] + text + body[objects[-1].end :])

    left_out: dict[int, list[tuple[ElementSpan, str]]] = {}
    for each in _culprits(objects, lambda chosen: typed(body[chosen[0].start : chosen[-1].end])):
        left_out[objects.index(each)] = list(_untypable(each, body, typed))
    cut = sorted((span.start, span.end) for spans in left_out.values() for span, _ in spans)
    page = parsed(without(body, cut))
    for index, spans in left_out.items():
        for span, why in spans:
            fault = vmodl.MethodFault(msg=f"{UNTYPED}: pyVmomi {why}")
            page.objects[index].missingSet.append(Collector.MissingProperty(path=span.name, fault=fault))
    return page


def _culprits(
    objects: Sequence[ElementSpan], typed: Callable[[Sequence[ElementSpan]], VimPage]
) -> Iterator[ElementSpan]:
    """Yield the objects that cannot be typed; halving finds one among 500 for the price of reading the page twice."""
    try:
        typed(objects)
        return
    except ERRORS:
        if len(objects) == 1:
            yield objects[0]
            return
    middle = len(objects) // 2
    yield from _culprits(objects[:middle], typed)
    yield from _culprits(objects[middle:], typed)


def _untypable(of: ElementSpan, body: bytes, typed: Callable[[bytes], VimPage]) -> Iterator[tuple[ElementSpan, str]]:
    """Yield the properties of an object that cannot be typed, with the reason."""
    for part in of.parts:
        others = sorted((p.start - of.start, p.end - of.start) for p in of.parts if p is not part)
        try:
            typed(without(body[of.start : of.end], others))
        except ERRORS as error:
            yield part, reason_of(error)
