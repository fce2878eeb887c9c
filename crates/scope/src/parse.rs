//! Tokens to syntax: recursive descent, one token ahead, never back.

use crate::combine::Tree;
use crate::diagnostic::{Code, Diagnostic, some_of};
use crate::dialect::Dialect;
use crate::duration::parse_duration;
use crate::function::{self, FUNCTIONS, Function, Parameter};
use crate::limits::Limits;
use crate::span::{Place, Span};
use crate::syntax::{Argument, Binding, Combination, Group, Key, Kind, Level, Location, Scope, Word};
use crate::token::{Lexer, Source, Token, Unescaped};

type Result<T> = std::result::Result<T, Diagnostic>;

/// Reads one text: a scope, a location, or the content of a string in either.
pub(crate) struct Parser<'p> {
    text: &'p str,
    dialect: &'p Dialect,
    lexer: Lexer<'p>,
    /// The token that comes next.
    token: Token<'p>,
    span: Span,
    /// The token before it.
    last: Token<'p>,
    last_span: Span,
    depth: usize,
}

/// An operand of `&`.
struct Operand {
    location: Location,
    /// The level of a name that has one without parentheses around both: `B @quorum`.
    bare_level: Option<Level>,
}

impl<'p> Parser<'p> {
    pub(crate) fn new(text: &'p str, dialect: &'p Dialect) -> Result<Self> {
        let limit = dialect.limits.text_bytes;
        if text.len() > limit {
            return Err(too_long(limit, Span { start: limit, end: text.len() }));
        }
        Parser::over(Source::typed(text), text, dialect, 0)
    }

    fn over(source: Source<'p>, text: &'p str, dialect: &'p Dialect, depth: usize) -> Result<Self> {
        let mut lexer = Lexer::new(source);
        let (token, span) = lexer.next()?;
        Ok(Parser { text, dialect, lexer, token, span, last: Token::End, last_span: Span::default(), depth })
    }

    fn advance(&mut self) -> Result<Span> {
        let (token, span) = self.lexer.next()?;
        self.last = std::mem::replace(&mut self.token, token);
        self.last_span = std::mem::replace(&mut self.span, span);
        Ok(self.last_span)
    }

    fn take(&mut self, wanted: Token<'_>) -> Result<Option<Span>> {
        if self.token == wanted { self.advance().map(Some) } else { Ok(None) }
    }

    fn expected(&self, what: &str) -> Diagnostic {
        // What is missing at the end is missing right after the last word, not after the blanks.
        let end = Span { start: self.last_span.end, end: self.last_span.end };
        let span = if self.token == Token::End && self.last != Token::End { end } else { self.span };
        Diagnostic::new(Code::Syntax, format!("expected {what}, found {}", self.token.describe()))
            .at(span, format!("expected {what}"))
    }

    /// Goes into a parenthesis, a call, a `!` or a string, if that is not too deep.
    fn enter(&mut self, span: Span) -> Result<()> {
        self.depth += 1;
        let limit = self.dialect.limits.depth.min(Limits::DEEPEST);
        if self.depth > limit {
            return Err(Diagnostic::new(Code::Limit, format!("this is nested deeper than {limit}"))
                .at(span, "one level too many")
                .help("a zone gives a part of it a name"));
        }
        Ok(())
    }

    // --- scopes

    pub(crate) fn scope(mut self) -> Result<Scope> {
        let brace = self.take(Token::OpenBrace)?;
        let mut bindings = Vec::new();
        while !matches!(self.token, Token::End | Token::CloseBrace) {
            bindings.push(self.binding(bindings.is_empty())?);
            if self.take(Token::Comma)?.is_none() {
                break;
            }
        }
        match (brace, self.take(Token::CloseBrace)?) {
            (Some(brace), None) if self.token == Token::End => {
                return Err(self.expected("`,` or `}`").at(brace, "to close this brace"));
            }
            (Some(_), None) => return Err(self.unfinished("`,` or `}`")),
            (None, Some(brace)) => {
                return Err(
                    Diagnostic::new(Code::Syntax, "this brace closes nothing").at(brace, "no `{` opens it")
                );
            }
            (Some(_), Some(close)) if self.token != Token::End => {
                return Err(self.expected("the end").at(close, "the scope ended here"));
            }
            (None, None) if self.token != Token::End => return Err(self.unfinished("`,` or the end")),
            _ => {}
        }
        let scope = Scope { text: self.text.into(), bindings: each_once(bindings)? };
        // It travels in its canonical form, which can be longer than what was typed, though never three
        // times as long.
        let limit = self.dialect.limits.text_bytes;
        if self.text.len().saturating_mul(3) > limit && scope.to_string().len() > limit {
            return Err(too_long(limit, Span { start: 0, end: self.text.len() }));
        }
        Ok(scope)
    }

