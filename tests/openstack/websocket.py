"""A WebSocket client (RFC 6455) of a few lines, for binary messages that fit into one frame."""

import base64
import hashlib
import os
import socket
import struct

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
BINARY, CLOSE = 2, 8
PATIENCE_SECONDS = 60


class WebSocket:
    def __init__(self, address, path):
        """Opens one as a browser does, which says whose page asks for it."""
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)), PATIENCE_SECONDS)
        self.stream = self.socket.makefile("rb")
        self.left = b""
        key = base64.b64encode(os.urandom(16))
        head = [f"GET {path} HTTP/1.1", f"Host: {address}", f"Origin: http://{address}", "Connection: Upgrade", "Upgrade: websocket"]
        head += ["Sec-WebSocket-Version: 13", "Sec-WebSocket-Protocol: binary", f"Sec-WebSocket-Key: {key.decode()}", "", ""]
        self.socket.sendall("\r\n".join(head).encode())
        self.status = int(self.stream.readline().split()[1])
        lines = iter(self.stream.readline, b"\r\n")
        self.headers = {name.lower().decode(): value.strip().decode() for name, _, value in (line.partition(b":") for line in lines)}
        if self.status == 101:
            accepted = base64.b64encode(hashlib.sha1(key + MAGIC).digest()).decode()
            assert self.headers["sec-websocket-accept"] == accepted, self.headers

    def send(self, content):
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[number % 4] for number, byte in enumerate(content))
        self.socket.sendall(struct.pack("!BB", 0x80 | BINARY, 0x80 | len(content)) + mask + masked)

    def read(self, length):
        """So many bytes of messages; fewer where the other side ends."""
        while len(self.left) < length:
            frame = self.frame()
            if frame is None:
                break
            self.left += frame
        content, self.left = self.left[:length], self.left[length:]
        return content

    def frame(self):
        head = self.stream.read(2)
        if len(head) < 2 or head[0] & 0x0F == CLOSE:
            return None
        length = head[1]
        if length == 126:
            [length] = struct.unpack("!H", self.stream.read(2))
        return self.stream.read(length)

    def close(self):
        self.stream.close()
        self.socket.close()
