//! The cipher suites of TLS 1.3 by their names.

use clearway::rustls::SupportedCipherSuite;
use clearway::rustls::crypto::aws_lc_rs::cipher_suite::{
    TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
};

/// The cipher suite of a name in the registry of TLS.
pub(super) fn parse(name: &str) -> Result<SupportedCipherSuite, String> {
    match name {
        "TLS_AES_128_GCM_SHA256" => Ok(TLS13_AES_128_GCM_SHA256),
        "TLS_AES_256_GCM_SHA384" => Ok(TLS13_AES_256_GCM_SHA384),
        "TLS_CHACHA20_POLY1305_SHA256" => Ok(TLS13_CHACHA20_POLY1305_SHA256),
        _ => Err("there are TLS_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384 and \
                  TLS_CHACHA20_POLY1305_SHA256"
            .to_owned()),
    }
}
