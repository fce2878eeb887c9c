"""A mechanism driver for Neutron that binds every port, so that networks need no agents."""

from neutron_lib.plugins.ml2 import api


class BindingDriver(api.MechanismDriver):
    def initialize(self):
        pass

    def bind_port(self, context):
        for segment in context.segments_to_bind:
            context.set_binding(segment[api.ID], "ovs", {"port_filter": False}, status="ACTIVE")
            return
