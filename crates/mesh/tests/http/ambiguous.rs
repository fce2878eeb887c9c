//! Never two readings: the guard's corpus, through a whole mesh to a service that reads strictly.
//!
//! Each case is refused, or the service reads exactly what was meant; on the link's HTTP/1 lane too, from a
//! peer whose identity is good and whose HTTP is not.

#[path = "../../../http1guard/tests/corpus/mod.rs"]
mod corpus;

use std::sync::Arc;

use corpus::Case;
use http1guard::Rule;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};

use crate::harness::{Conn, Front, Message, Upstream, Way};
use crate::tls;

/// For one hop, or rewritten for the next: not compared.
const REWRITTEN: [&str; 5] = ["connection", "upgrade", "transfer-encoding", "content-length", "trailer"];

/// Returns every answer until the end, or so many.
fn answers(client: &mut Conn, most: usize) -> Vec<Message> {
    let mut answers = Vec::new();
    while answers.len() < most
        && let Some(head) = client.head()
    {
        if head.status() != 100 {
            let length = head.field("content-length").map_or(0, |length| length.parse().unwrap());
            answers.push(Message { body: client.exactly(length), ..head });
        }
    }
    answers
}

/// `METHOD target "body"` of the corpus' notation, in the form that a service gets.
fn meant(reading: &str) -> String {
    let (line, rest) = reading.split_once(" [").unwrap();
    let (method, target) = line.split_once(' ').unwrap();
    let target = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => &rest[rest.find('/').unwrap()..],
        _ => target,
    };
    let body = rest.split_once("] \"").unwrap().1.rsplit_once("\" [").unwrap().0;
    format!("{method} {target} \"{body}\"")
}

fn read(message: &Message) -> String {
    let line = message.line.strip_suffix(" HTTP/1.1").unwrap();
    format!("{} \"{}\"", line.as_bytes().escape_ascii(), message.body.escape_ascii())
}

/// Every field that was meant for the service is there, with its value.
fn assert_fields(case: &str, reading: &str, message: &Message) {
    let fields = reading.split_once(" [").unwrap().1.split_once("] \"").unwrap().0;
    for field in fields.split("; ").filter(|field| !field.is_empty()) {
        let (name, value) = field.split_once(": ").unwrap();
        let name = name.replace("\\'", "'");
        let latin = |text: &String| text.chars().map(|c| u8::try_from(c).unwrap()).collect::<Vec<u8>>();
        let there = message.fields.iter().any(|(seen, text)| {
            let text = latin(text).escape_ascii().to_string();
            // In an absolute target the same host may be written in other letters.
            *seen == name && (text == value || (name == "host" && text.eq_ignore_ascii_case(value)))
        });
        assert!(there || REWRITTEN.contains(&&*name), "{case}: {field} is not in {message:?}");
    }
}

fn check(case: &Case, answers: &[Message], seen: &[Message]) {
    let about = format!("{}: {} -> {answers:?}", case.name, case.bytes.escape_ascii());
    // A CONNECT is answered by the mesh itself.
    let forward: Vec<&&str> = case.expect.forward.iter().filter(|f| !f.starts_with("CONNECT ")).collect();
    let expected: Vec<String> = forward.iter().map(|reading| meant(reading)).collect();
    assert_eq!(seen.iter().map(read).collect::<Vec<_>>(), expected, "{about}");
    for (reading, message) in forward.iter().zip(seen) {
        assert_fields(case.name, reading, message);
    }
    let good = answers.iter().filter(|answer| answer.status() == 200).count();
    assert_eq!(good, expected.len(), "{about}");
    if let Some((_, rule)) = case.expect.refuse {
        let last = answers.last().unwrap_or_else(|| panic!("no refusal: {about}"));
        assert_eq!(last.status(), rule.status(), "{about}");
        assert_eq!(answers.len(), case.expect.forward.len() + 1, "{about}");
    }
}

