//! A registry's client pushes once, to several sites: blobs by sessions at one of them, and a manifest that names them.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};

use sample::wan::Cut;
use serde_json::{Value, json};
use support::fleet::{Common, Fleet, name, until};
use support::upstream::Upstream;
use support::{Message, PATIENCE, ask};

const SITES: usize = 3;
const ALL: &str = "registry: Site1 & Site2 & Site3";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// The content of one site's registry.
#[derive(Default)]
struct Content {
    uploads: Vec<String>,
    blobs: BTreeMap<String, String>,
    /// Media types and documents, by tag and by digest.
    manifests: BTreeMap<String, (String, String)>,
    /// It takes a manifest whatever that names.
    lenient: bool,
}

/// One site's registry, with one repository. Unless it is lenient it takes no manifest that names what it has not got. It shows
/// one only to those who accept its type.
#[derive(Clone, Default)]
struct Registry(Arc<Mutex<Content>>);

impl Registry {
    fn start(&self) -> SocketAddr {
        let own = self.clone();
        Upstream::with_fields(move |request| own.answer(request)).address
    }

    fn answer(&self, request: &Message) -> (u16, String, String) {
        let mut own = self.0.lock().unwrap();
        let (path, query) = request.path().split_once('?').unwrap_or((request.path(), ""));
        let say = |status, fields: &str| (status, fields.to_owned(), String::new());
        let place: Vec<&str> = path.strip_prefix("/v2/a/").unwrap_or("?").split('/').collect();
        match (request.method(), place.as_slice()) {
            ("POST", ["blobs", "uploads", ""]) => {
                own.uploads.push(String::new());
                let number = own.uploads.len() - 1;
                say(202, &format!("location: http://registry/v2/a/blobs/uploads/{number}?_state=x\r\n"))
            }
            (method @ ("PATCH" | "PUT"), ["blobs", "uploads", number]) => {
                let number: usize = number.parse().unwrap();
                let Some(upload) = own.uploads.get_mut(number) else { return say(404, "") };
                upload.push_str(&request.text());
                if method == "PATCH" {
                    return say(202, &format!("location: {path}?_state=x\r\n"));
                }
                let blob = upload.clone();
                let found = digest(&blob);
                if query != format!("_state=x&digest={found}") {
                    return say(400, "");
                }
                own.blobs.insert(found.clone(), blob);
                say(201, &format!("location: /v2/a/blobs/{found}\r\n"))
            }
            (method @ ("GET" | "HEAD"), ["blobs", digest]) => match own.blobs.get(*digest) {
                Some(blob) => {
                    (200, String::new(), if method == "GET" { blob.clone() } else { String::new() })
                }
                None => say(404, ""),
            },
            ("PUT", ["manifests", name]) => {
                let (media_type, document) = (request.header("content-type"), request.text());
                let Some(lacking) = own.lacks(&document, media_type) else { return say(415, "") };
                if lacking {
                    return (
                        400,
                        String::new(),
                        "{\"errors\": [{\"code\": \"MANIFEST_BLOB_UNKNOWN\"}]}".to_owned(),
                    );
                }
                for name in [(*name).to_owned(), digest(&document)] {
                    own.manifests.insert(name, (media_type.to_owned(), document.clone()));
                }
                say(201, "")
            }
            (method @ ("GET" | "HEAD"), ["manifests", name]) => match own.manifests.get(*name) {
                Some((media_type, document)) if request.header("accept").contains(media_type.as_str()) => {
                    let document = if method == "GET" { document.clone() } else { String::new() };
                    (200, format!("content-type: {media_type}\r\n"), document)
                }
                _ => say(404, ""),
            },
            _ => say(405, ""),
        }
    }

    fn manifest(&self, name: &str) -> Option<(String, String)> {
        self.0.lock().unwrap().manifests.get(name).cloned()
    }

    fn blobs(&self) -> Vec<String> {
        self.0.lock().unwrap().blobs.values().cloned().collect()
    }
}

impl Content {
    /// True where something that a document names is not here. None: it is no document of its type.
    fn lacks(&self, document: &str, media_type: &str) -> Option<bool> {
        let document: Value = serde_json::from_str(document).ok()?;
        let of = |list: &Value| -> Vec<String> {
            let digest = |one: &Value| one["digest"].as_str().map(str::to_owned);
            list.as_array().into_iter().flatten().filter_map(digest).collect()
        };
        match media_type {
            MANIFEST | INDEX if self.lenient => Some(false),
            MANIFEST => Some(of(&document["layers"]).iter().any(|named| !self.blobs.contains_key(named))),
            INDEX => Some(of(&document["manifests"]).iter().any(|named| !self.manifests.contains_key(named))),
            _ => None,
        }
    }
}

