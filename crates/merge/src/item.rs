//! One item: what is read of it, and how it is told with its site.

use std::ops::Range;

use bytes::Bytes;
use memchr::memchr;
use profile::List;
use serde_json::Value;

use crate::check::Watch;
use crate::error::Fault;
use crate::page::Page;
use crate::tellers::Mark;

/// The way to a field through objects: `metadata.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(Vec<String>);

impl Path {
    pub(crate) fn new(text: &str) -> Path {
        Path(text.split('.').map(str::to_owned).collect())
    }

    /// A field whose name may have a dot.
    pub(crate) fn one(name: &str) -> Path {
        Path(vec![name.to_owned()])
    }

    pub(crate) fn segments(&self) -> &[String] {
        &self.0
    }
}

/// What is read of each item.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// At most 64 fields.
    pub(crate) fields: Vec<Path>,
    /// The member that would tell the site.
    pub(crate) tag: Option<String>,
    /// How long their names are, as bits; one for all that are longer. Most members are told from them by that alone.
    lengths: u64,
}

impl Wanted {
    pub(crate) fn new(list: &List, page: &Page) -> Wanted {
        Wanted::with(list, page.order.iter().flat_map(|order| order.fields().cloned()))
    }

    /// What identifies items, and nothing else.
    pub(crate) fn of_ids(list: &List) -> Wanted {
        Wanted::with(list, None.into_iter())
    }

    fn with(list: &List, order: impl Iterator<Item = Path>) -> Wanted {
        let mut fields = vec![Path::new(&list.id)];
        fields.extend(order);
        let names = fields.iter().filter_map(|path| path.0.first()).chain(&list.tag);
        let lengths = names.fold(0, |lengths, name| lengths | length_bit(name.as_bytes()));
        Wanted { fields, tag: list.tag.clone(), lengths }
    }
}

fn length_bit(name: &[u8]) -> u64 {
    1 << name.len().min(63)
}

/// An item, and what was read of it.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) bytes: Bytes,
    fields: Fields,
    form: Form,
    /// How long it is without its mark and its last brace, if it is marked.
    marked: Option<usize>,
    /// Its name among the others, as it was written, if these have names.
    key: Option<Bytes>,
}

/// The fields of an item, in the order in which they were wanted. Most often that is one, its id.
#[derive(Debug, Default)]
struct Fields {
    id: Id,
    rest: Vec<Option<Value>>,
}

/// The first field, which most often is a string in which each byte stands for itself.
#[derive(Debug, Default)]
enum Id {
    #[default]
    Nothing,
    /// It is there, in the item.
    At(Range<usize>),
    Read(Box<Value>),
}

impl Fields {
    fn set(&mut self, field: usize, value: Option<Value>) {
        let Some(field) = field.checked_sub(1) else {
            self.id = value.map_or(Id::Nothing, |value| Id::Read(Box::new(value)));
            return;
        };
        if self.rest.len() <= field {
            self.rest.resize(field + 1, None);
        }
        if let Some(place) = self.rest.get_mut(field) {
            *place = value;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// A list in a list.
    NoObject,
    /// A text, a number or a word: what identifies it is itself.
    Value,
    /// An object that tells its site already.
    Tagged,
    Object {
        empty: bool,
    },
}

impl Item {
    /// The same with a name among the others, which is its id.
    pub(crate) fn named(mut self, key: Bytes) -> Result<Item, Fault> {
        let name: String = serde_json::from_slice(&key).map_err(|_| Fault::Json("a name is malformed"))?;
        self.fields.set(0, Some(name.into()));
        if self.form == Form::Value {
            self.form = Form::NoObject;
        }
        self.key = Some(key);
        Ok(self)
    }

    pub(crate) fn is_named(&self) -> bool {
        self.key.is_some()
    }

    /// A field that was wanted beside the id, counted from 1, if the item has it. A text or a number is each field of itself.
    pub(crate) fn field(&self, field: usize) -> Option<&Value> {
        if let (Form::Value, Id::Read(value)) = (self.form, &self.fields.id) {
            return Some(value);
        }
        self.fields.rest.get(field.checked_sub(1)?)?.as_ref()
    }

    /// The text or the number that it is, as JSON with one spelling; `true`, `false` and `null` are such, too.
    pub(crate) fn value(&self) -> Option<String> {
        match &self.fields.id {
            Id::Read(value) if self.form == Form::Value => Some(value.to_string()),
            _ => None,
        }
    }

    /// Looks for its mark, which is told to nobody.
    pub(crate) fn look_for(&mut self, mark: &Mark) {
        self.marked = mark.find(&self.bytes).filter(|_| !matches!(self.form, Form::NoObject | Form::Value));
    }

    pub(crate) fn is_marked(&self) -> bool {
        self.marked.is_some()
    }

    /// The sources that have it, if it is marked.
    pub(crate) fn sources(&self, mark: &Mark) -> Option<impl Fn(usize) -> bool + use<'_>> {
        self.marked.map(|_| mark.sources(&self.bytes))
    }

    /// The same item, that keeps nothing in memory beside itself.
    pub(crate) fn detached(self) -> Item {
        let key = self.key.as_ref().map(|key| Bytes::copy_from_slice(key));
        Item { bytes: Bytes::copy_from_slice(&self.bytes), key, ..self }
    }

    /// What identifies the item, if anything does.
    pub(crate) fn id(&self) -> Option<String> {
        String::from_utf8(self.id_in(Vec::new())?).ok()
    }

    /// The bytes of the same, in the place of another's.
    pub(crate) fn id_in(&self, mut other: Vec<u8>) -> Option<Vec<u8>> {
        other.clear();
        match &self.fields.id {
            Id::Nothing => return None,
            Id::At(place) => other.extend_from_slice(self.bytes.get(place.clone())?),
            Id::Read(value) => match &**value {
                Value::String(text) => other.extend_from_slice(text.as_bytes()),
                Value::Number(number) => other.extend_from_slice(number.to_string().as_bytes()),
                _ => return None,
            },
        }
        Some(other)
    }

    /// Writes the item, with a member (`"name":"site"`) if it is an object without it. The rest of it stays
    /// as the site wrote it.
    pub(crate) fn write(&self, member: Option<&[u8]>, out: &mut Vec<u8>) {
        if let Some(key) = &self.key {
            out.extend_from_slice(key);
            out.push(b':');
        }
        let marked = self.marked.and_then(|open| self.bytes.get(..open));
        match (member, self.form, marked.or(self.bytes.strip_suffix(b"}"))) {
            (Some(member), Form::Object { empty }, Some(open)) => {
                out.extend_from_slice(open);
                if !empty {
                    out.push(b',');
                }
                out.extend_from_slice(member);
                out.push(b'}');
            }
            (_, _, Some(open)) if self.marked.is_some() => {
                out.extend_from_slice(open);
                out.push(b'}');
            }
            _ => out.extend_from_slice(&self.bytes),
        }
    }
}

/// The member that tells the site of an item: `"scope_site":"Site1"`.
pub(crate) fn tag(name: &str, site: &str) -> Vec<u8> {
    let mut tag = Vec::with_capacity(name.len() + site.len() + 5);
    for (text, before) in [(name, None), (site, Some(b':'))] {
        tag.extend(before);
        // A text is always JSON, and memory takes it.
        serde_json::to_writer(&mut tag, text).unwrap_or_default();
    }
    tag
}

/// What has been read of an item that is being checked.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    fields: Fields,
    has_members: bool,
    is_tagged: bool,
    /// Which of the wanted fields the member that is being read begins, as bits.
    which: u64,
}

