"""One list of several sites."""

import json
import unittest
from datetime import datetime, timedelta, timezone

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


class Projects(unittest.TestCase):
    """A client knows its project by the id that the site of its login gave it."""

    def test_the_quota_of_my_project_at_another_site(self):
        alice, there = STACK.client(Site1), STACK.client(Site2)
        for path in ("/os-quota-sets/{}", "/os-quota-sets/{}/detail"):
            found = alice.found("compute", path.format(alice.project_id), "compute: Site2")["quota_set"]
            self.assertEqual(found["id"], there.project_id)
        self.assertEqual(alice.found("network", f"/quotas/{alice.project_id}", "network: Site2")["quota"], self.quota(there))

    def test_the_quotas_of_my_project_at_all_sites_are_summed(self):
        alice, there = STACK.client(Site1), STACK.client(Site2)
        quota = lambda client, scope=None: client.found("compute", f"/os-quota-sets/{client.project_id}", scope)["quota_set"]
        both = quota(alice, "compute: Site1 & Site2")
        for name in ("cores", "instances", "ram"):
            self.assertEqual(both[name], quota(alice)[name] + quota(there)[name], name)

    def quota(self, client):
        return client.found("network", f"/quotas/{client.project_id}")["quota"]

    def test_lists_of_what_is_my_projects_at_another_site(self):
        alice, there = STACK.client(Site1), STACK.client(Site2)
        there.image("mine", b"x")
        for service, path, items in (
            ("network", "/security-groups?project_id={}", "security_groups"),
            ("network", "/security-groups?tenant_id={}", "security_groups"),
            ("image", "/images?owner={}&limit=1000", "images"),
        ):
            with self.subTest(path=path):
                ids = lambda found: sorted(item["id"] for item in found[items])
                mine = ids(alice.found(service, path.format(alice.project_id), f"{service}: Site2"))
                self.assertEqual(mine, ids(there.found(service, path.format(there.project_id))))
                self.assertTrue(mine)

    def test_no_other_project_than_the_tokens_is_meant(self):
        alice, bob, admin = STACK.client(Site1), STACK.client(Site1, "bob", "other"), STACK.admin(Site1)
        demo = STACK.client(Site2).project_id
        for somebody in (bob, admin):
            answer = somebody.get("compute", f"/os-quota-sets/{alice.project_id}", "compute: Site2")
            self.assertNotIn(demo.encode(), answer.content)

    def test_what_my_project_used_at_all_sites_is_summed(self):
        for site in (Site1, Site2):
            image, _ = STACK.image(site)
            STACK.client(site).booted("used", image)
        alice, there = STACK.client(Site1), STACK.client(Site2)
        # A time that is over: what was used in it stays the same.
        end = datetime.now(timezone.utc).replace(tzinfo=None)
        query = f"?start={(end - timedelta(days=1)).isoformat()}&end={end.isoformat()}"
        path = "/os-simple-tenant-usage/{}" + query
        own, other = (
            client.found("compute", path.format(client.project_id))["tenant_usage"] for client in (alice, there)
        )
        both = alice.found("compute", path.format(alice.project_id), "compute: Site1 & Site2")["tenant_usage"]
        names = lambda usage: sorted(server["instance_id"] for server in usage["server_usages"])
        self.assertEqual(names(both), sorted(names(own) + names(other)))
        for number in ("total_hours", "total_memory_mb_usage", "total_vcpus_usage"):
            self.assertGreater(other[number], 0)
            self.assertAlmostEqual(both[number], own[number] + other[number])

    def test_what_my_project_used_with_the_stock_client(self):
        shown = lambda scope: json.loads(STACK.openstack("Site1-alice", "usage", "show", "-f", "json", "--scope", scope))
        here, there, both = (shown(f"compute: {where}") for where in ("Site1", "Site2", "Site1 & Site2"))
        self.assertEqual(len(both["Servers"] or ()), len(here["Servers"] or ()) + len(there["Servers"] or ()))
