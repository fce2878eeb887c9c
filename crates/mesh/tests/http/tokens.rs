//! A key that was handed on for one client's request, and whose token a call may carry with it.

use mesh::Settings;
use profile::Profile;

use crate::harness::{ANY_PORT, Conn, Front, Message, Upstream, Way};

const PROFILE: &str = "
    description = 'an application with tokens'
    [propagation]
    sender = ['x-token']
    [[propagation.headers]]
    name = 'X-Request-ID'
    form = 'hex'
    [[propagation.service_tokens]]
    service = 'image'
    method = 'POST'
    path = '/login'
    header = 'x-new-token'
";

fn with_tokens(settings: &mut Settings) {
    settings.profile = Profile::read(PROFILE).unwrap();
    settings.services.get_mut("image").unwrap().internal = vec![ANY_PORT];
}

/// A client's request with a scope.
fn scoped(front: &Front, token: &str) -> Message {
    front.ask("GET /", &format!("X-Scope: image: A\r\nX-Token: {token}\r\n"), b"")
}

/// A call to the internal listener.
fn call(front: &Front, line: &str, fields: &str) -> Message {
    let mut service = Conn::to(front.internal());
    service.send(format!("{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n{fields}\r\n"));
    service.answer()
}

#[test]
fn a_stolen_key_is_refused_and_a_services_own_token_is_not() {
    let upstream =
        Upstream::answering("HTTP/1.1 200 OK\r\nX-New-Token: service\r\nContent-Length: 2\r\n\r\nok");
    let front = Front::tuned(Way::Local, upstream.address(), with_tokens);
    assert_eq!(scoped(&front, "own").status(), 200);
    let key = upstream.seen()[0].field("x-request-id").unwrap();
    let with = |token: &str| call(&front, "GET /", &format!("X-Request-ID: {key}\r\n{token}"));
    for token in ["X-Token: own\r\n", "X-Token: never-seen\r\n", ""] {
        assert_eq!(with(token).status(), 200, "{token:?}");
    }

    assert_eq!(scoped(&front, "thief").status(), 200);
    let before = upstream.seen().len();
    with("X-Token: thief\r\n").assert_problem(403, "scope-not-yours");
    assert_eq!(upstream.seen().len(), before, "the service did not see it");

    // A login at a public listener makes no service.
    assert_eq!(front.ask("POST /v3/login", "Content-Length: 0\r\n", b"").status(), 200);
    assert_eq!(scoped(&front, "service").status(), 200);
    with("X-Token: service\r\n").assert_problem(403, "scope-not-yours");
    // Nor does another request that is answered with a token.
    assert_eq!(call(&front, "GET /v3/login", "").status(), 200);
    with("X-Token: service\r\n").assert_problem(403, "scope-not-yours");
    assert_eq!(call(&front, "POST /v3/login", "").status(), 200);
    assert_eq!(with("X-Token: service\r\n").status(), 200);
    with("X-Token: thief\r\n").assert_problem(403, "scope-not-yours");
}

/// Made-up tokens would fill what is remembered.
#[test]
fn a_token_that_the_service_refuses_is_nobodys() {
    let upstream = Upstream::script(|conn| {
        while let Some(request) = conn.request() {
            let refused = request.field("x-token").as_deref() == Some("made-up");
            let status = if refused { "401 Unauthorized" } else { "200 OK" };
            let id = request.field("x-request-id").unwrap_or_default();
            conn.send(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{id}", id.len()));
        }
    });
    let front = Front::tuned(Way::Local, upstream.address(), with_tokens);
    let key = scoped(&front, "own").text();
    assert_eq!(scoped(&front, "made-up").status(), 401);
    let answer = call(&front, "GET /", &format!("X-Request-ID: {key}\r\nX-Token: made-up\r\n"));
    assert_eq!(answer.status(), 401, "the service's own answer");
}

/// The second site compares with the token that came over the link.
#[test]
fn a_key_that_was_minted_for_another_sites_client_is_its_own_too() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Peer, upstream.address(), with_tokens);
    assert_eq!(front.ask("GET /", "X-Token: own\r\n", b"").status(), 200);
    let key = upstream.seen()[0].field("x-request-id").unwrap();
    let mut thief = Conn::to(front.far(false));
    thief.send("GET / HTTP/1.1\r\nHost: x\r\nX-Scope: image: B\r\nX-Token: thief\r\n\r\n");
    assert_eq!(thief.answer().status(), 200);
    let mut service = Conn::to(front.far(true));
    let mut with = |token: &str| {
        service.send(format!("GET / HTTP/1.1\r\nHost: x\r\nX-Request-ID: {key}\r\nX-Token: {token}\r\n\r\n"));
        service.answer()
    };
    assert_eq!(with("own").status(), 200);
    with("thief").assert_problem(403, "scope-not-yours");
}
