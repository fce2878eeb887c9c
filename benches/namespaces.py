"""Two network namespaces, and between them an emulated WAN, packet by packet: their TCP is the kernel's own.

Needs root and `/dev/net/tun`. Whatever is started, or connected, `inside` one of them is there, and stays there."""

import contextlib
import ctypes
import os
import subprocess

from rig import ROOT

PROGRAM = ROOT / "target/release/examples/packets"
LEFT, RIGHT = 0, 1
NETWORK = 0x40000000  # CLONE_NEWNET
# What a device may keep until the emulator has read it: it loses nothing before the emulator does.
DEVICE_PACKETS = 10_000


class Wan:
    """A link of one round trip and rate. Use it in a `with`: leaving it removes the namespaces, and all in them ends to hear."""

    def __init__(self, rig, number, rtt_ms, mbit=0, loss_per_million=0):
        self.rig, self.rtt_ms = rig, rtt_ms
        self.names = [f"archipel-{os.getpid()}-{number}{side}" for side in "ab"]
        self.addresses = [f"10.77.{number}.{side}" for side in (1, 2)]
        self.devices = [f"wan{number}{side}" for side in "ab"]
        self.arguments = [rtt_ms, mbit, loss_per_million]

    def __enter__(self):
        command = [PROGRAM, *map(str, self.arguments), *self.devices]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.rig.running.append(self.process)
        self.expect("ready")
        for name, device, address in zip(self.names, self.devices, self.addresses):
            ip("netns", "add", name)
            ip("link", "set", device, "netns", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "address", "add", f"{address}/30", "dev", device)
            ip("-n", name, "link", "set", device, "mtu", "1500", "txqueuelen", str(DEVICE_PACKETS), "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL)
        if self.process in self.rig.running:
            self.rig.stop(self.process)

    def say(self, word):
        """`cut`: from now on all packets vanish; `heal`: they do not."""
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()
        self.expect("done")

    def expect(self, word):
        if self.process.stdout.readline().strip() != word:
            raise RuntimeError("the emulator does not run: it needs root and /dev/net/tun")

    @contextlib.contextmanager
    def inside(self, side):
        """This thread, and what it starts meanwhile, is in one of the namespaces."""
        with open("/proc/thread-self/ns/net") as home, open(f"/run/netns/{self.names[side]}") as there:
            enter(there)
            try:
                yield
            finally:
                enter(home)


def enter(namespace):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace.fileno(), NETWORK) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def tcp_settings():
    """What the kernel does with connections; new namespaces have the same."""
    names = ("tcp_congestion_control", "tcp_rmem", "tcp_wmem", "tcp_slow_start_after_idle")
    return {name: open(f"/proc/sys/net/ipv4/{name}").read().split() for name in names}
