#!/usr/bin/env python3
"""Local requests while another site is in a black hole, and ten thousand operations wait for it: `./bench blackhole`.

Two sites with an emulated WAN between them. Once it is cut, its packets vanish and nobody is told; then resources are made
that Site2 should have too. Before, meanwhile and after that, clients of Site1 ask for what is at Site1: a service without replicated
kinds, one with them, with a scope and without, and one of the resources that wait. Nothing that waits for Site2 gets an
answer: it ends when a time limit does, the shortest of which is 2 s (`connect`). So a request that took a quarter of a second
waited for it, or met a machine that stood still; in the time before the cut, only the latter is possible."""

import argparse
import asyncio
import json
import re
import subprocess
import time

import beside
import proxies
from namespaces import LEFT, RIGHT, Wan
from replicate import ask
from results import Results, at_most, quick_option
from rig import ARCHIPEL, LOAD_CORE, PROXY_CORE, Rig, free_ports

WAITED_MS = 250
# A write waits for the disk, too, and for the others: this is shown, not judged.
WRITE_WAITED_MS = 1000
RTT_MS = 50
CONNECTIONS = 8

# Makes what it is asked for, and keeps nothing.
SERVICE = """location = /images { if ($request_method = POST) { return 201 '{"id":"$request_id","name":"image"}'; }
      return 200 '{"images":[]}'; }
    location ~ ^/images/(.+)$ { return 200 '{"id":"$1","name":"image"}'; }"""

# wrk's own line would have neither the last percentile nor the count.
SCRIPT = """
done = function(summary, latency, requests)
  local waited = 0
  for i = 1, #latency do
    local time, count = latency(i)
    if time >= %d then waited = waited + count end
  end
  local errors = summary.errors
  print(string.format("said %%d %%d %%d %%d %%d", summary.requests, waited, latency:percentile(99.9), latency.max,
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end
"""


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--operations", type=int, default=10_000)
    options.add_argument("--seconds", type=int, default=10, help="each kind of request is asked, before and after")
    quick_option(options)
    options = options.parse_args()
    if options.quick:
        options.operations, options.seconds = 500, 2
    results = Results("blackhole", options.quick)
    with Rig() as rig, Wan(rig, 1, RTT_MS) as wan:
        script = rig.write("latency.lua", SCRIPT % (WAITED_MS * 1000))
        ports = start(rig, wan)
        raw = {"before": load_all(wan, script, ports, "/images", options.seconds)}
        wan.say("cut")
        began = time.monotonic()
        with wan.inside(LEFT):
            # The load asks for no longer than it takes to make them, and at least as long as before.
            meanwhile = wrk(script, ports[1], "/small", "", options.seconds)
            made, writes = asyncio.run(create(ports[0], options.operations))
        raw["meanwhile"] = {"without replicated kinds": heard(meanwhile)}
        print(f"{options.operations} resources made in {time.monotonic() - began:.0f} s, {sum(writes) / len(writes):.1f} ms each")
        raw["pending"] = pending(rig.dir / "Site1-state")
        raw["after"] = load_all(wan, script, ports, f"/images/{made}", options.seconds)
        raw["still pending"] = pending(rig.dir / "Site1-state")
        raw["writes_ms"] = {"slowest": max(writes), "waited": sum(took >= WRITE_WAITED_MS for took in writes)}
    report(results, options, raw)
    results.save(raw)


def start(rig, wan):
    """Both sites; the ports of Site1's services, with replicated kinds and without."""
    upstream, link, *ports = free_ports(4)
    command = proxies.backend(rig, upstream, more=SERVICE)
    addresses = [f"{address}:{link}" for address in wan.addresses]
    commands = beside.prepare(rig, argparse.Namespace(archipel=ARCHIPEL), upstream, addresses, dict.fromkeys(beside.SITES, ports))
    for side in (LEFT, RIGHT):
        site = beside.SITES[side]
        with wan.inside(side):
            rig.start(f"service of {site}", command, LOAD_CORE, upstream)
            rig.start(site, commands[site], PROXY_CORE, ports[0])
    with wan.inside(LEFT):
        deadline = time.monotonic() + 60
        while ask(ports[0], "GET", "/images", {"X-Scope": "image: Site2"})[0] != 200:
            if time.monotonic() > deadline:
                raise RuntimeError("Site2 is not there")
            time.sleep(0.2)
    return ports


