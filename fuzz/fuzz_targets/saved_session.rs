//! A stored session: what is accepted is what would be written.
#![no_main]

use clearway_transport::SavedSession;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(session) = SavedSession::decode(data) {
        let encoded = session.encode();
        // The format before this one is read, and not written.
        assert!(encoded == data || data.starts_with(&[1]));
        assert_eq!(SavedSession::decode(&encoded).as_ref(), Ok(&session));
        // Its secret is not shown.
        assert!(format!("{session:?}").len() < 200);
    }
});
