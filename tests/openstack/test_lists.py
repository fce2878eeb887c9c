"""One list of several sites."""

import unittest

from harness import STACK, Site1, Site2, Site3

ALL = "compute: Site1 & Site2 & Site3"


class Lists(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = {}
        for site in (Site1, Site2, Site3):
            image, _ = STACK.image(site)
            for number in range(2):
                cls.servers[STACK.client(site).booted(f"listed-{number}", image)] = site

    def listed(self, answer):
        return {item["id"]: item.get("scope_site") for item in answer.json["servers"] if item["id"] in self.servers}

    def test_the_servers_of_all_sites_each_with_its_site(self):
        answer = STACK.client(Site1).get("compute", "/servers/detail?name=listed", ALL)
        self.assertEqual(answer.status, 200, answer)
        self.assertEqual(self.listed(answer), self.servers)

    def test_page_by_page_each_once(self):
        alice, path, seen = STACK.client(Site1), "/servers?name=listed&limit=2", []
        while path:
            answer = alice.get("compute", path, ALL)
            self.assertEqual(answer.status, 200, answer)
            seen += [item["id"] for item in answer.json["servers"]]
            following = [link["href"] for link in answer.json.get("servers_links", []) if link["rel"] == "next"]
            path = following[0].partition("/v2.1")[2] if following else None
            self.assertLessEqual(len(answer.json["servers"]), 2)
        self.assertEqual(sorted(seen), sorted(self.servers))

    def test_a_site_that_is_cut_off_is_named(self):
        STACK.cut(Site3)
        try:
            answer = STACK.client(Site1).get("compute", "/servers/detail?name=listed", ALL)
            self.assertEqual(answer.status, 200, answer)
            there = {server for server, site in self.servers.items() if site != Site3}
            self.assertEqual(set(self.listed(answer)), there)
            self.assertIn('"Site3";error=', answer.sites)
            strict = STACK.client(Site1).get("compute", "/servers", ALL, headers={"X-Scope-Strict": "true"})
            self.assertEqual(strict.status, 504, strict)
        finally:
            STACK.heal()

    def test_images_of_all_sites_in_one_order(self):
        path = "/images?sort=name:asc&limit=100"
        answer = STACK.client(Site1).get("image", path, "image: Site1 & Site2 & Site3")
        self.assertEqual(answer.status, 200, answer)
        names = [image["name"] for image in answer.json["images"]]
        self.assertEqual(names, sorted(names))
        self.assertTrue({"image-Site1", "image-Site2", "image-Site3"} <= set(names), names)

    def test_limits_are_summed(self):
        alice = STACK.client(Site1)
        here = alice.found("compute", "/limits")["limits"]["absolute"]
        there = STACK.client(Site2).found("compute", "/limits")["limits"]["absolute"]
        both = alice.found("compute", "/limits", "compute: Site1 & Site2")["limits"]["absolute"]
        for name in ("maxTotalCores", "maxTotalInstances", "totalCoresUsed"):
            self.assertEqual(both[name], here[name] + there[name], name)