/// Not a digest that keeps anybody from anything, but another for each text.
fn digest(text: &str) -> String {
    let sum = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("fnv:{sum:016x}")
}

/// A document that is another one once it is written anew.
fn manifest(layers: &[&str]) -> String {
    let layers: Vec<String> =
        layers.iter().map(|layer| format!("{{\"digest\":  \"{}\"}}", digest(layer))).collect();
    format!("{{ \"z\": 1.0,\n \"layers\": [{}], \"a\": 1e3 }}\n", layers.join(" , "))
}

struct Stage {
    fleet: Fleet,
    registries: Vec<Registry>,
}

impl Stage {
    fn start() -> Stage {
        let registries: Vec<Registry> = (0..SITES).map(|_| Registry::default()).collect();
        let services: Vec<_> = registries.iter().map(Registry::start).collect();
        let tables = "[timeouts]\nconnect = \"300ms\"\npeer_response = \"1s\"\n";
        let head = "profile = \"oci\"\n";
        let fleet = Fleet::start(&Common { service: "registry", head, tables }, &services);
        Stage { fleet, registries }
    }

    fn ask(&self, site: usize, method: &str, path: &str, scope: &str, (kind, body): (&str, &str)) -> Message {
        let headers = [("x-scope", scope), ("content-type", kind)];
        ask(self.fleet.address(site), method, path, &headers, body).unwrap()
    }

