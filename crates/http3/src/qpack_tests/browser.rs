//! Tests of the effect of the dynamic table on a browser's requests.

use super::*;

/// The requests of a page with 200 subresources, as sent by Chromium; see the README next to the
/// file.
const PAGE: &str = include_str!("../../tests/fixtures/chromium-page.txt");

fn page() -> Vec<Vec<Owned>> {
    let line = |line: &str| {
        // A name may begin with a colon.
        let (name, value) = line[1..].split_once(": ").unwrap();
        owned(&[&line[..1], name].concat(), value, false)
    };
    PAGE.split("\n\n").map(|request| request.lines().map(line).collect()).collect()
}

/// Returns the number of bytes that the requests take on all streams, with a table of `capacity`
/// bytes. Acknowledgments arrive after every `flight` requests.
fn bytes(requests: &[Vec<Owned>], capacity: u64, max_blocked: u64, flight: usize) -> usize {
    let mut encoder = Encoder::default();
    encoder.allow(capacity, capacity, max_blocked);
    let mut decoder = Decoder::new(capacity);
    let mut total = 0;
    for (place, flight) in requests.chunks(flight).enumerate() {
        for (number, fields) in flight.iter().enumerate() {
            let stream = (place * 1000 + number) as u64 * 4;
            let mut section = Vec::new();
            encoder.encode(stream, &lines(fields), true, &mut section);
            total += section.len() + encoder.instructions().len();
            decoder.receive(&core::mem::take(encoder.instructions())).unwrap();
            let mut decoded = Vec::new();
            let outcome = decoder.decode(stream, &section, 1 << 16, |field| {
                decoded.push((field.name.to_vec(), field.value.to_vec(), field.sensitive));
                Ok::<_, ()>(())
            });
            assert_eq!(outcome, Ok(Decoded::Whole));
            assert_eq!(&decoded, fields);
        }
        decoder.acknowledge_insertions();
        total += decoder.feedback().len();
        encoder.receive(&core::mem::take(decoder.feedback())).unwrap();
    }
    total
}

#[test]
fn a_page_with_200_resources() {
    let requests = page();
    assert_eq!(requests.len(), 204);
    let text: usize = requests.iter().flatten().map(|it| it.0.len() + it.1.len()).sum();
    let fixed = bytes(&requests, 0, 0, 20);
    let dynamic = bytes(&requests, 4096, 16, 20);
    let careful = bytes(&requests, 4096, 0, 20);
    let small = bytes(&requests, 1024, 16, 20);
    println!(
        "{} requests, {text} bytes of text; static table: {fixed}; dynamic table of 4096 bytes: {dynamic}, without \
         blocked streams: {careful}; of 1024 bytes: {small}",
        requests.len()
    );
    assert!(dynamic * 6 < fixed, "{dynamic} of {fixed} bytes");
    assert!(careful * 4 < fixed, "{careful} of {fixed} bytes");
    assert!(small < fixed * 3 / 5, "{small} of {fixed} bytes");
}
