"""When two requests are the same, and what is taken out of them."""

from __future__ import annotations

from xml.sax.saxutils import escape

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import leaks
from recorded.scrub import CannotScrub, Scrubber
from recorded.soapvcr import call_of, same_call
from vcr.request import Request

ENVELOPE = (
    '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">{header}<soapenv:Body>{body}</soapenv:Body>'
    "</soapenv:Envelope>"
)
RECONFIGURE = (
    '<ReconfigVM_Task xmlns="urn:vim25"><_this type="VirtualMachine">vm-26</_this><spec><deviceChange>'
    '<operation>add</operation><device xsi:type="VirtualPCIPassthrough"><key>-1001</key>'
    "<backing><vgpu>grid_a100-3-20c</vgpu></backing></device></deviceChange></spec></ReconfigVM_Task>"
)
LOGIN = (
    '<Login xmlns="urn:vim25"><_this versionId="7.0.2.0" type="SessionManager">SessionManager</_this>'
    '<userName versionId="7.0.2.0">{user}</userName><password versionId="7.0.2.0">{password}</password></Login>'
)


def request(body, header="", uri="https://a:1/sdk", **headers):
    return Request("POST", uri, ENVELOPE.format(header=header, body=body), headers)


@pytest.mark.parametrize(
    ("change", "header"),
    [
        (("", ""), '<soapenv:Header><operationID xmlns="urn:vim25">run-2</operationID></soapenv:Header>'),
        (('type="VirtualMachine"', 'versionId="7.0.2.0" type="VirtualMachine"'), ""),
        (('<ReconfigVM_Task xmlns="urn:vim25">', '<v:ReconfigVM_Task xmlns="urn:vim25" xmlns:v="urn:vim25">'), ""),
        (("<spec>", "\n  <spec>\n "), ""),
    ],
)
def test_the_same_call_written_differently(change, header):
    other = RECONFIGURE.replace(*change) if change[0] else RECONFIGURE
    if "<v:" in other:
        other = other.replace("</ReconfigVM_Task>", "</v:ReconfigVM_Task>")
    same_call(request(RECONFIGURE), request(other, header))


@pytest.mark.parametrize(
    "change",
    [
        ("grid_a100-3-20c", "grid_a100-4-20c"),
        ("vm-26", "vm-27"),
        ("ReconfigVM_Task", "UpgradeVM_Task"),
        ("<operation>add</operation>", "<operation>remove</operation>"),
        ('"VirtualPCIPassthrough"', '"VirtualVmxnet3Vrdma"'),
        ("<spec>", "<spec><changeVersion>1</changeVersion>"),
    ],
)
def test_another_call(change):
    assert change[0] in RECONFIGURE
    with pytest.raises(AssertionError, match="another call"):
        same_call(request(RECONFIGURE), request(RECONFIGURE.replace(*change)))


def test_a_question_for_versions_is_no_call():
    assert call_of(None) is None
    same_call(Request("GET", "https://a/sdk/vimServiceVersions.xml", None, {}), Request("GET", "https://b/x", None, {}))
    with pytest.raises(AssertionError):
        same_call(Request("GET", "https://a/sdk", None, {}), request(RECONFIGURE))


# -- what is taken out

