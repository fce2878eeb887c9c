//! Reading a table: keys are taken out of it, and what is left at the end nobody knows.
//!
//! A value that cannot be used is noted as a fault and reading goes on with the default, so that one
//! reading finds every fault. The result is thrown away if there was any.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::time::Duration;

use scope::{Diagnostic, parse_duration, print_duration};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Code, Fault, Faults};

/// No wait is longer: past a day somebody has written `min` for `ms`.
const LONGEST: Duration = Duration::from_hours(24);

/// The file that is read, and what was found wrong so far.
pub(super) struct Document<'d> {
    origin: &'d str,
    text: &'d str,
    /// What the paths in the file are relative to.
    base: &'d Path,
    faults: RefCell<Vec<Fault>>,
}

impl<'d> Document<'d> {
    pub(super) fn new(origin: &'d str, text: &'d str, base: &'d Path) -> Self {
        Document { origin, text, base, faults: RefCell::new(Vec::new()) }
    }

    pub(super) fn note(&self, fault: Fault) {
        self.faults.borrow_mut().push(fault);
    }

    /// Ends the reading: what was read, if nothing is wrong with it.
    pub(super) fn finish<T>(self, read: Option<T>) -> Result<T, Faults> {
        let faults = self.faults.into_inner();
        match read {
            Some(read) if faults.is_empty() => Ok(read),
            _ => Err(Faults::new(self.origin, self.text, faults)),
        }
    }

    /// The outermost table. If the text is not TOML it is empty: what could be saved of it would only
    /// give faults that are not there.
    pub(super) fn root(&'d self) -> Option<Table<'d>> {
        let (root, errors) = DeTable::parse_recoverable(self.text);
        if errors.is_empty() {
            return Some(Table::new(self, String::new(), 0..0, root.into_inner()));
        }
        for error in errors {
            let at = error.span().unwrap_or(0..0);
            self.note(Fault::new(Code::Toml, format!("this is not TOML: {}", error.message()), at, "here"));
        }
        None
    }
}

/// One table of the file.
pub(super) struct Table<'d> {
    document: &'d Document<'d>,
    /// Its name with those of the tables around it, such as `services.image`; none for the outermost.
    path: String,
    /// Its name, where it stands.
    at: Range<usize>,
    entries: DeTable<'d>,
    /// The keys that were asked for.
    known: Vec<&'static str>,
}

impl<'d> Table<'d> {
    fn new(document: &'d Document<'d>, path: String, at: Range<usize>, entries: DeTable<'d>) -> Self {
        Table { document, path, at, entries, known: Vec::new() }
    }

