use proptest::prelude::*;

use super::*;
use crate::strategies::hex;

fn codec(config: u8, server_id_len: usize, nonce_len: usize, key: &str) -> IdCodec {
    let key = (!key.is_empty()).then(|| hex(key).try_into().unwrap());
    IdCodec::new(ConfigId::new(config).unwrap(), server_id_len, nonce_len, key).unwrap()
}

/// Checks one of the draft's test vectors (appendix B), in which the first octet states the length.
fn vector(config: u8, key: &str, server: &str, nonce: &str, id: &str) {
    let (server, nonce, id) = (hex(server), hex(nonce), hex(id));
    let codec = codec(config, server.len(), nonce.len(), key).stating_length(true);
    let server = ServerId::new(&server).unwrap();
    assert_eq!(codec.encode(&server, &nonce, &[], 0).unwrap().as_bytes(), id);
    assert_eq!(codec.decode(&id), Some(server));
    assert_eq!(codec.id_len(), id.len());
}

#[test]
fn ids_that_are_not_encrypted() {
    vector(0, "", "c4605e", "4504cc4f", "07c4605e4504cc4f");
    vector(1, "", "350d28b420", "3487d970b0", "2a350d28b4203487d970b0");
}

#[test]
fn the_example_of_four_passes() {
    let key = "fdf726a9893ec05c0632d3956680baf0";
    vector(0, key, "31441a", "9c69c275", "0767947d29be054a");
}

#[test]
fn encrypted_ids() {
    let key = "8f95f09245765f80256934e50c66207f";
    vector(0, key, "ed793a", "ee080dbf", "0720b1d07b359d3c");
    let (server, nonce) = ("ed793a51d49b8f5fab65", "ee080dbf48c0d1e55d");
    vector(1, key, server, &nonce[..10], "2fcc381bc74cb4fbad2823a3d1f8fed2");
    vector(2, key, &server[..16], &nonce[..16], "504dd2d05a7b0de9b2b9907afb5ecf8cc3");
    // The draft says configuration 3 here, but the first octet of its ID says 0.
    vector(0, key, &server[..18], nonce, "125779c9cc86beb3a3a4a3ca96fce4bfe0cdbc");
}

#[test]
fn a_codec_says_how_it_is_configured() {
    let plain = codec(3, 5, 7, "").with_extra(2).unwrap();
    assert_eq!((plain.config(), plain.is_encrypted()), (ConfigId::new(3).unwrap(), false));
    assert_eq!((plain.server_id_len(), plain.nonce_len(), plain.extra_len()), (5, 7, 2));
    assert_eq!((plain.id_len(), plain.states_length()), (15, false));
    let encrypted = codec(0, 3, 4, "8f95f09245765f80256934e50c66207f").stating_length(true);
    assert!(encrypted.is_encrypted() && encrypted.states_length());
    assert_eq!(encrypted.extra_len(), 0);
}

#[test]
fn a_key_is_not_printed() {
    let shown = format!("{:?}", codec(0, 3, 4, "8f95f09245765f80256934e50c66207f"));
    assert!(shown.contains("Cipher(..)") && !shown.contains("95"), "{shown}");
}

#[test]
fn lengths_that_cannot_be() {
    let new = |server, nonce| IdCodec::new(ConfigId::new(6).unwrap(), server, nonce, None).err();
    assert_eq!(new(0, 4), Some(ConfigError::ServerIdLength(0)));
    assert_eq!(new(16, 4), Some(ConfigError::ServerIdLength(16)));
    assert_eq!(new(1, 3), Some(ConfigError::NonceLength(3)));
    assert_eq!(new(15, 5), Some(ConfigError::BlockLength(20)));
    assert_eq!(new(15, 4), None);
    let longest = IdCodec::new(ConfigId::new(0).unwrap(), 1, 18, None).unwrap();
    assert_eq!(longest.with_extra(1).err(), Some(ConfigError::IdLength(21)));
    assert_eq!((ConfigId::new(7), ConfigId::of(0xe0)), (None, None));
    assert_eq!((ServerId::new(&[]), ServerId::new(&[0; 16])), (None, None));
}

proptest! {
    #[test]
    fn an_id_names_its_server(
        config in 0..7_u8,
        server in prop::collection::vec(any::<u8>(), 1..=MAX_SERVER_ID_LEN),
        nonce in prop::collection::vec(any::<u8>(), MIN_NONCE_LEN..=18),
        further in prop::collection::vec(any::<u8>(), 0..3),
        key in any::<Option<[u8; 16]>>(),
        random in any::<u8>(),
        states_length in any::<bool>(),
        trailing in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let config = ConfigId::new(config).unwrap();
        let Ok(codec) = IdCodec::new(config, server.len(), nonce.len(), key) else { return Ok(()) };
        let Ok(codec) = codec.stating_length(states_length).with_extra(further.len()) else {
            return Ok(());
        };
        let server = ServerId::new(&server).unwrap();
        let id = codec.encode(&server, &nonce, &further, random).unwrap();
        prop_assert_eq!(id.len(), codec.id_len());
        let first = id.as_bytes()[0];
        prop_assert_eq!(ConfigId::of(first), Some(config));
        let low = if states_length { (id.len() - 1) as u8 } else { random & 0x1f };
        prop_assert_eq!(first & 0x1f, low);
        prop_assert!(id.as_bytes().ends_with(&further));
        // In a short header, other octets follow.
        let followed = [id.as_bytes(), &trailing].concat();
        prop_assert_eq!(codec.decode(&followed), Some(server));
        // Different nonces give different IDs: the encryption is a permutation.
        let mut other = nonce.clone();
        other[0] ^= 1;
        prop_assert_ne!(codec.encode(&server, &other, &further, random).unwrap(), id);
    }

    #[test]
    fn any_bytes(
        bytes in prop::collection::vec(any::<u8>(), 0..30),
        server_id_len in 1..=15_usize,
        nonce_len in 4..=18_usize,
        key in any::<Option<[u8; 16]>>(),
    ) {
        for config in 0..7 {
            let config = ConfigId::new(config).unwrap();
            let Ok(codec) = IdCodec::new(config, server_id_len, nonce_len, key) else { continue };
            let server = codec.decode(&bytes);
            let is_of_it = bytes.first().is_some_and(|first| ConfigId::of(*first) == Some(config));
            prop_assert_eq!(server.is_some(), is_of_it && bytes.len() >= codec.id_len());
        }
    }
}
