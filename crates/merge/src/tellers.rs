//! Who tells what several sites have: one site for each resource, the same on every page.
//!
//! A site whose list has replicated resources marks each with the sources of the merged list that have one ([`Mark`]),
//! and says of which it does not know yet that the others have got them ([`Unconfirmed`]). The first page's answers
//! make the [`Tellers`] of that: the sites in an order, each with what it may lack. A resource is told by the first of
//! them that has it and is not said to lack it, and by nobody else. The marker carries them, so that it stays the same
//! whatever happens between two pages. A site that comes later is added behind the others.

use std::collections::{BTreeMap, BTreeSet};

use data_encoding::BASE64URL_NOPAD;

use crate::marker::{get, get_number, put, put_number};

/// How many resources one site may lack by name, and how long their ids may be together: markers are in URLs.
const MOST_LACKING: usize = 32;
const MOST_LACKING_BYTES: usize = 1 << 10;

/// The sources of a merged list that have a resource. It stands at the end of an item, in a member of a name that only
/// the one who asked knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    start: String,
    sources: usize,
}

impl Mark {
    /// For items of a list of so many sources. The secret is of letters, digits and hyphens.
    #[must_use]
    pub fn new(secret: &str, sources: usize) -> Mark {
        Mark { start: format!(",\"archipel-{secret}\":\""), sources }
    }

    /// Writes an object with its mark. Anything else is written as it is.
    pub(crate) fn write(&self, item: &[u8], has: impl Fn(usize) -> bool, out: &mut Vec<u8>) {
        let Some(open) = item.strip_suffix(b"}") else { return out.extend_from_slice(item) };
        out.extend_from_slice(open);
        out.extend_from_slice(self.start.as_bytes());
        out.extend((0..self.sources).map(|source| if has(source) { b'+' } else { b'-' }));
        out.extend_from_slice(b"\"}");
    }

    /// How long a marked item is without its mark and its last brace, if it is marked.
    pub(crate) fn find(&self, item: &[u8]) -> Option<usize> {
        let marked = item.strip_suffix(b"\"}")?;
        let open = marked.len().checked_sub(self.sources + self.start.len())?;
        let is_marked = marked.get(open..)?.starts_with(self.start.as_bytes());
        is_marked.then_some(open)
    }

    /// The sources in the mark of an item.
    pub(crate) fn sources<'i>(&self, item: &'i [u8]) -> impl Fn(usize) -> bool + use<'i> {
        let marks = item.strip_suffix(b"\"}").unwrap_or_default();
        let marks = marks.get(marks.len().saturating_sub(self.sources)..).unwrap_or_default();
        move |source| marks.get(source) == Some(&b'+')
    }
}

/// The resources that a site is not known to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lacking {
    These(BTreeSet<String>),
    /// More than can be named: the site is asked last.
    Many,
}

impl Default for Lacking {
    fn default() -> Lacking {
        Lacking::These(BTreeSet::new())
    }
}

impl Lacking {
    fn add(&mut self, id: &str) {
        let Lacking::These(ids) = self else { return };
        let bytes: usize = ids.iter().map(String::len).sum();
        if ids.contains(id) {
            return;
        }
        if ids.len() >= MOST_LACKING || bytes + id.len() > MOST_LACKING_BYTES {
            *self = Lacking::Many;
        } else {
            ids.insert(id.to_owned());
        }
    }

    fn join(&mut self, other: &Lacking) {
        match other {
            Lacking::Many => *self = Lacking::Many,
            Lacking::These(ids) => ids.iter().for_each(|id| self.add(id)),
        }
    }

    fn has(&self, id: &str) -> bool {
        matches!(self, Lacking::These(ids) if ids.contains(id))
    }

    pub(crate) fn write(&self, bytes: &mut Vec<u8>) {
        match self {
            Lacking::Many => put_number(bytes, 0),
            Lacking::These(ids) => {
                put_number(bytes, ids.len() as u64 + 1);
                for id in ids {
                    put(bytes, id.as_bytes());
                }
            }
        }
    }

