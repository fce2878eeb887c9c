//! HTTP/2's frames, as far as one must know them to stand between two, and the one of the link's own.

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// The bytes before a frame's payload.
pub(super) const HEAD_BYTES: usize = 9;

/// The longest payload that any peer must take (RFC 9113, 4.2). A longer interim answer is dropped.
pub(super) const MOST_BYTES: usize = 16 << 10;

/// The type of the link's own frames.
const OWN: u8 = 0xa7;

const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// What a frame says of itself.
#[derive(Clone, Copy)]
pub(super) struct Head {
    /// Of its payload.
    pub(super) length: usize,
    kind: u8,
    flags: u8,
}

impl Head {
    /// The head that begins here, if it is all here.
    pub(super) fn read(bytes: &[u8]) -> Option<Head> {
        let [high, middle, low, kind, flags, _, _, _, _] = *bytes.first_chunk::<HEAD_BYTES>()?;
        let length = u32::from_be_bytes([0, high, middle, low]);
        Some(Head { length: usize::try_from(length).ok()?, kind, flags })
    }

    pub(super) fn is_own(self) -> bool {
        self.kind == OWN && self.length <= MOST_BYTES
    }

    /// Whether the next frame must be the rest of the same headers, if this one tells.
    fn goes_on(self) -> Option<bool> {
        let headers = matches!(self.kind, HEADERS | PUSH_PROMISE | CONTINUATION);
        headers.then_some(self.flags & END_HEADERS == 0)
    }
}

/// Where in the frames that are written a stream is.
#[derive(Clone, Default)]
pub(super) struct Place {
    head: [u8; HEAD_BYTES],
    /// So much of a head is there.
    known: usize,
    /// So much of a payload is to come.
    left: usize,
    within_headers: bool,
}

impl Place {
    /// Whether another frame may stand here.
    pub(super) fn is_gap(&self) -> bool {
        self.known == 0 && self.left == 0 && !self.within_headers
    }

    /// How many of these bytes there are up to the next gap.
    pub(super) fn up_to_gap(&self, bytes: &[u8]) -> usize {
        let (mut place, mut rest) = (self.clone(), bytes);
        while !rest.is_empty() {
            rest = place.step(rest);
            if place.is_gap() {
                break;
            }
        }
        bytes.len() - rest.len()
    }

    /// These were written.
    pub(super) fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = self.step(bytes);
        }
    }

    /// Goes to the end of a head, or of a payload, or of the bytes. Returns the rest of these.
    fn step<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        if self.left > 0 {
            let here = self.left.min(bytes.len());
            self.left -= here;
            return bytes.get(here..).unwrap_or_default();
        }
        let (here, rest) = bytes.split_at((HEAD_BYTES - self.known).min(bytes.len()));
        for (to, from) in self.head.iter_mut().skip(self.known).zip(here) {
            *to = *from;
        }
        self.known += here.len();
        if self.known == HEAD_BYTES
            && let Some(head) = Head::read(&self.head)
        {
            self.known = 0;
            self.left = head.length;
            self.within_headers = head.goes_on().unwrap_or(self.within_headers);
        }
        rest
    }
}

/// An interim answer to the request of this number, as a frame, if it is short enough.
pub(super) fn write(number: u32, status: StatusCode, fields: &HeaderMap) -> Option<Bytes> {
    let mut frame = BytesMut::with_capacity(256);
    frame.put_slice(&[0, 0, 0, OWN, 0, 0, 0, 0, 0]);
    frame.put_u32(number);
    frame.put_u16(status.as_u16());
    for (name, value) in fields {
        for text in [name.as_str().as_bytes(), value.as_bytes()] {
            frame.put_u16(u16::try_from(text.len()).ok()?);
            frame.put_slice(text);
        }
    }
    let length = frame.len() - HEAD_BYTES;
    let [_, bytes @ ..] = u32::try_from(length).ok().filter(|_| length <= MOST_BYTES)?.to_be_bytes();
    frame.get_mut(..bytes.len())?.copy_from_slice(&bytes);
    Some(frame.freeze())
}

/// What the payload of one of the link's own frames says, and to which request.
pub(super) fn read(mut payload: &[u8]) -> Option<(u32, StatusCode, HeaderMap)> {
    let number = u32::from_be_bytes(*payload.split_off(..4)?.first_chunk()?);
    let status = StatusCode::from_u16(u16::from_be_bytes(*payload.split_off(..2)?.first_chunk()?)).ok()?;
    let mut fields = HeaderMap::new();
    while !payload.is_empty() {
        let name = HeaderName::from_bytes(text(&mut payload)?).ok()?;
        fields.try_append(name, HeaderValue::from_bytes(text(&mut payload)?).ok()?).ok()?;
    }
    // What switches protocols is an answer, and no hint.
    let is_interim = status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS;
    is_interim.then_some((number, status, fields))
}

fn text<'p>(payload: &mut &'p [u8]) -> Option<&'p [u8]> {
    let length = u16::from_be_bytes(*payload.split_off(..2)?.first_chunk()?);
    payload.split_off(..usize::from(length))
}
