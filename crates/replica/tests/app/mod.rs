//! A tiny application: a register with a value that is set and added to, and fields that are patched.
//! What an operation does is its body: `set 29`, `add -12`, `patch x=1 y=2`, `delete`.

use std::collections::BTreeMap;

use replica::{Body, Execution, How};

/// The register, at one site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Register {
    pub(crate) value: i64,
    pub(crate) fields: BTreeMap<String, i64>,
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
                        register.fields.insert(name.into(), value.parse().unwrap());
                    }
                }
                true
            }
            How::Action => self.0.is_some(),
        }
    }
}
