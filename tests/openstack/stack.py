"""Three real OpenStacks with an Archipel in front of each, as their users see them."""

import contextlib
import hashlib
import http.client
import json
import subprocess
import sys
import time
import urllib.parse
import warnings
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TESTBED = ROOT / "testbed" / "openstack"
sys.path.insert(0, str(TESTBED))

from bed import config, layout, mesh, process, services, wan  # noqa: E402
from bed.process import PYTHON, environment  # noqa: E402

PATIENCE_SECONDS = 180
VERSIONS = {"compute": {"OpenStack-API-Version": "compute 2.79"}, "placement": {"OpenStack-API-Version": "placement 1.30"}}
PREFIXES = {"identity": "/v3", "compute": "/v2.1", "network": "/v2.0", "image": "/v2", "placement": ""}

Site1, Site2, Site3 = "Site1", "Site2", "Site3"


class Answer:
    """What a service, or a mesh, said."""

    def __init__(self, method, url, status, headers, content):
        self.what = f"{method} {url}"
        self.status, self.headers, self.content = status, headers, content

    @property
    def json(self):
        return json.loads(self.content)

    @property
    def sites(self):
        """What `Scope-Sites` says, as a text."""
        return self.headers.get("Scope-Sites")

    def __repr__(self):
        return f"{self.what}: {self.status} {dict(self.headers)} {self.content[:600]!r}"


class Client:
    """One user at one site. `side` is the mesh, as clients reach it, or the services themselves."""

    def __init__(self, stack, site, user, project, side):
        self.stack, self.site, self.side = stack, stack.bed.site(site), side
        self.token, self.project_id, self.user_id = None, None, None
        self.log_in(user, project)

    def log_in(self, user, project):
        domain = {"id": "default"}
        who = {"user": {"name": user, "password": layout.PASSWORD, "domain": domain}}
        scope = {"project": {"name": project, "domain": domain}}
        body = {"auth": {"identity": {"methods": ["password"], "password": who}, "scope": scope}}
        answer = self.ask("POST", "identity", "/auth/tokens", body)
        assert answer.status == 201, answer
        self.token = answer.headers["X-Subject-Token"]
        self.project_id, self.user_id = answer.json["token"]["project"]["id"], answer.json["token"]["user"]["id"]

    def ask(self, method, service, path, body=None, scope=None, headers=(), data=None, prefix=None):
        """One request. `data` may be bytes or an open file."""
        prefix = PREFIXES[service] if prefix is None else prefix
        address = self.site.address(service, self.side)
        given = {**VERSIONS.get(service, {}), **dict(headers)}
        if self.token:
            given.setdefault("X-Auth-Token", self.token)
        if scope:
            given["X-Scope"] = scope
        if body is not None:
            data = json.dumps(body).encode()
            given.setdefault("Content-Type", "application/json")
        elif data is not None:
            given.setdefault("Content-Type", "application/octet-stream")
        connection = http.client.HTTPConnection(address, timeout=PATIENCE_SECONDS)
        try:
            connection.request(method, prefix + path, body=data, headers=given)
            response = connection.getresponse()
            return Answer(method, prefix + path, response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, service, path, scope=None, **more):
        return self.ask("GET", service, path, scope=scope, **more)

    def found(self, service, path, scope=None, **more):
        """The JSON of a GET that has to succeed."""
        answer = self.get(service, path, scope, **more)
        assert answer.status == 200, answer
        return answer.json

    def image(self, name, content, scope=None, **fields):
        """A new image with this content; its id."""
        body = {"name": name, "disk_format": "raw", "container_format": "bare", **fields}
        answer = self.ask("POST", "image", "/images", body, scope)
        assert answer.status == 201, answer
        image = answer.json["id"]
        uploaded = self.ask("PUT", "image", f"/images/{image}/file", scope=scope, data=content)
        assert uploaded.status == 204, uploaded
        return image

    def boot(self, name, image, scope=None, headers=()):
        """Asks for a new server, and says what was answered."""
        flavor = self.stack.first(self.site.name, "flavors")
        network = self.stack.first(self.site.name, "networks")
        server = {"name": name, "imageRef": image, "flavorRef": flavor, "networks": [{"uuid": network}]}
        return self.ask("POST", "compute", "/servers", {"server": server}, scope, headers)

    def booted(self, name, image, scope=None):
        """A new server that runs; its id."""
        answer = self.boot(name, image, scope)
        assert answer.status == 202, answer
        server = answer.json["server"]["id"]
        self.wait_for(server, scope)
        return server

    def wait_for(self, server, scope=None, status="ACTIVE"):
        def reached():
            answer = self.get("compute", f"/servers/{server}", scope)
            assert answer.status == 200, answer
            said = answer.json["server"]
            assert said["status"] == status or said["status"] != "ERROR", said.get("fault", said)
            return said["status"] == status

        self.stack.until(f"server {server} is {status}", reached)


