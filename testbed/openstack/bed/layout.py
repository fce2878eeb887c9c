"""Where everything of a testbed is: directories, ports, addresses, and what is written down about them.

A `Bed` is all sites and what they share; a `Site` is one OpenStack. Both only say where things are: nothing is
started here.
"""

import json
import socket
from pathlib import Path

HOST = "127.0.0.1"
# Where this package is.
PYTHON_PATH = Path(__file__).resolve().parents[1]
REGION = "RegionOne"

# The services that listen, by the names of their APIs, in the order of their ports.
SERVICES = ("identity", "image", "placement", "compute", "network")
# Where the consoles of servers are is said by Nova, and not by the catalog.
CONSOLE = "console"
LISTENING = (*SERVICES, CONSOLE)
# What follows the address of a service in the catalog.
SUFFIXES = {"identity": "/v3", "compute": "/v2.1"}

# Below the range that Linux takes ports of outgoing connections from (32768 and up), so that nobody gets them by chance.
FIRST_BASE, LAST_BASE = 20000, 32000
PORTS_PER_SITE = 100
# Within the ports of a site: the services themselves, then where Archipel listens for them, then its link, and where the others reach that.
UPSTREAM, PUBLIC, INTERNAL, LINK, WAN = 0, 10, 20, 30, 31
# Within the first ports, which all sites share.
DATABASE, BROKER, BROKER_PEERS, BROKER_NAMES = 0, 1, 2, 3

# One password for everybody: nothing here is reachable from another machine.
PASSWORD = "archipel"
# Who Archipel is to a site.
ARCHIPEL = "archipel"


class Failure(Exception):
    """Something that a person has to read."""


class Site:
    """One OpenStack: its directory and its addresses."""

    def __init__(self, bed, number):
        self.bed, self.number = bed, number
        self.name = f"Site{number}"
        self.key = f"site{number}"
        self.directory = bed.directory / self.name
        self.base = bed.base_port + number * PORTS_PER_SITE

    def port(self, service, side=UPSTREAM):
        return self.base + side + LISTENING.index(service)

    def address(self, service, side=UPSTREAM):
        return f"{HOST}:{self.port(service, side)}"

    def url(self, service, side=UPSTREAM):
        return f"http://{self.address(service, side)}"

    def catalog(self, service, interface):
        """What the catalog says of a service: Archipel's addresses, or the services' own."""
        side = UPSTREAM if self.bed.mode == "direct" else PUBLIC if interface == "public" else INTERNAL
        return self.url(service, side) + SUFFIXES.get(service, "")

    @property
    def link_host(self):
        """An address of its own, by which the network between the sites knows who sends."""
        return f"127.0.0.{10 + self.number}"

    @property
    def link_port(self):
        return self.base + LINK

    @property
    def link(self):
        return f"{self.link_host}:{self.link_port}"

    @property
    def wan_port(self):
        return self.base + WAN

    @property
    def reached_at(self):
        """The link as the others reach it: through the network between the sites."""
        return f"{HOST}:{self.wan_port}"

    @property
    def disks(self):
        """Where servers' disks are: `ID.disk` is the image as compute fetched it."""
        return self.directory / "nova" / "instances"

    def database(self, name):
        return f"mysql+pymysql://{self.key}:{PASSWORD}@{HOST}:{self.bed.port(DATABASE)}/{self.key}_{name}"

    @property
    def broker(self):
        return f"rabbit://{self.key}:{PASSWORD}@{HOST}:{self.bed.port(BROKER)}/{self.key}"


class Bed:
    """All sites, and the directory that everything is in."""

    def __init__(self, directory, count, base_port, mode):
        self.directory = Path(directory).resolve()
        self.base_port, self.mode = base_port, mode
        self.sites = [Site(self, number) for number in range(1, count + 1)]

    def port(self, which):
        return self.base_port + which

    def site(self, name):
        for site in self.sites:
            if site.name == name:
                return site
        raise Failure(f"there is no {name}: there are {', '.join(site.name for site in self.sites)}")

    @property
    def logs(self):
        return self.directory / "log"

    @property
    def run(self):
        return self.directory / "run"

    @property
    def record(self):
        return self.directory / "sites.json"

    @property
    def ports(self):
        shared = [self.port(which) for which in (DATABASE, BROKER, BROKER_PEERS, BROKER_NAMES)]
        sides = (UPSTREAM, PUBLIC, INTERNAL)
        own = [site.port(service, side) for site in self.sites for service in LISTENING for side in sides]
        return shared + own + [port for site in self.sites for port in (site.link_port, site.wan_port)]


def default_directory():
    return Path(__file__).resolve().parents[3] / "target" / "openstack"


def recorded(directory):
    """What `up` wrote down the last time, or nothing."""
    record = Path(directory) / "sites.json"
    return json.loads(record.read_text()) if record.exists() else None


def known(directory):
    """The testbed in a directory, as `up` left it."""
    said = recorded(directory)
    if said is None:
        raise Failure(f"there is no testbed in {directory}: `up` makes one")
    return Bed(directory, len(said["sites"]), said["base_port"], said["mode"])


def free(port):
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def free_base(directory, count):
    """The first port of a block in which every port we need is free."""
    for base in range(FIRST_BASE, LAST_BASE - (count + 1) * PORTS_PER_SITE, 500):
        if all(free(port) for port in Bed(directory, count, base, "direct").ports):
            return base
    raise Failure(f"no block of free ports between {FIRST_BASE} and {LAST_BASE}: give one with --base-port")


def write(path, text, mode=0o644):
    """Writes a file, and the directories above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
