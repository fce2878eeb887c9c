//! Checks one JSON value as its bytes come, finds its end, and tells its members on the way: all in one pass.

#[cfg(test)]
mod tests;

/// What looks at the members of the value, if it is an object.
pub(crate) trait Watch {
    /// A member's name, with its quotes, and whether it has a backslash. Whether its value is wanted.
    fn name(&mut self, raw: &[u8], escaped: bool) -> bool;

    /// The value of the member that was wanted. Whether it could be read.
    fn value(&mut self, raw: &[u8]) -> bool;
}

/// Nothing is wanted of the value.
pub(crate) struct Unwatched;

impl Watch for Unwatched {
    fn name(&mut self, _: &[u8], _: bool) -> bool {
        false
    }

    fn value(&mut self, _: &[u8]) -> bool {
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
        while let Some(&byte) = text.get(self.at) {
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
                if !watch.value(raw) {
                    return Err(Flaw::Malformed);
                }
            }
            self.state = State::Behind;
            if self.in_object() && self.quote_after(b',', text) {
                self.escaped = false;
                self.state = State::String(Whose::Name);
            }
        }
        Ok(None)
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

    /// Goes on to behind a quote, if it follows such a byte with at most a space between, as in most of what programs
    /// write.
    fn quote_after(&mut self, byte: u8, text: &[u8]) -> bool {
        let quote = match text.get(self.at..) {
            Some([first, b'"', ..]) if *first == byte => 1,
            Some([first, b' ', b'"', ..]) if *first == byte => 2,
            _ => return false,
        };
        self.at += quote;
        if self.depth == 1 {
            self.start = self.at;
        }
        self.at += 1;
        true
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
                let is_string = self.quote_after(b':', text);
                self.state = if is_string { State::String(Whose::Value) } else { State::Colon };
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

/// How many bytes from here on stand for themselves in a string: none is a quote, a backslash or a control
/// character. Eight are looked at at once.
fn plain(text: &[u8]) -> usize {
    const ONES: u64 = u64::MAX / 0xff;
    // The highest bit of the first byte below a limit; of bytes above that one, it may be wrong.
    let below = |word: u64, limit: u64| word.wrapping_sub(ONES * limit) & !word & (ONES << 7);
    let is_plain = |byte: &u8| !matches!(byte, b'"' | b'\\' | ..0x20);
    let (words, rest) = text.as_chunks::<8>();
    for (index, bytes) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*bytes);
        let quote = below(word ^ (ONES * u64::from(b'"')), 1);
        let backslash = below(word ^ (ONES * u64::from(b'\\')), 1);
        let found = quote | backslash | below(word, 0x20);
        if found != 0 {
            return index * 8 + found.trailing_zeros() as usize / 8;
        }
    }
    words.len() * 8 + rest.iter().take_while(|byte| is_plain(byte)).count()
}
