use super::*;

/// Entries from RFC 9204 Appendix A, at both ends and where the table changes subject.
#[test]
fn entries_have_the_indexes_of_the_rfc() {
    for (index, name, value) in [
        (0, ":authority", ""),
        (1, ":path", "/"),
        (17, ":method", "GET"),
        (25, ":status", "200"),
        (29, "accept", "*/*"),
        (52, "content-type", "text/html; charset=utf-8"),
        (63, ":status", "100"),
        (71, ":status", "500"),
        (85, "content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
        (98, "x-frame-options", "sameorigin"),
    ] {
        assert_eq!(entry(index), Some((name, value)));
    }
    assert_eq!(entry(99), None);
    assert_eq!(entry(u64::MAX), None);
}

#[test]
fn every_entry_is_found() {
    for (index, (name, value)) in ENTRIES.iter().enumerate() {
        assert_eq!(find(name.as_bytes(), value.as_bytes()), Match::Field(index as u64));
        match find(name.as_bytes(), b"no such value") {
            Match::Name(index) => assert_eq!(entry(index).unwrap().0, *name),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(find(b"", b""), Match::None);
    assert_eq!(find(b"accept-", b"*/*"), Match::None);
    assert_eq!(find(b"zzz", b""), Match::None);
}
