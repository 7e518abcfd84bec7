//! The QUIC-LB connection IDs that a server behind a load balancer issues.

use std::str::FromStr;

use clearway::QuicLb;
use clearway::wire::quic_lb::ConfigId;

use crate::Outcome;
use crate::forward::server_id;

/// The first QUIC-LB configuration, given as one argument: server ID, nonce length and key, with
/// the server ID and the key in hexadecimal.
#[derive(Clone)]
pub(crate) struct Ids(pub(crate) Box<QuicLb>);

impl FromStr for Ids {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse(text).map(Box::new).map(Self).map_err(|error| error.to_string())
    }
}

fn parse(text: &str) -> Outcome<QuicLb> {
    let parts: Vec<&str> = text.splitn(3, ':').collect();
    let [id, nonce_length, key] = parts[..] else {
        return Err("expected SERVER-ID:NONCE-LENGTH:KEY".into());
    };
    let key = u128::from_str_radix(key, 16).map_err(|error| format!("key: {error}"))?;
    let first = ConfigId::new(0).ok_or("the first configuration is missing")?;
    Ok(QuicLb::new(first, server_id(id)?, nonce_length.parse()?, Some(key.to_be_bytes()))?)
}