    fn binding(&mut self, first: bool) -> Result<Binding> {
        let place = Place(self.span);
        let written = self.token;
        let key = self.key()?;
        if self.take(Token::Colon)?.is_none() {
            return Err(self.no_colon(written, place.0, first));
        }
        let location = self.location()?.canonical(Some(Level::default()))?;
        Ok(Binding { key, place, location })
    }

    fn key(&mut self) -> Result<Key> {
        let key = match self.token {
            Token::Star => Key::Rest,
            Token::Name(name) => Key::Service(self.service(name)?),
            Token::Quoted(content) => {
                let unescaped = Unescaped::new(content, &self.lexer)?;
                let mut inner = Parser::over(unescaped.source(), self.text, self.dialect, self.depth)?;
                if !matches!(inner.token, Token::Name(_) | Token::Star) {
                    return Err(inner.expected("a service"));
                }
                let key = inner.key()?;
                if inner.token != Token::End {
                    return Err(inner.expected("the end of the service's name"));
                }
                key
            }
            _ => return Err(self.expected("a service, such as `image`, or `*` for all others")),
        };
        self.advance()?;
        Ok(key)
    }

    fn service(&self, name: &str) -> Result<Box<str>> {
        let services = &self.dialect.services;
        services
            .canonical(name)
            .ok_or_else(|| Diagnostic::unknown(Code::Service, "service", name, self.span, services.known()))
    }

    /// Says what may have been meant by a service without a location.
    fn no_colon(&self, written: Token<'_>, span: Span, first: bool) -> Diagnostic {
        let diagnostic = self.expected("`:`");
        let Token::Name(name) = written else { return diagnostic };
        match (name.split_once(' '), self.token) {
            (Some((service, location)), _) => diagnostic.replace(
                span,
                format!("{service}: {location}"),
                "a service and its location have a colon between them",
            ),
            (None, Token::Equals) => diagnostic.replace(self.span, ":", "a service is bound by a colon"),
            (None, _) if first => {
                diagnostic.help("a scope binds services to locations, such as `image: Site1`")
            }
            (None, _) => diagnostic
                .help(format!("if `{name}` is a service, say where it runs: `{name}: Site1`"))
                .help(format!("if it is a site, join it with an operator, not a comma: `… & {name}`")),
        }
    }

    /// A location ended, and what follows does not go on with the scope.
    fn unfinished(&self, what: &str) -> Diagnostic {
        let diagnostic = self.expected(&format!("an operator, {what}"));
        match (self.last, self.token) {
            (Token::Name(name), Token::Colon) => match name.rsplit_once(' ') {
                Some((location, service)) => diagnostic.replace(
                    self.last_span,
                    format!("{location}, {service}"),
                    "a comma is missing before the next service",
                ),
                None => diagnostic.help(format!("if `{name}` is a service, put `,` before it")),
            },
            (Token::Name(_), Token::Name(_) | Token::Number(_)) => {
                diagnostic.help("the words of one name have exactly one space between them")
            }
            (_, Token::Close) => diagnostic.help("no `(` opens this parenthesis"),
            (_, Token::At) => diagnostic.help("a group has one level"),
            (_, Token::OpenBrace) => diagnostic.help("parts of a location are grouped with `(` and `)`"),
            _ => diagnostic,
        }
    }

    // --- locations

    pub(crate) fn whole_location(mut self) -> Result<Location> {
        let location = self.location()?.canonical(None)?;
        if self.token == Token::End { Ok(location) } else { Err(self.unfinished("or the end")) }
    }

    fn location(&mut self) -> Result<Location> {
        self.joined(Combination::Otherwise)
    }

    /// Operands of one operator, each of tighter ones.
    fn joined(&mut self, combination: Combination) -> Result<Location> {
        let (operator, tighter) = match combination {
            Combination::Otherwise => (Token::Otherwise, Combination::Any),
            Combination::Any => (Token::Any, Combination::One),
            Combination::One => (Token::One, Combination::All),
            Combination::All => return self.all(),
        };
        let first = self.joined(tighter)?;
        if self.token != operator {
            return Ok(first);
        }
        let start = first.span();
        let mut operands = vec![first];
        while self.take(operator)?.is_some() {
            operands.push(self.joined(tighter)?);
        }
        let kind = Kind::Group(Group::new(combination, operands));
        Ok(Location::new(kind, start.to(self.last_span)))
    }