    /// Takes a key out.
    pub(super) fn take(&mut self, key: &'static str) -> Option<Entry<'d>> {
        self.known.push(key);
        let (name, value) = self.entries.remove_entry(key)?;
        Some(self.entry(name, value))
    }

    /// Takes out a key that must be there.
    pub(super) fn require(&mut self, key: &'static str) -> Option<Entry<'d>> {
        let entry = self.take(key);
        if entry.is_none() {
            self.missing(key, "is missing");
        }
        entry
    }

    /// Notes that a key is not there.
    pub(super) fn missing(&self, key: &str, why: &str) {
        let message = format!("`{}` {why}", self.path_of(key));
        let label = if self.path.is_empty() { "expected in this file" } else { "expected in this table" };
        self.document.note(Fault::new(Code::MissingKey, message, self.at.clone(), label));
    }

    /// Takes out a table, empty if it is not there.
    pub(super) fn table(&mut self, key: &'static str) -> Table<'d> {
        let empty = Table::new(self.document, self.path_of(key), self.at.clone(), DeTable::new());
        self.take(key).and_then(Entry::table).unwrap_or(empty)
    }

    /// A path in the directory of the file.
    pub(super) fn beside(&self, path: &str) -> PathBuf {
        self.document.base.join(path)
    }

    /// Notes a fault that no single entry has.
    pub(super) fn note(&self, fault: Fault) {
        self.document.note(fault);
    }

    /// A whole number.
    pub(super) fn count(&mut self, key: &'static str, range: RangeInclusive<usize>, default: usize) -> usize {
        self.take(key).and_then(|entry| entry.count(range)).unwrap_or(default)
    }

    /// A time that is not zero.
    pub(super) fn duration(&mut self, key: &'static str, default: Duration) -> Duration {
        self.take(key).and_then(|entry| entry.duration()).unwrap_or(default)
    }

    /// Everything that is left, in the order of the file: for tables whose keys are names.
    pub(super) fn entries(mut self) -> Vec<Entry<'d>> {
        let entries = std::mem::take(&mut self.entries);
        let mut entries: Vec<Entry<'d>> =
            entries.into_iter().map(|(name, value)| self.entry(name, value)).collect();
        entries.sort_by_key(|entry| entry.key.start);
        entries
    }

    /// Notes every key that nobody asked for.
    pub(super) fn finish(mut self) {
        let known = std::mem::take(&mut self.known);
        let (document, place) = (self.document, self.place());
        for entry in self.entries() {
            let message = format!("unknown key `{}`", entry.path);
            let fault = Fault::new(
                Code::UnknownKey,
                message,
                entry.key.clone(),
                format!("{place} has no key of this name"),
            );
            document.note(fault.suggest(entry.key, "key", &entry.name, known.iter().copied()));
        }
    }

    fn place(&self) -> String {
        if self.path.is_empty() { "the file".to_owned() } else { format!("`{}`", self.path) }
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    fn entry(&self, name: Spanned<Cow<'d, str>>, value: Spanned<DeValue<'d>>) -> Entry<'d> {
        Entry {
            document: self.document,
            path: self.path_of(name.get_ref()),
            key: name.span(),
            name: name.into_inner(),
            at: value.span(),
            value: value.into_inner(),
        }
    }
}

/// One key of a table and its value, or one item of a list.
pub(super) struct Entry<'d> {
    document: &'d Document<'d>,
    path: String,
    /// Where the key stands.
    pub(super) key: Range<usize>,
    /// The key.
    pub(super) name: Cow<'d, str>,
    /// Where the value stands.
    pub(super) at: Range<usize>,
    value: DeValue<'d>,
}

impl<'d> Entry<'d> {
    /// A fault of the value.
    pub(super) fn note(&self, code: Code, message: impl Display, label: impl Into<String>) {
        let message = format!("`{}` {message}", self.path);
        self.document.note(Fault::new(code, message, self.at.clone(), label));
    }

    /// A fault of the key, when it is a name.
    pub(super) fn note_key(&self, code: Code, message: impl Into<String>, label: impl Into<String>) {
        self.note_fault(Fault::new(code, message, self.key.clone(), label));
    }

    pub(super) fn note_fault(&self, fault: Fault) {
        self.document.note(fault);
    }

    /// A fault that the language found in the value.
    pub(super) fn note_scope(&self, diagnostic: Diagnostic) {
        match self.content() {
            Some(content) => {
                let diagnostic = diagnostic.inside(self.document.origin, self.document.text, content.start);
                self.document.note(Fault::scope(diagnostic, content.start));
            }
            // Escapes stand for other characters: the whole string is all that can be pointed at.
            None => self.note(Code::Value, "cannot be used", diagnostic.to_string()),
        }
    }

    /// A fault of a name, in the key or the value: it is none of those `known`.
    pub(super) fn note_unknown<'n, K>(&self, what: &str, written: &str, at: Range<usize>, known: K)
    where
        K: Iterator<Item = &'n str> + Clone,
    {
        let message = format!("no {what} is called `{written}`");
        let fault = Fault::new(Code::Name, message, at.clone(), format!("not a known {what}"));
        self.document.note(fault.suggest(at, what, written, known));
    }

    /// Where some characters of a string stand; the whole of it, if it has escapes.
    pub(super) fn within(&self, part: Range<usize>) -> Range<usize> {
        self.content().map_or(self.at.clone(), |all| all.start + part.start..all.start + part.end)
    }

    /// Where the characters of a string stand, if they are written as they are.
    fn content(&self) -> Option<Range<usize>> {
        let value = self.value.as_str()?;
        let written = self.document.text.get(self.at.clone())?;
        let start = self.at.start + written.find(value)?;
        Some(start..start + value.len())
    }

    fn wrong_type(&self, wanted: &str) {
        let found = match &self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a float",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.note(Code::Type, format!("has {found}, and needs {wanted}"), format!("write {wanted}"));
    }

    pub(super) fn is_string(&self) -> bool {
        matches!(self.value, DeValue::String(_))
    }

