//! Which legs make up the answer, and how.

use crate::event::Leg;

/// The answer to a list: of one leg, or merged from several, in the order of the plan's operands.
///
/// In a tree every leg was answered with a 2xx, and no union holds another union or one site twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What this leg answered.
    Leg(Leg),
    /// The items of all of these: `&`.
    Union(Vec<Answer>),
    /// The items that exactly one of these has: `^`.
    Unique(Vec<Answer>),
}

impl Answer {
    /// The legs in it, in order.
    #[must_use]
    pub fn legs(&self) -> Vec<Leg> {
        fn collect(answer: &Answer, legs: &mut Vec<Leg>) {
            match answer {
                Answer::Leg(leg) => legs.push(*leg),
                Answer::Union(parts) | Answer::Unique(parts) => {
                    for part in parts {
                        collect(part, legs);
                    }
                }
            }
        }
        let mut legs = Vec::new();
        collect(self, &mut legs);
        legs
    }

    /// What is left of it without this leg. Which items are unique cannot be told without one that has
    /// a say in it.
    fn without(self, lost: Leg) -> Option<Answer> {
        match self {
            Answer::Leg(leg) => (leg != lost).then_some(Answer::Leg(leg)),
            Answer::Union(parts) => {
                let left: Vec<Answer> = parts.into_iter().filter_map(|part| part.without(lost)).collect();
                (!left.is_empty()).then_some(Answer::Union(left))
            }
            unique @ Answer::Unique(_) => (!unique.legs().contains(&lost)).then_some(unique),
        }
    }
}

/// With what a node won.
#[derive(Clone, Debug)]
pub(crate) struct Won {
    pub(crate) answer: Answer,
    /// A `&` in it lacks the answer of an operand.
    pub(crate) partial: bool,
}

impl Won {
    pub(crate) fn of(leg: Leg) -> Won {
        Won { answer: Answer::Leg(leg), partial: false }
    }

    /// What is left when a leg of it is cut off.
    pub(crate) fn without(self, lost: Leg) -> Option<Won> {
        let held = self.answer.legs().contains(&lost);
        let answer = self.answer.without(lost)?;
        Some(Won { answer, partial: self.partial || held })
    }
}
