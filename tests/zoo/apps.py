"""The applications: how each is started, and how it answers the questions of the table."""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

from world import SITES, ask, until

PROGRAMS = Path(sys.prefix) / "bin"
# Where npm put what is in package.json.
NODE = Path(os.environ.get("ZOO_NODE", "")).resolve() / "node_modules"
# What the table asks, and how it is asked.
COLUMNS = {
    "local untouched": "local",
    "share": "share",
    "fallback": "fallback",
    "merged list": "merged",
    "replicas through a cut and a kill": "replicas",
    "ids of services hidden": "ids",
}
NOTHING = "–"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
# More than what is kept with a write.
LAYER_BYTES = 300_000


def equal(found, expected, what):
    if found != expected:
        raise AssertionError(f"{what}: expected {expected!r}, found {found!r}")


def refused(answer):
    """How a refusal reads in the table."""
    kind = json.loads(answer.body)["type"].rpartition("/")[2].rpartition(":")[2]
    return f"refused: {answer.status} `{kind}`"


class Application:
    """What all have in common. An item is a name and a text; how it is kept is the application's."""

    title = service = profile = None
    # More addresses of the same application, for clients that cannot say a scope: it is the address's, by its name.
    doors = {}
    # What Archipel sends where it executes what another site accepted, if the application asks who somebody is.
    login = None
    # A path that answers once the application runs, read alone.
    alive = "/"

    def cannot_run(self):
        """Why this application cannot run on this machine, if it cannot."""
        return None

    def set_up(self, site):
        """Puts into the application what its own people would, each time it starts."""

    def answer(self, column, world):
        return getattr(self, COLUMNS[column])(world)

    def scoped(self, location):
        return {"X_Scope": f"{self.service}: {location}"}

    # Each of these goes through `url`: to Archipel or to the application itself.
    def make(self, url, name, text, scope=None):
        """Makes an item, and returns the id that clients know it by."""
        raise NotImplementedError

    def change(self, url, item, text, scope=None):
        raise NotImplementedError

    def remove(self, url, item, scope=None):
        raise NotImplementedError

    def read(self, url, item, scope=None):
        """The item's text, or none where there is no such item."""
        raise NotImplementedError

    def all(self, url, scope=None):
        """All items: names and texts, in order."""
        raise NotImplementedError

    def local(self, world):
        site = world.sites[0]
        item = self.make(site.url, "local", "here")
        for url in (site.url, site.direct):
            equal(self.read(url, item), "here", f"the item at {url}")
        for path in self.looked_at(item):
            direct, through = ask(site.direct + path, **self.headers()), ask(site.url + path, **self.headers())
            equal(through.status, direct.status, f"the status of {path}")
            equal(self.comparable(through), self.comparable(direct), f"the body of {path}")
        for other in world.sites[1:]:
            equal(self.read(other.direct, item), None, f"the item at {other.name}")
        self.remove(site.url, item)
        equal(self.read(site.direct, item), None, "what was removed")
        return "yes"

    def headers(self):
        return {}

    def looked_at(self, item):
        """Paths whose answers are compared, directly and through Archipel."""
        return [self.alive]

    def comparable(self, answer):
        """The body, as far as it does not name the address that was asked."""
        return answer.body

    def share(self, world):
        one, two = world.sites[0], world.sites[1]
        item = self.make(two.direct, "shared", "of two")
        equal(self.read(one.url, item), None, "the item without a scope")
        equal(self.read(one.url, item, "Site2"), "of two", "the item with a scope")
        self.remove(one.url, item, "Site2")
        equal(self.read(two.direct, item), None, "what was removed from another site")
        return "yes"

    def fallback(self, world):
        one, two, three = world.sites
        item = self.make(two.direct, "spare", "of two")
        three.stop_application()
        equal(self.read(one.url, item, "Site3 ; Site2"), "of two", "with the first site's application down")
        three.start_application()
        equal(self.read(one.url, item, "Site3 ; Site2"), "of two", "with nothing at the first site")
        self.remove(two.direct, item)
        return "yes"

    def merged(self, world):
        items = {site: self.make(site.direct, f"of-{site.name.lower()}", site.name) for site in world.sites}
        everything = sorted((f"of-{name.lower()}", name) for name in SITES)
        for site in world.sites:
            equal(self.all(site.url, "*"), everything, f"the list of all sites at {site.name}")
        for site, item in items.items():
            self.remove(site.direct, item)
        return "yes"

    def replicas(self, world):
        one, two, three = world.sites
        first = self.make(one.url, "first", "1", "Site1 & Site2 & Site3")
        self.until_equal(world, [("first", "1")])
        for site in world.sites:
            equal(self.read(site.url, first), "1", f"the item at {site.name}")
        world.cut_off("Site3")
        self.change(one.url, first, "2")
        second = self.make(two.url, "second", "apart", "Site1 & Site2 & Site3")
        equal(self.read(three.url, first), "1", "what was changed elsewhere, at the site that is cut off")
        world.heal()
        self.until_equal(world, [("first", "2"), ("second", "apart")])
        three.mesh.kill()
        self.change(two.url, second, "again")
        self.remove(one.url, first)
        three.start_mesh()
        self.until_equal(world, [("second", "again")])
        equal(self.read(three.url, first), None, "what was removed while its site was killed")
        self.remove(three.url, second)
        self.until_equal(world, [])
        self.copied(world)
        return "yes"

    def copied(self, world):
        """A site that had none is given the state of another, and so is one where somebody changed the item by hand."""
        one, two, three = world.sites
        item = self.make(one.url, "copied", "once", "Site1 & Site2")
        self.until_equal(world, [("copied", "once")], [one, two])
        equal(self.all(three.direct), [], "what is at the third site before it has a replica")
        shown = json.loads(one.command("replicas", "list", "--json"))["replicas"]
        (name,) = [replica["resource"] for replica in shown if not replica["deleted"]]
        one.command("replicas", "extend", name, "--to", "Site3", "--wait")
        self.until_equal(world, [("copied", "once")])
        self.change(three.direct, self.own(three, "copied", item), "by hand")
        three.command("replicas", "repair", name, "--from", "Site1")
        self.until_equal(world, [("copied", "once")])
        self.remove(two.url, item)
        self.until_equal(world, [])

    def own(self, site, name, item):
        """What a site's application calls the item that clients call so."""
        return item

    def until_equal(self, world, items, sites=None):
        """The application of each site, or of these, has these items, and nothing waits any more."""
        for site in sites or world.sites:
            until(f"{site.name} has {items}", lambda site=site: self.all(site.direct) == items)
        for site in world.sites:
            until(f"nothing waits at {site.name}", lambda site=site: not self.waiting(site))

    def waiting(self, site):
        shown = json.loads(site.command("operations", "list", "--json"))
        return shown["pending"] or shown["in_doubt"] or shown["withheld"]

    def ids(self, world):
        """Where clients choose ids, there is nothing to hide."""
        return NOTHING


