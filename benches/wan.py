#!/usr/bin/env python3
"""From site to site over an emulated WAN, packet by packet: `./bench wan`.

Two namespaces, a link between them, and at each end a mesh. Small requests of a client at Site1 for Site2's service are
beside the same request without a mesh, on a connection that is there: one round trip and the service. A long body is
beside the same bytes without a mesh. What the emulator itself can carry is printed first."""

import argparse
import contextlib
import multiprocessing
import socket
import statistics
import subprocess
import time

import body
import proxies
from client import Client
from namespaces import LEFT, RIGHT, Wan, tcp_settings
from results import Results, at_least, at_most, noise_of, quick_option, ratios, spread
from rig import ARCHIPEL, BOTH_CORES, Rig, free_ports

ROUND_TRIPS_MS = (10, 50, 150, 300)
# Beyond a request without a mesh.
MOST_ADDED_MS = 1
# Of the speed without a mesh.
LEAST_SPEED = 0.95
BODY_RTT_MS = 50
SCOPE = "image: Site2"

MESH = """
site = "{site}"
profile = "rest"
state = "{name}-state"
identity = "{site}-identity"
threads = 1
[link]
listen = "{address}:{link}"
[peers.{peer}]
address = "{peer_address}:{link}"
[services.image]
public = ["127.0.0.1:{port}"]
upstreams = ["http://127.0.0.1:{backend}"]
[http]
thin = true
"""


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--only", choices=["small", "body"], action="append")
    options.add_argument("--rounds", type=int, default=40, help="of small requests")
    options.add_argument("--idle", type=float, default=60, help="seconds without a request, before the first")
    options.add_argument("--idle-rounds", type=int, default=9)
    options.add_argument("--mib", type=int, default=1024, help="of the body")
    options.add_argument("--mbit", type=float, default=400, help="a second, of the link that the body goes over")
    options.add_argument("--loss", type=float, default=0, help="of a million packets, on that link")
    options.add_argument("--body-rounds", type=int, default=9)
    quick_option(options)
    options = options.parse_args()
    if options.quick:
        options.rounds, options.idle, options.idle_rounds, options.mib, options.body_rounds = 3, 3, 1, 64, 1
    chosen = options.only or ["small", "body"]
    with Rig() as rig:
        for site in ("Site1", "Site2"):
            command = [ARCHIPEL, "init", "--site", site, "--authority", rig.dir / "authority"]
            subprocess.run([*command, "--out", rig.dir / f"{site}-identity"], check=True, stdout=subprocess.DEVNULL)
        if "small" in chosen:
            small(rig, options)
        if "body" in chosen:
            long_body(rig, options)


def start_meshes(rig, wan, number, backend):
    """One at each end; the port at which clients of Site1 reach it."""
    port, link = [port for port in free_ports(3) if port != backend][:2]
    for side in (LEFT, RIGHT):
        text = MESH.format(site=f"Site{side + 1}", peer=f"Site{2 - side}", name=f"Site{side + 1}-{number}", link=link, port=port,
                           address=wan.addresses[side], peer_address=wan.addresses[1 - side], backend=backend)
        config = rig.write(f"Site{side + 1}-{number}.toml", text)
        with wan.inside(side):
            rig.start(f"Site{side + 1}-{number}", [ARCHIPEL, "run", config], BOTH_CORES, port)
    return port


def small(rig, options):
    results = Results("wan-small", options.quick)
    with contextlib.ExitStack() as stack:
        ways = {}
        for number, rtt_ms in enumerate(ROUND_TRIPS_MS):
            wan = stack.enter_context(Wan(rig, number, rtt_ms))
            backend = free_ports(1)[0]
            with wan.inside(RIGHT):
                rig.start(f"backend {number}", proxies.backend(rig, backend, "0.0.0.0", f"backend{number}"), BOTH_CORES, backend)
            port = start_meshes(rig, wan, number, backend)
            with wan.inside(LEFT):
                direct = Client(proxies.Proxy("direct", [], backend), wan.addresses[RIGHT])
            ways[rtt_ms] = (wan, direct, proxies.Proxy("through two meshes", [], port, SCOPE))
            until_known(*ways[rtt_ms])
        warm, cold = {rtt: ([], []) for rtt in ways}, {rtt: ([], []) for rtt in ways}
        for _ in range(options.rounds):
            for rtt_ms, (wan, direct, mesh) in ways.items():
                ask_both(warm[rtt_ms], wan, direct, mesh)
        for _ in range(options.idle_rounds):
            time.sleep(options.idle)
            for rtt_ms, (wan, direct, mesh) in ways.items():
                ask_both(cold[rtt_ms], wan, direct, mesh)
    report_small(results, "warm", warm, "./bench wan --only small")
    report_small(results, f"first after {options.idle:g} s idle", cold, "./bench wan --only small")
    results.save({"warm": warm, "idle": cold, "idle_s": options.idle})


