//! The canonical text of scopes, locations and plans.

use std::fmt::{self, Display, Formatter, Write};

use crate::duration::print_duration;
use crate::plan::Plan;
use crate::syntax::{Argument, Combination, Group, Key, Kind, Location, Scope};

/// `{}` for the empty scope, else `service: location, …` without braces.
impl Display for Scope {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("{}");
        }
        separated(f, ", ", &self.bindings, |f, binding| {
            match &binding.key {
                Key::Service(name) => f.write_str(name)?,
                Key::Rest => f.write_char('*')?,
            }
            write!(f, ": {}", binding.location)
        })
    }
}

impl Display for Location {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Name(name) => f.write_str(name),
            Kind::Members => f.write_char('*'),
            Kind::Here => f.write_str("here"),
            Kind::Not(inner) => {
                f.write_char('!')?;
                operand(f, inner, Strength::Unary)
            }
            Kind::Group(group) => self::group(f, group),
            Kind::Call(function, arguments) => {
                write!(f, "{}(", function.name)?;
                separated(f, ", ", arguments, |f, argument| write!(f, "{argument}"))?;
                f.write_char(')')
            }
        }
    }
}

impl Display for Argument {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Location(location) => write!(f, "{location}"),
            Argument::Duration(duration) => f.write_str(&print_duration(*duration)),
            Argument::Count(count) => write!(f, "{count}"),
            Argument::Word(word) => f.write_str(&word.text),
            Argument::Pair(label, value) => write!(f, "{} = {}", label.text, value.text),
        }
    }
}

/// A plan prints as the location that it is, with every name resolved.
impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.to_location())
    }
}

fn group(f: &mut Formatter<'_>, group: &Group<Location>) -> fmt::Result {
    let Some(level) = group.level else {
        let needed = match group.combination {
            Combination::Otherwise => Strength::Any,
            Combination::Any => Strength::One,
            Combination::One => Strength::All,
            Combination::All => Strength::Level,
        };
        let operator = format!(" {} ", group.combination.operator());
        return separated(f, &operator, &group.operands, |f, inner| operand(f, inner, needed));
    };
    if let [only] = group.operands.as_slice() {
        operand(f, only, Strength::Unary)?;
    } else {
        f.write_char('(')?;
        separated(f, " & ", &group.operands, |f, inner| operand(f, inner, Strength::Level))?;
        f.write_char(')')?;
    }
    write!(f, " @{}", level.name())
}

/// How tightly a location holds together, loosest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Strength {
    Otherwise,
    Any,
    One,
    All,
    LeveledName,
    Level,
    Unary,
}

impl Strength {
    fn of(location: &Location) -> Strength {
        match &location.kind {
            // `A & B @quorum` is refused: there a name with a level has parentheses around both.
            Kind::Group(Group { level: Some(_), operands, .. }) => match operands.as_slice() {
                [Location { kind: Kind::Name(_) | Kind::Here, .. }] => Strength::LeveledName,
                _ => Strength::Level,
            },
            Kind::Group(group) => match group.combination {
                Combination::Otherwise => Strength::Otherwise,
                Combination::Any => Strength::Any,
                Combination::One => Strength::One,
                Combination::All => Strength::All,
            },
            Kind::Name(_) | Kind::Members | Kind::Here | Kind::Not(_) | Kind::Call(..) => Strength::Unary,
        }
    }
}

fn operand(f: &mut Formatter<'_>, location: &Location, needed: Strength) -> fmt::Result {
    if Strength::of(location) < needed { write!(f, "({location})") } else { write!(f, "{location}") }
}

fn separated<T>(
    f: &mut Formatter<'_>,
    separator: &str,
    items: &[T],
    mut print: impl FnMut(&mut Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        print(f, item)?;
    }
    Ok(())
}