class Kinto(Application):
    """JSON records, by kinto-http."""

    title, service, profile = "Kinto", "kinto", "kinto"
    login = "Basic YXJjaGlwZWw6c2VjcmV0"
    alive = "/v1/"
    user = ("user", "password")
    records = "/v1/buckets/shop/collections/carts/records"

    def command(self, directory, port):
        settings = f"""[app:main]
use = egg:kinto
kinto.storage_backend = kinto.core.storage.memory
kinto.permission_backend = kinto.core.permission.memory
kinto.cache_backend = kinto.core.cache.memory
kinto.userid_hmac_secret = test
kinto.bucket_create_principals = system.Everyone
multiauth.policies = basicauth
multiauth.policy.basicauth.use = kinto.core.authentication.BasicAuthAuthenticationPolicy
[server:main]
use = egg:waitress#main
host = 127.0.0.1
port = {port}
"""
        (directory / "kinto.ini").write_text(settings)
        return [PROGRAMS / "pserve", directory / "kinto.ini"], {}

    def set_up(self, site):
        client = self.client(site.direct)
        everybody = {"write": ["system.Authenticated"]}
        client.create_bucket(id="shop", permissions=everybody, if_not_exists=True)
        client.create_collection(id="carts", bucket="shop", permissions=everybody, if_not_exists=True)

    def client(self, url, scope=None):
        import kinto_http

        headers = {"X-Scope": f"{self.service}: {scope}"} if scope else {}
        return kinto_http.Client(
            server_url=f"{url}/v1", auth=self.user, bucket="shop", collection="carts", headers=headers
        )

    def make(self, url, name, text, scope=None):
        return self.client(url, scope).create_record(data={"name": name, "text": text})["data"]["id"]

    def change(self, url, item, text, scope=None):
        self.client(url, scope).patch_record(id=item, data={"text": text})

    def remove(self, url, item, scope=None):
        self.client(url, scope).delete_record(id=item)

    def read(self, url, item, scope=None):
        import kinto_http

        try:
            return self.client(url, scope).get_record(id=item)["data"]["text"]
        except kinto_http.KintoException as error:
            if error.response.status_code == 404:
                return None
            raise

    def all(self, url, scope=None):
        return sorted((record["name"], record["text"]) for record in self.client(url, scope).get_records())

    def headers(self):
        return {"Authorization": "Basic dXNlcjpwYXNzd29yZA=="}

    def looked_at(self, item):
        return [f"{self.records}/{item}", self.records, f"{self.records}/nothing", "/v1/nothing"]

    def ids(self, world):
        one, two, _ = world.sites
        item = self.make(one.url, "named", "once", "Site1 & Site2")
        until("the second site has it", lambda: self.all(two.direct) == [("named", "once")])
        own = {site.name: [record["id"] for record in self.client(site.direct).get_records()] for site in (one, two)}
        equal(own, {"Site1": [item], "Site2": [item]}, "the ids, which clients may choose, at the services")
        self.remove(one.url, item)
        until("both are empty", lambda: not self.all(one.direct) and not self.all(two.direct))
        return NOTHING


