"""The console of a server: a WebSocket through the mesh to Nova's proxy, and on to the screen of that very server."""

import http.client
import struct
import unittest
import urllib.parse

from harness import STACK, Site1, Site2
from stack import layout
from websocket import WebSocket

VERSION = b"RFB 003.008\n"


class AConsole(unittest.TestCase):
    def server(self, site):
        alice = STACK.client(site)
        image, _ = STACK.image(site)
        server = alice.booted("console", image)
        self.addCleanup(alice.ask, "DELETE", "compute", f"/servers/{server}")
        return server

    def told(self, *arguments):
        """Where the stock client says that a console is: an address, and the path of noVNC's WebSocket there."""
        url = STACK.openstack("Site1-alice", "console", "url", "show", "--novnc", *arguments, "-f", "value", "-c", "url").strip()
        parts = urllib.parse.urlsplit(url)
        [path] = urllib.parse.parse_qs(parts.query)["path"]
        return parts, "/" + path

    def opened(self, address, path):
        console = WebSocket(address, path)
        self.addCleanup(console.close)
        self.assertEqual(console.status, 101, console.headers)
        return console

    def screen(self, address, path):
        """The name that a screen has, learned as a VNC client learns it."""
        console = self.opened(address, path)
        self.assertEqual(console.read(len(VERSION)), VERSION)
        console.send(VERSION)
        # One kind of security, which is none.
        self.assertEqual(console.read(2), b"\x01\x01")
        console.send(b"\x01")
        self.assertEqual(console.read(4), bytes(4))
        console.send(b"\x01")
        [length] = struct.unpack("!20xI", console.read(24))
        return console.read(length).decode()

    def test_it_shows_the_servers_screen(self):
        server = self.server(Site1)
        parts, path = self.told(server)
        self.assertEqual(parts.netloc, STACK.bed.site(Site1).address(layout.CONSOLE, layout.PUBLIC))
        page = http.client.HTTPConnection(parts.netloc)
        self.addCleanup(page.close)
        page.request("GET", f"{parts.path}?{parts.query}")
        answer = page.getresponse()
        self.assertEqual((answer.status, b"noVNC" in answer.read()), (200, True))
        self.assertEqual(self.screen(parts.netloc, path), server)

    def test_of_a_server_at_another_site_it_is_there(self):
        server = self.server(Site2)
        parts, path = self.told(server, "--scope", "compute: Site2")
        self.assertEqual(parts.netloc, STACK.bed.site(Site2).address(layout.CONSOLE, layout.PUBLIC))
        self.assertEqual(self.screen(parts.netloc, path), server)

    def test_without_its_token_there_is_none(self):
        address = STACK.bed.site(Site1).address(layout.CONSOLE, layout.PUBLIC)
        console = self.opened(address, "/?token=00000000-0000-0000-0000-000000000000")
        self.assertEqual(console.read(1), b"")
