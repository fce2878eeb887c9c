#!/usr/bin/env python3
"""User instructions of a small request, beside the others', and with two threads beside one: `./bench instructions`.

Cachegrind counts, so it does not matter how busy the machine is."""

import argparse
import re
import time

import proxies
from client import Client
from results import Results, at_most, quick_option
from rig import LOAD_CORE, PROXY_CORE, Rig, free_ports

AIMS = {"thin unscoped": 8_000, "thin scoped": 10_000}
# As much more may a request take with two threads, to be the same.
MOST_MORE = 0.03
# Of each thread: one that has less to do at a time sleeps and wakes up more often for the same.
CONNECTIONS = 16
# Two seconds after its start Archipel gives back the memory that only the start needed: that is in every count, or the
# difference of two would depend on how long the requests took.
START_SECONDS = 4
# The control, and two that do not run under valgrind as the others do.
LEFT_OUT = ("HAProxy again", "Envoy", "Caddy")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--requests", type=int, default=3200)
    quick_option(options)
    options = options.parse_args()
    if options.quick:
        options.requests = 480
    results = Results("instructions", options.quick, minds_load=False)
    with Rig() as rig:
        backend, *ports = free_ports(14)
        rig.start("backend", proxies.backend(rig, backend), LOAD_CORE, backend)
        compared = [proxy for proxy in proxies.everyone(rig, backend, ports) if proxy.name not in LEFT_OUT]
        compared.append(proxies.archipel(rig, "two threads", ports[-1], backend, scoped=True, thin=True, threads=2))
        counts = per_request(rig, compared, options.requests)
    for name, count in counts.items():
        if name == "two threads":
            more = count / counts["thin scoped"] - 1
            results.row("instructions of a scoped request with 2 threads, to 1", f"≤ + {MOST_MORE:.0%}", f"{more:+.1%}",
                        at_most(more, MOST_MORE))
        else:
            aim = AIMS.get(name)
            results.row(f"user instructions of a request, {name}", f"≤ {aim:,}" if aim else "", f"{count:,}",
                        at_most(count, aim) if aim else "")
    results.plot("User instructions of a small request", "instructions", {name: [count] for name, count in counts.items()})
    results.save(counts)


def per_request(rig, compared, requests, **asked):
    """In user space only. What 2N requests take more than N is what N requests take: starting falls out. Not the very first
    start, which takes more: it makes the state that the others find."""
    counts = {}
    for proxy in compared:
        counted(rig, proxy, CONNECTIONS, **asked)
        once, twice = (counted(rig, proxy, number, **asked) for number in (requests, 2 * requests))
        counts[proxy.name] = (twice - once) // requests
    return counts


def counted(rig, proxy, requests, path="/small", end=proxies.SMALL.encode()):
    """`end` is what no answer has before its end."""
    log = rig.dir / "cachegrind.log"
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
            f"--log-file={log}"]
    process = rig.start(proxy.name + " counted", tool + proxy.command, PROXY_CORE, proxy.port)
    started = time.monotonic()
    clients = [Client(proxy) for _ in range(proxy.threads * CONNECTIONS)]
    for _ in range(requests // len(clients)):
        for client in clients:
            client.send(path)
        for client in clients:
            client.answer(end)
    time.sleep(max(0, started + START_SECONDS - time.monotonic()))
    for client in clients:
        client.close()
    rig.stop(process)
    return int(re.search(r"I\s+refs:\s+([\d,]+)", log.read_text())[1].replace(",", ""))


if __name__ == "__main__":
    main()