class Radicale(Application):
    """Calendars, by the CalDAV client `caldav`."""

    title, service, profile = "Radicale", "calendar", "radicale"
    login = "Basic em9vOnpvbw=="
    alive = "/.web/"
    collection = "/zoo/events/"

    def command(self, directory, port):
        (directory / "users").mkdir(exist_ok=True)
        return [
            *(PROGRAMS / "python", "-m", "radicale", "--config", "", "--server-hosts", f"127.0.0.1:{port}"),
            *("--storage-filesystem-folder", directory / "users", "--auth-type", "none"),
        ], {}

    def set_up(self, site):
        if ask(f"{site.direct}{self.collection}", "PROPFIND", Depth="0", **self.headers()).status == 404:
            self.client(site.direct).principal().make_calendar(cal_id="events")

    def client(self, url, scope=None):
        import caldav

        headers = {"X-Scope": f"{self.service}: {scope}"} if scope else {}
        return caldav.DAVClient(url=url, username="zoo", password="zoo", headers=headers)

    def calendar(self, url, scope=None):
        return self.client(url, scope).calendar(url=url + self.collection)

    def event(self, name, text):
        return (
            "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//zoo//EN\r\nBEGIN:VEVENT\r\n"
            f"UID:{name}\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20260101T100000Z\r\nSUMMARY:{text}\r\n"
            "END:VEVENT\r\nEND:VCALENDAR\r\n"
        )

    def path(self, item):
        return f"{self.collection}{item}.ics"

    def make(self, url, name, text, scope=None):
        answer = ask(url + self.path(name), "PUT", self.event(name, text), **self.write_headers(scope))
        equal(answer.status, 201, f"making {name}: {answer}")
        return name

    def write_headers(self, scope):
        return {"Content_Type": "text/calendar", **self.headers(), **(self.scoped(scope) if scope else {})}

    def change(self, url, item, text, scope=None):
        answer = ask(url + self.path(item), "PUT", self.event(item, text), **self.write_headers(scope))
        equal(answer.status in (200, 201, 204), True, f"changing {item}: {answer}")

    def remove(self, url, item, scope=None):
        answer = ask(url + self.path(item), "DELETE", **self.write_headers(scope))
        equal(answer.status, 200, f"removing {item}: {answer}")

    def read(self, url, item, scope=None):
        answer = ask(url + self.path(item), **self.headers(), **(self.scoped(scope) if scope else {}))
        if answer.status == 404:
            return None
        equal(answer.status, 200, f"reading {item}: {answer}")
        (line,) = [line for line in answer.body.decode().splitlines() if line.startswith("SUMMARY:")]
        return line.removeprefix("SUMMARY:")

    def all(self, url, scope=None):
        events = self.calendar(url, scope).events()
        found = [event.icalendar_component for event in events]
        return sorted((str(event["uid"]), str(event["summary"])) for event in found)

    def headers(self):
        return {"Authorization": "Basic em9vOnpvbw=="}

    def looked_at(self, item):
        return [self.path(item), f"{self.collection}nothing.ics"]

    def merged(self, world):
        """A REPORT is XML, and no profile says how to merge that."""
        url = world.sites[0].url + self.collection
        question = '<propfind xmlns="DAV:"><prop><getetag/></prop></propfind>'
        answer = ask(url, "PROPFIND", question, Depth="1", **self.headers(), **self.scoped("*"))
        equal(answer.status, 422, f"a PROPFIND at all sites: {answer}")
        return refused(answer)


