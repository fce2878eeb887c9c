"""The tests that do otherwise with images on two sites than directly, by a part of their names, and why.

The same table, for people, is in docs/openstack.md.
"""

NO_KIND = "definitions of metadata are no images: what the profile does not list is not made at two sites (422)"
NO_ID = "a deletion without an id is one of the whole collection, which is nothing that is made at two sites (422)"
IMPORT = "an import may run once only, and at `@eventual` each site executes for itself (422)"

EXPECTED = {
    "test_images_metadefs_namespace_objects.": NO_KIND,
    "test_images_metadefs_namespace_tags.": NO_KIND,
    "test_image_glance_direct_import": IMPORT,
    "test_delete_image_null_id": NO_ID,
}
