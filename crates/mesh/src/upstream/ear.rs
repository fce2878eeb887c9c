//! Interim answers, taken out of what a service sends before hyper reads it.
//!
//! hyper can call back for each, but registering that takes 850 instructions of every request, whether one
//! comes or not; this takes 150, the client's side included. There are no two readings: what is taken out hyper
//! does not see, and what is not plain enough to be is hyper's to judge.
//!
//! `100` and `101` are hyper's in any case: the one it waits for, the other is final.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use http::StatusCode;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::io::{AsyncRead, ReadBuf};

use crate::headers::HEADERS_ON_STACK;
use crate::interim::{MOST_BYTES, Speaker};

const VERSION: &[u8] = b"HTTP/1.1 ";
const END: &[u8] = b"\r\n\r\n";

/// Who hears the interim answers to the request that a connection carries. Its copies are the same.
#[derive(Clone, Default)]
pub(super) struct Ear(Arc<Shared>);

/// Only one core uses it; hyper wants an upgraded connection to be `Send`.
#[derive(Default)]
struct Shared {
    listening: AtomicBool,
    speaker: Mutex<Option<Speaker>>,
}

impl Ear {
    /// A request is about to be sent: what comes next is the start of an answer.
    pub(super) fn listen(&self, speaker: Option<&Speaker>) {
        self.0.listening.store(speaker.is_some(), Ordering::Relaxed);
        if let Some(speaker) = speaker {
            *self.0.speaker.lock().unwrap_or_else(PoisonError::into_inner) = Some(speaker.clone());
        }
    }

    fn is_listening(&self) -> bool {
        self.0.listening.load(Ordering::Relaxed)
    }

    /// The final answer has begun. The speaker stays until the next, which takes nothing: its turn is over.
    fn stop(&self) {
        self.0.listening.store(false, Ordering::Relaxed);
    }

    fn hear(&self, status: StatusCode, fields: &HeaderMap) {
        if let Some(speaker) = &*self.0.speaker.lock().unwrap_or_else(PoisonError::into_inner) {
            speaker.say(status, fields);
        }
    }
}

/// What came from the service and hyper has not seen.
#[derive(Default)]
pub(super) struct Unread {
    /// For hyper.
    passed: BytesMut,
    /// The start of an answer, of which it is not known yet what it is.
    held: BytesMut,
    /// So many bytes of it have no end of a head.
    searched: usize,
}

impl Unread {
    /// Reads for hyper.
    pub(super) fn poll_read<IO: AsyncRead + Unpin>(
        &mut self,
        io: &mut IO,
        ear: &Ear,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.passed.is_empty() {
                let here = self.passed.len().min(buf.remaining());
                buf.put_slice(self.passed.get(..here).unwrap_or_default());
                self.passed.advance(here);
                return Poll::Ready(Ok(()));
            }
            let before = buf.filled().len();
            ready!(Pin::new(&mut *io).poll_read(cx, buf))?;
            if !ear.is_listening() {
                return Poll::Ready(Ok(()));
            }
            let fresh = buf.filled().get(before..).unwrap_or_default();
            if self.held.is_empty() && (fresh.is_empty() || is_final(fresh)) {
                ear.stop();
                return Poll::Ready(Ok(()));
            }
            if fresh.is_empty() {
                // Cut in the middle: hyper says so.
                ear.stop();
                self.passed = std::mem::take(&mut self.held);
                continue;
            }
            self.searched = self.held.len().saturating_sub(END.len() - 1);
            self.held.extend_from_slice(fresh);
            buf.set_filled(before);
            self.judge(ear);
        }
    }

    /// Takes out the interim answers that came whole.
    fn judge(&mut self, ear: &Ear) {
        loop {
            match read(&self.held, std::mem::take(&mut self.searched)) {
                Read::More if self.held.len() <= MOST_BYTES => return,
                // hyper drops what is longer.
                Read::More | Read::Other => {
                    ear.stop();
                    self.passed.unsplit(std::mem::take(&mut self.held));
                    return;
                }
                Read::Interim(length, StatusCode::CONTINUE, _) => {
                    self.passed.unsplit(self.held.split_to(length));
                }
                Read::Interim(length, status, fields) => {
                    self.held.advance(length);
                    ear.hear(status, &fields);
                }
            }
            if self.held.is_empty() {
                self.held = BytesMut::new(); // gives its memory back
                return;
            }
        }
    }
}

/// The usual case, at a glance.
fn is_final(start: &[u8]) -> bool {
    start.starts_with(VERSION) && start.get(VERSION.len()).is_some_and(|digit| *digit != b'1')
}

enum Read {
    /// It may become an interim answer.
    More,
    /// Something else, or nothing that is plain.
    Other,
    /// One of so many bytes.
    Interim(usize, StatusCode, HeaderMap),
}

/// The interim answer that is these bytes, if it is plain.
pub(crate) fn interim(bytes: &[u8]) -> Option<(StatusCode, HeaderMap)> {
    match read(bytes, 0) {
        Read::Interim(length, status, fields) if length == bytes.len() => Some((status, fields)),
        _ => None,
    }
}

