"""Pages of objects: the decoder makes of them what pyVmomi does, or leaves them to it."""

from __future__ import annotations

import base64
import random
import re
import sys

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pyVmomi import VmomiSupport
from support.pages_by_pyvmomi import METHODS, Heard, by_pyvmomi, everything
from support.places import ROOT

from vsphere_ai.connect.tls import Endpoint
from vsphere_ai.connect.vcenter import VCenter
from vsphere_ai.connect.wire import page_decoder
from vsphere_ai.connect.wire.page_decoder import decode
from vsphere_ai.connect.wire.part_forms import Forms
from vsphere_ai.connect.wire.part_reader import PartReader
from vsphere_ai.connect.wire.wire_types import Unfamiliar

U2 = "vim.version.v7_0_2_0"
NEWEST = VmomiSupport.newestVersions.GetName("vim")
ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<soapenv:Envelope '
    'xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsd="http://www.w3.org/2001/XMLSchema" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body><RetrievePropertiesExResponse '
    'xmlns="urn:vim25">{}</RetrievePropertiesExResponse></soapenv:Body></soapenv:Envelope>'
)


def answer(*items, token=""):
    token = f"<token>{token}</token>" if token else ""
    return ENVELOPE.format(f"<returnval>{token}{''.join(items)}</returnval>").encode()


def item(*inner, obj='<obj type="VirtualMachine">vm-1</obj>'):
    return f"<objects>{obj}{''.join(inner)}</objects>"


def prop(name, val):
    return f"<propSet><name>{name}</name>{val}</propSet>"


def agreed(body, version=U2):
    """The page, which both read alike."""
    page = decode(body, version)
    assert page == by_pyvmomi(body, version)
    return page


def judged(body, version=U2):
    """Whether the decoder reads a page; then pyVmomi reads the same, and what pyVmomi refuses is left to it."""
    try:
        page = decode(body, version)
    except Unfamiliar:
        return False
    assert page == by_pyvmomi(body, version)
    return True


# -- answers of servers


def test_every_recorded_page_is_read_as_pyvmomi_reads_it():
    bodies = [
        turn["response"]["body"]["string"]
        for file in sorted((ROOT / "tests" / "recorded" / "cassettes").glob("*.yaml"))
        for turn in yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)["interactions"]
        if re.search(f"<({'|'.join(METHODS)}) ", str(turn["request"]["body"]))
    ]
    pages = [agreed(body.encode() if isinstance(body, str) else body) for body in bodies if "Response" in str(body)]
    assert len(pages) > 20
    assert sum(len(page.objects) for page in pages if page) > 60


def test_everything_the_lab_shows_is_read_as_pyvmomi_reads_it(lab, monkeypatch):
    heard = Heard(monkeypatch)
    password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    endpoint = Endpoint(
        "127.0.0.1", lab.port, "administrator@vsphere.local", password, ca_file=lab.directory / "ca.pem"
    )
    with VCenter.connect(endpoint) as vcenter:
        found = vcenter.read(everything(U2))
        assert vcenter._session.stub.left == 0
    assert len(found) > 25
    for body, version in heard.pages:
        for _ in range(2):  # the second time out of its memory
            agreed(body, version)


# -- answers that are made up

PLAIN = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
ANY = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="\ufffe\uffff"), max_size=12)
SPACES = st.sampled_from(["\n", "\t", "\r", " \r\n", "]]>", "%2f%25", "<propSet>", "</objects>", "&amp;"])


@st.composite
def texts(draw, odd):
    """A text and how it is written: as entities, by number, in a section."""
    text = draw(PLAIN | ANY | SPACES if odd else PLAIN | ANY)
    how = draw(st.sampled_from(["entities", "numbers", "section"] if odd else ["entities"]))
    if how == "numbers":
        return "".join(f"&#{ord(c)};" if c in "<&]\r" or draw(st.booleans()) else c for c in text)
    if how == "section" and "]]>" not in text:
        return f"<![CDATA[{text}]]>"
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


