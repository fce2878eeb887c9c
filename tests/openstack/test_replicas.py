"""One image at several sites, under one id."""

import os
import tempfile
import unittest

from harness import STACK, Site1, Site2, Site3
from stack import digest

BOTH = "image: Site1 & Site2"
PATCH = {"Content-Type": "application/openstack-images-v2.1-json-patch"}


class AReplicatedImage(unittest.TestCase):
    def setUp(self):
        self.content = os.urandom(1 << 20)
        self.image = STACK.client(Site1).image("replicated", self.content, BOTH)
        for site in (Site1, Site2):
            STACK.until(f"it is active at {site}", lambda site=site: self.at(site)["status"] == "active")

    def at(self, site):
        answer = STACK.client(site).get("image", f"/images/{self.image}")
        return answer.json if answer.status == 200 else {"status": answer.status}

    def test_it_has_one_id_and_its_content_everywhere(self):
        for site in (Site1, Site2):
            stored = STACK.client(site).get("image", f"/images/{self.image}/file")
            self.assertEqual(digest(stored.content), digest(self.content))
        listed = STACK.client(Site1).found("image", "/images?name=replicated&limit=1000", BOTH)["images"]
        self.assertEqual([image["id"] for image in listed].count(self.image), 1)

    def test_servers_boot_from_it_at_each_site_while_they_are_cut_apart(self):
        STACK.cut(Site1, Site2)
        try:
            for site in (Site1, Site2):
                server = STACK.client(site).booted("replica", self.image)
                self.assertEqual(STACK.disk(site, server), digest(self.content))
        finally:
            STACK.heal()

    def test_it_is_renamed_and_deleted_everywhere_also_at_a_site_that_was_away(self):
        alice = STACK.client(Site1)
        STACK.cut(Site2)
        try:
            order = [{"op": "replace", "path": "/name", "value": "renamed"}]
            answer = alice.ask("PATCH", "image", f"/images/{self.image}", order, headers=PATCH)
            self.assertEqual(answer.status, 200, answer)
            self.assertIn('"Site2";pending', answer.sites)
        finally:
            STACK.heal()
        STACK.until("Site2 has the new name", lambda: self.at(Site2).get("name") == "renamed")
        answer = STACK.client(Site2).ask("DELETE", "image", f"/images/{self.image}")
        self.assertEqual(answer.status, 204, answer)
        for site in (Site1, Site2):
            STACK.until(f"it is gone at {site}", lambda site=site: self.at(site)["status"] == 404)

    def test_its_members_are_told_once(self):
        alice, bob = STACK.client(Site1), STACK.client(Site1, "bob", "other")
        answer = alice.ask("POST", "image", f"/images/{self.image}/members", {"member": bob.project_id})
        self.assertEqual(answer.status, 200, answer)
        listed = alice.found("image", f"/images/{self.image}/members", BOTH)["members"]
        self.assertEqual([member["member_id"] for member in listed], [bob.project_id])

    def test_it_is_renamed_by_both_kinds_of_patch_that_glance_takes(self):
        drafted = {"Content-Type": "application/openstack-images-v2.0-json-patch"}
        for headers, order in (
            (PATCH, [{"op": "replace", "path": "/name", "value": "first"}]),
            (drafted, [{"replace": "/name", "value": "second"}]),
        ):
            answer = STACK.client(Site1).ask("PATCH", "image", f"/images/{self.image}", order, headers=headers)
            self.assertEqual(answer.status, 200, answer)
        for site in (Site1, Site2):
            STACK.until(f"{site} has the new name", lambda site=site: self.at(site).get("name") == "second")

    def test_tags_written_one_by_one_and_all_at_once_across_a_cut_end_alike(self):
        def set_all(site, tags):
            order = [{"op": "replace", "path": "/tags", "value": tags}]
            answer = STACK.client(site).ask("PATCH", "image", f"/images/{self.image}", order, headers=PATCH)
            self.assertEqual(answer.status, 200, answer)

        set_all(Site1, ["old"])
        STACK.until("Site2 has the tag", lambda: self.at(Site2).get("tags") == ["old"])
        STACK.cut(Site1, Site2)
        try:
            answer = STACK.client(Site1).ask("DELETE", "image", f"/images/{self.image}/tags/old")
            self.assertEqual(answer.status, 204, answer)
            set_all(Site2, ["new", "old"])
        finally:
            STACK.heal()
        for site in (Site1, Site2):
            STACK.until(f"{site} has one tag", lambda site=site: self.at(site).get("tags") == ["new"])

    def test_it_belongs_to_the_project_of_that_name_at_each_site(self):
        for site in (Site1, Site2):
            self.assertEqual(self.at(site)["owner"], STACK.client(site).project_id)


class Credentials(unittest.TestCase):
    def test_no_file_of_archipels_holds_a_token(self):
        # Of a write that waits for a site, all that is needed later is kept.
        STACK.cut(Site2)
        try:
            alice = STACK.client(Site1)
            image = {"name": "waits", "disk_format": "raw", "container_format": "bare"}
            answer = alice.ask("POST", "image", "/images", image, BOTH)
            self.assertEqual(answer.status, 201, answer)
            found, read = STACK.files_with(client.token for client in STACK.clients.values())
            self.assertEqual(found, [])
            self.assertGreater(read, 1 << 16)
        finally:
            STACK.heal()


class ALongImage(unittest.TestCase):
    def test_two_gibibytes_reach_another_site(self):
        with tempfile.TemporaryFile() as content:
            block = os.urandom(1 << 20)
            for _ in range(2048):
                content.write(block)
            content.seek(0)
            image = STACK.client(Site1).image("long", content, "image: Site2")
        found = STACK.client(Site2).found("image", f"/images/{image}")
        self.assertEqual((found["status"], found["size"]), ("active", 2 << 30))
        self.assertEqual(STACK.client(Site2).ask("DELETE", "image", f"/images/{image}").status, 204)


class Away(unittest.TestCase):
    def test_a_site_that_nobody_reaches_works_as_ever(self):
        STACK.cut(Site3)
        try:
            image, content = STACK.image(Site3)
            alice = STACK.client(Site3)
            alice.log_in("alice", "demo")
            server = alice.booted("alone", image)
            self.assertEqual(STACK.disk(Site3, server), content)
            for service, path in (("image", "/images"), ("network", "/networks"), ("compute", "/servers")):
                self.assertEqual(alice.get(service, path).status, 200)
        finally:
            STACK.heal()
