//! Any bytes of a client, and any bytes of a service: through the thin path they come out as they do through the guard
//! and hyper. A request that one forwards and the other does not, or forwards in another way, is a failure; so is
//! one that a strict service cannot read.

#![no_main]

#[path = "thin/far.rs"]
mod far;
#[path = "thin/message.rs"]
mod message;
#[path = "thin/near.rs"]
mod near;

use std::sync::LazyLock;

use far::Service;
use libfuzzer_sys::fuzz_target;
use near::Path;

/// The same site twice, each with a service of its own.
static PATHS: LazyLock<[Path; 2]> = LazyLock::new(|| [Path::new(false), Path::new(true)]);

// The first byte is how: what the service answers, or that the rest is its answer to a request of ours; and into what
// pieces the client's bytes are cut.
fuzz_target!(|input: &[u8]| {
    let Some((how, bytes)) = input.split_first() else { return };
    let (how, cut) = (how & 15, [usize::MAX, 1, 7, 61][usize::from(how >> 4) % 4]);
    // It is HTTP/2 then, on both; or might become it, and the other path waits for that to the end of its time.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    if bytes.len() > 4096 || bytes.starts_with(preface) || preface.starts_with(bytes) {
        return;
    }
    if how < 11 {
        let [other, thin] = &*PATHS;
        let answer = far::ANSWERS[usize::from(how) % far::ANSWERS.len()];
        let [other, thin] = [other, thin].map(|path| path.carry(bytes, cut, Service::Answers(answer)));
        let early = cut < bytes.len() || is_chunked(bytes);
        let [other, thin] = if early { until_early(bytes, other, thin) } else { [other, thin] };
        assert_eq!(thin, other, "{}", bytes.escape_ascii());
    } else {
        let request = near::REQUESTS[usize::from(how - 11)];
        let [other, thin] = &*PATHS;
        let seen = [other, thin].map(|path| path.carry(request, usize::MAX, Service::Says(bytes.to_vec())));
        assert_eq!(seen[1], seen[0], "{}", bytes.escape_ascii());
    }
});

/// What the service saw, and what came back.
type Seen = (Vec<String>, Vec<String>);

fn is_chunked(bytes: &[u8]) -> bool {
    bytes.windows(7).any(|word| word.eq_ignore_ascii_case(b"chunked"))
}

/// Both up to the first answer that may have come before the body of its request had, where that comes in pieces. The connection may
/// end then, also where what follows would have come a moment later: that is a matter of when.
fn until_early(bytes: &[u8], mut other: Seen, mut thin: Seen) -> [Seen; 2] {
    // The mesh's own, which it gives without the body. To a HEAD it has no document.
    let own = |seen: &Seen| seen.1.iter().position(|answer| answer.contains("application/problem+json"));
    // A service does not get the chunks of a GET or HEAD, and so does not wait for them.
    let bodiless =
        |seen: &Seen| seen.0.iter().position(|seen| seen.starts_with("GET ") || seen.starts_with("HEAD "));
    let first = match (own(&other), own(&thin)) {
        (Some(first), Some(second)) => Some((first, second)),
        _ => bodiless(&other).zip(bodiless(&thin)).filter(|_| is_chunked(bytes)),
    };
    if let Some((first, second)) = first {
        other.1.truncate(first + 1);
        thin.1.truncate(second + 1);
        let most = other.0.len().min(thin.0.len());
        other.0.truncate(most);
        thin.0.truncate(most);
    }
    [other, thin]
}
