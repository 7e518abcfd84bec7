//! Files in the SSLKEYLOGFILE format. Each line has a label, the client's random value and a
//! secret.

use std::collections::BTreeMap;
use std::path::Path;

/// The secrets of connections, by label and the client's random value.
#[derive(Debug, Default)]
pub(crate) struct KeyLog(BTreeMap<(String, Vec<u8>), Vec<u8>>);

impl KeyLog {
    /// Reads all key log files that exist.
    pub(crate) fn read(paths: &[impl AsRef<Path>]) -> Self {
        let mut secrets = BTreeMap::new();
        for text in paths.iter().filter_map(|path| std::fs::read_to_string(path).ok()) {
            for line in text.lines() {
                let mut words = line.split_ascii_whitespace();
                let (Some(label), Some(random), Some(secret)) =
                    (words.next(), words.next().and_then(hex), words.next().and_then(hex))
                else {
                    continue;
                };
                secrets.insert((label.to_owned(), random), secret);
            }
        }
        Self(secrets)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn secret(&self, label: &str, client_random: &[u8]) -> Option<&[u8]> {
        self.0.get(&(label.to_owned(), client_random.to_vec())).map(Vec::as_slice)
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    digits.chunks(2).map(byte).collect()
}
