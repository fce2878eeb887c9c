"""Who asks: `wrk` for many requests at once, and plain connections where each request is told apart."""

import re
import socket
import subprocess
import time

import proxies
from rig import LOAD_CORE

MIB = {"": 2**-20, "K": 2**-10, "M": 1, "G": 2**10}
UNITS = {"us": 1, "ms": 1e3, "s": 1e6, "m": 60e6}


def wrk(proxy, path, connections, seconds):
    """Loads a proxy, and returns what wrk says. An answer that is no success ends it all."""
    headers = [part for name, value in proxy.headers.items() for part in ("-H", f"{name}: {value}")]
    # wrk takes whole seconds; told to stop sooner, it says what it has done so far.
    command = ["taskset", "-c", LOAD_CORE, "wrk", "-t1", f"-c{connections}", "-d60s", "--latency", *headers,
               f"http://127.0.0.1:{proxy.port}{path}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        time.sleep(seconds)
    finally:
        process.send_signal(2)
        said = process.communicate(timeout=20)[0]
    if "Non-2xx" in said or not re.search(r"[1-9]\d* requests in ", said):
        raise RuntimeError(f"{proxy.name} did not answer as it should:\n{said}")
    return said


def load(proxy, path, connections, seconds):
    """How many requests it answered, and how many MiB."""
    answered = re.search(r"(\d+) requests in .*, ([\d.]+)([KMG]?)B read", wrk(proxy, path, connections, seconds))
    return int(answered[1]), float(answered[2]) * MIB[answered[3]]


def median_us(proxy, path, seconds):
    """One request after the other: what half of them took at most."""
    number, unit = re.search(r"50%\s+([\d.]+)(us|ms|s|m)\b", wrk(proxy, path, 1, seconds)).groups()
    return float(number) * UNITS[unit]


def check(proxy):
    """A proxy that answers something else would be fast for nothing."""
    with Client(proxy) as client:
        client.send("/small")
        client.answer()


class Client:
    """One connection, with answers that fit in one piece."""

    def __init__(self, proxy, host="127.0.0.1"):
        self.proxy = proxy
        self.socket = socket.create_connection((host, proxy.port), 60)

    def send(self, path):
        headers = {"Host": f"127.0.0.1:{self.proxy.port}"} | self.proxy.headers
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.socket.sendall(f"GET {path} HTTP/1.1\r\n{lines}\r\n".encode())

    def answer(self, end=proxies.SMALL.encode()):
        answer = b""
        while end not in answer:
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
