#!/usr/bin/env python3
"""Memory with many idle connections, each after one request: `./bench idle`.

How busy the machine is does not matter."""

import argparse
import time

import proxies
from client import Client
from results import Results, at_most, quick_option
from rig import LOAD_CORE, PROXY_CORE, Rig, free_ports, memory_mib

# Archipel gives back what only its start needed, two seconds after it.
SETTLED_SECONDS = 3
# Mebibytes resident, by the number of connections.
AIMS = {1_000: 8, 10_000: 40}
LEFT_OUT = ("HAProxy again", "HAProxy with Lua", "HAProxy with less Lua", "HAProxy with json_query", "thin scoped", "scoped")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    quick_option(options)
    options = options.parse_args()
    results, raw = Results("idle", options.quick, minds_load=False), {}
    with Rig() as rig:
        backend, *ports = free_ports(13)
        rig.start("backend", proxies.backend(rig, backend), LOAD_CORE, backend)
        for proxy in proxies.everyone(rig, backend, ports):
            if proxy.name in LEFT_OUT:
                continue
            process = rig.start(proxy.name, proxy.command, PROXY_CORE, proxy.port)
            raw[proxy.name] = sizes = measured(proxy, process.pid)
            rig.stop(process)
            for connections, aim in AIMS.items():
                size = sizes[str(connections)]
                judged = proxy.name.startswith("thin")
                results.row(f"MiB resident with {connections:,} idle connections, {proxy.name.replace('unscoped', 'Archipel')}",
                            f"≤ {aim}" if judged else "", f"{size:.1f}", at_most(size, aim) if judged else "",
                            f"{sizes['0']:.1f} with none" + (f", {sizes['program']:.1f} of it the program" if judged else ""))
    for connections in AIMS:
        results.plot(f"Memory with {connections:,} idle connections", "MiB resident",
                     {name.replace("unscoped", "Archipel"): [sizes[str(connections)]] for name, sizes in raw.items()},
                     AIMS[connections])
    results.save(raw)


def measured(proxy, pid):
    """MiB by the number of idle connections; `program`: how much of it is the program's file, as the kernel maps it."""
    time.sleep(SETTLED_SECONDS)
    sizes, clients = {"0": memory_mib(pid, "VmRSS")}, []
    for connections in AIMS:
        while len(clients) < connections:
            clients.append(Client(proxy))
            clients[-1].send("/small")
            clients[-1].answer()
        time.sleep(1)
        sizes[str(connections)] = memory_mib(pid, "VmRSS")
    sizes["program"] = memory_mib(pid, "RssFile")
    for client in clients:
        client.close()
    return sizes


if __name__ == "__main__":
    main()
