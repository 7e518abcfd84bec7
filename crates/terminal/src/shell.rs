//! Formats commands that users can paste into a shell.

/// Formats one argument of a command, quoted for a POSIX shell if necessary.
pub fn word(argument: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:,=@%".contains(c);
    match !argument.is_empty() && argument.chars().all(is_plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn arguments_are_quoted_if_a_shell_would_change_them() {
        assert_eq!(word("../some/where/small-1.toml"), "../some/where/small-1.toml");
        assert_eq!(word("my tests/$HOME.toml"), "'my tests/$HOME.toml'");
        assert_eq!(word("it's"), r"'it'\''s'");
        assert_eq!(word(""), "''");
    }
}
