"""The same users, projects, flavors and keys at every site; quotas; servers that find no host."""

import json
import tempfile
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


class KeyPairs(unittest.TestCase):
    def setUp(self):
        self.name = f"key-{uuid.uuid4()}"
        self.path = f"/os-keypairs/{self.name}"

    def made(self, client, scope, **fields):
        key = {"name": self.name, "public_key": KEY, **fields}
        key = {name: value for name, value in key.items() if value is not None}
        return client.ask("POST", "compute", "/os-keypairs", {"keypair": key}, scope)

    def at(self, site, user="alice", project="demo"):
        answer = STACK.client(site, user, project).get("compute", self.path)
        return answer.json["keypair"] if answer.status == 200 else None

    def everywhere(self, there):
        for site in SITES:
            STACK.until(f"at {site}: {there}", lambda site=site: bool(self.at(site)) == there)

    def test_mine_is_mine_at_every_site_until_i_delete_it_at_one(self):
        # Twice: a name is free again.
        for _ in range(2):
            answer = self.made(STACK.client(Site1), everywhere("compute"))
            self.assertIn(answer.status, (200, 201), answer)
            self.everywhere(True)
            for site in SITES:
                own, found = STACK.client(site), self.at(site)
                self.assertEqual((found["user_id"], found["public_key"]), (own.user_id, KEY))
            answer = STACK.client(Site2).ask("DELETE", "compute", self.path)
            self.assertIn(answer.status, (202, 204), answer)
            self.everywhere(False)

    def test_a_list_of_all_sites_has_it_once(self):
        self.assertIn(self.made(STACK.client(Site1), everywhere("compute")).status, (200, 201))
        self.everywhere(True)
        listed = STACK.client(Site1).found("compute", "/os-keypairs", everywhere("compute"))["keypairs"]
        [own] = [item for item in listed if item["keypair"]["name"] == self.name]
        self.assertEqual(own["scope_site"], "Site1 & Site2 & Site3")

    def test_somebody_elses_of_the_same_name_is_another(self):
        bob = STACK.client(Site1, "bob", "other")
        self.assertIn(self.made(STACK.client(Site1), everywhere("compute")).status, (200, 201))
        self.everywhere(True)
        self.assertIn(self.made(bob, None).status, (200, 201))
        self.assertIsNone(self.at(Site2, "bob", "other"))
        self.assertIn(bob.ask("DELETE", "compute", self.path).status, (202, 204))
        self.assertIsNone(self.at(Site1, "bob", "other"))
        self.assertEqual(bob.ask("DELETE", "compute", self.path).status, 404)
        self.everywhere(True)

    def test_one_that_a_site_would_have_to_make_is_refused_and_so_is_one_for_somebody_else(self):
        for fields, why in (({"public_key": None}, "public_key"), ({"user_id": "0" * 32}, "user_id")):
            refused = self.made(STACK.client(Site1), everywhere("compute"), **fields)
            self.assertEqual(refused.status, 422, refused)
            self.assertIn(why, refused.json["error"]["message"])
            self.everywhere(False)

    def test_a_site_that_was_away_has_it_later(self):
        STACK.cut(Site3)
        try:
            self.assertIn(self.made(STACK.client(Site1), everywhere("compute")).status, (200, 201))
        finally:
            STACK.heal()
        self.everywhere(True)

    def test_with_the_stock_client(self):
        scope = ("--scope", everywhere("compute"))
        with tempfile.NamedTemporaryFile("w", suffix=".pub") as file:
            file.write(KEY + "\n")
            file.flush()
            STACK.openstack("Site1-alice", "keypair", "create", "--public-key", file.name, self.name, *scope)
        self.everywhere(True)
        listed = json.loads(STACK.openstack("Site1-alice", "keypair", "list", "-f", "json", *scope))
        self.assertEqual([row["Name"] for row in listed].count(self.name), 1)
        STACK.openstack("Site1-alice", "keypair", "delete", self.name, *scope)
        self.everywhere(False)


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
