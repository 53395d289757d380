"""A forge on loopback: comments of GitHub's pull request 7, and notes of GitLab's merge request 7, over HTTP."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

ROUTES = {
    "github": (r"/repos/ai/farm/issues/7/comments", r"/repos/ai/farm/issues/comments/(\d+)", "PATCH"),
    "gitlab": (r"/projects/3/merge_requests/7/notes", r"/projects/3/merge_requests/7/notes/(\d+)", "PUT"),
}
TOKENS = {"github": ("Authorization", "Bearer t0ken"), "gitlab": ("PRIVATE-TOKEN", "t0ken")}
LIMIT = 65_535


class Forge:
    """Serves one kind of forge; `comments` are (own, body) by their id, and `calls` the methods that changed one."""

    def __init__(self, kind):
        self.kind, self.comments, self.calls, self.elsewhere = kind, {}, [], ""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def add(self, body, *, own):
        number = 100 + len(self.comments)
        self.comments[number] = (own, body)
        return number

    def close(self):
        self._server.shutdown()
        self._server.server_close()

    def shown(self, number):
        own, body = self.comments[number]
        login = "github-actions[bot]" if own else "visitor"
        return {"id": number, "body": body, "user": {"login": login}, "author": {"id": 5 if own else 6}}

    def answer(self, method, path, query, body, headers):
        """Return status and document."""
        every, one, change = ROUTES[self.kind]
        name, value = TOKENS[self.kind]
        if headers.get(name) != value:
            return 401, {"message": "Bad credentials"}
        if method in ("POST", change) and len(body["body"]) > LIMIT:
            return 422, {"message": "body is too long"}
        if (method, path) == ("GET", "/user"):
            return 200, {"id": 5}
        if method == "GET" and path == every:
            size, page = int(query["per_page"][0]), int(query["page"][0])
            return 200, [self.shown(n) for n in list(self.comments)[size * (page - 1) : size * page]]
        if method == "POST" and path == every:
            self.calls.append(method)
            return 201, self.shown(self.add(body["body"], own=True))
        found = re.fullmatch(one, path)
        if method == change and found and int(found[1]) in self.comments:
            self.calls.append(method)
            self.comments[int(found[1])] = (True, body["body"])
            return 200, self.shown(int(found[1]))
        return 404, {"message": "Not Found"}

    def _handler(self):
        forge = self

        class Handler(BaseHTTPRequestHandler):
            def _any(self):
                parts = urlsplit(self.path)
                length = int(self.headers.get("Content-Length") or 0)
                body = json.loads(self.rfile.read(length)) if length else {}
                if forge.elsewhere:
                    self.send_response(302)
                    self.send_header("Location", forge.elsewhere)
                    self.end_headers()
                    return
                status, document = forge.answer(self.command, parts.path, parse_qs(parts.query), body, self.headers)
                text = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PATCH = do_PUT = _any  # noqa: N815

            def log_message(self, *_):
                pass

        return Handler
