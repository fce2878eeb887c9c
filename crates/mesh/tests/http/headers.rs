//! Headers that are for one hop, and headers that only peers may set.

use crate::harness::{Front, Upstream, WAYS, Way};

#[test]
fn what_is_for_one_hop_goes_no_further_in_either_direction() {
    for way in WAYS {
        let upstream = Upstream::answering(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: X-Hop, keep-alive\r\nX-Hop: 1\r\n\
             Keep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nProxy-Connection: x\r\nUpgrade: h2c\r\n\
             X-Kept: 1\r\n\r\nok",
        );
        let front = Front::new(way, &upstream);
        let fields = "Connection: foo , X-Hop\r\nConnection: bar\r\nFoo: 1\r\nX-HOP: 2\r\nBar: 3\r\nBar: 4\r\n\
                      Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\n\
                      TE: gzip;q=0.5\r\nX-Kept: 1\r\nX-Kept: 2\r\nAuthorization: Bearer t\r\n";
        let answer = front.ask("GET /", fields, b"");
        for gone in ["connection", "x-hop", "keep-alive", "proxy-authenticate", "proxy-connection", "upgrade"]
        {
            assert_eq!(answer.field(gone), None, "{way:?}: {gone} of the answer");
        }
        assert_eq!(answer.field("x-kept").as_deref(), Some("1"));
        let request = &upstream.seen()[0];
        for gone in [
            "connection",
            "foo",
            "x-hop",
            "bar",
            "keep-alive",
            "proxy-connection",
            "proxy-authorization",
            "te",
            "upgrade",
            "transfer-encoding",
        ] {
            assert_eq!(request.field(gone), None, "{way:?}: {gone} of the request");
        }
        assert_eq!(request.field("x-kept").as_deref(), Some("1, 2"));
        assert_eq!(request.field("authorization").as_deref(), Some("Bearer t"));
    }
}

#[test]
fn a_sender_cannot_have_framing_or_identity_dropped() {
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::new(way, &upstream);
        let fields = "Connection: Host, Content-Length, Transfer-Encoding, close\r\nContent-Length: 5\r\n";
        assert_eq!(front.ask("POST /", fields, b"hello").status(), 200);
        let request = &upstream.seen()[0];
        assert_eq!(request.body, b"hello", "{way:?}");
        assert_eq!(request.field("host").as_deref(), Some("service"), "{way:?}");
    }
}

#[test]
fn the_wish_for_trailers_is_handed_on() {
    for way in WAYS {
        for fields in ["TE: trailers\r\nConnection: TE\r\n", "TE: gzip, trailers;q=1\r\n", "TE: Trailers\r\n"]
        {
            let upstream = Upstream::fine();
            let front = Front::new(way, &upstream);
            front.ask("GET /", fields, b"");
            let request = &upstream.seen()[0];
            assert_eq!(request.field("te").as_deref(), Some("trailers"), "{way:?}: {fields}");
            // RFC 9110, 10.1.4: the sender of TE names it in Connection.
            let connection = request.field("connection").unwrap_or_default().to_ascii_lowercase();
            assert_eq!(connection, "te", "{way:?}: {fields}");
        }
    }
}

#[test]
fn what_only_peers_may_set_comes_neither_from_clients_nor_from_applications() {
    for way in WAYS {
        let upstream = Upstream::answering(
            "HTTP/1.1 503 No\r\nContent-Length: 0\r\nArchipel-Unsent: 1\r\nARCHIPEL-New: x\r\n\r\n",
        );
        let front = Front::new(way, &upstream);
        let fields = "Archipel-Service: other\r\narchipel-scope: image: X\r\nArchipel-Entered: B\r\n\
                      ARCHIPEL-HOPS: 99\r\nArchipel-Anything: 1\r\nArchipelago: 1\r\n";
        let answer = front.ask("GET /", fields, b"");
        assert_eq!(answer.status(), 503, "{way:?}");
        assert!(!answer.fields.iter().any(|field| field.0.starts_with("archipel-")), "{answer:?}");
        let request = &upstream.seen()[0];
        assert!(!request.fields.iter().any(|field| field.0.starts_with("archipel-")), "{way:?}: {request:?}");
        assert_eq!(request.field("archipelago").as_deref(), Some("1"), "only the prefix is ours");
    }
}

#[test]
fn a_host_is_handed_on_as_the_client_named_it() {
    for way in WAYS {
        let upstream = Upstream::fine();
        let front = Front::new(way, &upstream);
        let mut client = front.connect();
        // The name in an absolute target is the same, or the request is refused: see the corpus.
        client.send(front.head("GET http://service/x?y", ""));
        assert_eq!(client.answer().status(), 200);
        let request = &upstream.seen()[0];
        assert_eq!(request.line, "GET /x?y HTTP/1.1", "{way:?}");
        assert_eq!(request.field("host").as_deref(), Some("service"), "{way:?}");
    }
}

#[test]
fn fields_keep_their_order_and_number_and_odd_bytes() {
    for way in WAYS {
        let upstream = Upstream::answering(
            "HTTP/1.1 200 OK\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Length: 0\r\nX: \u{e9}\r\n\r\n",
        );
        let front = Front::new(way, &upstream);
        let answer = front.ask("GET /", "Cookie: a\r\nCookie: b\r\nX: \u{e9}\r\nEmpty:\r\n", b"");
        let cookies: Vec<_> = answer.fields.iter().filter(|field| field.0 == "set-cookie").collect();
        assert_eq!(cookies.len(), 2, "{way:?}");
        let request = &upstream.seen()[0];
        assert_eq!(request.field("empty").as_deref(), Some(""));
        assert_eq!(request.field("x"), answer.field("x"), "{way:?}");
    }
}

/// The plan is this site: nothing else is on the way.
#[test]
fn what_carried_a_scope_goes_no_further_and_its_key_does() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let hop = "Keep-Alive: x\r\nProxy-Authorization: x\r\nProxy-Connection: x\r\nX-Kept: 1\r\n";
    for (line, fields) in [
        ("GET /x?y", "X-Scope: image: A\r\nX-Scope-Strict: true\r\nbaggage: a=b\r\ntracestate: c=d\r\n"),
        ("GET /_scope/image:%20A/x?y", "baggage: a=b\r\ntracestate: c=d\r\n"),
        ("GET /x?y", "Baggage: a=b,scope=image:%20A\r\nTraceState: archipel=1,c=d\r\n"),
    ] {
        assert_eq!(front.ask(line, &format!("{fields}{hop}"), b"").status(), 200, "{line} {fields}");
        let request = upstream.seen().pop().unwrap();
        assert_eq!(request.line, "GET /x?y HTTP/1.1");
        let gone = ["x-scope", "x-scope-strict", "keep-alive", "proxy-authorization", "proxy-connection"];
        for gone in gone {
            assert_eq!(request.field(gone), None, "{gone} of {line}");
        }
        assert_eq!(request.field("x-kept").as_deref(), Some("1"));
        let (state, baggage) = (request.field("tracestate").unwrap(), request.field("baggage").unwrap());
        assert!(state.starts_with("archipel=") && state.ends_with(",c=d"), "{state}");
        assert_eq!(state.matches("archipel").count(), 1, "{state}");
        assert!(baggage.starts_with("archipel=") && baggage.ends_with(",scope=image:%20A,a=b"), "{baggage}");
        assert_eq!(request.field("traceparent").unwrap().len(), 55);
    }
}