ZONES = st.sampled_from(["Z", "", "+02:00", "-11:30", "+14"])
DATES = st.tuples(st.datetimes(), ZONES).map(lambda drawn: drawn[0].isoformat() + drawn[1])
SCALARS = {
    "int": st.integers(-(2**31), 2**31 - 1).map(str),
    "long": st.integers(-(2**63), 2**63 - 1).map(str),
    "short": st.integers(-(2**15), 2**15 - 1).map(str),
    "byte": st.integers(-128, 127).map(str),
    "boolean": st.sampled_from(["true", "false", "1", "0", "TRUE"]),
    "double": st.floats(allow_nan=False).map(str),
    "float": st.floats(allow_nan=False, width=32).map(str),
    "dateTime": DATES | st.sampled_from(["2026", "2026-05", "1971-01-02T24:00:00Z"]),
    "base64Binary": st.binary(max_size=9).map(lambda b: base64.b64encode(b).decode()),
}
ODD_SCALARS = st.sampled_from(["", " 5 ", "x", "1_000", "0x5", "INF", "2026-13-01T00:00:00Z", "tRuE", "A==="])
KINDS = st.sampled_from(["HostSystem", "Datastore", "Network", "VirtualMachine"])
REFS = st.tuples(KINDS, st.from_regex(r"[a-z]+-[0-9]{1,3}", fullmatch=True))
SAID = "<fault xsi:type='NoPermission'><privilegeId>a</privilegeId></fault><localizedMessage>no</localizedMessage>"
XSD = "http://www.w3.org/2001/XMLSchema"
ODD = {
    "a type of the future": 'xsi:type="VirtualFuture"><a>1</a>',
    "no type": ">5",
    "no number": 'xsi:nil="true" xsi:type="xsd:int">',
    "no text": 'xsi:nil="true" xsi:type="xsd:string">',
    "no object": 'xsi:nil="true" xsi:type="OptionValue">',
    "a type": 'xsi:type="TypeName">VirtualMachine',
    "a method": 'xsi:type="MethodName">PowerOnVM_Task',
    "a path": 'xsi:type="PropertyPath">config',
    "a place": 'xsi:type="xsd:anyURI">urn:x',
    "a prefix": 'xmlns:p="urn:vim25" xsi:type="p:OptionValue"><p:key>k</p:key>',
    "a prefix within": f'xmlns:q="{XSD}" xsi:type="OptionValue"><value xsi:type="q:int">5</value>',
    "a prefix of elsewhere": 'xsi:type="q:int">5',
    "a fault": f'xsi:type="NoPermission">{SAID}',
    "a wrapped fault": f'xsi:type="LocalizedMethodFault">{SAID}',
    "an enumeration": 'xsi:type="VirtualMachinePowerState">hibernated',
}


@st.composite
def anything(draw, tag, odd, depth=0):
    """An element of any type that says its type."""

    def element(kind, inner):
        return f'<{tag} xsi:type="{kind}">{inner}</{tag}>'

    kinds = ["scalar", "string"] if depth > 2 else ["scalar", "string", "ref", "array", "refs", "object", "enum"]
    kind = draw(st.sampled_from([*kinds, "odd", "odd"] if odd else kinds))
    if kind == "odd":
        return f"<{tag} {draw(st.sampled_from(sorted(ODD.values())))}</{tag}>".replace(" >", ">")
    if kind == "scalar":
        name = draw(st.sampled_from(sorted(SCALARS)))
        return element(f"xsd:{name}", draw(SCALARS[name] | ODD_SCALARS if odd else SCALARS[name]))
    if kind == "string":
        return element("xsd:string", draw(texts(odd)))
    if kind == "ref":
        of, moid = draw(REFS)
        return f'<{tag} type="{of}" xsi:type="ManagedObjectReference">{moid}</{tag}>'
    if kind == "array":
        name = draw(st.sampled_from(["string", "int", "long", "boolean"]))
        inner = draw(st.lists(texts(odd) if name == "string" else SCALARS[name], max_size=3))
        typed = f' xsi:type="xsd:{name}"' if draw(st.booleans()) else ""
        return element(f"ArrayOf{name.capitalize()}", "".join(f"<{name}{typed}>{i}</{name}>" for i in inner))
    if kind == "refs":
        name, found = "ManagedObjectReference", draw(st.lists(REFS, max_size=3))
        return element(f"ArrayOf{name}", "".join(f'<{name} type="{of}">{m}</{name}>' for of, m in found))
    if kind == "object":
        return element("OptionValue", f"<key>{draw(texts(odd))}</key>{draw(anything('value', odd, depth + 1))}")
    return element("VirtualMachinePowerState", draw(st.sampled_from(["poweredOn", "suspended"])))


