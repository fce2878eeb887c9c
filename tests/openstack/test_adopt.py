"""Archipel put in front of a cloud that runs, and taken away again."""

import json
import os
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness import STACK, Site2
from stack import layout
from bed import process, seed

# Within a site's own ports, where nothing else is: what is added for clients, and for services.
PUBLIC, INTERNAL = 40, 60


def catalog(mode):
    """Lets the site's catalog lead to the services themselves, or to the Archipel of the testbed."""
    bed = layout.known(STACK.bed.directory)
    bed.mode = mode
    seed.catalog(bed.site(Site2))


class Adoption(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.site = STACK.bed.site(Site2)
        catalog("direct")
        self.addCleanup(catalog, STACK.bed.mode)

    def run_here(self, *command, at=layout.UPSTREAM, check=True):
        """Runs a command as the administrator, who logs in at Keystone itself or at what Archipel offers; its output."""
        given = {
            "OS_AUTH_URL": f"http://{layout.HOST}:{self.site.port('identity') + at}/v3",
            "OS_USERNAME": "admin",
            "OS_PASSWORD": layout.PASSWORD,
            "OS_PROJECT_NAME": "admin",
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
            "OS_IDENTITY_API_VERSION": "3",
            "OS_REGION_NAME": layout.REGION,
        }
        environment = process.environment(STACK.bed, given)
        done = subprocess.run(command, cwd=self.directory, env=environment, capture_output=True, text=True, check=False)
        if check:
            self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout}{done.stderr}")
        return done

    def images(self, **how):
        return self.run_here("openstack", "image", "list", "-f", "value", "-c", "Name", **how)

    def adopt(self, *more):
        offsets = ("--public-offset", str(PUBLIC), "--internal-offset", str(INTERNAL))
        return self.run_here(STACK.said["archipel"], "openstack", "adopt", "--site", Site2, *offsets, *more).stdout

    def some_of_the_catalog(self):
        """A file with two services of it: each endpoint that is changed takes the stock client two seconds."""
        listed = json.loads(self.run_here("openstack", "endpoint", "list", "-f", "json").stdout)
        file = self.directory / "catalog.json"
        file.write_text(json.dumps([entry for entry in listed if entry["Service Type"] in ("identity", "image")]))
        return file

    def start(self):
        """The adopted site's Archipel, as an operator starts it; beside the testbed's, so at another port for the link."""
        binary = STACK.said["archipel"]
        self.run_here(binary, "init", "--site", Site2, "--authority", "authority", "--out", "identity")
        config = self.directory / "archipel.toml"
        config.write_text(config.read_text().replace('listen = "0.0.0.0:7400"', f'listen = "{layout.HOST}:0"'))
        self.run_here(binary, "check")
        running = subprocess.Popen([binary, "run"], cwd=self.directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(running.wait)
        self.addCleanup(running.kill)
        url = f"http://{layout.HOST}:{self.site.port('image') + PUBLIC}/healthcheck"
        STACK.until("Archipel answers", lambda: process.answers(url))
        return running

    def test_a_running_cloud_is_adopted_and_released_also_after_archipel_has_died(self):
        shown = self.adopt("--dry-run")
        self.assertEqual(os.listdir(self.directory), [])
        for service in layout.SERVICES:
            self.assertIn(f'[services."{service}"]', shown)
        some = self.some_of_the_catalog()
        shown = self.adopt("--catalog", some, "--dry-run")
        self.adopt("--catalog", some)
        for name in ("archipel.toml", "adopt.sh", "release.sh"):
            self.assertIn((self.directory / name).read_text(), shown)
        running = self.start()
        self.run_here("sh", "adopt.sh")
        self.assertIn("image-Site2", self.images(at=PUBLIC).stdout)
        running.send_signal(signal.SIGKILL)
        running.wait()
        # Everybody is sent to Archipel, which is not there.
        self.assertNotEqual(self.images(check=False).returncode, 0)
        self.run_here("sh", "release.sh")
        self.assertIn("image-Site2", self.images().stdout)
