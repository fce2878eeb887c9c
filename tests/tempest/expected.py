"""The tests that do otherwise with images on two sites than directly, by a part of their names, and why.

The same table, for people, is in docs/openstack.md.
"""

NO_KIND = "definitions of metadata are no images: what the profile does not list is not made at two sites (422)"
ABSENT = "with `&`, a write to what is not replicated is a 422, also where there is nothing at all: a client expects a 404"
IMPORT = "an import may run once only, and at `@eventual` each site executes for itself (422)"

EXPECTED = {
    "test_images_metadefs_namespace_objects.": NO_KIND,
    "test_images_metadefs_namespace_tags.": NO_KIND,
    "test_image_glance_direct_import": IMPORT,
    "test_delete_image_null_id": ABSENT,
    "test_delete_non_existing_image": ABSENT,
    "test_get_delete_deleted_image": ABSENT,
    "test_update_tags_for_non_existing_image": ABSENT,
    # They delete once more what a test has deleted.
    "tearDownClass (tempest.api.image.v2.test_images.BasicOperationsImagesTest)": ABSENT,
    "tearDownClass (tempest.api.image.v2.test_images_tags.ImagesTagsTest)": ABSENT,
    "tearDownClass (tempest.api.image.v2.test_images_tags_negative.ImagesTagsNegativeTest)": ABSENT,
}
