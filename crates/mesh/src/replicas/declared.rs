//! Ids that are replaced only where the profile says that they are: numbers that count, short texts.
//!
//! Such an id is another thing's, too. So it is replaced as a segment of its own collection's paths, in the member of a document
//! that has its id, in members and parameters that refer to its kind, and in addresses. Everything else stays to the byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use http::header::LOCATION;
use http::{Method, StatusCode, response};
use ids::{Direction, Found, Placed, PlacedTable, Places, PlacesRewriter, Refused};
use profile::{Kind, Kinds, Next};
use replica::Meta;

use super::exact::Exact;
use super::references::Named;
use super::understand::{plain, step_path};
use super::{Known, Name};
use crate::core::{Snapshot, State};

/// Whose the id in a place is.
#[derive(Clone, Debug)]
enum Owner {
    /// Of this collection, which has these.
    Collection(Name, PlacedTable),
    /// Of one of these, which are all that a kind has here.
    Kind(Vec<(Name, PlacedTable)>),
    /// It is an address with ids in it.
    Address,
}

/// What may be an id in the requests and answers of one path of a service.
#[derive(Clone)]
pub(crate) struct Declared {
    known: Arc<Known>,
    snapshot: Arc<Snapshot>,
    service: Arc<str>,
    /// By collections.
    tables: Arc<BTreeMap<Name, PlacedTable>>,
    places: Places,
    owners: Vec<Owner>,
    parameters: BTreeMap<String, Owner>,
    /// The collection in which a request may make something.
    makes: Option<Name>,
    /// This is the answer that it was made.
    made: bool,
}

/// Why a request cannot be given to the service here.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// It names a replica by the id that only the service here knows.
    Hidden,
    /// A parameter has the id of a replicated resource, and the profile does not say that it is one.
    Undeclared(String),
}

impl Declared {
    /// What may be an id in requests to a path, as clients know it, and in the answers. Nothing: no such id is known here.
    pub(crate) fn of(
        known: &Arc<Known>,
        state: &State,
        service: &str,
        method: &Method,
        path: &str,
    ) -> Option<Declared> {
        let tables = known.scoped(service)?;
        let path = plain(path);
        let mut own = Declared::new(known, state, service, tables);
        let snapshot = Arc::clone(&own.snapshot);
        let kinds = &snapshot.settings.profile.kinds;
        let within = format!("{}/x", path.trim_end_matches('/'));
        let collection =
            kinds.items(service, &within).into_iter().next().filter(|item| item.below.is_empty());
        let collection = collection.map(|item| (item.kind, Name::new(service, item.name).with_id("")));
        let item = kinds.items(service, &path).into_iter().next();
        let item = item.filter(|item| item.below.trim_matches('/').is_empty());
        let item = item.map(|item| (item.kind, Name::new(service, item.name).with_id("")));
        let has = |own: &Declared, found: &Option<(&Kind, Name)>| {
            found.as_ref().is_some_and(|(_, name)| own.tables.contains_key(name))
        };
        match (collection, item) {
            (collection, Some((kind, name)))
                if has(&own, &Some((kind, name.clone()))) && !has(&own, &collection) =>
            {
                own.document(kind, &name);
            }
            (Some((kind, name)), _) => own.collection(kind, &name, method, &path),
            (None, Some((kind, name))) => own.document(kind, &name),
            (None, None) => {}
        }
        Some(own)
    }

    /// What may be an id in documents of a kind, in this collection. `own`: one of them, and what the service here calls it.
    /// Without a kind only paths have ids.
    pub(crate) fn of_documents(
        known: &Arc<Known>,
        state: &State,
        kind: Option<&Kind>,
        collection: &Name,
        own: Option<(&Name, &Name)>,
    ) -> Option<Declared> {
        let service = collection.service();
        let pair = own.filter(|(meta, local)| meta != local && !is_found_anywhere(meta, local));
        let mut tables = known.scoped(service).or_else(|| pair.map(|_| Arc::default()))?;
        if let Some((meta, local)) = pair {
            let table = Arc::make_mut(&mut tables).entry(collection.clone()).or_default();
            let _ = table.insert(meta.id(), local.id());
        }
        let mut own = Declared::new(known, state, service, tables);
        if let Some(kind) = kind {
            own.document(kind, collection);
        }
        Some(own)
    }

