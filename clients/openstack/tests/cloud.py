"""A cloud that answers as much as the client asks for a list of servers, and remembers what it was asked."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Cloud:
    """A server at a free port. `headers` go with the list of servers, `items` are in it."""

    def __init__(self, items=(), headers=None, sites=None):
        self.items, self.headers, self.sites = list(items), headers or {}, sites
        self.asked = []
        handler = type("Handler", (Handler,), {"cloud": self})
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def token(self):
        services = {"identity": "/v3", "compute": "/v2.1", "image": "/image", "network": "/network"}
        catalog = [
            {
                "type": kind,
                "name": kind,
                "id": kind,
                "endpoints": [
                    {"id": kind, "interface": "public", "region": "R", "region_id": "R", "url": self.url + path}
                ],
            }
            for kind, path in services.items()
        ]
        domain = {"id": "default", "name": "Default"}
        times = {"issued_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2999-01-01T00:00:00.000000Z"}
        who = {"user": {"id": "u", "name": "alice", "domain": domain}, "project": {"id": "p", "name": "demo", "domain": domain}}
        return {"token": {"methods": ["password"], "roles": [], "catalog": catalog, **times, **who}}

    def answer(self, method, path):
        """The status, the headers and the document of an answer."""
        version = {"status": "CURRENT", "links": [{"rel": "self", "href": self.url}]}
        if method == "POST" and path == "/v3/auth/tokens":
            return 201, {"X-Subject-Token": "t"}, self.token()
        if path == "/v3":
            return 200, {}, {"version": {"id": "v3.14", **version}}
        if path == "/image":
            links = [{"rel": "self", "href": f"{self.url}/image/v2/"}]
            return 200, {}, {"versions": [{"id": "v2.15", "status": "CURRENT", "links": links}]}
        if path == "/v2.1":
            return 200, {}, {"version": {"id": "v2.1", "version": "2.90", "min_version": "2.1", **version}}
        if path == "/v2.1/servers/detail":
            return 200, self.headers, {"servers": self.items}
        if path == "/_scope/sites" and self.sites is not None:
            return 200, {}, self.sites
        return 404, {}, {"error": {"message": f"no {path}", "code": 404}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.partition("?")[0].rstrip("/")
        self.cloud.asked.append((self.command, path, dict(self.headers.items())))
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, headers, document = self.cloud.answer(self.command, path)
        text = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": len(text), **headers}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *_):
        pass
