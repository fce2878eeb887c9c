//! Text to tokens.
//!
//! A JSON string inside a scope holds a location of its own. Its content is unescaped into a new text
//! and read by a new [`Lexer`], which knows for each byte where it came from: an error inside a string
//! still points at the character that was typed.

use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'t> {
    /// Words joined by single spaces: `Site1`, `DC 1`, `around`.
    Name(&'t str),
    /// A word that starts with a digit: `10ms`, `3`.
    Number(&'t str),
    /// A JSON string, its quotes taken off, not yet unescaped.
    Quoted(&'t str),
    OpenBrace,
    CloseBrace,
    Open,
    Close,
    Comma,
    Colon,
    Equals,
    Otherwise,
    Any,
    One,
    All,
    Not,
    At,
    Star,
    End,
}

impl Token<'_> {
    /// What to call it in "found …".
    pub(crate) fn describe(self) -> String {
        let symbol = match self {
            Token::Name(name) => return format!("the name `{name}`"),
            Token::Number(word) => return format!("`{word}`"),
            Token::Quoted(_) => return "a string".to_owned(),
            Token::End => return "the end".to_owned(),
            Token::OpenBrace => "{",
            Token::CloseBrace => "}",
            Token::Open => "(",
            Token::Close => ")",
            Token::Comma => ",",
            Token::Colon => ":",
            Token::Equals => "=",
            Token::Otherwise => ";",
            Token::Any => "|",
            Token::One => "^",
            Token::All => "&",
            Token::Not => "!",
            Token::At => "@",
            Token::Star => "*",
        };
        format!("`{symbol}`")
    }
}

/// A text, and for each of its bytes where it stands in what was typed.
#[derive(Clone, Copy)]
pub(crate) struct Source<'t> {
    text: &'t str,
    /// `None`: the text is what was typed. Else one entry per byte, and one for the end.
    typed_at: Option<&'t [usize]>,
}

impl<'t> Source<'t> {
    pub(crate) fn typed(text: &'t str) -> Self {
        Source { text, typed_at: None }
    }

    fn span(&self, start: usize, end: usize) -> Span {
        match self.typed_at {
            None => Span { start, end },
            Some(map) => {
                let typed = |at: usize| map.get(at).or(map.last()).copied().unwrap_or_default();
                Span { start: typed(start), end: typed(end) }
            }
        }
    }
}

/// Reads one token after the other. It keeps nothing but its place.
pub(crate) struct Lexer<'t> {
    source: Source<'t>,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(source: Source<'t>) -> Self {
        #[cfg(test)]
        tests::READ.with(|read| read.set(read.get() + source.text.len()));
        Lexer { source, at: 0 }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.source.text.as_bytes().get(self.at + ahead).copied()
    }

    /// Goes on while `wanted` holds.
    fn skip_while(&mut self, wanted: impl Fn(u8) -> bool) {
        while self.peek(0).is_some_and(&wanted) {
            self.at += 1;
        }
    }

    fn text_from(&self, start: usize) -> &'t str {
        // Only ASCII was passed over, so both ends are character boundaries.
        self.source.text.get(start..self.at).unwrap_or_default()
    }

    pub(crate) fn next(&mut self) -> Result<(Token<'t>, Span), Diagnostic> {
        self.skip_while(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n'));
        let start = self.at;
        let Some(first) = self.peek(0) else {
            return Ok((Token::End, self.source.span(start, start)));
        };
        let token = match first {
            b'A'..=b'Z' | b'a'..=b'z' => self.name(),
            b'0'..=b'9' => {
                self.skip_while(is_word);
                Token::Number(self.text_from(start))
            }
            b'"' => self.quoted()?,
            _ => self.symbol(first)?,
        };
        Ok((token, self.source.span(start, self.at)))
    }

    fn name(&mut self) -> Token<'t> {
        let start = self.at;
        self.skip_while(is_word);
        while self.peek(0) == Some(b' ') && self.peek(1).is_some_and(|b| b.is_ascii_alphanumeric()) {
            self.at += 1;
            self.skip_while(is_word);
        }
        Token::Name(self.text_from(start))
    }

    fn symbol(&mut self, first: u8) -> Result<Token<'t>, Diagnostic> {
        let token = match first {
            b'{' => Token::OpenBrace,
            b'}' => Token::CloseBrace,
            b'(' => Token::Open,
            b')' => Token::Close,
            b',' => Token::Comma,
            b':' => Token::Colon,
            b'=' => Token::Equals,
            b';' => Token::Otherwise,
            b'|' => Token::Any,
            b'^' => Token::One,
            b'&' => Token::All,
            b'!' => Token::Not,
            b'@' => Token::At,
            b'*' => Token::Star,
            _ => return Err(self.stray()),
        };
        self.at += 1;
        if matches!(token, Token::Any | Token::All) && self.peek(0) == Some(first) {
            self.at += 1; // `||` and `&&` mean what `|` and `&` mean
        }
        Ok(token)
    }

    /// To the closing quote. What stands between is checked when it is unescaped.
    fn quoted(&mut self) -> Result<Token<'t>, Diagnostic> {
        let open = self.at;
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek(0) {
                None => {
                    return Err(Diagnostic::new(Code::Syntax, "this string has no end")
                        .at(self.source.span(open, self.at), "it starts here, and no `\"` closes it"));
                }
                Some(b'"') => break,
                Some(b'\\') if self.peek(1).is_some() => self.at += 2,
                Some(_) => self.at += 1,
            }
        }
        // Both ends are next to a quote, which is ASCII: they are character boundaries.
        let content = self.source.text.get(start..self.at).unwrap_or_default();
        self.at += 1;
        Ok(Token::Quoted(content))
    }

    /// A character that no token starts with.
    fn stray(&self) -> Diagnostic {
        let Some(found) = self.source.text.get(self.at..).and_then(|rest| rest.chars().next()) else {
            return Diagnostic::new(Code::Syntax, "the text ends in the middle of a character");
        };
        let span = self.source.span(self.at, self.at + found.len_utf8());
        let diagnostic = Diagnostic::new(Code::Syntax, format!("unexpected character `{}`", shown(found)));
        let (label, help) = match found {
            '#' => ("a scope has no comments", "remove everything from the `#` on"),
            '\'' => ("not a quote here", "strings have double quotes, as in JSON"),
            '[' | ']' => {
                ("lists are not written in brackets", "join sites with an operator, such as `A & B`")
            }
            '~' | '-' => ("names start with a letter", "every site but one is `!Site1`"),
            '+' => ("not an operator", "both sites are `A & B`, one of them is `A | B`"),
            c if !c.is_ascii() => ("not ASCII", "names have letters, digits, `.`, `_` and `-`"),
            _ => ("not part of a name or an operator", "the operators are `&` `|` `^` `;` `!` and `@`"),
        };
        diagnostic.at(span, label).help(help)
    }
}