    fn new(
        known: &Arc<Known>,
        state: &State,
        service: &str,
        tables: Arc<BTreeMap<Name, PlacedTable>>,
    ) -> Declared {
        Declared {
            known: Arc::clone(known),
            snapshot: Arc::clone(state.snapshot()),
            service: service.into(),
            tables,
            places: Places::default(),
            owners: Vec::new(),
            parameters: BTreeMap::new(),
            makes: None,
            made: false,
        }
    }

    /// The same for an answer with this head. What a 201 says was made has an id of the service's own, also where a replica had
    /// it: that one is gone from the service.
    pub(crate) fn answered(mut self, head: &response::Parts) -> Declared {
        self.made = head.status == StatusCode::CREATED;
        let address =
            head.headers.get(LOCATION).filter(|_| self.made).and_then(|address| address.to_str().ok());
        if let (Some(address), Some(collection)) = (address, self.makes.clone()) {
            let path = address.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
            let (above, id) = path.rsplit_once('/').unwrap_or_default();
            let id = plain(id);
            if above.ends_with(collection.path().trim_end_matches('/'))
                && let Some(tables) = Arc::make_mut(&mut self.tables).get_mut(&collection)
                && let Found::Mapped(meta) = tables.find(&id, Direction::ToClient)
            {
                self.known.give_anew(collection.with_id(&id));
                tables.remove(&meta);
            }
        }
        self
    }

    fn kinds(&self) -> &Kinds {
        &self.snapshot.settings.profile.kinds
    }

    /// The collections of a kind that have such ids here.
    fn of_kind(&self, name: &str) -> Owner {
        let is = |own: &Name| {
            let path = own.path().trim_end_matches('/');
            self.kinds().is_collection_of(&self.service, path, name)
        };
        let own = self.tables.iter().filter(|(collection, _)| is(collection));
        Owner::Kind(own.map(|(collection, table)| (collection.clone(), table.clone())).collect())
    }

    /// Of this collection.
    fn of_collection(&self, collection: &Name) -> Owner {
        Owner::Collection(collection.clone(), self.tables.get(collection).cloned().unwrap_or_default())
    }

    /// Ids are in one document.
    fn document(&mut self, kind: &Kind, collection: &Name) {
        let own = self.of_collection(collection);
        self.place_in_document(kind, &kind.id, &own);
        for (pointer, other) in &kind.refs {
            let owner = self.of_kind(other);
            self.place_in_document(kind, pointer, &owner);
        }
        self.parameters_of(kind);
    }

    /// The same place in answers, and in writes, which may have no envelope.
    fn place_in_document(&mut self, kind: &Kind, pointer: &str, owner: &Owner) {
        self.place(pointer, owner.clone());
        if !kind.document.is_empty() {
            self.place(kind.in_item(pointer), owner.clone());
        }
    }

    fn parameters_of(&mut self, kind: &Kind) {
        for (name, other) in &kind.parameters {
            let owner = self.of_kind(other);
            self.parameters.insert(name.clone(), owner);
        }
    }

    /// Ids are in a list; what a POST there answers, and takes, is one document.
    fn collection(&mut self, kind: &Kind, collection: &Name, method: &Method, path: &str) {
        if *method == Method::POST {
            self.makes = Some(collection.clone());
            return self.document(kind, collection);
        }
        let own = self.of_collection(collection);
        let snapshot = Arc::clone(&self.snapshot);
        let list = snapshot.settings.profile.lists.of(&self.service, path).unwrap_or_default();
        let mut envelopes = vec![String::new()];
        if let Some(items) = &list.items {
            envelopes.push(format!("/{}", items.replace('.', "/")));
        }
        let word = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        envelopes.push(format!("/{word}"));
        for envelope in envelopes {
            self.place(&format!("{envelope}/*{}", kind.in_item(&kind.id)), own.clone());
            for (pointer, other) in &kind.refs {
                let owner = self.of_kind(other);
                self.place(&format!("{envelope}/*{}", kind.in_item(pointer)), owner);
            }
        }
        self.parameters_of(kind);
        self.parameters.insert("id".to_owned(), own.clone());
        if let Some(paging) = &list.paging {
            self.parameters.insert(paging.marker.clone(), own);
            for next in &paging.next {
                if let Next::Member(member) = next {
                    self.place(&format!("/{member}"), Owner::Address);
                }
            }
        }
    }

