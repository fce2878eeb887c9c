"""The tests that do otherwise with images on two sites than directly, by a part of their names, and why that is right."""

EXPECTED = {}