class JsonItems(Application):
    """Items are JSON documents of one collection, by any HTTP client."""

    # Where the items are.
    collection = None

    def document(self, body):
        """What of an answer has one item, or all."""
        return json.loads(body)

    def asked(self, method, url, scope, document=None):
        body = None if document is None else json.dumps(document)
        scoped = self.scoped(scope) if scope else {}
        return ask(url, method, body, Content_Type="application/json", **self.headers(), **scoped)

    def made(self, answer):
        """Whether something was made."""
        return answer.status == 201

    def absent(self, answer):
        """Whether there is no such item."""
        return answer.status == 404

    def make(self, url, name, text, scope=None):
        answer = self.asked("POST", url + self.collection, scope, {"name": name, "text": text})
        equal(self.made(answer), True, f"making {name}: {answer}")
        return self.document(answer.body)["id"]

    def change(self, url, item, text, scope=None):
        answer = self.asked("PATCH", f"{url}{self.collection}/{item}", scope, {"text": text})
        equal(answer.status, 200, f"changing {item}: {answer}")

    def remove(self, url, item, scope=None):
        answer = self.asked("DELETE", f"{url}{self.collection}/{item}", scope)
        equal(answer.status in (200, 204), True, f"removing {item}: {answer}")

    def read(self, url, item, scope=None):
        answer = self.asked("GET", f"{url}{self.collection}/{item}", scope)
        # Archipel says 404 of what it knows to be gone, whatever the application says.
        if answer.status == 404 or self.absent(answer):
            return None
        equal(answer.status, 200, f"reading {item}: {answer}")
        return self.document(answer.body)["text"]

    def all(self, url, scope=None):
        items = self.document(self.asked("GET", url + self.collection, scope).body)
        return sorted((item["name"], item["text"]) for item in items)

    def own(self, site, name, item):
        items = self.document(self.asked("GET", site.direct + self.collection, None).body)
        (own,) = [item["id"] for item in items if item["name"] == name]
        return own

    def ids(self, world):
        """Each application calls the shared item by a number that it gives to another item elsewhere."""
        one, two, _ = world.sites
        alone = {site: [self.make(site.url, f"{site.name} {n}", "alone") for n in range(count)] for site, count in ((one, 1), (two, 2))}
        shared = self.make(one.url, "shared", "once", "Site1 & Site2")
        until("the second site has it", lambda: ("shared", "once") in self.all(two.direct))
        for site in (one, two):
            own = self.own(site, "shared", shared)
            equal(own == shared, False, "whether clients see the service's own number")
            equal(self.read(site.url, shared), "once", f"the shared item at {site.name}")
            equal(self.read(site.url, own), None, f"the service's own number for it at {site.name}")
            for item in alone[site]:
                equal(self.read(site.url, item), "alone", f"item {item} of {site.name} alone")
        self.remove(two.url, alone[two][0])
        for site in (one, two):
            equal(self.read(site.url, shared), "once", "the shared item, after a local one was removed")
        self.remove(two.url, alone[two][1])
        self.remove(one.url, alone[one][0])
        self.remove(one.url, shared)
        until("both are empty", lambda: not self.all(one.direct) and not self.all(two.direct))
        return "yes"


