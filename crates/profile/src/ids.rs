//! The form of the ids that a service gives to what it names.

use std::fmt;

use serde::{Deserialize, Deserializer, de};

/// Past this, JSON numbers are not exact everywhere.
const SAFE: u64 = (1 << 53) - 1;
/// The longest prefix of texts.
const LONGEST_PREFIX: usize = 32;
/// The longest id, in bytes.
const LONGEST: usize = 128;

/// The form of the ids of one kind. It decides what a resource is called where it is at several sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdForm {
    /// UUIDs, with hyphens or without. No service gives one twice, so they are safe to replace wherever they are.
    Uuid,
    /// Whole numbers that count.
    Integer(MetaRange),
    /// Texts that begin with this: `usr_1a2b`. Often with nothing.
    Text(String),
    /// ULIDs.
    Ulid,
}

/// The numbers that replicated resources have for clients. No service reaches them by counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetaRange {
    /// The first.
    pub from: u64,
    /// The last.
    pub upto: u64,
}

impl MetaRange {
    /// The upper half of all numbers that are exact in JSON.
    pub const WIDE: MetaRange = MetaRange { from: 1 << 52, upto: SAFE };
    /// The upper half of what a signed number of 32 bits can be.
    pub const NARROW: MetaRange = MetaRange { from: 1 << 30, upto: (1 << 31) - 1 };

    /// Whether a number is one of them.
    #[must_use]
    pub fn has(&self, number: u64) -> bool {
        (self.from..=self.upto).contains(&number)
    }
}

impl IdForm {
    /// The form of the ids in a collection in which something is called so for clients, where the profile says none.
    #[must_use]
    pub fn of_meta(id: &str) -> IdForm {
        match number(id) {
            Some(_) => IdForm::Integer(MetaRange::WIDE),
            None => IdForm::Uuid,
        }
    }

    /// Whether a service may call something so that is at several sites.
    #[must_use]
    pub fn fits(&self, id: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let is_text =
            || (1..=LONGEST).contains(&id.len()) && id.bytes().all(plain) && !matches!(id, "." | "..");
        match self {
            IdForm::Uuid => is_uuid(id),
            // What counts up to here may be the name of a replicated resource for clients.
            IdForm::Integer(range) => number(id).is_some_and(|number| number < range.from),
            IdForm::Text(prefix) => is_text() && id.len() > prefix.len() && id.starts_with(prefix),
            IdForm::Ulid => id.len() == 26 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        }
    }

    /// Whether what is called so may be replaced wherever it is found.
    #[must_use]
    pub fn is_found_anywhere(&self) -> bool {
        *self == IdForm::Uuid
    }
}

/// The whole number that a text is, as services write them.
fn number(id: &str) -> Option<u64> {
    let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (id.len() == 1 || !id.starts_with('0'));
    id.parse().ok().filter(|number| plain && *number <= SAFE)
}

fn is_uuid(id: &str) -> bool {
    let hyphens = id.match_indices('-').map(|(at, _)| at).collect::<Vec<_>>();
    let placed = hyphens.is_empty() && id.len() == 32 || hyphens == [8, 13, 18, 23] && id.len() == 36;
    placed && id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

impl fmt::Display for IdForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IdForm::Uuid => f.write_str("UUIDs"),
            IdForm::Integer(range) => write!(f, "integers below {}", range.from),
            IdForm::Text(prefix) if prefix.is_empty() => f.write_str("texts of letters, digits and `-._~`"),
            IdForm::Text(prefix) => write!(f, "texts that begin with `{prefix}`"),
            IdForm::Ulid => f.write_str("ULIDs"),
        }
    }
}

/// As a profile has it: a word, or a table with more.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "the form of ids is \"uuid\", \"integer\", \"text\", \"slug\" or \"ulid\", or a table with `form`"
)]
enum Written {
    Word(String),
    Table(Table),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    form: String,
    bits: Option<u32>,
    from: Option<u64>,
    prefix: Option<String>,
}

