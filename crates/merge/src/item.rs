//! One item: what is read of it, and how it is told with its site.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::Fault;

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
    /// At most 63 fields.
    pub(crate) fields: Vec<Path>,
    /// The member that would tell the site.
    pub(crate) tag: Option<String>,
}

/// An item, and what was read of it.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) bytes: Vec<u8>,
    /// In the order in which they were wanted.
    pub(crate) fields: Vec<Option<Value>>,
    form: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    NoObject,
    /// An object that tells its site already.
    Tagged,
    Object {
        empty: bool,
    },
}

impl Item {
    /// Reads an item, all of which is checked.
    pub(crate) fn read(bytes: Vec<u8>, wanted: &Wanted) -> Result<Item, Fault> {
        let text = std::str::from_utf8(&bytes).map_err(|_| Fault::Json("it is not UTF-8"))?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let malformed = |_| Fault::Json("an item is malformed");
        let (fields, form) = Read(wanted).deserialize(&mut reader).map_err(malformed)?;
        reader.end().map_err(malformed)?;
        Ok(Item { bytes, fields, form })
    }

    /// A field as text, if it identifies something.
    pub(crate) fn text(&self, field: usize) -> Option<String> {
        match self.fields.get(field)?.as_ref()? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// Writes the item, with a member (`"name":"site"`) if it is an object without it. The rest of it stays
    /// as the site wrote it.
    pub(crate) fn write(&self, member: Option<&[u8]>, out: &mut Vec<u8>) {
        match (member, self.form, self.bytes.strip_suffix(b"}")) {
            (Some(member), Form::Object { empty }, Some(open)) => {
                out.extend_from_slice(open);
                if !empty {
                    out.push(b',');
                }
                out.extend_from_slice(member);
                out.push(b'}');
            }
            _ => out.extend_from_slice(&self.bytes),
        }
    }
}

/// Reads an item without building what is not wanted.
struct Read<'a>(&'a Wanted);

impl<'de> DeserializeSeed<'de> for Read<'_> {
    type Value = (Vec<Option<Value>>, Form);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// What is read of anything but an object.
macro_rules! no_object {
    ($($visit:ident: $of:ty),*) => {
        $(fn $visit<E: Error>(self, _: $of) -> Result<Self::Value, E> {
            Ok((Vec::new(), Form::NoObject))
        })*
    };
}

impl<'de> Visitor<'de> for Read<'_> {
    type Value = (Vec<Option<Value>>, Form);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an item")
    }

    no_object!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok((Vec::new(), Form::NoObject))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok((Vec::new(), Form::NoObject))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = vec![None; self.0.fields.len()];
        let mut form = Form::Object { empty: true };
        while let Some(which) = map.next_key_seed(Which(self.0))? {
            if which & TAG != 0 {
                form = Form::Tagged;
            } else if form != Form::Tagged {
                form = Form::Object { empty: false };
            }
            if which & !TAG == 0 {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value: Value = map.next_value()?;
            for (index, (field, path)) in fields.iter_mut().zip(&self.0.fields).enumerate() {
                if which & (1 << index) != 0 {
                    let mut inner = path.0.iter().skip(1);
                    *field = inner.try_fold(&value, |value, name| value.get(name)).cloned();
                }
            }
        }
        Ok((fields, form))
    }
}

/// The bit of the tag among those of the fields.
const TAG: u64 = 1 << 63;

/// Tells which of the wanted fields a name begins, as bits.
struct Which<'a>(&'a Wanted);

impl<'de> DeserializeSeed<'de> for Which<'_> {
    type Value = u64;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<u64, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Which<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<u64, E> {
        let mut which = if self.0.tag.as_deref() == Some(name) { TAG } else { 0 };
        for (index, path) in self.0.fields.iter().enumerate().take(63) {
            if path.0.first().is_some_and(|first| first == name) {
                which |= 1 << index;
            }
        }
        Ok(which)
    }
}