class JsonServer(JsonItems):
    """json-server, which counts: both sites give the id 1 to something else."""

    title, service, profile = "json-server", "posts", "json-server"
    alive = collection = "/posts"

    def cannot_run(self):
        return None if (NODE / "json-server").is_dir() else "json-server is not installed in ZOO_NODE"

    def command(self, directory, port):
        database = directory / "db.json"
        if not database.exists():
            database.write_text('{"posts": []}')
        program = NODE / "json-server" / "lib" / "cli" / "bin.js"
        return ["node", program, "--host", "127.0.0.1", "--port", str(port), "--quiet", database], {}

    def looked_at(self, item):
        return ["/posts", f"/posts/{item}", "/posts/4711", "/posts?_sort=name&_limit=2"]


class Directus(JsonItems):
    """Directus over SQLite, which counts, and says 403 of what is not there."""

    title, service, profile = "Directus", "items", "directus"
    alive = "/server/ping"
    collection = "/items/articles"
    login = "Bearer zoo"

    def cannot_run(self):
        return None if (NODE / "directus").is_dir() else "directus is not installed in ZOO_NODE"

    def headers(self):
        return {"Authorization": self.login}

    def command(self, directory, port):
        program = NODE / "directus" / "cli.js"
        environment = {
            "KEY": "zoo",
            "SECRET": "zoo",
            "DB_CLIENT": "sqlite3",
            "DB_FILENAME": str(directory / "directus.db"),
            "ADMIN_EMAIL": "zoo@example.com",
            "ADMIN_PASSWORD": "zoo",
            "ADMIN_TOKEN": "zoo",
            "HOST": "127.0.0.1",
            "PORT": str(port),
            "SERVE_APP": "false",
            "TELEMETRY": "false",
            "EXTENSIONS_PATH": str(directory),
        }
        start = f'node "{program}" bootstrap && exec node "{program}" start'
        return ["sh", "-c", start], environment

    def set_up(self, site):
        if self.asked("GET", f"{site.direct}/collections/articles", None).status == 200:
            return
        fields = [
            {"field": "id", "type": "integer", "schema": {"is_primary_key": True, "has_auto_increment": True}},
            {"field": "name", "type": "string", "schema": {}},
            {"field": "text", "type": "string", "schema": {}},
        ]
        articles = {"collection": "articles", "schema": {}, "meta": {}, "fields": fields}
        equal(self.asked("POST", f"{site.direct}/collections", None, articles).status, 200, "making the collection")

    def document(self, body):
        return json.loads(body)["data"]

    def made(self, answer):
        return answer.status == 200

    def absent(self, answer):
        return answer.status == 403

    def looked_at(self, item):
        return [f"{self.collection}/{item}", self.collection, f"{self.collection}/4711", f"{self.collection}?sort=name&limit=2"]


