//! A stored session: what is accepted is what would be written.
#![no_main]

use clearway_transport::SavedSession;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    if let Ok(session) = SavedSession::decode(data) {
        assert_eq!(session.encode(), data);
        // Its secret is not shown.
        assert!(format!("{session:?}").len() < 200);
    }
});
