//! A write that another site passes on is what its own site signed, or it is not taken.

use link::{Notary, Revoked};
use replica::{Body, Class, Epoch, Message, OpId, Operation, ReplicaMap, Stamp, Subject, Version};

use super::super::vouch::said;
use super::sites::{self, Isles, create_as, site, until};
use crate::replicas::request::{Kept, Wanted};
use crate::replicas::wire::{Asked, Envelope};
use crate::replicas::{Content, Order};

const ID: &str = "0c5a8b3e-1f2d-4e6a-9b7c-1d2e3f4a5b6d";

/// A creation that A accepted and signed, as C passes it on: its map, the operation, and what is executed.
fn accepted(isles: &Isles) -> (ReplicaMap, Operation, Kept) {
    let Wanted { write, mut kept, .. } = create_as(ID, "one");
    let Subject::New { level, sites, .. } = &write.subject else { panic!("it is new") };
    let meta = replica::Meta(format!("image:/images/{ID}").into());
    let stamp = Stamp { wall_ms: 1, logical: 0 };
    let map = ReplicaMap::new(meta.clone(), *level, true, sites, stamp, &site("A"));
    let operation = Operation {
        id: OpId { site: site("A"), epoch: Epoch::default(), counter: 1 },
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

/// What B says to C.
fn told(isles: &Isles, map: &ReplicaMap, operation: Operation, kept: Kept) -> u16 {
    let message = Message::Operations { map: map.clone(), operations: vec![operation] };
    let envelope = Envelope { messages: vec![(message.bytes(), vec![kept])] };
    let (reply, told) = tokio::sync::oneshot::channel();
    let asked = Asked::Messages(postcard::to_allocvec(&envelope).unwrap().into());
    assert!(isles.replicas(1).orders.send(Order::Asked(site("C"), asked, reply)).is_ok());
    sites::run(told).unwrap().0.as_u16()
}

#[test]
fn a_site_that_passes_a_write_on_changes_neither_it_nor_whose_it_is() {
    let mut isles = Isles::new();
    isles.stop(0);
    let (map, operation, kept) = accepted(&isles);
    let changed: [fn(&mut Operation, &mut Kept); 9] = [
        |op, _| op.on_behalf_of.user = "eve".into(),
        |op, _| op.on_behalf_of.project = Some("theirs".into()),
        |op, _| op.on_behalf_of.roles.push("admin".into()),
        |op, _| op.id.counter = 2,
        // It would be C's own word.
        |op, _| op.id.site = site("C"),
        |op, _| op.on_behalf_of.site = site("B"),
        |op, _| op.class = Class::Replace,
        |_, kept| kept.content = Content::Inline(br#"{"name":"other"}"#.to_vec()),
        |_, kept| kept.signed = None,
    ];
    for (number, change) in changed.iter().enumerate() {
        let (mut operation, mut kept) = (operation.clone(), kept.clone());
        change(&mut operation, &mut kept);
        assert_eq!(told(&isles, &map, operation, kept), 403, "{number}");
    }
    assert!(isles.names(1).is_empty());
    // The true one is taken, after all that.
    assert!((200..300).contains(&told(&isles, &map, operation.clone(), kept.clone())));
    until("B has it", || isles.names(1) == ["one"]);
    // And no other operation can have its write.
    let again = Operation { id: OpId { counter: 2, ..operation.id.clone() }, ..operation };
    let message = Message::Operations { map, operations: vec![again] };
    let envelope = Envelope { messages: vec![(message.bytes(), Vec::new())] };
    let (reply, told) = tokio::sync::oneshot::channel();
    let asked = Asked::Messages(postcard::to_allocvec(&envelope).unwrap().into());
    assert!(isles.replicas(1).orders.send(Order::Asked(site("C"), asked, reply)).is_ok());
    assert_eq!(sites::run(told).unwrap().0.as_u16(), 403);
    assert_eq!(isles.counted(sample::Write::Create, "one")[1], 1);
}
