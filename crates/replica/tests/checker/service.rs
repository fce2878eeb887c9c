//! A site's service: registers by local id. It survives the crashes of its mesh.

use std::collections::BTreeMap;

use replica::{Content, Digest, Execution, How, LocalId, OpId, Operation, Outcome};

use crate::app::App;

/// The registers, and which operations' effects are in them: the truth that a probe finds. An operation that
/// was executed, erased by a replace and is to be executed again is not executed.
#[derive(Clone, Default)]
pub(crate) struct Service {
    pub(crate) registers: BTreeMap<LocalId, App>,
    pub(crate) fates: BTreeMap<OpId, (bool, Option<LocalId>)>,
    created: u32,
    name: String,
}

impl Service {
    pub(crate) fn new(name: &str) -> Service {
        Service { name: name.to_owned(), ..Service::default() }
    }

    /// An id as the service gives it.
    pub(crate) fn fresh_id(&mut self) -> LocalId {
        self.created += 1;
        LocalId(format!("{}-{}", self.name, self.created).into())
    }

    /// It was asked, and did nothing. What an attempt before did is still there.
    pub(crate) fn ignore(&mut self, op: &OpId) {
        self.fates.entry(op.clone()).or_insert((false, None));
    }

    /// What was done to a register before is no longer in it.
    pub(crate) fn erased(&mut self, id: &LocalId) {
        self.fates.retain(|_, (_, local)| local.as_ref() != Some(id));
    }

    /// What stands for what it has.
    #[allow(dead_code, reason = "not every test that has this module compares")]
    pub(crate) fn content(&self, id: &LocalId) -> Content {
        let Some(App(Some(register))) = self.registers.get(id) else { return Content::Gone };
        let mut digest = [0; 32];
        for (index, byte) in format!("{register:?}").bytes().enumerate() {
            digest[index % 32] = byte.wrapping_add(31_u8.wrapping_mul(digest[index % 32]));
        }
        Content::Is(Digest(digest))
    }

    /// Makes a copy, and names it: by this name once.
    pub(crate) fn make(&mut self, op: &OpId, state: App) -> LocalId {
        if let Some((true, Some(local))) = self.fates.get(op) {
            return local.clone();
        }
        let local = self.fresh_id();
        self.registers.insert(local.clone(), state);
        self.fates.insert(op.clone(), (true, Some(local.clone())));
        local
    }

    /// Executes it.
    pub(crate) fn execute(
        &mut self,
        op: &Operation,
        execution: &Execution,
        local: Option<LocalId>,
    ) -> Outcome {
        let id = local.unwrap_or_else(|| self.fresh_id());
        let body = op.body.as_ref().expect("a body that is still needed was erased");
        let done = self.registers.entry(id.clone()).or_default().execute(execution, body);
        // A create is a PUT.
        let done = done || execution.how == How::Create;
        if matches!(execution.how, How::Create | How::Replace | How::Delete) {
            self.erased(&id);
        }
        self.fates.insert(op.id.clone(), (done, Some(id.clone())));
        if done { Outcome::Done { status: 200, local: Some(id) } } else { Outcome::Refused { status: 404 } }
    }
}
