#!/usr/bin/env python3
"""Memory, start and CPU beside many replicated resources: `./bench resources`.

Two sites, each with a service that names what it makes itself, so that every id is mapped. Resources are made through
the first, as clients make them, until there are as many as are asked for; at each number what is resident is read, and
the first site is started anew. It ends by itself: after `--minutes` no more are made."""

import argparse
import asyncio
import json
import multiprocessing
import os
import re
import socket
import subprocess
import sys
import time
import uuid

from beside import SITES, exchange, listed
from results import Results, at_most, quick_option
from rig import ARCHIPEL, Rig, cpu_seconds, free_ports, memory_mib

CONNECTIONS = 32
# Code of the start is given back two seconds after it, and what was counted is counted every five.
SETTLED_SECONDS = 8
MOST_MIB, MOST_START_SECONDS, MOST_CPU_MS = 64, 1, 0.75
# The number of resources for which memory has an aim.
AIMED = 100_000
PROFILE = '''description = "one service with replicated kinds and one without"
[propagation]
tracestate = true
[services]
image = []
plain = []
[[kinds]]
name = "image"
service = "image"
path = "/images"
ids = "uuid"
'''
CONFIGURATION = '''site = "{site}"
profile = "resources"
profiles = "{dir}"
identity = "{dir}/{site}-identity"
state = "{dir}/{site}-state"
threads = 1
[link]
listen = "{link}"
advertise = "{link}"
{join}
[services.image]
public = ["127.0.0.1:{image}"]
upstreams = ["http://127.0.0.1:{service}"]
[services.plain]
public = ["127.0.0.1:{plain}"]
upstreams = ["http://127.0.0.1:{service}"]
'''


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("resources", type=int, nargs="*", default=[1_000, 10_000, 100_000])
    options.add_argument("--deleted", type=int, default=0, help="so many of the last number are deleted in the end, and what is left of them is read")
    options.add_argument("--minutes", type=float, default=30)
    options.add_argument("--archipel", default=ARCHIPEL, help="the program that is measured")
    quick_option(options)
    options = options.parse_args()
    results = Results("resources", options.quick)
    with Rig() as rig:
        numbers = free_ports(8)
        links = [f"127.0.0.1:{port}" for port in numbers[:2]]
        upstreams, ports = numbers[2:4], {"Site1": numbers[4:6], "Site2": numbers[6:8]}
        services = [multiprocessing.Process(target=serve, args=(port,), daemon=True) for port in upstreams]
        for service in services:
            service.start()
        try:
            raw = Measurement(rig, options, upstreams, links, ports).run([100] if options.quick else sorted(options.resources))
        finally:
            for service in services:
                service.kill()
                service.join()
    report(results, raw)


class Measurement:
    def __init__(self, rig, options, upstreams, links, ports):
        self.rig, self.options, self.ports = rig, options, ports
        self.until = time.monotonic() + options.minutes * 60
        self.commands = prepare(rig, options, upstreams, links, ports)
        self.made = []

    def run(self, numbers):
        found = []
        processes = {site: self.start(site) for site in reversed(SITES)}
        while asyncio.run(status(self.ports["Site1"][0], "/images", "X-Scope: image: Site2\r\n")) != 200:
            time.sleep(0.2)
        for number in numbers:
            before, cpu = len(self.made), self.cpu(processes)
            asyncio.run(self.create(number))
            while listed(self.rig.dir / "Site1-state") and time.monotonic() < self.until + 120:
                time.sleep(0.5)
            made = len(self.made) - before
            cpu_ms = (self.cpu(processes) - cpu) / max(made, 1) * 1000
            time.sleep(SETTLED_SECONDS)
            one = {"resources": len(self.made), "cpu_ms": cpu_ms, "mib": self.memory(processes), "seconds": time.monotonic()}
            self.rig.stop(processes["Site1"])
            processes["Site1"], one["start"] = self.started_anew()
            while listed(self.rig.dir / "Site1-state") and time.monotonic() < self.until + 120:
                time.sleep(0.5)
            time.sleep(SETTLED_SECONDS)
            one["mib_anew"] = self.memory(processes)
            one["mib_most"] = {site: memory_mib(process.pid, "VmHWM") for site, process in processes.items()}
            one["disk_mib"] = (self.rig.dir / "Site1-state/replicas.redb").stat().st_size / 2**20
            print(json.dumps(one), flush=True)
            found.append(one)
            if len(self.made) < number:
                print(f"no more time: {len(self.made):,} of {number:,} were made")
                break
        if self.options.deleted:
            asyncio.run(self.delete(self.options.deleted))
            while listed(self.rig.dir / "Site1-state") and time.monotonic() < self.until + 120:
                time.sleep(0.5)
            time.sleep(SETTLED_SECONDS)
            found[-1]["mib_deleted"] = self.memory(processes)
        return found

    def start(self, site):
        return self.rig.start(site, self.commands[site], f"0-{os.cpu_count() - 1}", self.ports[site][0])

    @staticmethod
    def cpu(processes):
        return sum(cpu_seconds(process.pid) for process in processes.values())

    @staticmethod
    def memory(processes):
        return {site: memory_mib(process.pid, "VmRSS") for site, process in processes.items()}

    def started_anew(self):
        """The process, and the seconds until it had answered: a request to a service without kinds, one to the service that
        has them, and a read of what was made last."""
        began, command = time.monotonic(), ["taskset", "-c", f"0-{os.cpu_count() - 1}", *map(str, self.commands["Site1"])]
        log = open(self.rig.dir / "Site1-anew.log", "wb")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.rig.dir)
        self.rig.running.append(process)
        image, plain = self.ports["Site1"]
        asked = {"plain": (plain, "/small"), "service": (image, "/images"), "replica": (image, f"/images/{self.made[-1]}")}
        seconds, deadline = {}, began + 300
        while len(seconds) < len(asked):
            for name, (port, path) in asked.items():
                if name not in seconds and asyncio.run(status(port, path)) == 200:
                    seconds[name] = time.monotonic() - began
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"Site1 did not answer: {seconds}\n{(self.rig.dir / 'Site1-anew.log').read_text()[-2000:]}")
            time.sleep(0.002)
        return process, seconds

    async def create(self, number):
        port = self.ports["Site1"][0]
        left = iter(range(number - len(self.made)))

        async def client():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for index in left:
                if time.monotonic() > self.until:
                    break
                body = json.dumps({"name": f"image {index}"}).encode()
                answer = await exchange(reader, writer, port, "POST", "/images", "X-Scope: image: Site1 & Site2\r\n", body)
                self.made.append(json.loads(answer)["id"])
            writer.close()
        await asyncio.gather(*(client() for _ in range(CONNECTIONS)))

    async def delete(self, number):
        port, left = self.ports["Site1"][0], iter(self.made[-number:])

        async def client():
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for made in left:
                await exchange(reader, writer, port, "DELETE", f"/images/{made}", "X-Scope: image: Site1 & Site2\r\n")
            writer.close()
        await asyncio.gather(*(client() for _ in range(CONNECTIONS)))


