//! How Archipel finds out whether a service executed a write that it did not answer.

use serde::Deserialize;

use crate::propagation::is_header;

/// One way to find that out.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Words")]
pub enum Probe {
    /// A service that executes one creation for each value of a header: repeating it is harmless.
    Key {
        /// The header.
        header: String,
    },
    /// A service that shows the name of the operation in what the operation changed.
    Marker(Marker),
    /// A service that shows the checksum of what was uploaded.
    Upload(Upload),
}

/// The name of an operation, as a service keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Where the resource shows it, as a JSON pointer: to a text, or to an array or object of many.
    pub at: String,
    /// Where the service takes it.
    pub taken: Taken,
    /// The list that tells what was made.
    pub list: Option<MarkerList>,
}

/// The place of an operation's name in the request that executes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A header.
    Header(String),
    /// A member of the document, as a JSON pointer.
    Member(String),
}

/// A list of the collection that a creation was sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkerList {
    /// The query that leaves nothing in it but what the creation made, or what stands in its way: pairs of a name and a
    /// text. `{operation}` is the name of the operation, `{/pointer}` what the creation's document says there.
    pub query: String,
    /// Where the answer has the items, as a JSON pointer. Empty: it is the list itself.
    pub items: String,
}

/// What a service shows of a part that was uploaded, as JSON pointers into the resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upload {
    /// How far it is.
    pub status: Option<String>,
    /// The texts there that say that all of it came.
    pub executed: Vec<String>,
    /// That nothing did.
    pub not_executed: Vec<String>,
    /// That it is still coming.
    pub running: Vec<String>,
    /// Its length.
    pub size: Option<String>,
    /// Its checksum, in hexadecimal.
    pub checksum: String,
    /// The algorithm of that: a JSON pointer, or its name.
    pub algorithm: String,
}

/// A probe as it is written.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Words {
    idempotency_key: Option<String>,
    marker: Option<String>,
    header: Option<String>,
    member: Option<String>,
    query: Option<String>,
    items: Option<String>,
    status: Option<String>,
    executed: Vec<String>,
    not_executed: Vec<String>,
    running: Vec<String>,
    size: Option<String>,
    checksum: Option<String>,
    algorithm: Option<String>,
}

/// The header that names the operation in every attempt, whatever a profile says.
const OPERATION: &str = "Scope-Operation";

/// The algorithms that are understood.
const ALGORITHMS: [&str; 4] = ["sha1", "sha256", "sha384", "sha512"];

impl TryFrom<Words> for Probe {
    type Error = &'static str;

    fn try_from(words: Words) -> Result<Probe, &'static str> {
        let of_marker = [&words.header, &words.member, &words.query, &words.items];
        let of_marker = of_marker.into_iter().any(Option::is_some);
        let lists = [&words.executed, &words.not_executed, &words.running];
        let of_upload = [&words.status, &words.size, &words.algorithm].into_iter().any(Option::is_some)
            || lists.into_iter().any(|texts| !texts.is_empty());
        match (&words.idempotency_key, &words.marker, &words.checksum) {
            (Some(header), None, None) if !of_marker && !of_upload => {
                let header = header.clone();
                is_header(&header)
                    .then_some(Probe::Key { header })
                    .ok_or("`idempotency_key` is the name of a header, such as `Idempotency-Key`")
            }
            (None, Some(_), None) if !of_upload => words.marker().map(Probe::Marker),
            (None, None, Some(_)) if !of_marker => words.upload().map(Probe::Upload),
            (None, None, None) if of_marker => Err("`marker` is missing: where the resource shows the name"),
            (None, None, None) if of_upload => {
                Err("`checksum` is missing: a status and a size do not prove what was uploaded")
            }
            _ => Err("a probe has `idempotency_key`, or `marker` with `header` or `member`, `query` and \
                      `items`, or `checksum` with `algorithm`, `status` and `size`"),
        }
    }
}

impl Words {
    fn marker(self) -> Result<Marker, &'static str> {
        let at = self.marker.filter(|at| is_pointer(at));
        let at = at.ok_or("`marker` is a JSON pointer, such as `/operation`")?;
        let taken = match (self.header, self.member) {
            (None, None) => Taken::Header(OPERATION.to_owned()),
            (Some(header), None) if is_header(&header) => Taken::Header(header),
            (None, Some(member)) if is_pointer(&member) => Taken::Member(member),
            (Some(_), None) => return Err("`header` is the name of one, such as `X-Request-Id`"),
            (None, Some(_)) => {
                return Err("`member` is a JSON pointer into the document, such as `/operation`");
            }
            (Some(_), Some(_)) => return Err("a service takes the name in a `header` or in a `member`"),
        };
        let list = match (self.query, self.items) {
            (None, None) => None,
            (Some(query), Some(items)) => {
                if !items.is_empty() && !is_pointer(&items) {
                    return Err("`items` is a JSON pointer to the list in the answer, or empty");
                }
                Some(MarkerList { query: checked(query)?, items })
            }
            _ => {
                return Err(
                    "`query` and `items` go together: which list to ask for, and where its items are",
                );
            }
        };
        Ok(Marker { at, taken, list })
    }

    fn upload(self) -> Result<Upload, &'static str> {
        let pointers = [&self.status, &self.size, &self.checksum];
        if pointers.into_iter().flatten().any(|pointer| !is_pointer(pointer)) {
            return Err("`status`, `size` and `checksum` are JSON pointers, such as `/status`");
        }
        let named = |name: &String| is_pointer(name) || ALGORITHMS.contains(&name.as_str());
        let algorithm = self.algorithm.filter(named).ok_or(
            "`algorithm` of a `checksum` is a JSON pointer to its name, or one of sha1, sha256, sha384 and sha512",
        )?;
        if self.status.is_some() == self.executed.is_empty() {
            return Err(
                "`status` and `executed` go together: where it says how far it is, and when all came",
            );
        }
        if self.status.is_none() && !(self.not_executed.is_empty() && self.running.is_empty()) {
            return Err("`not_executed` and `running` are texts of a `status`");
        }
        let checksum = self.checksum.ok_or("`checksum` is missing")?;
        let (executed, not_executed, running) = (self.executed, self.not_executed, self.running);
        Ok(Upload {
            status: self.status,
            executed,
            not_executed,
            running,
            size: self.size,
            checksum,
            algorithm,
        })
    }
}

