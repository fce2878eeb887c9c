"""A service of one site with a service of another."""

import json
import os
import unittest

from harness import STACK, Site1, Site2, Site3
from stack import digest


class AnImageOfAnotherSite(unittest.TestCase):
    def test_a_server_boots_from_an_image_that_only_another_site_has(self):
        image, content = STACK.image(Site2)
        self.assertEqual(STACK.client(Site1).get("image", f"/images/{image}").status, 404)
        server = STACK.client(Site1).booted("shared", image, "compute: Site1, image: Site2")
        self.assertEqual(STACK.disk(Site1, server), content)

    def test_in_every_direction(self):
        for here, there in ((Site2, Site3), (Site3, Site1)):
            with self.subTest(here=here, there=there):
                image, content = STACK.image(there)
                server = STACK.client(here).booted("shared", image, f"image: {there}")
                self.assertEqual(STACK.disk(here, server), content)

    def test_a_private_image_of_my_project_is_mine_at_the_other_site_and_nobody_elses(self):
        alice = STACK.client(Site2)
        content = os.urandom(1 << 20)
        image = alice.image("private", content, visibility="private")
        server = STACK.client(Site1).booted("mine", image, "image: Site2")
        self.assertEqual(STACK.disk(Site1, server), digest(content))
        bob = STACK.client(Site1, "bob", "other")
        self.assertEqual(bob.get("image", f"/images/{image}", "image: Site2").status, 404)

    def test_a_race_and_a_fallback_find_it_wherever_it_is(self):
        for scope in ("image: Site1 | Site2", "image: Site1 ; Site2"):
            for site in (Site1, Site2):
                with self.subTest(scope=scope, site=site):
                    image, content = STACK.image(site)
                    server = STACK.client(Site1).booted("found", image, scope)
                    self.assertEqual(STACK.disk(Site1, server), content)

    def test_also_while_the_other_one_is_cut_off(self):
        image, content = STACK.image(Site1)
        STACK.cut(Site2)
        try:
            for scope in ("image: Site1 | Site2", "image: Site2 ; Site1"):
                with self.subTest(scope=scope):
                    server = STACK.client(Site1).booted("found", image, scope)
                    self.assertEqual(STACK.disk(Site1, server), content)
        finally:
            STACK.heal()

    def test_a_snapshot_taken_here_is_stored_there(self):
        alice = STACK.client(Site1)
        image, content = STACK.image(Site1)
        server = alice.booted("original", image)
        order = {"createImage": {"name": "snapshot"}}
        answer = alice.ask("POST", "compute", f"/servers/{server}/action", order, "image: Site2")
        self.assertEqual(answer.status, 202, answer)
        snapshot = answer.json["image_id"]
        at_2 = STACK.client(Site2)

        def active():
            answer = at_2.get("image", f"/images/{snapshot}")
            return answer.status == 200 and answer.json["status"] == "active"

        STACK.until("the snapshot is active at Site2", active)
        stored = at_2.get("image", f"/images/{snapshot}/file")
        self.assertEqual(digest(stored.content), content)
        self.assertEqual(alice.get("image", f"/images/{snapshot}").status, 404)


class AServerElsewhere(unittest.TestCase):
    def test_a_token_of_this_site_makes_a_server_at_another(self):
        image, content = STACK.image(Site2)
        # Flavors and networks are Site2's: so are their ids.
        server = {
            "name": "far",
            "imageRef": image,
            "flavorRef": STACK.first(Site2, "flavors"),
            "networks": [{"uuid": STACK.first(Site2, "networks")}],
        }
        alice = STACK.client(Site1)
        answer = alice.ask("POST", "compute", "/servers", {"server": server}, "compute: Site2")
        self.assertEqual(answer.status, 202, answer)
        made = answer.json["server"]["id"]
        alice.wait_for(made, "compute: Site2")
        self.assertEqual(STACK.disk(Site2, made), content)
        # It is alice's own there.
        self.assertEqual(STACK.client(Site2).get("compute", f"/servers/{made}").status, 200)
        self.assertEqual(STACK.client(Site2, "bob", "other").get("compute", f"/servers/{made}").status, 404)


class Identity(unittest.TestCase):
    def test_the_role_of_a_user_is_that_of_the_site_that_is_asked(self):
        # An administrator here may ask for the servers of all projects; alice may not there, whatever she is here.
        path = "/servers/detail?all_tenants=1"
        alice, admin = STACK.client(Site1), STACK.admin(Site1)
        self.assertEqual(alice.get("compute", path, "compute: Site2").status, 403)
        self.assertEqual(admin.get("compute", path, "compute: Site2").status, 200)

    def test_a_revoked_token_is_nothing_anywhere(self):
        client = type(STACK.client(Site1))(STACK, Site1, "alice", "demo", STACK.client(Site1).side)
        self.assertEqual(client.get("image", "/images", "image: Site2").status, 200)
        revoked = client.ask("DELETE", "identity", "/auth/tokens", headers={"X-Subject-Token": client.token})
        self.assertEqual(revoked.status, 204, revoked)
        self.assertEqual(client.get("image", "/images", "image: Site3").status, 401)

    def test_a_token_that_nobody_issued_is_refused(self):
        made_up = {"X-Auth-Token": "gAAAAABmade-up"}
        for scope in (None, "image: Site2"):
            self.assertEqual(STACK.client(Site1).get("image", "/images", scope, headers=made_up).status, 401)

    def test_keystone_takes_no_token_of_another_site_and_the_answer_says_what_to_do(self):
        answer = STACK.admin(Site1).get("identity", "/users", "identity: Site2")
        self.assertEqual(answer.status, 401, answer)
        self.assertEqual(answer.json["error"]["type"], "urn:archipel:token-of-another-site")
        self.assertIn("log in there", answer.json["error"]["message"])

    def test_who_logs_in_with_a_scope_uses_the_keystone_of_another_site(self):
        there = STACK.client(Site2).user_id
        for scope in ("identity: Site2", "identity: Site2, compute: Site1"):
            listed = json.loads(STACK.openstack("Site1-admin", "user", "list", "-f", "json", "--scope", scope))
            self.assertIn(there, [row["ID"] for row in listed])
        # That token counts at other sites as any other does.
        listed = json.loads(STACK.openstack("Site1-admin", "hypervisor", "list", "-f", "json", "--scope", scope))
        self.assertEqual(len(listed), 1)
