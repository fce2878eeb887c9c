//! How the lists and totals of an application look, so that those of several sites can be made one.

use serde::Deserialize;

use crate::lookup::LookupQuery;
use crate::path::Pattern;
use crate::setting::Setting;

/// What is known of the application's lists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Lists {
    items: Option<String>,
    id: Option<String>,
    tag: Setting<String>,
    sum: Option<Vec<String>>,
    sum_headers: Option<Vec<String>>,
    drop: Option<Vec<String>>,
    join: Option<Vec<String>>,
    keyed: Option<bool>,
    sort: Setting<Sort>,
    paging: Setting<Paging>,
    lookup: Option<Vec<LookupQuery>>,
    /// Lists that differ from the rest. The first that fits counts.
    kinds: Vec<Kind>,
}

/// Lists of one kind: where they are, and what is different there.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    service: Option<String>,
    paths: Vec<Pattern>,
    #[serde(default = "yes")]
    merge: bool,
    items: Option<String>,
    id: Option<String>,
    #[serde(default)]
    tag: Setting<String>,
    sum: Option<Vec<String>>,
    sum_headers: Option<Vec<String>>,
    drop: Option<Vec<String>>,
    join: Option<Vec<String>>,
    keyed: Option<bool>,
    #[serde(default)]
    sort: Setting<Sort>,
    #[serde(default)]
    paging: Setting<Paging>,
    lookup: Option<Vec<LookupQuery>>,
}

/// How one list looks. Fields of items and members of envelopes are named by paths: `metadata.name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The member of the answer that has the items. Without it, the shape of the answer tells.
    pub items: Option<String>,
    /// The field that identifies an item at its site.
    pub id: String,
    /// The member that says an item's site. Without it items are left as they are.
    pub tag: Option<String>,
    /// Members of the envelope that are summed over the sites. A `*` is every member there.
    pub sum: Vec<String>,
    /// Headers with a number that is summed over the sites.
    pub sum_headers: Vec<String>,
    /// Lists beside the items that become one, each of their items once.
    pub join: Vec<String>,
    /// Items are members of an object, each named by its id, and not in an array.
    pub keyed: bool,
    /// Members of the envelope that make no sense for several sites.
    pub drop: Vec<String>,
    /// How lists are sorted.
    pub sort: Option<Sort>,
    /// How lists are told in pages.
    pub paging: Option<Paging>,
    /// The profile says of this path that a list is there: nothing else is.
    pub declared: bool,
    /// Queries that look something up, so that an empty list says that it is not there.
    pub lookup: Vec<LookupQuery>,
}

impl List {
    /// The same as JSON:API has it.
    #[must_use]
    pub fn as_json_api(&self) -> List {
        let mut list = self.clone();
        list.items = Some("data".to_owned());
        list.join.push("included".to_owned());
        list.sum.extend(["meta.total".to_owned(), "meta.count".to_owned()]);
        if let Some(paging) = &mut list.paging {
            paging.next.insert(0, Next::Member("links.next".to_owned()));
        }
        list
    }
}

impl Default for List {
    fn default() -> List {
        List {
            items: None,
            id: "id".to_owned(),
            tag: None,
            sum: Vec::new(),
            sum_headers: Vec::new(),
            join: Vec::new(),
            keyed: false,
            drop: Vec::new(),
            sort: None,
            paging: None,
            declared: false,
            lookup: Vec::new(),
        }
    }
}

/// How a request asks for an order, and which one there is if it does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sort {
    /// The query parameter that names a field, and can be repeated.
    pub keys: Option<String>,
    /// The query parameter with the direction of each of those, `asc` or `desc`.
    pub dirs: Option<String>,
    /// The query parameter that has fields and directions in one: `name:asc,size:desc`, `-name`.
    pub combined: Option<String>,
    /// Whether a field without a direction comes largest first.
    pub descending: bool,
    /// The order without any of these, as `combined` would say it. None: it is not known.
    pub default: Vec<String>,
    /// Fields that items have under another name than requests.
    pub fields: std::collections::BTreeMap<String, String>,
    /// Fields, by their names in items, that are dates.
    pub times: Vec<String>,
}

