//! A service that nobody offers: a slip where a client wrote it, and not where another site did.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh::{Fixed, Settings};
use profile::Together;
use scope::Atlas;

use crate::harness::{ANY_PORT, Conn, Front, Upstream, Way, nowhere};

/// The first site knows one service more than the second.
fn with_services(settings: &mut Settings) {
    let offered: &[&str] = if settings.site.name() == "A" { &["image", "volume"] } else { &["image"] };
    let members = settings.sites.members();
    let mut atlas = Atlas::new(members.iter().cloned()).unwrap();
    let address = |site: usize| settings.sites.address(site).map(str::to_owned);
    let mut peers = BTreeMap::new();
    for (position, site) in members.iter().enumerate() {
        atlas.set_services(position, offered.iter().copied());
        peers.extend(address(position).map(|address| (site.clone(), address)));
    }
    settings.sites = Arc::new(Fixed { atlas, peers });
    settings.services.get_mut("image").unwrap().internal = vec![ANY_PORT];
}

#[test]
fn a_misspelt_service_is_refused_where_the_client_enters() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), with_services);
    for (line, fields) in [
        ("GET /", "X-Scope: imgae: A\r\n"),
        ("GET /", "X-Scope: image: A, vol: A\r\n"),
        ("GET /", "baggage: scope=imgae%3A%20A\r\n"),
        ("GET /_scope/imgae:A/x", ""),
    ] {
        // The second time it comes from memory.
        for _ in 0..2 {
            let answer = front.ask(line, fields, b"");
            answer.assert_problem(400, "bad-scope");
            assert!(answer.text().contains("no service is called"), "{}", answer.text());
            assert!(answer.text().contains("position"), "{}", answer.text());
        }
    }
    let help = front.ask("GET /", "X-Scope: imgae: A\r\n", b"").text();
    assert!(help.contains("similar name") && help.contains("image"), "{help}");
    assert_eq!(upstream.connections(), 0);
    // What some site offers may be named here, if only for a call that comes later.
    assert_eq!(front.ask("GET /", "X-Scope: image: A, Volume: B\r\n", b"").status(), 200);
}

#[test]
fn services_that_must_be_at_one_site_are_not_placed_apart() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), |settings| {
        with_services(settings);
        let services = vec!["image".to_owned(), "volume".to_owned()];
        settings.profile.together = vec![Together { services, because: "they share disks".to_owned() }];
    });
    for scope in [
        "image: A, volume: B",
        "image: A, volume: A | B",
        "image: A, *: B",
        "image: A & B, volume: A ; B",
        "volume: B",
    ] {
        // The second time it comes from memory.
        for _ in 0..2 {
            let answer = front.ask("POST /", &format!("X-Scope: {scope}\r\n"), b"");
            answer.assert_problem(422, "not-together");
            let text = answer.text();
            assert!(text.contains("they share disks") && text.contains("`image` is at A"), "{text}");
        }
    }
    assert_eq!(upstream.connections(), 0, "nothing was asked for");
    // Each would choose by itself.
    let answer = front.ask("GET /", "X-Scope: image: A ; B, volume: A ; B\r\n", b"");
    answer.assert_problem(422, "not-together");
    for scope in ["image: A, volume: A", "image: A, volume: within(5s, A)", "image: A", "volume: B", "*: A"] {
        assert_eq!(front.ask("GET /", &format!("X-Scope: {scope}\r\n"), b"").status(), 200, "{scope}");
    }
}

#[test]
fn a_default_scope_is_read_like_a_clients() {
    let upstream = Upstream::fine();
    for (scope, status) in [("imgae: A", 400), ("image: A", 200)] {
        let front = Front::tuned(Way::Local, upstream.address(), |settings| {
            with_services(settings);
            let scope = settings.dialect.scope(scope).unwrap();
            settings.services.get_mut("image").unwrap().scope = Some(scope.into());
        });
        assert_eq!(front.ask("GET /", "", b"").status(), status, "{scope}");
    }
}

#[test]
fn a_site_that_knows_more_services_is_not_refused() {
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Peer, upstream.address(), with_services);
    let mut client = front.connect();
    client.send("GET / HTTP/1.1\r\nHost: x\r\nX-Scope: image: B, volume: B\r\n\r\n");
    assert_eq!(client.answer().text(), "fine");

    let front = Front::tuned(Way::Local, upstream.address(), with_services);
    let mut service = Conn::to(front.internal());
    service.send("GET / HTTP/1.1\r\nHost: x\r\nbaggage: scope=image%3A%20A%2C%20dns%3A%20B\r\n\r\n");
    assert_eq!(service.answer().text(), "fine", "handed on by a service, perhaps from another site");
    service.send("GET / HTTP/1.1\r\nHost: x\r\nX-Scope: dns: B\r\n\r\n");
    service.answer().assert_problem(400, "bad-scope");
}

#[test]
fn an_error_is_told_as_the_clients_of_an_application_read_it() {
    let upstream = Upstream::fine();
    let within = |settings: &mut Settings| {
        settings.profile.problems.within = Some("error".to_owned());
    };
    let here = Front::tuned(Way::Local, upstream.address(), within);
    let misspelt = here.ask("GET /", "X-Scope: image: Nowhere\r\n", b"");
    // What the mesh of another site says is told likewise.
    let there = Front::tuned(Way::Peer, nowhere(), within);
    let unreachable = there.ask("GET /", "", b"");
    for (answer, status, kind) in [(misspelt, 400, "bad-scope"), (unreachable, 503, "unreachable")] {
        let is = (answer.status(), answer.field("content-type"));
        assert_eq!(is, (status, Some("application/json".to_owned())));
        let said: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
        let error = &said["error"];
        assert_eq!(said.as_object().unwrap().len(), 1);
        assert_eq!(
            (&error["code"], &error["type"]),
            (&status.into(), &format!("urn:archipel:{kind}").into())
        );
        assert!(error["message"].as_str().unwrap().contains(error["title"].as_str().unwrap()), "{error}");
    }
}
