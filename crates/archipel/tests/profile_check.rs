//! `archipel profile check`: what is wrong with a profile, by itself and beside the service that it is of.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

use support::upstream::Upstream;

/// Checks a profile, with these options.
fn check(profile: &str, options: &[&str]) -> (Option<i32>, String) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("shop.toml"), format!("description = 'a shop'\n{profile}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_archipel"));
    command.args(["profile", "check", "shop.toml"]).args(options).current_dir(directory.path());
    let Output { status, stdout, stderr } = command.output().unwrap();
    (status.code(), String::from_utf8([stdout, stderr].concat()).unwrap())
}

/// A service that gives these documents at these paths, and what it was asked.
fn service(documents: &'static [(&'static str, &'static str)]) -> (Upstream, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let upstream = Upstream::json(move |request| {
        log.lock().unwrap().push(format!("{} {}", request.method(), request.path()));
        let found = documents.iter().find(|(path, _)| *path == request.path());
        found.map_or((404, "{}".to_owned()), |(_, document)| (200, (*document).to_owned()))
    });
    (upstream, asked)
}

fn against(service: &Upstream, profile: &str, options: &[&str]) -> (Option<i32>, String) {
    let url = format!("http://{}", service.address);
    check(profile, &[&["--against", &url], options].concat())
}

