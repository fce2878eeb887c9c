"""Three sites in a network namespace of their own: at each, one unmodified application, and Archipel in front.

Nobody else is in the namespace, so ports are fixed. Each Archipel runs as a user of its own, by which the packet
filter knows its connections: a site is cut off from the others, and its clients still reach it.
"""

import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

SITES = ("Site1", "Site2", "Site3")
READY_SECONDS = 60
SETTLE_SECONDS = 60
STOP_SECONDS = 10
FIRST_UID = 61001
LINKS = {site: 7400 + number for number, site in enumerate(SITES, 1)}
PROFILES = Path(__file__).resolve().parent / "profiles"


class Answer:
    """An answer to one HTTP request, whatever its status."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return f"{self.status} {dict(self.headers)} {self.body[:400]!r}"


def ask(url, method="GET", body=None, **headers):
    """Sends one request. Header names are written with `_` for `-`."""
    if isinstance(body, str):
        body = body.encode()
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, data=body, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return Answer(answer.status, answer.headers, answer.read())
    except urllib.error.HTTPError as answer:
        return Answer(answer.code, answer.headers, answer.read())


class Ended(Exception):
    """A process ended that was to go on."""


def until(what, condition, seconds=SETTLE_SECONDS):
    """Waits until `condition` returns something true, and returns it. What it raises is looked at last."""
    deadline = time.monotonic() + seconds
    while True:
        fault = None
        try:
            if found := condition():
                return found
        except Ended:
            raise
        except Exception as error:
            fault = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s") from fault
        time.sleep(0.1)


class Process:
    """A process with a log, which ends with the world."""

    def __init__(self, name, command, log, uid=None, environment=None):
        self.name, self.log = name, log
        if uid:
            command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command]
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        with log.open("ab") as out:
            self.child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                env=kept | (environment or {}),
                cwd=log.parent,
            )

    def answers(self, url):
        if self.child.poll() is not None:
            raise Ended(f"{self.name} ended with status {self.child.returncode}")
        return ask(url)

    def stop(self):
        if self.child.poll() is None:
            self.child.terminate()
        try:
            self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()


class Site:
    """One site: the application's process and Archipel's."""

    def __init__(self, world, name):
        self.world, self.name = world, name
        number = SITES.index(name) + 1
        self.directory = world.directory / name
        self.uid = FIRST_UID + number - 1
        self.public, self.service_port = 9000 + number, 8000 + number
        self.application = self.mesh = None

    @property
    def url(self):
        """The application through Archipel."""
        return f"http://127.0.0.1:{self.public}"

    @property
    def direct(self):
        """The application itself."""
        return f"http://127.0.0.1:{self.service_port}"

    def door(self, name):
        """The port of an address that has a scope."""
        return 9100 + 10 * list(self.world.app.doors.values()).index(name) + SITES.index(self.name)

    def prepare(self):
        self.directory.mkdir()
        (self.directory / "application").mkdir()
        authority, identity = self.world.directory / "authority", self.directory / "identity"
        subprocess.run(
            [self.world.archipel, "init", "--site", self.name, "--authority", authority, "--out", identity],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        app = self.world.app
        (self.directory / "login").write_text(app.login or "")
        text = f'site = "{self.name}"\nprofile = "{app.profile}"\nprofiles = "{PROFILES}"\nidentity = "identity"\n'
        text += f'state = "state"\nthreads = 1\n[link]\nlisten = "127.0.0.1:{LINKS[self.name]}"\n'
        for peer, port in LINKS.items():
            if peer != self.name:
                text += f'[peers.{peer}]\naddress = "127.0.0.1:{port}"\n'
        text += f'[services.{app.service}]\npublic = ["127.0.0.1:{self.public}"]\n'
        text += f'upstreams = ["{self.direct}"]\n'
        for scope, door in app.doors.items():
            text += f'[services.{door}]\npublic = ["127.0.0.1:{self.door(door)}"]\n'
            text += f'upstreams = ["{self.direct}"]\nscope = "{door}: {scope}"\n'
        if app.login:
            text += f'[replication.credentials.{app.service}]\nAuthorization = "{self.directory / "login"}"\n'
        # Nobody waits long for a site that is cut off.
        text += '[timeouts]\nresponse = "10s"\npeer_response = "5s"\n'
        (self.directory / "archipel.toml").write_text(text)
        (self.directory / "state").mkdir()
        for path in [self.directory, *self.directory.rglob("*")]:
            if "application" not in path.parts:
                os.chown(path, self.uid, self.uid)

    def start_application(self):
        command, environment = self.world.app.command(self.directory / "application", self.service_port)
        log = self.directory / "application.log"
        self.application = Process(f"{self.name}'s application", command, log, environment=environment)
        until(f"{self.name}'s application answers", lambda: self.application.answers(self.direct + self.world.app.alive), READY_SECONDS)
        self.world.app.set_up(self)

    def stop_application(self):
        self.application.stop()

    def start_mesh(self):
        command = [self.world.archipel, "run", self.directory / "archipel.toml"]
        self.mesh = Process(f"{self.name}'s Archipel", command, self.directory / "archipel.log", self.uid)
        until(f"{self.name} answers", lambda: self.mesh.answers(self.url + self.world.app.alive), READY_SECONDS)

    def command(self, *words):
        """Runs `archipel` at this site, and returns what it printed."""
        config = ["--config", self.directory / "archipel.toml"]
        done = subprocess.run(
            [self.world.archipel, *words, *config], capture_output=True, text=True, check=False, timeout=60
        )
        return done.stdout


class World:
    """The sites of one application, from entering to leaving a `with`."""

    def __init__(self, archipel, directory, app):
        self.archipel, self.directory, self.app = archipel, directory, app
        self.sites = [Site(self, name) for name in SITES]

    def __enter__(self):
        try:
            for site in self.sites:
                site.prepare()
                site.start_application()
            for site in self.sites:
                site.start_mesh()
            for site in self.sites:
                until(f"{site.name} reaches all", lambda site=site: self.reaches_all(site), READY_SECONDS)
        except BaseException as error:
            # Who was told to stop does not ask why.
            if isinstance(error, Exception):
                self.show_logs()
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.heal()
        self.stop()

    def reaches_all(self, site):
        scopes = (f"{self.app.service}: {other}" for other in SITES)
        return all(ask(site.url + self.app.alive, X_Scope=scope).status == 200 for scope in scopes)

    def stop(self):
        processes = [process for site in self.sites for process in (site.mesh, site.application) if process]
        for process in processes:
            process.stop()

    def show_logs(self):
        for log in sorted(self.directory.rglob("*.log")):
            lines = log.read_text(errors="replace").splitlines()[-20:]
            print(f"-- {log.relative_to(self.directory)}, its end", *lines, sep="\n   ")

    def cut_off(self, name):
        """No packet goes between this site's Archipel and the others', either way. Its clients still reach it."""
        here, uid = LINKS[name], FIRST_UID + SITES.index(name)
        others = ", ".join(str(port) for site, port in LINKS.items() if site != name)
        rules = "table ip zoo {\nchain out {\ntype filter hook output priority 0;\n"
        for protocol in ("tcp", "udp"):
            rules += f"meta skuid != {uid} {protocol} dport {here} drop\n"
            rules += f"meta skuid {uid} {protocol} dport {{ {others} }} drop\n"
            rules += f"meta skuid {uid} {protocol} sport {here} {protocol} dport != {here} drop\n"
        subprocess.run(["nft", "-f", "-"], input=rules + "}\n}\n", text=True, check=True)

    def heal(self):
        subprocess.run(["nft", "delete", "table", "ip", "zoo"], check=False, capture_output=True)
