//! A setting that a part of a profile leaves as it is, turns off with `false`, or makes its own.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// A setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Setting<T> {
    #[default]
    Unsaid,
    Off,
    On(T),
}

impl<T: Clone> Setting<T> {
    /// What holds where a narrower setting may say something else.
    pub(crate) fn under(&self, narrower: Option<&Setting<T>>) -> Option<T> {
        match narrower {
            None | Some(Setting::Unsaid) => self.on().cloned(),
            Some(narrower) => narrower.on().cloned(),
        }
    }

    pub(crate) fn on(&self) -> Option<&T> {
        if let Setting::On(value) = self { Some(value) } else { None }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Setting<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Setting<T>, D::Error> {
        deserializer.deserialize_any(Read(PhantomData))
    }
}

/// By hand, since an untagged enum would not say which key is unknown.
struct Read<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
    type Value = Setting<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`false`, or what it is")
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Setting<T>, E> {
        if on { Err(E::invalid_value(serde::de::Unexpected::Bool(on), &self)) } else { Ok(Setting::Off) }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Setting<T>, E> {
        T::deserialize(StrDeserializer::new(text)).map(Setting::On)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Setting<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Setting::On)
    }
}
