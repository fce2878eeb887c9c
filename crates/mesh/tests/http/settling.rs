//! Waiting for what comes of a write, with services that accept a server at once and build it later: there is never more
//! than one server, and nobody who did not ask waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use http::Request;
use mesh::Settings;
use profile::Profile;
use scope::Dialect;
use tokio::net::TcpStream;

use crate::harness::{Isles, Message, Upstream, run, until};
use crate::http2::{full, over};

const FAULT: &str = "No valid host was found. There are not enough hosts available.";

/// How a service behaves.
#[derive(Clone, Copy, PartialEq)]
enum Nature {
    /// Its servers become active.
    Fine,
    /// They fail.
    Full,
    /// They fail, and it lets nobody delete them.
    Stubborn,
    /// They fail, and are never gone.
    Haunted,
    /// They are never finished.
    Endless,
    /// They become active, but for a while it answers nothing about them but errors.
    Shaky,
    /// They fail, and a deletion goes through at the second try.
    Busy,
}

/// What a service has: each server, and how often it was asked for.
type Servers = Arc<Mutex<BTreeMap<String, u32>>>;

/// One site's compute service.
struct Nova {
    upstream: Upstream,
    servers: Servers,
}

impl Nova {
    fn new(name: &'static str, nature: Nature) -> Nova {
        let servers: Servers = Arc::default();
        let own = Arc::clone(&servers);
        let upstream = Upstream::serving(move |request| {
            serve(name, nature, &mut own.lock().unwrap(), request).into_bytes()
        });
        Nova { upstream, servers }
    }

    /// How many servers there are now.
    fn servers(&self) -> usize {
        self.servers.lock().unwrap().len()
    }

    /// How many requests with this method it got.
    fn got(&self, method: &str) -> usize {
        self.upstream.seen().iter().filter(|request| request.line.starts_with(method)).count()
    }
}