DEVICES = {
    "VirtualVmxnet3": ("VirtualEthernetCardNetworkBackingInfo", "deviceName"),
    "VirtualDisk": ("VirtualDiskFlatVer2BackingInfo", "fileName"),
    "VirtualPCIPassthrough": ("VirtualPCIPassthroughVmiopBackingInfo", "vgpu"),
    "VirtualKeyboard": ("VirtualDeviceRemoteDeviceBackingInfo", "deviceName"),
}
ODD_PARTS = st.sampled_from(["<unitNumber>7</unitNumber>", "<unitNumber>8</unitNumber>", " text ", "<new>1</new>"])


@st.composite
def devices(draw, odd):
    """A device with its backing; an odd one without fields that it must have, in any order, or of another type."""
    kind = draw(st.sampled_from(sorted(DEVICES)))
    backing, field = DEVICES[draw(st.sampled_from(sorted(DEVICES))) if odd else kind]
    typed = f' xsi:type="{backing}"' if not odd or draw(st.booleans()) else ""
    parts = [f"<key>{draw(SCALARS['int'])}</key>", f"<backing{typed}><{field}>{draw(texts(odd))}</{field}></backing>"]
    if kind == "VirtualDisk":
        parts.append(f"<capacityInKB>{draw(SCALARS['long'])}</capacityInKB>")
    if odd:
        parts = [p for p in draw(st.permutations(parts)) if draw(st.integers(0, 4))] + draw(
            st.lists(ODD_PARTS, max_size=2)
        )
        kind = draw(st.sampled_from([kind, kind, "VirtualWarpDrive", "OptionValue"]))
    return f'<VirtualDevice xsi:type="{kind}">{"".join(parts)}</VirtualDevice>'


STORES = '<ManagedObjectReference type="Datastore">d-1</ManagedObjectReference>'


@st.composite
def properties(draw, odd):
    """A property of a VM."""
    options = draw(st.lists(st.tuples(texts(odd), anything("value", odd)), max_size=2))
    hardware = "".join(draw(st.lists(devices(odd), max_size=3)))
    listed = "".join(f"<OptionValue><key>{key}</key>{value}</OptionValue>" for key, value in options)
    values = [
        ("name", f'<val xsi:type="xsd:string">{draw(texts(odd))}</val>'),
        ("config.hardware.device", f'<val xsi:type="ArrayOfVirtualDevice">{hardware}</val>'),
        ("config.extraConfig", f'<val xsi:type="ArrayOfOptionValue">{listed}</val>'),
        ("config.modified", f'<val xsi:type="xsd:dateTime">{draw(DATES)}</val>'),
        ("config.npivNodeWorldWideName", f'<val xsi:type="ArrayOfLong"><long>{draw(SCALARS["long"])}</long></val>'),
        ("runtime.powerState", '<val xsi:type="VirtualMachinePowerState">poweredOff</val>'),
        ("runtime.host", '<val type="HostSystem" xsi:type="ManagedObjectReference">host-5</val>'),
        ("parent", '<val xsi:type="ManagedObjectReference" type="Folder">group-v3</val>'),
        ("datastore", f'<val xsi:type="ArrayOfManagedObjectReference">{STORES}</val>'),
        ("config", f'<val xsi:type="VirtualMachineConfigInfo"><name>{draw(texts(odd))}</name></val>'),
    ]  # fmt: skip
    if odd:
        values += [
            (path, draw(anything("val", odd))) for path in ("summary.customValue", "runtime.powerState", "no.such")
        ]
    return prop(*draw(st.sampled_from(values)))


FAULTS = {
    "NoPermission": '<object type="HostSystem">h</object><privilegeId>System.Read</privilegeId>',
    "InvalidProperty": "<name>x</name>",
    "NotAuthenticated": "",
    "SystemError": "<reason/>",
}
MISSING = [
    f'<missingSet><path>config</path><fault><fault xsi:type="{kind}">{detail}</fault>'
    "<localizedMessage>no</localizedMessage></fault></missingSet>"
    for kind, detail in FAULTS.items()
]
NAMED = ['<obj type="VirtualMachine">vm-1</obj>', '<obj type="VirtualMachine">vm-ü</obj>']
ODDLY_NAMED = [
    *NAMED,
    '<obj type="FutureEntity">f-1</obj>',
    '<obj type="OptionValue">o</obj>',
    "",
    "<obj>x</obj>",
    '<obj xsi:type="ManagedObjectReference" type="VirtualMachine">v&amp;m</obj>',
]
BETWEEN = st.sampled_from(["", "\n ", "<!-- x -->", "<?x y?>", "text", prop("a", "<val><propSet/></val>")])