async def status(port, path, fields=""):
    """Of the answer; 0 where there is none."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n".encode())
        head = await reader.readline()
        writer.close()
        return int(head.split()[1]) if head else 0
    except OSError:
        return 0


def prepare(rig, options, upstreams, links, ports):
    """The commands of both sites."""
    rig.write("resources.toml", PROFILE)
    commands = {}
    for index, site in enumerate(SITES):
        command = [options.archipel, "init", "--site", site, "--authority", rig.dir / "authority"]
        subprocess.run([*command, "--out", rig.dir / f"{site}-identity"], check=True, stdout=subprocess.DEVNULL)
        image, plain = ports[site]
        text = CONFIGURATION.format(site=site, dir=rig.dir, link=links[index], image=image, plain=plain,
                                    service=upstreams[index], join=f'join = ["{links[1 - index]}"]')
        commands[site] = [options.archipel, "run", rig.write(f"{site}.toml", text)]
    return commands


def report(results, raw):
    for one in raw:
        number, start = one["resources"], one["start"]
        aimed = number >= AIMED
        mib = max(*one["mib"].values(), *one["mib_anew"].values())
        results.row(f"MiB resident with {number:,} replicated resources", f"≤ {MOST_MIB}" if aimed else "", f"{mib:.1f}",
                    at_most(mib, MOST_MIB) if aimed else "", f"{max(one['mib_most'].values()):.1f} at most")
        for name, what in (("plain", "a service without kinds"), ("service", "the service with them"), ("replica", "a replica")):
            results.row(f"s from the start to an answer of {what}, {number:,} resources", f"≤ {MOST_START_SECONDS}",
                        f"{start[name]:.2f}", at_most(start[name], MOST_START_SECONDS))
        results.row(f"ms of CPU of a replicated creation, both sites, {number:,} resources", f"≤ {MOST_CPU_MS}",
                    f"{one['cpu_ms']:.2f}", at_most(one["cpu_ms"], MOST_CPU_MS))
    for what, unit, value in (("Memory", "MiB resident", lambda one: max(one["mib"].values())),
                              ("Start to the first read of a replica", "s", lambda one: one["start"]["replica"])):
        results.plot(f"{what}, by the number of replicated resources", unit,
                     {f"{one['resources']:,} resources": [value(one)] for one in raw}, MOST_MIB if unit != "s" else MOST_START_SECONDS)
    results.save(raw)


def serve(port):
    asyncio.run(serving(port))


async def serving(port):
    """One site's services: it names what it makes, and keeps nothing."""
    async def client(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
                if length:
                    await reader.readexactly(int(length[1]))
                method, path = head.split(b" ", 2)[:2]
                made = {"id": str(uuid.uuid4()) if method == b"POST" else path.rsplit(b"/", 1)[1].decode(), "name": "image"}
                body = json.dumps({"images": []} if path == b"/images" and method == b"GET" else made).encode()
                status = "201 Created" if method == b"POST" else "200 OK"
                fields = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(f"HTTP/1.1 {status}\r\n{fields}".encode() + body)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()
    server = await asyncio.start_server(client, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
