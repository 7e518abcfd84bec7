//! TLS key exchange groups by name, for `serve` and `get`.

use clap::Args;
use clearway::rustls::crypto::SupportedKxGroup;
use clearway::rustls::crypto::aws_lc_rs::kx_group::{
    MLKEM768, MLKEM1024, SECP256R1, SECP256R1MLKEM768, SECP384R1, X25519, X25519MLKEM768,
};

/// The selectable groups; the default is the first four.
static GROUPS: [&dyn SupportedKxGroup; 7] =
    [X25519MLKEM768, X25519, SECP256R1, SECP384R1, SECP256R1MLKEM768, MLKEM768, MLKEM1024];

/// The option for the key exchange.
#[derive(Args, Debug)]
pub(crate) struct KeyExchangeOptions {
    /// Support only these key exchange groups, in order of preference.
    ///
    /// The groups are X25519MLKEM768, X25519, secp256r1, secp384r1, SecP256r1MLKEM768, MLKEM768 and
    /// MLKEM1024. The client's preference decides; a server that does not support the client's
    /// first group sends a HelloRetryRequest, which costs a round trip. The default is the first
    /// four; X25519MLKEM768 resists quantum computers.
    #[arg(long = "key-exchange-groups", value_name = "NAME,…", value_delimiter = ',', value_parser = parse)]
    groups: Vec<&'static dyn SupportedKxGroup>,
}

impl KeyExchangeOptions {
    /// Returns the selected groups; `None` for the default.
    pub(crate) fn groups(&self) -> Option<Vec<&'static dyn SupportedKxGroup>> {
        Some(self.groups.clone()).filter(|groups| !groups.is_empty())
    }
}

/// Returns the group with a name from the TLS registry, case-insensitively.
fn parse(name: &str) -> Result<&'static dyn SupportedKxGroup, String> {
    let is_called = |group: &&dyn SupportedKxGroup| {
        group.name().as_str().is_some_and(|known| known.eq_ignore_ascii_case(name))
    };
    GROUPS.into_iter().find(is_called).ok_or_else(|| {
        let names: Vec<_> = GROUPS.iter().filter_map(|group| group.name().as_str()).collect();
        format!("the supported groups are {}", names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn groups_have_the_names_of_the_registry() {
        for name in ["X25519MLKEM768", "x25519", "secp256r1", "SECP384R1", "MLKEM1024"] {
            let group = parse(name).unwrap();
            assert!(group.name().as_str().unwrap().eq_ignore_ascii_case(name));
        }
        let error = parse("x448").unwrap_err();
        assert!(error.contains("X25519MLKEM768") && error.contains("secp384r1"), "{error}");
    }
}
