//! Drives a merge as the mesh would, in an order and with cuts that the test chooses.

// Each test uses a part of it, and none of it runs outside tests.
#![allow(dead_code, clippy::unwrap_used, clippy::indexing_slicing)]

pub(crate) mod service;

use bytes::Bytes;
use merge::{Broken, Early, Fault, Head, Late, Limits, Merged, Merger, Page, Pull, Refused, Request};
use profile::{List, Profile};

/// A source's answer.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Body(Vec<u8>),
    Linked(Vec<u8>, String),
    /// What several have is marked in it, and this is the source's word.
    Marked(Box<Answer>, String),
    Missing,
}

impl Answer {
    fn body(&self) -> &[u8] {
        match self {
            Answer::Body(body) | Answer::Linked(body, _) => body,
            Answer::Marked(inner, _) => inner.body(),
            Answer::Missing => &[],
        }
    }
}

impl From<&str> for Answer {
    fn from(body: &str) -> Answer {
        Answer::Body(body.as_bytes().to_vec())
    }
}

/// What a merge came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) end: Result<Pull, Broken>,
    pub(crate) body: Vec<u8>,
    pub(crate) header: Option<String>,
    pub(crate) failures: Vec<(usize, Fault)>,
    /// How much of each source was pushed.
    pub(crate) pushed: Vec<usize>,
}

impl Outcome {
    pub(crate) fn text(&self) -> &str {
        assert_eq!(self.end, Ok(Pull::Done));
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(self.text()).unwrap()
    }
}

/// A source of choices that is the same each time.
#[derive(Clone, Debug)]
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides.max(1)
    }
}

pub(crate) fn union(sources: usize) -> Merged {
    Merged::Union((0..sources).map(Merged::Source).collect())
}

pub(crate) fn rest() -> List {
    Profile::named("rest").unwrap().lists.of("things", "/things").unwrap()
}

pub(crate) fn openstack(service: &str, path: &str) -> List {
    Profile::named("openstack").unwrap().lists.of(service, path).unwrap()
}

pub(crate) fn request(path: &str, query: &str) -> Request {
    Request { origin: "https://here".to_owned(), path: path.to_owned(), query: query.to_owned() }
}

pub(crate) fn plan(list: &List, tree: &Merged, query: &str, sources: usize) -> Result<Page, Refused> {
    let names: Vec<String> = (1..=sources).map(|number| format!("Site{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Page::plan(list, tree, &request("/things", query), &names)
}

/// Merges answers that are cut and come as the dice say; in one piece and in order without them.
pub(crate) fn drive(merger: &mut Merger, answers: &[Answer], dice: Option<Dice>) -> Outcome {
    drive_early(merger, None, answers, dice)
}

/// The same, where the dice also say what is read early; all of it without them.
fn drive_early(
    merger: &mut Merger,
    early: Option<&Early>,
    answers: &[Answer],
    mut dice: Option<Dice>,
) -> Outcome {
    let mut rest: Vec<&[u8]> = Vec::new();
    for (source, answer) in answers.iter().enumerate() {
        let mut head = Head { content_type: Some("application/json"), ..Head::default() };
        let mut inner = answer;
        if let Answer::Marked(marked, word) = answer {
            head.unconfirmed = Some(word);
            inner = marked;
        }
        if let Answer::Linked(_, link) = inner {
            head.link = Some(link);
        }
        if let Answer::Missing = inner {
            merger.fail(source);
            rest.push(&[]);
            continue;
        }
        let body = answer.body();
        merger.open(source, head);
        if let Some(early) = early {
            let mut roll = |sides| dice.as_mut().map_or(0, |dice| dice.roll(sides));
            // Most often, all of a short list comes at once.
            let len = if roll(2) == 0 { body.len() } else { roll(body.len() + 1) };
            let ahead = early.read(head, Bytes::copy_from_slice(&body[..len]));
            if let Some(ahead) = ahead.filter(|_| roll(3) < 2) {
                merger.read_early(source, ahead);
            }
        }
        rest.push(body);
    }
    let mut body = Vec::new();
    let end = loop {
        match merger.pull() {
            Ok(Pull::Chunk(bytes)) => body.extend_from_slice(&bytes),
            Ok(Pull::Pending) => {
                assert!(!merger.is_done());
                let wants = merger.wants();
                assert!(!wants.is_empty(), "it waits for nothing: {merger:?}");
                let source = wants[dice.as_mut().map_or(0, |dice| dice.roll(wants.len()))];
                let left = rest[source];
                let most = dice.as_mut().map_or(left.len(), |dice| 1 + dice.roll(40)).min(left.len());
                if most == 0 {
                    merger.end(source);
                } else {
                    merger.push(source, Bytes::copy_from_slice(&left[..most]));
                    rest[source] = &left[most..];
                }
            }
            end => break end,
        }
    };
    assert_eq!(merger.is_done(), end == Ok(Pull::Done));
    assert_eq!(merger.wants(), [] as [usize; 0], "nothing is needed any more: {end:?}");
    let failures = merger.failures().map(|(source, fault)| (source, fault.clone())).collect();
    let left = |(answer, rest): (&Answer, &&[u8])| answer.body().len() - rest.len();
    let pushed = answers.iter().zip(&rest).map(left).collect();
    Outcome { pushed, end, body, header: merger.header().map(|(_, value)| value.to_owned()), failures }
}

pub(crate) fn merge_with(
    list: &List,
    tree: &Merged,
    query: &str,
    answers: &[Answer],
    dice: Option<Dice>,
) -> Outcome {
    let page = plan(list, tree, query, answers.len()).unwrap();
    let merger = || Merger::new(list.clone(), tree.clone(), page.clone(), Limits::default(), Late::Abort);
    let early = Early::new(list.clone(), &page, Limits::default());
    if dice.is_some() {
        return drive_early(&mut merger(), Some(&early), answers, dice);
    }
    // Reading it early changes nothing.
    let read_early = drive_early(&mut merger(), Some(&early), answers, None);
    let outcome = drive(&mut merger(), answers, None);
    assert_eq!(Outcome { pushed: outcome.pushed.clone(), ..read_early }, outcome);
    outcome
}

pub(crate) fn merge(list: &List, query: &str, answers: &[&str]) -> Outcome {
    let answers: Vec<Answer> = answers.iter().map(|answer| Answer::from(*answer)).collect();
    merge_with(list, &union(answers.len()), query, &answers, None)
}
