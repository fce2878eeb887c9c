"""The same users, projects, flavors and keys at every site; quotas; servers that find no host."""

import unittest
import uuid

from harness import STACK, Site1, Site2, Site3

EVERYWHERE = "*: Site1 & Site2 & Site3"
SITES = (Site1, Site2, Site3)


def everywhere(service):
    return f"{service}: Site1 & Site2 & Site3"


class Administration(unittest.TestCase):
    def made(self, service, path, body, client=None):
        answer = (client or STACK.admin(Site1)).ask("POST", service, path, body, everywhere(service))
        self.assertIn(answer.status, (200, 201), answer)
        return answer.json

    def test_a_flavor_is_the_same_everywhere(self):
        name = f"flavor-{uuid.uuid4()}"
        flavor = {"name": name, "ram": 128, "vcpus": 1, "disk": 1}
        made = self.made("compute", "/flavors", {"flavor": flavor})["flavor"]["id"]
        for site in SITES:
            path = f"/flavors/{made}"
            STACK.until(f"it is at {site}", lambda site=site: STACK.admin(site).get("compute", path).status == 200)

    def test_a_project_and_a_user_are_the_same_everywhere(self):
        name = f"name-{uuid.uuid4()}"
        project = self.made("identity", "/projects", {"project": {"name": name, "domain_id": "default"}})
        user = {"name": name, "domain_id": "default", "password": "secret"}
        user = self.made("identity", "/users", {"user": user})
        for kind, made in (("project", project), ("user", user)):
            path = f"/{kind}s/{made[kind]['id']}"
            for site in SITES:
                STACK.until(
                    f"{kind} at {site}",
                    lambda site=site, path=path, kind=kind: (
                        (answer := STACK.admin(site).get("identity", path)).status == 200
                        and answer.json[kind]["name"] == name
                    ),
                )

    def test_a_keypair_with_a_public_key_is_the_same_everywhere(self):
        key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2Kd1S5BfGd0kBtkZ5nIFaL0cVv7l0oqJWJ3uqXg3Bu test"
        name = f"key-{uuid.uuid4()}"
        self.made("compute", "/os-keypairs", {"keypair": {"name": name, "public_key": key}}, STACK.client(Site1))
        for site in SITES:
            path = f"/os-keypairs/{name}"
            STACK.until(f"it is at {site}", lambda site=site: STACK.client(site).get("compute", path).status == 200)


class NoRoom(unittest.TestCase):
    def quota(self, site, instances):
        admin = STACK.admin(site)
        path = f"/os-quota-sets/{STACK.client(site).project_id}"
        answer = admin.ask("PUT", "compute", path, {"quota_set": {"instances": instances, "force": True}})
        self.assertEqual(answer.status, 200, answer)

    def test_where_a_quota_is_used_up_the_next_site_is_taken(self):
        self.quota(Site1, 0)
        try:
            answer = self.boot_by_name("compute: Site1 ; Site2")
            self.assertEqual(answer.status, 202, answer)
            self.assertRegex(answer.sites, '"Site1";status=403.*"Site2";status=202')
        finally:
            self.quota(Site1, 1000)

    def boot_by_name(self, scope, **more):
        """What a server is made of has other ids elsewhere: so it is made of what was made everywhere."""
        admin = STACK.admin(Site1)
        made = admin.ask(
            "POST", "compute", "/flavors",
            {"flavor": {"name": f"flavor-{uuid.uuid4()}", "ram": more.get("ram", 64), "vcpus": 1, "disk": 1}},
            "compute: Site1 & Site2",
        )  # fmt: skip
        self.assertEqual(made.status, 200, made)
        flavor = made.json["flavor"]["id"]
        there = lambda: STACK.admin(Site2).get("compute", f"/flavors/{flavor}").status == 200
        STACK.until("the flavor is at Site2", there)
        alice = STACK.client(Site1)
        image = alice.image("everywhere", b"x" * 1024, "image: Site1 & Site2")
        server = {"name": "somewhere", "imageRef": image, "flavorRef": flavor, "networks": "none"}
        return alice.ask("POST", "compute", "/servers", {"server": server}, scope, more.get("headers", ()))
