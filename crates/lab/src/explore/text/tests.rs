use super::*;

/// What is said in `text`, with whether its field is "odd".
fn values(text: &str) -> Vec<(u8, String)> {
    let unit_of = |structure: &str, field: &str| match (structure, field) {
        ("Inner", "odd") => 1,
        (_, "gone") => 2,
        _ => 0,
    };
    let values = Text::new(text, unit_of, 0, 2);
    values.map(|(unit, value)| (unit, format!("{value:?}"))).collect()
}

fn numbers(text: &str) -> Vec<(u8, String)> {
    let mut values = values(text);
    values.retain(|(_, value)| !value.starts_with("Word"));
    values
}

fn told(values: &[(u8, &str)]) -> Vec<(u8, String)> {
    values.iter().map(|(unit, value)| (*unit, (*value).to_owned())).collect()
}

#[test]
fn numbers_have_the_units_of_their_fields() {
    let text = "Outer { one: 1, inner: Inner { odd: Some(2), even: [3, 4] }, five: (5, true) },";
    let expected = told(&[
        (0, "Number(1)"),
        (1, "Number(2)"),
        (0, "Number(3)"),
        (0, "Number(4)"),
        (0, "Number(5)"),
    ]);
    assert_eq!(numbers(text), expected);
}

#[test]
fn what_is_left_out_is_left_out_to_its_end() {
    let text = "A { gone: B { x: [1, (2, 3)], gone: 4 }, kept: 5, gone: 6 }, Inner { odd: 7 },";
    assert_eq!(numbers(text), told(&[(0, "Number(5)"), (1, "Number(7)")]));
}

#[test]
fn numbers_know_what_holds_them() {
    let text =
        "A { at: Some((Timestamp(12), 3)), index: SendIndex(4), rate: Rate(5), b: Some(6) },";
    let expected = told(&[
        (0, r#"Wrapped("Timestamp", 12)"#),
        (0, "Number(3)"),
        (0, r#"Wrapped("SendIndex", 4)"#),
        (0, r#"Wrapped("Rate", 5)"#),
        (0, "Number(6)"),
    ]);
    assert_eq!(numbers(text), expected);
}

#[test]
fn durations_and_fractions_are_read() {
    let text = format!(
        "{:?}, {:?}, {:?}, {:?}, {:?},",
        core::time::Duration::from_nanos(1_234_567_891),
        core::time::Duration::from_micros(2500),
        core::time::Duration::ZERO,
        7.25_f64,
        10.0_f64,
    );
    let expected = told(&[
        (0, "Duration(1234567891)"),
        (0, "Duration(2500000)"),
        (0, "Duration(0)"),
        (0, "Millionths(7250000)"),
        (0, "Millionths(10000000)"),
    ]);
    assert_eq!(numbers(&text), expected);
}

#[test]
fn words_are_told_too() {
    let text = "A { is_open: true, state: Startup },";
    let words = values(text).into_iter().map(|(_, word)| word);
    let expected = [r#"Word("A")"#, r#"Word("true")"#, r#"Word("Startup")"#];
    assert_eq!(words.collect::<Vec<_>>(), expected);
}