/// How a list is told in pages.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paging {
    /// The query parameter that limits the number of items.
    #[serde(default = "limit")]
    pub limit: String,
    /// The query parameter that says where the page starts.
    #[serde(default = "marker")]
    pub marker: String,
    /// The query parameter that says how many items come before the page. For services that count.
    pub offset: Option<String>,
    /// The query parameter that says which page it is, as `first` is the first.
    pub page: Option<String>,
    /// The number of the first page.
    #[serde(default = "one")]
    pub first: u64,
    /// How many items a page has without a limit.
    pub size: Option<u64>,
    /// How many items the service tells at once, at most, whatever it is asked for.
    pub largest: Option<u64>,
    /// Query parameters that count items or pages, or turn back: these cannot be split over sites.
    #[serde(default)]
    pub refuse: Vec<String>,
    /// How an answer tells that there is more. The first is used where none was seen.
    pub next: Vec<Next>,
    /// A full page without a `next` may still not be the last.
    #[serde(default)]
    pub guess: bool,
}

/// How an answer tells where the next page is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Next {
    /// A member with the next page's URL, or its path and query.
    Member(String),
    /// An array of links, in the member that has the items' name and this ending.
    Links(String),
    /// A member with a token, which takes the place of the marker. The items' ids do not.
    Token(String),
    /// The header `Link`, or another one of its form.
    Header(String),
}

/// A small document of numbers, such as usage or limits, of which sites have one each.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    service: Option<String>,
    paths: Vec<Pattern>,
    /// The numbers that are summed. A `*` is every member there.
    pub sum: Vec<String>,
    /// The number that means "no limit", also when others are added to it.
    pub unlimited: Option<i64>,
    /// The lists whose items are put into one list, site after site.
    #[serde(default)]
    pub join: Vec<String>,
}

impl Lists {
    /// What a GET of a path gives, or none if that is nothing to merge.
    #[must_use]
    pub fn of(&self, service: &str, path: &str) -> Option<List> {
        let base = List::default();
        let kind = self.kinds.iter().find(|kind| fits(kind.service.as_deref(), &kind.paths, service, path));
        if kind.is_some_and(|kind| !kind.merge) {
            return None;
        }
        let part =
            |own: Option<&Option<String>>, all: &Option<String>| own.cloned().flatten().or(all.clone());
        let many = |own: Option<&Option<Vec<String>>>, all: &Option<Vec<String>>| {
            own.cloned().flatten().or(all.clone()).unwrap_or_default()
        };
        Some(List {
            items: part(kind.map(|kind| &kind.items), &self.items),
            id: part(kind.map(|kind| &kind.id), &self.id).unwrap_or(base.id),
            tag: self.tag.under(kind.map(|kind| &kind.tag)),
            sum: many(kind.map(|kind| &kind.sum), &self.sum),
            sum_headers: many(kind.map(|kind| &kind.sum_headers), &self.sum_headers),
            drop: many(kind.map(|kind| &kind.drop), &self.drop),
            sort: self.sort.under(kind.map(|kind| &kind.sort)),
            paging: self.paging.under(kind.map(|kind| &kind.paging)),
            join: many(kind.map(|kind| &kind.join), &self.join),
            keyed: kind.and_then(|kind| kind.keyed).or(self.keyed).unwrap_or(false),
            declared: kind.is_some(),
            lookup: kind.and_then(|kind| kind.lookup.clone()).or(self.lookup.clone()).unwrap_or_default(),
        })
    }

    /// Whether any list is looked up by a query.
    pub(crate) fn look_up(&self) -> bool {
        self.lookup.is_some() || self.kinds.iter().any(|kind| kind.lookup.is_some())
    }

    /// Where a service has lists that are merged.
    pub(crate) fn paths<'l>(&'l self, service: &'l str) -> impl Iterator<Item = &'l Pattern> {
        let of = move |kind: &&Kind| kind.merge && kind.service.as_deref().is_none_or(|own| own == service);
        self.kinds.iter().filter(of).flat_map(|kind| &kind.paths)
    }

