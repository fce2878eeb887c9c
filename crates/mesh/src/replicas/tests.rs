//! Requests at one site, with a keeper that says what the test wants, and a service that says what it was asked.

mod dry_runs;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response};
use http_body_util::BodyExt;
use replica::{Class, Doubt, Level, Meta, Naming, OpId, Reply, Subject};
use scope::{Atlas, Dialect, Site};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{LocalSet, spawn_local};

use super::group::Group;
use super::references::Named;
use super::walk::{self, At};
use super::{Answered, Content, Fate, Known, Name, Order, Place, Replicas, Stand, Wanted, operations};
use crate::body::LegBody;
use crate::core::{Core, Shared, Snapshot};
use crate::problem::UNSENT;
use crate::settings::{Limits, Replication, Service, Settings, Timeouts};
use crate::sites::Fixed;
use crate::upstream::Target;
use crate::{Audit, carry, metrics};

const META: &str = "7f0e1d2c-3b4a-4958-8776-655443322110";
/// A run of site A.
const RUN: replica::Epoch = replica::Epoch { number: 5, draw: 0x2f };
const OTHER: &str = "6e8d6d6a-0f4b-4d9e-9d3c-3f2b8f3a1c11";
const DELETED: &str = "b1946ac9-2492-4d23-a47c-235b4d2611b8";
const LOCAL: &str = "11111111-2222-4333-8444-555555555555";

const PROFILE: &str = "description = 'test'\n\
    [[dry_runs]]\nparameter = 'dryRun'\nvalues = ['All']\n\
    [propagation]\nsender = ['x-token']\nheaders = [{ name = 'x-request-id', form = 'hex' }]\n\
    [[kinds]]\nname = 'image'\npath = '/images'\nids = 'uuid'\ncreate_doubt = 'probe'\n\
    [[kinds]]\nname = 'tag'\npath = '/tags'\nnamed_by = 'client'\n\
    [[kinds]]\nname = 'flavor'\npath = '/flavors'\nnamed_by = 'body'\nid = '/flavor/id'\nunnamed = ['auto']\n\
    create_doubt = 'probe'\n\
    [[kinds]]\nname = 'server'\npath = '/servers'\nreplicated = false\nbecause = 'it runs somewhere'\n";

fn site(name: &str) -> Site {
    Site::new(name).unwrap()
}

fn name(id: &str) -> Name {
    Name::new("image", &format!("/images/{id}"))
}

/// A service that answers with what it was asked, and a JSON document that names the local id.
fn service() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut reader = BufReader::new(stream.unwrap());
            let (mut line, mut length, mut conditions) = (String::new(), 0, String::new());
            reader.read_line(&mut line).unwrap();
            loop {
                let mut field = String::new();
                if reader.read_line(&mut field).unwrap() <= 2 {
                    break;
                }
                let field = field.to_ascii_lowercase();
                if let Some(value) = field.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if field.starts_with("if-") || field.starts_with("accept-encoding") {
                    conditions.push_str(field.trim());
                    conditions.push(';');
                }
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            // Backwards: what it was asked must not be rewritten on its way back.
            let line: String = line.trim_end().chars().rev().collect();
            let document = serde_json::json!({
                "line": line, "conditions": conditions, "body": String::from_utf8(body).unwrap(),
                "id": LOCAL, "self": format!("/images/{LOCAL}/file"),
            });
            let document = document.to_string();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nETag: \"v1\"\r\n\
                 Content-MD5: x\r\nLocation: http://s/images/{LOCAL}\r\nConnection: close\r\n\r\n{document}",
                document.len()
            );
            reader.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