    fn all(&mut self) -> Result<Location> {
        let first = self.leveled()?;
        if self.token != Token::All {
            return Ok(first.location);
        }
        let start = first.location.span();
        let mut operands = vec![first];
        while self.take(Token::All)?.is_some() {
            operands.push(self.leveled()?);
        }
        let span = start.to(self.last_span);
        if operands.iter().any(|operand| operand.bare_level.is_some()) {
            return Err(one_of_many(operands, span));
        }
        let operands = operands.into_iter().map(|operand| operand.location).collect();
        Ok(Location::new(Kind::Group(Group::new(Combination::All, operands)), span))
    }

    fn leveled(&mut self) -> Result<Operand> {
        let named = matches!(self.token, Token::Name(_));
        let location = self.unary()?;
        if self.take(Token::At)?.is_none() {
            return Ok(Operand { location, bare_level: None });
        }
        let level = self.level()?;
        let span = location.span().to(self.last_span);
        let bare = named && matches!(location.kind, Kind::Name(_) | Kind::Here);
        let (written, text) = (location.span(), location.to_string());
        let location = location.leveled(level).map_err(|fault| fault.diagnostic(written, Some(&text)))?;
        let location = Location { place: Place(span), ..location };
        Ok(Operand { location, bare_level: bare.then_some(level) })
    }

    fn level(&mut self) -> Result<Level> {
        let names = || Level::ALL.iter().map(|level| level.name());
        let Token::Name(name) = self.token else {
            return Err(self.expected("a level").help(format!("the levels are {}", some_of(names()))));
        };
        let Some(level) = Level::ALL.into_iter().find(|level| level.name() == name) else {
            if let Some((first, _)) =
                name.split_once(' ').filter(|(first, _)| names().any(|name| name == *first))
            {
                let message = format!("an operator is missing after `@{first}`");
                return Err(Diagnostic::new(Code::Syntax, message).at(self.span, "read as one name"));
            }
            return Err(Diagnostic::unknown(Code::Level, "level", name, self.span, names()));
        };
        self.advance()?;
        Ok(level)
    }

    fn unary(&mut self) -> Result<Location> {
        let Some(not) = self.take(Token::Not)? else { return self.atom() };
        self.enter(not)?;
        let inner = self.unary()?;
        self.depth -= 1;
        let span = not.to(inner.span());
        Ok(Location::new(Kind::Not(Box::new(inner)), span))
    }

    fn atom(&mut self) -> Result<Location> {
        let span = self.span;
        let kind = match self.token {
            Token::Star => Kind::Members,
            Token::Name(name) => {
                self.advance()?;
                return match self.take(Token::Open)? {
                    Some(open) => self.call(name, span, open),
                    None if name == "here" => Ok(Location::new(Kind::Here, span)),
                    None => Ok(Location::new(Kind::Name(name.into()), span)),
                };
            }
            Token::Open => return self.parenthesised(),
            Token::Quoted(content) => self.quoted(content)?,
            Token::Number(word) => {
                return Err(self.expected("a location").help(match parse_duration(word) {
                    Ok(_) => "only functions take durations, such as `within(2s, Site1)`",
                    Err(_) => "the name of a site starts with a letter",
                }));
            }
            _ => return Err(self.expected("a location")),
        };
        self.advance()?;
        Ok(Location::new(kind, span))
    }

    fn parenthesised(&mut self) -> Result<Location> {
        let open = self.advance()?;
        self.enter(open)?;
        let inner = self.location()?;
        self.depth -= 1;
        let Some(close) = self.take(Token::Close)? else {
            return Err(self.unclosed("an operator or `)`", open));
        };
        Ok(Location { place: Place(open.to(close)), ..inner })
    }

    fn unclosed(&self, what: &str, open: Span) -> Diagnostic {
        let diagnostic = self.expected(what).at(open, "to close this parenthesis");
        match (self.last, self.token) {
            (Token::Name(_), Token::Name(_) | Token::Number(_)) => {
                diagnostic.help("the words of one name have exactly one space between them")
            }
            _ => diagnostic,
        }
    }