    pub(crate) fn read(rest: &mut &[u8]) -> Option<Lacking> {
        let Some(count) = get_number(rest)?.checked_sub(1) else { return Some(Lacking::Many) };
        let mut ids = BTreeSet::new();
        for _ in 0..count {
            ids.insert(get(rest)?);
        }
        Some(Lacking::These(ids))
    }
}

/// A site's word on the resources of a list that it has: of which it does not know yet that another source has got them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unconfirmed {
    sources: BTreeMap<usize, Lacking>,
}

impl Unconfirmed {
    /// Notes a resource that a source is to have, and is not known to.
    pub fn add(&mut self, source: usize, id: &str) {
        self.sources.entry(source).or_default().add(id);
    }

    /// Notes a resource that a source is known to have since a moment ago, where there is room: the answer of that source may be
    /// of before.
    pub fn add_late(&mut self, source: usize, id: &str) {
        let lacking = self.sources.entry(source).or_default();
        let mut more = lacking.clone();
        more.add(id);
        if more != Lacking::Many {
            *lacking = more;
        }
    }

    /// Whether so many were noted for each of the sources that no more are of use.
    #[must_use]
    pub fn is_full(&self, sources: usize) -> bool {
        self.sources.len() >= sources && self.sources.values().all(|lacking| *lacking == Lacking::Many)
    }

    /// As the value of a header.
    #[must_use]
    pub fn to_header(&self) -> String {
        let mut bytes = Vec::new();
        for (source, lacking) in &self.sources {
            put_number(&mut bytes, *source as u64);
            lacking.write(&mut bytes);
        }
        format!("1{}", BASE64URL_NOPAD.encode(&bytes))
    }

    /// Reads a header; nothing where any of it cannot be read.
    fn of_header(value: &str) -> Option<Unconfirmed> {
        let bytes = BASE64URL_NOPAD.decode(value.strip_prefix('1')?.as_bytes()).ok()?;
        let (mut rest, mut sources) = (bytes.as_slice(), BTreeMap::new());
        while !rest.is_empty() {
            let source = usize::try_from(get_number(&mut rest)?).ok()?;
            sources.insert(source, Lacking::read(&mut rest)?);
        }
        Some(Unconfirmed { sources })
    }
}

/// One site that tells what several have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Teller {
    pub(crate) site: String,
    pub(crate) lacking: Lacking,
}

/// The sites of a list that answered for the first time on this page, with their words.
pub(crate) struct Joining<'a> {
    pub(crate) source: usize,
    pub(crate) site: &'a str,
    pub(crate) unconfirmed: Option<&'a str>,
}

/// The sites that tell what several have, in the order in which they are asked for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tellers {
    /// Each with its source now, if it is one.
    sites: Vec<(Teller, Option<usize>)>,
    /// Sources whose words could not be read: what the sites that joined with them lack is unknown.
    unread: BTreeSet<usize>,
}

impl Tellers {
    /// As a marker has them.
    pub(crate) fn fixed(sites: Vec<Teller>, names: &[&str]) -> Tellers {
        let source = |site: &str| names.iter().position(|name| *name == site);
        let sites = sites.into_iter().map(|teller| {
            let source = source(&teller.site);
            (teller, source)
        });
        Tellers { sites: sites.collect(), unread: BTreeSet::new() }
    }