impl Marker {
    /// What is wrong with it, in a kind that has this `generated`.
    pub(crate) fn fault(&self, generated: &[String]) -> Option<&'static str> {
        let listed = |own: &String| {
            self.at.strip_prefix(own.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        (!generated.iter().any(listed))
            .then_some("list the `marker` in `generated` too: a copy is made under another name")
    }
}

/// A query in which each pair has a text, or stands for one.
fn checked(query: String) -> Result<String, &'static str> {
    let text = |text: &str| !text.is_empty() && !text.contains(['{', '}', '?', '#', ' ']);
    let value = |value: &str| match value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(name) => name == "operation" || is_pointer(name),
        None => text(value),
    };
    let pair = |pair: &str| pair.split_once('=').is_some_and(|(name, own)| text(name) && value(own));
    (query.split('&').all(pair) && query.contains('{'))
        .then_some(query)
        .ok_or("`query` is one such as `operation={operation}`, or `name={/user/name}` with what the body says there")
}

fn is_pointer(pointer: &str) -> bool {
    pointer.len() > 1 && pointer.starts_with('/') && !pointer.contains(['{', '}'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Probe, String> {
        #[derive(Deserialize)]
        struct File {
            probe: Probe,
        }
        let read = toml::from_str::<File>(&format!("probe = {{ {text} }}"));
        read.map(|file| file.probe).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_probe_is_a_key_a_marker_or_a_checksum() {
        let key = read("idempotency_key = 'Idempotency-Key'");
        assert_eq!(key, Ok(Probe::Key { header: "Idempotency-Key".to_owned() }));
        let Ok(Probe::Marker(marker)) = read("marker = '/operations'") else { panic!() };
        assert_eq!((marker.taken, marker.list), (Taken::Header(OPERATION.to_owned()), None));
        let text =
            "marker = '/user/op', member = '/user/op', query = 'name={/user/name}&x=1', items = '/users'";
        let Ok(Probe::Marker(marker)) = read(text) else { panic!() };
        assert_eq!(marker.taken, Taken::Member("/user/op".to_owned()));
        let list = MarkerList { query: "name={/user/name}&x=1".to_owned(), items: "/users".to_owned() };
        assert_eq!(marker.list, Some(list));
        let text = "status = '/status', executed = ['active'], size = '/size', checksum = '/sum', algorithm = 'sha256'";
        assert!(matches!(read(text), Ok(Probe::Upload(_))));
        assert!(matches!(read("checksum = '/sum', algorithm = '/algorithm'"), Ok(Probe::Upload(_))));
    }

    #[test]
    fn what_cannot_be_a_probe_is_refused_with_what_to_write() {
        for (text, says) in [
            ("", "a probe has `idempotency_key`"),
            ("idempotency_key = 'a b'", "such as `Idempotency-Key`"),
            ("idempotency_key = 'X', marker = '/a'", "a probe has `idempotency_key`"),
            ("marker = 'a'", "such as `/operation`"),
            ("marker = '/a', header = 'X', member = '/b'", "in a `header` or in a `member`"),
            ("marker = '/a', header = ' '", "such as `X-Request-Id`"),
            ("marker = '/a', query = 'a={operation}'", "`query` and `items` go together"),
            ("marker = '/a', query = 'all=1', items = ''", "`query` is one such as"),
            ("marker = '/a', query = 'a={b}', items = ''", "`query` is one such as"),
            ("marker = '/a', query = 'a={operation}', items = 'b'", "`items` is a JSON pointer"),
            ("header = 'X'", "`marker` is missing"),
            ("status = '/s', executed = ['x'], size = '/size'", "do not prove what was uploaded"),
            ("checksum = '/c'", "one of sha1, sha256, sha384 and sha512"),
            ("checksum = '/c', algorithm = 'md5'", "one of sha1, sha256, sha384 and sha512"),
            ("checksum = '/c', algorithm = 'sha256', status = '/s'", "`status` and `executed` go together"),
            ("checksum = '/c', algorithm = 'sha256', running = ['x']", "texts of a `status`"),
            ("checksum = 'c', algorithm = 'sha256'", "are JSON pointers"),
            ("mark = '/a'", "unknown field `mark`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