fn serve(name: &str, nature: Nature, servers: &mut BTreeMap<String, u32>, request: &Message) -> String {
    let mut words = request.line.split(' ');
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    if method == "POST" {
        assert_eq!((path, request.text().as_str()), ("/v2.1/servers", BODY));
        let id = format!("{name}-{}", servers.len());
        let accepted = format!(r#"{{"server": {{"id": "{id}", "adminPass": "secret"}}}}"#);
        servers.insert(id, 0);
        return answer("202 Accepted", &accepted);
    }
    assert_eq!(request.field("x-auth-token").as_deref(), Some("mine"), "as the client itself would ask");
    assert!(request.body.is_empty() && request.field("content-type").is_none(), "{request:?}");
    let id = path.strip_prefix("/v2.1/servers/").unwrap();
    let Some(asked) = servers.get_mut(id) else { return answer("404 Not Found", "{}") };
    *asked += 1;
    if method == "DELETE" {
        if nature == Nature::Stubborn {
            return answer("403 Forbidden", "{}");
        }
        if nature == Nature::Busy && *asked < 5 {
            return answer("409 Conflict", "{}");
        }
        // It is still there for the next two that ask.
        *asked = if nature == Nature::Haunted { 1 } else { 1_000 };
        return "HTTP/1.1 204 No Content\r\n\r\n".to_owned();
    }
    let state = match (*asked, nature) {
        (1_002.., _) => {
            servers.remove(id);
            return answer("404 Not Found", "{}");
        }
        (1..4, Nature::Shaky) => return answer("503 Service Unavailable", "{}"),
        (1..3, _) | (_, Nature::Endless) => "BUILD",
        (_, Nature::Fine | Nature::Shaky) => "ACTIVE",
        (_, Nature::Full | Nature::Stubborn | Nature::Haunted | Nature::Busy) => "ERROR",
    };
    let fault =
        if state == "ERROR" { format!(r#", "fault": {{"message": "{FAULT}"}}"#) } else { String::new() };
    answer("200 OK", &format!(r#"{{"server": {{"id": "{id}", "status": "{state}"{fault}}}}}"#))
}

fn answer(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// OpenStack's rule, but faster.
fn quick(within: &str, gone_within: &str) -> impl Fn(&mut Settings) {
    let text = format!(
        "description = 'x'\n[services]\ncompute = []\n[[settles]]\nservice = 'compute'\npaths = ['/**/servers']\n\
         status = [202]\nid = '/server/id'\nstate = '/server/status'\ndone = ['ACTIVE']\nfailed = ['ERROR']\n\
         fault = '/server/fault/message'\nseveral = ['/server/max_count']\n\
         every = '1ms'\nwithin = '{within}'\ngone_within = '{gone_within}'\n"
    );
    move |settings| {
        settings.profile = Profile::read(&text).unwrap();
        settings.dialect = Dialect { services: settings.profile.services(), ..Dialect::default() };
        let service = settings.services.remove("image").unwrap();
        settings.services.insert("compute".to_owned(), service);
    }
}

fn isles(novas: [&Nova; 3]) -> Isles {
    Isles::tuned(novas.map(|nova| &nova.upstream), quick("20s", "20s"))
}

const BODY: &str = r#"{"server": {"name": "vm"}}"#;

fn post(isles: &Isles, scope: &str, fields: &str, body: &str) -> Message {
    let mut client = isles.connect();
    client.send(format!(
        "POST /v2.1/servers HTTP/1.1\r\nHost: nova\r\nX-Auth-Token: mine\r\nX-Scope: compute: {scope}\r\n{fields}\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    client.answer()
}

fn boot(isles: &Isles, scope: &str) -> Message {
    post(isles, scope, "X-Scope-Settle: true\r\n", BODY)
}

#[test]
fn what_fails_after_its_answer_is_deleted_and_made_at_the_next_site_once() {
    for (scope, failing, nature) in
        [("A ; B", "A", Nature::Full), ("B ; A", "B", Nature::Full), ("A | B", "A", Nature::Busy)]
    {
        let natures = if failing == "A" { [nature, Nature::Fine] } else { [Nature::Fine, nature] };
        let (a, b) = (Nova::new("a", natures[0]), Nova::new("b", natures[1]));
        let isles = isles([&a, &b, &b]);
        let booted = boot(&isles, scope);
        let (full, fine) = if failing == "A" { (&a, &b) } else { (&b, &a) };
        let id = if failing == "A" { "b-0" } else { "a-0" };
        let accepted = format!(r#"{{"server": {{"id": "{id}", "adminPass": "secret"}}}}"#);
        assert_eq!((booted.status(), booted.text()), (202, accepted), "{scope}");
        assert_eq!((full.got("POST"), fine.got("POST")), (1, 1), "{scope}");
        assert_eq!((full.servers(), fine.servers()), (0, 1), "{scope}");
        assert_eq!(fine.got("DELETE"), 0, "{scope}");
        let sites = booted.field("scope-sites").unwrap();
        assert!(sites.starts_with(&format!("\"{failing}\";error=undone")), "{sites}");
        assert!(fine.upstream.seen().iter().all(|request| request.field("x-scope-settle").is_none()));
    }
}

#[test]
fn one_site_that_succeeds_gives_its_own_answer_and_one_that_fails_says_why() {
    for scope in ["A", "B"] {
        let (fine, shaky) = (Nova::new("a", Nature::Fine), Nova::new("b", Nature::Shaky));
        let isles = isles([&fine, &shaky, &fine]);
        let booted = boot(&isles, scope);
        assert_eq!(booted.status(), 202, "{scope}: {}", booted.text());
        assert!(booted.text().contains("secret"));
    }
    for scope in ["A", "B"] {
        let full = Nova::new("x", Nature::Full);
        let isles = isles([&full, &full, &full]);
        let failed = boot(&isles, scope);
        failed.assert_problem(500, "undone");
        assert!(failed.text().contains(FAULT) && failed.text().contains(scope), "{}", failed.text());
        assert_eq!((full.got("POST"), full.servers()), (1, 0), "{scope}");
    }
}

#[test]
fn where_it_fails_everywhere_nothing_is_left_and_each_site_says_why() {
    let (a, b) = (Nova::new("a", Nature::Full), Nova::new("b", Nature::Full));
    let isles = isles([&a, &b, &b]);
    let failed = boot(&isles, "A ; B");
    failed.assert_problem(503, "no-site-answered");
    assert_eq!(failed.text().matches(FAULT).count(), 2, "{}", failed.text());
    assert_eq!((a.servers(), b.servers()), (0, 0));
}

#[test]
fn what_is_not_known_to_be_gone_is_not_made_again() {
    for (nature, within, gone_within) in
        [(Nature::Stubborn, "20s", "20s"), (Nature::Haunted, "20s", "30ms"), (Nature::Endless, "30ms", "20s")]
    {
        for scope in ["A ; C", "B | C", "A", "B"] {
            let (bad, other) = (Nova::new("x", nature), Nova::new("c", Nature::Fine));
            let upstreams = [&bad, &bad, &other].map(|nova| &nova.upstream);
            let isles = Isles::tuned(upstreams, quick(within, gone_within));
            let unknown = boot(&isles, scope);
            unknown.assert_problem(504, "unknown-outcome");
            let named = format!("/v2.1/servers/x-0 at {}", &scope[..1]);
            assert!(unknown.text().contains(&named), "{}", unknown.text());
            assert!(unknown.field("scope-sites").unwrap().contains("error=unsettled"));
            assert_eq!((bad.got("POST"), bad.servers(), other.got("POST")), (1, 1, 0), "{scope}");
        }
    }
}

#[test]
fn who_does_not_ask_gets_the_answer_at_once_and_nothing_more_is_asked() {
    let (a, b) = (Nova::new("a", Nature::Full), Nova::new("b", Nature::Fine));
    let quiet = isles([&a, &b, &b]);
    for (scope, fields) in [("A ; B", ""), ("A ; B", "X-Scope-Settle: false\r\n"), ("A", ""), ("B", "")] {
        assert_eq!(post(&quiet, scope, fields, BODY).status(), 202);
    }
    assert_eq!((a.upstream.seen().len(), b.upstream.seen().len()), (3, 1));
}

#[test]
fn a_service_that_always_waits_can_be_told_not_to() {
    let (a, b) = (Nova::new("a", Nature::Full), Nova::new("b", Nature::Fine));
    let always = Isles::tuned([&a, &b, &b].map(|nova| &nova.upstream), |settings| {
        quick("20s", "20s")(settings);
        settings.services.get_mut("compute").unwrap().settle = true;
    });
    assert!(post(&always, "A ; B", "", BODY).text().contains("b-0"));
    assert!(post(&always, "A ; B", "X-Scope-Settle: false\r\n", BODY).text().contains("a-0"));
    assert_eq!((a.servers(), b.servers()), (1, 1));
}

#[test]
fn several_at_once_are_refused_before_any_site_sees_them() {
    let nova = Nova::new("a", Nature::Fine);
    let isles = isles([&nova, &nova, &nova]);
    let several = r#"{"server": {"name": "vm", "max_count": 2}}"#;
    for scope in ["A ; B", "B", "A"] {
        post(&isles, scope, "X-Scope-Settle: true\r\n", several).assert_problem(422, "not-settled");
    }
    assert_eq!(nova.upstream.connections(), 0);
}

#[test]
fn nothing_is_asked_for_a_client_that_is_gone_and_what_was_made_stays() {
    for scope in ["A ; C", "B ; C"] {
        let (endless, other) = (Nova::new("x", Nature::Endless), Nova::new("c", Nature::Fine));
        let isles = isles([&endless, &endless, &other]);
        run(async {
            let mut client = over(TcpStream::connect(isles.address).await.unwrap()).await;
            let request = Request::post("http://nova/v2.1/servers")
                .header("x-auth-token", "mine")
                .header("x-scope", format!("compute: {scope}"))
                .header("x-scope-settle", "true")
                .body(full(BODY));
            let mut answer = Box::pin(client.send_request(request.unwrap()));
            while endless.got("GET") < 3 {
                let pause = tokio::time::sleep(std::time::Duration::from_millis(2));
                tokio::select! {
                    _ = &mut answer => panic!("it is not built yet"),
                    () = pause => {}
                }
            }
        });
        until("nothing is under way", || isles.in_flight() == [0, 0, 0]);
        let asked = endless.upstream.seen().len();
        // Long enough for many more questions, if any were still asked.
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(endless.upstream.seen().len(), asked, "{scope}");
        assert_eq!((endless.got("DELETE"), endless.servers(), other.upstream.connections()), (0, 1, 0));
    }
}
