//! Checks one JSON value as its bytes come, finds its end, and tells its members on the way: all in one pass.

#[cfg(test)]
mod tests;

use wide::u8x16;

/// What looks at the members of the value, if it is an object.
pub(crate) trait Watch {
    /// A member's name, with its quotes, and whether it has a backslash. Whether its value is wanted.
    fn name(&mut self, raw: &[u8], escaped: bool) -> bool;

    /// The value of the member that was wanted, and where it begins. Whether it could be read.
    fn value(&mut self, raw: &[u8], at: usize) -> bool;
}

/// Nothing is wanted of the value.
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    fn name(&mut self, _: &[u8], _: bool) -> bool {
        false
    }

    fn value(&mut self, _: &[u8], _: usize) -> bool {
        true
    }
}

/// Why a value is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    Malformed,
    TooDeep,
}

/// One value that is being checked. That it is UTF-8 is checked once it is whole.
#[derive(Debug)]
pub(crate) struct Check {
    state: State,
    /// How many bytes of the value have been looked at.
    at: usize,
    depth: usize,
    max_depth: usize,
    /// Which of the open brackets are those of objects; the innermost is the lowest bit.
    objects: u128,
    /// Where a name or a value of the outermost object begins.
    start: usize,
    /// The value that begins there is wanted.
    wanted: bool,
    /// The last string has a backslash.
    escaped: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// A value comes; after `[`, there may be none.
    Value {
        or_end: bool,
    },
    /// A name comes; after `{`, there may be none.
    Name {
        or_end: bool,
    },
    Colon,
    /// Behind a value, inside brackets.
    Behind,
    String(Whose),
    Escape(Whose),
    /// So many digits of `\u0000` are left.
    Hex(Whose, u8),
    Number(Digits),
    /// So many letters of a word have come.
    Word(Word, u8),
}

/// A string is a name or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Name,
    Value,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    True,
    False,
    Null,
}

/// The last thing that was seen of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digits {
    Minus,
    Zero,
    Whole,
    Dot,
    Fraction,
    E,
    Sign,
    Exponent,
}

impl Check {
    pub(crate) fn new(max_depth: usize) -> Check {
        Check {
            state: State::Value { or_end: false },
            at: 0,
            depth: 0,
            // So many brackets are remembered.
            max_depth: max_depth.min(128),
            objects: 0,
            start: 0,
            wanted: false,
            escaped: false,
        }
    }

    /// Looks on at a value, of which `text` is all that has come, from its first byte on. Where it ends, if
    /// it does: then the next value can be checked.
    pub(crate) fn end_in(&mut self, text: &[u8], watch: &mut impl Watch) -> Result<Option<usize>, Flaw> {
        loop {
            if let State::Name { .. } = self.state {
                self.members(text, watch)?;
            }
            let Some(&byte) = text.get(self.at) else { return Ok(None) };
            let ends = match self.state {
                State::String(whose) => self.string(whose, text, watch)?,
                State::Number(digits) => self.number(digits, byte)?,
                State::Word(word, at) => self.word(word, at, byte)?,
                State::Escape(whose) => {
                    self.state = match byte {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => State::String(whose),
                        b'u' => State::Hex(whose, 4),
                        _ => return Err(Flaw::Malformed),
                    };
                    self.pass()
                }
                State::Hex(whose, left) if byte.is_ascii_hexdigit() => {
                    self.state = if left > 1 { State::Hex(whose, left - 1) } else { State::String(whose) };
                    self.pass()
                }
                State::Hex(..) => return Err(Flaw::Malformed),
                _ => self.structure(byte)?,
            };
            if !ends {
                continue;
            }
            if self.depth == 0 {
                self.state = State::Value { or_end: false };
                return Ok(Some(std::mem::take(&mut self.at)));
            }
            if self.depth == 1 && std::mem::take(&mut self.wanted) {
                let raw = text.get(self.start..self.at).unwrap_or_default();
                if !watch.value(raw, self.start) {
                    return Err(Flaw::Malformed);
                }
            }
            self.state = State::Behind;
        }
    }

    /// Goes on over members that are whole and written as most are. The first that is not is left as it is, to be
    /// looked at byte by byte.
    fn members(&mut self, text: &[u8], watch: &mut impl Watch) -> Result<(), Flaw> {
        loop {
            let rest = text.get(self.at..).unwrap_or_default();
            let Some((name, value, len)) = member(rest) else { return Ok(()) };
            self.at += len;
            let is_wanted = self.depth == 1 && watch.name(name, false);
            if is_wanted && !watch.value(value, self.at - value.len()) {
                return Err(Flaw::Malformed);
            }
            match rest.get(len..) {
                Some([b',', b' ', b'"', ..]) => self.at += 2,
                Some([b',', b'"', ..]) => self.at += 1,
                _ => {
                    self.state = State::Behind;
                    return Ok(());
                }
            }
            self.state = State::Name { or_end: false };
        }
    }

    /// One more byte has been looked at, and no value ends with it.
    fn pass(&mut self) -> bool {
        self.at += 1;
        false
    }

