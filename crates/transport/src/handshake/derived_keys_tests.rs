use super::*;
use crate::handshake::tests::hex;

/// RFC 9001 §A.5 and RFC 9369 §A.5: the same secret, packet number and payload in both versions.
const SECRET: &str = "9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b";
const NUMBER: u64 = 654_360_564;
const CHACHA20: CipherSuite = CipherSuite::TLS13_CHACHA20_POLY1305_SHA256;

fn sample(version: Version) -> (Derivation, Secret) {
    let derivation = Derivation::new(version, CHACHA20).unwrap();
    (derivation, derivation.secret(&hex(SECRET)).unwrap())
}

#[test]
fn the_values_of_the_rfcs() {
    for (version, key, iv, header, update) in [
        (
            Version::V1,
            "c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8",
            "e0459b3474bdd0e44a41c144",
            "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4",
            "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9",
        ),
        (
            Version::V2,
            "3bfcddd72bcf02541d7fa0dd1f5f9eeea817e09a6963a0e6c7df0f9a1bab90f2",
            "a6b5bc6ab7dafce30ffff5dd",
            "d659760d2ba434a226fd37b35c69e2da8211d10c4f12538787d65645d5d1b8e2",
            "c69374c49e3d2a9466fa689e49d476db5d0dfbc87d32ceeaa6343fd0ae4c7d88",
        ),
    ] {
        let (derivation, secret) = sample(version);
        let (labels, secret) = (derivation.labels, derivation.expandable(secret).unwrap());
        for (label, expected) in
            [(labels.key, key), (labels.iv, iv), (labels.header, header), (labels.update, update)]
        {
            let expected = hex(expected);
            let derived = expand(&secret, label, expected.len()).unwrap();
            assert_eq!(derived[..expected.len()], expected);
        }
        assert_eq!(derivation.update(&secret).unwrap().0[..32], hex(update));
    }
}

#[test]
fn the_packets_of_the_rfcs() {
    for (version, expected) in [
        (Version::V1, "4cfe4189655e5cd55c41f69080575d7999c25a5bfb"),
        (Version::V2, "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba"),
    ] {
        let (derivation, secret) = sample(version);
        let keys = derivation.keys(Side::Server, secret, secret).unwrap();
        let mut packet = hex("4200bff401");
        let (header, payload) = packet.split_at_mut(4);
        let tag = keys.local.packet.encrypt_in_place(NUMBER, header, payload).unwrap();
        packet.extend_from_slice(tag.as_ref());
        let (header, sample) = packet.split_at_mut(5);
        let (first, number) = header.split_at_mut(1);
        let sample = &sample[..keys.local.header.sample_len()];
        keys.local.header.encrypt_in_place(sample, &mut first[0], number).unwrap();
        assert_eq!(packet, hex(expected));

        let (header, sample) = packet.split_at_mut(5);
        let (first, number) = header.split_at_mut(1);
        let sample = &sample[..keys.remote.header.sample_len()];
        keys.remote.header.decrypt_in_place(sample, &mut first[0], number).unwrap();
        assert_eq!(packet[..4], hex("4200bff4"));
        let (header, payload) = packet.split_at_mut(4);
        let opened = keys.remote.packet.decrypt_in_place(NUMBER, header, payload);
        assert_eq!(opened.unwrap(), [0x01]);
        // Decryption has modified the bytes, so they are no longer a valid packet.
        let again = keys.remote.packet.decrypt_in_place(NUMBER, header, payload);
        assert!(again.is_err());
    }
}

fn is_same(one: &dyn PacketKey, other: &dyn PacketKey) -> bool {
    let sealed = |key: &dyn PacketKey| {
        let mut payload = *b"content";
        let tag = key.encrypt_in_place(7, b"header", &mut payload).unwrap();
        (payload, tag.as_ref().to_vec())
    };
    sealed(one) == sealed(other)
}

/// Each endpoint's local keys are the other endpoint's remote keys, in every phase and with every
/// suite.
#[test]
fn both_ends_derive_the_same_keys() {
    for suite in [
        CipherSuite::TLS13_AES_128_GCM_SHA256,
        CipherSuite::TLS13_AES_256_GCM_SHA384,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    ] {
        let derivation = Derivation::new(Version::V2, suite).unwrap();
        let length = derivation.suite.secret_len;
        let [client, server] = [3, 4].map(|byte| derivation.secret(&vec![byte; length]).unwrap());
        let secrets = ApplicationSecrets { client: &[3; 48][..length], server: &[4; 48][..length] };
        let mut ends = [Side::Client, Side::Server]
            .map(|side| Derivation::schedule(Version::V2, suite, side, secrets).unwrap());
        assert!(ends[0].keys_again().is_none(), "none were forgotten");
        let first = derivation.keys(Side::Server, client, server).unwrap();
        for phase in 0..3 {
            let [client, server] = ends.each_mut().map(KeySchedule::next_packet_keys);
            assert!(ends[1].keys_again().is_none(), "phase {phase}");
            assert!(ends[1].keep_keys());
            let again = ends[1].keys_again().unwrap();
            assert!(
                is_same(&*ends[1].next_local_again().unwrap(), &*server.local),
                "phase {phase}"
            );
            assert!(is_same(&*again.next_remote, &*server.remote), "phase {phase}");
            let is_first = is_same(&*again.current.local.packet, &*first.local.packet);
            assert_eq!(is_first, phase == 0);
            let mask = |key: &dyn HeaderProtectionKey| {
                let mut header = [0; 5];
                let [byte, number @ ..] = &mut header;
                key.encrypt_in_place(&[9; 16], byte, number).unwrap();
                header
            };
            let header_keys = |keys: &Keys| [mask(&*keys.local.header), mask(&*keys.remote.header)];
            assert_eq!(header_keys(&again.current), header_keys(&first), "never updated");
            let (to_server, to_client) = (&client.local, &server.local);
            for (from, to, other) in
                [(to_server, &server.remote, to_client), (to_client, &client.remote, to_server)]
            {
                let mut payload = b"content".to_vec();
                let tag = from.encrypt_in_place(7, b"header", &mut payload).unwrap();
                payload.extend_from_slice(tag.as_ref());
                let mut wrong = payload.clone();
                assert_eq!(to.decrypt_in_place(7, b"header", &mut payload).unwrap(), b"content");
                assert!(other.decrypt_in_place(7, b"header", &mut wrong).is_err());
            }
        }
        assert!(derivation.secret(&vec![3; length - 1]).is_none());
    }
    assert!(Derivation::new(Version(2), CHACHA20).is_none());
    assert!(Derivation::new(Version::V1, CipherSuite::TLS13_AES_128_CCM_SHA256).is_none());
}

/// A connection may become idle before it has requested the keys of the next phase.
#[test]
fn with_keys_that_are_kept_those_of_the_next_phase_are_given() {
    let suite = CipherSuite::TLS13_AES_128_GCM_SHA256;
    let secrets = ApplicationSecrets { client: &[3; 32], server: &[4; 32] };
    let schedule = || Derivation::schedule(Version::V1, suite, Side::Client, secrets).unwrap();
    let (mut rested, mut busy) = (schedule(), schedule());
    assert!(rested.keep_keys());
    let next = busy.next_packet_keys();
    assert!(is_same(&*rested.keys_again().unwrap().next_remote, &*next.remote));
    assert!(is_same(&*rested.next_local_again().unwrap(), &*next.local));
    let (given, after_next) = (rested.next_packet_keys(), busy.next_packet_keys());
    assert!(is_same(&*given.local, &*after_next.local));
    assert!(is_same(&*given.remote, &*after_next.remote));
}
