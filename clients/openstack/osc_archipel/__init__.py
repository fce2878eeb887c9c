"""Scopes for the `openstack` client."""