#[test]
fn no_case_has_two_readings_between_client_and_service() {
    let cases = corpus::all();
    assert!(cases.len() > 150, "{}", cases.len());
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let mut before = 0;
    // A listener speaks HTTP/2 to who starts so.
    for case in cases.iter().filter(|case| case.name != "the preface of http 2") {
        let mut client = front.connect();
        client.send(&case.bytes);
        client.end();
        let answers = answers(&mut client, usize::MAX);
        let seen = upstream.seen();
        check(case, &answers, &seen[before..]);
        before = seen.len();
    }
}

#[test]
fn no_case_has_two_readings_on_the_link() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Peer, &upstream);
    let (address, identity) = front.link.as_ref().unwrap();
    let config = peer(identity);
    let mut before = 0;
    for mut case in corpus::all() {
        // Larger heads are allowed between sites; and a body must stay as long as it says.
        let large = matches!(case.expect.refuse, Some((_, Rule::TooManyFields | Rule::HeadTooLarge)));
        if large || case.name == "101 trailers" || case.name.contains("looks like a request") {
            continue;
        }
        case.bytes = as_leg(&case.bytes);
        let mut client = tls::connect(*address, &config);
        client.send(&case.bytes);
        // A peer that closes its side has gone, with its request: it waits. Who is refused is closed.
        let most = if case.expect.refuse.is_some() { usize::MAX } else { case.expect.forward.len() };
        let answers = answers(&mut client, most);
        let seen = upstream.seen();
        if case.name.contains("1.0") {
            // Peers speak HTTP/1.1: without the leg's headers it is a 400.
            assert_eq!(seen.len(), before, "{}", case.name);
            assert_eq!(answers[0].status(), 400, "{}", case.name);
            continue;
        }
        check(&case, &answers, &seen[before..]);
        before = seen.len();
    }
}

/// The same with what a peer says of each request. Fields come after the request line, so that whatever is
/// wrong with the rest stays wrong.
fn as_leg(bytes: &[u8]) -> Vec<u8> {
    const LINE_END: &[u8] = b" HTTP/1.1\r\n";
    const LEG: &[u8] = b"archipel-service: image\r\narchipel-scope: image: B\r\n\
                         archipel-entered: A\r\narchipel-hops: 0\r\n";
    let mut leg = Vec::new();
    for (index, byte) in bytes.iter().enumerate() {
        leg.push(*byte);
        if bytes[..=index].ends_with(LINE_END) {
            leg.extend_from_slice(LEG);
        }
    }
    leg
}

/// What a peer uses that has a good identity, and speaks HTTP/1.
fn peer(identity: &link::Identity) -> Arc<ClientConfig> {
    let files = tempfile::tempdir().unwrap();
    identity.save(files.path()).unwrap();
    let certificate = CertificateDer::from_pem_file(files.path().join("site.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(files.path().join("site-key.pem")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone))
        .with_client_auth_cert(vec![certificate], key)
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Arc::new(config)
}

/// Who the other side is does not matter to this peer.
#[derive(Debug)]
struct Anyone;

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// What nobody reads makes the system reset the connection, and answers on their way are lost with it.
#[test]
fn a_client_that_is_still_sending_when_it_is_refused_gets_all_that_was_answered() {
    let body = "x".repeat(2 << 20);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let upstream = Upstream::answering(&answer);
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    client.send(front.head("GET /", "") + "GET /\r\n");
    let head = client.head().unwrap();
    assert_eq!(head.status(), 200);
    let mut left = body.len();
    while left > 0 {
        // As soon as it is refused, nobody wants this.
        let _ = client.push(b"x");
        let here = left.min(16 << 10);
        assert!(client.exactly(here).iter().all(|byte| *byte == b'x'));
        left -= here;
    }
    assert_eq!(client.answer().status(), 400);
}

#[test]
fn a_refused_client_that_does_not_stop_sending_is_not_listened_to_for_long() {
    const MOST: usize = 64 << 20;
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    client.send("GET /\r\n");
    assert_eq!(client.answer().status(), 400);
    let (piece, mut sent) = (vec![b'x'; 64 << 10], 0);
    while sent < MOST
        && let Ok(count) = client.push(&piece)
    {
        sent += count;
    }
    assert!(sent < MOST, "it takes all of it");
}
