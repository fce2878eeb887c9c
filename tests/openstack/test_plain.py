"""Without a scope, Archipel is not there."""

import re
import unittest

from harness import STACK, Site1, Site2, Site3
from stack import layout

LISTS = [
    ("identity", "/"),
    ("identity", "/projects"),
    ("identity", "/users"),
    ("identity", "/roles"),
    ("identity", "/domains"),
    ("identity", "/services"),
    ("identity", "/auth/projects"),
    ("image", "/images"),
    ("image", "/schemas/image"),
    ("compute", "/servers/detail?all_tenants=1"),
    ("compute", "/flavors/detail"),
    ("compute", "/os-keypairs"),
    ("compute", "/os-hypervisors/detail"),
    ("compute", "/os-services"),
    ("compute", "/limits"),
    ("compute", "/servers/no-such-server"),
    ("network", "/networks"),
    ("network", "/subnets"),
    ("network", "/ports"),
    ("network", "/extensions"),
    ("network", "/quotas"),
    ("placement", "/resource_providers"),
    ("placement", "/no-such-path"),
]

# Of each answer its own, or said of the last hop only.
OWN_HEADERS = {"date", "connection", "keep-alive", "x-openstack-request-id", "x-compute-request-id", "content-length"}
# Moments that pass between two answers.
MOMENTS = re.compile(rb'"(updated_at|last_heartbeat|heartbeat_timestamp|uptime|host_time)": ?("[^"]*"|null)')
REQUEST = re.compile(rb"req-[0-9a-f-]{36}")


class WithoutAScope(unittest.TestCase):
    def test_every_listing_is_what_the_service_says(self):
        for site in (Site1, Site2, Site3):
            through, direct = STACK.admin(site), STACK.admin(site, layout.UPSTREAM)
            for service, path in LISTS:
                with self.subTest(site=site, service=service, path=path):
                    one, other = through.get(service, path), direct.get(service, path)
                    self.assertEqual(one.status, other.status)
                    self.assertEqual(self.body(through, one), self.body(direct, other))
                    self.assertEqual(self.headers(through, one), self.headers(direct, other))

    def body(self, client, answer):
        """The answer without what differs from one moment, or from one address, to the next."""
        content = answer.content
        for service in layout.SERVICES:
            content = content.replace(client.site.address(service, client.side).encode(), b"HERE")
        return REQUEST.sub(b"REQUEST", MOMENTS.sub(b"MOMENT", content))

    def headers(self, client, answer):
        names = [name.lower() for name in answer.headers]
        return sorted(name for name in names if name not in OWN_HEADERS)

    def test_a_login_and_a_wrong_password_are_what_keystone_says(self):
        for side in (layout.PUBLIC, layout.UPSTREAM):
            client = STACK.client(Site1, side=side)
            wrong = {"user": {"name": "alice", "password": "wrong", "domain": {"id": "default"}}}
            body = {"auth": {"identity": {"methods": ["password"], "password": wrong}}}
            self.assertEqual(client.ask("POST", "identity", "/auth/tokens", body).status, 401)

    def test_a_server_boots_and_goes(self):
        alice = STACK.client(Site1)
        image, digest = STACK.image(Site1)
        server = alice.booted("plain", image)
        self.assertEqual(STACK.disk(Site1, server), digest)
        self.assertEqual(alice.ask("DELETE", "compute", f"/servers/{server}").status, 204)
        STACK.until("it is gone", lambda: alice.get("compute", f"/servers/{server}").status == 404)
