"""The same users, projects, flavors and keys at every site; quotas; servers that find no host."""

import unittest
import uuid

from harness import STACK, Site1, Site2, Site3

SITES = (Site1, Site2, Site3)
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2Kd1S5BfGd0kBtkZ5nIFaL0cVv7l0oqJWJ3uqXg3Bu test"


def everywhere(service):
    return f"{service}: Site1 & Site2 & Site3"


class Administration(unittest.TestCase):
    def gone(self, service, path):
        """Deletes something everywhere: other tests see each site's own."""
        answer = STACK.admin(Site1).ask("DELETE", service, path)
        self.assertIn(answer.status, (202, 204), answer)
        for site in SITES:
            STACK.until(f"gone at {site}", lambda site=site: STACK.admin(site).get(service, path).status == 404)

    def made(self, service, path, body, client=None):
        answer = (client or STACK.admin(Site1)).ask("POST", service, path, body, everywhere(service))
        self.assertIn(answer.status, (200, 201), answer)
        return answer.json

    def test_a_flavor_is_the_same_everywhere(self):
        name = f"flavor-{uuid.uuid4()}"
        flavor = {"name": name, "ram": 128, "vcpus": 1, "disk": 1}
        made = self.made("compute", "/flavors", {"flavor": flavor})["flavor"]["id"]
        self.addCleanup(self.gone, "compute", f"/flavors/{made}")
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
            self.addCleanup(self.gone, "identity", path)
            for site in SITES:
                STACK.until(
                    f"{kind} at {site}",
                    lambda site=site, path=path, kind=kind: (
                        (answer := STACK.admin(site).get("identity", path)).status == 200
                        and answer.json[kind]["name"] == name
                    ),
                )

    def test_a_keypair_is_its_users_and_made_at_each_site_by_itself(self):
        key = {"name": f"key-{uuid.uuid4()}", "public_key": KEY}
        alice = STACK.client(Site1)
        refused = alice.ask("POST", "compute", "/os-keypairs", {"keypair": key}, everywhere("compute"))
        self.assertEqual(refused.status, 422, refused)
        for site in SITES:
            answer = alice.ask("POST", "compute", "/os-keypairs", {"keypair": key}, f"compute: {site}")
            self.assertEqual(answer.status, 201, answer)
            self.assertEqual(STACK.client(site).get("compute", f"/os-keypairs/{key['name']}").status, 200)


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

    def compute(self, site, status):
        """Lets Nova's scheduler have the site's one host, or not."""
        admin = STACK.admin(site)
        [host] = admin.found("compute", "/os-services?binary=nova-compute")["services"]
        answer = admin.ask("PUT", "compute", f"/os-services/{host['id']}", {"status": status})
        self.assertEqual(answer.status, 200, answer)

    def test_where_no_host_has_room_the_server_is_taken_back_and_made_at_the_next_site(self):
        self.compute(Site1, "disabled")
        try:
            answer = self.boot_by_name("compute: Site1 ; Site2", headers={"X-Scope-Settle": "true"})
            self.assertEqual(answer.status, 202, answer)
            self.assertRegex(answer.sites, '"Site1";error=undone.*"Site2";status=202')
            server = answer.json["server"]["id"]
            STACK.client(Site2).wait_for(server)
            left = STACK.client(Site1).found("compute", "/servers?name=somewhere")["servers"]
            self.assertEqual(left, [])
        finally:
            self.compute(Site1, "enabled")

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