fn settings(upstream: SocketAddr, credential: bool) -> Settings {
    let profile = profile::Profile::read(PROFILE).unwrap();
    let service = Service {
        public: Vec::new(),
        internal: Vec::new(),
        upstreams: vec![Target { host: upstream.ip().to_string(), port: upstream.port(), tls: None }],
        tls: None,
        scope: None,
        strict: false,
        settle: false,
        health: None,
    };
    let own = (http::header::AUTHORIZATION, http::HeaderValue::from_static("own"));
    let credentials = credential.then(|| ("image".to_owned(), vec![own])).into_iter().collect();
    let while_busy = Duration::from_secs(20);
    Settings {
        site: site("A"),
        dialect: Dialect { services: profile.services(), ..Dialect::default() },
        sites: Arc::new(Fixed { atlas: Atlas::new(["A", "B"].map(site)).unwrap(), peers: BTreeMap::new() }),
        profile,
        observe: false,
        tokens: None,
        thin: true,
        services: BTreeMap::from([("image".to_owned(), service)]),
        link: None,
        replication: Some(Replication {
            accept_from: None,
            directory: std::path::PathBuf::new(),
            quota: 1 << 20,
            inline: 1000,
            credentials,
            webhook: None,
        }),
        limits: Limits {
            header_bytes: 32 << 10,
            headers: 100,
            connections: 100,
            requests: 100,
            requests_per_peer: 100,
            records_per_sender: 100,
            record_lifetime: Duration::from_mins(1),
            replay_bytes: 1000,
            streams: 16,
        },
        timeouts: Timeouts {
            header: while_busy,
            idle: while_busy,
            connect: while_busy,
            response: while_busy,
            peer_response: while_busy,
            body_idle: while_busy,
            hedge: while_busy,
        },
    }
}

/// What came of one request.
struct Outcome {
    response: Response<Bytes>,
    /// What the keeper was handed.
    wanted: Option<Box<Wanted>>,
}

impl Outcome {
    fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(self.response.body()).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    fn is_problem(&self, status: u16, kind: &str) {
        assert_eq!(self.status(), status, "{}", self.json());
        assert_eq!(self.json()["type"], format!("urn:archipel:{kind}"));
        assert!(self.wanted.is_none() || status != 422, "the keeper was asked");
    }

    fn wanted(&self) -> &Wanted {
        self.wanted.as_ref().unwrap()
    }
}

/// What the keeper answers.
fn answered(reply: Reply) -> Answered {
    let executed = matches!(reply, Reply::Executed { .. });
    let response = Response::builder()
        .status(201)
        .header("content-type", "application/json")
        .header("location", format!("/images/{LOCAL}"))
        .body(Bytes::from(format!("{{\"id\":\"{LOCAL}\"}}")))
        .unwrap();
    Answered {
        reply,
        op: Some(OpId { site: site("A"), epoch: RUN, counter: 42 }),
        meta: Some(Meta::from(&name(META))),
        response: executed.then_some(response),
        sites: vec![(site("A"), Stand::Done(Some(201))), (site("B"), Stand::Pending)],
    }
}

/// A site with one replicated image, and the way a request takes there.
struct Stage {
    credential: bool,
    place: Place,
    group: Option<Group>,
    /// What another site says that it is about.
    about: Option<Meta>,
    reply: Reply,
}

fn stage() -> Stage {
    let place = Place {
        level: Level::Eventual,
        members: ["A", "B"].map(site).into(),
        local: Some(name(LOCAL)),
        chosen: false,
        readable: true,
        unconfirmed: std::collections::BTreeSet::new(),
        shown: crate::replicas::known::Shown { whole: true, erasures: 0 },
        deleted: false,
    };
    Stage { credential: false, place, group: None, about: None, reply: Reply::Executed { status: 201 } }
}

impl Stage {
    /// With a scope of several sites.
    fn to(mut self, sites: &[&str]) -> Stage {
        let sites = sites.iter().map(|name| site(name)).collect();
        self.group = Some(Group { sites, level: scope::Level::Eventual });
        self
    }

    fn replying(mut self, reply: Reply) -> Stage {
        self.reply = reply;
        self
    }

