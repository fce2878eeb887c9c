"""People whom every site knows, each in a project of its own.

Tempest makes users and projects for its tests, at one site. What is replicated belongs to the project of the same name at
each site: for that there have to be some before.
"""

import json

from suite import Cloud, layout

# Two tests at a time, each with somebody, somebody else and an administrator.
PEOPLE = {f"tempest-{number}": "member" for number in range(1, 7)} | {f"tempest-admin-{number}": "admin" for number in range(1, 4)}


def make(site):
    """Makes them at a site, with Archipel's own user in their projects."""
    cloud = Cloud(site)
    roles = {role["name"]: role["id"] for role in cloud.get("identity", "/roles")["roles"]}
    archipel = one(cloud, "users", layout.ARCHIPEL, {})
    for name, role in PEOPLE.items():
        user = one(cloud, "users", name, {"domain_id": "default", "password": layout.PASSWORD})
        project = one(cloud, "projects", name, {"domain_id": "default"})
        for who in (user, archipel):
            cloud.put("identity", f"/projects/{project}/users/{who}/roles/{roles[role]}")


def one(cloud, plural, name, fields):
    return cloud.ensure("identity", plural, name, fields)["id"]


def write(path):
    """The file that Tempest reads them from: JSON, which is YAML too."""
    entries = []
    for name, role in PEOPLE.items():
        entry = {"username": name, "project_name": name, "password": layout.PASSWORD, "roles": [role]}
        if role == "admin":
            entry["types"] = ["admin"]
        entries.append(entry)
    layout.write(path, json.dumps(entries, indent=1), 0o600)
