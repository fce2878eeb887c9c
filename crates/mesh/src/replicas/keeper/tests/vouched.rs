//! A write that another site passes on is executed as its own site signed it, or not at all.

use link::{Notary, Revoked};
use replica::{Body, Change, Epoch, Message, OpId, Operation, ReplicaMap, Stamp, Subject, Version};

use super::super::vouch::said;
use super::sites::{self, Isles, create_as, patch, site, until};
use crate::replicas::request::{Kept, Wanted};
use crate::replicas::wire::{Asked, Envelope};
use crate::replicas::{Content, Order};
use crate::replication::Condition;

/// A creation that A accepted and signed, as C passes it on: its map, the operation, and what is executed.
fn accepted(isles: &Isles, number: u64) -> (ReplicaMap, Operation, Kept) {
    let id = format!("0c5a8b3e-1f2d-4e6a-9b7c-{number:012x}");
    let Wanted { write, mut kept, .. } = create_as(&id, "one");
    let Subject::New { level, sites, .. } = &write.subject else { panic!("it is new") };
    let meta = replica::Meta(format!("image:/images/{id}").into());
    let stamp = Stamp { wall_ms: 1, logical: 0 };
    let map = ReplicaMap::new(meta.clone(), *level, true, sites, stamp, &site("A"));
    let operation = Operation {
        id: OpId { site: site("A"), epoch: Epoch::default(), counter: number },
        resource: meta,
        class: write.class,
        doubt: write.doubt,
        seen: Version::default(),
        stamp,
        on_behalf_of: write.on_behalf_of,
        body: Some(Body(std::sync::Arc::clone(&kept.id))),
    };
    let notary = Notary::new(&isles.authority.issue("A").unwrap(), &Revoked::default()).unwrap();
    let said = said(&operation.id, &operation.class, operation.doubt, &operation.on_behalf_of, &kept);
    kept.signed = notary.sign(&said.unwrap());
    (map, operation, kept)
}

/// C tells B.
fn tell(isles: &Isles, map: &ReplicaMap, operations: Vec<Operation>, writes: Vec<Kept>) {
    let message = Message::Operations { map: map.clone(), operations };
    let envelope = Envelope { messages: vec![(message.bytes(), writes)] };
    let (reply, told) = tokio::sync::oneshot::channel();
    let asked = Asked::Messages(postcard::to_allocvec(&envelope).unwrap().into());
    assert!(isles.replicas(1).orders.send(Order::Asked(site("C"), asked, reply)).is_ok());
    assert!(sites::run(told).unwrap().0.is_success());
}

/// How many of B's replicas refused what they were to execute.
fn refused(isles: &Isles) -> usize {
    let shown = sites::run(isles.mesh(1).replication().unwrap().resources()).unwrap();
    shown.iter().filter(|resource| resource.condition == Condition::Diverged(403)).count()
}

#[test]
fn a_site_that_passes_a_write_on_changes_neither_it_nor_whose_it_is() {
    let mut isles = Isles::new();
    isles.stop(0);
    let changes: [fn(&mut Operation, &mut Kept); 8] = [
        |op, _| op.on_behalf_of.user = "eve".into(),
        |op, _| op.on_behalf_of.project = Some("theirs".into()),
        |op, _| op.on_behalf_of.roles.push("admin".into()),
        |op, _| op.on_behalf_of.site = site("B"),
        |op, _| op.id.counter = 100,
        // It would be B's own word.
        |op, _| op.id.site = site("B"),
        |_, kept| kept.content = Content::Inline(br#"{"name":"other"}"#.to_vec()),
        |_, kept| kept.signed = None,
    ];
    for (number, change) in changes.iter().enumerate() {
        let (map, mut operation, mut kept) = accepted(&isles, 1 + number as u64);
        change(&mut operation, &mut kept);
        tell(&isles, &map, vec![operation], vec![kept]);
    }
    until("none is executed", || refused(&isles) == changes.len());
    // What is as it was signed is, and for nobody else.
    let (map, operation, kept) = accepted(&isles, 50);
    let (other, mut forged, _) = accepted(&isles, 51);
    forged.body.clone_from(&operation.body);
    tell(&isles, &map, vec![operation], vec![kept]);
    tell(&isles, &other, vec![forged], Vec::new());
    until("B has the one", || isles.names(1) == ["one"]);
    until("and not the other", || refused(&isles) == changes.len() + 1);
    assert_eq!(isles.names(1), ["one"]);
}

#[test]
fn what_is_kept_for_a_revoked_site_goes_with_its_replica() {
    let mut isles = Isles::new();
    let meta = isles.make(0, "one");
    isles.until_all_have(&["one"]);
    isles.until_quiet();
    isles.stop(2);
    isles.write(0, patch(&meta, "two"));
    until("B has it", || isles.names(1) == ["two"]);
    let kept = |index: usize| {
        let handle = isles.mesh(index).replication().unwrap();
        sites::run(handle.counts()).unwrap().kept_bytes
    };
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&meta.0, Change::Shrink(site("C")))).unwrap();
    until("B knows that C has no replica any more", || {
        let handle = isles.mesh(1).replication().unwrap();
        let resources = sites::run(handle.resources()).unwrap();
        resources.iter().all(|resource| resource.replicas.len() == 2)
    });
    assert!(kept(0) > 0 && kept(1) > 0, "C may have taken writes since");
    isles.revoke(2);
    until("nothing is kept", || kept(0) == 0 && kept(1) == 0);
}