@st.composite
def pages(draw, odd):
    """A page of VMs."""
    items = [
        item(
            *draw(st.lists(properties(odd), max_size=4)),
            *draw(st.lists(st.sampled_from(MISSING), max_size=2)),
            draw(BETWEEN) if odd else "",
            obj=draw(st.sampled_from(ODDLY_NAMED if odd else NAMED)),
        )
        for _ in range(draw(st.integers(0, 3)))
    ]
    return answer(*items, token=draw(st.sampled_from(["", "7"])))


@given(pages(odd=False), st.sampled_from([U2, NEWEST, "vim.version.version11"]))
def test_what_vcenter_sends_is_read_as_pyvmomi_reads_it(body, version):
    agreed(body, version)


@given(pages(odd=True))
def test_what_is_odd_is_read_as_pyvmomi_reads_it_or_left_to_it(body):
    judged(body)


FORMS = [
    '<VirtualDevice xsi:type="VirtualKeyboard"><key>600</key><deviceInfo><label>{}</label><summary>{}</summary>'
    "</deviceInfo></VirtualDevice>",
    '<VirtualDevice xsi:type="VirtualKeyboard"><key>600</key><deviceInfo><label>{}</label><label>{}</label>'
    "<summary>a</summary></deviceInfo></VirtualDevice>",
    '<VirtualDevice xsi:type="VirtualKeyboard"><deviceInfo>{}<label>x</label>{}</deviceInfo></VirtualDevice>',
    '<VirtualDevice xsi:type="VirtualDisk"><key>7</key><backing xsi:type="VirtualDiskFlatVer2BackingInfo">'
    '<fileName>{}</fileName><datastore type="Datastore">d-1</datastore></backing><diskObjectId>{}</diskObjectId>'
    "</VirtualDevice>",
]
TEXTS = st.sampled_from(
    ["", "a", "b", "x", " a ", "ü", "\ufffd", "&amp;", "&#97;", "a>b", ">a", "]]", "\t", "a\nb", "\x7f", "\x85", "'\"",
     "<a>b</a>", "</label><label>a"]
)  # fmt: skip


@given(st.lists(st.tuples(st.sampled_from(FORMS), TEXTS, TEXTS), min_size=2, max_size=8), st.booleans())
def test_parts_of_one_form_are_read_as_pyvmomi_reads_them(parts, apart):
    devices = [form.format(*texts) for form, *texts in parts]
    lists = [[device] for device in devices] if apart else [devices]
    judged(
        answer(*(item(prop("config.hardware.device", f'<val xsi:type="ArrayOfVirtualDevice">{"".join(own)}</val>'))
                 for own in lists))
    )  # fmt: skip


