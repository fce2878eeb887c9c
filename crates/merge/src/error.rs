//! What can be wrong, by whose fault it is.

use std::fmt;

/// What is wrong with the request: it cannot be merged as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It counts items or pages, or turns back.
    Counted {
        /// The query parameter that does.
        parameter: String,
    },
    /// It asks for a page by its number, which cannot be made of the sites' own pages.
    Page {
        /// The query parameter that does.
        parameter: String,
        /// Why not.
        why: PageRefused,
    },
    /// Its marker is none that was given out here.
    Marker {
        /// What is wrong with it.
        why: &'static str,
    },
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::Counted { parameter } => {
                write!(
                    f,
                    "`{parameter}` cannot be split over several sites: follow the next page's link instead, or have the profile \
                     say how the service counts (`offset` or `page`, and `largest`)"
                )
            }
            Refused::Page { parameter, why } => match why {
                PageRefused::NoNumber => write!(f, "`{parameter}` is no number that it can have"),
                PageRefused::NoSize => write!(
                    f,
                    "how many items a page has is not known: give a limit beside `{parameter}`, or say the `size` in the profile"
                ),
                PageRefused::TooFar { window, largest } => write!(
                    f,
                    "a page of several sites by `{parameter}` is made of the first {window} items of each, and a site tells \
                     {largest} at most: follow the next page's link instead"
                ),
            },
            Refused::Marker { why } => write!(f, "the marker {why}: start again without one"),
        }
    }
}

impl std::error::Error for Refused {}

/// Why a page by its number cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageRefused {
    /// The parameter is not one.
    NoNumber,
    /// How large pages are is not known.
    NoSize,
    /// It needs more items of each source than one tells at once.
    TooFar {
        /// So many.
        window: u64,
        /// So many are told.
        largest: u64,
    },
}

/// What is wrong with the answer of one source. The others are not concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is not JSON.
    Json(&'static str),
    /// A part of it is larger than may be.
    TooLarge(&'static str),
    /// It is JSON of another shape than the first source's.
    Shape,
    /// Its content coding is unknown, or what was coded is damaged.
    Coding(&'static str),
    /// It was lost on the way: the driver said so.
    Lost,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Json(why) => write!(f, "the answer is not JSON: {why}"),
            Fault::TooLarge(what) => write!(f, "{what} is too large"),
            Fault::Shape => f.write_str("the answer is of another shape than the others"),
            Fault::Coding(why) => write!(f, "the answer's content coding {why}"),
            Fault::Lost => f.write_str("the answer broke off"),
        }
    }
}

impl std::error::Error for Fault {}

/// Why there is no merged answer, or no end of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// No source had a usable answer.
    Nothing,
    /// A source failed after a part of the merged answer was given out, which can no longer say so.
    Late {
        /// The source.
        source: usize,
        /// What is wrong with it.
        fault: Fault,
    },
    /// A `^` has more items than may be.
    UniqueItems,
    /// A `^` needs all of a source's items, and the source tells only a page of them.
    UniquePaged {
        /// The source.
        source: usize,
    },
    /// A page whose successor is told in a header is larger than may be.
    Held,
    /// The profile says that it is a list, and no source had one of that shape.
    NotAList,
    /// A page by its number needs so many items of each source, and one tells fewer and has more.
    Window {
        /// The source.
        source: usize,
    },
    /// Items are named by their ids, and two sources have different ones of one name.
    SameName {
        /// The name.
        name: String,
    },
    /// A source has more, and does not say where in a way that the profile describes.
    NextUnknown {
        /// The source.
        source: usize,
    },
    /// It has more different texts or numbers than may be remembered.
    Values,
    /// Texts or numbers come in pages and in no order that is known: whether a later page repeats one cannot be told.
    ValuesPaged,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::Nothing => f.write_str("no site had a usable answer"),
            Broken::Late { fault, .. } => write!(f, "a site failed in the middle of its list: {fault}"),
            Broken::UniqueItems => f.write_str("`^` over lists with too many items"),
            Broken::UniquePaged { .. } => {
                f.write_str("`^` needs all items of each site, and a site tells them in pages")
            }
            Broken::Held => f.write_str("the page is too large: ask for fewer items"),
            Broken::NotAList => f.write_str(
                "the profile says that this is a list, and no site's answer is one of that shape: correct its `items`, or \
                 say `merge = false`",
            ),
            Broken::Window { .. } => f.write_str(
                "a page by its number is made of the first items of each site, and a site tells fewer than that at once: \
                 correct `largest` in the profile, or follow the next page's link",
            ),
            Broken::SameName { name } => {
                write!(f, "two sites have different items named `{name}`, and one list cannot have both: name one site")
            }
            Broken::NextUnknown { .. } => f.write_str(
                "a site has more, and its next page's address does not have the `marker` that the profile says: correct \
                 `paging` (`marker`; or `offset` or `page`, for services that count)",
            ),
            Broken::Values => f.write_str("too many different texts or numbers to tell each once"),
            Broken::ValuesPaged => f.write_str(
                "texts or numbers in pages are told once only in an order: say it in `sort.default` of the profile, or ask \
                 without a limit",
            ),
        }
    }
}

impl std::error::Error for Broken {}
