"""One Archipel in front of each site."""

import json
import subprocess

from . import wan
from .layout import ARCHIPEL, CONSOLE, INTERNAL, PASSWORD, PUBLIC, SERVICES, UPSTREAM, Failure, write
from .process import Process, environment, run

READY_SECONDS = 60


def process(site):
    return Process(site.bed, f"{site.key}-archipel")


def directory(site):
    return site.directory / "mesh"


def config(site):
    return directory(site) / "archipel.toml"


def text(site):
    """A site's `archipel.toml`."""
    others = [other for other in site.bed.sites if other is not site]
    lines = [
        f'site = "{site.name}"',
        'profile = "openstack"',
        "",
        "[link]",
        f'listen = "{site.link}"',
        f'advertise = "{site.reached_at}"',
        f'source = "{site.link_host}"',
        "",
        "[timeouts]",
        'drain = "3s"',
        "",
        "[audit]",
        'file = "audit.log"',
    ]
    if others:
        lines.insert(2, 'identity = "identity"')
    for other in others:
        lines += ["", f"[peers.{other.name}]", f'address = "{other.reached_at}"']
    lines += ["", "[tokens.login]", f'user = "{ARCHIPEL}"', 'domain = "Default"', 'project = "service"']
    lines += ['password_file = "password"']
    for other in others:
        lines += ["", "[[tokens.accept]]", f'from = "{other.name}"', 'projects = "*"']
    for service in SERVICES:
        lines += [
            "",
            f"[services.{service}]",
            f'public = ["{site.address(service, PUBLIC)}"]',
            f'internal = ["{site.address(service, INTERNAL)}"]',
            f'upstreams = ["{site.url(service, UPSTREAM)}"]',
        ]
    lines += ["", f"[services.{CONSOLE}]", f'public = ["{site.address(CONSOLE, PUBLIC)}"]', f'upstreams = ["{site.url(CONSOLE)}"]']
    return "\n".join(lines) + "\n"


def start(bed, binary, sites=None):
    """Writes the configurations, starts the Archipels of these sites or of all, and waits until those that run reach each other."""
    wan.start(bed)
    for site in sites or bed.sites:
        write(config(site), text(site))
        write(directory(site) / "password", PASSWORD, 0o600)
        identity = directory(site) / "identity"
        if not (identity / "site-key.pem").exists():
            run(bed, [binary, "init", "--site", site.name, "--authority", bed.directory / "authority", "--out", identity])
        run(bed, [binary, "check", config(site)])
        process(site).start([binary, "run", config(site)])
    running = [site for site in bed.sites if process(site).pid()]
    for site in running:
        process(site).wait(lambda site=site: linked(site, running, binary), "not every other site is reachable", READY_SECONDS)


def linked(site, others, binary):
    """Whether this site's Archipel reaches those of the others."""
    command = [str(binary), "sites", "--json", "--config", str(config(site))]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(site.bed), check=False)
    if done.returncode != 0:
        return False
    said = json.loads(done.stdout)
    reached = {entry["site"] for entry in said["sites"] if entry["reach"] in ("here", "reachable")}
    return {other.name for other in others} <= reached


def usable(binary):
    """The binary's full path: processes run in another directory."""
    path = binary.expanduser().resolve()
    if not path.is_file():
        raise Failure(f"there is no {path}: build it with `cargo build --release`")
    return path
