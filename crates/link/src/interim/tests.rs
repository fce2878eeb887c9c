//! Whatever pieces a stream comes in: HTTP/2's frames arrive as they were, and what was said stands between them.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use http::{HeaderMap, HeaderValue, StatusCode};
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Ear, Ears, Hearing, Mouth, Saying};

/// Takes so many bytes at a time, and refuses now and then; gives them out the same way.
#[derive(Clone, Default)]
struct Pipe(Rc<RefCell<Wire>>);

#[derive(Default)]
struct Wire {
    bytes: VecDeque<u8>,
    pieces: VecDeque<usize>,
}

impl Pipe {
    fn piece(&self) -> usize {
        let mut wire = self.0.borrow_mut();
        let piece = wire.pieces.pop_front().unwrap_or(1);
        wire.pieces.push_back(piece);
        piece
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let here = self.piece().min(bytes.len());
        if here == 0 {
            return Poll::Pending;
        }
        self.0.borrow_mut().bytes.extend(&bytes[..here]);
        Poll::Ready(Ok(here))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write(context, &slices.iter().flat_map(|slice| slice.iter().copied()).collect::<Vec<_>>())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for Pipe {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let here = self.piece().clamp(1, buffer.remaining());
        let mut wire = self.0.borrow_mut();
        for _ in 0..here.min(wire.bytes.len()) {
            buffer.put_slice(&[wire.bytes.pop_front().unwrap()]);
        }
        Poll::Ready(Ok(()))
    }
}

/// A frame of this type, and whether another may stand after it.
fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
    let mut frame = u32::try_from(length).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags, 0, 0, 0, 1]);
    frame.extend((0..length).map(|at| u8::try_from(at % 251).unwrap()));
    frame
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    let data = (0usize..40).prop_map(|length| frame(0, 0, length));
    let long = (1000usize..20_000).prop_map(|length| frame(0, 1, length));
    let other = (any::<u8>(), 0usize..20).prop_map(|(kind, length)| frame((kind % 9) | 2, 4, length));
    let headers = (0usize..20, 0usize..3).prop_map(|(length, more)| {
        let mut headers = frame(1, if more == 0 { 4 } else { 0 }, length);
        for left in (0..more).rev() {
            headers.extend(frame(9, if left == 0 { 4 } else { 0 }, length));
        }
        headers
    });
    prop_oneof![4 => data, 1 => long, 2 => other, 3 => headers]
}

fn fields(number: usize) -> HeaderMap {
    let mut fields = HeaderMap::new();
    fields.insert("link", HeaderValue::from(number));
    fields.append("link", HeaderValue::from_static(""));
    fields
}

proptest! {
    /// Hints are said while frames are written, `said` of them before each group of frames.
    #[test]
    fn frames_arrive_as_they_were_and_each_hint_before_what_was_written_after_it(
        groups in prop::collection::vec((frames(), 0usize..3), 1..12),
        pieces in prop::collection::vec(0usize..3000, 1..6).prop_filter("some bytes", |all| all.iter().any(|n| *n > 0)),
        rooms in prop::collection::vec(1usize..5000, 1..6),
        vectored in any::<bool>(),
    ) {
        let pipe = Pipe::default();
        pipe.0.borrow_mut().pieces = pieces.into();
        let mut context = Context::from_waker(Waker::noop());
        let (mouth, ears) = (Mouth::default(), Ears::default());
        let heard = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&heard);
        let ear: Ear = Arc::new(move |status, fields: &HeaderMap| {
            let values: Vec<_> = fields.get_all("link").iter().cloned().collect();
            log.lock().unwrap().push((status, values));
        });
        let listening = ears.listen(&ear);
        let speaker = mouth.speaker(listening.number());
        let mut saying = Saying::new(pipe.clone(), &mouth);
        let (mut sent, mut count, mut marks) = (Vec::new(), 0, Vec::new());
        for (group, said) in &groups {
            for _ in 0..*said {
                prop_assert!(speaker.say(StatusCode::EARLY_HINTS, &fields(count)));
                count += 1;
            }
            marks.push((sent.len(), count));
            sent.extend_from_slice(group);
            let mut left = &group[..];
            while !left.is_empty() {
                let (one, two) = left.split_at(left.len() / 2);
                let written = if vectored {
                    let slices = [IoSlice::new(one), IoSlice::new(two)];
                    Pin::new(&mut saying).poll_write_vectored(&mut context, &slices)
                } else {
                    Pin::new(&mut saying).poll_write(&mut context, left)
                };
                if let Poll::Ready(written) = written {
                    left = &left[written.unwrap()..];
                }
            }
        }
        while Pin::new(&mut saying).poll_flush(&mut context).is_pending() {}

        let mut hearing = Hearing::new(pipe, &ears);
        let (mut seen, mut rooms) = (Vec::new(), rooms.iter().cycle());
        loop {
            let mut space = vec![0; *rooms.next().unwrap()];
            let mut buffer = ReadBuf::new(&mut space);
            prop_assert!(Pin::new(&mut hearing).poll_read(&mut context, &mut buffer).is_ready());
            if buffer.filled().is_empty() {
                break;
            }
            seen.extend_from_slice(buffer.filled());
            for (place, said) in &marks {
                // A group's first byte is not seen before all that was said before it was heard.
                prop_assert!(seen.len() <= *place || heard.lock().unwrap().len() >= *said);
            }
        }
        prop_assert_eq!(seen, sent);
        let expected: Vec<_> = (0..count)
            .map(|at| (StatusCode::EARLY_HINTS, vec![HeaderValue::from(at), HeaderValue::from_static("")]))
            .collect();
        prop_assert_eq!(&*heard.lock().unwrap(), &expected);
    }

    /// What a peer sends is never more than advice.
    #[test]
    fn no_payload_is_too_odd(payload in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Some((number, status, fields)) = super::frame::read(&payload) {
            prop_assert!(status.is_informational());
            let again = super::frame::write(number, status, &fields).unwrap();
            let read = super::frame::read(&again[super::frame::HEAD_BYTES..]);
            prop_assert_eq!(read, Some((number, status, fields)));
        }
    }
}

#[test]
fn what_switches_protocols_is_not_heard() {
    let read = |status| {
        let frame = super::frame::write(7, status, &fields(1)).unwrap();
        super::frame::read(&frame[super::frame::HEAD_BYTES..])
    };
    assert!(read(StatusCode::EARLY_HINTS).is_some());
    assert_eq!(read(StatusCode::SWITCHING_PROTOCOLS), None);
    assert_eq!(read(StatusCode::OK), None);
}
