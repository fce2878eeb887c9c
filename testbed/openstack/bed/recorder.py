"""A plain proxy in Archipel's place that writes down every call: what real services send to each other, with nothing
between them that could change it.

The one thing it adds is what a mesh has to: a request id on what clients send, so that one can see how far it is
handed on. Tokens are replaced by who they belong to, and request ids by numbers in the order of their appearance.
"""

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from .cloud import Cloud
from .layout import HOST, INTERNAL, PUBLIC, SERVICES, Failure

TOKENS = ("x-auth-token", "x-service-token", "x-subject-token")
REQUEST_ID = "x-openstack-request-id"
KEPT = (*TOKENS, REQUEST_ID, "x-scope", "user-agent", "openstack-api-version", "x-openstack-nova-api-version")
KEPT_ANSWERS = ("x-subject-token", REQUEST_ID, "x-compute-request-id")
# How the ids begin that the recorder gave, and no service.
INJECTED = "req-a0c417e1"
# What concerns one connection only.
HOP = ("connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "proxy-authorization")


class Recorder:
    """Proxies at all addresses of one site's Archipel."""

    def __init__(self, site):
        self.site, self.lock = site, threading.Lock()
        self.calls, self.owners, self.ids, self.injected = [], {}, {}, 0
        self.servers = []

    def start(self):
        for side, name in ((PUBLIC, "public"), (INTERNAL, "internal")):
            for service in SERVICES:
                bound = {"recorder": self, "service": service, "listener": name}
                handler = type("Bound", (Handler,), bound)
                server = ThreadingHTTPServer((HOST, self.site.port(service, side)), handler)
                server.daemon_threads = True
                threading.Thread(target=server.serve_forever, daemon=True).start()
                self.servers.append(server)

    def stop(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def inject(self):
        """A request id of the form that services hand on."""
        with self.lock:
            self.injected += 1
            return f"{INJECTED}-0000-4000-8000-{self.injected:012x}"

    def begin(self, call):
        """Notes a call as it comes, so that what it causes stands after it."""
        with self.lock:
            self.calls.append(call)

    def lines(self):
        """What was recorded, as lines of JSON without secrets."""
        admin = Cloud(self.site)
        with self.lock:
            done = [call for call in self.calls if "status" in call]
            return "".join(json.dumps({"n": n, **self.public(call, admin)}) + "\n" for n, call in enumerate(done, 1))

    def public(self, call, admin):
        def safe(name, value):
            return self.owner(value, admin) if name in TOKENS else self.number(value)

        fields = {part: {name: safe(name, value) for name, value in call[part].items()} for part in ("headers", "answer")}
        return {**call, **fields}

    def owner(self, token, admin):
        """A token by whose it is: a user may have several."""
        if token not in self.owners:
            try:
                user = admin.get("identity", "/auth/tokens?allow_expired=1", {"X-Subject-Token": token})["token"]["user"]["name"]
            except Failure:
                user = "nobody"
            count = sum(1 for known in self.owners.values() if known.startswith(f"token-of-{user}-"))
            self.owners[token] = f"token-of-{user}-{count + 1}"
        return self.owners[token]

    def number(self, value):
        """A request id that a service made, by the order of its appearance; anything else as it is."""
        if not value.startswith("req-") or value.startswith(INJECTED):
            return value
        return self.ids.setdefault(value, f"req-00000000-0000-4000-8000-{len(self.ids) + 1:012x}")


class Handler(BaseHTTPRequestHandler):
    """One listener: forwards to the service behind it."""

    protocol_version = "HTTP/1.1"

    def forward(self):
        recorder, received = self.recorder, {name.lower(): value for name, value in self.headers.items()}
        body = self.body(received)
        sent = {name: value for name, value in received.items() if name not in HOP}
        # The body is known as a whole by now.
        if body or "content-length" in sent:
            sent["content-length"] = str(len(body))
        call = {"listener": self.listener, "service": self.service, "method": self.command, "path": self.path}
        call["headers"] = {name: received[name] for name in KEPT if name in received}
        if self.listener == "public" and REQUEST_ID not in sent:
            sent[REQUEST_ID] = call["injected"] = recorder.inject()
        recorder.begin(call)
        status, headers, content = self.ask(sent, body)
        known = {name.lower(): value for name, value in headers}
        call["answer"] = {name: known[name] for name in KEPT_ANSWERS if name in known}
        call["status"] = status
        self.reply(status, headers, content)

    def body(self, headers):
        if "chunked" not in headers.get("transfer-encoding", ""):
            return self.rfile.read(int(headers.get("content-length", 0)))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def ask(self, headers, body):
        upstream = http.client.HTTPConnection(HOST, self.recorder.site.port(self.service), timeout=120)
        try:
            upstream.request(self.command, self.path, body=body or None, headers=headers)
            answer = upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            upstream.close()

    def reply(self, status, headers, content):
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in (*HOP, "content-length"):
                self.send_header(name, value)
        if status not in (204, 304):
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = forward

    def log_message(self, *_):
        pass
