"""The stock `openstack` client with this plugin installed, against a cloud that is a few lines of Python.

Run with the Python that has the client: on Debian, `/usr/bin/python3 -m unittest discover -t . tests`.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from tests.cloud import Cloud

PACKAGE = Path(__file__).resolve().parents[1]


def server(identifier, site=None):
    made = {"id": identifier, "name": f"vm-{identifier}", "status": "ACTIVE", "addresses": {}, "image": "", "flavor": {"id": "f"}}
    return {**made, **({"scope_site": site} if site else {})}


@unittest.skipUnless(importlib.util.find_spec("openstackclient"), "this Python has no openstackclient")
class StockClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Installs the plugin as a user would, into a directory of its own."""
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.path = directory.name
        # From a copy: setuptools builds inside the source.
        source = Path(cls.path) / "source"
        subprocess.run(["cp", "-r", str(PACKAGE), str(source)], check=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        done = subprocess.run(
            [*pip, "--root-user-action=ignore", "--target", f"{cls.path}/site", str(source)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise unittest.SkipTest(f"the plugin cannot be installed here: {done.stderr.strip()[-300:]}")

    def cloud(self, **given):
        made = Cloud(**given)
        self.addCleanup(made.close)
        return made

    def openstack(self, cloud, *arguments, **environment):
        login = {
            "OS_AUTH_URL": f"{cloud.url}/v3",
            "OS_USERNAME": "alice",
            "OS_PASSWORD": "p",
            "OS_PROJECT_NAME": "demo",
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_IDENTITY_API_VERSION": "3",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_") and "proxy" not in name.lower()}
        return subprocess.run(
            [sys.executable, "-m", "openstackclient.shell", *arguments],
            env=kept | login | {"PYTHONPATH": f"{self.path}/site", "HOME": self.path} | environment,
            capture_output=True, text=True, check=False, cwd=self.path,
        )  # fmt: skip

    def scopes(self, cloud):
        """The scopes that came, of all requests; at least login and list are among them."""
        paths = {path for _, path, _ in cloud.asked}
        self.assertLessEqual({"/v3/auth/tokens", "/v2.1/servers/detail"}, paths)
        return {headers.get("X-Scope") for _, _, headers in cloud.asked}

    def listed(self, *arguments, **environment):
        cloud = self.cloud(items=[server("1")])
        done = self.openstack(cloud, *arguments, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.scopes(cloud)

    def test_every_request_carries_the_scope_also_login_and_discovery(self):
        self.assertEqual(self.listed("--scope", "compute: Site1", "server", "list", "-n"), {"compute: Site1"})

    def test_the_scope_may_stand_after_the_command_and_be_spelled_as_in_the_papers(self):
        for option in ("--scope", "--os-scope", "--scope-ctx"):
            self.assertEqual(self.listed("server", "list", "-n", option, "{compute: Site2}"), {"{compute: Site2}"})

    def test_the_scope_may_come_from_the_environment_and_the_option_counts_before_it(self):
        self.assertEqual(self.listed("server", "list", "-n", OS_SCOPE="image: A"), {"image: A"})
        self.assertEqual(self.listed("server", "list", "-n", "--scope", "image: B", OS_SCOPE="image: A"), {"image: B"})

    def test_without_a_scope_no_header_is_sent(self):
        self.assertEqual(self.listed("server", "list", "-n"), {None})

    def test_a_scope_of_several_lines_is_one_header(self):
        self.assertEqual(self.listed("server", "list", "-n", OS_SCOPE="compute: A,\n  image: B\n"), {"compute: A, image: B"})

    def test_a_scope_that_is_not_ascii_is_refused_before_anything_is_asked(self):
        cloud = self.cloud()
        done = self.openstack(cloud, "--scope", "compute: Zürich", "server", "list")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("ASCII", done.stderr)
        self.assertEqual(cloud.asked, [])

    def test_a_merged_list_says_the_site_of_each_item(self):
        cloud = self.cloud(items=[server("1", "Site1"), server("2", "Site2")])
        done = self.openstack(cloud, "server", "list", "-n", "-f", "json", "--scope", "compute: Site1 & Site2")
        self.assertEqual([row["Site"] for row in json.loads(done.stdout)], ["Site1", "Site2"], done.stderr)

    def test_a_plain_list_has_no_new_column(self):
        done = self.openstack(self.cloud(items=[server("1")]), "server", "list", "-n", "-f", "json")
        self.assertNotIn("Site", json.loads(done.stdout)[0])

    def test_a_site_that_is_missing_is_told_on_stderr_and_the_list_stays_clean(self):
        headers = {"Scope-Sites": '"Site1";status=200, "Site2";error=unreachable', "Warning": '299 - "a site is missing"'}
        cloud = self.cloud(items=[server("1", "Site1")], headers=headers)
        done = self.openstack(cloud, "server", "list", "-n", "-f", "json")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr.strip(), "warning: Site2 is missing from this list (unreachable)")
        self.assertEqual(len(json.loads(done.stdout)), 1)

    def test_the_sites_are_listed_as_the_mesh_tells_them(self):
        sites = [
            {"site": "Site1", "reach": "here", "rtt_ms": 0.0, "services": ["compute", "image"]},
            {"site": "Site2", "reach": "unreachable", "rtt_ms": None, "services": []},
        ]
        cloud = self.cloud(sites={"here": "Site1", "sites": sites})
        done = self.openstack(cloud, "site", "list", "-f", "value")
        self.assertEqual(
            done.stdout.splitlines(),
            ["Site1 here 0.0 ms compute, image", "Site2 unreachable  "],
            done.stderr,
        )

    def test_without_a_mesh_the_list_of_sites_says_so(self):
        done = self.openstack(self.cloud(), "site", "list")
        self.assertEqual(done.returncode, 1)
        self.assertIn("is there an Archipel in front of this cloud?", done.stderr)
