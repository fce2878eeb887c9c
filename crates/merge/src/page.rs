//! One page of a merged list: what is asked of each source, and where the next page starts.

use std::collections::BTreeSet;

use profile::{List, Next, Paging};

use crate::error::{PageRefused, Refused};
use crate::marker::{self, Position, Positions};
use crate::order::Order;
use crate::query;
use crate::tellers::{Mark, Tellers};
use crate::tree::Merged;

/// The client's request, as the next page's URL is made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Scheme and authority as the client sees them: `https://site1:8080`.
    pub origin: String,
    /// The path.
    pub path: String,
    /// The query, without its `?`.
    pub query: String,
}

/// What is asked for one page.
#[derive(Clone, Debug)]
pub struct Page {
    pub(crate) request: Request,
    pub(crate) order: Option<Order>,
    pub(crate) limit: Option<u64>,
    /// How many items come before it, where it was asked for by its number: they are of its sources' answers.
    pub(crate) before: u64,
    /// It was asked for so: what one lacks no later one tells.
    pub(crate) by_number: bool,
    /// The client takes pages: it gave a limit or a marker.
    pub(crate) paged: bool,
    /// By source.
    pub(crate) asked: Vec<Asked>,
    /// Positions of sites that are not among the sources now. They may be again.
    others: Positions,
    /// How sources mark what several have, if they are asked to.
    pub(crate) mark: Option<Mark>,
    /// Who tells what several have, as earlier pages fixed it.
    pub(crate) tellers: Tellers,
}

/// What is asked of one source.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) site: String,
    pub(crate) position: Position,
    pub(crate) limit: Option<u64>,
    /// How many items of its answer were told already.
    pub(crate) skip: u64,
    /// None: nothing is asked.
    query: Option<String>,
}

impl Page {
    /// Splits the client's limit and marker. `sites` are the names of the sources, by their numbers.
    pub fn plan(list: &List, tree: &Merged, request: &Request, sites: &[&str]) -> Result<Page, Refused> {
        let text = request.query.as_str();
        let order = list.sort.as_ref().and_then(|sort| Order::of(sort, text));
        let mut page = Page {
            request: request.clone(),
            order,
            limit: None,
            before: 0,
            by_number: false,
            paged: false,
            asked: Vec::new(),
            others: Positions::new(),
            mark: None,
            tellers: Tellers::default(),
        };
        if let Some(paging) = &list.paging {
            if let Some(name) = paging.refuse.iter().find(|name| query::first(text, name).is_some()) {
                return Err(Refused::Counted { parameter: name.clone() });
            }
            // What none means, or what is no number, is the service's to say.
            let limit = query::first(text, &paging.limit).and_then(|limit| limit.parse().ok());
            page.limit = limit.filter(|limit| *limit > 0);
            let marker = query::first(text, &paging.marker).filter(|marker| !marker.is_empty());
            page.count(paging)?;
            page.paged = page.limit.is_some() || marker.is_some();
            if let Some(marker) = marker {
                let (positions, tellers) = marker::read(&marker)?;
                page.others = positions;
                page.tellers = Tellers::fixed(tellers, sites);
            }
        }
        let used = tree.leaves();
        let unique: BTreeSet<usize> =
            used.iter().filter(|(_, unique)| *unique).map(|(source, _)| *source).collect();
        for (source, site) in sites.iter().enumerate() {
            let unique = unique.contains(&source);
            let position = page.others.remove(*site).unwrap_or_default();
            page.asked.push(asked(site, position, unique, list.paging.as_ref(), &page));
        }
        if used.iter().all(|(source, _)| page.asked.get(*source).is_none_or(|asked| asked.position.done)) {
            return Err(Refused::Marker { why: "has nothing left at these sites" });
        }
        Ok(page)
    }

    /// A page by its number, or after so many items: it is cut out of the first items of all.
    fn count(&mut self, paging: &Paging) -> Result<(), Refused> {
        let text = self.request.query.as_str();
        let mut named = [&paging.offset, &paging.page].into_iter().flatten();
        let said = named.find_map(|name| Some((name, query::first(text, name)?)));
        let Some((name, value)) = said else {
            // Of a service that counts, later pages are asked for by their numbers, too.
            self.limit = self.limit.or(paging.size.filter(|_| paging.counts()));
            return Ok(());
        };
        let refused = |why| Refused::Page { parameter: name.clone(), why };
        let number: u64 = value.parse().map_err(|_| refused(PageRefused::NoNumber))?;
        let limit = self.limit.or(paging.size).ok_or(refused(PageRefused::NoSize))?;
        let before = if paging.offset.as_ref() == Some(name) {
            number
        } else {
            let pages = number.checked_sub(paging.first).ok_or(refused(PageRefused::NoNumber))?;
            pages.saturating_mul(limit)
        };
        let (window, largest) = (before.saturating_add(limit), paging.largest.unwrap_or(0));
        if window > largest {
            return Err(refused(PageRefused::TooFar { window, largest }));
        }
        (self.limit, self.before, self.by_number) = (Some(limit), before, true);
        Ok(())
    }

    /// Sources mark what several have in this way.
    #[must_use]
    pub fn marked(mut self, mark: Mark) -> Page {
        self.mark = Some(mark);
        self
    }

    /// Sources that earlier pages left something to, and that have more to tell. A page without one lacks what it tells.
    pub fn owing(&self) -> impl Iterator<Item = usize> {
        let owes = |source: &usize| self.asked.get(*source).is_some_and(|asked| !asked.position.done);
        self.tellers.sources().filter(owes)
    }

    /// The query to send to a source, or none if there is nothing to ask of it.
    #[must_use]
    pub fn query(&self, source: usize) -> Option<&str> {
        self.asked.get(source)?.query.as_deref()
    }

