//! The answer to a head that was refused.

use bytes::Bytes;

use crate::violation::Violation;

/// A whole response: a problem document (RFC 9457), and the end of the connection.
pub(crate) fn answer(violation: Violation) -> Bytes {
    let status = violation.status();
    let title = match status {
        414 => "URI Too Long",
        431 => "Request Header Fields Too Large",
        _ => "Bad Request",
    };
    // No rule's text has a character that JSON escapes.
    let problem = format!(r#"{{"title":"{title}","status":{status},"detail":"{violation}"}}"#);
    let length = problem.len();
    Bytes::from(format!(
        "HTTP/1.1 {status} {title}\r\nContent-Type: application/problem+json\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{problem}"
    ))
}
