//! QUIC versions on the command line.

use clearway::Version;

/// Returns the version with the number `input`, as in the name of its RFC.
pub(crate) fn parse(input: &str) -> Result<Version, String> {
    match input.trim() {
        "1" => Ok(Version::V1),
        "2" => Ok(Version::V2),
        _ => Err("unknown QUIC version: expected 1 or 2".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_versions_that_are_spoken() {
        assert_eq!(parse("1"), Ok(Version::V1));
        assert_eq!(parse(" 2"), Ok(Version::V2));
        for other in ["", "0", "3", "v2", "0x6b3343cf"] {
            assert!(parse(other).is_err(), "{other}");
        }
    }
}