    /// One request, told as `POST /images` and its headers.
    fn ask(&self, line: &str, headers: &[(&str, &str)], body: &'static str) -> Outcome {
        let (method, path) = line.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (head, ()) = request.body(()).unwrap().into_parts();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, self.run(head, body))
    }

    async fn run(&self, head: Parts, body: &'static str) -> Outcome {
        let settings = settings(service(), self.credential);
        let (orders, mut ordered) = mpsc::unbounded_channel();
        let known = Arc::new(Known::default());
        known.set(&name(META), Some(self.place.clone()));
        let shared = Shared {
            carry: carry::Carry::new(
                &settings.profile.propagation,
                carry::Secret::new([7; 16]),
                carry::Limits::default(),
            )
            .unwrap(),
            audit: Audit::none(),
            observer: crate::observe::Observer::default(),
            revoked: link::Revoked::default(),
            bypass: false.into(),
            in_flight: 0.into(),
            local: 0.into(),
            away: 0.into(),
            streams: Arc::default(),
            peers: std::sync::Mutex::default(),
            started: tokio::time::Instant::now(),
            replicas: Some(Replicas { known, orders, counts: Arc::default(), spool: Arc::default() }),
            identities: None,
        };
        let snapshot = Snapshot { settings, health: BTreeMap::new(), client_tls: None, notary: None };
        let core = Core::new(Arc::new(shared), Arc::<metrics::Counts>::default(), Arc::new(snapshot));
        let kept = Rc::new(RefCell::new(None));
        let (reply, handed) = (self.reply.clone(), Rc::clone(&kept));
        spawn_local(async move {
            while let Some(order) = ordered.recv().await {
                match order {
                    Order::Write(wanted, answer) => {
                        handed.replace(Some(wanted));
                        let _ = answer.send(answered(reply.clone()));
                    }
                    Order::Fate(op, answer) => {
                        let sites = vec![(site("A"), Stand::Done(Some(201))), (site("B"), Stand::InDoubt)];
                        let fate = Fate { meta: Meta::from(&name(META)), sites };
                        let _ = answer.send((op.counter == 42).then_some(fate));
                    }
                    Order::IsDeleted(meta, answer) => {
                        let _ = answer.send(meta == Meta::from(&name(DELETED)));
                    }
                    _ => {}
                }
            }
        });
        let state = core.state();
        if let Some(operation) = operations::asked(&head) {
            let response = match operation {
                Ok(operation) => operations::answer(core.shared.replicas.as_ref(), operation).await,
                Err(problem) => problem.into_response(),
            };
            return collected(response, None).await;
        }
        let service = state.service("image").unwrap();
        let at = At {
            core: &core,
            state: &state,
            service: &service,
            carried: None,
            from_peer: self.about.is_some(),
            about: self.about.as_ref(),
            level: None,
            request: None,
            listed: None,
            named: None,
        };
        let body =
            if body.is_empty() { LegBody::Empty } else { LegBody::Full(Bytes::from_static(body.as_bytes())) };
        let outcome = match &self.group {
            Some(group) => walk::create(at, Box::new(head), body, group).await,
            None => walk::local(at, Box::new(head), body, None).await,
        };
        let response = outcome.unwrap_or_else(|failure| failure.into_problem("image").into_response());
        collected(response, kept.take()).await
    }
}