    fn head(&self, site: usize, path: &str, scope: &str) -> u16 {
        let mut client = TcpStream::connect(self.fleet.address(site)).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let head = format!(
            "HEAD {path} HTTP/1.1\r\nhost: registry\r\nx-scope: {scope}\r\nconnection: close\r\n\r\n"
        );
        client.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// As clients do: unless it is there.
    fn push_blob(&self, site: usize, scope: &str, blob: &str) {
        let there = self.head(site, &format!("/v2/a/blobs/{}", digest(blob)), scope);
        if there == 200 {
            return;
        }
        assert_eq!(there, 404);
        let begun = self.ask(site, "POST", "/v2/a/blobs/uploads/", scope, ("", ""));
        let location =
            |answer: &Message| answer.header("location").trim_start_matches("http://registry").to_owned();
        assert_eq!(begun.status(), 202, "{begun:?}");
        let more = self.ask(site, "PATCH", &location(&begun), scope, ("application/octet-stream", blob));
        assert_eq!(more.status(), 202, "{more:?}");
        let end = format!("{}&digest={}", location(&more), digest(blob));
        let ended = self.ask(site, "PUT", &end, scope, ("", ""));
        assert_eq!(ended.status(), 201, "{ended:?}");
    }

    fn push(&self, site: usize, scope: &str, tag: &str, layers: &[&str]) -> String {
        for layer in layers {
            self.push_blob(site, scope, layer);
        }
        let document = manifest(layers);
        let put = self.ask(site, "PUT", &format!("/v2/a/manifests/{tag}"), scope, (MANIFEST, &document));
        assert_eq!(put.status(), 201, "{put:?}");
        document
    }

    /// The registry of the site has this, byte for byte and as what it is.
    fn until_has(&self, site: usize, tag: &str, media_type: &str, document: &str) {
        let wanted = Some((media_type.to_owned(), document.to_owned()));
        until(&format!("{} has {tag}", name(site)), || self.registries[site].manifest(tag) == wanted);
    }

    fn until_all_have(&self, tag: &str, document: &str) {
        for site in 0..SITES {
            self.until_has(site, tag, MANIFEST, document);
        }
    }

    fn until_quiet(&self) {
        for site in 0..SITES {
            until(&format!("nothing waits at {}", name(site)), || {
                let shown = self.fleet.json(site, &["operations", "list"]);
                ["pending", "in_doubt", "withheld"].iter().all(|list| shown[list] == json!([]))
            });
        }
    }
}

#[test]
fn an_image_that_is_pushed_once_is_at_every_site() {
    let stage = Stage::start();
    let first = stage.push(0, ALL, "latest", &["base", "program"]);
    stage.until_all_have("latest", &first);

    // What one site has already, its client brings no second time; a tag that is moved is moved everywhere.
    stage.push(1, "registry: Site2", "own", &["of two"]);
    assert_eq!(stage.head(0, &format!("/v2/a/blobs/{}", digest("of two")), ALL), 200);
    let second = stage.push(0, ALL, "latest", &["base", "of two"]);
    stage.until_all_have("latest", &second);

    // A list of images is taken after the images that it names, which only one site has.
    let inner = stage.push(2, "registry: Site3", "inner", &["deep"]);
    let index = format!("{{\"manifests\": [ {{\"digest\": \"{}\"}} ]}}", digest(&inner));
    let put = stage.ask(0, "PUT", "/v2/a/manifests/many", ALL, (INDEX, &index));
    assert_eq!(put.status(), 201, "{put:?}");
    for site in 0..SITES {
        stage.until_has(site, "many", INDEX, &index);
        stage.until_has(site, &digest(&inner), MANIFEST, &inner);
        assert!(stage.registries[site].blobs().contains(&"deep".to_owned()));
    }

    // What no site has is refused as the registry does it, and leaves nothing to be tried again.
    let unknown = manifest(&["nowhere"]);
    let refused = stage.ask(0, "PUT", "/v2/a/manifests/unknown", ALL, (MANIFEST, &unknown));
    assert!(refused.status() == 400 && refused.text().contains("MANIFEST_BLOB_UNKNOWN"), "{refused:?}");
    let blob = format!("/v2/a/blobs/{}", digest("base"));
    let barred = stage.ask(0, "DELETE", &blob, ALL, ("", ""));
    assert_eq!((barred.status(), barred.field("type")), (422, "urn:archipel:not-replicable".to_owned()));
    stage.until_quiet();
}

#[test]
fn a_site_that_was_cut_off_has_what_was_pushed_meanwhile_although_the_other_was_killed() {
    let mut stage = Stage::start();
    stage.fleet.isolate(2, Some(Cut::Reset));
    let document = stage.push(0, ALL, "latest", &["base", "program"]);
    stage.until_has(1, "latest", MANIFEST, &document);
    stage.fleet.kill(0);
    stage.fleet.kill(1);
    assert!(stage.registries[2].blobs().is_empty());
    stage.fleet.isolate(2, None);
    stage.fleet.revive(0);
    stage.until_has(2, "latest", MANIFEST, &document);
    stage.fleet.revive(1);
    stage.until_quiet();

    // What one site cannot be asked for, another has by then.
    stage.fleet.cut(0, 2, Some(Cut::Reset));
    let around = stage.push(0, ALL, "around", &["base", "more"]);
    stage.until_has(2, "around", MANIFEST, &around);
    stage.fleet.cut(0, 2, None);
    stage.until_quiet();
}

#[test]
fn a_registry_that_takes_any_manifest_has_what_it_names_all_the_same() {
    let stage = Stage::start();
    for registry in &stage.registries {
        registry.0.lock().unwrap().lenient = true;
    }
    // The first site is told that another has it, and brings it over.
    stage.push_blob(1, "registry: Site2", "of two");
    let document = stage.push(0, ALL, "latest", &["base", "of two"]);
    assert_eq!(stage.registries[0].blobs().len(), 2);
    stage.until_all_have("latest", &document);
    for site in 0..SITES {
        assert_eq!(stage.registries[site].blobs().len(), 2, "{}", name(site));
    }
    stage.until_quiet();
}

#[test]
fn an_image_is_copied_to_a_site_that_is_to_have_it_too_and_repaired_there() {
    let stage = Stage::start();
    let two = "registry: Site1 & Site2";
    let document = stage.push(0, two, "latest", &["base", "program"]);
    stage.until_has(1, "latest", MANIFEST, &document);
    assert!(stage.registries[2].blobs().is_empty());
    let resource = "registry:/v2/a/manifests/latest";
    let done = stage.fleet.archipel(0, &["replicas", "extend", resource, "--to", "Site3"]);
    assert!(done.status.success(), "{done:?}");
    stage.until_has(2, "latest", MANIFEST, &document);

    // By hand, at the registry itself: the same content, written otherwise.
    let other = document.replace("1.0", "1.00");
    stage.registries[2].0.lock().unwrap().manifests.insert("latest".to_owned(), (MANIFEST.to_owned(), other));
    let done = stage.fleet.archipel(2, &["replicas", "repair", resource, "--from", "Site1"]);
    assert!(done.status.success(), "{done:?}");
    stage.until_has(2, "latest", MANIFEST, &document);
    stage.until_quiet();
}