impl Reading {
    /// Reads on, for what is wanted.
    pub(crate) fn of<'r>(&'r mut self, wanted: &'r Wanted) -> impl Watch + 'r {
        Read { reading: self, wanted }
    }

    /// The item, once it is whole.
    pub(crate) fn item(self, bytes: Bytes) -> Item {
        let (mut fields, mut form) = (self.fields, Form::NoObject);
        match bytes.first() {
            Some(b'{') if self.is_tagged => form = Form::Tagged,
            Some(b'{') => form = Form::Object { empty: !self.has_members },
            Some(b'[') | None => {}
            Some(_) => {
                if let Some(value) = read(&bytes) {
                    fields.set(0, Some(value));
                    form = Form::Value;
                }
            }
        }
        Item { bytes, fields, form, marked: None, key: None }
    }
}

/// Reads the members of an item that are wanted.
struct Read<'r> {
    reading: &'r mut Reading,
    wanted: &'r Wanted,
}

impl Read<'_> {
    fn named(&mut self, name: &[u8]) {
        if self.wanted.lengths & length_bit(name) == 0 {
            return;
        }
        self.reading.is_tagged |= self.wanted.tag.as_ref().is_some_and(|tag| tag.as_bytes() == name);
        for (index, path) in self.wanted.fields.iter().enumerate().take(64) {
            if path.0.first().is_some_and(|first| first.as_bytes() == name) {
                self.reading.which |= 1 << index;
            }
        }
    }
}

impl Watch for Read<'_> {
    fn name(&mut self, raw: &[u8], escaped: bool) -> bool {
        self.reading.has_members = true;
        self.reading.which = 0;
        if !escaped {
            self.named(unquoted(raw));
        } else if let Ok(name) = serde_json::from_slice::<String>(raw) {
            self.named(name.as_bytes());
        }
        self.reading.which != 0
    }

    fn value(&mut self, raw: &[u8], at: usize) -> bool {
        let Reading { fields, which, .. } = &mut *self.reading;
        // Its id alone: what it is may never be asked.
        if *which == 1 && self.wanted.fields.first().is_some_and(|path| path.0.len() == 1) && is_plain(raw) {
            fields.id = Id::At(at + 1..at + raw.len() - 1);
            *which = 0;
            return true;
        }
        let Some(mut value) = read(raw) else { return false };
        for (index, path) in self.wanted.fields.iter().enumerate().take(64) {
            if *which & (1 << index) == 0 {
                continue;
            }
            *which &= !(1 << index);
            let mut inner = path.0.iter().skip(1);
            let field = if *which == 0 && path.0.len() == 1 {
                Some(value.take())
            } else {
                inner.try_fold(&value, |value, name| value.get(name)).cloned()
            };
            fields.set(index, field);
        }
        true
    }
}

/// A value that is wanted. Most are strings in which each byte stands for itself.
fn read(raw: &[u8]) -> Option<Value> {
    if is_plain(raw) {
        return std::str::from_utf8(unquoted(raw)).ok().map(Value::from);
    }
    serde_json::from_slice(raw).ok()
}

fn is_plain(raw: &[u8]) -> bool {
    raw.first() == Some(&b'"') && memchr(b'\\', raw).is_none()
}

fn unquoted(raw: &[u8]) -> &[u8] {
    raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default()
}
