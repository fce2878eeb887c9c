#!/usr/bin/env python3
"""What a very long body takes of memory on its way: `./bench body`.

Up and down, through one mesh and through two that a link joins. Who receives waits before it reads: a mesh that
took in what it cannot hand on would grow by gigabytes then. VmHWM is the most that ever was resident."""

import argparse
import json
import multiprocessing
import socket
import subprocess
import sys
import time

from rig import ARCHIPEL, LOAD_CORE, PROXY_CORE, RESULTS, Rig, free_ports, memory_mib

MOST_MIB = 64
PIECE = b"x" * (1 << 20)
WAIT_SECONDS = 1
# No piece takes so long, on any machine.
PATIENCE_SECONDS = 60

MESH = """
site = "{site}"
profile = "rest"
state = "{site}-state"
identity = "{site}-identity"
threads = 1
[link]
listen = "127.0.0.1:{link}"
[peers.{peer}]
address = "127.0.0.1:{peer_link}"
[services.image]
public = ["127.0.0.1:{port}"]
upstreams = ["http://127.0.0.1:{backend}"]
"""


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--gib", type=float, default=10)
    options.add_argument("--two-meshes-gib", type=float, help="for the way through two meshes, if not the same")
    options = options.parse_args()
    lengths = [int((gib or options.gib) * (1 << 30)) for gib in (options.gib, options.two_meshes_gib)]
    results = []
    for sites, length in zip((["Site1"], ["Site1", "Site2"]), lengths):
        for way in ("down", "up"):
            # New processes each time: the mark of the most resident memory cannot be set back.
            results.append(measured(sites, way, length))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "body.json").write_text(json.dumps(results, indent=1))
    print("\nraw numbers: target/bench/body.json")
    return any(result["fault"] for result in results)


def measured(sites, way, length):
    with Rig() as rig:
        backend, *ports = free_ports(5)
        server = multiprocessing.Process(target=serve, args=(backend,), daemon=True)
        server.start()
        try:
            meshes = {name: start(rig, name, index, ports, backend).pid
                      for index, name in enumerate(("Site1", "Site2")) if name in sites}
            scope = f"image: {sites[-1]}"
            await_link(ports[0], scope)
            began, fault = time.monotonic(), None
            try:
                {"down": get, "up": put}[way](ports[0], scope, length)
            except (OSError, RuntimeError) as error:
                fault = str(error)
            seconds = time.monotonic() - began
            peaks = {name: round(memory_mib(pid, "VmHWM"), 1) for name, pid in meshes.items()}
        finally:
            server.kill()
            server.join()
    speed = length / 1e6 / (seconds - WAIT_SECONDS)
    how = f"FAILED after {seconds:.0f} s: {fault}" if fault else f"{speed:6.0f} MB/s"
    word = "better" if max(peaks.values()) < MOST_MIB else "worse"
    at_most = ", ".join(f"{name} {mib} MiB" for name, mib in peaks.items())
    through = "one mesh" if len(sites) == 1 else "two meshes"
    print(f"{length / (1 << 30):g} GiB {way:4} through {through:10}: {how}; "
          f"at most resident: {at_most}: {word} than {MOST_MIB} MiB", flush=True)
    return {"through": sites, "way": way, "bytes": length, "seconds": seconds, "fault": fault, "peak_mib": peaks}


def start(rig, site, index, ports, backend):
    listen, link = ports[:2], ports[2:]
    peer = ("Site2", "Site1")[index]
    command = [ARCHIPEL, "init", "--site", site, "--authority", rig.dir / "authority"]
    subprocess.run([*command, "--out", rig.dir / f"{site}-identity"], check=True, stdout=subprocess.DEVNULL)
    text = MESH.format(site=site, peer=peer, port=listen[index], link=link[index], peer_link=link[1 - index],
                       backend=backend)
    config = rig.write(f"{site}.toml", text)
    return rig.start(site, [ARCHIPEL, "run", config], (PROXY_CORE, LOAD_CORE)[index], listen[index])


def await_link(port, scope):
    """The mesh that started first knows the other only once it has tried again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return get(port, scope, 1, wait_seconds=0)
        except RuntimeError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def get(port, scope, length, wait_seconds=WAIT_SECONDS, host="127.0.0.1"):
    with socket.create_connection((host, port), PATIENCE_SECONDS) as client:
        client.sendall(f"GET /{length} HTTP/1.1\r\nHost: a\r\nX-Scope: {scope}\r\n\r\n".encode())
        time.sleep(wait_seconds)
        head, body = read_head(client)
        if not head.startswith("HTTP/1.1 200 "):
            raise RuntimeError(head + body.decode(errors="replace"))
        swallow(client, length - len(body))


def put(port, scope, length, host="127.0.0.1"):
    with socket.create_connection((host, port), PATIENCE_SECONDS) as client:
        head = f"PUT /x HTTP/1.1\r\nHost: a\r\nX-Scope: {scope}\r\nContent-Length: {length}\r\n\r\n"
        client.sendall(head.encode())
        pour(client, length)
        head, body = read_head(client)
        if not head.startswith("HTTP/1.1 204 "):
            raise RuntimeError(head + body.decode(errors="replace"))


def serve(port):
    serve_on(socket.create_server(("127.0.0.1", port)), WAIT_SECONDS)


def serve_on(listener, wait_seconds):
    """One request after the other: as much as a GET asks for, or all that a PUT brings."""
    while True:
        client, _ = listener.accept()
        client.settimeout(PATIENCE_SECONDS)
        with client:
            head, body = read_head(client)
            if head.startswith("GET"):
                length = int(head.split()[1].strip("/"))
                client.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n".encode())
                pour(client, length)
            else:
                fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                time.sleep(wait_seconds)
                swallow(client, int(fields["content-length"]) - len(body))
                client.sendall(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")


def read_head(stream):
    got = b""
    while b"\r\n\r\n" not in got:
        piece = stream.recv(65536)
        if not piece:
            raise RuntimeError(f"closed after {got}")
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    return head.decode(), body


def pour(stream, length):
    while length > 0:
        length -= stream.send(PIECE[: min(length, len(PIECE))])


def swallow(stream, length):
    room = memoryview(bytearray(1 << 20))
    while length > 0:
        got = stream.recv_into(room)
        if got == 0:
            raise RuntimeError(f"closed with {length} bytes to come")
        length -= got
    if length < 0:
        raise RuntimeError(f"{-length} bytes too many")


if __name__ == "__main__":
    sys.exit(main())
