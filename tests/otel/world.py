"""Two sites on this machine: at each, the mesh and unmodified services behind it.

No port is chosen in advance. A mesh starts first and says where it listens; the services start, knowing
where their mesh is, and say where they listen; then each mesh reads its file again, with those addresses.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SITES = ("Site1", "Site2")

# How front hands things on, by the name it has as a service: what the standard instrumentation does by
# default, one of its two propagators alone, and no instrumentation at all.
FRONTS = {
    "front": "tracecontext,baggage",
    "front-tracecontext": "tracecontext",
    "front-baggage": "baggage",
    "front-untraced": None,
}

# Stands for an address that is not known yet.
NOWHERE = "127.0.0.1:9"
READY_SECONDS = 60
STOP_SECONDS = 10


class Answer:
    """What curl got."""

    def __init__(self, text):
        head, _, self.body = text.partition("\r\n\r\n")
        status, *fields = head.split("\r\n")
        self.status = int(status.split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}

    def json(self):
        return json.loads(self.body)


def curl(url, *headers):
    """Asks with curl, as a user would."""
    command = ["curl", "--silent", "--show-error", "--include", "--noproxy", "*", "--max-time", "60"]
    for header in headers:
        command += ["--header", header]
    done = subprocess.run([*command, url], capture_output=True, check=False)
    if done.returncode != 0:
        raise AssertionError(f"curl {url}: {done.stderr.decode().strip()}")
    return Answer(done.stdout.decode())


class Process:
    """A process with a log, which ends with the world."""

    def __init__(self, name, command, log, **environment):
        self.name, self.log = name, log
        # A proxy of the machine's is not for what runs on the machine.
        kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        with log.open("wb") as out:
            self.child = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=kept | environment
            )

    def wait_for(self, pattern):
        """Waits until the log matches, and returns all matches."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if found := re.findall(pattern, self.log.read_text(), re.MULTILINE):
                return found
            if self.child.poll() is not None:
                raise RuntimeError(f"{self.name} ended with status {self.child.returncode}")
            time.sleep(0.02)
        raise RuntimeError(f"{self.name} is not ready after {READY_SECONDS} s")

    def stop(self):
        try:
            self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"note: {self.name} did not stop when asked, and was killed")
            self.child.kill()
            self.child.wait()


class World:
    """The sites, from entering to leaving a `with`."""

    def __init__(self, archipel, directory):
        self.archipel, self.directory = archipel, directory
        self.processes = []
        self.meshes = {}
        # Where what listens: (site, service, "public" or "internal"), and (site, "link").
        self.listens = {}

    def __enter__(self):
        try:
            for site in SITES:
                self.start_mesh(site)
            upstreams = {site: self.start_services(site) for site in SITES}
            for site in SITES:
                self.configure(site, upstreams[site])
                mesh = self.meshes[site]
                mesh.child.send_signal(signal.SIGHUP)
                mesh.wait_for(r" reloaded$")
            self.wait_until_joined()
        except BaseException as error:
            # Who was told to stop does not ask why.
            if isinstance(error, Exception):
                self.show_logs()
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        for process in self.processes:
            process.child.terminate()
        for process in self.processes:
            process.stop()

    def show_logs(self):
        for process in self.processes:
            lines = process.log.read_text(errors="replace").splitlines()[-20:]
            print(f"-- the log of {process.name}, its end", *lines, sep="\n   ", file=sys.stderr)

    def url(self, site, service, path="/"):
        return f"http://{self.listens[site, service, 'public']}{path}"

    def start(self, name, command, **environment):
        process = Process(name, command, self.directory / f"{name}.log", **environment)
        self.processes.append(process)
        return process

    def start_mesh(self, site):
        (self.directory / site).mkdir()
        init = [self.archipel, "init", "--site", site, "--authority", self.directory / "authority"]
        subprocess.run(
            [*init, "--out", self.directory / site / "identity"], check=True, stdout=subprocess.DEVNULL
        )
        self.configure(site, {})
        mesh = self.start(f"{site}-mesh", [self.archipel, "run", self.directory / site / "archipel.toml"])
        mesh.wait_for(rf"site {site} is ready$")
        for service, address, kind in mesh.wait_for(r" ([\w-]+) listens at (\S+) \((\w+)\)$"):
            self.listens[site, service, kind] = address
        (self.listens[site, "link"],) = mesh.wait_for(r" the link listens at (\S+)$")
        self.meshes[site] = mesh

    def configure(self, site, upstreams):
        """Writes the site's configuration, with the addresses that are known."""
        text = f'site = "{site}"\nprofile = "rest"\nidentity = "identity"\nthreads = 2\n'
        text += '[link]\nlisten = "127.0.0.1:0"\n'
        for peer in SITES:
            if peer != site:
                address = self.listens.get((peer, "link"), NOWHERE)
                text += f'[peers.{peer}]\naddress = "{address}"\n'
        for service in ("back", *FRONTS):
            text += f'[services.{service}]\npublic = ["127.0.0.1:0"]\n'
            text += f'upstreams = ["http://{upstreams.get(service, NOWHERE)}"]\n'
            if service == "back":
                text += 'internal = ["127.0.0.1:0"]\n'
        (self.directory / site / "archipel.toml").write_text(text)

    def start_services(self, site):
        back = f"http://{self.listens[site, 'back', 'internal']}"
        # Only the default way to run front, and back, are at every site.
        default = FRONTS["front"]
        started = {"back": self.start_flask(site, "back", "back.py", default)}
        for service, propagators in FRONTS.items():
            if service == "front" or site == SITES[0]:
                started[service] = self.start_flask(site, service, "front.py", propagators, BACK=back)
        running = r"Running on http://(127\.0\.0\.1:\d+)$"
        return {service: process.wait_for(running)[0] for service, process in started.items()}

    def start_flask(self, site, name, file, propagators, **environment):
        programs = Path(sys.prefix) / "bin"
        command = [programs / "flask", "--app", HERE / file, "run", "--port", "0"]
        if propagators:
            command.insert(0, programs / "opentelemetry-instrument")
            environment |= {f"OTEL_{what}_EXPORTER": "none" for what in ("TRACES", "METRICS", "LOGS")}
            # The default is left to the instrumentation: it is what most services have.
            if propagators != FRONTS["front"]:
                environment["OTEL_PROPAGATORS"] = propagators
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "SITE": site}
        return self.start(f"{site}-{name}", command, **environment)

    def wait_until_joined(self):
        """Each site reaches its own services, and the other's."""
        deadline = time.monotonic() + READY_SECONDS
        for site in SITES:
            for service in ("front", "back"):
                for scope in ("", *(f"{service}: {other}" for other in SITES)):
                    while (answer := curl(self.url(site, service), f"X-Scope: {scope}")).status != 200:
                        if time.monotonic() > deadline:
                            raise RuntimeError(f"`{scope}` at {site} gives {answer.status}: {answer.body}")
                        time.sleep(0.05)
