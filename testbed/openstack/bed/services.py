"""The OpenStack services of one site: how each is started, and when it is ready."""

from pathlib import Path

from .layout import CONSOLE, HOST, LISTENING
from .process import PYTHON, Process, answers

DRIVERS = Path(__file__).resolve().parents[1] / "drivers"

# The processes of a site by the API that they belong to.
PROCESSES = {
    "identity": ("keystone",),
    "image": ("glance-api",),
    "placement": ("placement-api",),
    "compute": ("nova-api", "nova-conductor", "nova-scheduler", "nova-compute"),
    "network": ("neutron-server",),
    CONSOLE: ("nova-novncproxy",),
}
# Asked to see whether a service is there.
PATHS = {"identity": "/v3", "image": "/healthcheck"}


def process(site, name):
    return Process(site.bed, f"{site.key}-{name}")


def all_processes(site):
    return [process(site, name) for names in PROCESSES.values() for name in names]


def commands(site):
    """What to run for each process, with what it needs in its environment."""
    config = site.directory
    # Where Neutron finds our driver by its entry point.
    drivers = {"PYTHONPATH": str(DRIVERS)}
    nova = ["--config-file", config / "nova.conf"]
    return {
        "keystone": (
            uwsgi(site, "identity", "/usr/bin/keystone-wsgi-public"),
            {"OS_KEYSTONE_CONFIG_FILES": str(config / "keystone.conf")},
        ),
        "glance-api": (["glance-api", "--config-file", config / "glance-api.conf"], {}),
        "placement-api": (
            uwsgi(site, "placement", "/usr/bin/placement-api"),
            {"OS_PLACEMENT_CONFIG_DIR": str(config / "placement")},
        ),
        "nova-api": (["nova-api", *nova], {}),
        "nova-conductor": (["nova-conductor", *nova], {}),
        "nova-scheduler": (["nova-scheduler", *nova], {}),
        "nova-compute": ([PYTHON, DRIVERS / "nova-compute", *nova], {}),
        "neutron-server": (["neutron-server", "--config-file", config / "neutron.conf"], drivers),
        "nova-novncproxy": (["nova-novncproxy", *nova], {}),
    }


def uwsgi(site, service, application):
    """A server for the services that are only an application."""
    return [
        "uwsgi_python3", "--http-socket", f"{HOST}:{site.port(service)}", "--wsgi-file", application, "--need-app",
        "--master", "--die-on-term", "--lazy-apps", "--processes", "1", "--threads", "4", "--enable-threads",
        "--buffer-size", "65535", "--disable-logging",
        # It closes connections after each answer without saying so, which a client that keeps them takes for a fault.
        "--add-header", "Connection: close",
    ]  # fmt: skip


def start(site, services=LISTENING):
    every = commands(site)
    for service in services:
        for name in PROCESSES[service]:
            command, extra = every[name]
            process(site, name).start(command, **extra)


def wait(site, services=LISTENING):
    for service in services:
        url = site.url(service) + PATHS.get(service, "/")
        process(site, PROCESSES[service][0]).wait(lambda url=url: answers(url), f"nothing answers at {url}")
