"""What is in a site's cloud from the start: users, projects, the catalog, flavors, a network, an image.

Names are the same at all sites, and ids are not, as with clouds that know nothing of each other.
"""

import base64
import hashlib
import os

from .cloud import Cloud
from .layout import ARCHIPEL, PASSWORD, REGION, SERVICES, Failure, write
from .process import run

SERVICE_USERS = ("glance", "placement", "nova", "neutron")
NAMES = {"identity": "keystone", "image": "glance", "placement": "placement", "compute": "nova", "network": "neutron"}
INTERFACES = ("public", "internal", "admin")

PROJECTS = ("demo", "other")
# Who has which role where. At Site2 alice may also look at a project that no other site has.
ROLES = {"alice": {"demo": "member"}, "bob": {"other": "member"}}
ONLY_AT = {"Site2": {"alice": {"lab": "reader"}}}

FLAVORS = {"tiny": (64, 1, 1), "small": (256, 2, 1)}
NETWORK = "net"
IMAGE_BYTES = 1 << 20


def roles(site):
    """The users of a site, with their roles by project."""
    extra = ONLY_AT.get(site.name, {})
    return {user: where | extra.get(user, {}) for user, where in ROLES.items()}


def projects(site):
    extra = {project for where in ONLY_AT.get(site.name, {}).values() for project in where}
    return [*PROJECTS, *sorted(extra)]


def bootstrap(site):
    """An administrator in an empty Keystone, with signing keys that no other site has."""
    for repository in ("fernet-keys", "credential-keys"):
        # What `keystone-manage fernet_setup` makes, without two more starts of it: 0 is the next key, 1 is used.
        for number in ("0", "1"):
            key = base64.urlsafe_b64encode(os.urandom(32)).decode()
            write(site.directory / repository / number, key, 0o600)
        (site.directory / repository).chmod(0o700)
    command = ["keystone-manage", "--config-file", site.directory / "keystone.conf", "bootstrap"]
    run(site.bed, [*command, "--bootstrap-password", PASSWORD, "--bootstrap-region-id", REGION])


def identity(site):
    """Users, projects and roles; returns what was made, for `sites.json`."""
    cloud = Cloud(site)
    default = {"domain_id": "default"}
    role_ids = ensure_all(cloud, "roles", {name: {} for name in ("admin", "member", "reader", "service")})
    project_ids = ensure_all(cloud, "projects", {name: default for name in ("admin", "service", *projects(site))})
    people = roles(site)
    names = (*SERVICE_USERS, ARCHIPEL, *people)
    user_ids = ensure_all(cloud, "users", {name: {**default, "password": PASSWORD} for name in names})
    wanted = [(name, "service", role) for name in SERVICE_USERS for role in ("admin", "service")]
    # Archipel looks up who users are, and keeps replicas in the projects of their owners.
    wanted += [(ARCHIPEL, project, "admin") for project in ("admin", "service")]
    wanted += [(ARCHIPEL, project, "member") for project in projects(site)]
    wanted += [(name, project, role) for name, where in people.items() for project, role in where.items()]
    have = {
        (entry["user"]["id"], entry["scope"]["project"]["id"], entry["role"]["id"])
        for entry in cloud.get("identity", "/role_assignments")["role_assignments"]
        if "user" in entry and "project" in entry["scope"]
    }
    for name, project, role in wanted:
        user, where, what = user_ids[name], project_ids[project], role_ids[role]
        if (user, where, what) not in have:
            cloud.put("identity", f"/projects/{where}/users/{user}/roles/{what}")
    users = {name: {"id": user_ids[name], "password": PASSWORD, "roles": where} for name, where in people.items()}
    return {"projects": project_ids, "users": users}


def ensure_all(cloud, plural, wanted):
    """The ids of what is wanted by name; what is not there yet is made."""
    have = {item["name"]: item["id"] for item in cloud.get("identity", f"/{plural}")[plural]}
    single = plural[:-1]
    for name, body in wanted.items():
        if name not in have:
            have[name] = cloud.post("identity", f"/{plural}", {single: {"name": name, **body}})[single]["id"]
    return {name: have[name] for name in wanted}


def catalog(site):
    """Makes the catalog say what the mode wants; returns how many entries were not so."""
    cloud, changed = Cloud(site), 0
    services = {service["type"]: service["id"] for service in cloud.get("identity", "/services")["services"]}
    entries = {
        (entry["service_id"], entry["interface"]): entry for entry in cloud.get("identity", "/endpoints")["endpoints"]
    }
    for kind in SERVICES:
        if kind not in services:
            body = {"service": {"name": NAMES[kind], "type": kind}}
            services[kind] = cloud.post("identity", "/services", body)["service"]["id"]
        for interface in INTERFACES:
            url, entry = site.catalog(kind, interface), entries.get((services[kind], interface))
            if entry is None:
                body = {"service_id": services[kind], "interface": interface, "url": url, "region_id": REGION}
                cloud.post("identity", "/endpoints", {"endpoint": body})
            elif entry["url"] != url:
                cloud.patch("identity", f"/endpoints/{entry['id']}", {"endpoint": {"url": url}})
            else:
                continue
            changed += 1
    return changed


def image_bytes(site):
    """The content of a site's own image: the same each time, and another at each site."""
    blocks, block = [], site.name.encode()
    while len(blocks) * 32 < IMAGE_BYTES:
        block = hashlib.sha256(block).digest()
        blocks.append(block)
    return b"".join(blocks)


def resources(site):
    """Flavors, a shared network with a subnet, and a public image that only this site has."""
    cloud = Cloud(site)
    have = {flavor["name"]: flavor["id"] for flavor in cloud.get("compute", "/flavors")["flavors"]}
    for name, (ram, disk, cpus) in FLAVORS.items():
        if name not in have:
            body = {"flavor": {"name": name, "ram": ram, "disk": disk, "vcpus": cpus}}
            have[name] = cloud.post("compute", "/flavors", body)["flavor"]["id"]
    network = cloud.ensure("network", "networks", NETWORK, {"shared": True})
    subnet = {"network_id": network["id"], "ip_version": 4, "cidr": f"10.{site.number}.0.0/16"}
    cloud.ensure("network", "subnets", f"{NETWORK}-v4", subnet)
    image = ensure_image(cloud, f"image-{site.name}", image_bytes(site))
    return {"flavors": have, "networks": {NETWORK: network["id"]}, "images": image}


def ensure_image(cloud, name, content):
    found = [image for image in cloud.get("image", f"/images?name={name}")["images"] if image["status"] == "active"]
    if found:
        image = found[0]
    else:
        body = {"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        image = cloud.post("image", "/images", body)
        cloud.put("image", f"/images/{image['id']}/file", data=content)
    return {name: {"id": image["id"], "sha256": hashlib.sha256(content).hexdigest()}}


def compute_ready(site, since):
    """Whether Nova's processes said that they are there since then, and Placement knows what compute has."""
    try:
        cloud = Cloud(site)
        services = cloud.get("compute", "/os-services")["services"]
        fresh = {item["binary"] for item in services if item["state"] == "up" and (item["updated_at"] or "") >= since}
        hypervisors = cloud.get("compute", "/os-hypervisors")["hypervisors"]
        providers = cloud.get("placement", "/resource_providers?resources=VCPU:1")["resource_providers"]
    except Failure:
        return False
    return {"nova-conductor", "nova-scheduler", "nova-compute"} <= fresh and bool(hypervisors and providers)
