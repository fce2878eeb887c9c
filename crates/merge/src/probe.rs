//! Tells from the start of an answer whether it is a list, and where its items are.

use profile::List;
use serde::de::IgnoredAny;

use crate::check::{Check, Unwatched};
use crate::error::Fault;
use crate::limits::Limits;
use crate::scan::{JsonSpace, Shape};

/// What the start of an answer tells.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// More of it is needed.
    Undecided,
    List(Shape),
    NotAList,
    /// It has an id of its own.
    OneResource,
    Fault(Fault),
}

/// The answer that is looked at, as far as it is known.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    bytes: Vec<u8>,
    /// It is looked at again once it has this length, which doubles: so looking costs no more than reading.
    due: usize,
}

impl Probe {
    /// Takes more of the answer. What is found depends on its bytes only, not on where they were cut.
    pub(crate) fn push(&mut self, bytes: &[u8], ended: bool, list: &List, limits: &Limits) -> Look {
        let room = limits.probe_bytes.saturating_sub(self.bytes.len());
        self.bytes.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        let full = self.bytes.len() >= limits.probe_bytes;
        if !ended && !full && self.bytes.len() < self.due {
            return Look::Undecided;
        }
        self.due = self.bytes.len().saturating_mul(2).max(1);
        let close = if full {
            Close::Cut
        } else if ended {
            Close::End
        } else {
            Close::Open
        };
        look(&self.bytes, close, list, limits)
    }
}

/// What the start of an answer looks like, before all of it is known that decides; none if it looks like no list. Only
/// what the profile says of its members is certain.
pub(crate) fn guess(bytes: &[u8], list: &List, limits: &Limits) -> Option<Shape> {
    match look(bytes, Close::Guess, list, limits) {
        Look::List(shape) => Some(shape),
        Look::Undecided | Look::NotAList | Look::OneResource | Look::Fault(_) => None,
    }
}

/// What is known of the end of the bytes that are looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Close {
    /// Nothing, and the first members tell enough.
    Guess,
    /// More may come.
    Open,
    /// The answer ends with them.
    End,
    /// The answer may go on, but no more of it is looked at.
    Cut,
}

fn look(bytes: &[u8], close: Close, list: &List, limits: &Limits) -> Look {
    let text = bytes.trim_space();
    let over = |ended| match close {
        Close::Open | Close::Guess => Look::Undecided,
        Close::End => ended,
        Close::Cut => Look::NotAList,
    };
    match text.first() {
        None => over(Look::Fault(Fault::Json("it is empty"))),
        Some(b'[') => Look::List(Shape::Array),
        Some(b'{') if list.keyed && list.items.is_none() => Look::List(Shape::Keyed(None)),
        Some(b'{') => members(text.get(1..).unwrap_or_default(), close, list, limits),
        Some(_) => over(match serde_json::from_slice(text) {
            Ok(IgnoredAny) => Look::NotAList,
            Err(_) => Look::Fault(Fault::Json("a value is malformed")),
        }),
    }
}

/// An object has a list if the profile names one of its members, or if it has one array of objects (else one
/// empty array) and is itself nothing with an id.
fn members(mut rest: &[u8], close: Close, list: &List, limits: &Limits) -> Look {
    let mut found = Found::default();
    loop {
        rest = rest.trim_space();
        match rest.split_first() {
            Some((b',', tail)) => rest = tail.trim_space(),
            Some((b'}', _)) => return found.all(),
            _ => {}
        }
        let name = match next(&mut rest, limits) {
            Next::Whole(name) => serde_json::from_slice::<String>(name).ok(),
            Next::Part => return found.so_far(close),
            Next::Flawed => None,
        };
        let Some(name) = name else { return Look::Fault(Fault::Json("a name is malformed")) };
        rest = rest.trim_space();
        match rest.split_first() {
            Some((b':', tail)) => rest = tail.trim_space(),
            Some(_) => return Look::Fault(Fault::Json("an unexpected character")),
            None => return found.so_far(close),
        }
        match &list.items {
            Some(items) if items.split('.').next() == Some(&name) => {
                let inner = items.split_once('.').map(|(_, inner)| inner.to_owned());
                return match (rest.first(), inner) {
                    (None, _) => found.so_far(close),
                    (Some(b'{' | b'n'), Some(inner)) => Look::List(Shape::Inner(name, inner)),
                    (Some(b'{' | b'n'), None) if list.keyed => Look::List(Shape::Keyed(Some(name))),
                    (Some(b'[' | b'n'), None) if !list.keyed => Look::List(Shape::Member(name)),
                    (Some(_), _) => Look::NotAList,
                };
            }
            Some(_) => {}
            None if name == list.id => return Look::OneResource,
            None if is_links(&name) => {}
            None => found.note(name, rest),
        }
        if found.objects.len() > 1 {
            return Look::NotAList;
        }
        if close == Close::Guess && !found.objects.is_empty() {
            return found.so_far(Close::Cut);
        }
        match next(&mut rest, limits) {
            Next::Whole(_) => {}
            Next::Part => return found.so_far(close),
            // What it is has to be told from what is before: if it is a list, the scanner says what is wrong.
            Next::Flawed => return found.so_far(Close::Cut),
        }
    }
}

/// What comes next.
enum Next<'t> {
    Whole(&'t [u8]),
    /// It is not whole.
    Part,
    /// It is malformed, or too deep.
    Flawed,
}

fn next<'t>(rest: &mut &'t [u8], limits: &Limits) -> Next<'t> {
    match Check::new(limits.depth).end_in(rest, &mut Unwatched) {
        Ok(Some(end)) => {
            let (value, behind) = rest.split_at(end);
            *rest = behind;
            Next::Whole(value)
        }
        Ok(None) => Next::Part,
        Err(_) => Next::Flawed,
    }
}

/// Whether a member beside the items leaves it certain that they are items.
pub(crate) fn is_beside_items(name: &str, raw: &[u8], list: &List) -> bool {
    let mut found = Found::default();
    if !is_links(name) {
        found.note(name.to_owned(), raw);
    }
    name != list.id && found.objects.is_empty()
}

/// Links are objects in an array too, and never items.
fn is_links(name: &str) -> bool {
    name == "links" || name.ends_with("_links")
}

#[derive(Default)]
struct Found {
    objects: Vec<String>,
    empty: Vec<String>,
}

impl Found {
    /// Notes a member by how its value starts.
    fn note(&mut self, name: String, value: &[u8]) {
        let Some((b'[', inner)) = value.split_first() else { return };
        match inner.trim_space().first() {
            Some(b'{') => self.objects.push(name),
            Some(b']') => self.empty.push(name),
            _ => {}
        }
    }

    fn so_far(self, close: Close) -> Look {
        match close {
            Close::Open | Close::Guess => Look::Undecided,
            Close::End => Look::Fault(Fault::Json("it ends too early")),
            Close::Cut => match self.objects.into_iter().next() {
                Some(name) => Look::List(Shape::Member(name)),
                None => Look::NotAList,
            },
        }
    }

    fn all(self) -> Look {
        let one = |mut names: Vec<String>| if names.len() == 1 { names.pop() } else { None };
        let name = if self.objects.is_empty() { one(self.empty) } else { one(self.objects) };
        name.map_or(Look::NotAList, |name| Look::List(Shape::Member(name)))
    }
}