    /// Adds those that answer now, behind the others: first those that have what they are to have.
    pub(crate) fn join(&mut self, joining: &[Joining<'_>]) {
        let is_new = |joining: &&Joining<'_>| self.sites.iter().all(|(own, _)| own.site != joining.site);
        let new: Vec<&Joining<'_>> = joining.iter().filter(is_new).collect();
        let (mut lacking, mut words) = (BTreeMap::<usize, Lacking>::new(), Vec::new());
        for (source, word) in joining.iter().filter_map(|own| Some((own.source, own.unconfirmed?))) {
            let others = || new.iter().map(|other| other.source).filter(|other| *other != source);
            match Unconfirmed::of_header(word) {
                Some(word) => words.push((source, word)),
                // Any other may lack what this source has.
                None if others().next().is_some() => {
                    self.unread.insert(source);
                    lacking.extend(others().map(|other| (other, Lacking::Many)));
                }
                None => {}
            }
        }
        for (source, lacks) in words.iter().flat_map(|(_, word)| &word.sources) {
            lacking.entry(*source).or_default().join(lacks);
        }
        // Who speaks of a resource has it, whatever others know.
        for (source, word) in &words {
            if let Some(Lacking::These(ids)) = lacking.get_mut(source) {
                ids.retain(|id| !word.sources.values().any(|lacks| lacks.has(id)));
            }
        }
        let new = new.into_iter().map(|joining| {
            let lacking = lacking.remove(&joining.source).unwrap_or_default();
            (Teller { site: joining.site.to_owned(), lacking }, Some(joining.source))
        });
        let (last, first): (Vec<_>, Vec<_>) = new.partition(|(own, _)| own.lacking == Lacking::Many);
        self.sites.extend(first.into_iter().chain(last));
    }

    /// The source that tells a resource, if any does.
    pub(crate) fn of(&self, has: impl Fn(usize) -> bool, id: &str) -> Option<usize> {
        let tells =
            |(teller, source): &&(Teller, Option<usize>)| source.is_some_and(&has) && !teller.lacking.has(id);
        self.sites.iter().find(tells).and_then(|(_, source)| *source)
    }

    /// For a marker.
    pub(crate) fn sites(&self) -> impl Iterator<Item = &Teller> {
        self.sites.iter().map(|(teller, _)| teller)
    }

    /// The sources of this page that are among them.
    pub(crate) fn sources(&self) -> impl Iterator<Item = usize> {
        self.sites.iter().filter_map(|(_, source)| *source)
    }

    /// Sources whose words could not be read, where a site's place among the tellers depends on them.
    pub(crate) fn unread(&self) -> impl Iterator<Item = usize> {
        self.unread.iter().copied()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sites of a list, each with its word, as its first page joins them.
    fn joined(words: &[&str]) -> Tellers {
        let names = ["A", "B", "C"];
        let joining: Vec<Joining<'_>> = names
            .iter()
            .zip(words)
            .enumerate()
            .map(|(source, (site, word))| Joining { source, site, unconfirmed: Some(word) })
            .collect();
        let mut tellers = Tellers::default();
        tellers.join(&joining);
        tellers
    }

    #[test]
    fn word_that_cannot_be_read_is_unknown_not_nothing_lacking() {
        let mut word = Unconfirmed::default();
        word.add(0, "x");
        let (good, whole) = (Unconfirmed::default().to_header(), word.to_header());
        assert_eq!(Unconfirmed::of_header(&whole), Some(word));
        let cut = whole.get(..whole.len() - 2).unwrap();
        for unreadable in ["", "1", "1*", "2", cut, "\u{fffd}"].into_iter().filter(|word| *word != good) {
            assert_eq!(Unconfirmed::of_header(unreadable), None, "{unreadable}");
            let tellers = joined(&[good.as_str(), unreadable]);
            assert_eq!(tellers.unread().collect::<Vec<_>>(), [1], "{unreadable}");
            // Whose word it is has what it tells; whether the other has it is unknown.
            assert_eq!(tellers.of(|_| true, "x"), Some(1), "{unreadable}");
        }
        assert_eq!(joined(&[good.as_str(), good.as_str()]).unread().count(), 0);
    }

    #[test]
    fn word_on_a_later_page_counts_only_where_a_site_joins() {
        let mut tellers = joined(&["1", "1"]);
        let of = |source, site| Joining { source, site, unconfirmed: Some("unreadable") };
        tellers.join(&[of(0, "A"), of(1, "B")]);
        assert_eq!(tellers.unread().count(), 0, "both have their places");
        tellers.join(&[of(0, "A"), of(2, "C")]);
        assert_eq!(tellers.unread().collect::<Vec<_>>(), [0]);
    }
}