    /// A string is a location of its own, as if it stood in parentheses.
    fn quoted(&mut self, content: &str) -> Result<Kind> {
        self.enter(self.span)?;
        let unescaped = Unescaped::new(content, &self.lexer)?;
        let mut inner = Parser::over(unescaped.source(), self.text, self.dialect, self.depth)?;
        let location = inner.location()?;
        if inner.token != Token::End {
            return Err(inner.unfinished("or the end of the string"));
        }
        self.depth -= 1;
        Ok(location.kind)
    }

    // --- calls

    fn call(&mut self, name: &str, span: Span, open: Span) -> Result<Location> {
        let Some(function) = function::find(name) else {
            if name == "here" {
                return Err(Diagnostic::new(Code::Function, "`here` is a site, not a function")
                    .at(open, "it takes no parentheses"));
            }
            let names = FUNCTIONS.iter().map(|function| function.name);
            return Err(Diagnostic::unknown(Code::Function, "function", name, span, names));
        };
        self.enter(open)?;
        let arguments = self.arguments(function, span, open)?;
        self.depth -= 1;
        Ok(Location::new(Kind::Call(function, arguments), span.to(self.last_span)))
    }

    /// To the closing parenthesis, and past it.
    fn arguments(&mut self, function: &'static Function, name: Span, open: Span) -> Result<Vec<Argument>> {
        let usage =
            |diagnostic: Diagnostic| diagnostic.help(format!("it is written `{}`", function.signature));
        let wrong_number = |given: usize, at: Span| {
            let wanted = function.parameters.len();
            let plural = if wanted == 1 { "" } else { "s" };
            let message = format!("`{}` takes {wanted} argument{plural}, not {given}", function.name);
            usage(Diagnostic::new(Code::Function, message).at(at, "here"))
        };
        let mut arguments = Vec::with_capacity(function.parameters.len());
        let mut parameters = function.parameters.iter().copied();
        let mut parameter = parameters.next();
        while let Some(wanted) = parameter {
            if self.token == Token::Close {
                return Err(wrong_number(arguments.len(), name.to(self.span)));
            }
            arguments.push(self.argument(wanted).map_err(|diagnostic| match diagnostic.code() {
                Code::Function => usage(diagnostic),
                _ => diagnostic,
            })?);
            parameter = parameters.next().or_else(|| function.repeats.then_some(wanted));
            let comma = self.take(Token::Comma)?;
            match (comma, self.token, parameter) {
                (None, Token::Close, _) if arguments.len() >= function.parameters.len() => break,
                (None, Token::Close, _) => return Err(wrong_number(arguments.len(), name.to(self.span))),
                (None, ..) => return Err(self.unclosed("`,` or `)`", open)),
                (Some(comma), ..) if self.token == Token::Close => {
                    return Err(usage(
                        Diagnostic::new(Code::Function, "an argument is missing after this comma")
                            .at(comma, "or remove it"),
                    ));
                }
                (Some(comma), _, None) => return Err(wrong_number(self.count_on(arguments.len())?, comma)),
                (Some(_), ..) => {}
            }
        }
        self.advance()?;
        if function.repeats {
            arguments.sort();
            arguments.dedup();
        }
        Ok(arguments)
    }

    /// How many arguments there are, where more than enough were read.
    fn count_on(&mut self, so_far: usize) -> Result<usize> {
        let (mut count, mut open) = (so_far + 1, 0_usize);
        loop {
            match self.token {
                Token::End => return Ok(count),
                Token::Open => open += 1,
                Token::Close if open == 0 => return Ok(count),
                Token::Close => open -= 1,
                Token::Comma if open == 0 => count += 1,
                _ => {}
            }
            self.advance()?;
        }
    }

