//! Errors for people: what is wrong, where, what was expected, and what to write instead.

use std::fmt;

use annotate_snippets::{AnnotationKind, Level, Patch, Renderer, Snippet};

use crate::span::Span;

/// Which rule a scope broke. The names are stable: programs may match on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Code {
    /// The text is not of the grammar.
    Syntax,
    /// A service is bound twice, or the application has none of that name.
    Service,
    /// A function is unknown, or its arguments do not fit.
    Function,
    /// A level stands where it has no meaning.
    Level,
    /// A limit is exceeded.
    Limit,
    /// A name is neither a site nor a zone.
    UnknownName,
    /// No site has this label.
    UnknownLabel,
    /// No site has this metric.
    UnknownMetric,
    /// A location has no site in it.
    NoSite,
    /// Zones that are defined by one another, or a zone's name that cannot be used.
    Zone,
}

impl Code {
    /// The name that diagnostics show.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Syntax => "syntax",
            Code::Service => "service",
            Code::Function => "function",
            Code::Level => "level",
            Code::Limit => "limit",
            Code::UnknownName => "unknown-name",
            Code::UnknownLabel => "unknown-label",
            Code::UnknownMetric => "unknown-metric",
            Code::NoSite => "no-site",
            Code::Zone => "zone",
        }
    }
}

/// How to draw a diagnostic. Both mean the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Plain ASCII.
    Plain,
    /// With the colours of a terminal.
    Coloured,
}

/// One error in a scope or a zone.
#[derive(Clone, Debug)]
pub struct Diagnostic(Box<Inner>);

#[derive(Clone, Debug)]
struct Inner {
    code: Code,
    message: String,
    /// Innermost first: the text with the fault, then the texts that led there.
    excerpts: Vec<Excerpt>,
    help: Vec<Help>,
}

#[derive(Clone, Debug, Default)]
struct Excerpt {
    /// What the text is, such as `scope` or `zone west`.
    origin: String,
    text: String,
    /// The first label of the first excerpt is where the fault is.
    labels: Vec<(Span, String)>,
}

#[derive(Clone, Debug)]
struct Help {
    text: String,
    /// What to write instead, in the first excerpt.
    patch: Option<(Span, String)>,
}

