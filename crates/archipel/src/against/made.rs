//! What is only known by making something: allowed by whoever asks for it.

use profile::Kind;
use serde_json::Value;

use super::shape::{members, pointer_to};
use super::{Comparison, id_text};

impl Comparison<'_> {
    /// Makes one resource, looks whether it is as the profile says, and deletes it.
    pub(super) fn make(&mut self, collection: &str, document: &str) {
        let Some(kind) = self.profile.kinds.collection(self.service, collection) else {
            return self.differs(format!("POST {collection}: the profile has no kind that is made there"));
        };
        let made = match (self.ask)("POST", collection, Some(document)) {
            Ok(seen) if (200..300).contains(&seen.status) => seen,
            Ok(seen) => {
                let said: String = String::from_utf8_lossy(&seen.body).chars().take(200).collect();
                return self.differs(format!("POST {collection}: {}: {said}", seen.status));
            }
            Err(why) => return self.unknown(format!("POST {collection}: {why}")),
        };
        let answer: Value = serde_json::from_slice(&made.body).unwrap_or_default();
        let id = match answer.pointer(&kind.id) {
            Some(id) if id.is_string() || id.is_number() => {
                self.fits(format!("POST {collection}: {}, with the id at `{}`", made.status, kind.id));
                id_text(id)
            }
            _ => {
                let location = made.headers.get("location").and_then(|value| value.to_str().ok());
                let last = location.and_then(|path| path.trim_end_matches('/').rsplit('/').next());
                let at = last.and_then(|id| pointer_to(&answer, id));
                let hint = at.map_or_else(
                    || format!("the answer has {}", members(&answer)),
                    |at| format!("write `id = \"{at}\"`"),
                );
                self.differs(format!("POST {collection}: no id at `{}`: {hint}", kind.id));
                let Some(id) = last else {
                    return self.unknown("what was made is not found again: delete it yourself".to_owned());
                };
                id.to_owned()
            }
        };
        self.delete(kind, &format!("{}/{id}", collection.trim_end_matches('/')));
    }

    fn delete(&mut self, kind: &Kind, path: &str) {
        match (self.ask)("DELETE", path, None).map(|seen| seen.status) {
            Ok(200..=299) => {}
            Ok(status) => return self.differs(format!("DELETE {path}: {status}: delete it yourself")),
            Err(why) => return self.unknown(format!("DELETE {path}: {why}: look whether it is there")),
        }
        match (self.ask)("GET", path, None).map(|seen| seen.status) {
            Ok(status) if kind.is_absence(status) => self.fits(format!("DELETE {path}: it is gone")),
            Ok(status @ 400..=499) => self.differs(format!(
                "DELETE {path}: a GET is a {status}: write `absent = [{status}]` if its service says so of what is not there"
            )),
            Ok(status) => self.differs(format!(
                "DELETE {path}: a GET is still {status}: write `deletion = \"absent\"` if it goes later"
            )),
            Err(why) => self.unknown(format!("GET {path}: {why}")),
        }
    }
}