impl<'de> Deserialize<'de> for IdForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<IdForm, D::Error> {
        let table = match Written::deserialize(deserializer)? {
            Written::Word(form) => Table { form, bits: None, from: None, prefix: None },
            Written::Table(table) => table,
        };
        table.form().map_err(de::Error::custom)
    }
}

impl Table {
    fn form(self) -> Result<IdForm, String> {
        let (numeric, textual) = (self.bits.is_some() || self.from.is_some(), self.prefix.is_some());
        let form = match self.form.as_str() {
            "uuid" => IdForm::Uuid,
            "ulid" => IdForm::Ulid,
            "integer" => IdForm::Integer(self.range()?),
            "text" | "slug" => {
                let prefix = self.prefix.unwrap_or_default();
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
                if prefix.len() > LONGEST_PREFIX || !prefix.bytes().all(plain) {
                    return Err(format!(
                        "`prefix` has at most {LONGEST_PREFIX} of the characters A-Z a-z 0-9 - . _ ~"
                    ));
                }
                IdForm::Text(prefix)
            }
            other => {
                return Err(format!(
                    "`{other}` is no form of ids: \"uuid\", \"integer\", \"text\", \"slug\" or \"ulid\""
                ));
            }
        };
        match &form {
            IdForm::Integer(_) if textual => Err("`prefix` is for \"text\" and \"slug\"".to_owned()),
            IdForm::Integer(_) => Ok(form),
            _ if numeric => Err("`bits` and `from` are for \"integer\"".to_owned()),
            IdForm::Text(_) => Ok(form),
            _ if textual => Err("`prefix` is for \"text\" and \"slug\"".to_owned()),
            _ => Ok(form),
        }
    }

    fn range(&self) -> Result<MetaRange, String> {
        let usual = match self.bits {
            None | Some(53 | 64) => MetaRange::WIDE,
            Some(32) => MetaRange::NARROW,
            Some(_) => return Err("`bits` is 32, 53 or 64; JSON has no more than 53 of 64".to_owned()),
        };
        let range = MetaRange { from: self.from.unwrap_or(usual.from), ..usual };
        let least = usual.from >> 8;
        if range.from < least || range.upto - range.from.min(range.upto) < usual.from >> 8 {
            return Err(format!(
                "`from` is where the numbers of replicated resources begin: {least} to {} with these `bits`",
                usual.upto - (usual.from >> 8)
            ));
        }
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<IdForm, String> {
        #[derive(Deserialize)]
        struct File {
            ids: IdForm,
        }
        toml::from_str::<File>(&format!("ids = {text}"))
            .map(|file| file.ids)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_form_is_a_word_or_a_table_and_says_what_fits() {
        for (text, fits, not) in [
            ("'uuid'", "7f0e1d2c-3b4a-4958-8776-655443322110", "7"),
            ("'uuid'", "7f0e1d2c3b4a49588776655443322110", "7f0e1d2c-3b4a49588776-655443322110"),
            ("'integer'", "4503599627370495", "4503599627370496"),
            ("{ form = 'integer', bits = 32 }", "1073741823", "1073741824"),
            ("{ form = 'integer', from = 1000000000000000 }", "0", "007"),
            ("{ form = 'text', prefix = 'usr_' }", "usr_1a2b", "usr_"),
            ("'slug'", "my-first-post", "a/b"),
            ("'ulid'", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01ARZ3NDEKTSV4RRFFQ69G5FA"),
        ] {
            let form = read(text).unwrap();
            assert!(form.fits(fits) && !form.fits(not), "{text}");
        }
    }

    #[test]
    fn a_form_that_cannot_be_meant_is_refused_with_what_can() {
        for (text, says) in [
            ("'snowflake'", "`snowflake` is no form of ids"),
            ("7", "the form of ids is"),
            ("{ form = 'uuid', bits = 32 }", "for \"integer\""),
            ("{ form = 'integer', prefix = 'a' }", "for \"text\""),
            ("{ form = 'integer', bits = 16 }", "32, 53 or 64"),
            ("{ form = 'integer', from = 10 }", "`from` is where"),
            ("{ form = 'integer', from = 9007199254740991 }", "`from` is where"),
            ("{ form = 'text', prefix = 'a/b' }", "`prefix` has at most"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