    fn argument(&mut self, wanted: Parameter) -> Result<Argument> {
        let mismatch = |parser: &Self| {
            let what = wanted.describe();
            let message = format!("expected {what}, found {}", parser.token.describe());
            Diagnostic::new(Code::Function, message).at(parser.span, format!("expected {what}"))
        };
        let argument = match (wanted, self.token) {
            (Parameter::Location, Token::Number(_)) => return Err(mismatch(self)),
            (Parameter::Location, _) => return self.location().map(Argument::Location),
            (Parameter::Duration, Token::Number(word)) => match parse_duration(word) {
                Ok(duration) => Argument::Duration(duration),
                Err(why) => return Err(self.not_a_duration(word, &why)),
            },
            (Parameter::Count, Token::Number(word)) => Argument::Count(word.parse().map_err(|_| {
                let digits = word.bytes().all(|byte| byte.is_ascii_digit());
                let why = if digits { "this is too large" } else { "a count is a whole number, such as `3`" };
                Diagnostic::new(Code::Function, format!("`{word}` is not a count")).at(self.span, why)
            })?),
            (Parameter::Word, Token::Name(_)) => return self.word().map(Argument::Word),
            (Parameter::Pair, Token::Name(_) | Token::Number(_)) => {
                let label = self.word()?;
                if self.take(Token::Equals)?.is_none() {
                    let message = format!("expected `=`, found {}", self.token.describe());
                    return Err(Diagnostic::new(Code::Function, message).at(self.span, "expected `=`"));
                }
                return Ok(Argument::Pair(label, self.word()?));
            }
            _ => return Err(mismatch(self)),
        };
        self.advance()?;
        Ok(argument)
    }

    /// Says what is wrong with a duration, such as `10 ms`.
    fn not_a_duration(&mut self, word: &str, why: &str) -> Diagnostic {
        let span = self.span;
        let diagnostic = Diagnostic::new(Code::Function, format!("`{word}` is not a duration")).at(span, why);
        match (self.advance(), self.token) {
            (Ok(_), Token::Name(unit)) if parse_duration(&format!("{word}{unit}")).is_ok() => {
                let whole = format!("{word}{unit}");
                diagnostic.replace(
                    span.to(self.span),
                    whole,
                    "a number and its unit have no space between them",
                )
            }
            _ => diagnostic,
        }
    }

    /// A label, its value, or a metric.
    fn word(&mut self) -> Result<Word> {
        let (Token::Name(text) | Token::Number(text)) = self.token else {
            return Err(Diagnostic::new(
                Code::Function,
                format!("expected a word, found {}", self.token.describe()),
            )
            .at(self.span, "expected a word"));
        };
        if text.contains(' ') {
            return Err(Diagnostic::new(Code::Function, format!("`{text}` is more than one word"))
                .at(self.span, "expected one word"));
        }
        let word = Word { text: text.into(), place: Place(self.span) };
        self.advance()?;
        Ok(word)
    }
}

fn too_long(limit: usize, span: Span) -> Diagnostic {
    Diagnostic::new(Code::Limit, format!("this scope has more than {limit} bytes in its canonical form"))
        .at(span, "too long")
        .help("a zone gives a long location a short name")
}

/// `A & B @quorum`: the level would be that of B alone.
fn one_of_many(operands: Vec<Operand>, span: Span) -> Diagnostic {
    let levels: Vec<(Level, Span)> =
        operands.iter().filter_map(|operand| Some((operand.bare_level?, operand.location.span()))).collect();
    let mut diagnostic =
        Diagnostic::new(Code::Level, "a level belongs to a whole group, not to one name in it");
    for (level, at) in &levels {
        diagnostic = diagnostic.at(*at, format!("this alone would be @{}", level.name()));
    }
    if let [(level, _)] = levels.as_slice() {
        let plain = operands.into_iter().map(|operand| match operand.location.kind {
            Kind::Group(Group { mut operands, .. }) if operand.bare_level.is_some() => {
                operands.swap_remove(0)
            }
            kind => Location { kind, ..operand.location },
        });
        let group = Location::new(Kind::Group(Group::new(Combination::All, plain.collect())), span);
        let whole = format!("({group}) @{}", level.name());
        diagnostic = diagnostic.replace(span, whole, "put the group in parentheses");
    }
    diagnostic.help("a zone inside a longer group has its level in parentheses too: `A & (west @quorum)`")
}

/// Sorted by service, `*` last, each once.
fn each_once(mut bindings: Vec<Binding>) -> Result<Vec<Binding>> {
    bindings.sort_by(|a, b| a.key.cmp(&b.key));
    for pair in bindings.windows(2) {
        let [first, second] = pair else { continue };
        if first.key == second.key {
            let name = match &first.key {
                Key::Service(name) => format!("the service `{name}`"),
                Key::Rest => "`*`".to_owned(),
            };
            return Err(Diagnostic::new(Code::Service, format!("{name} is bound twice"))
                .at(second.place.0, "bound again here")
                .at(first.place.0, "first bound here")
                .help("to use it at several sites, join them: `A & B`, `A | B` or `A ; B`"));
        }
    }
    Ok(bindings)
}