def load_all(wan, script, ports, one, seconds):
    """Each kind of local request in turn."""
    image, plain = ports
    kinds = {"without replicated kinds": (plain, "/small", ""), "with replicated kinds": (image, "/images", ""),
             "with a scope": (image, "/images", "image: Site1"), "one of the resources": (image, one, "")}
    with wan.inside(LEFT):
        return {name: heard(wrk(script, *kind, seconds)) for name, kind in kinds.items()}


def wrk(script, port, path, scope, seconds):
    scope = ["-H", f"X-Scope: {scope}"] if scope else []
    return subprocess.Popen(["taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "60s",
                             "-s", script, *scope, f"http://127.0.0.1:{port}{path}"], stdout=subprocess.PIPE, text=True)


def heard(process):
    said = process.communicate()[0]
    numbers = re.search(r"said (\d+) (\d+) (\d+) (\d+) (\d+)", said)
    if not numbers or numbers[5] != "0":
        raise RuntimeError(f"local requests failed:\n{said}")
    requests, waited, percentile, slowest, _ = map(int, numbers.groups())
    return {"requests": requests, "waited": waited, "p99.9_ms": percentile / 1000, "slowest_ms": slowest / 1000}


async def create(port, operations):
    """Makes resources for both sites; the id of one, and how many milliseconds each took."""
    times, scope, ids = [], "X-Scope: image: Site1 & Site2\r\n", []

    async def client(number):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for index in range(number, operations, CONNECTIONS):
            began = time.perf_counter()
            body = await beside.exchange(reader, writer, port, "POST", "/images", scope, json.dumps({"name": f"{index}"}).encode())
            times.append((time.perf_counter() - began) * 1000)
            ids.append(json.loads(body)["id"])
        writer.close()
    await asyncio.gather(*(client(number) for number in range(CONNECTIONS)))
    return ids[0], times


def pending(state):
    return sum(site["count"] for site in beside.listed(state))


def report(results, options, raw):
    print(f"{raw['pending']} operations pending, {raw['still pending']} in the end")
    for when in ("before", "meanwhile", "after"):
        for name, got in raw[when].items():
            print(f"  {when:10} {name:26}{got['requests']:9} requests, {got['waited']} waited; "
                  f"p99.9 {got['p99.9_ms']:.1f} ms, slowest {got['slowest_ms']:.1f} ms")
    cut = [*raw["meanwhile"].values(), *raw["after"].values()]
    requests, waited = sum(got["requests"] for got in cut), sum(got["waited"] for got in cut)
    worst = max(got["p99.9_ms"] for got in cut)
    if raw["still pending"] < options.operations:
        raise RuntimeError("not so many operations were pending")
    results.row(f"local requests that waited for a peer, with it in a black hole and {options.operations:,} operations pending", "0",
                f"{waited} of {requests:,}", at_most(waited, 0), f"p99.9 at most {worst:.1f} ms; before the cut "
                f"{max(got['p99.9_ms'] for got in raw['before'].values()):.1f} ms")
    results.row(f"of the writes that made those operations, slower than {WRITE_WAITED_MS} ms", "",
                f"{raw['writes_ms']['waited']} of {options.operations:,}", "", f"slowest {raw['writes_ms']['slowest']:.0f} ms")
    for number, what in (("p99.9_ms", "The slowest thousandth of local requests"), ("slowest_ms", "The slowest local request")):
        results.plot(what, "milliseconds", {f"{when}: {name}": [got[number]] for when in ("before", "meanwhile", "after")
                                            for name, got in raw[when].items()})


if __name__ == "__main__":
    main()
