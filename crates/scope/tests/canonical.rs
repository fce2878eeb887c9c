//! Spellings that mean the same print the same; spellings that do not, do not.

use scope::{Code, Dialect};

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
        ("image: A", "image: A @eventual"),
        ("image: A", "image: A ; A"),
        ("image: (A & B & C) @quorum", "image: (((A & B) @quorum) & C) @ quorum"),
        ("image: (((A & B) @eventual) & C) @quorum", "image: ((A & B) @eventual & C) @quorum"),
        ("image: A | B", "image: ((A | B) & (A | B @eventual)) @quorum"),
        (
            "image: within(1s, A) ; within(1min, B) ; within(0s, C)",
            "image: within(1000ms, A); within(60s, B); within(0min, C)",
        ),
        ("image: nearest(7, *)", "image: nearest ( 007 , * )"),
        ("image: where(a = 1, b = x)", "image: where(b=x, a=1, b=x)"),
        ("image: A", r#"{"image": "\"\\\"\\u0041\\\"\""}"#),
        ("{}", " {\n} "),
        ("{}", ""),
    ];
    for (printed, written) in same {
        assert_eq!(canonical(written).as_deref(), Ok(printed), "{written}");
        assert_eq!(canonical(printed).as_deref(), Ok(printed));
    }
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
