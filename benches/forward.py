#!/usr/bin/env python3
"""What forwarding costs Archipel, beside HAProxy, nginx, Caddy and Envoy: `./bench forward`.

A machine's speed changes while one looks, so that only ratios inside a round count. In each round every proxy
is loaded once, in turn; each has core 0 to itself then, the load and the backend have core 1. A second HAProxy,
set up like the first, is the control: what it differs by is noise, and so is any difference as small as that."""

import argparse
import random
import statistics

import proxies
from client import check, load
from results import Results, at_least, noise_of, quick_option, ratios, shown, spread
from rig import LOAD_CORE, PROXY_CORE, Rig, cpu_seconds, free_ports

# The other's CPU by Archipel's is at least so much: above 1, Archipel takes less.
AIMS = {
    ("small", "thin scoped", "HAProxy"): 1.2,
    ("small", "thin scoped", "HAProxy with Lua"): 2.5,
    ("64k", "thin scoped", "HAProxy"): 1.35,
    ("mib", "thin scoped", "HAProxy"): 1.75,
}
OURS = ("unscoped", "scoped", "thin unscoped", "thin scoped")
# What is asked for, and with how many connections.
BODIES = {"small": ("a small request", "/small", None), "64k": ("a body of 64 KiB", "/64k", 32),
          "mib": ("a body of 1 MiB", "/mib", 8)}


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rounds", type=int, default=11, help="interleaved rounds (9 or more for a verdict)")
    options.add_argument("--seconds", type=float, default=1.5, help="how long a proxy is loaded in a round")
    options.add_argument("--connections", type=int, default=64, help="for small requests")
    options.add_argument("--only", choices=list(BODIES), action="append")
    quick_option(options)
    options = options.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 0.4
    with Rig() as rig:
        backend, *ports = free_ports(13)
        rig.start("backend", proxies.backend(rig, backend), LOAD_CORE, backend)
        compared = proxies.everyone(rig, backend, ports)
        pids = {}
        for proxy in compared:
            pids[proxy.name] = rig.start(proxy.name, proxy.command, PROXY_CORE, proxy.port).pid
            check(proxy)
        for body in options.only or BODIES:
            results = Results(f"forward-{body}", options.quick)
            costs = paired(body, compared, pids, options)
            report(results, body, costs)
            results.save(costs)


def paired(body, compared, pids, options):
    """Microseconds of CPU per answer: every proxy in every round, in another order each time, so that none has a place
    of its own: the first is warm if it was the last before."""
    what, path, connections = BODIES[body]
    connections = connections or options.connections
    costs = {proxy.name: [] for proxy in compared}
    for proxy in compared:
        load(proxy, path, connections, 0.5)
    order = random.Random(1)
    for _ in range(options.rounds):
        for proxy in order.sample(compared, len(compared)):
            before = cpu_seconds(pids[proxy.name])
            requests, mib = load(proxy, path, connections, options.seconds)
            spent = cpu_seconds(pids[proxy.name]) - before
            # A long answer may be half done at the end: its bytes count.
            answers = requests if body == "small" else mib * (1 << 20) / proxies.FILES[body]
            costs[proxy.name].append(spent / answers * 1e6)
    print(f"\nCPU of {what}: microseconds, median [quartiles] of {options.rounds} rounds, {connections} connections")
    for name, micros in costs.items():
        print(f"  {name:34}{shown(micros, 1)}")
    return costs


def report(results, body, costs):
    what = BODIES[body][0]
    control = ratios(costs["HAProxy"], costs["HAProxy again"])
    noise = noise_of(control)
    print(f"Ratio: the other's CPU by Archipel's, above 1 is better. Equal: within {noise:.1%} (the control).")
    pairs = {"HAProxy to HAProxy": control}
    for ours in OURS:
        for other in costs:
            if other in OURS or other == "HAProxy again" or ("with" in other and "unscoped" in ours):
                continue
            pairs[f"{other} to {ours}"] = pair = ratios(costs[other], costs[ours])
            aim, middle = AIMS.get((body, ours, other)), statistics.median(pair)
            verdict = at_least(middle, aim, noise) if aim else ""
            if ours.startswith("thin"):
                results.row(f"CPU of {what}, {ours}: {other} by Archipel", f"≥ {aim}" if aim else "", f"{middle:.2f}",
                            verdict, f"{spread(pair, 2)}; control ± {noise:.1%}", f"./bench forward --only {body}")
            else:
                print(f"  {ours + ', to ' + other:58} {shown(pair, 2)}")
    thin = {name: pair for name, pair in pairs.items() if name == "HAProxy to HAProxy" or "thin" in name}
    results.plot(f"CPU of {what}", "microseconds on one core", costs)
    results.plot(f"CPU of {what}: the other's by the thin path's", "times; above 1, Archipel takes less", thin,
                 AIMS.get((body, "thin scoped", "HAProxy")), noise)


if __name__ == "__main__":
    main()