    fn place(&mut self, pointer: &str, owner: Owner) {
        if let Ok(number) = u16::try_from(self.owners.len())
            && self.places.add(pointer, number)
        {
            self.owners.push(owner);
        }
    }

    /// Whether nothing in a body is an id.
    pub(crate) fn is_without_places(&self) -> bool {
        self.places.is_empty()
    }

    /// What is in the place of an id.
    fn placed(&self, place: u16, text: &str, direction: Direction) -> Placed {
        match self.owners.get(usize::from(place)) {
            None => Placed::Keep,
            Some(Owner::Address) => match self.address(text, direction) {
                Cow::Borrowed(_) => Placed::Keep,
                Cow::Owned(address) => Placed::Replace(address),
            },
            Some(owner) => match self.owned(owner, text, direction) {
                Found::Mapped(id) => Placed::Replace(id),
                Found::Hidden => Placed::Hidden,
                Found::Unknown => Placed::Keep,
            },
        }
    }

    fn owned(&self, owner: &Owner, id: &str, direction: Direction) -> Found {
        match owner {
            Owner::Address => Found::Unknown,
            Owner::Collection(collection, table) => {
                let found = table.find(id, direction);
                if self.made && direction == Direction::ToClient && matches!(found, Found::Mapped(_)) {
                    self.known.give_anew(collection.with_id(id));
                    return Found::Unknown;
                }
                let is_meta = || table.find(id, Direction::ToService) != Found::Unknown;
                if found == Found::Unknown && direction == Direction::ToClient && is_meta() {
                    // The service has something of its own by the name that a replicated resource has for clients.
                    self.known.note_both(collection.with_id(id));
                }
                found
            }
            Owner::Kind(collections) => {
                let mut found = Found::Unknown;
                for (_, table) in collections {
                    match table.find(id, direction) {
                        Found::Mapped(id) => return Found::Mapped(id),
                        Found::Hidden => found = Found::Hidden,
                        Found::Unknown => {}
                    }
                }
                found
            }
        }
    }

    /// A rewriter of one JSON body.
    pub(crate) fn rewriter(&self, direction: Direction) -> DeclaredRewriter {
        DeclaredRewriter {
            rewriter: PlacesRewriter::new(self.places.clone()),
            declared: self.clone(),
            direction,
        }
    }

    /// A body as a whole, or why not.
    pub(crate) fn body(&self, kind: &str, body: Bytes, direction: Direction) -> Result<Bytes, Refused> {
        if self.places.is_empty() {
            return Ok(body);
        }
        if kind.to_ascii_lowercase().contains("json-patch") {
            return Ok(self.patched(&body, direction)?.unwrap_or(body));
        }
        let (mut rewriter, mut chunks) = (self.rewriter(direction), Vec::<Bytes>::new());
        rewriter.push(body, &mut chunks)?;
        rewriter.finish(&mut chunks)?;
        Ok(chunks.concat().into())
    }

    /// A JSON Patch, whose steps name places. Nothing where it names none.
    fn patched(&self, body: &Bytes, direction: Direction) -> Result<Option<Bytes>, Refused> {
        let Some(Exact::Array(mut steps)) = Exact::read(body) else { return Ok(None) };
        let mut changed = false;
        for step in &mut steps {
            let Some(path) = step_path(step).map(str::to_owned) else { continue };
            let Exact::Object(members) = step else { continue };
            let Some(value) = members.get_mut("value") else { continue };
            // As it is in the document that it changes.
            let around = path.trim_start_matches('/').split('/').rev();
            let document = around.fold(value.to_string(), |inner, name| {
                let name = name.replace("~1", "/").replace("~0", "~");
                format!("{{{}:{inner}}}", serde_json::Value::from(name))
            });
            let after = self.body("", document.clone().into(), direction)?;
            if after == document.as_bytes() {
                continue;
            }
            if let Some(new) = Exact::read(&after).and_then(|mut after| after.at(&path).cloned()) {
                *value = new;
                changed = true;
            }
        }
        Ok(changed.then(|| Exact::Array(steps).to_string().into()))
    }

