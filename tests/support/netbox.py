"""A small NetBox on 127.0.0.1: prefixes, addresses with a custom field, and available-ips under one lock."""

from __future__ import annotations

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from urllib.parse import parse_qs, urlsplit

TOKEN = "0123456789abcdef0123456789abcdef01234567"
FIELD = "vsphere_ai_key"


class NetBox:
    """`addresses` by number; `prefixes` by number; `late` delays the answer to a POST behind its effect."""

    def __init__(self, *prefixes):
        self.prefixes = dict(enumerate(map(ip_network, prefixes), 7))
        self.addresses, self.lock, self.late, self.requests = {}, threading.Lock(), threading.Event(), []
        self.late.set()

    def keys(self, status="active"):
        return {
            a["custom_fields"][FIELD]: a["address"] for a in self.addresses.values() if a["status"]["value"] == status
        }

    def get(self, path, query):
        if path == "/api/ipam/prefixes/":
            found = [{"id": n, "prefix": str(p)} for n, p in self.prefixes.items() if str(p) in query["prefix"]]
        else:
            found = [a for a in self.addresses.values() if a["custom_fields"][FIELD] in query[f"cf_{FIELD}"]]
        return 200, {"count": len(found), "results": found}

    def post(self, path, body):
        number = int(path.split("/")[4])
        taken = {a["address"].partition("/")[0] for a in self.addresses.values()}
        prefix = self.prefixes[number]
        free = [str(a) for a in prefix.hosts() if str(a) not in taken]
        if len(free) < len(body):
            return 409, {"detail": f"An insufficient number of IP addresses are available within {prefix}"}
        made = []
        for address, asked in zip(free, body, strict=False):
            each = {
                "id": len(self.addresses) + 1,
                "address": f"{address}/{prefix.prefixlen}",
                "status": {"value": asked["status"]},
                "custom_fields": asked["custom_fields"],
            }
            self.addresses[each["id"]] = each
            made.append(each)
        return 201, made

    def patch(self, body):
        for each in body:
            self.addresses[each["id"]]["status"] = {"value": each["status"]}
        return 200, [self.addresses[each["id"]] for each in body]


@contextlib.contextmanager
def served(*prefixes):
    """Serve a NetBox; its URL is `url`."""
    netbox = NetBox(*prefixes)

    class Handler(BaseHTTPRequestHandler):
        def _answer(self):
            split = urlsplit(self.path)
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)) or "null")
            netbox.requests.append((self.command, split.path))
            if self.headers["Authorization"] != f"Token {TOKEN}":
                status, answer = 403, {"detail": "Invalid token"}
            else:
                with netbox.lock:
                    if self.command == "GET":
                        status, answer = netbox.get(split.path, parse_qs(split.query))
                    else:
                        status, answer = netbox.post(split.path, body) if self.command == "POST" else netbox.patch(body)
            if self.command == "POST":
                netbox.late.wait(20)
            with contextlib.suppress(OSError):
                self.send_response(status)
                self.end_headers()
                self.wfile.write(json.dumps(answer).encode())

        do_GET = do_POST = do_PATCH = _answer  # noqa: N815

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    netbox.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield netbox
    finally:
        netbox.late.set()
        server.shutdown()
        server.server_close()