THUMBPRINT = ":".join(["A1", "B2"] * 16)
PEM = "-----BEGIN CERTIFICATE-----\nMIIBpzCCAU2gAwIBAgIUC0ffee\n-----END CERTIFICATE-----"
PLANTED = {
    "S3cret&Pass": LOGIN.format(user="u", password=escape("S3cret&Pass")),
    "svc-gpu@corp.example": LOGIN.format(user="svc-gpu@corp.example", password="p"),
    "new-pass": "<newPassword>new-pass</newPassword>",
    "52d5f3c6-key": "<key>52d5f3c6-key</key><userName>u</userName><fullName>f</fullName>",
    "Full Name": "<key>k</key><userName>u</userName><fullName>Full Name</fullName>",
    "agent 7": "<userAgent>agent 7</userAgent>",
    "5dd96922-3894": '<view type="ContainerView">session[5dd96922-3894]-32</view>',
    "operation-17": "<soapenv:Header><operationID>operation-17</operationID></soapenv:Header>",
    "saml-text": '<saml2:Assertion ID="x">saml-text</saml2:Assertion>',
    THUMBPRINT: f"<message>the thumbprint is {THUMBPRINT}.</message>",
    "thumb-by-name": "<sslThumbprint>thumb-by-name</sslThumbprint>",
    "MIIBpzCCAU2gAwIBAgIUC0ffee": f"<value>{PEM}</value>",
    "45454545": "<certificate>45454545</certificate>",
    "QUJDREVG": '<name>config.certificate</name><val xsi:type="ArrayOfByte"><byte>QUJDREVG</byte></val>',
    "AB1C2-DE3F4-GH5I6-JK7L8-MN9O0": "<x>AB1C2-DE3F4-GH5I6-JK7L8-MN9O0</x>",
    "EVAL-MODE": "<licenseKey>EVAL-MODE</licenseKey>",
    "SN-0815": '<name>hardware.systemInfo.serialNumber</name><val xsi:type="xsd:string">SN-0815</val>',
    "TAG-4711": "<identifierValue>TAG-4711</identifierValue>",
    "50112233-aaaa": "<instanceUuid>50112233-aaaa</instanceUuid>",
    "50112233-bbbb": '<name>config.instanceUuid</name><val xsi:type="xsd:string">50112233-bbbb</val>',
    "10.20.30.40": "<message>no answer from 10.20.30.40 in time</message>",
    "cloud-config": '<key>guestinfo.userdata</key><value xsi:type="xsd:string">cloud-config</value>',
    "ldap-pass": '<key>ldap.bindPassword</key><value xsi:type="xsd:string">ldap-pass</value>',
}


@pytest.mark.parametrize("secret", PLANTED, ids=range(len(PLANTED)))
def test_a_planted_secret_is_gone(secret):
    text = PLANTED[secret]
    assert secret in text or escape(secret) in text
    clean = Scrubber().text(text)
    assert secret not in clean
    assert escape(secret) not in clean
    assert call_of(ENVELOPE.format(header="", body=f"<m>{clean}</m>".replace("soapenv:", ""))) is not None


@pytest.mark.parametrize(
    "text",
    [
        '<_this type="VirtualMachine">vm-26</_this>',
        "<userName>USER</userName>",
        "<apiVersion>7.0.2.0</apiVersion><version>470.63-1OEM.702.0.0.17630552</version>",
        "<macAddress>00:50:56:80:00:1a</macAddress>",
        "<password/><userName>USER</userName>",
        '<key>pciPassthru.use64bitMMIO</key><value xsi:type="xsd:string">TRUE</value>',
        "<returnval><token>2</token></returnval>",
        "<key>13000</key><deviceInfo><label>PCI device 0</label></deviceInfo>",
    ],
)
def test_what_is_no_secret_stays(text):
    assert Scrubber().text(text) == text


def test_known_texts_go_wherever_they_are():
    scrubber = Scrubber({"vc.corp.example": "vcenter.example", "p<w": "REDACTED"})
    assert scrubber.text("<m>vc.corp.example said p&lt;w to p<w</m>") == (
        "<m>vcenter.example said REDACTED to REDACTED</m>"
    )
    with pytest.raises(CannotScrub):
        Scrubber({"vc": "vcenter"})


def test_headers_and_addresses():
    sent = request(
        LOGIN.format(user="u", password="p"), uri="https://vc.corp.example:8443/sdk", SOAPAction="urn:vim25/7.0.2.0",
        Cookie="vmware_soap_session=5c0ffee", Authorization="Basic eDp5",
    )  # fmt: skip
    clean = Scrubber().request(sent)
    assert clean.uri == "https://vcenter.example/sdk"
    assert set(clean.headers) == {"SOAPAction"}
    got = {
        "headers": {"Set-Cookie": ['vmware_soap_session="5c0ffee"; Path=/'], "Server": ["x"], "Content-Length": ["9"]},
        "body": {"string": b"<password>p</password>"},
    }
    answer = Scrubber().response(got)
    assert "5c0ffee" not in str(answer)
    assert answer["headers"]["Set-Cookie"][0].startswith("vmware_soap_session=")
    assert "Server" not in answer["headers"]
    assert answer["headers"]["Content-Length"] == [str(len(answer["body"]["string"]))]