    /// A path with the ids of the other side. `None`: it names one that is hidden.
    pub(crate) fn path<'p>(&self, sent: &'p str, direction: Direction) -> Option<Cow<'p, str>> {
        self.path_with(sent, direction, |_| None)
    }

    /// A path for the service here. What has the service's own id already keeps it.
    pub(crate) fn local_path<'p>(&self, sent: &'p str) -> Cow<'p, str> {
        let path = self.path_with(sent, Direction::ToService, |own| Some(own.to_owned()));
        path.unwrap_or(Cow::Borrowed(sent))
    }

    fn path_with<'p>(
        &self,
        sent: &'p str,
        direction: Direction,
        hidden: impl Fn(&str) -> Option<String>,
    ) -> Option<Cow<'p, str>> {
        let (mut client, mut out, mut changed) = (String::new(), String::new(), false);
        for (index, segment) in sent.split('/').enumerate() {
            if index > 0 {
                client.push('/');
                out.push('/');
            }
            let own = plain(segment);
            let found = self.collection_of(&client, &own).and_then(|name| self.tables.get(&name));
            match found.map(|table| table.find(&own, direction)) {
                Some(Found::Mapped(id)) => {
                    client.push_str(if direction == Direction::ToClient { &id } else { &own });
                    out.push_str(&id);
                    changed = true;
                }
                Some(Found::Hidden) => {
                    client.push_str(&own);
                    out.push_str(&hidden(&own)?);
                }
                Some(Found::Unknown) | None => {
                    client.push_str(&own);
                    out.push_str(segment);
                }
            }
        }
        Some(if changed { Cow::Owned(out) } else { Cow::Borrowed(sent) })
    }

    /// A path and a query for the service here, where the path may have the service's own ids already.
    pub(crate) fn local_target(&self, path: &str, query: Option<&str>) -> (String, Option<String>) {
        let own =
            |query| self.query(query, Direction::ToService).unwrap_or(Cow::Borrowed(query)).into_owned();
        (self.local_path(path).into_owned(), query.map(own))
    }

    /// The collection of which this segment would be an item, below a path as clients know it.
    fn collection_of(&self, above: &str, segment: &str) -> Option<Name> {
        if segment.is_empty() {
            return None;
        }
        let path = format!("{above}{segment}");
        let item = self.kinds().items(&self.service, &path).into_iter().next();
        let item = item.filter(|item| item.below.is_empty())?;
        Some(Name::new(&self.service, item.name).with_id(""))
    }

    /// A query with the ids of the other side.
    pub(crate) fn query<'q>(&self, query: &'q str, direction: Direction) -> Result<Cow<'q, str>, Unfit> {
        let (mut out, mut changed) = (Vec::new(), false);
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (own, id) = (plain(name), plain(value));
            let found = self.parameters.get(&*own).map(|owner| self.owned(owner, &id, direction));
            match found {
                Some(Found::Mapped(id)) => {
                    changed = true;
                    out.push(Cow::Owned(format!("{name}={id}")));
                }
                Some(Found::Hidden) => return Err(Unfit::Hidden),
                None if direction == Direction::ToService && self.is_meta(&id) => {
                    return Err(Unfit::Undeclared(own.into_owned()));
                }
                Some(Found::Unknown) | None => out.push(Cow::Borrowed(pair)),
            }
        }
        Ok(if changed { Cow::Owned(out.join("&")) } else { Cow::Borrowed(query) })
    }

    /// Whether some replicated resource here is called so by clients.
    fn is_meta(&self, id: &str) -> bool {
        let is = |table: &PlacedTable| matches!(table.find(id, Direction::ToService), Found::Mapped(_));
        self.tables.values().any(is)
    }

    /// A path and a query, for the service here.
    pub(crate) fn target(&self, path: &str, query: Option<&str>) -> Result<Option<String>, Unfit> {
        let path = self.path(path, Direction::ToService).ok_or(Unfit::Hidden)?;
        let query = query.map(|query| self.query(query, Direction::ToService)).transpose()?;
        let changed = matches!(path, Cow::Owned(_)) || matches!(query, Some(Cow::Owned(_)));
        let target = || match &query {
            Some(query) => format!("{path}?{query}"),
            None => path.clone().into_owned(),
        };
        Ok(changed.then(target))
    }

    /// An address, which may have a host.
    pub(crate) fn address<'a>(&self, address: &'a str, direction: Direction) -> Cow<'a, str> {
        let start = match address.find("://") {
            Some(scheme) => match address.get(scheme + 3..).and_then(|rest| rest.find('/')) {
                Some(slash) => scheme + 3 + slash,
                None => return Cow::Borrowed(address),
            },
            None => 0,
        };
        let (host, rest) = address.split_at(start);
        let (rest, fragment) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        let path = self.path(path, direction).unwrap_or(Cow::Borrowed(path));
        let query = query.map(|query| self.query(query, direction).unwrap_or(Cow::Borrowed(query)));
        if matches!(path, Cow::Borrowed(_)) && !matches!(query, Some(Cow::Owned(_))) {
            return Cow::Borrowed(address);
        }
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        Cow::Owned(format!("{host}{path}{query}{fragment}"))
    }

    /// The value of a header with one address, or with several within `<` and `>`.
    pub(crate) fn header<'h>(&self, value: &'h str, direction: Direction) -> Cow<'h, str> {
        if !value.starts_with('<') {
            return self.address(value, direction);
        }
        let (mut out, mut rest) = (String::new(), value);
        while let Some((before, after)) = rest.split_once('<') {
            let Some((address, after)) = after.split_once('>') else { break };
            out.push_str(before);
            out.push_str(&format!("<{}>", self.address(address, direction)));
            rest = after;
        }
        out.push_str(rest);
        if out == value { Cow::Borrowed(value) } else { Cow::Owned(out) }
    }

    /// The replicated resources that a path, as clients know it, leads over.
    pub(crate) fn named_in_path(&self, path: &str) -> Vec<Named> {
        let (mut above, mut names) = (String::new(), Vec::new());
        for (index, segment) in path.split('/').enumerate() {
            if index > 0 {
                above.push('/');
            }
            let id = plain(segment);
            let name = self.collection_of(&above, &id).map(|collection| collection.with_id(&id));
            if let Some((name, place)) = name.and_then(|name| Some((name.clone(), self.known.place(&name)?)))
                && !place.chosen
            {
                names.push(Named { meta: Meta::from(&name), sites: place.members });
            }
            above.push_str(&id);
        }
        names
    }

    /// The replicated resources that a document, as clients know it, refers to.
    pub(crate) fn named(&self, kind: &str, document: &Bytes) -> Vec<Named> {
        let mut names = Vec::new();
        let mut see = |place: u16, id: &str| {
            let collections = match self.owners.get(usize::from(place)) {
                Some(Owner::Kind(collections)) => collections.as_slice(),
                _ => &[],
            };
            for (collection, _) in collections {
                let name = collection.with_id(id);
                if let Some(place) = self.known.place(&name) {
                    names.push(Named { meta: Meta::from(&name), sites: place.members });
                }
            }
            Placed::Keep
        };
        if !kind.to_ascii_lowercase().contains("json-patch") {
            let (mut rewriter, mut out) = (PlacesRewriter::new(self.places.clone()), Vec::<Bytes>::new());
            // What cannot be read is not replaced either.
            let _ = rewriter.push(document.clone(), &mut see, &mut out);
        }
        names
    }
}

/// Whether both are ids that are replaced wherever they are.
pub(crate) fn is_found_anywhere(meta: &Name, local: &Name) -> bool {
    ids::is_uuid(meta.id()) && ids::is_uuid(local.id())
}

/// Rewrites one JSON body as it comes.
pub(crate) struct DeclaredRewriter {
    rewriter: PlacesRewriter,
    declared: Declared,
    direction: Direction,
}

impl DeclaredRewriter {
    pub(crate) fn push(&mut self, chunk: Bytes, out: &mut impl Extend<Bytes>) -> Result<(), Refused> {
        let (declared, direction) = (&self.declared, self.direction);
        self.rewriter.push(chunk, &mut |place, id| declared.placed(place, id, direction), out)
    }

    pub(crate) fn finish(&mut self, out: &mut impl Extend<Bytes>) -> Result<(), Refused> {
        self.rewriter.finish(out)
    }
}
