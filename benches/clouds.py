#!/usr/bin/env python3
"""What the mesh adds to the time that OpenStack's calls take: `./bench openstack`.

Three real sites that know nothing of each other: one behind Archipel, its services' own calls too, and two without. Each round asks all
three the same, one after the other, in an order that changes. What counts is the time of the one behind Archipel by that of the first
without, of the same round; the second without, by the first, is the control."""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TESTBED = ROOT / "testbed" / "openstack"
RESULTS = ROOT / "target/bench"
SYSTEM_PYTHON = "/usr/bin/python3"
DIRECT, CONTROL, MESH = SIDES = "direct", "control", "mesh"

sys.path.insert(0, str(TESTBED))
from bed import config, layout, mesh, process, record, seed, services  # noqa: E402


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rounds", type=int, default=201, help="of calls in one Python session")
    options.add_argument("--servers", type=int, default=15, help="of these that make a server")
    options.add_argument("--commands", type=int, default=9, help="rounds of whole commands of the stock client")
    options.add_argument("--archipel", type=Path, default=ROOT / "target/dist/archipel")
    options.add_argument("--dir", type=Path, default=ROOT / "target/bench-openstack", help="for the testbed")
    options = options.parse_args()
    try:
        subprocess.run([TESTBED / "up", "--dir", options.dir, "--sites", str(len(SIDES))], check=True)
        direct = layout.known(options.dir)
        behind = put_behind(direct, options.archipel)
        sites = dict(zip(SIDES, [*direct.sites[:2], behind]))
        clouds = {name: record.cloud(site, "alice", "demo", site.catalog("identity", "public")) for name, site in sites.items()}
        layout.write(options.dir / "bench.json", json.dumps({"clouds": clouds}), 0o600)
        measure({name: Side(name, site, options.dir / "bench.json") for name, site in sites.items()}, options)
    finally:
        subprocess.run([TESTBED / "down", "--dir", options.dir, "--purge"], check=False)


def put_behind(direct, archipel):
    """Puts the last site behind an Archipel, which its services find each other through, and restarts them."""
    site = layout.Bed(direct.directory, len(direct.sites), direct.base_port, "mesh").sites[-1]
    process.stop(services.all_processes(site))
    config.write_all(site)
    services.start(site, ["identity"])
    services.wait(site, ["identity"])
    seed.catalog(site)
    mesh.start(site.bed, mesh.usable(archipel), [site])
    since = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    services.start(site)
    services.wait(site)
    compute = services.process(site, "nova-compute")
    compute.wait(lambda: seed.compute_ready(site, since), "Nova does not say that it is ready")
    return site


def measure(sides, options):
    calls = (
        ("token issue", Side.token, options.rounds),
        ("image list", Side.images, options.rounds),
        ("server create", Side.server, options.servers),
        ("openstack token issue", Side.token_command, options.commands),
        ("openstack image list", Side.images_command, options.commands),
        ("openstack server create", Side.server_command, options.commands),
    )
    results = {"load": os.getloadavg()[0]}
    print(f"load of the machine before: {results['load']:.1f} on {os.cpu_count()} cores")
    for name, call, count in calls:
        for side in sides.values():
            call(side)
        results[name] = report(name, rounds(sides, call, count))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "openstack.json").write_text(json.dumps(results, indent=1))


def rounds(sides, call, count):
    """The seconds that a call took at each side, round by round."""
    times = {name: [] for name in sides}
    for _ in range(count):
        for name in random.sample(list(sides), len(sides)):
            times[name].append(call(sides[name]))
    return times


def report(name, times):
    against = {side: sorted(one / direct for one, direct in zip(times[side], times[DIRECT])) for side in (MESH, CONTROL)}
    ratio = {side: statistics.median(values) for side, values in against.items()}
    low, high = quarters(against[MESH])
    milliseconds = statistics.median(times[DIRECT]) * 1000
    print(f"{name:>24}: {ratio[MESH]:.3f} (half of the rounds between {low:.3f} and {high:.3f});"
          f" control {ratio[CONTROL]:.3f}; directly {milliseconds:.0f} ms")  # fmt: skip
    return {"mesh": ratio[MESH], "low": low, "high": high, "control": ratio[CONTROL], "direct_ms": milliseconds, "times": times}


def quarters(values):
    first, _, third = statistics.quantiles(values, n=4)
    return first, third


class Side:
    """One site, and one Python session of a user there: a process of Debian's Python, since the SDK is its package."""

    def __init__(self, name, site, clouds):
        self.site = site
        self.environment = process.environment(site.bed, {"OS_CLIENT_CONFIG_FILE": str(clouds), "OS_CLOUD": name})
        command = [SYSTEM_PYTHON, Path(__file__).with_name("session.py"), f"image-{site.name}"]
        self.session = subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, what):
        """The seconds that something took in the session."""
        self.session.stdin.write(what + "\n")
        self.session.stdin.flush()
        answer = self.session.stdout.readline()
        if not answer:
            raise RuntimeError(f"the session of {self.site.name} ended at: {what}")
        return float(answer)

    def token(self):
        return self.ask("token")

    def images(self):
        return self.ask("images")

    def server(self):
        took = self.ask("server")
        self.ask("tidy")
        return took

    def command(self, *words):
        """The seconds that a command of the stock client took, from its start to its end."""
        began = time.perf_counter()
        subprocess.run(["openstack", *words], env=self.environment, check=True, stdout=subprocess.DEVNULL)
        return time.perf_counter() - began

    def token_command(self):
        return self.command("token", "issue")

    def images_command(self):
        return self.command("image", "list")

    def server_command(self):
        made_of = ("--image", f"image-{self.site.name}", "--flavor", "tiny", "--network", "net")
        took = self.command("server", "create", "bench", *made_of)
        self.ask("tidy")
        return took


if __name__ == "__main__":
    main()
