//! Replicated creations where a service gives ids that another site's service may give to something else.

use sample::records::RecordIds;
use serde_json::json;

use crate::harness::until;
use crate::records::{World, json};

#[test]
fn a_collection_whose_ids_have_no_known_form_is_refused_before_anything_is_made() {
    let prefixed = || RecordIds::Prefixed("usr_".to_owned());
    let all = |ids: RecordIds| [ids.clone(), ids.clone(), ids];
    for (ids, before, because) in [
        (all(prefixed()), vec![json!({"t": "own"})], "its ids are no UUIDs, such as `usr_1`"),
        (all(RecordIds::Uuids), vec![], "it lists nothing"),
        (all(RecordIds::Integers), vec![json!({"id": "x"}), json!({})], "its ids are of several forms"),
    ] {
        let world = World::undeclared(ids);
        for record in &before {
            for site in 0..3 {
                assert_eq!(world.own(site, "POST /posts", &record.to_string()).status(), 201);
            }
        }
        let records = || world.records.iter().map(|records| records.all("posts")).collect::<Vec<_>>();
        let there = records();
        for (site, scope) in
            [(0, "A & B"), (1, "A & B & C"), (2, "A & B"), (0, "(A & B) @weak"), (1, "(A & B) @quorum")]
        {
            let answer = world.at(site, "POST /posts", scope, r#"{"room": "1"}"#);
            answer.assert_problem(422, "unknown-ids");
            let detail = json(&answer)["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(because) && detail.contains("ids = \"uuid\""), "{scope}: {detail}");
        }
        assert_eq!(records(), there, "nothing was made anywhere");
        // What is not replicated goes on as ever.
        let local = world.at(1, "POST /posts", "", r#"{"room": "1"}"#);
        assert_eq!((local.status(), json(&local)["room"].as_str()), (201, Some("1")));
        // The name that a client chooses is the same everywhere.
        assert_eq!(world.at(0, "PUT /posts/mine", "A & B", "{}").status(), 404, "that is the service's word");
    }
}

#[test]
fn a_collection_that_shows_uuids_is_replicated_without_a_word_in_the_profile() {
    let world = World::undeclared([RecordIds::Uuids, RecordIds::Uuids, RecordIds::Uuids]);
    assert_eq!(world.own(0, "POST /posts", "{}").status(), 201);
    let made = world.at(0, "POST /posts", "A & B", r#"{"t": "shared"}"#);
    assert_eq!(made.status(), 201, "{}", made.text());
    let line = format!("GET /posts/{}", json(&made)["id"].as_str().unwrap());
    until("it is at B", || world.records[1].all("posts").len() == 1);
    until("B shows it", || world.at(1, &line, "", "").status() == 200);
    assert_eq!(json(&world.at(1, &line, "", ""))["id"], json(&made)["id"]);
}

#[test]
fn what_another_service_makes_under_an_id_that_is_no_uuid_is_no_replica() {
    let world = World::undeclared([RecordIds::Uuids, RecordIds::Integers, RecordIds::Uuids]);
    for site in 0..3 {
        assert_eq!(world.own(site, "POST /posts", r#"{"t": "own"}"#).status(), 201);
    }
    let made = world.at(0, "POST /posts", "A & B", r#"{"t": "shared", "room": "2"}"#);
    assert_eq!(made.status(), 201, "{}", made.text());
    let id = json(&made)["id"].as_str().unwrap().to_owned();
    until("B's service has made it", || world.records[1].all("posts").len() == 2);
    until("it is in doubt there", || world.isles.in_doubt(1) == 1);
    // What is B's own stays B's own: no text is replaced, and nothing of it reaches A.
    let two = json(&world.at(1, "GET /posts/2", "", ""));
    assert_eq!(two, json!({"id": 2, "t": "shared", "room": "2"}));
    assert_eq!(world.at(1, "DELETE /posts/2", "", "").status(), 204);
    assert_eq!(world.at(0, &format!("GET /posts/{id}"), "", "").status(), 200);
    assert_eq!(world.records[0].all("posts").len(), 2);
}