CARD = (
    '<VirtualDevice xsi:type="VirtualVmxnet3"><key>{}</key><deviceInfo><label>{}</label><summary>net</summary>'
    '</deviceInfo><backing xsi:type="VirtualEthernetCardDistributedVirtualPortBackingInfo"><port>'
    "<switchUuid>50 1c</switchUuid><portgroupKey>dvportgroup-9</portgroupKey><portKey>{}</portKey></port></backing>"
    "<connectable><startConnected>{}</startConnected><allowGuestControl>true</allowGuestControl><connected>true</connected></connectable>"
    "<controllerKey>100</controllerKey><unitNumber>{}</unitNumber><macAddress>{}</macAddress></VirtualDevice>"
)
ALLOCATION = "<reservation>{}</reservation><shares><shares>4</shares><level>{}</level></shares>"
OPTION = '<OptionValue><key>{}</key><value xsi:type="{}">{}</value></OptionValue>'
VALUED = st.tuples(st.just("xsd:string"), TEXTS) | st.sampled_from(
    [("xsd:int", "5"), ("xsd:int", "-7"), ("xsd:long", "5000000000"), ("xsd:int", "x"), ("xsd:boolean", "true"),
     ("ArrayOfString", ""), ("ArrayOfString", "<string>a</string>"), ("ArrayOfInt", "<int>1</int><int>2</int>"),
     ("xsd:dateTime", "2026-05-01T10:00:00Z"), ("NewKind", "a"), ("VirtualMachinePowerState", "poweredOn")]
)  # fmt: skip
FEW = st.sampled_from(["1", "2", "3", "-5", "4000000000", "x"])
CARDS = st.tuples(FEW, TEXTS, FEW, st.sampled_from(["true", "false", "TRUE", "1", "yes"]), FEW, TEXTS)
TAKEN = {
    "config.hardware.device": ("ArrayOfVirtualDevice", CARDS.map(lambda texts: CARD.format(*texts))),
    "config.extraConfig": (
        "ArrayOfOptionValue",
        st.tuples(TEXTS, VALUED).map(lambda drawn: OPTION.format(drawn[0], *drawn[1])),
    ),
    "disabledMethod": ("ArrayOfString", TEXTS.map("<string>{}</string>".format)),
    "layoutEx.snapshot": ("ArrayOfInt", FEW.map("<int>{}</int>".format)),
    "datastore": (
        "ArrayOfManagedObjectReference",
        st.tuples(st.sampled_from(["Datastore", "Network", "New"]), TEXTS).map(
            lambda drawn: '<ManagedObjectReference type="{}">{}</ManagedObjectReference>'.format(*drawn)
        ),
    ),
    "config.files": (
        "VirtualMachineFileInfo",
        TEXTS.map("<vmPathName>{}</vmPathName><logDirectory>b</logDirectory>".format),
    ),
    "config.cpuAllocation": (
        "ResourceAllocationInfo",
        st.tuples(FEW, st.sampled_from(["normal", "high", "new"])).map(lambda drawn: ALLOCATION.format(*drawn)),
    ),
}  # fmt: skip


@given(st.data(), st.sampled_from(sorted(TAKEN)))
def test_what_follows_a_pattern_is_read_as_pyvmomi_reads_it(data, path):
    """Many that differ in a few texts, so that these are known when an odd one comes; each VM of a page of its own."""
    kind, parts = TAKEN[path]
    listed = kind.startswith("ArrayOf")
    inner = data.draw(st.lists(st.lists(parts, max_size=4).map("".join) if listed else parts, min_size=4, max_size=14))
    for each in inner:
        judged(answer(item(prop(path, f'<val xsi:type="{kind}">{each}</val>'))))


def test_a_pattern_is_compared_with_and_no_more(monkeypatch):
    """Once it is known what differs, no part is taken apart into its texts."""
    page_decoder._decoder.cache_clear()
    taken_apart = []
    unlike = Forms._unlike
    monkeypatch.setattr(Forms, "_unlike", lambda *own: (taken_apart.append(1), unlike(*own))[1])
    for n in range(60):
        card = CARD.format(4000 + n % 7, f"Network adapter {n}", n, ("true", "false")[n % 2], n % 5, f"00:50:{n}")
        agreed(answer(item(prop("config.hardware.device", f'<val xsi:type="ArrayOfVirtualDevice">{card}</val>'))))
    assert len(taken_apart) < 8
    monkeypatch.setattr(Forms, "_unlike", unlike)
    for text in ("", "a&amp;b", "a\tb", "\x7f", "\xa0", "\ud7ff", "<a/>"):
        card = CARD.format(4000, text, 1, "true", 1, "00:50")
        judged(answer(item(prop("config.hardware.device", f'<val xsi:type="ArrayOfVirtualDevice">{card}</val>'))))


def test_values_that_are_alike_are_one_object_within_those_that_are_not():
    page_decoder._decoder.cache_clear()
    cards = [CARD.format(n, f"Network adapter {n}", n, "true", n, n) for n in range(4000, 4100)]
    listed = [f'<val xsi:type="ArrayOfVirtualDevice">{"".join(own)}</val>' for own in (cards[:1], cards)]
    _, of_many = agreed(answer(*(item(prop("config.hardware.device", each)) for each in listed))).objects
    found = of_many.values["config.hardware.device"]
    assert len(found) == len({device["macAddress"] for device in found}) == 100
    assert len({id(device["connectable"]) for device in found[10:]}) == 1
    assert sys.getsizeof(found[50]) < sys.getsizeof({**found[50]}), "keys are shared"


