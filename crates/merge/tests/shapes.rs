//! The lists of real services, of two sites, as one.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use bytes::Bytes;
use drive::{Answer, drive, merge, merge_with, openstack, plan, rest, union};
use merge::{Broken, Fault, Head, Late, Limits, Merged, Merger, Pull};
use profile::{List, Profile};

#[test]
fn arrays_become_one_array_and_each_object_says_its_site() {
    let merged = merge(&rest(), "", &[r#"[ {"id":1} , {} ]"#, "[]", r#"[{"id":2, "x" : [1e3] }]"#]);
    assert_eq!(
        merged.text(),
        r#"[{"id":1,"scope_site":"Site1"},{"scope_site":"Site1"},{"id":2, "x" : [1e3] ,"scope_site":"Site3"}]"#
    );
}

#[test]
fn an_item_that_says_its_site_and_one_that_is_no_object_stay_as_they_are() {
    let answers = [r#"[{"scope_site":"Elsewhere"},"a",1.50,null]"#, r#"[[{"a":1}],true]"#];
    let merged = merge(&rest(), "", &answers);
    assert_eq!(merged.text(), r#"[{"scope_site":"Elsewhere"},"a",1.50,null,[{"a":1}],true]"#);
    let escaped = r#"[{"scope\u005fsite":"Elsewhere"}]"#;
    assert_eq!(merge(&rest(), "", &[escaped, "[]"]).text(), escaped);
}

#[test]
fn texts_and_numbers_are_a_set_in_the_sources_order() {
    let merged =
        merge(&rest(), "", &[r#"["b","a",1,"a",null]"#, r#"["c","\u0061",1,1.0,null]"#, r#"[true,"d"]"#]);
    assert_eq!(merged.text(), r#"["b","a",1,null,"c",1.0,true,"d"]"#);
    let unique = Merged::Unique(vec![Merged::Source(0), Merged::Source(1)]);
    let answers = [Answer::from(r#"["a","b",1]"#), Answer::from(r#"["b","c"]"#)];
    assert_eq!(merge_with(&rest(), &unique, "", &answers, None).text(), r#"["a",1,"c"]"#);
}

#[test]
fn texts_in_pages_are_told_once_in_their_order_and_not_at_all_without_one() {
    let text = "description = 'x'\n[[lists.kinds]]\npaths = ['/things']\nitems = 'names'\nsort = { default = ['name'] }\n\
                paging = { limit = 'n', marker = 'last', next = [{ header = 'link' }], guess = true }";
    let list = Profile::read(text).unwrap().lists.of("s", "/things").unwrap();
    let all = [["a", "b", "d", "f"], ["b", "c", "d", "e"]];
    let (mut query, mut told) = ("n=2".to_owned(), Vec::new());
    for _ in 0..8 {
        let page = plan(&list, &union(2), &query, 2).unwrap();
        let answers = [0, 1].map(|source| {
            let asked = page.query(source).unwrap_or("n=0");
            let number = |name: &str| asked.split('&').find_map(|pair| pair.strip_prefix(name));
            let (count, after) = (number("n=").unwrap().parse().unwrap(), number("last=").unwrap_or(""));
            let names: Vec<&str> = all[source].into_iter().filter(|name| *name > after).take(count).collect();
            Answer::from(serde_json::json!({ "names": names }).to_string().as_str())
        });
        let merged = merge_with(&list, &union(2), &query, &answers, None);
        let names = merged.json()["names"].as_array().unwrap().clone();
        told.extend(names.iter().map(|name| name.as_str().unwrap().to_owned()));
        let Some(link) = merged.header else { break };
        query = link.split_once('?').unwrap().1.split_once('>').unwrap().0.to_owned();
    }
    assert_eq!(told, ["a", "b", "c", "d", "e", "f"]);
    let unsorted = List { sort: None, ..list };
    let answers = [r#"{"names":["a"]}"#, r#"{"names":["a"]}"#];
    assert_eq!(merge(&unsorted, "n=1", &answers).end, Err(Broken::ValuesPaged));
    assert_eq!(merge(&unsorted, "", &answers).text(), r#"{"names":["a"]}"#);
}

/// A list that a profile declares so.
fn declared(text: &str) -> List {
    let text = format!(
        "description = 'x'\n[lists]\ntag = 'scope_site'\n[[lists.kinds]]\npaths = ['/things']\n{text}"
    );
    Profile::read(&text).unwrap().lists.of("s", "/things").unwrap()
}

#[test]
fn list_keyed_by_id_is_one_object_and_a_name_that_two_have_is_an_error() {
    let list = declared("keyed = true");
    let merged = merge(&list, "", &[r#"{ "a" : {"n":1}, "b":{} }"#, "{}", r#"{"c":{"n":2},"d":7,"e":7}"#]);
    assert_eq!(
        merged.text(),
        r#"{"a":{"n":1,"scope_site":"Site1"},"b":{"scope_site":"Site1"},"c":{"n":2,"scope_site":"Site3"},"d":7,"e":7}"#
    );
    let same = merge(&list, "", &[r#"{"a":{}}"#, r#"{"\u0061":{}}"#]);
    assert_eq!(same.end, Err(Broken::SameName { name: "a".to_owned() }));
    let unique = Merged::Unique(vec![Merged::Source(0), Merged::Source(1)]);
    let answers = [Answer::from(r#"{"a":1,"b":1}"#), Answer::from(r#"{"b":2,"c":1}"#)];
    assert_eq!(merge_with(&list, &unique, "", &answers, None).text(), r#"{"a":1,"c":1}"#);
    let within = declared("keyed = true\nitems = 'volumes'\nsum = ['count']");
    let merged =
        merge(&within, "", &[r#"{"count":1,"volumes":{"a":{}}}"#, r#"{"volumes":{"b":{}},"count":2}"#]);
    assert_eq!(
        merged.text(),
        r#"{"volumes":{"a":{"scope_site":"Site1"},"b":{"scope_site":"Site2"}},"count":3}"#
    );
    for broken in [r#"{"a":1"#, r#"{"a" 1}"#, r#"{"a":1,}"#, r"{1:1}", r#"{"a":}"#] {
        let merged = merge(&list, "", &[r#"{"b":1}"#, broken]);
        assert_eq!((merged.text(), merged.failures.len()), (r#"{"b":1}"#, 1), "{broken}");
    }
}

#[test]
fn list_of_hal_is_within_what_it_embeds() {
    let list = declared(
        "items = '_embedded.orders'\nsum = ['total']\npaging = { marker = 'after', next = [{ member = '_links.next.href' }] }",
    );
    let one = r#"{"_links":{"self":{"href":"/orders"},"next":{"href":"/orders?after=1"}},"_embedded":{"orders":[{"id":1}],"of":[7]},"total":3}"#;
    let other = r#"{"total":1,"_embedded":{"orders":[{"id":9}]}}"#;
    let merged = merge(&list, "", &[one, other]);
    let json = merged.json();
    let ids: Vec<_> =
        json["_embedded"]["orders"].as_array().unwrap().iter().map(|item| &item["id"]).collect();
    // The first has more: the next page goes on there.
    assert_eq!((ids, &json["total"]), (vec![&1.into()], &4.into()), "{json}");
    assert_eq!(json["_embedded"]["of"], serde_json::json!([7]));
    let next = json["_links"]["next"]["href"].as_str().unwrap();
    let page = plan(&list, &union(2), next.split_once('?').unwrap().1, 2).unwrap();
    assert_eq!([page.query(0), page.query(1)], [Some("after=1"), Some("")]);
    // Where nothing is embedded, there is nothing.
    let merged = merge(
        &list,
        "",
        &[r#"{"_embedded":{"orders":[]},"total":0}"#, r#"{"total":0}"#, r#"{"_embedded":null}"#],
    );
    assert_eq!(merged.text(), r#"{"_embedded":{"orders":[]},"total":0}"#);
    assert_eq!(merged.failures, []);
}

/// Merges bodies of one media type.
fn of_type(content_type: &str, list: &List, bodies: &[&str]) -> Result<String, Broken> {
    let page = plan(list, &union(bodies.len()), "", bodies.len()).unwrap();
    let mut merger = Merger::new(list.clone(), union(bodies.len()), page, Limits::default(), Late::Abort);
    for (source, body) in bodies.iter().enumerate() {
        merger.open(source, Head { content_type: Some(content_type), ..Head::default() });
        for byte in body.bytes() {
            merger.push(source, Bytes::copy_from_slice(&[byte]));
        }
        merger.end(source);
    }
    let mut text = Vec::new();
    loop {
        match merger.pull()? {
            Pull::Chunk(bytes) => text.extend_from_slice(&bytes),
            Pull::Done => return Ok(String::from_utf8(text).unwrap()),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn list_of_json_api_is_its_data_with_what_all_include_once() {
    let merged = of_type(
        "application/vnd.api+json; charset=utf-8",
        &rest(),
        &[
            r#"{"data":[{"type":"a","id":"1"}],"included":[{"type":"p","id":"7"}],"meta":{"total":1}}"#,
            r#"{"data":[{"type":"a","id":"2"}],"included":[{"type":"p","id":"7"},{"type":"p","id":"8"}],"meta":{"total":2}}"#,
        ],
    );
    let json: serde_json::Value = serde_json::from_str(&merged.unwrap()).unwrap();
    let ids = |name: &str| -> Vec<String> {
        json[name].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!((ids("data"), ids("included")), (vec!["1".into(), "2".into()], vec!["7".into(), "8".into()]));
    assert_eq!(json["meta"]["total"], 3);
    assert_eq!(json["data"][1]["scope_site"], "Site2");
}

#[test]
fn lines_of_json_are_merged_as_lines() {
    let lines = ["{\"id\":2}\n{\"id\":4}\n", "", "\r\n{\"id\":1}\n\n[3]\n"];
    let merged = of_type("application/x-ndjson", &rest(), &lines).unwrap();
    assert_eq!(
        merged,
        "{\"id\":2,\"scope_site\":\"Site1\"}\n{\"id\":4,\"scope_site\":\"Site1\"}\n{\"id\":1,\"scope_site\":\"Site3\"}\n[3]\n"
    );
    assert_eq!(
        of_type("application/jsonl", &rest(), &["{\"id\":", "{\"id\":1}\n"]).unwrap(),
        "{\"id\":1,\"scope_site\":\"Site2\"}\n"
    );
}

#[test]
fn next_page_without_the_marker_that_the_profile_says_is_an_error() {
    let answers = [r#"{"things":[{"id":1}],"next":"/things?page=2"}"#, r#"{"things":[{"id":2}]}"#];
    assert_eq!(merge(&rest(), "", &answers).end, Err(Broken::NextUnknown { source: 0 }));
}

#[test]
fn declared_list_of_another_shape_is_left_out_and_alone_an_error() {
    let list = openstack("image", "/v2/images");
    let merged = merge(&list, "", &[r#"{"id":"x"}"#, r#"{"images":[{"id":1}]}"#]);
    assert_eq!(merged.failures, [(0, Fault::Shape)]);
    assert_eq!(merged.json()["images"].as_array().unwrap().len(), 1);
    for body in ["17", "{}", r#"{"images":{}}"#] {
        assert_eq!(merge(&list, "", &[body, body]).end, Err(Broken::NotAList), "{body}");
    }
    assert_eq!(merge(&list, "", &["{", "{"]).end, Err(Broken::Nothing));
}

#[test]
fn an_object_with_one_array_of_objects_is_a_list_with_the_first_sites_envelope() {
    let merged = merge(
        &rest(),
        "",
        &[
            r#"{"kind":"L","things":[{"id":1}],"tags":["x"],"a":{"b": 1}}"#,
            r#"{"kind":"M","things":[{"id":2}],"more":1}"#,
        ],
    );
    assert_eq!(
        merged.text(),
        r#"{"things":[{"id":1,"scope_site":"Site1"},{"id":2,"scope_site":"Site2"}],"kind":"L","tags":["x"],"a":{"b": 1}}"#
    );
}

#[test]
fn empty_lists_are_lists_also_as_null() {
    assert_eq!(merge(&rest(), "", &["[]", "[]"]).text(), "[]");
    assert_eq!(merge(&rest(), "", &[r#"{"a":[]}"#, r#"{"a":[]}"#]).text(), r#"{"a":[]}"#);
    let merged = merge(&rest(), "", &[r#"{"a":[{"id":1}]}"#, r#"{"a":null}"#]);
    assert_eq!(merged.json()["a"].as_array().unwrap().len(), 1);
    assert_eq!(merged.failures, []);
    let merged = merge(&rest(), "", &[r#"{"a":[{"id":1}]}"#, r#"{"a":5}"#]);
    assert_eq!(merged.failures, [(1, Fault::Shape)]);
}

#[test]
fn what_is_one_resource_is_told_so_with_every_byte_that_was_taken() {
    for body in [
        r#"{"id":"x","disks":[{"size":1}]}"#,
        r#"{"disks":[{"size":1}],"id":"x"}"#,
        r#"{"a":[{}],"b":[{}]}"#,
        r#"{"a":[],"b":[]}"#,
        r#"{"server":{"id":1}}"#,
        r#"{"tags":["a"]}"#,
        "{}",
        "17",
        "\"[]\"",
    ] {
        let list = rest();
        let page = plan(&list, &union(2), "", 2).unwrap();
        let mut merger = Merger::new(list, union(2), page, Limits::default(), Late::Abort);
        let outcome = drive(&mut merger, &[Answer::from(body), Answer::from("[1]")], Some(drive::Dice(7)));
        assert_eq!(outcome.end, Ok(Pull::NotAList), "{body}");
        assert_eq!(merge(&rest(), "", &[body, "[1]"]).end, Ok(Pull::NotAList), "{body}");
        assert_eq!(merger.take_raw(0).concat(), body.as_bytes()[..outcome.pushed[0]], "{body}");
        assert_eq!(merger.take_raw(1).concat(), b"[1]"[..outcome.pushed[1]], "{body}");
    }
}

#[test]
fn an_answer_that_is_not_json_by_its_type_is_not_a_list() {
    let list = rest();
    let page = plan(&list, &union(1), "", 1).unwrap();
    let mut merger = Merger::new(list, union(1), page, Limits::default(), Late::Abort);
    merger.open(0, Head { content_type: Some("text/html"), ..Head::default() });
    merger.push(0, Bytes::from_static(b"[1]"));
    assert_eq!(merger.pull(), Ok(Pull::NotAList));
    assert_eq!(merger.take_raw(0), [Bytes::from_static(b"[1]")]);
}

#[test]
fn some_text_without_a_type_is_not_a_list_and_what_starts_like_one_must_be_one() {
    let open = |content_type: Option<&str>, body: &'static str| {
        let page = plan(&rest(), &union(1), "", 1).unwrap();
        let mut merger = Merger::new(rest(), union(1), page, Limits::default(), Late::Abort);
        merger.open(0, Head { content_type, ..Head::default() });
        merger.push(0, Bytes::from_static(body.as_bytes()));
        merger.end(0);
        merger.pull()
    };
    assert_eq!(open(None, "fine"), Ok(Pull::NotAList));
    assert_eq!(open(Some("application/json"), "fine"), Err(Broken::Nothing));
    assert_eq!(open(None, "[{\"id\": 1}, {"), Err(Broken::Nothing));
    assert_eq!(open(None, "{\"a\": [{"), Err(Broken::Nothing));
    assert_eq!(open(None, " "), Err(Broken::Nothing));
}

#[test]
fn images_of_two_glances_are_one_list_the_latest_first_with_the_next_page_of_both() {
    let list = openstack("image", "/v2/images");
    let merged = merge(
        &list,
        "limit=2",
        &[
            r#"{"images":[{"id":"a3","created_at":"2026-01-03T00:00:00Z"},{"id":"a1","created_at":"2026-01-01T00:00:00Z"}],
                "first":"/v2/images?limit=2","next":"/v2/images?limit=2&marker=a1","schema":"/v2/schemas/images"}"#,
            r#"{"images":[{"id":"b2","created_at":"2026-01-02T00:00:00Z"}],"schema":"/v2/schemas/images"}"#,
        ],
    );
    let json = merged.json();
    let ids: Vec<_> =
        json["images"].as_array().unwrap().iter().map(|image| image["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a3", "b2"]);
    assert_eq!(json["schema"], "/v2/schemas/images");
    let next = json["next"].as_str().unwrap();
    let query = next.strip_prefix("/things?").unwrap();
    let page = plan(&list, &union(2), query, 2).unwrap();
    assert_eq!(page.query(0), Some("limit=2&marker=a3"));
    assert_eq!(page.query(1), None, "it has no more");
}

#[test]
fn the_latest_is_first_however_its_date_is_written() {
    let list = openstack("image", "/v2/images");
    let body = |id: &str, date: &str| format!(r#"{{"images":[{{"id":"{id}","created_at":"{date}"}}]}}"#);
    let first = body("a", "2026-01-03T00:30:00+01:00");
    let merged = merge(&list, "", &[&first, &body("b", "2026-01-02T23:45:00Z")]);
    assert_eq!(merged.json()["images"][0]["id"], "b");
    let merged = merge(&list, "", &[&first, &body("b", "2026-01-02T23:15:00Z")]);
    assert_eq!(merged.json()["images"][0]["id"], "a");
}

#[test]
fn servers_of_nova_have_their_next_link_in_an_array_beside_them() {
    let list = openstack("compute", "/v2.1/servers");
    let body = r#"{"servers":[{"id":"s1"}],"servers_links":[{"rel":"next","href":"http://nova/v2.1/servers?limit=1&marker=s1"}]}"#;
    let merged = merge(&list, "limit=1", &[body, r#"{"servers":[]}"#]);
    let link = &merged.json()["servers_links"][0];
    assert_eq!(link["rel"], "next");
    let href = link["href"].as_str().unwrap();
    assert!(href.starts_with("https://here/things?limit=1&marker=a1"), "{href}");
    let whole = merge(&list, "limit=1", &[r#"{"servers":[{"id":"s1"}]}"#, r#"{"servers":[]}"#]);
    assert_eq!(whole.json().get("servers_links"), None);
}

#[test]
fn links_of_keystone_say_null_where_there_is_no_next_page() {
    let list = openstack("identity", "/v3/users");
    let body = r#"{"links":{"self":"http://k/v3/users","next":null},"users":[{"id":"u"}]}"#;
    let json = merge(&list, "", &[body, body]).json();
    assert_eq!(json["users"].as_array().unwrap().len(), 2);
    assert!(json["links"]["next"].is_null() && json["links"].as_object().unwrap().contains_key("next"));
}

#[test]
fn lists_of_kubernetes_are_paged_by_token() {
    let text = "description = 'k'\n[lists]\nitems = 'items'\nid = 'metadata.uid'\n\
                drop = ['metadata.remainingItemCount']\n\
                paging = { marker = 'continue', next = [{ token = 'metadata.continue' }] }";
    let list = Profile::read(text).unwrap().lists.of("api", "/api/v1/pods").unwrap();
    let first = r#"{"kind":"PodList","metadata":{"continue":"t1","remainingItemCount":9,"resourceVersion":"5"},
        "items":[{"metadata":{"uid":"a"}},{"metadata":{"uid":"b"}}]}"#;
    let second =
        r#"{"kind":"PodList","metadata":{"resourceVersion":"8"},"items":[{"metadata":{"uid":"c"}}]}"#;
    let json = merge(&list, "limit=1", &[first, second]).json();
    assert_eq!(
        (json["kind"].as_str(), json["metadata"]["resourceVersion"].as_str()),
        (Some("PodList"), Some("5"))
    );
    assert_eq!(json["metadata"].get("remainingItemCount"), None);
    let token = json["metadata"]["continue"].as_str().unwrap();
    let page = plan(&list, &union(2), &format!("limit=1&continue={token}"), 2).unwrap();
    // A token says nothing of the items of its page: the page is asked for again, with room for one more.
    assert_eq!(page.query(0), Some("limit=2"));
}

#[test]
fn numbers_beside_the_items_are_summed_where_the_profile_says_so() {
    let text = "description = 'k'\n[lists]\nsum = ['count', 'meta.total']";
    let list = Profile::read(text).unwrap().lists.of("a", "/a").unwrap();
    let answers = [
        r#"{"count":2,"meta":{"total":10,"page":1},"a":[{"id":1}]}"#,
        r#"{"a":[{"id":2}],"count":3,"meta":{"total":0.5}}"#,
    ];
    let json = merge(&list, "", &answers).json();
    assert_eq!((json["count"].as_u64(), json["meta"]["total"].as_f64()), (Some(5), Some(10.5)));
    assert_eq!(json["meta"]["page"], 1);
}

#[test]
fn items_that_more_than_one_operand_has_are_left_out_by_unique() {
    let answers = [r#"[{"id":1},{"id":2}]"#, r#"[{"id":2},{"id":3}]"#, r#"[{"id":9}]"#].map(Answer::from);
    let tree =
        Merged::Union(vec![Merged::Unique(vec![Merged::Source(0), Merged::Source(1)]), Merged::Source(2)]);
    let ids = |query| {
        let json = merge_with(&rest(), &tree, query, &answers, Some(drive::Dice(3))).json();
        json.as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(ids(""), [1, 3, 9]);
    assert_eq!(ids("sort=-id"), [9, 3, 1]);
    let page = plan(&rest(), &tree, "limit=1", 3).unwrap();
    assert_eq!((page.query(0), page.query(2)), (Some(""), Some("limit=1")));
}

#[test]
fn what_is_the_same_is_known_by_its_id_however_that_is_written_and_without_tags_too() {
    let tree = Merged::Unique(vec![Merged::Source(0), Merged::Source(1)]);
    let mut list = rest();
    list.tag = None;
    for other in
        [r#"[{"id":"b"},{"id":"c"}]"#, r#"[{"\u0069d":"b"},{"id":"c"}]"#, r#"[{"id":"\u0062"},{"id":"c"}]"#]
    {
        let answers = [r#"[{"id":"a"},{"id":"b"}]"#, other].map(Answer::from);
        assert_eq!(
            merge_with(&list, &tree, "", &answers, None).text(),
            r#"[{"id":"a"},{"id":"c"}]"#,
            "{other}"
        );
    }
}

#[test]
fn what_has_no_id_where_ids_are_is_like_nothing_else() {
    let tree = Merged::Unique(vec![Merged::Source(0), Merged::Source(1)]);
    let list = List { id: "metadata.uid".to_owned(), tag: None, ..rest() };
    let answers = [r#"[{"metadata":"x"},{"metadata":{"uid":"y"}}]"#; 2].map(Answer::from);
    let merged = merge_with(&list, &tree, "", &answers, None);
    assert_eq!(merged.text(), r#"[{"metadata":"x"},{"metadata":"x"}]"#);
}

#[test]
fn fields_of_an_order_are_read_wherever_they_stand_in_an_item() {
    let answers =
        [r#"[{"name":"b","id":1},{"id":2,"name":"d"}]"#, r#"[{"id":4,"name":"a"},{"name":"c","id":3}]"#];
    let merged = merge(&rest(), "sort=name", &answers);
    let ids: Vec<_> =
        merged.json().as_array().unwrap().iter().map(|item| item["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, [4, 1, 3, 2]);
}

#[test]
fn unique_over_too_many_items_or_over_pages_is_an_error() {
    let tree = Merged::Unique(vec![Merged::Source(0), Merged::Source(1)]);
    let page = plan(&rest(), &tree, "", 2).unwrap();
    let limits = Limits { unique_items: 3, ..Limits::default() };
    let mut merger = Merger::new(rest(), tree.clone(), page, limits, Late::Abort);
    let answers = ["[1,2]", "[3,4]"].map(Answer::from);
    assert_eq!(drive(&mut merger, &answers, None).end, Err(Broken::UniqueItems));
    let answers = [r#"{"a":[{"id":1}],"next":"/a?marker=1"}"#, r#"{"a":[{"id":1}]}"#].map(Answer::from);
    let outcome = merge_with(&rest(), &tree, "", &answers, None);
    assert_eq!(outcome.end, Err(Broken::UniquePaged { source: 0 }));
}

#[test]
fn a_source_that_is_damaged_or_different_is_left_out_and_named() {
    for (bad, fault) in [
        ("[{\"id\":}]", Fault::Json("an item is malformed")),
        ("[1,]", Fault::Json("an unexpected character")),
        ("[1", Fault::Json("it ends too early")),
        ("[1] x", Fault::Json("it goes on after its end")),
        ("[\"\u{1}\"]", Fault::Json("an item is malformed")),
        ("[01]", Fault::Json("an item is malformed")),
        ("{\"a\":[1]}", Fault::Shape),
        ("", Fault::Json("it ends too early")),
    ] {
        let outcome = merge(&rest(), "", &["[7]", bad]);
        assert_eq!(outcome.failures, [(1, fault)], "{bad}");
        assert_eq!(outcome.text(), "[7]", "{bad}");
    }
    let latin = Answer::Body(b"[\"\xe9\"]".to_vec());
    let outcome = merge_with(&rest(), &union(2), "", &[latin, Answer::from("[7]")], None);
    assert_eq!((outcome.text(), outcome.failures.len()), ("[7]", 1));
}

#[test]
fn an_answer_that_is_deep_or_has_a_large_item_is_a_fault_not_a_crash() {
    let deep = format!("[{}{}]", "[".repeat(5000), "]".repeat(5000));
    let large = format!("[\"{}\"]", "x".repeat(2 << 20));
    let wide = format!("{{\"a\":[{{}}],\"b\":\"{}\"}}", "x".repeat(100 << 10));
    for (bad, good) in [(&deep, "[]"), (&large, "[]"), (&wide, r#"{"a":[]}"#)] {
        let outcome = merge(&rest(), "", &[good, bad]);
        assert!(matches!(outcome.failures[..], [(1, Fault::TooLarge(_))]), "{:?}", outcome.failures);
    }
}

#[test]
fn a_source_that_fails_after_its_items_were_told_breaks_the_answer_off() {
    let many: Vec<String> = (0..5000).map(|id| format!("{{\"id\":{id}}}")).collect();
    let cut = format!("[{}", many.join(","));
    let outcome = merge(&rest(), "", &[&cut, "[]"]);
    let fault = Fault::Json("it ends too early");
    assert_eq!(outcome.end, Err(Broken::Late { source: 0, fault }));

    let page = plan(&rest(), &union(2), "", 2).unwrap();
    let mut merger = Merger::new(rest(), union(2), page, Limits::default(), Late::Omit);
    let outcome = drive(&mut merger, &[Answer::from(cut.as_str()), Answer::from("[8]")], None);
    assert_eq!((outcome.json().as_array().unwrap().len(), outcome.failures.len()), (5001, 1));
}

#[test]
fn a_source_that_fails_before_anything_was_given_out_is_as_if_it_had_not_been_asked() {
    let bodies = [r#"{"a":[{"id":1},{"id":4},{"id":6}]}"#, r#"{"a":[{"id":2},{"id":3},{"id":7}]}"#];
    for query in ["", "sort=id", "limit=2", "sort=id&limit=2"] {
        for bad in 0..2 {
            let mut answers = bodies.map(Answer::from);
            answers[bad] = Answer::Missing;
            let wanted = merge_with(&rest(), &union(2), query, &answers, None);
            for at in 0..bodies[bad].len() {
                answers[bad] = Answer::Body(bodies[bad].as_bytes()[..at].to_vec());
                for dice in [None, Some(drive::Dice(at as u64))] {
                    let got = merge_with(&rest(), &union(2), query, &answers, dice);
                    // A full page may be there before what is broken is seen.
                    if !got.failures.is_empty() {
                        assert_eq!(got.json(), wanted.json(), "{query} {bad} {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn without_any_answer_there_is_no_list() {
    let outcome = merge_with(&rest(), &union(2), "", &[Answer::Missing, Answer::from("nonsense")], None);
    assert_eq!(outcome.end, Err(Broken::Nothing));
}

#[test]
fn totals_are_summed_and_no_limit_stays_none() {
    let profile = Profile::named("openstack").unwrap();
    let rule = profile.totals("compute", "/v2.1/limits").unwrap().clone();
    let mut totals = merge::Totals::new(rule, 3, Limits::default());
    let bodies = [
        r#"{"limits":{"rate":[],"absolute":{"maxTotalCores":20,"maxTotalInstances":-1,"used":1}}}"#,
        r#"{"limits":{"rate":[],"absolute":{"maxTotalCores":22,"maxTotalInstances":10,"extra":4}}}"#,
    ];
    totals.fail(2);
    for (source, body) in bodies.iter().enumerate() {
        assert_eq!(totals.sum(), None, "not before all have answered");
        totals.open(source, None);
        body.as_bytes().chunks(7).for_each(|chunk| totals.push(source, Bytes::copy_from_slice(chunk)));
        totals.end(source);
    }
    let sum: serde_json::Value = serde_json::from_slice(&totals.sum().unwrap()).unwrap();
    let expected = serde_json::json!({"maxTotalCores": 42, "maxTotalInstances": -1, "used": 1, "extra": 4});
    assert_eq!(sum["limits"]["absolute"], expected);
    assert_eq!(totals.failures().collect::<Vec<_>>(), [(2, &Fault::Lost)]);
}

#[test]
fn compressed_answers_are_merged_with_plain_ones() {
    let mut coded = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut coded, br#"[{"id":1}]"#).unwrap();
    let coded = coded.finish().unwrap();
    let page = plan(&rest(), &union(3), "", 3).unwrap();
    let mut merger = Merger::new(rest(), union(3), page, Limits::default(), Late::Abort);
    merger.open(0, Head { content_encoding: Some("gzip"), ..Head::default() });
    merger.open(1, Head::default());
    merger.open(2, Head { content_encoding: Some("br"), ..Head::default() });
    merger.push(1, Bytes::from_static(br#"[{"id":2}]"#));
    coded.chunks(3).for_each(|chunk| merger.push(0, Bytes::copy_from_slice(chunk)));
    (0..3).for_each(|source| merger.end(source));
    let expected = br#"[{"id":1,"scope_site":"Site1"},{"id":2,"scope_site":"Site2"}]"#;
    assert_eq!(merger.pull(), Ok(Pull::Chunk(Bytes::from_static(expected))));
    assert!(matches!(merger.failures().next(), Some((2, Fault::Coding(_)))));
}

#[test]
fn a_compressed_answer_of_any_size_is_read_and_what_is_no_list_comes_back_as_it_came() {
    let mut dice = drive::Dice(5);
    let noise: String = (0..4000).map(|_| char::from(b'a' + u8::try_from(dice.roll(26)).unwrap())).collect();
    for (body, end) in
        [(format!("[\"{noise}\"]"), Pull::Done), (format!("{{\"id\":\"{noise}\"}}"), Pull::NotAList)]
    {
        let mut coded = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        std::io::Write::write_all(&mut coded, body.as_bytes()).unwrap();
        let coded = Bytes::from(coded.finish().unwrap());
        let page = plan(&rest(), &union(1), "", 1).unwrap();
        let mut merger = Merger::new(rest(), union(1), page, Limits::default(), Late::Abort);
        merger.open(0, Head { content_encoding: Some("gzip"), ..Head::default() });
        merger.push(0, coded.clone());
        merger.end(0);
        if end == Pull::Done {
            assert_eq!(merger.pull(), Ok(Pull::Chunk(Bytes::from(body))));
        }
        assert_eq!(merger.pull().as_ref(), Ok(&end));
        let raw = merger.take_raw(0).concat();
        assert_eq!(raw, if end == Pull::Done { &[] } else { &coded[..] });
    }
}

#[test]
fn a_document_of_totals_may_be_as_large_as_it_is_said_to_be() {
    let rule = Profile::named("openstack").unwrap().totals("compute", "/v2.1/limits").unwrap().clone();
    let text = br#"{"limits":{"absolute":{"maxTotalCores":20}}}"#;
    for chunk in [1, 30, text.len()] {
        for totals_bytes in [text.len(), text.len() - 1] {
            let mut totals =
                merge::Totals::new(rule.clone(), 1, Limits { totals_bytes, ..Limits::default() });
            totals.open(0, None);
            text.chunks(chunk).for_each(|piece| totals.push(0, Bytes::from_static(piece)));
            totals.end(0);
            let fits = totals_bytes == text.len();
            assert_eq!(totals.sum().is_some(), fits, "{chunk}");
            let faults: Vec<_> = totals.failures().map(|(_, fault)| fault.clone()).collect();
            let large = (!fits).then_some(Fault::TooLarge("the document"));
            assert_eq!(faults, Vec::from_iter(large), "{chunk}");
        }
    }
}

#[test]
fn what_a_project_used_is_added_up_and_its_servers_are_in_one_list() {
    let profile = profile::Profile::named("openstack").unwrap();
    let rule = profile.totals("compute", "/v2.1/os-simple-tenant-usage/7f").unwrap().clone();
    // At the first site it used nothing.
    let documents = [
        r#"{"tenant_usage":{}}"#,
        r#"{"tenant_usage":{"total_hours":1.5,"tenant_id":"7f","server_usages":[{"name":"a"}]}}"#,
        r#"{"tenant_usage":{"total_hours":2.0,"tenant_id":"8a","server_usages":[{"name":"b"},{"name":"c"}]}}"#,
    ];
    let sum = |documents: &[&'static str]| {
        let mut totals = merge::Totals::new(rule.clone(), documents.len(), Limits::default());
        for (source, text) in documents.iter().enumerate() {
            totals.open(source, None);
            totals.push(source, Bytes::from_static(text.as_bytes()));
            totals.end(source);
        }
        serde_json::from_slice::<serde_json::Value>(&totals.sum().unwrap()).unwrap()["tenant_usage"].take()
    };
    let both = sum(&documents);
    assert_eq!((both["total_hours"].as_f64(), &both["tenant_id"]), (Some(3.5), &"7f".into()));
    let names: Vec<_> = both["server_usages"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(sum(&documents[..1]), serde_json::json!({}));
}

#[test]
fn an_answer_of_another_shape_is_left_out() {
    for other in [r#"[{"id":2}]"#, r#"{"b":1}"#, "{}"] {
        let merged = merge(&rest(), "", &[r#"{"a":[{"id":1}]}"#, other]);
        assert_eq!(merged.text(), r#"{"a":[{"id":1,"scope_site":"Site1"}]}"#, "{other}");
        assert_eq!(merged.failures, [(1, Fault::Shape)], "{other}");
    }
    let merged = merge(&rest(), "", &[r#"[{"id":1}]"#, r#"{"a":[{"id":2}]}"#]);
    assert_eq!(merged.text(), r#"[{"id":1,"scope_site":"Site1"}]"#);
    assert_eq!(merged.failures, [(1, Fault::Shape)]);
}

#[test]
fn links_beside_a_list_are_no_items() {
    for links in ["links", "things_links"] {
        let body = format!(r#"{{"things":[{{"id":1}}],"{links}":[{{"href":"x"}}]}}"#);
        let merged = merge(&rest(), "", &[&body, r#"{"things":[]}"#]);
        assert_eq!(merged.json()["things"].as_array().unwrap().len(), 1, "{links}");
    }
}

#[test]
fn how_much_is_collected_for_exactly_one_is_limited() {
    let items = [r#"{"id":1}"#, r#"{"id":2}"#, r#"{"id":3}"#];
    let bytes = items[0].len();
    let answers = [Answer::from("[{\"id\":1},{\"id\":2}]"), Answer::from("[{\"id\":3}]")];
    let tree = Merged::Unique(vec![Merged::Source(0), Merged::Source(1)]);
    let list = rest();
    let page = plan(&list, &tree, "", 2).unwrap();
    let end = |unique_items: usize, unique_bytes: usize| {
        let limits = Limits { unique_items, unique_bytes, ..Limits::default() };
        let mut merger = Merger::new(list.clone(), tree.clone(), page.clone(), limits, Late::Abort);
        drive(&mut merger, &answers, None).end
    };
    assert_eq!(end(3, 3 * bytes), Ok(Pull::Done));
    assert_eq!(end(2, 3 * bytes), Err(Broken::UniqueItems));
    assert_eq!(end(1, 3 * bytes), Err(Broken::UniqueItems));
    assert_eq!(end(3, 3 * bytes - 1), Err(Broken::UniqueItems));
    assert_eq!(end(3, 1), Err(Broken::UniqueItems));
}

#[test]
fn what_was_read_to_its_end_cannot_be_lost() {
    let list = rest();
    let page = plan(&list, &union(2), "", 2).unwrap();
    let mut merger = Merger::new(list, union(2), page, Limits::default(), Late::Abort);
    let head = Head { content_type: Some("application/json"), ..Head::default() };
    (0..2).for_each(|source| merger.open(source, head));
    merger.push(0, Bytes::from_static(b"[{\"id\":1}]"));
    merger.end(0);
    merger.push(1, Bytes::from_static(b"[{\"id\":2}"));
    assert_eq!(merger.pull(), Ok(Pull::Pending));
    merger.fail(0);
    assert_eq!(merger.failures().count(), 0);
    merger.push(1, Bytes::from_static(b"]"));
    merger.end(1);
    let Ok(Pull::Chunk(chunk)) = merger.pull() else { unreachable!("{merger:?}") };
    assert_eq!(chunk, r#"[{"id":1,"scope_site":"Site1"},{"id":2,"scope_site":"Site2"}]"#);
    assert_eq!(merger.link_header(), "link");
}

#[test]
fn what_is_wrong_is_said_in_words() {
    assert_eq!(Fault::Shape.to_string(), "the answer is of another shape than the others");
    assert_eq!(Broken::Held.to_string(), "the page is too large: ask for fewer items");
}
