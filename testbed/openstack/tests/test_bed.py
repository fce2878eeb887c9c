"""What can be said of a testbed without starting one. From the directory above: `python3 -m unittest discover -t . tests`."""

import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

from bed import config, mesh, process, record, services
from bed.layout import INTERNAL, LISTENING, PUBLIC, SERVICES, UPSTREAM, Bed, Failure


class InADirectory(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)

    def bed(self, mode="mesh", count=3):
        return Bed(self.directory, count, 20000, mode)


class Processes(InADirectory):
    def setUp(self):
        super().setUp()
        # That they outlive the object that started them is what they are for.
        warnings.simplefilter("ignore", ResourceWarning)

    def test_a_process_that_ends_while_it_starts_is_told_with_the_end_of_its_log(self):
        one = process.Process(self.bed(), "doomed")
        one.start([sys.executable, "-c", "print('cannot find the thing'); raise SystemExit(3)"])
        with self.assertRaises(Failure) as failure:
            one.wait(lambda: False, "it does not answer")
        self.assertIn("doomed ended while it started", str(failure.exception))
        self.assertIn("cannot find the thing", str(failure.exception))

    def test_a_process_is_ended_with_its_children_and_forgotten(self):
        one = process.Process(self.bed(), "parent")
        child = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; print(1, flush=True); time.sleep(600)'])"
        one.start([sys.executable, "-c", child])
        one.wait(lambda: one.tail() == ["1"], "its child does not speak")
        pid = one.pid()
        process.stop([one])
        self.assertEqual((one.pid(), one.file.exists()), (None, False))
        self.assertIsNone(process.began(pid))

    def test_a_worker_that_outlives_its_master_is_waited_for(self):
        one = process.Process(self.bed(), "master")
        # The worker ends a second after it was told, the master at once.
        worker = "import signal, sys, time; signal.signal(15, lambda *_: (time.sleep(1), sys.exit())); print('here', flush=True); time.sleep(60)"
        one.start(["sh", "-c", f'{sys.executable} -c "{worker}" & trap "exit 0" TERM; wait'])
        one.wait(lambda: "here" in one.tail(), "no worker")
        group = one.pid()
        process.stop([one])
        self.assertEqual(process.living([group]), set())

    def test_a_process_that_took_over_the_id_is_left_alone(self):
        other = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, start_new_session=True)
        self.addCleanup(other.communicate)
        bed = self.bed()
        bed.run.mkdir()
        (bed.run / "ours.pid").write_text(f"{other.pid} 1\n")
        process.stop(process.started(bed))
        self.assertIsNone(other.poll())

    def test_what_runs_is_not_started_twice(self):
        one = process.Process(self.bed(), "one")
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        self.assertTrue(one.start(command))
        self.addCleanup(process.stop, [one])
        self.assertFalse(one.start(command))


class Addresses(InADirectory):
    def test_no_port_is_used_twice(self):
        ports = self.bed(count=9).ports
        self.assertEqual(len(ports), len(set(ports)))

    def test_the_catalog_leads_through_archipel_or_straight_to_the_services(self):
        for mode, sides in (("mesh", (PUBLIC, INTERNAL)), ("direct", (UPSTREAM, UPSTREAM))):
            site = self.bed(mode).site("Site2")
            for service in SERVICES:
                for interface, side in zip(("public", "internal"), sides):
                    self.assertTrue(site.catalog(service, interface).startswith(site.url(service, side)))

    def test_services_are_found_in_the_catalog_only_and_log_in_where_archipel_sees_it(self):
        site = self.bed().site("Site1")
        for make in (config.glance, config.placement, config.nova, config.neutron):
            text = config.render(make(site))
            self.assertNotIn("endpoint_override", text)
            logins = [line for line in text.splitlines() if line.startswith("auth_url")]
            self.assertEqual(set(logins), {f"auth_url = {site.url('identity', INTERNAL)}/v3"})

    def test_each_site_has_databases_and_a_bus_of_its_own(self):
        sites = self.bed().sites
        self.assertEqual(len({site.broker for site in sites}), 3)
        self.assertEqual(len({site.database("nova") for site in sites}), 3)

    def test_archipel_stands_in_front_of_every_service_and_knows_the_other_sites(self):
        text = mesh.text(self.bed().site("Site1"))
        for service in LISTENING:
            self.assertIn(f"[services.{service}]", text)
        self.assertIn("[peers.Site2]", text)
        self.assertNotIn("[peers.Site1]", text)

    def test_every_process_has_a_log_that_is_written_down(self):
        site = self.bed().site("Site1")
        logs = record.one(site, {})["logs"]
        self.assertEqual(set(logs), {*services.commands(site), "archipel"})