    /// Brackets, commas, colons, and the first byte of all else. Whether a value ends.
    fn structure(&mut self, byte: u8) -> Result<bool, Flaw> {
        self.state = match (self.state, byte) {
            (_, b' ' | b'\t' | b'\r' | b'\n') => self.state,
            (State::Behind | State::Name { or_end: true }, b'}') if self.in_object() => {
                return Ok(self.close());
            }
            (State::Behind, b']') if !self.in_object() => return Ok(self.close()),
            (State::Value { or_end: true }, b']') => return Ok(self.close()),
            (State::Behind, b',') if self.in_object() => State::Name { or_end: false },
            (State::Behind, b',') | (State::Colon, b':') => State::Value { or_end: false },
            (State::Name { .. }, b'"') => {
                if self.depth == 1 {
                    self.start = self.at;
                }
                self.escaped = false;
                State::String(Whose::Name)
            }
            (State::Value { .. }, byte) => {
                if self.depth == 1 {
                    self.start = self.at;
                }
                match byte {
                    b'"' => State::String(Whose::Value),
                    b'{' => self.open(true)?,
                    b'[' => self.open(false)?,
                    b'-' => State::Number(Digits::Minus),
                    b'0' => State::Number(Digits::Zero),
                    b'1'..=b'9' => State::Number(Digits::Whole),
                    b't' => State::Word(Word::True, 1),
                    b'f' => State::Word(Word::False, 1),
                    b'n' => State::Word(Word::Null, 1),
                    _ => return Err(Flaw::Malformed),
                }
            }
            _ => return Err(Flaw::Malformed),
        };
        Ok(self.pass())
    }

    fn in_object(&self) -> bool {
        self.objects & 1 == 1
    }

    fn open(&mut self, object: bool) -> Result<State, Flaw> {
        if self.depth >= self.max_depth {
            return Err(Flaw::TooDeep);
        }
        self.depth += 1;
        self.objects = self.objects << 1 | u128::from(object);
        Ok(if object { State::Name { or_end: true } } else { State::Value { or_end: true } })
    }

    fn close(&mut self) -> bool {
        self.at += 1;
        self.depth -= 1;
        self.objects >>= 1;
        true
    }

    fn string(&mut self, whose: Whose, text: &[u8], watch: &mut impl Watch) -> Result<bool, Flaw> {
        self.at += plain(text.get(self.at..).unwrap_or_default());
        match text.get(self.at) {
            Some(b'"') => {
                self.at += 1;
                if whose == Whose::Value {
                    return Ok(true);
                }
                if self.depth == 1 {
                    let raw = text.get(self.start..self.at).unwrap_or_default();
                    self.wanted = watch.name(raw, self.escaped);
                }
                self.state = State::Colon;
                Ok(false)
            }
            Some(b'\\') => {
                self.state = State::Escape(whose);
                self.escaped = true;
                Ok(self.pass())
            }
            Some(_) => Err(Flaw::Malformed),
            None => Ok(false),
        }
    }

    fn number(&mut self, digits: Digits, byte: u8) -> Result<bool, Flaw> {
        use Digits::{Dot, E, Exponent, Fraction, Minus, Sign, Whole, Zero};
        let next = match (digits, byte) {
            (Minus, b'0') => Zero,
            (Minus | Whole, b'0'..=b'9') => Whole,
            (Zero | Whole, b'.') => Dot,
            (Dot | Fraction, b'0'..=b'9') => Fraction,
            (Zero | Whole | Fraction, b'e' | b'E') => E,
            (E, b'+' | b'-') => Sign,
            (E | Sign | Exponent, b'0'..=b'9') => Exponent,
            // What comes behind it is looked at again.
            (Zero | Whole | Fraction | Exponent, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n') => {
                return Ok(true);
            }
            _ => return Err(Flaw::Malformed),
        };
        self.state = State::Number(next);
        Ok(self.pass())
    }

    fn word(&mut self, word: Word, at: u8, byte: u8) -> Result<bool, Flaw> {
        let letters: &[u8] = match word {
            Word::True => b"true",
            Word::False => b"false",
            Word::Null => b"null",
        };
        if letters.get(usize::from(at)) != Some(&byte) {
            return Err(Flaw::Malformed);
        }
        self.state = State::Word(word, at + 1);
        self.at += 1;
        Ok(usize::from(at) + 1 == letters.len())
    }
}

/// The member that this begins with, if it is whole, and its name and its value have nothing unusual: a string without
/// escapes, a whole number or a word. Its name, its value, and how many bytes it has.
fn member(text: &[u8]) -> Option<(&[u8], &[u8], usize)> {
    let (name, rest) = text.split_at_checked(string(text)?)?;
    let rest = rest.strip_prefix(b":")?;
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let len = match rest.first()? {
        b'"' => string(rest)?,
        b'1'..=b'9' => {
            let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
            matches!(rest.get(digits), Some(b',' | b'}')).then_some(digits)?
        }
        b't' | b'n' if rest.starts_with(b"true") || rest.starts_with(b"null") => 4,
        b'f' if rest.starts_with(b"false") => 5,
        _ => return None,
    };
    let (value, rest) = rest.split_at_checked(len)?;
    Some((name, value, text.len() - rest.len()))
}

/// How long the string is that this begins with, with its quotes; none if it is none, or not whole, or has escapes.
fn string(text: &[u8]) -> Option<usize> {
    let inner = text.strip_prefix(b"\"")?;
    let len = plain(inner);
    (inner.get(len) == Some(&b'"')).then_some(len + 2)
}

/// How many bytes from here on stand for themselves in a string: none is a quote, a backslash or a control
/// character. Sixteen are looked at at once.
fn plain(text: &[u8]) -> usize {
    let all = u8x16::splat;
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | ..0x20);
    let (blocks, rest) = text.as_chunks::<16>();
    for (index, block) in blocks.iter().enumerate() {
        let bytes = u8x16::new(*block);
        let control = bytes.min(all(0x1f)).simd_eq(bytes);
        let found = (control | bytes.simd_eq(all(b'"')) | bytes.simd_eq(all(b'\\'))).to_bitmask();
        if found != 0 {
            return index * 16 + found.trailing_zeros() as usize;
        }
    }
    blocks.len() * 16 + rest.iter().take_while(|byte| is_plain(byte)).count()
}
