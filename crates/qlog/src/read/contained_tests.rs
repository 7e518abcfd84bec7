use super::Scanner;

/// Returns where the value at the beginning of `text` ends, if it arrives in pieces of `size`
/// bytes.
fn end(text: &str, size: usize) -> Option<usize> {
    let mut scanner = Scanner::default();
    let mut position = 0;
    for piece in text.as_bytes().chunks(size) {
        if let Some(end) = scanner.feed(piece) {
            return Some(position + end);
        }
        position += piece.len();
    }
    None
}

#[test]
fn a_value_ends_at_the_same_place_however_it_is_cut() {
    for (text, expected) in [
        (r#"{"a":[1,2,{"b":"}]\"\\"}]},next"#, Some(26)),
        (r#""a \" quote",next"#, Some(12)),
        (r#""\\","x""#, Some(4)),
        ("12.5e3]", Some(6)),
        ("true }", Some(4)),
        (r#"{"a":"#, None),
        ("\"open\\", None),
    ] {
        for size in 1..=text.len() {
            assert_eq!(end(text, size), expected, "{text} in pieces of {size}");
        }
    }
}