def until_known(wan, _, mesh):
    deadline = time.monotonic() + 60
    while True:
        with wan.inside(LEFT):
            client = Client(mesh)
        with client:
            try:
                return ask(client)
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
        time.sleep(0.2)


def ask_both(times, wan, direct, mesh):
    """Milliseconds, without and with meshes; the client's own connection to its mesh is there when the clock starts."""
    with wan.inside(LEFT):
        client = Client(mesh)
    with client:
        for kept, one in zip(times, (direct, client)):
            kept.append(ask(one))


def ask(client):
    began = time.perf_counter()
    client.send("/small")
    client.answer()
    return (time.perf_counter() - began) * 1000


def report_small(results, when, times, command):
    added = {}
    for rtt_ms, (direct, through) in times.items():
        added[f"{rtt_ms} ms"] = more = [after - before for before, after in zip(direct, through)]
        middle = statistics.median(more)
        results.row(f"small request to a site {rtt_ms} ms away, {when}", f"≤ 1 round trip + {MOST_ADDED_MS} ms",
                    f"{statistics.median(direct):.1f} + {middle:.2f} ms", at_most(middle, MOST_ADDED_MS),
                    f"{spread(more, 2)} more", command)
    results.plot(f"What two meshes add to a small request, {when}, by the round trip", "milliseconds", added, MOST_ADDED_MS)


def long_body(rig, options):
    results, length = Results("wan-body", options.quick), options.mib << 20
    settings = tcp_settings()
    print("TCP here:", "; ".join(f"{name} {' '.join(values)}" for name, values in settings.items()))
    ceilings = {}
    for rtt_ms in (0, BODY_RTT_MS):
        with service(rig, 8, rtt_ms, 0) as (wan, port):
            ceilings[rtt_ms] = carried(wan, "down", port, length // 4, wan.addresses[RIGHT])
        print(f"the emulator with {rtt_ms} ms and no limit: {ceilings[rtt_ms]:.0f} MB/s without a mesh", flush=True)
    speeds = {f"{way}, {how}": [] for way in ("up", "down") for how in ("TCP", "TCP again", "Archipel")}
    with service(rig, 9, BODY_RTT_MS, options.mbit, options.loss) as (wan, backend):
        port = start_meshes(rig, wan, 9, backend)
        with wan.inside(LEFT):
            body.await_link(port, SCOPE)
        for _ in range(options.body_rounds):
            for name, kept in speeds.items():
                way, how = name.split(", ")
                place = (port, length, "127.0.0.1") if how == "Archipel" else (backend, length, wan.addresses[RIGHT])
                kept.append(carried(wan, way, *place))
                print(f"  {name:24}{kept[-1]:8.1f} MB/s", flush=True)
    for way in ("up", "down"):
        noise = noise_of(ratios(speeds[f"{way}, TCP again"], speeds[f"{way}, TCP"]))
        pairs = ratios(speeds[f"{way}, Archipel"], speeds[f"{way}, TCP"])
        middle = statistics.median(pairs)
        results.row(f"{options.mib} MiB {way}, {BODY_RTT_MS} ms and {options.mbit:g} Mbit/s: speed to plain TCP's", f"≥ {LEAST_SPEED}",
                    f"{middle:.3f}", at_least(middle, LEAST_SPEED, noise),
                    f"{spread(pairs, 3)}; control ± {noise:.1%}; the emulator's own: {ceilings[BODY_RTT_MS]:.0f} MB/s",
                    "./bench wan --only body")
    results.plot(f"{options.mib} MiB over {BODY_RTT_MS} ms", "MB/s", speeds)
    results.save({"speeds_mb_s": speeds, "ceilings_mb_s": ceilings, "tcp": settings})


@contextlib.contextmanager
def service(rig, number, rtt_ms, mbit, loss=0):
    """A link, and a service for long bodies at its far end."""
    with Wan(rig, number, rtt_ms, mbit, loss) as wan:
        with wan.inside(RIGHT):
            listener = socket.create_server(("0.0.0.0", 0))
        process = multiprocessing.Process(target=body.serve_on, args=(listener, 0), daemon=True)
        process.start()
        try:
            yield wan, listener.getsockname()[1]
        finally:
            process.kill()
            process.join()


def carried(wan, way, port, length, host):
    """MB/s, until the last byte is there and, on the way up, is answered for."""
    began = time.monotonic()
    with wan.inside(LEFT):
        if way == "down":
            body.get(port, SCOPE, length, wait_seconds=0, host=host)
        else:
            body.put(port, SCOPE, length, host=host)
    return length / 1e6 / (time.monotonic() - began)


if __name__ == "__main__":
    main()
