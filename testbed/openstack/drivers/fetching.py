"""A driver for nova-compute whose servers have real disks, and nothing else that is real.

Nova's own fake driver never asks Glance for anything. This one fetches the image of each server, by the call that
the libvirt driver makes, into a file that can be compared with the image; and a snapshot uploads that file. Each server
also has a screen that VNC clients can look at.
"""

import os

import nova.conf
from nova.image import glance
from nova.console import type as console
from nova.virt import fake, images, screen

CONF = nova.conf.CONF


class FetchingDriver(fake.MediumFakeDriver):
    def __init__(self, *given, **named):
        super().__init__(*given, **named)
        self.screens = {}

    def disk(self, instance):
        return os.path.join(CONF.instances_path, f"{instance.uuid}.disk")

    def spawn(self, context, instance, image_meta, *rest, **named):
        if instance.image_ref:
            images.fetch(context, instance.image_ref, self.disk(instance))
        return super().spawn(context, instance, image_meta, *rest, **named)

    def snapshot(self, context, instance, image_id, update_task_state):
        super().snapshot(context, instance, image_id, update_task_state)
        api = glance.API()
        name = api.get(context, image_id)["name"]
        meta = {"name": name, "status": "active", "disk_format": "raw", "container_format": "bare"}
        with open(self.disk(instance), "rb") as content:
            api.update(context, image_id, meta, content)

    def destroy(self, context, instance, *rest, **named):
        try:
            os.unlink(self.disk(instance))
        except FileNotFoundError:
            pass
        if instance.uuid in self.screens:
            self.screens.pop(instance.uuid).close()
        return super().destroy(context, instance, *rest, **named)

    def get_vnc_console(self, context, instance):
        if instance.uuid not in self.screens:
            self.screens[instance.uuid] = screen.Screen(instance.uuid)
        return console.ConsoleVNC(host=screen.HOST, port=self.screens[instance.uuid].port)
