//! A tiny application: a register with a value that is set and added to, and fields that are patched.
//! What an operation does is its body: `set 29`, `add -12`, `patch x=1 y=2`, `patch /m/a=3`, `delete`.
//! `/m/a` is an element of the field `m`: whoever sets `m` sets all of it, and its elements are gone.

use std::collections::BTreeMap;

use replica::{Body, Execution, How};

/// The register, at one site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Register {
    pub(crate) value: i64,
    pub(crate) fields: BTreeMap<String, i64>,
}

impl Register {
    /// Sets a field, or an element of one. What was below it is gone.
    fn set(&mut self, name: &str, value: i64) {
        let name = name.trim_start_matches('/');
        let below = format!("{name}/");
        self.fields.retain(|field, _| !field.starts_with(&below));
        self.fields.insert(name.to_owned(), value);
    }
}

/// A site's service: it has the register, or not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct App(pub(crate) Option<Register>);

impl App {
    /// Executes it as the service would; false where the service refuses.
    pub(crate) fn execute(&mut self, execution: &Execution, body: &Body) -> bool {
        let mut words = body.0.split(' ');
        let verb = words.next().unwrap();
        match &execution.how {
            How::Create => {
                assert_eq!(verb, "set");
                let created = self.0.is_none();
                self.0 =
                    Some(Register { value: words.next().unwrap().parse().unwrap(), ..Register::default() });
                created
            }
            How::Replace => {
                assert_eq!(verb, "set");
                let Some(register) = &mut self.0 else { return false };
                *register = Register { value: words.next().unwrap().parse().unwrap(), ..Register::default() };
                true
            }
            How::Delete => self.0.take().is_some(),
            How::Add => {
                assert_eq!(verb, "add");
                let Some(register) = &mut self.0 else { return false };
                register.value += words.next().unwrap().parse::<i64>().unwrap();
                true
            }
            How::Patch(fields) => {
                assert_eq!(verb, "patch");
                let Some(register) = &mut self.0 else { return false };
                for (name, value) in words.filter_map(|word| word.split_once('=')) {
                    if fields.contains(name) {
                        register.set(name, value.parse().unwrap());
                    }
                }
                true
            }
            How::Action => self.0.is_some(),
        }
    }
}
