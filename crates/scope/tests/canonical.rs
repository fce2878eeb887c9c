//! Spellings that mean the same print the same; spellings that do not, do not.

use scope::{Code, Dialect, Services};

fn canonical(text: &str) -> Result<String, Code> {
    Dialect::default().scope(text).map(|scope| scope.to_string()).map_err(|diagnostic| diagnostic.code())
}

#[test]
fn spellings_of_one_scope_print_the_same() {
    let same = [
        ("image: A & B", r#"{"Image":"A&&B"}"#),
        ("image: A & B", "  IMAGE\t:\n( A )&(B & \"A\"),"),
        ("image: A | B", r#"{ "image" : "A" || "B" }"#),
        ("compute: A, image: B, *: C", "*: C, image: B, compute: A"),
        ("image: A & B", "image: (A & B) @eventual"),
        ("image: west @eventual", "image: (west & west) @eventual"),
        ("image: A", "image: A ; A"),
        ("image: (A & B & C) @quorum", "image: (((A & B) @quorum) & C) @ quorum"),
        ("image: ((A & B) @eventual & C) @quorum", "image: (((A & B) @eventual) & C) @quorum"),
        ("image: (A & B) @strong & (west @quorum)", "image: ((A & B) @strong) & (west @quorum)"),
        ("image: (A | B) & C", "image: (A | B) & (\"A || B\") & C"),
        (
            "image: within(1s, A) ; within(1min, B) ; within(0s, C)",
            "image: within(1000ms, A); within(60s, B); within(0min, C)",
        ),
        ("image: nearest(7, *)", "image: nearest ( 007 , * )"),
        ("image: where(a = 1, b = x)", "image: where(b=x, a=1, b=x)"),
        ("image: A", r#"{"image": "\"\\\"\\u0041\\\"\""}"#),
        ("image: A & B", r#"{"image": "A\r\n\t&\u0020B"}"#),
        ("{}", " {\n} "),
        ("{}", ""),
    ];
    for (printed, written) in same {
        assert_eq!(canonical(written).as_deref(), Ok(printed), "{written}");
        assert_eq!(canonical(printed).as_deref(), Ok(printed));
        assert_eq!(
            Dialect::default().scope(written).ok(),
            Dialect::default().scope(printed).ok(),
            "{written}"
        );
    }
}

#[test]
fn a_level_that_repeats_leave_nowhere_to_stand_is_refused() {
    let texts = [
        "image: ((A | B) & (A | B)) @quorum",
        "image: ((A & B) @strong & (A & \"B\") @strong) @quorum",
        "image: (any((A & B) @eventual) & any(A & B)) @quorum",
    ];
    for text in texts {
        assert_eq!(canonical(text), Err(Code::Level), "{text}");
    }
}

#[test]
fn a_scope_whose_canonical_form_is_too_long_is_refused_as_it_could_not_travel() {
    let sites: Vec<String> = (0..700).map(|n| format!("A{n}")).collect();
    let text = format!("image:{}", sites.join("&"));
    assert!(text.len() < 4096);
    assert_eq!(canonical(&text), Err(Code::Limit));
}

#[test]
fn a_scope_that_is_just_short_enough_in_its_canonical_form_is_taken() {
    let within = |text_bytes: usize| {
        let limits = scope::Limits { text_bytes, ..scope::Limits::default() };
        Dialect { limits, ..Dialect::default() }
            .scope("image:A&B")
            .map(|scope| scope.to_string().len())
            .map_err(|error| error.code())
    };
    assert_eq!(within(12), Ok(12));
    assert_eq!(within(11), Err(Code::Limit));
}

#[test]
fn calls_of_two_functions_are_not_the_same() {
    let text = "image: all(A & B) ; any(A & B)";
    assert_eq!(canonical(text).as_deref(), Ok(text));
}

#[test]
fn a_service_bound_twice_by_an_alias_is_refused() {
    let services = Services::open().with("image", ["glance"]);
    let dialect = Dialect { services, ..Dialect::default() };
    assert_eq!(dialect.scope("glance: A, image: B").unwrap_err().code(), Code::Service);
    assert_eq!(dialect.scope("imge: B").unwrap_err().code(), Code::Service);
}

#[test]
fn what_means_something_else_prints_something_else() {
    let texts = [
        "image: A & B",
        "image: B & A",
        "image: A | B",
        "image: (A & B) @quorum",
        "image: A & (B @quorum)",
        "image: !A & !B",
        "image: !(A & B)",
        "image: AB",
        "image: A B",
        "*: A & B",
    ];
    let [first, others @ ..] = texts.map(|text| Dialect::default().scope(text).ok());
    assert!(others.iter().all(|other| *other != first));
    let mut printed: Vec<String> = texts.iter().map(|text| canonical(text).unwrap()).collect();
    printed.sort();
    printed.dedup();
    assert_eq!(printed.len(), texts.len());
}

#[test]
fn an_error_in_a_string_points_at_what_was_typed() {
    for (text, at) in
        [(r#"{"image": "A & \"B & \\u0051(\""}"#, r"\\u0051("), (r#"{"image": "A @weak & B"}"#, "A @weak")]
    {
        let diagnostic = Dialect::default().scope(text).unwrap_err();
        assert_eq!(diagnostic.span().start, text.find(at).unwrap());
    }
}
