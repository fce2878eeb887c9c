#!/usr/bin/env python3
"""What asking several sites at once costs, beside asking one: `./bench merge`.

The far sites are one light process: each answers a leg with one list, after an emulated delay. A round asks one
site, then all with `&`, then two with `|`, and so on. What counts is what an answer took beyond the slowest of its
legs: that of the one site of the same round, and as much longer as the slowest site says that it had its leg, since
the far sites share a core and wait for each other. The coordinator's processor time for each leg is printed too."""

import argparse
import http.client
import json
import statistics
import subprocess
import time

from rig import ARCHIPEL, LOAD_CORE, PROXY_CORE, RESULTS, ROOT, Rig, cpu_seconds, free_ports

# Milliseconds beyond the slowest leg that `&` may take, by the number of sites; and `|` beyond the fastest.
MOST_BEYOND = {2: 2, 8: 2, 32: 3, 100: 5}
MOST_BEYOND_RACE = 1


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rounds", type=int, default=25)
    options.add_argument("--items", type=int, default=10, help="in each site's list")
    options.add_argument("--delay", type=int, default=30, help="milliseconds until a site answers")
    options = options.parse_args()
    most = max(MOST_BEYOND)
    with Rig() as rig:
        far = start_far_sites(rig, most, options)
        port, link, upstream = free_ports(3)
        rig.write("archipel.toml", configuration(port, link, upstream, far))
        pid = rig.start("archipel", [ARCHIPEL, "run", "archipel.toml"], PROXY_CORE, port).pid
        asked = {1: "Far1", **{count: " & ".join(list(far)[:count]) for count in MOST_BEYOND}, "|": "Far1 | Far2"}
        for scope in asked.values():
            for _ in range(3):
                ask(port, scope)
        times, cpu, had = ({what: [] for what in asked} for _ in range(3))
        for _ in range(options.rounds):
            for what, scope in asked.items():
                before = cpu_seconds(pid)
                took, slowest, items = ask(port, scope)
                cpu[what].append(cpu_seconds(pid) - before)
                wanted = options.items * (what if isinstance(what, int) else 1)
                assert items == wanted, f"{scope}: {items} items, not {wanted}"
                times[what].append(took)
                had[what].append(slowest)
        report(times, had, cpu, options)


def start_far_sites(rig, count, options):
    command = [ROOT / "target/release/examples/far_sites", rig.dir, count, options.items, options.delay]
    command = ["taskset", "-c", str(LOAD_CORE), *map(str, command)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    rig.running.append(process)
    return dict(process.stdout.readline().split() for _ in range(count))


def configuration(port, link, upstream, far):
    text = f'''site = "Here"
profile = "rest"
identity = "identity"
threads = 1
[link]
listen = "127.0.0.1:{link}"
[services.image]
public = ["127.0.0.1:{port}"]
upstreams = ["http://127.0.0.1:{upstream}"]
'''
    return text + "".join(f'[peers.{name}]\naddress = "{address}"\n' for name, address in far.items())


def ask(port, scope):
    """One request on a connection of its own, that is there already when the clock starts."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.connect()
    began = time.perf_counter()
    connection.request("GET", "/images", headers={"X-Scope": f"image: {scope}"})
    answer = connection.getresponse()
    body = answer.read()
    took = time.perf_counter() - began
    connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{scope}: {answer.status} {body[:2000]!r}")
    items = json.loads(body)["images"]
    return took * 1000, max(item.get("took_us", 0) for item in items) / 1000, len(items)


def report(times, had, cpu, options):
    results = {}
    print(f"one site: {statistics.median(times[1]):.2f} ms, of which {options.delay} ms are the emulated delay")
    for what, took in times.items():
        if what == 1:
            continue
        # Of the same round: the machine's mood falls out.
        one = [took - had for took, had in zip(times[1], had[1])]
        beyond = sorted(took - had - one for took, had, one in zip(took, had[what], one))
        median, worst = statistics.median(beyond), beyond[int(len(beyond) * 0.9)]
        aim = MOST_BEYOND_RACE if what == "|" else MOST_BEYOND[what]
        legs = what if isinstance(what, int) else 1
        per_leg = statistics.median(cpu[what]) * 1e6 / legs
        verdict = "reached" if median <= aim else "missed"
        name = "`|` of 2" if what == "|" else f"`&` of {what}"
        print(f"{name:>9}: {median:+6.2f} ms beyond the slowest leg (p90 {worst:+.2f}); aim {aim} ms, {verdict};"
              f" {per_leg:.0f} us of CPU a leg")
        results[str(what)] = {"beyond_ms": median, "p90_ms": worst, "aim_ms": aim, "cpu_us_per_leg": per_leg}
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "merge.json").write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
