"""The network between the sites, as a relay that can be cut: each site reaches the others only through it.

While two sites are cut apart, nothing that one sends reaches the other, and nobody is told: as with a cable. What was
connected goes on when the cut is healed.
"""

import asyncio
import json
import socket
import sys

from .layout import HOST, PYTHON_PATH, Failure
from .process import PYTHON, Process

CHUNK = 1 << 16
READY_SECONDS = 10


def process(bed):
    return Process(bed, "wan")


def control(bed):
    return bed.run / "wan.sock"


def start(bed):
    """Starts the relay. What it relays is said in its arguments."""
    places = {site.name: [site.link_host, site.link_port, site.wan_port] for site in bed.sites}
    wan = process(bed)
    wan.start([PYTHON, "-m", "bed.wan", control(bed), json.dumps(places)], PYTHONPATH=str(PYTHON_PATH))
    wan.wait(lambda: answers(bed), "it does not answer", READY_SECONDS)


def answers(bed):
    try:
        return ask(bed, "state") is not None
    except Failure:
        return False


def ask(bed, line):
    """Has the relay do something; what it says is the pairs that are cut now."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(READY_SECONDS)
            connection.connect(str(control(bed)))
            connection.sendall(line.encode() + b"\n")
            return json.loads(connection.makefile().readline())
    except OSError as error:
        raise Failure(f"the network between the sites does not run: start it with `up --mesh BIN` ({error})") from error


class Wan:
    """The relay itself."""

    def __init__(self, places):
        # By name: where its link listens, and the port at which others reach it.
        self.places = places
        self.hosts = {host: name for name, (host, _, _) in places.items()}
        self.cut = set()
        self.changed = asyncio.Condition()
        self.ports = {}

    async def open(self):
        loop = asyncio.get_running_loop()
        for name, (_, _, port) in self.places.items():
            relay = lambda reader, writer, name=name: self.connected(name, reader, writer)
            await asyncio.start_server(relay, HOST, port)
            self.ports[name], _ = await loop.create_datagram_endpoint(
                lambda name=name: Datagrams(self, name), local_addr=(HOST, port)
            )

    def apart(self, one, other):
        return frozenset((one, other)) in self.cut

    async def passable(self, one, other):
        async with self.changed:
            await self.changed.wait_for(lambda: not self.apart(one, other))

    async def connected(self, to, reader, writer):
        """One connection, from whoever has its address to a site."""
        sender = self.hosts.get(writer.get_extra_info("peername")[0])
        onward = None
        try:
            await self.passable(sender, to)
            host, port, _ = self.places[to]
            there, onward = await asyncio.open_connection(host, port)
            await asyncio.gather(self.copy(sender, to, reader, onward), self.copy(to, sender, there, writer))
        except OSError:
            pass
        finally:
            for end in (writer, onward):
                if end:
                    end.close()

    async def copy(self, sender, to, reader, writer):
        while True:
            chunk = await reader.read(CHUNK)
            if self.apart(sender, to):
                await self.passable(sender, to)
            if not chunk:
                if writer.can_write_eof():
                    writer.write_eof()
                return
            writer.write(chunk)
            await writer.drain()

    async def told(self, reader, writer):
        """One command of a person's or a test's."""
        verb, *names = (await reader.readline()).decode().split()
        async with self.changed:
            if verb == "cut":
                ends = [names] if len(names) == 2 else [(names[0], other) for other in self.places if other != names[0]]
                self.cut |= {frozenset(pair) for pair in ends}
            elif verb == "heal":
                self.cut.clear()
            self.changed.notify_all()
        writer.write(json.dumps(sorted(sorted(pair) for pair in self.cut)).encode() + b"\n")
        await writer.drain()
        writer.close()


class Datagrams(asyncio.DatagramProtocol):
    """The port at which datagrams for one site come in; and from which others get those that it sends."""

    def __init__(self, wan, to):
        self.wan, self.to = wan, to

    def datagram_received(self, data, address):
        sender = self.wan.hosts.get(address[0])
        host, port, _ = self.wan.places[self.to]
        if sender and not self.wan.apart(sender, self.to):
            self.wan.ports[sender].sendto(data, (host, port))


async def serve(path, places):
    wan = Wan(places)
    await wan.open()
    server = await asyncio.start_unix_server(wan.told, path)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], json.loads(sys.argv[2])))