fn read(bytes: &[u8], searched: usize) -> Read {
    let digits = bytes.get(VERSION.len()..).unwrap_or_default();
    if !VERSION.starts_with(bytes) && !bytes.starts_with(VERSION)
        || digits.first().is_some_and(|d| *d != b'1')
    {
        return Read::Other;
    }
    // Judged by its status before its end: a final answer never waits here.
    match digits.first_chunk::<3>() {
        None => return Read::More,
        Some(b"101") => return Read::Other,
        Some(digits) if !digits.iter().all(u8::is_ascii_digit) => return Read::Other,
        Some(_) => {}
    }
    let unsearched = bytes.get(searched..).unwrap_or_default();
    let Some(end) = unsearched.windows(END.len()).position(|here| here == END).map(|end| searched + end)
    else {
        return Read::More;
    };
    // Its last line keeps its `\r`, as the others do.
    match bytes.get(VERSION.len()..=end).and_then(plain) {
        Some((status, fields)) => Read::Interim(end + END.len(), status, fields),
        None => Read::Other,
    }
}

/// The status and the fields, if every line is as plain as it should be. No name or value has a line's end.
fn plain(head: &[u8]) -> Option<(StatusCode, HeaderMap)> {
    let mut lines = head.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r"));
    let (status, reason) = lines.next()??.split_at_checked(3)?;
    let status = StatusCode::from_bytes(status).ok()?;
    if !(reason.is_empty() || reason.starts_with(b" ")) || HeaderValue::from_bytes(reason).is_err() {
        return None;
    }
    let mut fields = HeaderMap::new();
    for line in lines {
        let line = line?;
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        let value = trimmed(value.get(1..)?);
        let value = HeaderValue::from_bytes(value).ok()?;
        fields.try_append(HeaderName::from_bytes(name).ok()?, value).ok()?;
    }
    // Of more, hyper decides, as it does of final answers.
    (fields.len() <= HEADERS_ON_STACK).then_some((status, fields))
}

/// Without spaces and tabs around it. A CR there is none of them: it makes the line another one for others.
fn trimmed(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use http1guard::Aside;

    use super::*;

    const HINT: &str = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

    /// A service that sends so many bytes at once.
    struct Pieces(VecDeque<Vec<u8>>);

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            buf.put_slice(&self.0.pop_front().unwrap_or_default());
            Poll::Ready(Ok(()))
        }
    }

    /// What hyper sees of these bytes, whatever pieces they come in.
    fn seen(sent: &str) -> String {
        let mut all = Vec::new();
        for size in [1, 2, 3, 7, 60, 1000] {
            let mut io = Pieces(sent.as_bytes().chunks(size).map(<[u8]>::to_vec).collect());
            let (ear, mut unread) = (Ear::default(), Unread::default());
            let turn = Aside::new().turn();
            ear.listen(Some(&Speaker::Http1(turn.speaker().clone())));
            let mut context = Context::from_waker(Waker::noop());
            let mut seen = Vec::new();
            loop {
                let mut space = [0; 1000];
                let mut buf = ReadBuf::new(&mut space);
                let read = unread.poll_read(&mut io, &ear, &mut context, &mut buf);
                assert!(matches!(read, Poll::Ready(Ok(()))));
                if buf.filled().is_empty() {
                    break;
                }
                seen.extend_from_slice(buf.filled());
            }
            assert!(!ear.is_listening() && unread.held.is_empty() && unread.passed.is_empty());
            all.push(String::from_utf8(seen).unwrap());
        }
        all.dedup();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    #[test]
    fn hints_are_taken_out_and_the_answer_is_left_as_it_is() {
        assert_eq!(seen(OK), OK);
        assert_eq!(seen(&[HINT, "HTTP/1.1 199\r\n\r\n", HINT, OK].concat()), OK);
        let go_on = "HTTP/1.1 100 Continue\r\n\r\n";
        assert_eq!(seen(&[HINT, go_on, HINT, OK].concat()), [go_on, OK].concat());
        let body = ["HTTP/1.1 200 OK\r\n\r\n", HINT, HINT].concat();
        assert_eq!(seen(&[HINT, &body].concat()), body, "what looks like one in a body is of the body");
        let switch = ["HTTP/1.1 101 Switching Protocols\r\n\r\n", HINT].concat();
        assert_eq!(seen(&switch), switch);
    }

    #[test]
    fn what_is_not_plain_is_left_to_hyper_with_all_that_follows() {
        for odd in [
            "HTTP/1.1 103 x\nLink: x\r\n\r\n",
            "HTTP/1.1 103 x\r\nLink: x\n\n",
            "HTTP/1.1 103 x\r\nLink: x\r\n folded\r\n\r\n",
            "HTTP/1.1 103 x\r\nLink : x\r\n\r\n",
            "HTTP/1.1 103 x\r\nLink\r\n\r\n",
            "HTTP/1.1 103 x\r\nLink: a\rb\r\n\r\n",
            "HTTP/1.1 103 x\r\nLink: \rb\r\n\r\n",
            "HTTP/1.1 1034 x\r\n\r\n",
            "HTTP/1.1 1x3 x\r\n\r\n",
            "HTTP/1.0 103 x\r\n\r\n",
            "\r\nHTTP/1.1 103 x\r\n\r\n",
            "SSH-2.0\r\n",
            "",
        ] {
            let sent = [odd, HINT, OK].concat();
            let expected = if odd.is_empty() { OK } else { &sent };
            assert_eq!(seen(&sent), expected, "{odd:?}");
        }
        let many = format!("HTTP/1.1 103 x\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_ON_STACK + 1));
        assert_eq!(seen(&[&many, OK].concat()), [&many, OK].concat());
        for cut in (1..HINT.len()).filter_map(|cut| HINT.get(..cut)) {
            assert_eq!(seen(cut), cut, "an answer that was cut is hyper's to report");
        }
    }

    #[test]
    fn a_hint_without_end_is_not_kept() {
        let endless = format!("HTTP/1.1 103 x\r\nLink: {}", "x".repeat(10 * MOST_BYTES));
        assert_eq!(seen(&endless), endless);
    }
}
