//! `/_scope/<scope>/…`: a scope for clients that can only set a base URL.

use http::Uri;

use super::error::{Carrier, Error, Fault};
use super::percent;

const PREFIX: &str = "/_scope/";

/// Whether a target has the prefix.
pub(super) fn is_scoped(target: &[u8]) -> bool {
    target.starts_with(PREFIX.as_bytes())
}

/// Takes the prefix off, and returns its scope. The query stays.
pub(super) fn take(uri: &mut Uri) -> Result<Option<String>, Error> {
    let malformed = |fault| Error::Malformed { carrier: Carrier::Path, fault };
    let Some(after) = uri.path().strip_prefix(PREFIX) else { return Ok(None) };
    let (scope, rest) = after.split_once('/').unwrap_or((after, ""));
    let text = percent::decode(scope.as_bytes()).map_err(malformed)?;
    let mut target = format!("/{rest}");
    if target.starts_with(PREFIX) {
        return Err(malformed(Fault::Twice));
    }
    if let Some(query) = uri.query() {
        target.push('?');
        target.push_str(query);
    }
    let mut parts = std::mem::take(uri).into_parts();
    parts.path_and_query = Some(target.parse().map_err(|_| malformed(Fault::Target))?);
    *uri = Uri::from_parts(parts).map_err(|_| malformed(Fault::Target))?;
    Ok(Some(text))
}