impl Diagnostic {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Diagnostic(Box::new(Inner {
            code,
            message: message.into(),
            excerpts: vec![Excerpt::default()],
            help: Vec::new(),
        }))
    }

    /// None of the `known` names is the one that was written: says which was meant, or which there are.
    pub(crate) fn unknown<'n, K>(code: Code, what: &str, written: &str, span: Span, known: K) -> Self
    where
        K: Iterator<Item = &'n str> + Clone,
    {
        let diagnostic = Diagnostic::new(code, format!("no {what} is called `{written}`"))
            .at(span, format!("not a known {what}"));
        match nearest(written, known.clone()).as_slice() {
            [near] => diagnostic.replace(span, *near, format!("there is a {what} with a similar name")),
            [] if known.clone().next().is_none() => diagnostic.help(format!("there is no {what} at all")),
            [] => diagnostic.help(format!("known are {}", some_of(known))),
            several => diagnostic.help(format!("similar are {}", some_of(several.iter().copied()))),
        }
    }

    /// Points at a place in the current text.
    pub(crate) fn at(mut self, span: Span, label: impl Into<String>) -> Self {
        if let Some(excerpt) = self.0.excerpts.last_mut() {
            excerpt.labels.push((span, label.into()));
        }
        self
    }

    /// Points there, if it points nowhere yet.
    pub(crate) fn or_at(self, span: Span, label: &str) -> Self {
        let labelled = self.0.excerpts.last().is_some_and(|excerpt| !excerpt.labels.is_empty());
        if labelled { self } else { self.at(span, label) }
    }

    pub(crate) fn help(mut self, text: impl Into<String>) -> Self {
        self.0.help.push(Help { text: text.into(), patch: None });
        self
    }

    /// Says what to write instead of `span` in the text with the fault.
    pub(crate) fn replace(mut self, span: Span, with: impl Into<String>, text: impl Into<String>) -> Self {
        self.0.help.push(Help { text: text.into(), patch: Some((span, with.into())) });
        self
    }

    /// Names the text that the labels given so far point into.
    pub(crate) fn within(mut self, origin: &str, text: &str) -> Self {
        if let Some(excerpt) = self.0.excerpts.last_mut() {
            origin.clone_into(&mut excerpt.origin);
            text.clone_into(&mut excerpt.text);
        }
        self
    }

    /// Goes on in the text that led to the one with the fault. Of a long way, the end and the start
    /// are kept.
    pub(crate) fn used(mut self, span: Span, label: impl Into<String>) -> Self {
        const SHOWN: usize = 4;
        if self.0.excerpts.len() == SHOWN {
            self.0.excerpts.pop();
        }
        self.0.excerpts.push(Excerpt::default());
        self.at(span, label)
    }

    /// Shows the text that was read where it stands in a longer one, such as a file: from byte `at` on.
    ///
    /// ```
    /// let file = "scope = 'image: A &'";
    /// let error = scope::Dialect::default().scope("image: A &").unwrap_err();
    /// let drawn = error.inside("site.toml", file, 9).render(scope::Style::Plain);
    /// assert!(drawn.contains("--> site.toml:1:20"), "{drawn}");
    /// ```
    #[must_use]
    pub fn inside(mut self, origin: &str, text: &str, at: usize) -> Self {
        let shifted = |span: Span| Span { start: span.start + at, end: span.end + at };
        // What to write instead is said of the first excerpt: it moves only if that is the one that does.
        let first_moves = self.0.excerpts.len() == 1;
        if let Some(excerpt) = self.0.excerpts.last_mut() {
            if excerpt.labels.is_empty() {
                let whole = Span { start: 0, end: excerpt.text.len() };
                excerpt.labels.push((whole, String::new()));
            }
            excerpt.labels.iter_mut().for_each(|(span, _)| *span = shifted(*span));
        }
        if first_moves {
            let patches = self.0.help.iter_mut().filter_map(|help| help.patch.as_mut());
            patches.for_each(|(span, _)| *span = shifted(*span));
        }
        self.within(origin, text)
    }

    /// Which rule was broken.
    #[must_use]
    pub fn code(&self) -> Code {
        self.0.code
    }

    /// What is wrong, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where the fault is, in the text that has it: a zone's, if a zone's definition is at fault.
    #[must_use]
    pub fn span(&self) -> Span {
        let first = self.0.excerpts.first().and_then(|excerpt| excerpt.labels.first());
        first.map(|(span, _)| *span).unwrap_or_default()
    }

    /// The whole of it, as a compiler would draw it, without a newline at the end.
    #[must_use]
    pub fn render(&self, style: Style) -> String {
        let inner = &*self.0;
        let mut primary = AnnotationKind::Primary;
        let labelled = inner.excerpts.iter().filter(|excerpt| !excerpt.labels.is_empty());
        let snippets = labelled.map(|excerpt| {
            let annotations = excerpt.labels.iter().map(|(span, label)| {
                let kind = std::mem::replace(&mut primary, AnnotationKind::Context);
                kind.span(excerpt.shown(*span)).label(label)
            });
            Snippet::source(&excerpt.text).path(&excerpt.origin).annotations(annotations)
        });
        let title = Level::ERROR.primary_title(&inner.message).id(inner.code.as_str());
        let mut report = vec![title.elements(snippets)];
        for help in &inner.help {
            if let (Some((span, with)), Some(excerpt)) = (&help.patch, inner.excerpts.first()) {
                let patch = Patch::new(excerpt.shown(*span), with);
                let group = Level::HELP.secondary_title(&help.text);
                report.push(group.element(Snippet::source(&excerpt.text).patch(patch)));
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
}

impl Excerpt {
    /// The span, inside the text whatever happens.
    fn shown(&self, span: Span) -> std::ops::Range<usize> {
        let inside = |at: usize| self.text.floor_char_boundary(at.min(self.text.len()));
        inside(span.start)..inside(span.end.max(span.start))
    }
}

/// One line: the message and the first help.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        match self.0.help.first() {
            Some(Help { text, patch: Some((_, with)) }) => write!(f, " ({text}: `{with}`)"),
            Some(Help { text, patch: None }) => write!(f, " ({text})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

/// The known names that may have been meant: those with the fewest slips, if they are few.
#[must_use]
pub fn nearest<'n>(written: &str, known: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    // A hostile name must not make the error dear: beyond these sizes nobody meant a typing slip.
    const LONGEST: usize = 64;
    const MOST: usize = 1024;
    if written.len() > LONGEST {
        return Vec::new();
    }
    let folded = fold(written);
    let slips = |name: &str| strsim::damerau_levenshtein(&folded, &fold(name));
    let mut fewest = (folded.len() / 3).max(1);
    let mut near = Vec::new();
    for name in known.take(MOST).filter(|name| name.len().abs_diff(written.len()) <= LONGEST / 4) {
        let slips = slips(name);
        if slips < fewest {
            near.clear();
            fewest = slips;
        }
        if slips == fewest && slips < name.len() {
            near.push(name);
        }
    }
    near
}

/// Names that differ only in case, spaces, `.`, `_` and `-` are nearest of all.
fn fold(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

/// "`Site1`, `Site2` and 40 more": enough of the known names to go on with.
#[must_use]
pub fn some_of<'n>(known: impl IntoIterator<Item = &'n str>) -> String {
    const SHOWN: usize = 12;
    let mut known = known.into_iter();
    let shown: Vec<String> = known.by_ref().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match known.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
