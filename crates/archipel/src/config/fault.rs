//! What is wrong with a file: every fault of it, each drawn where it stands.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Level, Patch, Renderer, Snippet};
use scope::{Diagnostic, Style, nearest, some_of};

/// Which rule a file broke. Faults in a scope or a zone have the codes of the language instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The text is not TOML.
    Toml,
    /// Nothing has this key.
    UnknownKey,
    /// A key that is needed is not there.
    MissingKey,
    /// A value is of another type than its key's.
    Type,
    /// A value is out of range, or not one of those there are.
    Value,
    /// An address cannot be read.
    Address,
    /// A name that the language cannot write, or that means something else already.
    Name,
    /// Two parts of the file want the same thing.
    Conflict,
    /// A file or a directory that is named cannot be used.
    File,
    /// A profile says something that cannot be meant.
    Profile,
}

impl Code {
    /// The name that faults show.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Toml => "toml",
            Code::UnknownKey => "unknown-key",
            Code::MissingKey => "missing-key",
            Code::Type => "type",
            Code::Value => "value",
            Code::Address => "address",
            Code::Name => "name",
            Code::Conflict => "conflict",
            Code::File => "file",
            Code::Profile => "profile",
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The first byte of what is wrong.
    at: usize,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Own(Box<Own>),
    /// The language says it, and points into the file already.
    Scope(Diagnostic),
}

#[derive(Clone, Debug)]
struct Own {
    code: Code,
    message: String,
    /// The first is where the fault is.
    labels: Vec<(Range<usize>, String)>,
    help: Vec<Help>,
}

#[derive(Clone, Debug)]
struct Help {
    text: String,
    /// What to write instead.
    patch: Option<(Range<usize>, String)>,
}

impl Fault {
    pub(super) fn new(
        code: Code,
        message: impl Into<String>,
        at: Range<usize>,
        label: impl Into<String>,
    ) -> Self {
        let start = at.start;
        let labels = vec![(at, label.into())];
        let own = Own { code, message: message.into(), labels, help: Vec::new() };
        Fault { at: start, kind: Kind::Own(Box::new(own)) }
    }

    pub(super) fn scope(diagnostic: Diagnostic, at: usize) -> Self {
        Fault { at, kind: Kind::Scope(diagnostic) }
    }

    /// Points at one more place, such as what was there first.
    pub(super) fn also(mut self, at: Range<usize>, label: impl Into<String>) -> Self {
        if let Kind::Own(own) = &mut self.kind {
            own.labels.push((at, label.into()));
        }
        self
    }

    pub(super) fn help(self, text: impl Into<String>) -> Self {
        self.with(Help { text: text.into(), patch: None })
    }

    /// Says which of the `known` names was meant at `at`, or which there are.
    pub(super) fn suggest<'n, K>(self, at: Range<usize>, what: &str, written: &str, known: K) -> Self
    where
        K: Iterator<Item = &'n str> + Clone,
    {
        match nearest(written, known.clone()).as_slice() {
            [near] => self.with(Help {
                text: format!("there is a {what} with a similar name"),
                patch: Some((at, (*near).to_owned())),
            }),
            [] if known.clone().next().is_none() => self,
            [] => self.help(format!("known are {}", some_of(known))),
            several => self.help(format!("similar are {}", some_of(several.iter().copied()))),
        }
    }

    fn with(mut self, help: Help) -> Self {
        if let Kind::Own(own) = &mut self.kind {
            own.help.push(help);
        }
        self
    }

    /// The name of the rule that was broken.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match &self.kind {
            Kind::Own(own) => own.code.as_str(),
            Kind::Scope(diagnostic) => diagnostic.code().as_str(),
        }
    }

    /// What is wrong, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        match &self.kind {
            Kind::Own(own) => &own.message,
            Kind::Scope(diagnostic) => diagnostic.message(),
        }
    }
}

/// Every fault of one file, in the order of the file. There is at least one.
#[derive(Clone, Debug)]
pub struct Faults {
    origin: String,
    text: String,
    list: Vec<Fault>,
}

impl Faults {
    pub(super) fn new(origin: &str, text: &str, mut faults: Vec<Fault>) -> Self {
        faults.sort_by_key(|fault| fault.at);
        Faults { origin: origin.to_owned(), text: text.to_owned(), list: faults }
    }

    /// The faults of a profile, if it has any.
    #[must_use]
    pub fn of_profile(origin: &str, text: &str) -> Option<Faults> {
        let fault = |fault: profile::ProfileFault| Fault::new(Code::Profile, fault.message, fault.at, "here");
        let list: Vec<Fault> = profile::faults(text).into_iter().map(fault).collect();
        (!list.is_empty()).then(|| Faults::new(origin, text, list))
    }

    /// One fault that concerns the value of a key of the file's outermost table, such as a directory.
    #[must_use]
    pub fn of_key(origin: &str, text: &str, key: &str, message: String) -> Faults {
        let (root, _) = toml::de::DeTable::parse_recoverable(text);
        let at = root.get_ref().get(key).map_or(0..0, toml::Spanned::span);
        Faults::new(origin, text, vec![Fault::new(Code::File, message, at, "named here")])
    }

    /// Each fault.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.list.iter()
    }

    /// The line of a fault, counted from one.
    #[must_use]
    pub fn line(&self, fault: &Fault) -> usize {
        self.text.bytes().take(fault.at).filter(|byte| *byte == b'\n').count() + 1
    }

    /// All of them, as a compiler would draw them, and how many; without a newline at the end.
    #[must_use]
    pub fn render(&self, style: Style) -> String {
        let drawn = self.list.iter().map(|fault| match &fault.kind {
            Kind::Own(own) => self.draw(own, style),
            Kind::Scope(diagnostic) => diagnostic.render(style),
        });
        let mut parts: Vec<String> = drawn.collect();
        let count = match parts.len() {
            1 => "1 fault".to_owned(),
            many => format!("{many} faults"),
        };
        parts.push(format!("`{}` has {count}", self.origin));
        parts.join("\n\n")
    }

    fn draw(&self, own: &Own, style: Style) -> String {
        let mut primary = AnnotationKind::Primary;
        let annotations = own.labels.iter().map(|(at, label)| {
            let kind = std::mem::replace(&mut primary, AnnotationKind::Context);
            kind.span(self.shown(at)).label(label)
        });
        let snippet = Snippet::source(&self.text).path(&self.origin).annotations(annotations);
        let title = Level::ERROR.primary_title(&own.message).id(own.code.as_str());
        let mut report = vec![title.element(snippet)];
        for help in &own.help {
            if let Some((at, with)) = &help.patch {
                let group = Level::HELP.secondary_title(&help.text);
                let patch = Patch::new(self.shown(at), with);
                report.push(group.element(Snippet::source(&self.text).patch(patch)));
            } else if let Some(last) = report.pop() {
                report.push(last.element(Level::HELP.message(&help.text)));
            }
        }
        let renderer = match style {
            Style::Plain => Renderer::plain(),
            Style::Coloured => Renderer::styled(),
        };
        renderer.render(&report)
    }

    /// The place, inside the text whatever happens.
    fn shown(&self, at: &Range<usize>) -> Range<usize> {
        let inside = |at: usize| self.text.floor_char_boundary(at.min(self.text.len()));
        inside(at.start)..inside(at.end.max(at.start))
    }
}

/// One line for each fault, for a log.
impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, fault) in self.list.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(f, "{separator}{}:{}: {}", self.origin, self.line(fault), fault.message())?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}