class Stack:
    """All sites."""

    def __init__(self, directory):
        self.bed = layout.known(directory)
        self.said = layout.recorded(directory)
        self.clients = {}

    def client(self, site, user="alice", project="demo", side=layout.PUBLIC):
        """A user who has logged in; the same one for the same words."""
        key = (site, user, project, side)
        if key not in self.clients:
            self.clients[key] = Client(self, *key)
        return self.clients[key]

    def admin(self, site, side=layout.PUBLIC):
        return self.client(site, "admin", "admin", side)

    def first(self, site, what):
        """The id of the first flavor, network or image that the testbed made at a site."""
        entry = next(iter(self.said["sites"][site][what].values()))
        return entry["id"] if isinstance(entry, dict) else entry

    def image(self, site):
        """The id and the digest of the image that only this site has."""
        entry = next(iter(self.said["sites"][site]["images"].values()))
        return entry["id"], entry["sha256"]

    def disk(self, site, server):
        """The digest of a server's disk, as its compute service fetched it."""
        return digest((Path(self.said["sites"][site]["disks"]) / f"{server}.disk").read_bytes())

    def cut(self, *sites):
        wan.ask(self.bed, " ".join(["cut", *sites]))

    def heal(self):
        wan.ask(self.bed, "heal")
        sites, binary = self.bed.sites, self.said["archipel"]
        for site in sites:
            self.until(f"{site.name} reaches all", lambda site=site: mesh.linked(site, sites, binary))

    def archipel(self, site, *arguments):
        """Runs a command of Archipel's at a site; its output."""
        config = mesh.config(self.bed.site(site))
        command = [self.said["archipel"], *arguments, "--config", str(config)]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def openstack(self, cloud, *arguments):
        """Runs the stock client with the plugin; what it printed."""
        done = self.ran(cloud, *arguments)
        assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout}{done.stderr}"
        return done.stdout

    def ran(self, cloud, *arguments):
        """The same, however it ended."""
        given = {"OS_CLIENT_CONFIG_FILE": self.said["clouds"], "OS_CLOUD": cloud, "PYTHONPATH": str(self.plugin())}
        command = ["openstack", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=environment(self.bed, given))

    def tokens_live(self, seconds, *sites):
        """Has the tokens that these sites issue from now on live so long; as ever, without a number."""
        sites = [self.bed.site(site) for site in sites]
        for site in sites:
            sections = config.keystone(site)
            if seconds:
                sections["token"]["expiration"] = seconds
            layout.write(site.directory / "keystone.conf", config.render(sections), 0o600)
        process.stop([services.process(site, "keystone") for site in sites])
        with outliving():
            for site in sites:
                services.start(site, ["identity"])
        for site in sites:
            services.wait(site, ["identity"])

    def away(self, site):
        """Ends a site's Archipel."""
        process.stop([mesh.process(self.bed.site(site))])

    def back(self, site):
        with outliving():
            mesh.start(self.bed, self.said["archipel"], [self.bed.site(site)])

    def files_with(self, tokens):
        """The files of Archipel's that hold one of these tokens, and how many bytes were read."""
        tokens, found, read = [token.encode() for token in tokens], [], 0
        for site in self.bed.sites:
            for file in mesh.directory(site).rglob("*"):
                if file.is_file() and file.name != "password":
                    content = file.read_bytes()
                    read += len(content)
                    found += [file for token in tokens if token in content]
        return found, read

    def plugin(self):
        """A directory with the plugin, installed as a user would, but beside the system's packages."""
        directory = self.bed.directory / "client"
        if not directory.exists():
            command = [PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
            subprocess.run([*command, "--target", str(directory), str(ROOT / "clients" / "openstack")], check=True)
        return directory

    def until(self, what, condition, seconds=PATIENCE_SECONDS):
        """Waits for a condition, and fails with its name."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
            time.sleep(0.25)


@contextlib.contextmanager
def outliving():
    """What is started here runs on, and that is nothing to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield


def digest(content):
    return hashlib.sha256(content).hexdigest()


def query(**fields):
    return "?" + urllib.parse.urlencode(fields)
