//! QUIC versions on the command line.

use clearway::Version;

use crate::failure::Failure;

/// Returns the QUIC version with this number: 1 (RFC 9000) or 2 (RFC 9369).
pub(crate) fn parse(input: &str) -> Result<Version, String> {
    match input.trim() {
        "1" => Ok(Version::V1),
        "2" => Ok(Version::V2),
        _ => Err("unknown QUIC version: expected 1 or 2".to_owned()),
    }
}

/// Checks that the list of `--quic-versions` has no duplicates.
///
/// # Errors
///
/// Returns an error if a version is listed twice.
pub(crate) fn check(versions: &[Version]) -> Result<(), Failure> {
    let is_repeated = |version: &&Version| versions.iter().filter(|it| it == version).count() > 1;
    match versions.iter().find(is_repeated) {
        None => Ok(()),
        Some(version) => {
            let number = if *version == Version::V2 { 2 } else { 1 };
            Err(Failure::new(format!("--quic-versions lists version {number} twice"))
                .advise("list each version once, in order of preference"))
        }
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
