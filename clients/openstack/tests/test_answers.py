"""What answers say of sites, read without any cloud or client."""

import unittest

from osc_archipel import answers


def item(identifier, site=None, **more):
    return {"id": identifier, **({answers.TAG: site} if site else {}), **more}


class ScopeSites(unittest.TestCase):
    def test_each_site_is_told_with_what_is_said_of_it(self):
        text = '"Site1";status=200;ms=4, "DC 2";error=unreachable;ms=0,"C";pending'
        self.assertEqual(
            answers.sites(text),
            [
                ("Site1", {"status": "200", "ms": "4"}),
                ("DC 2", {"error": "unreachable", "ms": "0"}),
                ("C", {"pending": True}),
            ],
        )

    def test_what_is_no_such_list_says_nothing(self):
        for text in ("", "Site1", '"Site1', '"Site1";status=', '"A" "B"', '"A";status=200 junk'):
            self.assertEqual(answers.sites(text), [], text)

    def test_quotes_and_commas_in_a_name_do_not_end_it(self):
        self.assertEqual(answers.sites(r'"a\"b,c\\";status=200'), [('a"b,c\\', {"status": "200"})])


class Complaints(unittest.TestCase):
    def said(self, sites, warning=None):
        headers = {"Scope-Sites": sites, **({"Warning": warning} if warning else {})}
        return list(answers.complaints(headers))

    def test_a_list_that_lacks_a_site_says_which_and_why(self):
        said = self.said('"A";status=200, "B";error=unreachable, "C";status=401', '299 - "a site is missing"')
        self.assertEqual(said, ["B is missing from this list (unreachable)", "C is missing from this list (status 401)"])

    def test_an_answer_of_all_sites_says_nothing(self):
        self.assertEqual(self.said('"A";status=200;ms=1, "B";status=200;ms=9'), [])
        self.assertEqual(list(answers.complaints({})), [])

    def test_a_resource_that_only_one_site_has_is_no_reason_to_warn(self):
        self.assertEqual(self.said('"A";status=404, "B";status=200'), [])

    def test_a_slower_site_that_was_let_go_is_no_reason_to_warn(self):
        self.assertEqual(self.said('"A";error=cancelled, "B";status=200'), [])

    def test_a_site_that_another_stood_in_for_is_told(self):
        self.assertEqual(self.said('"A";error=timeout, "B";status=200'), ["A did not answer (timeout)"])

    def test_a_replica_that_is_still_to_come_is_no_reason_to_warn_but_one_that_diverged_is(self):
        self.assertEqual(self.said('"A";status=201, "B";pending'), [])
        self.assertEqual(
            self.said('"A";status=201, "B";diverged;status=409'), ["B diverged: it refused this with status 409"]
        )


class SiteColumn(unittest.TestCase):
    def columns(self, document, names, rows):
        tags = answers.Tags()
        tags.add(document)
        return tags.columns(names, rows)

    def test_rows_of_tagged_items_say_their_site(self):
        document = {"images": [item("1", "Site1"), item("2", "Site2")], "next": "/v2/images?marker=2"}
        names, rows = self.columns(document, ("ID", "Name"), [("1", "a"), ("2", "b")])
        self.assertEqual(names, ("ID", "Name", "Site"))
        self.assertEqual(rows, [("1", "a", "Site1"), ("2", "b", "Site2")])

    def test_a_list_without_tags_is_as_it_was(self):
        rows = [("1", "a")]
        self.assertEqual(self.columns({"images": [item("1")]}, ("ID", "Name"), rows), (("ID", "Name"), rows))

    def test_an_empty_list_is_as_it_was(self):
        self.assertEqual(self.columns({"images": []}, ("ID",), []), (("ID",), []))

    def test_items_of_the_same_id_are_told_apart_by_their_order(self):
        document = {"flavors": [item("tiny", "Site1"), item("tiny", "Site2")]}
        _, rows = self.columns(document, ["ID"], [("tiny",), ("tiny",)])
        self.assertEqual(rows, [("tiny", "Site1"), ("tiny", "Site2")])

    def test_the_sites_of_a_replicated_resource_are_one_text(self):
        _, rows = self.columns({"images": [item("1", "Site1 & Site2")]}, ["ID"], [("1",)])
        self.assertEqual(rows, [("1", "Site1 & Site2")])

    def test_a_key_pair_is_known_by_the_name_of_the_object_in_it(self):
        document = {"keypairs": [{"keypair": {"name": "k", "fingerprint": "x"}, answers.TAG: "Site3"}]}
        _, rows = self.columns(document, ("Name", "Fingerprint"), [("k", "x")])
        self.assertEqual(rows, [("k", "x", "Site3")])

    def test_an_item_that_is_in_no_tagged_list_has_no_site(self):
        document = {"images": [item("1", "Site1")]}
        _, rows = self.columns(document, ["ID"], [("1",), ("other",)])
        self.assertEqual(rows, [("1", "Site1"), ("other", "")])

    def test_any_json_can_be_looked_at(self):
        for document in (None, 1, "text", [], [1], [[item("1", "A")]], {"a": 1, "b": [None]}, {"c": {"d": []}}):
            self.columns(document, ["ID"], [("1",)])
