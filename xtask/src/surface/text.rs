//! Rust code formatted as a single line of text.

use quote::ToTokens;

/// Returns the tokens of `item` as text, with spaces only where rustfmt puts them.
pub(super) fn of(item: &impl ToTokens) -> String {
    let mut text = item.to_token_stream().to_string().replace('\n', " ");
    for (wide, narrow) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" < ", "<"),
        ("< ", "<"),
        (" <", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" ,", ","),
        (" :", ":"),
        (" ;", ";"),
        ("( ", "("),
        (" )", ")"),
        (" (", "("),
        ("[ ", "["),
        (" ]", "]"),
        (" ?", "?"),
        (",)", ")"),
        (", >", ">"),
        ("->", " -> "),
        ("  ", " "),
    ] {
        text = text.replace(wide, narrow);
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn a_signature_is_printed_as_it_was_written() {
        let item: syn::Signature =
            syn::parse_str("fn a<'a, T: B>(&'a self, c: Option<&[T]>) -> Result<(), D::E>")
                .unwrap();
        assert_eq!(of(&item), "fn a<'a, T: B>(&'a self, c: Option<&[T]>) -> Result<(), D::E>");
    }
}
