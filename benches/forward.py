#!/usr/bin/env python3
"""What forwarding costs Archipel, beside HAProxy and nginx: `./bench forward`.

A machine's speed changes while one looks, so that only ratios inside a round count. In each round every proxy
is loaded once, in turn; each has core 0 to itself then, the load and the backend have core 1. A second HAProxy,
set up like the first, is the control: what it differs by is noise, and so is any difference as small as that."""

import argparse
import json
import random
import re
import socket
import statistics
import subprocess
import time

import proxies
from rig import LOAD_CORE, PROXY_CORE, RESULTS, Rig, cpu_seconds, free_ports, memory_mib

# What each path is to reach. Ratios are the other's cost by Archipel's: above 1, Archipel takes less.
AIMS = {
    ("scoped", "HAProxy"): 0.95,
    ("unscoped", "HAProxy"): 0.95,
    ("scoped", "HAProxy with Lua"): 2.0,
    ("thin scoped", "HAProxy with Lua"): 2.0,
}
OURS = ("unscoped", "scoped", "thin unscoped", "thin scoped")
MOST_INSTRUCTIONS = {"unscoped": 28_000, "scoped": 28_000, "thin unscoped": 8_000, "thin scoped": 10_000}
MOST_IDLE_MIB = {"thin unscoped": 8, "thin scoped": 8}

IDLE_CONNECTIONS = 1000
COUNTED_REQUESTS = 3200
COUNTED_CONNECTIONS = 16


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rounds", type=int, default=11, help="interleaved rounds (9 or more for a verdict)")
    options.add_argument("--seconds", type=float, default=1.5, help="how long a proxy is loaded in a round")
    options.add_argument("--connections", type=int, default=64)
    options.add_argument("--only", choices=["small", "large", "instructions", "idle"], action="append")
    options = options.parse_args()
    chosen = options.only or ["small", "large", "instructions", "idle"]
    results = {}
    with Rig() as rig:
        backend, *ports = free_ports(9)
        rig.start("backend", proxies.backend(rig, backend), LOAD_CORE, backend)
        compared = [
            proxies.haproxy(rig, "HAProxy", ports[0], backend),
            proxies.haproxy(rig, "HAProxy again", ports[1], backend),
            proxies.haproxy_lua(rig, "HAProxy with Lua", ports[2], backend),
            proxies.nginx(rig, "nginx", ports[3], backend),
            proxies.archipel(rig, "unscoped", ports[4], backend, scoped=False),
            proxies.archipel(rig, "scoped", ports[5], backend, scoped=True),
            proxies.archipel(rig, "thin unscoped", ports[6], backend, scoped=False, thin=True),
            proxies.archipel(rig, "thin scoped", ports[7], backend, scoped=True, thin=True),
        ]
        if "instructions" in chosen:
            results["instructions"] = instructions(rig, compared)
        pids = {}
        for proxy in compared:
            pids[proxy.name] = rig.start(proxy.name, proxy.command, PROXY_CORE, proxy.port).pid
            check(proxy)
        if "idle" in chosen:
            results["idle"] = idle(compared, pids)
        if "small" in chosen:
            results["small"] = paired("/small", "a small answer", options.connections, compared, pids, options)
        if "large" in chosen:
            results["large"] = paired("/mib", "1 MiB of answers of 1 MiB", 8, compared, pids, options)
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "forward.json").write_text(json.dumps(results, indent=1))
    print("\nraw numbers: target/bench/forward.json")


def paired(path, what, connections, compared, pids, options):
    """CPU per request: every proxy in every round, in another order each time, so that none has a place of
    its own: the first is warm if it was the last before."""
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
            costs[proxy.name].append(spent / (requests if path == "/small" else mib) * 1e6)
    print(f"\nCPU of {what}: microseconds, median [quartiles] of {options.rounds} rounds, "
          f"{connections} connections")
    for name, micros in costs.items():
        print(f"  {name:34}{shown(micros, 1)}")
    print_ratios(costs, aims=AIMS if path == "/small" else {})
    return costs


def print_ratios(costs, aims):
    def ratios(ours, other):
        return [theirs / own for own, theirs in zip(costs[ours], costs[other])]

    control = ratios("HAProxy again", "HAProxy")
    low, _, high = quartiles(control)
    noise = max(abs(1 - low), abs(1 - high))
    print(f"Ratio: the other's CPU by Archipel's, above 1 is better. Equal: within {noise:.1%} (the control).")
    print(f"  {'control: HAProxy twice':34}{shown(control, 2)}")
    for ours in OURS:
        for other in ("HAProxy", "HAProxy with Lua", "nginx"):
            if ours.endswith("unscoped") and other == "HAProxy with Lua":
                continue
            pairs = ratios(ours, other)
            middle = statistics.median(pairs)
            line = f"  {ours + ', to ' + other:34}{shown(pairs, 2)}  {verdict(middle, 1, noise)}"
            if aim := aims.get((ours, other)):
                line += f"; than the aim of {aim}: {verdict(middle, aim, noise)}"
            print(line)