class Registry(Application):
    """A container registry, by skopeo. That sends no header: it is told other addresses, which have a scope."""

    title, service, profile = "docker-registry", "registry", "oci"
    alive = "/v2/"
    both, each = "Site1 & Site2", "Site1 & Site2 & Site3"
    doors = {"Site2": "two", "Site3 ; Site2": "spare", "*": "all", each: "each", both: "both"}

    def cannot_run(self):
        missing = [program for program in ("docker-registry", "skopeo") if not shutil.which(program)]
        return f"{' and '.join(missing)} not installed" if missing else None

    def command(self, directory, port):
        settings = {
            "version": "0.1",
            "storage": {"filesystem": {"rootdirectory": str(directory / "data")}, "delete": {"enabled": True}},
            "http": {"addr": f"127.0.0.1:{port}", "secret": "of the zoo"},
        }
        (directory / "config.yml").write_text(json.dumps(settings))
        return ["docker-registry", "serve", directory / "config.yml"], {}

    def door(self, site, scope):
        """The address whose listener has this scope, through Archipel."""
        return f"http://127.0.0.1:{site.door(self.doors[scope])}"

    def skopeo(self, *words):
        command = ["skopeo", "--insecure-policy", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    def image(self, directory, text):
        """An image of one layer, as skopeo reads it from a directory: what it says is in a label."""
        directory = Path(directory)
        noise = random.Random(text).randbytes(LAYER_BYTES)
        layer = hashlib.sha256(noise).hexdigest()
        (directory / layer).write_bytes(noise)
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Labels": {"text": text}},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer}"]},
        }
        config = json.dumps(config).encode()
        digest = hashlib.sha256(config).hexdigest()
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "size": len(config),
                "digest": f"sha256:{digest}",
            },
            "layers": [
                {
                    "mediaType": "application/vnd.oci.image.layer.v1.tar",
                    "size": len(noise),
                    "digest": f"sha256:{layer}",
                }
            ],
        }
        (directory / digest).write_bytes(config)
        (directory / "manifest.json").write_text(json.dumps(manifest))
        (directory / "version").write_text("Directory Transport Version: 1.1\n")
        return f"dir:{directory}"

    def make(self, url, name, text, scope=None):
        host = url.removeprefix("http://")
        with tempfile.TemporaryDirectory() as directory:
            image = self.image(directory, text)
            done = self.skopeo("copy", "--dest-tls-verify=false", image, f"docker://{host}/{name}:latest")
        equal(done.returncode, 0, f"pushing {name}: {done.stderr}")
        return name

    def remove(self, url, item, scope=None):
        host = url.removeprefix("http://")
        done = self.skopeo("delete", "--tls-verify=false", f"docker://{host}/{item}:latest")
        equal(done.returncode, 0, f"deleting {item}: {done.stderr}")

    def read(self, url, item, scope=None):
        host = url.removeprefix("http://")
        done = self.skopeo("inspect", "--tls-verify=false", f"docker://{host}/{item}:latest")
        if "manifest unknown" in done.stderr or "name unknown" in done.stderr:
            return None
        equal(done.returncode, 0, f"inspecting {item}: {done.stderr}")
        return json.loads(done.stdout)["Labels"]["text"]

    def looked_at(self, item):
        return ["/v2/", "/v2/_catalog", f"/v2/{item}/tags/list", f"/v2/{item}/manifests/latest", "/v2/x/tags/list"]

    def share(self, world):
        one, two, _ = world.sites
        self.make(self.door(one, "Site2"), "shared", "of two")
        equal(self.read(two.direct, "shared"), "of two", "what was pushed to another site")
        equal(self.read(one.url, "shared"), None, "the image without a scope")
        equal(self.read(self.door(one, "Site2"), "shared"), "of two", "the image with a scope")
        return "yes"

    def fallback(self, world):
        one, two, three = world.sites
        self.make(two.direct, "spare", "of two")
        three.stop_application()
        door = self.door(one, "Site3 ; Site2")
        equal(self.read(door, "spare"), "of two", "with the first registry down")
        begun = ask(f"{door}/v2/session/blobs/uploads/", "POST")
        equal(begun.status, 202, f"an upload that begins: {begun}")
        three.start_application()
        equal(self.read(door, "spare"), "of two", "with nothing at the first registry")
        # The session goes on where it began, though the first registry is back.
        digest = hashlib.sha256(b"part").hexdigest()
        more = ask(begun.headers["Location"], "PATCH", b"part", Content_Type="application/octet-stream")
        equal(more.status, 202, f"the part of an upload: {more}")
        ended = ask(f"{more.headers['Location']}&digest=sha256:{digest}", "PUT")
        equal(ended.status, 201, f"the end of an upload: {ended}")
        equal(ask(f"{two.direct}/v2/session/blobs/sha256:{digest}").body, b"part", "what was uploaded")
        return "yes, uploads stay where they began"

    def merged(self, world):
        for site in world.sites:
            self.make(site.direct, f"of-{site.name.lower()}", site.name)
            self.make(site.direct, "of-all", site.name)
        everywhere = {f"of-{name.lower()}" for name in SITES} | {"of-all"}
        for site in world.sites:
            names = self.catalog(self.door(site, "*"))
            equal(sorted(set(names)), names, "the names, each once and in order")
            equal(everywhere - set(names), set(), "names that are missing")
        return "yes"

    def catalog(self, url):
        """All names, page by page: the address of the next page is in a header."""
        names, page = [], "/v2/_catalog?n=2"
        while page:
            answer = ask(urllib.parse.urljoin(url, page))
            equal(answer.status, 200, f"the catalog of all sites: {answer}")
            names += json.loads(answer.body)["repositories"]
            link = answer.headers.get("Link")
            page = link and link.partition("<")[2].partition(">")[0]
        return names

    def replicas(self, world):
        """What is pushed once is pulled at each site, though one is cut off, or killed, while it is pushed."""
        one, two, three = world.sites
        doors = [self.door(site, self.each) for site in world.sites]
        self.make(doors[0], "first", "1")
        self.until_held(world, "first", "1")
        world.cut_off("Site3")
        self.make(doors[0], "first", "2")
        self.make(doors[1], "second", "apart")
        equal(self.read(doors[2], "first"), "1", "what was pushed before, at the site that is cut off")
        for door in doors[:2]:
            equal(self.read(door, "first"), "2", f"what is pulled from {door} while a site is cut off")
        world.heal()
        self.until_held(world, "first", "2")
        self.until_held(world, "second", "apart")
        three.mesh.kill()
        self.make(doors[1], "third", "late")
        # The site that took it ends, too, with what the third lacks.
        two.mesh.kill()
        three.start_mesh()
        two.start_mesh()
        self.until_held(world, "third", "late")
        self.not_deleted(doors[0], one)
        self.copied(world)
        return "yes"

    def not_deleted(self, door, site):
        """What only a tag leads to is no resource of the group, and a blob is none at all."""
        for path in self.named(site, "first"):
            answer = ask(f"{door}/v2/first/{path}", "DELETE")
            equal(refused(answer), "refused: 422 `not-replicable`", f"deleting {path} with `&`")

    def copied(self, world):
        """A site that had none is given the state of another, and so is one where somebody pushed something else by hand."""
        one, two, three = world.sites
        self.make(self.door(two, self.both), "copied", "once")
        self.until_held(world, "copied", "once", [one, two])
        equal(self.held(three, "copied"), None, "what is at the third site before it has a replica")
        name = "both:/v2/copied/manifests/latest"
        one.command("replicas", "extend", name, "--to", "Site3", "--wait")
        self.until_held(world, "copied", "once")
        self.make(three.direct, "copied", "by hand")
        three.command("replicas", "repair", name, "--from", "Site1")
        self.until_held(world, "copied", "once")

    def until_held(self, world, item, text, sites=None):
        """The registry of each site, or of these, has the same image, whole, and nothing waits any more."""
        sites = sites or world.sites
        for site in sites:
            until(f"{site.name} has {item}", lambda site=site: self.held(site, item) and self.read(site.direct, item) == text)
        equal(len({self.held(site, item) for site in sites}), 1, f"how many manifests {item} has")
        for site in world.sites:
            until(f"nothing waits at {site.name}", lambda site=site: not self.waiting(site))

    def held(self, site, item):
        """The manifest that a registry has, byte for byte, if all that it names is there."""
        answer = ask(f"{site.direct}/v2/{item}/manifests/latest", Accept=MANIFEST)
        if answer.status == 404:
            return None
        manifest = json.loads(answer.body)
        for named in [manifest["config"], *manifest["layers"]]:
            blob = ask(f"{site.direct}/v2/{item}/blobs/{named['digest']}")
            equal(f"sha256:{hashlib.sha256(blob.body).hexdigest()}", named["digest"], f"a blob of {item} at {site.name}")
        return answer.body

    def named(self, site, item):
        """The paths by which an image's content is addressed."""
        manifest = self.held(site, item)
        digests = [named["digest"] for named in json.loads(manifest)["layers"]]
        return [f"manifests/sha256:{hashlib.sha256(manifest).hexdigest()}", *(f"blobs/{digest}" for digest in digests)]


APPLICATIONS = {
    "json-server": JsonServer,
    "directus": Directus,
    "registry": Registry,
    "kinto": Kinto,
    "radicale": Radicale,
}
