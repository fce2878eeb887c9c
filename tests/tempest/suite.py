"""Tempest: how it is told of a site, and how it is run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTBED = HERE.parents[1] / "testbed" / "openstack"
sys.path.insert(0, str(TESTBED))

from bed import config, layout  # noqa: E402
from bed.cloud import Cloud  # noqa: E402

# The newest that Nova of OpenStack Zed knows.
MICROVERSION = "2.93"
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Suite:
    """Tempest, installed in a virtual environment, with a directory for what it writes."""

    def __init__(self, venv, directory):
        self.venv, self.directory = Path(venv).absolute(), Path(directory).absolute()
        self.directory.mkdir(parents=True, exist_ok=True)

    def run(self, name, settings, regex, concurrency, seconds):
        """The outcome of each test, by name; what takes longer than `seconds` is ended, and counts as it is."""
        space = self.directory / name
        if not (space / ".stestr.conf").exists():
            self.tool("init", space)
        layout.write(space / "etc" / "tempest.conf", config.render(settings), 0o600)
        command = [self.venv / "bin" / "tempest", "run", "--subunit", "--concurrency", str(concurrency), "--regex", regex]
        stream = space / "run.subunit"
        with stream.open("wb") as out, (space / "run.log").open("wb") as log:
            running = subprocess.Popen(
                [*command, "--config-file", space / "etc" / "tempest.conf"],
                cwd=space, stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=self.environment(), start_new_session=True,
            )  # fmt: skip
            try:
                running.wait(seconds)
            except subprocess.TimeoutExpired:
                print(f"{name}: ended after {seconds} s")
            finally:
                end(running)
        return self.read(stream)

    def read(self, stream):
        with stream.open("rb") as stdin:
            done = subprocess.run([self.venv / "bin" / "python", HERE / "outcomes.py"], stdin=stdin, stdout=subprocess.PIPE, check=True)
        (stream.parent / "outcomes.json").write_bytes(done.stdout)
        return json.loads(done.stdout)

    def tool(self, *arguments):
        command = [self.venv / "bin" / "tempest", *map(str, arguments)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=self.environment(), cwd=self.directory)

    def environment(self):
        """Its own programs come first, and nothing of the machine's is a proxy or a cloud."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("OS_", "PYTHON")) and not name.lower().endswith("_proxy")
        }
        # What it would remember in the home directory is none of this run's.
        return kept | {"PATH": f"{self.venv / 'bin'}:{os.environ['PATH']}", "HOME": str(self.directory)}


def end(running):
    """The whole group: Tempest's workers are processes of their own."""
    try:
        os.killpg(running.pid, signal.SIGTERM)
        running.wait(30)
    except ProcessLookupError:
        pass
    except subprocess.TimeoutExpired:
        os.killpg(running.pid, signal.SIGKILL)
    running.wait()


def settings(said, site, directory, accounts=None):
    """`tempest.conf` for a site, as `sites.json` says it. What this site does not have is said here, and Tempest skips it."""
    here = said["sites"][site.name]
    cloud = Cloud(site)
    extensions = [extension["alias"] for extension in cloud.get("network", "/extensions")["extensions"]]
    flavors, images = here["flavors"], list(here["images"].values())
    own = {"use_dynamic_credentials": "false", "test_accounts_file": accounts} if accounts else {"use_dynamic_credentials": "true"}
    return {
        "DEFAULT": {"log_dir": directory, "log_file": "tempest.log"},
        "oslo_concurrency": {"lock_path": Path(directory) / "lock"},
        "auth": own
        | {
            "admin_username": here["admin"]["username"],
            "admin_password": here["admin"]["password"],
            "admin_project_name": here["admin"]["project"],
            "admin_domain_name": "Default",
            "tempest_roles": "member",
            # All use the site's one network: there are no routers.
            "create_isolated_networks": "false",
        },
        "identity": {"uri_v3": here["auth_url"], "auth_version": "v3", "v3_endpoint_type": "public", "region": layout.REGION},
        "service_available": {"cinder": "false", "swift": "false", "horizon": "false", "neutron": "true", "glance": "true", "nova": "true"},
        "compute": {
            "image_ref": images[0]["id"],
            "image_ref_alt": alternative(cloud),
            "flavor_ref": flavors["tiny"],
            "flavor_ref_alt": flavors["small"],
            "fixed_network_name": "net",
            "max_microversion": MICROVERSION,
            "hypervisor_type": "fake",
            # One host: nothing can be moved.
            "min_compute_nodes": 1,
            "build_interval": 1,
            "build_timeout": 180,
        },
        "compute-feature-enabled": {
            "cold_migration": "false",
            "live_migration": "false",
            "resize": "false",
            # No service for metadata, and what is in a server is not real.
            "metadata_service": "false",
            "vnc_console": "true",
        },
        "validation": {"run_validation": "false"},
        "network-feature-enabled": {"api_extensions": ",".join(sorted(extensions)), "floating_ips": "false"},
        "image": {"build_timeout": 60},
        "image-feature-enabled": {"import_image": "true"},
    }


def alternative(cloud):
    """The id of a second public image."""
    name = "tempest"
    for image in cloud.get("image", f"/images?name={name}")["images"]:
        return image["id"]
    body = {"name": name, "disk_format": "raw", "container_format": "bare", "visibility": "public"}
    image = cloud.post("image", "/images", body)["id"]
    cloud.put("image", f"/images/{image}/file", data=b"tempest" * 1000)
    return image