/// As it is, unless that would do something to a terminal.
fn shown(character: char) -> String {
    if character.is_ascii_graphic() { character.to_string() } else { character.escape_debug().to_string() }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

/// Whether the language can write `text` as one name: of a service, a site or a zone.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let mut lexer = Lexer::new(Source::typed(text));
    matches!(lexer.next(), Ok((Token::Name(name), _)) if name.len() == text.len())
}

/// The content of a JSON string, unescaped, with the place of every byte.
pub(crate) struct Unescaped {
    text: String,
    typed_at: Vec<usize>,
}

impl Unescaped {
    pub(crate) fn source(&self) -> Source<'_> {
        Source { text: &self.text, typed_at: Some(&self.typed_at) }
    }

    /// Unescapes what a [`Token::Quoted`] holds. `outer` is the lexer's that read it.
    pub(crate) fn new(content: &str, outer: &Lexer<'_>) -> Result<Unescaped, Diagnostic> {
        // The token was just read: its content ends one byte, the quote, before the lexer's place.
        let base = outer.at - 1 - content.len();
        let mut unescaped = Unescaped { text: String::new(), typed_at: Vec::new() };
        let mut rest = content.char_indices();
        while let Some((start, first)) = rest.next() {
            let character = match first {
                '\\' => escape(&mut rest),
                c if c < ' ' => Err("control characters are escaped in JSON"),
                c => Ok(c),
            };
            let end = content.len() - rest.as_str().len();
            let span = outer.source.span(base + start, base + end);
            match character {
                Ok(character) => {
                    unescaped.text.push(character);
                    unescaped.typed_at.resize(unescaped.text.len(), span.start);
                }
                Err(why) => {
                    return Err(Diagnostic::new(Code::Syntax, "not a JSON string").at(span, why));
                }
            }
        }
        unescaped.typed_at.push(outer.source.span(base + content.len(), base + content.len()).start);
        Ok(unescaped)
    }
}

/// What follows a backslash. Everything that a scope can hold is ASCII: a half of a surrogate pair
/// becomes one replacement character, which the lexer then refuses like any other.
fn escape(rest: &mut std::str::CharIndices<'_>) -> Result<char, &'static str> {
    Ok(match rest.next().map(|(_, c)| c) {
        Some(c @ ('"' | '\\' | '/')) => c,
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('n') => '\n',
        Some('r') => '\r',
        Some('t') => '\t',
        Some('u') => {
            let mut code = 0;
            for _ in 0..4 {
                let digit = rest.next().and_then(|(_, c)| c.to_digit(16));
                code = code * 16 + digit.ok_or("`\\u` takes four hexadecimal digits")?;
            }
            char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        _ => return Err("JSON has no such escape"),
    })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use crate::{Dialect, Limits};

    thread_local! {
        /// Bytes of all texts that were read. A lexer never goes back, so this is what parsing costs.
        pub(super) static READ: Cell<usize> = const { Cell::new(0) };
    }

    fn bytes_read(text: &str) -> usize {
        let limits = Limits { text_bytes: usize::MAX, ..Limits::default() };
        let dialect = Dialect { limits, ..Dialect::default() };
        READ.with(|read| read.set(0));
        // Whether the text is valid does not matter here.
        let _ = dialect.scope(text);
        READ.with(Cell::get)
    }

    #[test]
    fn a_text_without_strings_is_read_once_however_it_is_made() {
        let nest = |open: &str, close: &str| format!("image: {}A{}", open.repeat(1000), close.repeat(1000));
        let long = |part: &str| format!("image: A{}", part.repeat(100_000));
        let texts = [
            nest("(", ")"),
            nest("!", ""),
            nest("all(", ")"),
            nest("except(A, ", ")"),
            long(" & A"),
            long(" | B"),
            long(" B"),
            long("  "),
            long(", image: A"),
            long("&"),
        ];
        for text in texts {
            assert!(bytes_read(&text) <= text.len());
        }
    }

    #[test]
    fn each_string_around_a_text_has_it_read_once_more_and_needs_twice_the_backslashes() {
        let mut location = "A & B & C".to_owned();
        for strings in 1..12 {
            location = format!("\"{}\"", location.replace('\\', "\\\\").replace('"', "\\\""));
            let text = format!("image: {location}");
            assert!(bytes_read(&text) <= 2 * text.len() + 64 * strings, "{strings} strings");
        }
    }
}