    pub(super) fn is_table(&self) -> bool {
        matches!(self.value, DeValue::Table(_))
    }

    pub(super) fn string(&self) -> Option<&str> {
        let string = self.value.as_str();
        if string.is_none() {
            self.wrong_type("a string");
        }
        string
    }

    /// A string that means something else; if not, `read` says what is expected.
    pub(super) fn parsed<T>(
        &self,
        code: Code,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<Spanned<T>> {
        let text = self.string()?;
        match read(text) {
            Ok(value) => Some(Spanned::new(self.at.clone(), value)),
            Err(why) => {
                self.note(code, format!("cannot be `{}`", text.escape_debug()), why);
                None
            }
        }
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(&self, what: &str, words: &[(&str, T)]) -> Option<T> {
        let written = self.string()?;
        let found = words.iter().find(|(word, _)| *word == written);
        if found.is_none() {
            let at = self.within(0..written.len());
            self.note_unknown(what, written, at, words.iter().map(|(word, _)| *word));
        }
        found.map(|(_, meaning)| *meaning)
    }

    pub(super) fn boolean(&self) -> Option<bool> {
        let boolean = self.value.as_bool();
        if boolean.is_none() {
            self.wrong_type("`true` or `false`");
        }
        boolean
    }

    pub(super) fn count(&self, range: RangeInclusive<usize>) -> Option<usize> {
        let Some(integer) = self.value.as_integer() else {
            self.wrong_type("a whole number");
            return None;
        };
        let count = usize::from_str_radix(integer.as_str(), integer.radix()).ok();
        let count = count.filter(|count| range.contains(count));
        if count.is_none() {
            let label = format!("expected {} to {}", range.start(), range.end());
            self.note(Code::Value, "is out of range", label);
        }
        count
    }

    pub(super) fn duration(&self) -> Option<Duration> {
        if !self.is_string() {
            self.wrong_type("a duration in quotes, such as `\"60s\"`");
            return None;
        }
        let duration = self.parsed(Code::Value, parse_duration)?.into_inner();
        if duration.is_zero() || duration > LONGEST {
            let label = format!("expected more than zero, and at most {}", print_duration(LONGEST));
            self.note(Code::Value, "is out of range", label);
            return None;
        }
        Some(duration)
    }

    /// A list that is not empty.
    pub(super) fn list(self) -> Vec<Entry<'d>> {
        if let DeValue::Array(items) = &self.value
            && items.is_empty()
        {
            self.note(Code::Value, "is empty", "expected at least one");
        }
        let DeValue::Array(items) = self.value else {
            self.wrong_type("a list");
            return Vec::new();
        };
        let item = |(index, item): (usize, Spanned<DeValue<'d>>)| Entry {
            document: self.document,
            path: format!("{}[{index}]", self.path),
            key: self.key.clone(),
            name: self.name.clone(),
            at: item.span(),
            value: item.into_inner(),
        };
        items.into_iter().enumerate().map(item).collect()
    }

    pub(super) fn table(self) -> Option<Table<'d>> {
        let DeValue::Table(entries) = self.value else {
            self.wrong_type("a table");
            return None;
        };
        Some(Table::new(self.document, self.path, self.key, entries))
    }

    /// A path, from the directory of the file on.
    pub(super) fn path(&self) -> Option<PathBuf> {
        let path = self.string()?;
        if path.is_empty() {
            self.note(Code::Value, "is empty", "expected a path");
            return None;
        }
        Some(self.document.base.join(path))
    }

    /// A file that can be read.
    pub(super) fn file(&self) -> Option<PathBuf> {
        let path = self.path()?;
        self.note_unless_readable(&path).then_some(path)
    }

    /// Opens the file now: at three in the morning, on a restart, is too late to learn that it is gone.
    pub(super) fn note_unless_readable(&self, path: &Path) -> bool {
        let why = match std::fs::File::open(path).and_then(|file| file.metadata()) {
            Ok(metadata) if metadata.is_file() => return true,
            Ok(_) => "not a file".to_owned(),
            Err(error) => without_number(&error),
        };
        self.note(Code::File, format!("needs the file `{}`", path.display()), why);
        false
    }
}

/// What the system says, without `(os error 2)`: the words are for people, and the same everywhere.
fn without_number(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error").map_or(text.as_str(), |(words, _)| words).to_lowercase()
}
