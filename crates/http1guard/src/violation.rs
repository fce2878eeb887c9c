//! What was wrong with the bytes, and which answer that deserves.

use std::fmt;

/// Bytes that were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The rule that they broke.
    pub rule: Rule,
    /// Where in a request they stood.
    pub part: Part,
}

/// Where in a request a violation stood. It decides who answers: see [`crate::Guarded`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// In its head: nothing of the request was passed on.
    Head,
    /// In its body or its trailers: the head was passed on, and somebody is at work on it.
    Body,
}

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $name:ident => $status:literal $detail:literal,)+) => {
        /// A rule that requests must keep.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Rule {
            /// Every rule, so that a test can see that each has been broken once.
            pub const ALL: &[Rule] = &[$(Rule::$name,)+];

            /// The status that answers a request which broke the rule.
            #[must_use]
            pub fn status(self) -> u16 {
                match self { $(Rule::$name => $status,)+ }
            }

            /// The rule in one sentence, for the sender. It never holds bytes of the request.
            #[must_use]
            pub fn detail(self) -> &'static str {
                match self { $(Rule::$name => $detail,)+ }
            }
        }
    };
}

rules! {
    /// A line ended in LF alone.
    BareLf => 400 "Every line ends with CR LF; this one ended with LF alone.",
    /// A CR stood inside a line.
    BareCr => 400 "A CR stands only before the LF that ends a line.",
    /// More than one empty line before a request.
    BlankLines => 400 "At most one empty line may come before a request.",
    /// Whitespace before the request line.
    LeadingSpace => 400 "A request starts with its method, not with whitespace.",
    /// The method is not a token.
    Method => 400 "The method is a token: letters, digits and a few signs.",
    /// Not three parts with one space between them.
    RequestLine => 400 "A request line is a method, a target and a version, with one space between them.",
    /// Neither HTTP/1.1 nor HTTP/1.0.
    Version => 400 "The version is HTTP/1.1 or HTTP/1.0.",
    /// The target has another form than the method asks for.
    TargetForm => 400 "The target is a path, an http or https URI, a host and port for CONNECT, or * for OPTIONS.",
    /// A byte that no target has.
    TargetByte => 400 "The target has a byte that must be percent-encoded, or a fragment.",
    /// The request line is too long.
    TargetTooLong => 414 "The request line is too long.",
    /// A line of the head is not a name and a value.
    FieldName => 400 "A field is a name, a colon and a value; the name is a token.",
    /// Whitespace between a name and its colon.
    SpaceBeforeColon => 400 "No whitespace may stand between a field's name and its colon.",
    /// A value that goes on in the next line.
    Folding => 400 "A field's value stands in one line: no line may start with whitespace.",
    /// A control character in a value.
    Control => 400 "A field's value has no control characters but tabs.",
    /// Too many fields.
    TooManyFields => 431 "The request has too many fields.",
    /// The head is too large.
    HeadTooLarge => 431 "The request's head is too large.",
    /// HTTP/1.1 without `Host`.
    NoHost => 400 "An HTTP/1.1 request has a Host field.",
    /// More than one `Host`.
    TwoHosts => 400 "A request has one Host field.",
    /// `Host` is not a host.
    HostValue => 400 "The host is a name or an address, and a port if need be.",
    /// The target names a host, and `Host` another.
    HostMismatch => 400 "The target and the Host field name different hosts.",
    /// More than one `Content-Length`, even equal ones.
    TwoLengths => 400 "A request has at most one Content-Length field.",
    /// `Content-Length` is not a plain number.
    LengthValue => 400 "Content-Length is a decimal number below 2^63, with no sign and no leading zero.",
    /// More than one `Transfer-Encoding`.
    TwoEncodings => 400 "A request has at most one Transfer-Encoding field.",
    /// `Transfer-Encoding` is not `chunked`.
    EncodingValue => 400 "Transfer-Encoding is `chunked` and nothing else.",
    /// `Transfer-Encoding` in HTTP/1.0, which has none.
    EncodingVersion => 400 "HTTP/1.0 has no Transfer-Encoding.",
    /// Both `Content-Length` and `Transfer-Encoding`.
    LengthAndEncoding => 400 "A request has a Content-Length or a Transfer-Encoding, not both.",
    /// The name of a length or an encoding, but for an underscore.
    Underscore => 400 "Content-Length and Transfer-Encoding are written with a hyphen, not an underscore.",
    /// CONNECT with a body.
    ConnectBody => 400 "A CONNECT request has no body.",
    /// The size of a chunk is not a plain hexadecimal number.
    ChunkSize => 400 "A chunk's size is 1 to 16 hexadecimal digits, below 2^63.",
    /// A chunk extension with other than visible characters.
    ChunkExtension => 400 "A chunk extension follows a semicolon and has visible ASCII characters only.",
    /// The line of a chunk's size, or all extensions together, are too long.
    ChunkLineTooLong => 400 "The chunk sizes and extensions are too long.",
    /// No CR LF after the bytes of a chunk.
    ChunkEnd => 400 "CR LF follows the bytes of a chunk.",
    /// A trailer that says how to read the request.
    TrailerName => 400 "A trailer cannot say how the request is framed or routed.",
    /// Too many bytes of trailers.
    TrailersTooLarge => 431 "The request's trailers are too large.",
}

impl Violation {
    /// The status that answers it.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.rule.status()
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule.detail())
    }
}

impl std::error::Error for Violation {}
