//! JSON documents that are changed and handed on: what is not changed stays what it was, long numbers too.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;

/// Arrays and objects within one another. Deeper ones are no document, as for `serde_json`.
const DEEPEST: usize = 128;

/// So many digits of a decimal number are the same after it was a floating-point one.
const DIGITS: usize = 15;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Exact {
    /// In the order of their names.
    Object(BTreeMap<String, Exact>),
    Array(Vec<Exact>),
    /// A number that no number of the machine is, as it is written.
    Long(Box<str>),
    /// Anything else, so neither of the first two.
    Plain(Value),
}

impl Exact {
    /// `None`: it is no JSON.
    pub(crate) fn read(document: &[u8]) -> Option<Exact> {
        let document: &RawValue = serde_json::from_slice(document).ok()?;
        Reader { text: document.get(), at: 0 }.value(DEEPEST)
    }

    /// What is at a JSON pointer.
    pub(crate) fn at(&mut self, pointer: &str) -> Option<&mut Exact> {
        let mut names = pointer.split('/');
        names.next().filter(|before| before.is_empty())?;
        names.try_fold(self, |value, name| match value {
            Exact::Object(members) => members.get_mut(&unescaped(name)),
            Exact::Array(values) => values.get_mut(name.parse::<usize>().ok()?),
            Exact::Long(_) | Exact::Plain(_) => None,
        })
    }

    /// The object in which a JSON pointer says that a member is, or would be, and the name of that.
    pub(crate) fn around(&mut self, pointer: &str) -> Option<(&mut BTreeMap<String, Exact>, String)> {
        let (above, last) = pointer.rsplit_once('/')?;
        match self.at(above)? {
            Exact::Object(members) => Some((members, unescaped(last))),
            Exact::Array(_) | Exact::Long(_) | Exact::Plain(_) => None,
        }
    }

    /// A member, if it is a string.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self {
            Exact::Object(members) => match members.get(name)? {
                Exact::Plain(value) => value.as_str(),
                Exact::Object(_) | Exact::Array(_) | Exact::Long(_) => None,
            },
            Exact::Array(_) | Exact::Long(_) | Exact::Plain(_) => None,
        }
    }
}

impl From<&str> for Exact {
    fn from(text: &str) -> Exact {
        Exact::Plain(text.into())
    }
}

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        match self {
            Exact::Object(members) => {
                f.write_str("{")?;
                for (name, value) in members {
                    write!(f, "{between}{}:{value}", Value::from(name.as_str()))?;
                    between = ",";
                }
                f.write_str("}")
            }
            Exact::Array(values) => {
                f.write_str("[")?;
                for value in values {
                    write!(f, "{between}{value}")?;
                    between = ",";
                }
                f.write_str("]")
            }
            Exact::Long(number) => f.write_str(number),
            Exact::Plain(value) => value.fmt(f),
        }
    }
}

/// Goes over a text that is known to be JSON.
struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, deepest: usize) -> Option<Exact> {
        match self.next()? {
            b'{' => {
                self.at += 1;
                let mut members = BTreeMap::new();
                while self.next()? != b'}' {
                    let name = serde_json::from_str(self.string()?).ok()?;
                    members.insert(name, self.value(deepest.checked_sub(1)?)?);
                }
                self.at += 1;
                Some(Exact::Object(members))
            }
            b'[' => {
                self.at += 1;
                let mut values = Vec::new();
                while self.next()? != b']' {
                    values.push(self.value(deepest.checked_sub(1)?)?);
                }
                self.at += 1;
                Some(Exact::Array(values))
            }
            b'"' => serde_json::from_str(self.string()?).ok().map(Exact::Plain),
            b'-' | b'0'..=b'9' => Some(number(self.word()?)),
            _ => serde_json::from_str(self.word()?).ok().map(Exact::Plain),
        }
    }

    /// The next byte that says something: where values end is known by what they are.
    fn next(&mut self) -> Option<u8> {
        let rest = self.text.as_bytes().get(self.at..)?;
        self.at += rest.iter().position(|byte| !b" \t\n\r,:".contains(byte))?;
        self.text.as_bytes().get(self.at).copied()
    }

    /// A string, with its quotes.
    fn string(&mut self) -> Option<&str> {
        let (start, mut escaped) = (self.at, true);
        let ends = |byte: &u8| {
            let ends = *byte == b'"' && !escaped;
            escaped = *byte == b'\\' && !escaped;
            ends
        };
        self.at += self.text.as_bytes().get(start..)?.iter().position(ends)? + 1;
        self.text.get(start..self.at)
    }

    /// A number, or one of JSON's words.
    fn word(&mut self) -> Option<&str> {
        let (start, rest) = (self.at, self.text.as_bytes().get(self.at..)?);
        let ends = |byte: &u8| b" \t\n\r,]}".contains(byte);
        self.at += rest.iter().position(ends).unwrap_or(rest.len());
        self.text.get(start..self.at)
    }
}

fn number(text: &str) -> Exact {
    let digits = text.split(['e', 'E']).next().unwrap_or_default();
    let short = digits.bytes().filter(u8::is_ascii_digit).count() <= DIGITS;
    let value = serde_json::from_str::<Value>(text).ok();
    let value = value.filter(|value| short || value.is_u64() || value.is_i64());
    value.map_or_else(|| Exact::Long(text.into()), Exact::Plain)
}

fn unescaped(name: &str) -> String {
    name.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_changed_stays_what_it_was() {
        let long = "123456789012345678901234567890";
        let text = format!(
            r#"{{"a/b":[{long},-0.12345678901234567890,1e400,{{}}],"n":18446744073709551615,"t":"é\n","x":[1,2.5,null,true]}}"#
        );
        let mut read = Exact::read(text.as_bytes()).unwrap();
        assert_eq!(read.to_string(), text);
        assert_eq!(read.at("/a~1b/0"), Some(&mut Exact::Long(long.into())));
        let (members, last) = read.around("/new").unwrap();
        members.insert(last, "y".into());
        assert_eq!(read.text("new"), Some("y"));
        assert!(read.to_string().starts_with(&format!(r#"{{"a/b":[{long},"#)));
    }

    #[test]
    fn the_same_is_the_same_however_it_is_spelled() {
        let read = |text: &str| Exact::read(text.as_bytes());
        assert_eq!(read(r#"{"b":1.50,"a":"A\"]\\"}"#), read(" {\"a\" : \"\\u0041\\\"]\\\\\", \"b\": 1.5 }"));
        assert_ne!(read("12345678901234567890123"), read("12345678901234567890124"));
    }

    #[test]
    fn what_is_no_json_is_not_read() {
        for text in ["", "{", "[1,]", "01", "1.", "-", "{\"a\":}", "nul", "\"", "[01]", "1 2"] {
            assert_eq!(Exact::read(text.as_bytes()), None, "{text}");
        }
        let nested = |levels: usize| [vec!["["; levels], vec!["]"; levels]].concat().concat();
        assert!(Exact::read(nested(100).as_bytes()).is_some());
        assert_eq!(Exact::read(nested(10_000).as_bytes()), None);
    }
}
