"""A server's screen, as VNC shows it: the beginning of RFB (RFC 6143), by which a client learns whose screen it is."""

import struct

import eventlet

HOST = "127.0.0.1"
VERSION = b"RFB 003.008\n"
NO_SECURITY = b"\x01\x01"
WELCOME = bytes(4)
# A single pixel: 32 bits, 24 of them colours, each 0 to 255, at these bits.
PIXEL = struct.pack("!HHBBBBHHHBBB3x", 1, 1, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)


class Screen:
    def __init__(self, name):
        self.name = name.encode()
        self.listener = eventlet.listen((HOST, 0))
        self.port = self.listener.getsockname()[1]
        self.thread = eventlet.spawn(eventlet.serve, self.listener, self.show)

    def show(self, client, _address):
        for words, reply in ((VERSION, len(VERSION)), (NO_SECURITY, 1), (WELCOME, 1)):
            client.sendall(words)
            if not client.recv(reply, eventlet.green.socket.MSG_WAITALL):
                return
        client.sendall(PIXEL + struct.pack("!I", len(self.name)) + self.name)
        # Keys and clicks are heard, and nothing ever changes.
        while client.recv(4096):
            pass

    def close(self):
        self.thread.kill()
        self.listener.close()
