"""The sites that the tests are about: those of the directory that OPENSTACK_BED names."""

import os

from stack import Site1, Site2, Site3, Stack

STACK = Stack(os.environ["OPENSTACK_BED"])

__all__ = ["STACK", "Site1", "Site2", "Site3"]
