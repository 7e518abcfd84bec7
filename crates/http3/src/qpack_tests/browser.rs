//! What the dynamic table saves on requests like those of a browser.

use super::*;

const AGENT: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 \
                     Safari/537.36";
const COOKIE: &str = "session=6f1c9a3f0b1e4c0c8f64c0f2f7f2a9d1; consent=v2.1-full; ab=checkout-b.search-a; \
                      _visitor=GA1.2.1184093310.1763911022; theme=dark; cart=3a77f0";
const DOCUMENT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8";
const IMAGE: &str = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8";

/// The kinds of resources of a page: how many, the name, `accept`, `sec-fetch-dest`, `sec-fetch-mode`, `priority`.
const KINDS: [(usize, &str, &str, &str, &str, &str); 6] = [
    (12, "css/part", "text/css,*/*;q=0.1", "style", "no-cors", "u=0"),
    (45, "js/chunk", "*/*", "script", "no-cors", "u=1"),
    (6, "fonts/face", "*/*", "font", "cors", "u=0"),
    (104, "img/product", IMAGE, "image", "no-cors", "u=5, i"),
    (28, "api/item", "application/json", "empty", "cors", "u=1, i"),
    (5, "img/late", IMAGE, "image", "no-cors", "i"),
];

/// The fields of a request for `path`.
fn request(path: &str, accept: &str, destination: &str, mode: &str, priority: &str) -> Vec<Owned> {
    let is_document = destination == "document";
    let mut fields = vec![
        (":method", "GET"),
        (":authority", "shop.example.com"),
        (":scheme", "https"),
        (":path", path),
        ("sec-ch-ua", "\"Chromium\";v=\"142\", \"Not_A Brand\";v=\"99\""),
        ("sec-ch-ua-mobile", "?0"),
        ("sec-ch-ua-platform", "\"Linux\""),
        ("user-agent", AGENT),
        ("accept", accept),
        ("sec-fetch-site", if is_document { "none" } else { "same-origin" }),
        ("sec-fetch-mode", mode),
        ("sec-fetch-dest", destination),
        ("accept-encoding", "gzip, deflate, br, zstd"),
        ("accept-language", "en-GB,en;q=0.9,de;q=0.8"),
        ("cookie", COOKIE),
        ("priority", priority),
    ];
    match is_document {
        true => fields.push(("upgrade-insecure-requests", "1")),
        false => fields.push(("referer", "https://shop.example.com/category/garden?page=2")),
    }
    fields.into_iter().map(|(name, value)| owned(name, value, false)).collect()
}

/// A page and its 200 sub-resources.
fn page() -> Vec<Vec<Owned>> {
    let mut requests =
        vec![request("/category/garden?page=2", DOCUMENT, "document", "navigate", "u=0, i")];
    for (count, name, accept, destination, mode, priority) in KINDS {
        for number in 0..count {
            let path =
                format!("/static/{name}-{:08x}.bin", number * 0x9e37_79b1_usize % 0xffff_ffff);
            requests.push(request(&path, accept, destination, mode, priority));
        }
    }
    requests
}

/// The bytes of all streams that the requests need, with a table of `capacity` bytes. The acknowledgments arrive after every
/// `flight` requests.
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
    assert_eq!(requests.len(), 201);
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
    assert!(dynamic * 8 < fixed, "{dynamic} of {fixed} bytes");
    assert!(careful * 4 < fixed, "{careful} of {fixed} bytes");
    assert!(small < fixed, "{small} of {fixed} bytes");
}
