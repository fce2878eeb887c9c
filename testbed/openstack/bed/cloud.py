"""Asking OpenStack's APIs, with nothing but the standard library: any Python can run these commands."""

import json
import urllib.error
import urllib.request

from .layout import PASSWORD, UPSTREAM, Failure

# Not through a proxy of the machine's.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# With Nova's own version header: 2.37 and later want a network in each boot.
VERSIONS = {"compute": {"OpenStack-API-Version": "compute 2.79"}, "placement": {"OpenStack-API-Version": "placement 1.30"}}
PREFIXES = {"identity": "/v3", "compute": "/v2.1", "network": "/v2.0", "image": "/v2"}


class Cloud:
    """One site, as one of its users; straight at the services, whatever the catalog says."""

    def __init__(self, site, user="admin", project="admin", side=UPSTREAM):
        self.site, self.side = site, side
        domain = {"id": "default"}
        who = {"user": {"name": user, "password": PASSWORD, "domain": domain}}
        body = {
            "auth": {
                "identity": {"methods": ["password"], "password": who},
                "scope": {"project": {"name": project, "domain": domain}},
            }
        }
        self.token = None
        answer, headers = self.send("identity", "POST", "/auth/tokens", body)
        self.token = headers["X-Subject-Token"]
        self.project_id, self.user_id = answer["token"]["project"]["id"], answer["token"]["user"]["id"]

    def send(self, service, method, path, body=None, data=None, more=None):
        """An answer's JSON and its headers; `more` are headers of the request."""
        url = self.site.url(service, self.side) + PREFIXES.get(service, "") + path
        headers = VERSIONS.get(service, {}) | (more or {})
        if self.token:
            headers["X-Auth-Token"] = self.token
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        elif data is not None:
            headers["Content-Type"] = "application/octet-stream"
        request = urllib.request.Request(url, data=data, headers=headers, method=method)
        try:
            with OPENER.open(request, timeout=60) as answer:
                text = answer.read()
                return json.loads(text) if text else None, answer.headers
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")
            raise Failure(f"{self.site.name}: {method} {url} was answered {error.code}: {said[:500]}") from error
        except OSError as error:
            raise Failure(f"{self.site.name}: {method} {url}: {error}") from error

    def get(self, service, path, more=None):
        return self.send(service, "GET", path, more=more)[0]

    def post(self, service, path, body):
        return self.send(service, "POST", path, body)[0]

    def put(self, service, path, data=None):
        return self.send(service, "PUT", path, data=data)[0]

    def patch(self, service, path, body):
        return self.send(service, "PATCH", path, body)[0]

    def ensure(self, service, plural, name, body):
        """The resource of this name, made if it is not there."""
        for item in self.get(service, f"/{plural}?name={name}")[plural]:
            if item["name"] == name:
                return item
        single = plural[:-1]
        return self.post(service, f"/{plural}", {single: {"name": name, **body}})[single]
