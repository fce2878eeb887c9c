//! Small documents of numbers, one of each source, as one document.

use bytes::Bytes;
use serde_json::Value;

use crate::coding::Decoder;
use crate::error::Fault;
use crate::item::Path;
use crate::limits::Limits;
use crate::sum::{join, sum};

/// Documents that are being summed. Members that are not summed come from the first source.
#[derive(Debug)]
pub struct Totals {
    rule: profile::Totals,
    limits: Limits,
    documents: Vec<Document>,
}

#[derive(Debug)]
enum Document {
    Waiting,
    Open(Decoder, Vec<u8>),
    Whole(Value),
    Failed(Fault),
}

impl Totals {
    /// A sum over so many sources.
    #[must_use]
    pub fn new(rule: profile::Totals, sources: usize, limits: Limits) -> Totals {
        Totals { rule, limits, documents: (0..sources).map(|_| Document::Waiting).collect() }
    }

    /// A source answers, in this content coding.
    pub fn open(&mut self, source: usize, content_encoding: Option<&str>) {
        let opened = Decoder::new(content_encoding, self.limits.expansion);
        self.set(source, opened.map_or_else(Document::Failed, |decoder| Document::Open(decoder, Vec::new())));
    }

    /// More of a source's answer.
    pub fn push(&mut self, source: usize, mut bytes: Bytes) {
        let most = self.limits.totals_bytes;
        let Some(document) = self.documents.get_mut(source) else { return };
        let Document::Open(decoder, text) = document else { return };
        while !bytes.is_empty() {
            let taken = decoder.decode(&mut bytes).and_then(|plain| {
                let fits = text.len() + plain.len() <= most;
                if fits { Ok(plain) } else { Err(Fault::TooLarge("the document")) }
            });
            match taken {
                Ok(plain) => text.extend_from_slice(&plain),
                Err(fault) => {
                    *document = Document::Failed(fault);
                    return;
                }
            }
        }
    }

    /// A source's answer is whole.
    pub fn end(&mut self, source: usize) {
        let Some(Document::Open(decoder, text)) = self.documents.get_mut(source) else { return };
        let whole = decoder.finish().and_then(|rest| {
            text.extend_from_slice(&rest);
            serde_json::from_slice::<Value>(text).map_err(|_| Fault::Json("it is malformed"))
        });
        self.set(source, whole.map_or_else(Document::Failed, Document::Whole));
    }

    /// A source has no answer, or no more of it.
    pub fn fail(&mut self, source: usize) {
        self.set(source, Document::Failed(Fault::Lost));
    }

    /// The sources that failed, and why.
    pub fn failures(&self) -> impl Iterator<Item = (usize, &Fault)> {
        self.documents.iter().enumerate().filter_map(|(source, document)| match document {
            Document::Failed(fault) => Some((source, fault)),
            _ => None,
        })
    }

    /// The sum, or none if no source had a document or one is still missing.
    #[must_use]
    pub fn sum(&self) -> Option<Bytes> {
        let mut whole = Vec::new();
        for document in &self.documents {
            match document {
                Document::Whole(value) => whole.push(value),
                Document::Failed(_) => {}
                Document::Waiting | Document::Open(..) => return None,
            }
        }
        let (first, others) = whole.split_first()?;
        let mut total = (*first).clone();
        for path in &self.rule.sum {
            sum(&mut total, others, &Path::new(path), self.rule.unlimited);
        }
        for path in &self.rule.join {
            join(&mut total, &whole, &Path::new(path));
        }
        serde_json::to_vec(&total).ok().map(Bytes::from)
    }

    fn set(&mut self, source: usize, to: Document) {
        if let Some(document) = self.documents.get_mut(source) {
            *document = to;
        }
    }
}
