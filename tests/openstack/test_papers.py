"""The commands that the papers print, with the stock client and the plugin, their scopes quoted for the shell."""

import json
import os
import tempfile
import unittest
import uuid

from harness import STACK, Site1, Site2, Site3
from stack import digest

# The papers' other names for the sites, as zones.
NAMES = {"DC 1": Site1, "DC 2": Site2, "Zone1": Site1, "Zone2": Site2, "Zone3": Site3}
# What a server needs in any cloud, and the papers leave out.
SERVER = ("--flavor", "tiny", "--network", "net", "--wait")


def run(*arguments):
    return STACK.openstack("Site1-alice", *arguments)


def shown(*arguments):
    return json.loads(run(*arguments, "-f", "json"))


class Papers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        for name, site in NAMES.items():
            STACK.archipel(Site1, "zone", "set", f"{name}={site}")
        cls.contents = {site: os.urandom(4096) for site in (Site1, Site2)}
        # At Site1 and at Site2, each its own.
        cls.debian = {site: STACK.client(site).image("debian", cls.contents[site]) for site in cls.contents}

    @classmethod
    def tearDownClass(cls):
        for site, image in cls.debian.items():
            STACK.client(site).ask("DELETE", "image", f"/images/{image}")

    def boots(self, sites, *scope):
        """A server at Site1 whose disk is the image of one of these sites."""
        made = shown("server", "create", "my-vm", "--image", "debian", *SERVER, *scope)
        self.assertEqual(made["status"], "ACTIVE", made)
        self.assertIn(STACK.disk(Site1, made["id"]), [digest(self.contents[site]) for site in sites])

    def test_a_local_boot(self):
        self.boots([Site1])

    def test_a_boot_with_the_image_of_another_site(self):
        self.boots([Site2], "--scope-ctx", "{ compute: Site1, image: Site2 }")
        self.boots([Site1], "--scope", "{ compute: DC 1, image: DC 1 }")
        self.boots([Site2], "--scope", "{ compute: DC 1, image: DC 2 }")
        self.boots([Site2], "--os-scope", '{"Compute": "Zone1", "Image": "Zone2"}')

    def test_a_boot_with_the_image_of_whoever_has_it(self):
        # One command asks for its image several times, by name and by id: each time of whoever answers first. So both have it.
        image = self.replicated("--scope", "{ image: Site1 & Site2 }")
        for scope in ("{ compute: Site1, image: Site1|Site2 }", "{ compute: Site1, image: around(Site1, 10s) }"):
            made = shown("server", "create", "my-vm", "--image", image, *SERVER, "--scope-ctx", scope)
            self.assertEqual(made["status"], "ACTIVE", made)
            self.assertEqual(STACK.disk(Site1, made["id"]), digest(self.contents[Site1]))

    def test_the_servers_of_two_sites(self):
        image, _ = STACK.image(Site2)
        there = STACK.client(Site2).booted("listed", image)
        listed = shown("server", "list", "--scope-ctx", "{ compute: Site1&Site2 }")
        self.assertEqual({row["Site"] for row in listed} - {Site1}, {Site2})
        self.assertIn(there, [row["ID"] for row in listed])

    def replicated(self, *arguments):
        name = f"debian-{uuid.uuid4()}"
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.contents[Site1])
            file.flush()
            return shown("image", "create", name, "--file", file.name, *arguments)["id"]

    def test_an_image_at_several_sites(self):
        made = {
            self.replicated("--scope-ctx", "{ glance: Site1&Site2&Site3 }"): (Site1, Site2, Site3),
            self.replicated("--scope", "{ image: DC 1 & DC 2 }"): (Site1, Site2),
            self.replicated("--scope", '{"Identity": "Zone1", "Image": "Zone1 && Zone2 && Zone3"}'): (Site1, Site2, Site3),
        }
        for image, sites in made.items():
            for site in sites:
                path = f"/images/{image}/file"
                there = lambda site=site, path=path: STACK.client(site).get("image", path).content == self.contents[Site1]
                STACK.until(f"{image} is at {site}", there)

    def test_a_server_at_one_of_two_sites(self):
        scope = '{"Identity": "Zone1", "Compute": "Zone1||Zone2", "Image": "Zone1"}'
        made = shown("server", "create", "my-vm", "--image", "debian", *SERVER, "--scope", scope)
        self.assertEqual(made["status"], "ACTIVE", made)

    def test_the_sites(self):
        listed = {row["Site"]: row["Reach"] for row in shown("site", "list")}
        self.assertEqual(listed, {Site1: "here", Site2: "reachable", Site3: "reachable"})

    def test_a_server_with_the_network_of_another_site_is_refused_before_anything_is_made(self):
        name = f"apart-{uuid.uuid4()}"
        for scope in ("{ compute: Site1 , network: Site2 }", "{ compute: Site1, network: Site1 | Site2 }"):
            create = ("server", "create", name, "--image", "debian", *SERVER, "--scope-ctx", scope)
            refused = STACK.ran("Site1-alice", *create)
            self.assertNotEqual(refused.returncode, 0, refused)
            self.assertIn("These services must be at one site", refused.stderr)
        # Without a word on networks in the scope, Nova does not find another site's.
        alice, (image, _) = STACK.client(Site1), STACK.image(Site1)
        server = {"name": name, "imageRef": image, "flavorRef": STACK.first(Site1, "flavors")}
        server["networks"] = [{"uuid": STACK.first(Site2, "networks")}]
        self.assertEqual(alice.ask("POST", "compute", "/servers", {"server": server}, "compute: Site1").status, 400)
        for site in (Site1, Site2):
            self.assertEqual(STACK.client(site).found("compute", f"/servers?name={name}")["servers"], [])
        made = shown("server", "create", name, "--image", "debian", *SERVER, "--scope", "compute: Site1, network: Site1")
        self.assertEqual(made["status"], "ACTIVE", made)