    /// The first name of a service that is none of the application's.
    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.kinds.iter().filter_map(|kind| kind.service.as_ref()).find(|name| !known(name))
    }

    /// What is wrong with these lists.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let kinds = || self.kinds.iter();
        if kinds().any(|kind| kind.paths.is_empty()) {
            return Some("a kind of list has no path");
        }
        let mut pagings = kinds().map(|kind| &kind.paging).chain([&self.paging]).filter_map(Setting::on);
        if pagings.any(|paging| paging.next.is_empty() || paging.limit == paging.marker) {
            return Some(
                "`paging` does not say how the next page is told, or has one parameter for two things",
            );
        }
        let mut pagings = kinds().map(|kind| &kind.paging).chain([&self.paging]).filter_map(Setting::on);
        if pagings.any(|paging| {
            let named =
                [Some(&paging.limit), Some(&paging.marker), paging.offset.as_ref(), paging.page.as_ref()];
            let named: Vec<&String> = named.into_iter().flatten().collect();
            let unique: std::collections::BTreeSet<&String> = named.iter().copied().collect();
            unique.len() < named.len()
                || paging.counts() && paging.largest.is_none_or(|largest| largest == 0)
                || paging.size == Some(0)
        }) {
            return Some(
                "`paging` has one parameter for two things, or counts (`offset`, `page`) and does not say the `largest` page \
                 that the service tells",
            );
        }
        let tags = kinds().map(|kind| &kind.tag).chain([&self.tag]).filter_map(Setting::on);
        let names = kinds().filter_map(|kind| kind.items.as_ref()).chain(&self.items);
        if tags.chain(names).any(String::is_empty) {
            return Some("a member has no name");
        }
        None
    }
}

impl Paging {
    /// Whether a parameter says where a page starts.
    pub(crate) fn is_position(&self, parameter: &str) -> bool {
        let counts = [&self.offset, &self.page].into_iter().flatten();
        self.marker == parameter || self.refuse.iter().chain(counts).any(|name| name == parameter)
    }

    /// Whether the service counts, and has no markers of its own.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.offset.is_some() || self.page.is_some()
    }
}

impl Totals {
    /// Whether a GET of a path gives such a document.
    #[must_use]
    pub fn fits(&self, service: &str, path: &str) -> bool {
        fits(self.service.as_deref(), &self.paths, service, path)
    }

    pub(crate) fn is_of(&self, service: &str) -> bool {
        self.service.as_deref().is_none_or(|own| own == service)
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Pattern> {
        self.paths.iter()
    }

    /// The service that is named, if it is none of the application's.
    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.service.as_ref().filter(|name| !known(name))
    }
}

fn fits(own: Option<&str>, paths: &[Pattern], service: &str, path: &str) -> bool {
    own.is_none_or(|own| own == service) && paths.iter().any(|pattern| pattern.fits(path))
}

fn yes() -> bool {
    true
}

fn one() -> u64 {
    1
}

fn limit() -> String {
    "limit".to_owned()
}