#[test]
fn every_fault_is_told_with_its_line() {
    let (status, said) = check(
        "[services]\nitem = []\n[[kinds]]\nname = 'a'\nservice = 'itm'\npath = '/a'\n[[fails]]\nstatus = [200]\n",
        &[],
    );
    assert_eq!(status, Some(2), "{said}");
    for line in ["--> shop.toml:6:11", "--> shop.toml:9:10", "`shop.toml` has 2 faults"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert_eq!(check("", &[]), (Some(0), "ok\n".to_owned()));
}

#[test]
fn built_in_profiles_have_no_fault() {
    for name in ["rest", "openstack", "oci", "kinto", "sample"] {
        let path = format!("{}/../profile/profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let checked = Command::new(env!("CARGO_BIN_EXE_archipel")).args(["profile", "check", &path]).output();
        assert!(checked.unwrap().status.success(), "{name}");
    }
}

#[test]
fn what_the_service_answers_otherwise_is_told_with_what_to_write() {
    let (service, asked) = service(&[
        ("/items", r#"{"total": "two", "data": [{"sku": 1, "scope_site": 7}, {"sku": 2}]}"#),
        ("/items/1", r#"{"item": {"sku": 1, "notes": []}}"#),
        ("/usage", r#"{"used": {"disk": "7 GiB"}}"#),
    ]);
    for (profile, says) in [
        (
            "[lists]\nid = 'sku'\nitems = 'items'\n[[lists.kinds]]\npaths = ['/items']",
            "write `items = \"data\"`",
        ),
        ("[[lists.kinds]]\npaths = ['/items']", "item 1 has no `id`; it has `scope_site`, `sku`"),
        (
            "[lists]\nid = 'sku'\ntag = 'scope_site'\n[[lists.kinds]]\npaths = ['/items']",
            "a member `scope_site` of their own",
        ),
        (
            "[lists]\nid = 'sku'\nsum = ['total']\n[[lists.kinds]]\npaths = ['/items']",
            "`sum` has `total`, and no number",
        ),
        (
            "[lists]\nid = 'sku'\n[lists.sort]\ndefault = ['-price']\n[[lists.kinds]]\npaths = ['/items']",
            "`sort` names `price`",
        ),
        (
            "[lists]\nid = 'sku'\n[lists.paging]\nnext = [{ member = 'next' }]\n[[lists.kinds]]\npaths = ['/items']",
            "404",
        ),
        (
            "[lists]\nid = 'sku'\n[[kinds]]\nname = 'item'\npath = '/items'",
            "has the id `1`, which is no UUID",
        ),
        (
            "[lists]\nid = 'sku'\n[[kinds]]\nname = 'item'\npath = '/items'\nnamed_by = 'client'",
            "write `id = \"/item/sku\"`",
        ),
        (
            "[lists]\nid = 'sku'\n[[kinds]]\nname = 'item'\npath = '/items'\nnamed_by = 'client'\nid = '/item/sku'\nfields = '/itm'",
            "`fields = \"/itm\"` is no object; the document has `item`",
        ),
        (
            "[lists]\nid = 'sku'\n[[kinds]]\nname = 'item'\npath = '/items'\nnamed_by = 'client'\nid = '/item/sku'\nfields = '/item'\n\
             operations = [{ method = 'PUT', below = '/notes/*', class = 'patch' }]",
            "write `elements = [{ below = \"/notes\", member = \"/item/notes\" }]`",
        ),
        ("[[totals]]\npaths = ['/usage']\nsum = ['used.*']", "`sum` has `used.*`, and no number"),
        ("[[lists.kinds]]\npaths = ['/nothing']", "404: the profile says that something is there"),
    ] {
        let (status, said) = against(&service, profile, &[]);
        assert_eq!(status, Some(1), "{profile}: {said}");
        assert!(
            said.lines().any(|line| line.starts_with("differs") && line.contains(says)),
            "{says}: {said}"
        );
    }
    let asked = asked.lock().unwrap();
    assert!(!asked.is_empty() && asked.iter().all(|request| request.starts_with("GET ")), "{asked:?}");
}

#[test]
fn the_profile_of_the_sample_is_true_of_it() {
    let image = sample::image::Image::new(&sample::image::Settings::default());
    let running = sample::Handle::spawn_thread(image, ([127, 0, 0, 1], 0).into()).unwrap();
    for name in ["one", "two"] {
        let body = format!("{{\"name\":\"{name}\"}}");
        assert_eq!(support::ask(running.address(), "POST", "/images", &[], &body).unwrap().status(), 201);
    }
    let path = format!("{}/../profile/profiles/sample.toml", env!("CARGO_MANIFEST_DIR"));
    let url = format!("http://{}", running.address());
    let mut command = Command::new(env!("CARGO_BIN_EXE_archipel"));
    command.args(["profile", "check", &path, "--against", &url, "--service", "image"]);
    command.args(["--create", "/images={\"name\": \"three\"}"]);
    let checked = command.output().unwrap();
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{checked:?}");
    for line in [
        "a list of 2 items",
        "one item, and the next page is told",
        "all UUIDs",
        "POST /images: 201",
        "it is gone",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
}

#[test]
fn a_list_of_values_needs_no_ids() {
    let catalog = service(&[("/v2/_catalog", r#"{"repositories": ["a", "b"]}"#)]).0;
    let profile = "[[lists.kinds]]\npaths = ['/v2/_catalog']\nitems = 'repositories'";
    let (status, said) = against(&catalog, profile, &[]);
    assert_eq!((status, said.as_str()), (Some(0), "fits     GET /v2/_catalog: a list of 2 values\n"));
}

#[test]
fn a_keyed_list_names_its_items() {
    let things = service(&[("/things", r#"{"a": {"size": 1}, "b": {"size": 2}}"#), ("/rows", "[]")]).0;
    let keyed = |path: &str| format!("[[lists.kinds]]\npaths = ['{path}']\nkeyed = true");
    let (status, said) = against(&things, &keyed("/things"), &[]);
    assert_eq!(
        (status, said.as_str()),
        (Some(0), "fits     GET /things: a list of 2 items, each named by its id\n")
    );
    let (status, said) = against(&things, &keyed("/rows"), &[]);
    assert!(status == Some(1) && said.contains("the answer has a list of 0"), "{said}");
}

#[test]
fn what_cannot_be_asked_is_refused() {
    for (options, says) in [
        (&["--against", "https://127.0.0.1:1"][..], "http://host:port"),
        (&["--against", "nonsense"], "http://host:port"),
        (&["--against", "http://127.0.0.1:1"], "say with --list"),
        (&["--against", "http://127.0.0.1:1", "--header", "x"], "--header: write"),
        (&["--against", "http://127.0.0.1:1", "--create", "x"], "--create: write"),
        (&["--against", "http://127.0.0.1:1", "--service", "x"], "has no service `x`"),
        (&["--list", "/a"], "--against"),
    ] {
        let (status, said) = check("[services]\nitem = []", options);
        assert_eq!(status, Some(2), "{options:?}: {said}");
        assert!(said.contains(says), "{options:?}: {said}");
    }
    let (status, said) =
        against(&service(&[]).0, "[services]\na = []\nb = []\n[[lists.kinds]]\npaths = ['/a']", &[]);
    assert_eq!((status, said.contains("say with --service which of `a`, `b`")), (Some(2), true), "{said}");
}
