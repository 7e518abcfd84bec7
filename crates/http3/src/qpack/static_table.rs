//! The static table (RFC 9204 Appendix A), and a search for the entry that matches a field.

/// The name and value of every entry, by index.
const ENTRIES: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

/// The indexes of [`ENTRIES`], sorted by name and then value.
const SORTED: [u8; 99] = sorted();

/// Sorts the entries at compile time, where a mistake is a compile error.
#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "compile time only")]
const fn sorted() -> [u8; 99] {
    let mut order = [0; 99];
    let mut count = 0;
    while count < 99 {
        let mut place = count;
        while place > 0 && is_before(count, order[place - 1] as usize) {
            order[place] = order[place - 1];
            place -= 1;
        }
        order[place] = count as u8;
        count += 1;
    }
    order
}

#[expect(clippy::indexing_slicing, reason = "compile time only")]
const fn is_before(left: usize, right: usize) -> bool {
    let (left, right) = (ENTRIES[left], ENTRIES[right]);
    match compare(left.0.as_bytes(), right.0.as_bytes()) {
        0 => compare(left.1.as_bytes(), right.1.as_bytes()) < 0,
        order => order < 0,
    }
}

#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "compile time only")]
const fn compare(left: &[u8], right: &[u8]) -> i32 {
    let mut place = 0;
    while place < left.len() && place < right.len() {
        if left[place] != right[place] {
            return left[place] as i32 - right[place] as i32;
        }
        place += 1;
    }
    left.len() as i32 - right.len() as i32
}

/// For each name's hash, the position of the name's first entry in [`SORTED`], and its number of
/// entries.
const RUNS: [(u8, u8); 256] = runs();

/// Returns a hash that differs for all names in the table. Other names may have the same hash as a
/// name in the table.
const fn hash(length: usize, first: u8, other: u8) -> u8 {
    (length as u8)
        .wrapping_mul(21)
        .wrapping_add(first.wrapping_mul(246))
        .wrapping_add(other.wrapping_mul(22))
}

#[expect(clippy::indexing_slicing, clippy::arithmetic_side_effects, reason = "compile time only")]
const fn runs() -> [(u8, u8); 256] {
    let mut runs = [(0, 0); 256];
    let mut place = 0;
    while place < 99 {
        let name = ENTRIES[SORTED[place] as usize].0.as_bytes();
        let is_first =
            place == 0 || compare(name, ENTRIES[SORTED[place - 1] as usize].0.as_bytes()) != 0;
        let hash = hash(name.len(), name[0], name[name.len() * 3 / 4]) as usize;
        if is_first {
            assert!(runs[hash].1 == 0, "no two names have the same hash");
            runs[hash].0 = place as u8;
        }
        runs[hash].1 += 1;
        place += 1;
    }
    runs
}

/// The best match for a field in the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Match {
    /// The name and the value match the entry at this index.
    Field(u64),
    /// Only the name matches the entry at this index.
    Name(u64),
    /// No entry has this name.
    None,
}

/// Returns the entry at `index`.
pub(crate) fn entry(index: u64) -> Option<(&'static str, &'static str)> {
    ENTRIES.get(usize::try_from(index).ok()?).copied()
}

/// Returns the best match for a field.
pub(crate) fn find(name: &[u8], value: &[u8]) -> Match {
    let entry_of = |sorted: &u8| ENTRIES.get(usize::from(*sorted)).copied().unwrap_or_default();
    let (Some(&first), Some(&other)) = (name.first(), name.get(name.len().saturating_mul(3) / 4))
    else {
        return Match::None;
    };
    let run = RUNS.get(usize::from(hash(name.len(), first, other))).copied();
    let (start, count) = run.map_or((0, 0), |(start, count)| (usize::from(start), count.into()));
    let same_name = SORTED.get(start..).and_then(|sorted| sorted.get(..count)).unwrap_or_default();
    let Some(first) = same_name.first().filter(|it| entry_of(it).0.as_bytes() == name) else {
        return Match::None;
    };
    match same_name.iter().find(|sorted| entry_of(sorted).1.as_bytes() == value) {
        Some(same) => Match::Field(u64::from(*same)),
        None => Match::Name(u64::from(*first)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests entries from RFC 9204 Appendix A, at both ends of the table and at changes between
    /// names.
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
            (
                85,
                "content-security-policy",
                "script-src 'none'; object-src 'none'; base-uri 'none'",
            ),
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
}
