#!/usr/bin/env python3
"""What a list of two sites costs, merged, beside forwarding one of them by HAProxy: `./bench merged`.

The client asks for `here & Far1`: this site's service and a far site, a light process, have ten items each. In each round
HAProxy forwards this site's list, a second HAProxy too (the control), and Archipel merges both; CPU of each for a request.

A third HAProxy forwards the same list over TLS and HTTP/2, as Archipel asks a far site. What two forwards take, one of each
kind, is what whoever asks both sites takes at least: without a scope, and without one list of the two."""

import argparse
import random
import statistics

import instructions
import merge
import proxies
from client import load
from results import Results, at_least, noise_of, quick_option, ratios, shown, spread
from rig import ARCHIPEL, LOAD_CORE, PROXY_CORE, Rig, cpu_seconds, free_ports

AIM = 0.8
ITEMS = 10
OVER_TLS = "HAProxy over TLS and HTTP/2"
# The identity is the one that the far sites' process has made for this site.
CODED = """
    listen 127.0.0.1:{port} ssl http2; http2_max_requests 100000000; http2_max_concurrent_streams 1000;
    ssl_certificate {dir}/identity/site.pem; ssl_certificate_key {dir}/identity/site-key.pem;"""
ITEM = ('{{"id":"{0:08x}-0000-4000-8000-000000000001","name":"Here-{0}","size":1234567,"digest":"sha256:{0:064x}",'
        '"status":"active","created_at":"2026-11-15T00:00:00Z"}}')


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rounds", type=int, default=11)
    options.add_argument("--seconds", type=float, default=1.5)
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--instructions", action="store_true", help="count those of users instead, whatever else runs")
    quick_option(options)
    options = options.parse_args()
    if options.quick:
        options.rounds, options.seconds = 3, 0.4
    results = Results("merged", options.quick)
    with Rig() as rig:
        backend, coded, link, *ports = free_ports(7)
        items = ",".join(ITEM.format(number) for number in range(ITEMS))
        far = merge.start_far_sites(rig, 1, argparse.Namespace(items=ITEMS, delay=0))
        more = f"location = /images {{ return 200 '{{\"images\":[{items}]}}'; }}" + CODED.format(port=coded, dir=rig.dir)
        rig.start("backend", proxies.backend(rig, backend, more=more), LOAD_CORE, backend)
        rig.write("archipel.toml", merge.configuration(ports[2], link, backend, far))
        compared = [
            proxies.haproxy(rig, "HAProxy", ports[0], backend),
            proxies.haproxy(rig, "HAProxy again", ports[1], backend),
            proxies.haproxy(rig, OVER_TLS, ports[3], coded, how="ssl verify none alpn h2"),
            proxies.Proxy("Archipel", [ARCHIPEL, "run", "archipel.toml"], ports[2], "image: here & Far1"),
        ]
        if options.instructions:
            counts = instructions.per_request(rig, compared[1:], 320, path="/images", end=b"]}")
            for name, count in counts.items():
                print(f"  {name:34}{count:10,} user instructions")
            return
        pids = {proxy.name: rig.start(proxy.name, proxy.command, PROXY_CORE, proxy.port).pid for proxy in compared}
        items = merge.ask(ports[2], "here & Far1")[2]
        assert items == 2 * ITEMS, f"{items} items"
        costs = paired(compared, pids, options)
    report(results, costs)
    results.save(costs)


def paired(compared, pids, options):
    """Microseconds of CPU for a request."""
    costs = {proxy.name: [] for proxy in compared}
    order = random.Random(1)
    for _ in range(options.rounds):
        for proxy in order.sample(compared, len(compared)):
            before = cpu_seconds(pids[proxy.name])
            requests, _ = load(proxy, "/images", options.connections, options.seconds)
            costs[proxy.name].append((cpu_seconds(pids[proxy.name]) - before) / requests * 1e6)
    return costs


def report(results, costs):
    for name, micros in costs.items():
        print(f"  {name:34}{shown(micros, 1)} us of CPU")
    noise = noise_of(ratios(costs["HAProxy"], costs["HAProxy again"]))
    pairs = ratios(costs["HAProxy"], costs["Archipel"])
    middle = statistics.median(pairs)
    results.row("CPU of a list merged of two sites: one HAProxy forward by Archipel", f"≥ {AIM}", f"{middle:.2f}",
                at_least(middle, AIM, noise), f"{spread(pairs, 2)}; control ± {noise:.1%}")
    both = [plain + coded for plain, coded in zip(costs["HAProxy"], costs[OVER_TLS])]
    pairs = ratios(both, costs["Archipel"])
    results.row("the same: two HAProxy forwards, one over TLS and HTTP/2, by Archipel", "", f"{statistics.median(pairs):.2f}",
                "", spread(pairs, 2))
    results.plot("CPU of a list: one site's forwarded, two sites' merged", "microseconds on one core", costs)


if __name__ == "__main__":
    main()
