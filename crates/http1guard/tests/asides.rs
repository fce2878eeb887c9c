//! What is said aside stands before its own answer and after the one before it, never within either.

// A test may panic, and so may what helps it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use http1guard::{Aside, Guarded, Limits, Speaker};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::task::yield_now;

fn hint(request: usize, number: usize) -> String {
    format!("HTTP/1.1 103 Early Hints\r\nlink: {request}-{number}\r\n\r\n")
}

/// One request: how many hints, how often to wait between them, and the length of the answer.
type Asked = (usize, usize, usize);

fn body_of(request: usize, length: usize) -> String {
    char::from(b'a' + u8::try_from(request % 26).unwrap()).to_string().repeat(length)
}

/// Sends all requests at once, over a pipe of so many bytes, and returns everything that came back.
async fn serve(width: usize, asked: Vec<Asked>) -> String {
    let (client, server) = duplex(width);
    let (mut reader, mut writer) = tokio::io::split(client);
    let aside = Aside::new();
    let io = TokioIo::new(Guarded::new(server, Limits::default()).with_aside(aside.clone()));
    let requests = (0..asked.len()).map(|number| format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
    let requests = requests.collect::<Vec<_>>().concat();
    // Kept to the end: what they say after their turn must not be heard.
    let late: Arc<Mutex<Vec<Speaker>>> = Arc::default();
    let service = service_fn(move |request: Request<Incoming>| {
        let number: usize = request.uri().path()[1..].parse().unwrap();
        let (hints, waits, length) = asked[number];
        let (turn, late) = (aside.turn(), Arc::clone(&late));
        async move {
            for speaker in late.lock().unwrap().iter() {
                assert!(!speaker.say(Bytes::from_static(b"too late")));
            }
            let speaker = turn.speaker().clone();
            let other = tokio::spawn(async move {
                for hint_number in 0..hints {
                    for _ in 0..waits {
                        yield_now().await;
                    }
                    assert!(speaker.say(hint(number, hint_number).into()));
                }
                speaker
            });
            let speaker = other.await.unwrap();
            turn.said().await;
            late.lock().unwrap().push(speaker);
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(body_of(number, length)))))
        }
    });
    let connection =
        http1::Builder::new().half_close(true).auto_date_header(false).serve_connection(io, service);
    let write = async {
        writer.write_all(requests.as_bytes()).await.unwrap();
        writer.shutdown().await.unwrap();
    };
    let read = async {
        let mut answers = String::new();
        reader.read_to_string(&mut answers).await.unwrap();
        answers
    };
    let (outcome, (), answers) = tokio::join!(connection, write, read);
    outcome.unwrap();
    answers
}

proptest! {
    #[test]
    fn every_hint_is_where_it_belongs_whatever_the_client_reads_at_once(
        width in 1usize..200,
        asked in prop::collection::vec((0usize..4, 0usize..4, 0usize..100), 1..6),
    ) {
        let expected: Vec<String> = asked.iter().enumerate().map(|(number, (hints, _, length))| {
            let hints: String = (0..*hints).map(|hint_number| hint(number, hint_number)).collect();
            let body = body_of(number, *length);
            format!("{hints}HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}")
        }).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        prop_assert_eq!(runtime.block_on(serve(width, asked)), expected.concat());
    }
}

#[test]
fn what_may_wait_is_bounded_and_a_new_turn_starts_afresh() {
    let aside = Aside::new();
    for _ in 0..3 {
        let turn = aside.turn();
        let speaker = turn.speaker().clone();
        let heard = (0..10_000).filter(|_| speaker.say(Bytes::from_static(b"x"))).count();
        assert!((10..=1000).contains(&heard), "{heard}");
        drop(turn);
        assert!(!speaker.say(Bytes::from_static(b"x")));
        let turn = aside.turn();
        assert!(!turn.speaker().say(Bytes::from(vec![0; 1 << 20])), "too large by itself");
    }
}

#[tokio::test]
async fn a_turn_that_is_given_up_takes_its_words_with_it() {
    let (mut client, server) = duplex(10);
    let aside = Aside::new();
    let mut guarded = Guarded::new(server, Limits::default()).with_aside(aside.clone());
    let turn = aside.turn();
    for hint in ["0123456789abcdef", "never"] {
        assert!(turn.speaker().say(Bytes::from_static(hint.as_bytes())));
    }
    // The pipe holds ten bytes: the first is begun.
    assert!(tokio::select! { biased; _ = guarded.flush() => false, () = yield_now() => true });
    drop(turn);
    let (written, read) = tokio::join!(
        async {
            guarded.write_all(b" answer").await.unwrap();
            guarded.flush().await.unwrap();
            drop(guarded);
        },
        async {
            let mut read = String::new();
            client.read_to_string(&mut read).await.unwrap();
            read
        }
    );
    assert_eq!(((), read.as_str()), (written, "0123456789abcdef answer"));
}
