"""Bare HTTPS to the lab: bytes out, status and text back."""

from __future__ import annotations

import gzip
import http.client
import re
import socket
import ssl

ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xsd="http://www.w3.org/2001/XMLSchema">'
    "<soapenv:Body>{}</soapenv:Body></soapenv:Envelope>"
)
FAULT = re.compile(r'<detail><(\w+)Fault[^>]* xsi:type="(?:\w+:)?(\w+)"')


def call(method, this, inner="", namespace="urn:vim25"):
    """The XML of a method call; `this` is e.g. ``Folder:group-d1``."""
    kind, _, moid = this.partition(":")
    return f'<{method} xmlns="{namespace}"><_this type="{kind}">{moid}</_this>{inner}</{method}>'


def envelope(inner):
    return ENVELOPE.format(inner).encode()


CLOCK = envelope(call("CurrentTime", "ServiceInstance:ServiceInstance"))


def fault_of(text):
    """The WSDL name of the typed fault in an answer."""
    found = FAULT.search(text)
    assert found, text[:500]
    assert found.group(1) == found.group(2)
    return found.group(1)


class Wire:
    """HTTPS connections to a lab that trust its certificate and nothing else."""

    def __init__(self, port, ca_file, timeout=10):
        self.port, self.ca_file, self.timeout = port, ca_file, timeout
        self.context = ssl.create_default_context(cafile=str(ca_file))
        self.cookie = ""

    def socket(self):
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=self.timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self.context.wrap_socket(raw, server_hostname="127.0.0.1")

    def raw(self, data):
        """Send bytes as they are; return (status, text) of the answer."""
        with self.socket() as sock:
            sock.sendall(data)
            reply = http.client.HTTPResponse(sock)
            reply.begin()
            return reply.status, reply.read().decode()

    def connection(self):
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self.context, timeout=self.timeout)

    def send(self, body, *, verb="POST", path="/sdk", headers=None, connection=None):
        """Send a request; return (status, text, headers)."""
        line = connection or self.connection()
        heads = {"Content-Type": "text/xml", "SOAPAction": "urn:vim25/7.0.2.0", **(headers or {})}
        if self.cookie:
            heads["Cookie"] = self.cookie
        line.request(verb, path, body=body, headers={k: v for k, v in heads.items() if v is not None})
        reply = line.getresponse()
        data = reply.read()
        if connection is None:
            line.close()
        if reply.headers.get("Content-Encoding") == "gzip":
            data = gzip.decompress(data)
        return reply.status, data.decode(), reply.headers

    def ask(self, method, this, inner="", **options):
        return self.send(envelope(call(method, this, inner)), **options)

    def login(self, password):
        inner = f"<userName>administrator@vsphere.local</userName><password>{password}</password>"
        status, text, headers = self.ask("Login", "SessionManager:SessionManager", inner)
        assert status == 200, text
        self.cookie = headers["Set-Cookie"].partition(";")[0]

    def goes_on(self):
        """Whether the server still answers."""
        return self.send(CLOCK)[0] == 200