    /// The URL of the page that begins at these positions, or its path and query.
    pub(crate) fn url(&self, paging: &Paging, marker: &str, absolute: bool) -> String {
        let mut text = query::without(&self.request.query, &placing(paging));
        query::add(&mut text, &paging.marker, marker);
        let origin = if absolute { self.request.origin.as_str() } else { "" };
        format!("{origin}{}?{text}", self.request.path)
    }

    /// The marker of the next page, or none if nothing is left or nothing would change.
    pub(crate) fn marker(&self, next: &[Position], tellers: &Tellers) -> Option<String> {
        let moved = self.asked.iter().zip(next).any(|(asked, next)| asked.position != *next);
        if !moved || next.iter().all(|position| position.done) {
            return None;
        }
        let mut positions = self.others.clone();
        for (asked, next) in self.asked.iter().zip(next) {
            if *next != Position::default() {
                positions.insert(asked.site.clone(), next.clone());
            }
        }
        Some(marker::write(&positions, tellers.sites()))
    }
}

fn asked(site: &str, position: Position, unique: bool, paging: Option<&Paging>, page: &Page) -> Asked {
    let skip = position.skip;
    let mut asked = Asked { site: site.to_owned(), position, limit: None, skip, query: None };
    if asked.position.done {
        return asked;
    }
    let Some(paging) = paging else {
        asked.query = Some(page.request.query.clone());
        return asked;
    };
    let mut taken = placing(paging);
    if page.limit.is_some() {
        taken.push(paging.limit.as_str());
    }
    let mut query = query::without(&page.request.query, &taken);
    // What exactly one site has is known only with all that each has.
    if !unique {
        if let Some(limit) = page.limit {
            let place = by_number(paging, &asked.position, limit);
            let limit = match &place {
                Some((name, number, skip)) => {
                    query::add(&mut query, name, &number.to_string());
                    asked.skip = *skip;
                    limit
                }
                None => limit.saturating_add(page.before).saturating_add(asked.position.skip),
            };
            query::add(&mut query, &paging.limit, &limit.to_string());
            asked.limit = Some(limit);
        }
        if let Some(after) = &asked.position.after {
            query::add(&mut query, &paging.marker, after);
        }
    }
    asked.query = Some(query);
    asked
}

/// The parameters that say where a page is.
fn placing(paging: &Paging) -> Vec<&str> {
    let counts = [&paging.offset, &paging.page].into_iter().flatten();
    counts.chain([&paging.marker]).map(String::as_str).collect()
}

/// How a service that counts is asked for what comes after a position: a parameter, its value, and how many items of what
/// it tells then were told already. Nothing at its start.
fn by_number<'p>(paging: &'p Paging, position: &Position, limit: u64) -> Option<(&'p str, u64, u64)> {
    let told = position.skip;
    if told == 0 || position.after.is_some() || limit == 0 {
        return None;
    }
    match (&paging.offset, &paging.page) {
        (Some(offset), _) => Some((offset.as_str(), told, 0)),
        (None, Some(page)) => Some((page.as_str(), paging.first.saturating_add(told / limit), told % limit)),
        (None, None) => None,
    }
}

/// Whether the site's own positions are tokens, which say nothing of items.
pub(crate) fn has_tokens(paging: &Paging) -> bool {
    paging.next.iter().any(|next| matches!(next, Next::Token(_)))
}

/// The URL that a header such as `Link` gives for the next page.
pub(crate) fn of_header(value: &str) -> Option<String> {
    // A comma can be in a URL, so the brackets lead.
    value.split('<').skip(1).find_map(|link| {
        let (url, parameters) = link.split_once('>')?;
        let is_next = |parameter: &str| {
            let (name, value) = parameter.split_once('=')?;
            let value = value.trim().trim_end_matches(',').trim().trim_matches('"');
            let next = name.trim().eq_ignore_ascii_case("rel")
                && value.split(' ').any(|rel| rel.eq_ignore_ascii_case("next"));
            next.then_some(())
        };
        parameters.split(';').find_map(is_next).map(|()| url.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found_among_the_links_of_a_header() {
        let find = |value| of_header(value).unwrap_or_default();
        assert_eq!(find("</a?b=1,2>; rel=\"next\""), "/a?b=1,2");
        assert_eq!(
            find("<http://x/1>; rel=prev, <http://x/3>; title=\"x\"; rel=\"last next\""),
            "http://x/3"
        );
        assert_eq!(find("</a>; rel=next , </b>; rel=prev"), "/a");
        assert_eq!(of_header("</a>; rel=\"prev\""), None);
        assert_eq!(of_header("garbage"), None);
    }

    #[test]
    fn offsets_and_foreign_markers_are_refused_with_what_to_do() {
        let list = profile::Profile::named("rest").unwrap().lists.of("a", "/b").unwrap();
        let tree = Merged::Union(vec![Merged::Source(0), Merged::Source(1)]);
        let plan = |query: &str| {
            let request = Request { query: query.to_owned(), ..Request::default() };
            Page::plan(&list, &tree, &request, &["A", "B"])
        };
        assert_eq!(plan("page=2").unwrap_err(), Refused::Counted { parameter: "page".into() });
        assert!(plan("offset=2&limit=1").unwrap_err().to_string().contains("`offset` cannot be split"));
        assert!(plan("marker=7").unwrap_err().to_string().contains("not one of a merged list"));
        let page = plan("a=b&limit=3&c=d").unwrap();
        assert_eq!(page.query(0), Some("a=b&c=d&limit=3"));
        assert_eq!(plan("limit=all").unwrap().query(1), Some("limit=all"));
    }
}