async fn collected(response: Response<crate::body::AnswerBody>, wanted: Option<Box<Wanted>>) -> Outcome {
    let (head, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    Outcome { response: Response::from_parts(head, body), wanted }
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn a_read_of_a_replica_is_local_and_knows_nothing_of_its_local_id() {
    let outcome =
        stage().ask(&format!("GET /images/{META}/file?from={META}"), &[("accept-encoding", "gzip")], "");
    let json = outcome.json();
    assert_eq!(outcome.status(), 200);
    let line: String = json["line"].as_str().unwrap().chars().rev().collect();
    assert_eq!(line, format!("GET /images/{LOCAL}/file?from={LOCAL} HTTP/1.1"), "as the service knows it");
    assert_eq!(
        (json["id"].as_str(), json["self"].as_str()),
        (Some(META), Some(&*format!("/images/{META}/file")))
    );
    assert_eq!(json["conditions"], "accept-encoding: identity;");
    assert_eq!(outcome.header("location"), format!("http://s/images/{META}"));
    assert_eq!(outcome.header("etag"), "\"A.v1\"");
    assert!(!outcome.response.headers().contains_key("content-md5"));
    assert_eq!(outcome.header("content-length"), outcome.response.body().len().to_string());
    assert!(!outcome.response.body().windows(LOCAL.len()).any(|window| window == LOCAL.as_bytes()));
}

#[test]
fn an_ordinary_request_is_rewritten_too_and_nobody_names_a_local_id() {
    let outcome = stage().ask("GET /images", &[("if-none-match", "\"A.v1\", \"B.v2\"")], "");
    assert_eq!(outcome.json()["id"], META);
    assert_eq!(outcome.json()["conditions"], "if-none-match: \"v1\";accept-encoding: identity;");
    for line in
        [format!("GET /images/{LOCAL}"), format!("DELETE /images/{LOCAL}/file"), format!("GET /x?id={LOCAL}")]
    {
        stage().ask(&line, &[], "").is_problem(404, "not-found");
    }
    stage()
        .ask("POST /x", &[JSON], "{\"image\":\"11111111-2222-4333-8444-555555555555\"}")
        .is_problem(404, "not-found");
    stage().ask("PUT /x", &[("if-match", "\"B.v1\"")], "").is_problem(412, "other-version");
}

#[test]
fn a_write_to_a_replicated_resource_is_the_keepers_whatever_its_scope() {
    let headers = [
        JSON,
        ("x-token", "secret"),
        ("authorization", "Bearer secret"),
        ("cookie", "secret"),
        ("x-auth-token", "secret"),
        ("x-service-token", "secret"),
        ("x-api-key", "secret"),
        ("idempotency-key", "7"),
        ("if-match", "\"A.v1\""),
        ("baggage", "a=b"),
        ("x-request-id", "7"),
        ("content-md5", "x"),
        ("accept", "application/json"),
    ];
    for stage in [stage(), stage().to(&["A", "B"]), stage().to(&["B"])] {
        let line = format!("PATCH /images/{META}?access_token=secret&x=1&X-Amz-Date=7&temp%5Furl_sig=secret");
        let outcome = stage.ask(&line, &headers, "{\"name\":\"x\"}");
        assert_eq!(outcome.status(), 201, "{:?}", outcome.response);
        assert_eq!(outcome.json()["id"], META, "as clients know it");
        assert_eq!(outcome.header("location"), format!("/images/{META}"));
        assert_eq!(outcome.header("scope-sites"), "\"A\";status=201, \"B\";pending");
        assert_eq!(outcome.header("scope-operation"), "A/5-2f/42");
        let wanted = outcome.wanted();
        assert_eq!(wanted.write.subject, Subject::Existing(Meta::from(&name(META))));
        assert_eq!(wanted.write.class, Class::Patch(["name".into()].into()));
        assert_eq!(wanted.write.doubt, Doubt::Repeat);
        assert_eq!(wanted.head.headers["if-match"], "\"v1\"", "as the service knows it");
        assert_eq!(wanted.kept.path, format!("/images/{META}"));
        assert_eq!(wanted.kept.query.as_deref(), Some("x=1"));
        assert_eq!(wanted.kept.content, Content::Inline(b"{\"name\":\"x\"}".to_vec()));
        let kept: Vec<&str> = wanted.kept.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert!(wanted.head.uri.query().unwrap().contains("access_token=secret"), "that is the client's own");
        assert_eq!(
            kept,
            ["content-type", "idempotency-key", "accept"],
            "no credential and no condition is kept"
        );
        assert_eq!(
            wanted.head.headers["x-token"], "secret",
            "the first replica executes with the sender's token"
        );
    }
}

#[test]
fn what_clients_name_is_put_and_what_services_name_is_named_by_the_first_replica() {
    let ab = || stage().to(&["A", "B"]);
    let outcome = ab().ask("POST /images", &[JSON], "{}");
    let Subject::New { naming, level, sites } = &outcome.wanted().write.subject else { panic!("it is new") };
    assert_eq!((naming, level, sites.len()), (&Naming::FirstReplica, &Level::Eventual, 2));
    assert_eq!(outcome.wanted().write.doubt, Doubt::Probe);
    assert_eq!(outcome.wanted().kept.path, "/images");

    let outcome = ab().ask("POST /tags?a=b", &[], "");
    let wanted = outcome.wanted();
    let Subject::New { naming: Naming::Chosen(meta), .. } = &wanted.write.subject else {
        panic!("it is named")
    };
    let id = Name::from(meta).id().to_owned();
    assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "a UUID of version 4: {id}");
    assert_eq!(wanted.head.method, "PUT");
    assert_eq!(wanted.head.uri.to_string(), format!("/tags/{id}?a=b"));
    assert_eq!((&*wanted.kept.method, &*wanted.kept.path), ("PUT", &*format!("/tags/{id}")));
    assert_eq!((&wanted.write.class, wanted.write.doubt), (&Class::Create, Doubt::Repeat));

    let outcome = ab().ask("PUT /tags/red", &[], "");
    let named = Naming::Chosen(Meta::from(&Name::new("image", "/tags/red")));
    assert!(matches!(&outcome.wanted().write.subject, Subject::New { naming, .. } if *naming == named));
}

#[test]
fn creations_keep_their_paths_as_they_were_sent() {
    let ab = || stage().to(&["A", "B"]);
    for path in ["/images/", "/%69mages/", "//images//"] {
        let outcome = ab().ask(&format!("POST {path}"), &[JSON], "{}");
        assert_eq!(outcome.wanted().kept.path, path);
    }
    let outcome = ab().ask("PUT /%74ags/r%65d/", &[], "");
    let wanted = outcome.wanted();
    assert_eq!((&*wanted.kept.path, &*wanted.kept.below), ("/%74ags/r%65d", "/"));
    let named = Naming::Chosen(Meta::from(&Name::new("image", "/tags/red")));
    assert!(matches!(&wanted.write.subject, Subject::New { naming, .. } if *naming == named));
    let outcome = stage().ask(&format!("PUT /%69mages/{META}/file%2D1//"), &[], "");
    let kept = &outcome.wanted().kept;
    assert_eq!((&*kept.path, &*kept.below), (&*format!("/%69mages/{META}"), "/file%2D1//"));
}

#[test]
fn what_is_named_in_its_body_is_made_by_the_same_post_with_an_id_in_it() {
    let ab = || stage().to(&["A", "B"]);
    let made = |body: &'static str| {
        let outcome = ab().ask("POST /flavors", &[JSON, ("content-md5", "x")], body);
        let wanted = outcome.wanted();
        let Subject::New { naming: Naming::Chosen(meta), .. } = &wanted.write.subject else {
            panic!("it is named")
        };
        assert_eq!((&*wanted.kept.method, &*wanted.kept.path), ("POST", "/flavors"));
        assert_eq!((&wanted.write.class, wanted.write.doubt), (&Class::Create, Doubt::Probe));
        let Content::Inline(kept) = &wanted.kept.content else { panic!("it is short") };
        let length =
            wanted.head.headers.get("content-length").map(|length| length.to_str().unwrap().to_owned());
        (Name::from(meta).path().to_owned(), String::from_utf8(kept.clone()).unwrap(), length)
    };
    for chosen in [r#"{"flavor": {"id": "m1.tiny", "ram": 1}}"#, r#"{"flavor": {"id": 7, "ram": 1}}"#] {
        let (path, kept, _) = made(chosen);
        assert!(["/flavors/m1.tiny", "/flavors/7"].contains(&&*path), "{path}");
        assert_eq!(kept, chosen, "it is as the client sent it");
    }
    for open in [
        r#"{"flavor": {"ram": 1}}"#,
        r#"{"flavor": {"ram": 1, "id": null}}"#,
        r#"{"flavor": {"ram": 1, "id": "auto"}}"#,
    ] {
        let (path, kept, length) = made(open);
        let id = path.strip_prefix("/flavors/").unwrap();
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'4'), "a UUID of version 4: {id}");
        let document: Value = serde_json::from_str(&kept).unwrap();
        assert_eq!(document, serde_json::json!({"flavor": {"ram": 1, "id": id}}));
        assert_eq!(length, Some(kept.len().to_string()));
    }
    for bad in [r#"{"flavor": {"id": "a/b"}}"#, r#"{"flavor": {"id": ".."}}"#, r#"{"flavour": {}}"#, "x"] {
        ab().ask("POST /flavors", &[JSON], bad).is_problem(422, "not-replicable");
    }
    let signed = ("authorization", "AWS4-HMAC-SHA256 Credential=x");
    let stage = || Stage { credential: true, ..ab() };
    stage().ask("POST /flavors", &[JSON, signed], r#"{"flavor": {}}"#).is_problem(422, "signed");
    let chosen = stage().ask("POST /flavors", &[JSON, signed], r#"{"flavor": {"id": "1"}}"#);
    assert_eq!(chosen.status(), 201, "nothing of it is changed");
}

#[test]
fn what_cannot_be_replicated_is_refused_with_words() {
    let ab = || stage().to(&["A", "B"]);
    let outcome = ab().ask("POST /servers", &[], "");
    outcome.is_problem(422, "not-replicable");
    let detail = "a server is at one site only: it runs somewhere; name that site";
    assert_eq!(outcome.json()["detail"], detail);
    ab().ask("PUT /flavors/7", &[], "").is_problem(422, "not-replicable");
    ab().ask("POST /others", &[], "").is_problem(422, "not-replicable");
    ab().ask("DELETE /images/7", &[], "").is_problem(422, "not-replicable");
    ab().ask("PUT /tags/%2e%2e", &[], "").is_problem(400, "bad-path");
    stage().ask(&format!("PUT /images/{META}/..%2Fother"), &[], "").is_problem(400, "bad-path");
    for credential in [("x-token", "t"), ("authorization", "Basic eA=="), ("cookie", "a=b")] {
        ab().ask("POST /images", &[credential], "").is_problem(422, "no-credential");
        let stage = Stage { credential: true, ..ab() };
        assert_eq!(stage.ask("POST /images", &[credential], "").status(), 201);
    }
    let signed = ("authorization", "AWS4-HMAC-SHA256 Credential=x");
    let credential = || Stage { credential: true, ..stage() };
    credential().to(&["A"]).ask("POST /tags", &[signed], "").is_problem(422, "signed");
    credential().ask(&format!("DELETE /images/{META}"), &[signed], "").is_problem(422, "signed");
    credential().ask(&format!("GET /images/{META}"), &[("signature", "x")], "").is_problem(422, "signed");
    assert_eq!(credential().ask("GET /images", &[signed], "").status(), 200, "nothing of it is rewritten");
    stage().ask(&format!("PATCH /images/{META}"), &[], "what?").is_problem(422, "no-fields");
    let outcome = stage().ask(&format!("PUT /images/{META}?{}", "x".repeat(4096)), &[], "");
    outcome.is_problem(414, "too-long");
    let long = Box::leak("x".repeat(1001).into_boxed_str());
    let json = ("content-type", "application/json");
    let outcome = stage().ask(&format!("PUT /images/{META}"), &[json], long);
    stage().ask(&format!("PATCH /images/{META}"), &[], long).is_problem(413, "body-too-long");
    outcome.is_problem(413, "body-too-long");
    assert!(outcome.json()["detail"].as_str().unwrap().contains("1000 bytes"));
}

#[test]
fn each_reply_of_the_keeper_has_its_status() {
    let cases = [
        (Reply::Unavailable, 503, "unreachable", true),
        (Reply::NotGood, 503, "replica-not-good", true),
        (Reply::Unknown, 504, "unknown-outcome", false),
        (Reply::Beaten, 409, "beaten", false),
        (Reply::NoResource, 404, "not-found", false),
        (Reply::NoOrder, 422, "no-order", false),
        (Reply::NotRepeatable, 422, "not-repeatable", false),
        (Reply::NoMajority, 503, "no-majority", true),
        (Reply::Missing(site("B")), 503, "site-missing", true),
    ];
    for (reply, status, kind, unsent) in cases {
        // No other site can be asked: this one has no link.
        let alone = Place { members: [site("A")].into(), ..stage().place };
        let stage = Stage { place: alone, ..stage().replying(reply) };
        let outcome = stage.ask(&format!("PUT /images/{META}"), &[], "{}");
        assert_eq!(outcome.status(), status, "{kind}");
        assert_eq!(outcome.json()["type"], format!("urn:archipel:{kind}"));
        assert_eq!(outcome.response.headers().contains_key(UNSENT), unsent, "{kind}");
        if status == 504 {
            assert_eq!(outcome.json()["operation"], "/_scope/operations/A/5-2f/42");
        }
        if kind == "not-repeatable" {
            assert!(outcome.json()["detail"].as_str().unwrap().contains("@quorum"));
        }
    }
    let outcome = stage().replying(Reply::Recorded).ask(&format!("PUT /images/{META}"), &[], "{}");
    assert_eq!((outcome.status(), outcome.header("location")), (202, "/_scope/operations/A/5-2f/42"));
}

#[test]
fn what_became_of_an_operation_can_be_read() {
    let outcome = stage().ask("GET /_scope/operations/A/5-2f/42", &[], "");
    let json = outcome.json();
    assert_eq!(json["operation"], "A/5-2f/42");
    assert_eq!(json["resource"]["path"], format!("/images/{META}"));
    assert_eq!(json["sites"][0], serde_json::json!({ "site": "A", "state": "done", "status": 201 }));
    assert_eq!(json["sites"][1]["state"], "in-doubt");
    for path in [
        "/_scope/operations/A/5-2f/43",
        "/_scope/operations/A/",
        "/_scope/operations/A/5-2f/+42",
        "/_scope/operations/7",
    ] {
        stage().ask(&format!("GET {path}"), &[], "").is_problem(404, "no-such-operation");
    }
    stage().ask("DELETE /_scope/operations/A/5-2f/42", &[], "").is_problem(405, "read-only");
    let spaced = OpId { site: site("DC 1"), epoch: RUN, counter: 7 };
    let (head, ()) = Request::get(operations::address(&spaced)).body(()).unwrap().into_parts();
    assert_eq!(operations::asked(&head).unwrap().unwrap(), spaced);
}

#[test]
fn what_is_not_readable_here_and_nowhere_else_is_a_503() {
    let place = Place { readable: false, ..stage().place };
    let stage = Stage { place, ..stage() };
    stage.ask(&format!("GET /images/{META}"), &[], "").is_problem(503, "unreachable");
}

#[test]
fn what_another_site_knows_to_be_replicated_is_no_request_to_the_service_here() {
    let line = |method: &str, id: &str| format!("{method} /images/{id}");
    for method in ["GET", "PUT", "DELETE"] {
        let about = |id: &str| Stage { about: Some(Meta::from(&name(id))), ..stage() };
        let unknown = about(OTHER).ask(&line(method, OTHER), &[], "");
        unknown.is_problem(503, "replica-not-good");
        assert!(unknown.response.headers().contains_key(UNSENT), "another site may be asked");
        about(DELETED).ask(&line(method, DELETED), &[], "").is_problem(404, "not-found");
        assert!(about(META).ask(&line(method, META), &[], "").status() < 300, "it is known here");
    }
    assert_eq!(stage().ask(&line("GET", OTHER), &[], "").status(), 200, "of a client, it is the service's");
}

#[test]
fn a_group_is_read_as_it_was_written() {
    let group = Group { sites: ["A", "DC 1"].map(site).into(), level: scope::Level::Quorum };
    let (mut head, ()) = Request::new(()).into_parts();
    group.write(&mut head);
    assert_eq!(Group::read(&head), Some(group));
}

#[test]
fn what_a_write_names_is_kept_with_it_and_nobody_names_a_local_id() {
    let ab = || Stage { credential: true, ..stage().to(&["A", "B"]) };
    let outcome =
        ab().ask("POST /images", &[JSON], "{\"from\":\"/images/7f0e1d2c-3b4a-4958-8776-655443322110\"}");
    let kept = &outcome.wanted().kept;
    let Content::Inline(body) = &kept.content else { panic!("it is short") };
    assert_eq!(*body, format!("{{\"from\":\"/images/{META}\"}}").into_bytes(), "as clients know it");
    let named = Named { meta: Meta::from(&name(META)), sites: ["A", "B"].map(site).into() };
    assert_eq!(kept.names, [named]);
    let patch = ab().ask(&format!("PATCH /images/{META}"), &[JSON], "{\"name\":\"x\"}");
    assert!(patch.wanted().kept.names.is_empty(), "only itself");
    let plain =
        ab().ask("POST /images", &[("content-type", "text/plain")], "7f0e1d2c-3b4a-4958-8776-655443322110");
    assert!(plain.wanted().kept.names.is_empty(), "only JSON is looked at");

    let local = ab().ask("POST /images", &[JSON], "{\"from\":\"11111111-2222-4333-8444-555555555555\"}");
    local.is_problem(404, "not-found");
    assert!(local.wanted.is_none(), "the keeper was asked");
    // What the service here would be given is not what was signed.
    let signed = ("authorization", "AWS4-HMAC-SHA256 Credential=x");
    ab().ask("POST /images", &[JSON, signed], "{\"from\":\"7f0e1d2c-3b4a-4958-8776-655443322110\"}")
        .is_problem(422, "signed");
}