def verdict(ratio, reference, noise):
    by = ratio / reference
    return "equal" if abs(by - 1) <= noise else "better" if by > 1 else "worse"


def quartiles(numbers):
    return statistics.quantiles(numbers, n=4, method="inclusive") if len(numbers) > 1 else numbers * 3


def shown(numbers, digits):
    low, middle, high = quartiles(numbers)
    return f"{middle:8.{digits}f} [{low:.{digits}f} {high:.{digits}f}]"


def load(proxy, path, connections, seconds):
    """Loads a proxy; returns how many requests it answered, and how many MiB. An answer that is no success
    ends it all."""
    headers = [part for name, value in proxy.headers.items() for part in ("-H", f"{name}: {value}")]
    # wrk takes whole seconds; told to stop sooner, it says what it has done so far.
    command = ["taskset", "-c", str(LOAD_CORE), "wrk", "-t1", f"-c{connections}", "-d60s", *headers,
               f"http://127.0.0.1:{proxy.port}{path}"]
    wrk = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        time.sleep(seconds)
    finally:
        wrk.send_signal(2)
        said = wrk.communicate(timeout=20)[0]
    answered = re.search(r"(\d+) requests in .*, ([\d.]+)([KMG])B read", said)
    if not answered or "Non-2xx" in said or int(answered[1]) == 0:
        raise RuntimeError(f"{proxy.name} did not answer as it should:\n{said}")
    return int(answered[1]), float(answered[2]) * {"K": 1 / 1024, "M": 1, "G": 1024}[answered[3]]


def check(proxy):
    """A proxy that answers something else would be fast for nothing."""
    with Client(proxy) as client:
        client.send("/small")
        answer = client.answer()
        if proxies.SMALL.encode() not in answer:
            raise RuntimeError(f"{proxy.name} answers {answer[:300]}")


def idle(compared, pids):
    print(f"\nMemory with {IDLE_CONNECTIONS} idle connections, each after one request: MiB resident (before)")
    sizes = {}
    for proxy in compared:
        before = memory_mib(pids[proxy.name], "VmRSS")
        clients = []
        for _ in range(IDLE_CONNECTIONS):
            clients.append(Client(proxy))
            clients[-1].send("/small")
            clients[-1].answer()
        time.sleep(1)
        sizes[proxy.name] = size = memory_mib(pids[proxy.name], "VmRSS")
        for client in clients:
            client.close()
        aim = ""
        if proxy.name in OURS:
            most = MOST_IDLE_MIB.get(proxy.name, 20)
            aim = f"  {'better' if size <= most else 'worse'} than the aim of {most}"
        print(f"  {proxy.name:34}{size:8.1f} ({before:.1f}){aim}")
    return sizes


def instructions(rig, compared, aims=MOST_INSTRUCTIONS):
    """In user space only. What 2N requests take more than N is what N requests take: starting falls out."""
    print(f"\nUser instructions per request (cachegrind, {COUNTED_CONNECTIONS} connections)")
    counts = {}
    for proxy in compared:
        if proxy.name == "HAProxy again":
            continue
        once, twice = (counted(rig, proxy, requests) for requests in (COUNTED_REQUESTS, 2 * COUNTED_REQUESTS))
        counts[proxy.name] = count = (twice - once) // COUNTED_REQUESTS
        aim = ""
        if most := aims.get(proxy.name):
            aim = f"  {'better' if count <= most else 'worse'} than the aim of {most:,}"
        print(f"  {proxy.name:34}{count:8,}{aim}")
    return counts


def counted(rig, proxy, requests):
    log = rig.dir / "cachegrind.log"
    tool = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null",
            f"--log-file={log}"]
    process = rig.start(proxy.name + " counted", tool + proxy.command, PROXY_CORE, proxy.port)
    clients = [Client(proxy) for _ in range(COUNTED_CONNECTIONS)]
    for _ in range(requests // COUNTED_CONNECTIONS):
        for client in clients:
            client.send("/small")
        for client in clients:
            client.answer()
    for client in clients:
        client.close()
    rig.stop(process)
    return int(re.search(r"I\s+refs:\s+([\d,]+)", log.read_text())[1].replace(",", ""))


class Client:
    """One connection, with answers that fit in one piece."""

    def __init__(self, proxy):
        self.proxy = proxy
        self.socket = socket.create_connection(("127.0.0.1", proxy.port), 60)

    def send(self, path):
        headers = {"Host": f"127.0.0.1:{self.proxy.port}"} | self.proxy.headers
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())

    def answer(self):
        answer = b""
        while proxies.SMALL.encode() not in answer:
            piece = self.socket.recv(65536)
            if not piece or not (answer + piece).startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"{self.proxy.name} answers {answer + piece}")
            answer += piece
        return answer

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


if __name__ == "__main__":
    main()
