//! Reading and writing sockets, with a limit on each wait; and how messages are written.

use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tokio::io::AsyncWrite;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::buffers::{Buffer, Buffers};
use crate::alarm::Alarm;

/// A wait's end: what it was for, or that it took too long.
pub(super) fn in_time<T>(
    polled: Poll<io::Result<T>>,
    alarm: &Alarm,
    context: &mut Context<'_>,
) -> Poll<io::Result<T>> {
    if polled.is_pending() && alarm.poll(context).is_ready() {
        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
    }
    polled
}

/// Reads more, before the alarm rings. Zero is the end.
pub(super) async fn fill(read: &mut ReadHalf<'_>, buffer: &mut Buffer, alarm: &Alarm) -> io::Result<usize> {
    poll_fn(|context| in_time(buffer.poll_fill(read, context), alarm, context)).await
}

/// Reads into a buffer that is taken when there may be something for it, and given back if there is not. Who has
/// not asked before only asks.
pub(super) fn poll_first(
    read: &mut ReadHalf<'_>,
    buffers: &Rc<Buffers>,
    asked: &mut bool,
    context: &mut Context<'_>,
) -> Poll<io::Result<(Buffer, usize)>> {
    if !std::mem::replace(asked, true) {
        ready!(read.as_ref().poll_read_ready(context))?;
    }
    let mut buffer = buffers.small();
    let count = ready!(buffer.poll_fill(read, context))?;
    Poll::Ready(Ok((buffer, count)))
}

/// The same, before the alarm rings.
pub(super) async fn first(
    read: &mut ReadHalf<'_>,
    buffers: &Rc<Buffers>,
    asked: &mut bool,
    alarm: &Alarm,
) -> io::Result<(Buffer, usize)> {
    poll_fn(|context| in_time(poll_first(read, buffers, asked, context), alarm, context)).await
}

/// What was tried without waiting, unless it has to be waited for.
pub(super) fn at_once(tried: io::Result<usize>) -> Option<io::Result<usize>> {
    match tried {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        tried => Some(tried),
    }
}

/// Writes some, before the alarm rings.
pub(super) async fn write(write: &mut WriteHalf<'_>, bytes: &[u8], alarm: &Alarm) -> io::Result<usize> {
    // Most often there is room.
    if let Some(written) = at_once(write.try_write(bytes)) {
        return written;
    }
    poll_fn(|context| in_time(Pin::new(&mut *write).poll_write(context, bytes), alarm, context)).await
}

/// Writes all of both; each wait may take so long.
pub(super) async fn write_both(
    write: &mut WriteHalf<'_>,
    mut first: &[u8],
    mut second: &[u8],
    alarm: &Alarm,
    pause: Duration,
) -> io::Result<()> {
    while !first.is_empty() || !second.is_empty() {
        let both = [IoSlice::new(first), IoSlice::new(second)];
        let tried = if second.is_empty() { write.try_write(first) } else { write.try_write_vectored(&both) };
        let written = if let Some(written) = at_once(tried) {
            written?
        } else {
            alarm.set(pause);
            poll_fn(|context| {
                in_time(Pin::new(&mut *write).poll_write_vectored(context, &both), alarm, context)
            })
            .await?
        };
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let of_first = written.min(first.len());
        first = first.get(of_first..).unwrap_or_default();
        second = second.get(written - of_first..).unwrap_or_default();
    }
    Ok(())
}

/// The first line of an answer, with these words or the usual ones.
pub(super) fn put_status(out: &mut Vec<u8>, status: StatusCode, reason: Option<&[u8]>) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(reason.unwrap_or(status.canonical_reason().unwrap_or_default().as_bytes()));
    out.extend_from_slice(b"\r\n");
}

pub(super) fn put_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

pub(super) fn put_fields(out: &mut Vec<u8>, fields: &HeaderMap) {
    for (name, value) in fields {
        put_field(out, name.as_str().as_bytes(), value.as_bytes());
    }
}

pub(super) fn put_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(b"content-length: ");
    put_decimal_line(out, length);
}

/// The number, and the end of its line.
fn put_decimal_line(out: &mut Vec<u8>, mut number: u64) {
    let mut line = *b"00000000000000000000\r\n";
    let mut start = line.len() - 2;
    for digit in line.iter_mut().rev().skip(2) {
        start -= 1;
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(line.get(start..).unwrap_or_default());
}

pub(super) const CHUNKED: &[u8] = b"transfer-encoding: chunked\r\n";
pub(super) const CLOSE: &[u8] = b"connection: close\r\n";
pub(super) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// One chunk, of at least one byte: an empty one would be the last.
pub(super) fn put_chunk(out: &mut Vec<u8>, data: &[u8]) {
    let size = format!("{:x}\r\n", data.len());
    out.extend_from_slice(size.as_bytes());
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are_read() {
        for number in [0, 1, 9, 10, 99, 100, 12_345_678_901_234, u64::MAX] {
            let mut out = Vec::new();
            put_decimal_line(&mut out, number);
            assert_eq!(out, format!("{number}\r\n").into_bytes());
        }
    }
}
