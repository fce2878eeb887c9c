"""Tokens that live for a minute, and what takes longer."""

import os
import unittest
import uuid

from harness import STACK, Site1, Site2, Site3
from stack import Client, digest, layout

SECONDS = 60
HERE, AWAY, OTHER = Site1, Site2, Site3


def fresh(user, project):
    """Somebody who logs in now: others of their tokens may be older."""
    return Client(STACK, HERE, user, project, layout.PUBLIC)


class ShortTokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Who looks what became of it has a token of before.
        cls.at = {user: STACK.client(AWAY, user, project) for user, project in (("alice", "demo"), ("admin", "admin"))}
        STACK.tokens_live(SECONDS, HERE, AWAY)

    @classmethod
    def tearDownClass(cls):
        STACK.tokens_live(None, HERE, AWAY)

    def status(self, token):
        """What the Keystone that issued a token says of it, asked directly."""
        headers = {"X-Auth-Token": token, "X-Subject-Token": token}
        return STACK.client(HERE, side=layout.UPSTREAM).get("identity", "/auth/tokens", headers=headers).status

    def test_what_was_accepted_is_done_at_a_site_that_comes_back_after_its_token_ended(self):
        alice, admin, nova = fresh("alice", "demo"), fresh("admin", "admin"), STACK.client(OTHER, "nova", "service")
        # By this the third site learns who issued the token.
        self.assertEqual(alice.get("network", "/networks", f"network: {OTHER}").status, 200)
        STACK.away(AWAY)
        try:
            content = os.urandom(1 << 20)
            image = alice.image("late", content, f"image: {HERE} & {AWAY}")
            flavor = {"flavor": {"name": f"late-{uuid.uuid4()}", "ram": 64, "vcpus": 1, "disk": 1}}
            made = admin.ask("POST", "compute", "/flavors", flavor, f"compute: {HERE} & {AWAY}")
            self.assertEqual(made.status, 200, made)
            self.assertIn(f'"{AWAY}";pending', made.sites)
            tokens = [alice.token, admin.token]
            self.assertEqual([self.status(token) for token in tokens], [200, 200])
            STACK.until("the tokens have ended", lambda: all(self.status(token) != 200 for token in tokens))
            self.assertEqual([self.status(token) for token in tokens], [401, 401])
            self.assertEqual(STACK.files_with(tokens)[0], [])
        finally:
            STACK.back(AWAY)
        flavor = f"/flavors/{made.json['flavor']['id']}"
        STACK.until("the flavor is there", lambda: self.at["admin"].get("compute", flavor).status == 200)
        STACK.until(
            "the image is there",
            lambda: digest(self.at["alice"].get("image", f"/images/{image}/file").content) == digest(content),
        )
        self.assertEqual(STACK.files_with(tokens)[0], [])
        self.ended(alice, nova)

    def ended(self, alice, nova):
        """A token that has ended counts at another site where a service vouches for it, and only there."""

        def status(service, path, vouching=None):
            headers = {"X-Service-Token": vouching} if vouching else {}
            return alice.get(service, path, f"{service}: {OTHER}", headers=headers).status

        self.assertEqual(status("image", "/images"), 401)
        self.assertEqual(status("image", "/images", STACK.client(OTHER).token), 401, "alice is no service")
        self.assertEqual(status("image", "/images", nova.token), 200)
        # A service that calls across sites has a token of its own site. Services remember tokens: so another is asked.
        self.assertEqual(status("compute", "/servers", fresh("nova", "service").token), 200)
