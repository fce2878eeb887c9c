"""What `up` writes down for people and programs: `sites.json`, and `clouds.yaml` for the `openstack` client."""

import json

from . import mesh, services
from .layout import INTERNAL, LISTENING, PASSWORD, PUBLIC, REGION, SERVICES, SUFFIXES, UPSTREAM, write

INTERFACES = ("public", "internal")
# What clients put behind an address that does not come from the catalog.
CLIENT_SUFFIXES = SUFFIXES | {"network": ""}
VERSIONS = {"identity": "3", "compute": "2.79", "placement": "1.30", "image": "2"}


def sites(bed, found, binary=None):
    """The text of `sites.json`; `found` has what was made at each site."""
    said = {
        "mode": bed.mode,
        "base_port": bed.base_port,
        "directory": str(bed.directory),
        "clouds": str(bed.directory / "clouds.yaml"),
        "region": REGION,
        "archipel": str(binary) if binary else None,
        "sites": {site.name: one(site, found.get(site.name, {})) for site in bed.sites},
    }
    return json.dumps(said, indent=2) + "\n"


def one(site, found):
    processes = [*services.all_processes(site), *([mesh.process(site)] if site.bed.mode == "mesh" else [])]
    said = {
        # Where the services themselves listen, where Archipel does, and what the catalog says.
        "upstream": {service: site.url(service, UPSTREAM) for service in LISTENING},
        "public": {service: site.url(service, PUBLIC) for service in LISTENING},
        "internal": {service: site.url(service, INTERNAL) for service in SERVICES},
        "catalog": {
            service: {interface: site.catalog(service, interface) for interface in INTERFACES} for service in SERVICES
        },
        "auth_url": site.catalog("identity", "public"),
        "link": site.link,
        "admin": {"username": "admin", "password": PASSWORD, "project": "admin"},
        **found,
        "disks": str(site.disks),
        "logs": {process.name.partition("-")[2]: str(process.log) for process in processes},
    }
    if site.bed.mode == "mesh":
        here = mesh.directory(site)
        said["mesh"] = {
            "config": str(mesh.config(site)),
            "admin_socket": str(here / "state" / "admin.sock"),
            "audit": str(here / "audit.log"),
        }
    return said


def clouds(bed, found):
    """The text of `clouds.yaml`: `Site1-alice` asks where the catalog says, `Site1-alice-direct` the services themselves.

    It is JSON, which is YAML too.
    """
    said = {}
    for site in bed.sites:
        people = {"admin": {"admin": "admin"}} | {
            name: user["roles"] for name, user in found.get(site.name, {}).get("users", {}).items()
        }
        for user, roles in people.items():
            for number, project in enumerate(roles):
                name = f"{site.name}-{user}" if number == 0 else f"{site.name}-{user}-{project}"
                said[name] = cloud(site, user, project, site.catalog("identity", "public"))
                said[f"{name}-direct"] = cloud(site, user, project, site.url("identity") + "/v3") | {
                    f"{service}_endpoint_override": site.url(service) + CLIENT_SUFFIXES.get(service, "")
                    for service in SERVICES
                }
    return json.dumps({"clouds": said}, indent=2) + "\n"


def cloud(site, user, project, auth_url):
    auth = {
        "auth_url": auth_url,
        "username": user,
        "password": PASSWORD,
        "project_name": project,
        "user_domain_id": "default",
        "project_domain_id": "default",
    }
    versions = {f"{service}_api_version": version for service, version in VERSIONS.items()}
    return {"auth": auth, "region_name": REGION, **versions}


def write_down(bed, found, binary=None):
    write(bed.record, sites(bed, found, binary), 0o600)
    write(bed.directory / "clouds.yaml", clouds(bed, found), 0o600)