fn marker() -> String {
    "marker".to_owned()
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    use super::*;

    fn openstack(service: &str, path: &str) -> Option<List> {
        Profile::named("openstack").unwrap().lists.of(service, path)
    }

    #[test]
    fn a_rest_list_is_tagged_identified_by_its_id_and_paged_by_marker() {
        let list = Profile::named("rest").unwrap().lists.of("cart", "/v1/things").unwrap();
        assert_eq!((list.items, list.tag.as_deref(), list.id.as_str()), (None, Some("scope_site"), "id"));
        let paging = list.paging.unwrap();
        assert_eq!((paging.limit.as_str(), paging.marker.as_str()), ("limit", "marker"));
        assert!(paging.guess && paging.refuse.contains(&"offset".to_owned()));
        assert_eq!(paging.next.first(), Some(&Next::Member("next".to_owned())));
    }

    #[test]
    fn the_lists_of_openstack_are_known_by_service_and_path_also_behind_one_address() {
        for (service, path, items) in [
            ("image", "/v2/images", "images"),
            ("image", "/image/v2/images", "images"),
            ("compute", "/v2.1/servers/detail", "servers"),
            ("compute", "/compute/v2.1/flavors", "flavors"),
            ("network", "/networking/v2.0/security-groups", "security_groups"),
            ("identity", "/identity/v3/users", "users"),
            ("volume", "/v3/0123/volumes/detail", "volumes"),
        ] {
            let list = openstack(service, path).unwrap_or_else(|| panic!("{path}"));
            assert_eq!(list.items.as_deref(), Some(items), "{path}");
        }
        assert_eq!(openstack("compute", "/v2/images").unwrap().items, None, "another service's path");
    }

    #[test]
    fn the_versions_of_a_service_are_not_merged() {
        for path in ["/", "", "/v2.1", "/v2.1/", "/compute/v2.1/", "/v3"] {
            assert_eq!(openstack("compute", path), None, "{path}");
        }
    }

    #[test]
    fn glance_sorts_by_creation_the_latest_first_and_tells_the_next_path() {
        let list = openstack("image", "/v2/images").unwrap();
        assert_eq!(list.sort.unwrap().default, ["created_at:desc"]);
        assert_eq!(list.paging.unwrap().next, [Next::Member("next".to_owned())]);
    }

    #[test]
    fn a_kind_can_turn_off_what_the_application_has() {
        let text = "description = 'x'\n[lists]\ntag = 'site'\n[lists.paging]\nnext = [{ member = 'next' }]\n\
                    [[lists.kinds]]\npaths = ['/a']\ntag = false\npaging = false";
        let lists = Profile::read(text).unwrap().lists;
        let (off, on) = (lists.of("s", "/a").unwrap(), lists.of("s", "/b").unwrap());
        assert_eq!((off.tag, off.paging), (None, None));
        assert!(on.tag.is_some() && on.paging.is_some());
    }

    #[test]
    fn statistics_and_limits_of_compute_are_totals() {
        let profile = Profile::named("openstack").unwrap();
        let limits = profile.totals("compute", "/v2.1/limits").unwrap();
        assert_eq!(
            (limits.unlimited, limits.sum.as_slice()),
            (Some(-1), &["limits.absolute.*".to_owned()][..])
        );
        assert!(profile.totals("compute", "/v2.1/os-hypervisors/statistics").is_some());
        assert!(profile.totals("compute", "/v2.1/servers").is_none());
    }

    #[test]
    fn the_documented_profile_can_be_read() {
        let document = include_str!("../../../docs/lists.md");
        let text = document.split("```").nth(1).and_then(|block| block.strip_prefix("toml")).unwrap();
        let profile = Profile::read(&format!("description = 'x'\n{text}")).unwrap();
        assert_eq!(profile.lists.of("image", "/v2/images").unwrap().sum, ["total"]);
        assert!(profile.totals("compute", "/limits").is_some());
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, why) in [
            ("[lists]\nitem = 'x'", "unknown field `item`"),
            ("[lists]\ntag = true", "`false`, or what it is"),
            ("[lists.paging]\nnext = []", "how the next page is told"),
            ("[lists.paging]\nnext = [{ body = 'next' }]", "unknown variant `body`"),
            ("[lists.paging]\nnexts = []", "unknown field `nexts`"),
            ("[lists.paging]\nnext = [{ header = 'link' }]\npage = 'page'", "does not say the `largest`"),
            (
                "[lists.paging]\nnext = [{ header = 'link' }]\npage = 'limit'\nlargest = 9",
                "one parameter for two",
            ),
            ("[lists.sort]\nkey = 'x'", "unknown field `key`"),
            ("[[lists.kinds]]\npaths = []", "has no path"),
            ("[[lists.kinds]]\npaths = ['v2']", "starts with `/`"),
            ("[[lists.kinds]]\npaths = ['/v2']\nname = 'x'", "unknown field `name`"),
            ("[[totals]]\npaths = ['/v2']\nsums = []", "unknown field `sums`"),
            (
                "[services]\nimage = []\n[[lists.kinds]]\nservice = 'glance'\npaths = ['/v2']",
                "`glance`, which is no service",
            ),
        ] {
            let error = Profile::read(&format!("description = 'x'\n{text}")).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
