//! HTTP/2 frames by hand, as no client sends them: each flood ends, costs the service little, and others are served.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use crate::harness::{Front, STUCK, Upstream, Way};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// A field that no table keeps.
fn field(name: &str, value: &str) -> Vec<u8> {
    let mut field = vec![0];
    for text in [name, value] {
        field.push(u8::try_from(text.len()).unwrap());
        field.extend_from_slice(text.as_bytes());
    }
    field
}

/// `GET /` to some host.
fn get() -> Vec<u8> {
    // `:method: GET`, `:scheme: http` and `:path: /` are known by number.
    [vec![0x82, 0x86, 0x84], field(":authority", "service")].concat()
}

/// Says all this to the site, and what came back until it closed the connection: the kind of each frame, with its payload.
fn flood(
    address: SocketAddr,
    pieces: impl IntoIterator<Item = Vec<u8>> + Send + 'static,
) -> Vec<(u8, Vec<u8>)> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(STUCK)).unwrap();
    let mut writing = stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        let opening = [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat();
        let mut written = 0_usize;
        for piece in std::iter::once(opening).chain(pieces) {
            if writing.write_all(&piece).is_err() {
                break;
            }
            written += piece.len();
        }
        let _ = writing.shutdown(Shutdown::Write);
        written
    });
    let mut came = Vec::new();
    // It may be reset with something unread.
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        came.extend_from_slice(&buffer[..count]);
    }
    writer.join().unwrap();
    frames(&came)
}

fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some(head) = bytes.first_chunk::<9>() {
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let Some(payload) = bytes.get(9..9 + length) else { break };
        frames.push((head[3], payload.to_vec()));
        bytes = &bytes[9 + length..];
    }
    frames
}

/// Why the site ended the connection, if it said so.
fn reason(frames: &[(u8, Vec<u8>)]) -> Option<u32> {
    let goaway = frames.iter().find(|(kind, _)| *kind == GOAWAY)?;
    Some(u32::from_be_bytes(goaway.1.get(4..8)?.try_into().ok()?))
}

const NO_ERROR: u32 = 0;
const ENHANCE_YOUR_CALM: u32 = 11;

#[test]
fn streams_that_are_opened_and_reset_at_once_end_the_connection_and_spare_the_service() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let streams = (0..20_000_u32).map(|number| {
        let stream = 2 * number + 1;
        let mut both = frame(HEADERS, END_HEADERS | END_STREAM, stream, &get());
        both.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        both
    });
    let came = flood(front.address, streams);
    assert_eq!(reason(&came), Some(ENHANCE_YOUR_CALM));
    let reached = upstream.seen().len();
    assert!(reached < 2_000, "{reached} of 20,000 reached the service");
    assert_eq!(front.ask("GET /", "", b"").status(), 200);
    assert_eq!(front.in_flight(), 0);
}

#[test]
fn a_head_that_goes_on_for_ever_ends_the_connection_before_it_is_kept() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    let first = frame(HEADERS, END_STREAM, 1, &get());
    let more = (0..100_000)
        .map(|number: u32| frame(CONTINUATION, 0, 1, &field("x", &number.to_string().repeat(20))));
    let came = flood(front.address, std::iter::once(first).chain(more));
    assert!(came.iter().all(|(kind, _)| *kind != HEADERS), "nothing is answered before a head has ended");
    assert_ne!(reason(&came), Some(NO_ERROR));
    assert!(upstream.seen().is_empty());
    assert_eq!(front.ask("GET /", "", b"").status(), 200);
}

#[test]
fn a_small_head_that_names_much_ends_the_connection() {
    let upstream = Upstream::fine();
    let front =
        Front::tuned(Way::Local, upstream.address(), |settings| settings.limits.header_bytes = 16 << 10);
    // One field that the table keeps, then named again and again, in a byte each.
    let mut bomb = get();
    bomb.push(0x40);
    bomb.extend_from_slice(&field("x", &"y".repeat(100))[1..]);
    bomb.extend(std::iter::repeat_n(0xbe, 10_000));
    let came = flood(front.address, [frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb)]);
    assert_eq!(reason(&came), Some(ENHANCE_YOUR_CALM));
    assert!(upstream.seen().is_empty());
    assert_eq!(front.ask("GET /", "", b"").status(), 200);
}

#[test]
fn questions_whose_answers_nobody_reads_are_not_kept_without_end() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    for kind in [PING, SETTINGS] {
        let mut stream = TcpStream::connect(front.address).unwrap();
        stream.set_write_timeout(Some(STUCK / 4)).unwrap();
        stream.write_all(&[PREFACE, &frame(SETTINGS, 0, 0, &[])].concat()).unwrap();
        let question = if kind == PING { frame(PING, 0, 0, &[7; 8]) } else { frame(SETTINGS, 0, 0, &[]) };
        let many = question.repeat(4096);
        // Some megabytes fit into the buffers of the machine. After that the site reads no more, or ends it.
        let mut taken = 0;
        while taken < 64 << 20 {
            match stream.write(&many) {
                Ok(count) => taken += count,
                Err(_) => break,
            }
        }
        assert!(taken < 64 << 20, "{kind}: all was taken");
        assert_eq!(front.ask("GET /", "", b"").status(), 200);
    }
}