def test_a_text_written_as_numbers_is_not_taken_for_one_beside_it():
    page_decoder._decoder.cache_clear()
    label = '<VirtualDevice xsi:type="VirtualKeyboard"><deviceInfo><label>&#97;</label>{}</deviceInfo></VirtualDevice>'
    for texts in ("q", "aaxb"):
        listed = f'<val xsi:type="ArrayOfVirtualDevice">{"".join(map(label.format, texts))}</val>'
        found = agreed(answer(item(prop("config.hardware.device", listed)))).objects[0].values["config.hardware.device"]
        assert {device["deviceInfo"]["label"] for device in found} == {"a"}


def test_parts_of_one_form_are_parsed_once(monkeypatch):
    page_decoder._decoder.cache_clear()
    started = []
    start = PartReader.read
    monkeypatch.setattr(PartReader, "read", lambda *given: (started.append(1), start(*given))[1])
    disk = FORMS[3]
    pages = [
        answer(item(prop("config.hardware.device",
                         f'<val xsi:type="ArrayOfVirtualDevice">{disk.format(n, n)}{disk.format(n, "x")}</val>')))
        for n in range(50)
    ]  # fmt: skip
    for body in pages:
        agreed(body)
    assert len(started) == 2  # the first property, and the form of a disk


@pytest.mark.parametrize("path", ["config", "summary.customValue"])
def test_a_fault_with_lists(path):
    said = "<faultMessage><key>k</key><arg><key>1</key><value xsi:type='xsd:string'>v</value></arg></faultMessage>"
    fault = f'<fault xsi:type="NoPermission">{said}<privilegeId>a</privilegeId></fault>'
    message = "<localizedMessage>no</localizedMessage>"
    missing = f"<missingSet><path>{path}</path><fault>{fault}{message}</fault></missingSet>"
    value = f'<val xsi:type="LocalizedMethodFault">{fault}{message}</val>'
    agreed(answer(item(missing), item(prop("x", value))))


SNIPPETS = [
    *(b"<propSet>", b"</propSet>", b"<objects>", b"</objects>", b"<val>", b"</val>", b"<name>", b"<missingSet>"),
    *(b"</returnval>", b"<token>9</token>", b'<obj type="VirtualMachine">vm-2</obj>', b"<a/>", b"<![CDATA[x]]>"),
    *(b' xsi:nil="true"', b' xsi:type="xsd:int"', b' xmlns:xsi="urn:x"', b' xmlns=""', b"<!-- -->", b"&#60;", b"&amp;"),
    *(b"]]>", b"\xff", b"\x00", b"\xc3\xa4", b"5", b"-", b"x", b"\r"),
]


@given(pages(odd=False), st.randoms(use_true_random=False), st.integers(1, 3))
def test_damage_is_never_read_as_something_else(body, chance, times):
    """Bytes that are lost, doubled, or come from somewhere else: what the decoder still reads, pyVmomi reads alike."""
    for _ in range(times):
        begin = chance.randrange(len(body))
        end = min(len(body), begin + chance.choice((0, 0, 1, 3, 20)))
        body = body[:begin] + chance.choice([*SNIPPETS, b"", body[begin:end] * 2]) + body[end:]
    judged(body)


def test_damage_to_what_the_lab_shows(lab, monkeypatch):
    """The same with a page of the lab, which has far more types."""
    heard = Heard(monkeypatch)
    password = (lab.directory / "password").read_text(encoding="utf-8").strip()
    endpoint = Endpoint(
        "127.0.0.1", lab.port, "administrator@vsphere.local", password, ca_file=lab.directory / "ca.pem"
    )
    with VCenter.connect(endpoint) as vcenter:
        vcenter.read({"VirtualMachine": ("name", "runtime", "config.hardware.device"), "Folder": ("name", "childType")})
    chance = random.Random(15)
    whole, version = heard.pages[0]
    read = 0
    for _ in range(150):
        begin = chance.randrange(len(whole))
        end = min(len(whole), begin + chance.choice((0, 1, 20)))
        read += judged(whole[:begin] + chance.choice([*SNIPPETS, b""]) + whole[end:], version)
    assert 3 < read < 140


