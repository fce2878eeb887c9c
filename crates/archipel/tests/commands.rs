//! What a person types and sees: every session in `cmd/`, in the README and in the documents is run.

#[test]
fn every_command_that_is_shown_prints_what_is_shown() {
    trycmd::TestCases::new().case("tests/cmd/*.trycmd").case("../../README.md").case("../../docs/*.md");
}