PIECES = st.sampled_from(
    [
        *PLANTED.values(), *PLANTED, "<", ">", "</", "/>", "<password>", "</password>", "<val>", "</val>", "<name>",
        "<soapenv:Header>", "</soapenv:Header>", "<Header/>", "session[", "]", ' versionId="', '"', "<key>", "</key>",
        "<userName>", "</userName>", "REDACTED", "USER", "-----BEGIN X-----", "-----END X-----", "A1:", "10.", "1", "7",
        "192.0.2.9", "<Assertion>", "</Assertion>", "<certificate>", " ", "\n",
    ]
)  # fmt: skip


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(PIECES | st.text(max_size=4), max_size=12).map("".join))
def test_scrubbing_twice_is_scrubbing_once(text):
    scrubber = Scrubber({"S3cret&Pass": "REDACTED", "vc.corp.example": "vcenter.example"})
    once = scrubber.text(text)
    assert scrubber.text(once) == once
    assert scrubber.body(text.encode("utf-8", "surrogatepass")) == once.encode("utf-8", "surrogatepass")


TYPED = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=24)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(user=TYPED, password=TYPED)
def test_no_login_depends_on_who_logs_in(user, password):
    body = LOGIN.format(user=escape(user), password=escape(password))
    assert Scrubber().text(body) == Scrubber().text(LOGIN.format(user="other", password="other"))


# -- the gate for cassettes must be able to fail


def as_cassette(body, headers=None):
    said = {"headers": headers or {}, "uri": "https://vcenter.example/sdk", "body": body}
    return yaml.safe_dump({"interactions": [{"request": said}]}, width=80)


@pytest.mark.parametrize("secret", PLANTED, ids=range(len(PLANTED)))
def test_the_gate_finds_a_planted_secret(secret):
    padded = f"<x>{'some words that have YAML fold the line ' * 3}</x>{PLANTED[secret]}"
    assert list(leaks.find(as_cassette(padded), [secret]))
    assert list(leaks.find(as_cassette("<x>some words</x>"), [secret])) == []


BY_PATTERN = {
    "password": LOGIN.format(user="USER", password="p"),
    "user name": LOGIN.format(user="u", password="REDACTED"),
    "user name in a text": "<m>no such user: svc-gpu@corp.local</m>",
    "session key": "<key>52d5f3c6</key><userName>USER</userName>",
    "session of the Automation API": '"c0ffee00c0ffee00c0ffee00c0ffee00"',
    "session in a reference": "<x>session[5dd96922]-3</x>",
    "SOAP header": "<soapenv:Header><operationID>1</operationID></soapenv:Header>",
    "token": "<saml2:Assertion>1</saml2:Assertion>",
    "PEM": PEM,
    "DER in base64": "MII" + "Cd9" * 20,
    "thumbprint": THUMBPRINT,
    "thumbprint without colons": THUMBPRINT.replace(":", "").lower(),
    "licence key": "<licenseKey>lic</licenseKey>",
    "serial number": "<serialNumber>1</serialNumber>",
    "instance id": "<instanceUuid>50112233</instanceUuid>",
    "private address": "<m>no answer from 192.168.7.9</m>",
}


@pytest.mark.parametrize("kind", BY_PATTERN)
def test_the_gate_knows_secrets_nobody_told_it(kind):
    found = list(leaks.find(as_cassette(BY_PATTERN[kind])))
    assert {line.partition(":")[0] for line in found} == {kind}


def test_the_gate_looks_at_headers_addresses_and_bytes():
    kinds = {
        line.partition(":")[0] for line in leaks.find(as_cassette("", {"Cookie": ["vmware_soap_session=5c0ffee"]}))
    }
    assert kinds == {"cookie", "cookie header"}
    assert any("host and port" in line for line in leaks.find("request: {uri: 'https://vc.corp.example/sdk'}"))
    assert any("binary" in line for line in leaks.find(as_cassette(b"\x1f\x8b\x08")))
    assert {*leaks.PATTERNS} == {*BY_PATTERN, "cookie", "cookie header", "host and port", "compressed or binary body"}