# -- what is left to pyVmomi, and what is not

DEEP = "".join(["<val xsi:type='OptionValue'>", '<value xsi:type="OptionValue">' * 150, "</value>" * 150, "</val>"])
ORDINARY = item(prop("name", '<val xsi:type="xsd:string">a</val>'))
LEFT = {
    "a comment": answer("<!-- x -->", ORDINARY),
    "a section": answer(item(prop("name", '<val xsi:type="xsd:string"><![CDATA[a]]></val>'))),
    "an instruction": answer("<?x y?>", ORDINARY),
    "a property in a property": answer(item(prop("name", "<val><propSet><name>x</name></propSet></val>"))),
    "another name space": answer(ORDINARY).replace(b"urn:vim25", b"urn:sms"),
    "a prefix of another meaning": answer(ORDINARY).replace(b"<returnval>", b'<returnval xmlns:xsd="urn:x">'),
    "a new type": answer(item(prop("x", '<val xsi:type="VirtualFuture"/>'))),
    "a new field": answer(item(prop("x", '<val xsi:type="OptionValue"><future>1</future></val>'))),
    "a value of another type": answer(item(prop("name", '<val xsi:type="xsd:int">5</val>'))),
    "two references": answer(item(obj='<obj type="VirtualMachine">a</obj><obj type="VirtualMachine">b</obj>')),
    "a fault": ENVELOPE.format('<soapenv:Fault xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"/>').encode(),
    "a truncated answer": answer(ORDINARY)[:-20],
    "too deep": answer(item(prop("x", DEEP))),
    "another encoding": answer(ORDINARY).replace(b"UTF-8", b"ISO-8859-1"),
    "ASCII": answer(ORDINARY).replace(b"UTF-8", b"US-ASCII"),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT)
def test_it_is_left_to_pyvmomi(what):
    with pytest.raises(Unfamiliar):
        decode(LEFT[what], U2)


def test_a_page_that_is_left_is_counted_and_read(fake, authority, limits, caplog):
    caplog.set_level("DEBUG", "vsphere_ai.connect.soap.session")
    fake.script["CreateContainerView"] = lambda _: '<returnval type="ContainerView">view-1</returnval>'
    inner = {"as usual": ORDINARY, "with a section": ORDINARY.replace(">a<", "><![CDATA[a]]><")}
    with VCenter.connect(fake.endpoint(ca_file=authority.file), limits=limits) as vcenter:
        for left, text in enumerate(inner.values()):
            fake.script["RetrievePropertiesEx"] = lambda _, text=text: f"<returnval>{text}</returnval>"
            assert vcenter.read({"VirtualMachine": ("name",)})["VirtualMachine:vm-1"].name == "a"
            assert vcenter._session.stub.left == left
    assert [r for r in caplog.text.splitlines() if "left to pyVmomi" in r]


def test_nothing_is_no_page():
    assert decode(ENVELOPE.format("").encode(), U2) is None
    assert agreed(answer()).objects == []
    assert agreed(answer(ORDINARY, token="t&amp;1")).token == "t&1"


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(page_decoder, "_MEMO", 10_000)
    page_decoder._decoder.cache_clear()
    for number in range(300):
        body = answer(item(prop("name", f'<val xsi:type="xsd:string">n{number % 90}</val>')))
        assert agreed(body).objects[0].values == {"name": f"n{number % 90}"}
    decoder = page_decoder._decoder(U2, page_decoder._framed(answer(), b"").scope)
    (known,) = decoder._known.values()
    kept = {**known.memo.lately, **known.memo.before}
    assert 10 < len(kept) < 80
    assert sum(map(len, kept)) < 2 * 10_000
    page_decoder._decoder.cache_clear()


def test_what_is_alike_is_read_once():
    device = '<VirtualDevice xsi:type="VirtualKeyboard"><key>600</key></VirtualDevice>'
    listed = f'<val xsi:type="ArrayOfVirtualDevice">{device}</val>'
    body = answer(
        *(
            item(prop("config.hardware.device", listed), obj=f'<obj type="VirtualMachine">vm-{n}</obj>')
            for n in range(3)
        )
    )
    found = agreed(body).objects
    assert found[0].values["config.hardware.device"] is found[2].values["config.hardware.device"]
