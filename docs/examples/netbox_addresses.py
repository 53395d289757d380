#!/usr/bin/env python3
"""Gives addresses out of NetBox to pools with `backend: {exec: [...]}`: JSON on standard input and output.

NETBOX_URL and NETBOX_TOKEN say where NetBox is. It needs a custom field of type text for IP addresses, with filter
logic "exact", named vsphere_ai_key (NETBOX_KEY_FIELD names another). An address that is released is kept as
"deprecated" with its key, so that the same VM gets it again; delete such ones in NetBox to make them free for others.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

FIELD = os.environ.get("NETBOX_KEY_FIELD", "vsphere_ai_key")
AT_ONCE = 50
SECONDS = 20


class Refusal(Exception):
    """NetBox does not give what was asked for."""


def call(method: str, path: str, body: object = None) -> object:
    """Send a request to NetBox and return its answer."""
    request = urllib.request.Request(  # noqa: S310 - the operator's own NetBox
        os.environ["NETBOX_URL"].rstrip("/") + path,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Token {os.environ['NETBOX_TOKEN']}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.HTTPError as error:
        said = error.read(500).decode(errors="replace")
        raise Refusal(f"NetBox answered {error.code} to {method} {path}: {said}") from None


def known(keys: list[str]) -> dict[str, dict]:
    """Return the addresses that have these keys, by key."""
    found = {}
    for at in range(0, len(keys), AT_ONCE):
        query = urllib.parse.urlencode([("limit", "1000"), *((f"cf_{FIELD}", key) for key in keys[at : at + AT_ONCE])])
        for each in call("GET", f"/api/ipam/ip-addresses/?{query}")["results"]:
            key = each["custom_fields"].get(FIELD)
            if key in keys and key in found:
                raise Refusal(f"{each['address']} and {found[key]['address']} have the same key {key}")
            if key in keys:
                found[key] = each
    return found


def marked(addresses: list[dict], status: str) -> None:
    """Give addresses a status, all of them or none."""
    changed = [{"id": each["id"], "status": status} for each in addresses if each["status"]["value"] != status]
    if changed:
        call("PATCH", "/api/ipam/ip-addresses/", changed)


def lease(pool: dict, keys: list[str]) -> dict[str, str]:
    """Return an address for every key: the one that has it, or one that is free in the pool's prefix."""
    found = known(keys)
    missing = [key for key in keys if key not in found]
    if missing:
        query = urllib.parse.urlencode({"prefix": pool["subnet"]})
        prefixes = call("GET", f"/api/ipam/prefixes/?{query}")["results"]
        if len(prefixes) != 1:
            raise Refusal(f"NetBox has {len(prefixes)} prefixes {pool['subnet']}, and not one")
        wanted = [{"status": "active", "description": key, "custom_fields": {FIELD: key}} for key in missing]
        # one request for all: NetBox takes a lock, and answers 409 when they are not all free
        made = call("POST", f"/api/ipam/prefixes/{prefixes[0]['id']}/available-ips/", wanted)
        found |= {each["custom_fields"][FIELD]: each for each in made}
    marked([found[key] for key in keys if key not in missing], "active")
    return {key: found[key]["address"].partition("/")[0] for key in keys}


def main() -> int:
    """Answer one request."""
    request = json.load(sys.stdin)
    keys = request["keys"]
    try:
        if request["operation"] == "lease":
            answer = {"addresses": lease(request["pool"], keys)}
        else:
            marked(list(known(keys).values()), "deprecated")
            answer = {"released": keys}
    except Refusal as error:
        answer = {"error": str(error)}
    json.dump({"version": 1, **answer}, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
