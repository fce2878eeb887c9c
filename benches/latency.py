#!/usr/bin/env python3
"""What a proxy adds to the time of a request, one at a time: `./bench latency`.

A round asks the backend itself, HAProxy, a second one (the control) and Archipel, each in turn for a while; what half of
the requests took at most, less what the backend itself took, is what the proxy added.

One request at a time leaves a core without work twice in each, and to wake one that halted takes a virtual machine longer
than all that a proxy does. So it is measured a second time with cores that stay awake: each has a process that spins, of the
class that runs only where nobody else wants to (`SCHED_IDLE`). And a third time with everything on one core, where no core
waits for another, and what a proxy does itself is most of what it adds."""

import argparse
import random
import statistics

import proxies
from client import check, median_us
from results import Results, at_most, noise_of, quick_option, ratios, shown, spread
from rig import LOAD_CORE, PROXY_CORE, Rig, free_ports

# Of what HAProxy adds.
AIM = 0.7
DIRECT = "none: the backend itself"
# What is compared elsewhere: each more makes a round longer, and rounds less alike.
LEFT_OUT = ("HAProxy with Lua", "HAProxy with less Lua", "HAProxy with json_query", "Caddy", "unscoped", "scoped")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--seconds", type=float, default=1)
    quick_option(options)
    options = options.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 0.4
    results = Results("latency", options.quick)
    halting = measured(PROXY_CORE, False, options)
    awake = measured(PROXY_CORE, True, options)
    one_core = measured(LOAD_CORE, False, options)
    report(results, halting, "")
    report(results, awake, ", cores awake")
    report(results, one_core, ", all on one core")
    results.save({"halting": halting, "awake": awake, "one core": one_core})


def measured(core, awake, options):
    """What half of the requests took at most, microseconds, in each round, with the proxies on this core."""
    with Rig() as rig:
        backend, *ports = free_ports(13)
        rig.start("backend", proxies.backend(rig, backend), LOAD_CORE, backend)
        everyone = (proxy for proxy in proxies.everyone(rig, backend, ports) if proxy.name not in LEFT_OUT)
        compared = [proxies.Proxy(DIRECT, [], backend), *everyone]
        for proxy in compared[1:]:
            rig.start(proxy.name, proxy.command, core, proxy.port)
        for proxy in compared:
            check(proxy)
            median_us(proxy, "/small", options.seconds / 2)
        for each in (PROXY_CORE, LOAD_CORE) if awake else ():
            rig.spin(each)
        return rounds(compared, options)


def rounds(compared, options):
    took = {proxy.name: [] for proxy in compared}
    order = random.Random(1)
    for _ in range(options.rounds):
        for proxy in order.sample(compared, len(compared)):
            took[proxy.name].append(median_us(proxy, "/small", options.seconds))
    return took


def report(results, took, how):
    direct = took[DIRECT]
    # wrk counts whole microseconds: what was added is never nothing.
    added = {name: [max(through - alone, 1) for through, alone in zip(times, direct)] for name, times in took.items()
             if name != DIRECT}
    print(f"direct{how}: {shown(direct, 0)} us. What was added, us, median [quartiles]:")
    for name, times in added.items():
        print(f"  {name:34}{shown(times, 0)}")
    noise = noise_of(ratios(added["HAProxy again"], added["HAProxy"]))
    for ours in ("thin scoped", "thin unscoped"):
        pairs = ratios(added[ours], added["HAProxy"])
        middle = statistics.median(pairs)
        results.row(f"added median latency at c=1, {ours}{how}, to HAProxy's", f"≤ {AIM}", f"{middle:.2f}",
                    at_most(middle, AIM, noise), f"{spread(pairs, 2)}; control ± {noise:.1%}")
    results.plot(f"What a proxy adds to a request, one at a time{how}", "microseconds", added)


if __name__ == "__main__":
    main()
