//! Tests that the reader and the analyses of events finish without a panic, regardless of a file's
//! contents.

use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use clearway_qlog::convert::to_0_3;
use clearway_qlog::findings::find;
use clearway_qlog::model::ModelBuilder;
use clearway_qlog::read::{Item, QlogReader};
use proptest::prelude::*;

/// The number of bytes of each trace that are used: few enough to be read quickly.
const LENGTH: u64 = 100_000;

static TRACES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let names = [
        "aioquic-small.qlog.gz",
        "quic-go-small.sqlog.gz",
        "quinn-small.sqlog.gz",
        "gallery-001.sqlog.gz",
    ];
    names.map(beginning).to_vec()
});

fn beginning(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let file = flate2::read::GzDecoder::new(File::open(path).unwrap());
    let mut bytes = Vec::new();
    file.take(LENGTH).read_to_end(&mut bytes).unwrap();
    bytes
}

/// Generates bytes that replace a few bytes of a trace.
fn patch() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..4),
        prop::sample::select(vec![
            "",
            "0",
            "-1",
            "1e308",
            "-1e308",
            "18446744073709551615",
            "99999999999999999999",
            "null",
            "\"\"",
            "{}",
            "[]",
            "\u{1e}",
            "\n",
            "\\",
            "\"",
            "}",
            "]",
            ",",
            "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        ])
        .prop_map(|text| text.as_bytes().to_vec()),
    ]
}

/// Generates a trace in which some bytes are replaced, and which may be truncated.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let patches = prop::collection::vec((any::<prop::sample::Index>(), 0..8_usize, patch()), 1..12);
    (0..TRACES.len(), patches, any::<bool>()).prop_map(|(trace, patches, is_cut)| {
        let mut bytes = TRACES[trace].clone();
        for (place, length, patch) in patches {
            let begin = place.index(bytes.len());
            let end = (begin + length).min(bytes.len());
            bytes.splice(begin..end, patch);
            if is_cut {
                bytes.truncate(begin.max(1000));
            }
        }
        bytes
    })
}

/// Returns the path of a file for this test run.
fn temporary(name: &str) -> PathBuf {
    let name = format!("{name}-{}.qlog", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]
    #[test]
    fn damaged_traces_are_read_without_a_panic(bytes in damaged()) {
        let Ok(reader) = QlogReader::new(Cursor::new(bytes.clone())) else { return Ok(()) };
        let reports = find(reader, |_| {});
        prop_assert!(!reports.is_empty());
        let mut reader = QlogReader::new(Cursor::new(bytes)).unwrap();
        let mut model = ModelBuilder::default();
        for item in &mut reader {
            if let Item::Event(event) = item {
                model.on_event(&event);
            }
        }
        let model = model.finish(reader.reading(), None, &[]);
        prop_assert_eq!(model.columns.len() % 8, 0);
    }

    #[test]
    fn several_threads_read_the_same_as_one(bytes in damaged()) {
        let path = temporary("threads");
        std::fs::write(&path, &bytes).unwrap();
        let Ok(mut alone) = QlogReader::new(Cursor::new(bytes)) else { return Ok(()) };
        let mut together = QlogReader::open(&path).unwrap();
        loop {
            let (expected, item) = (alone.next(), together.next());
            prop_assert_eq!(&expected, &item);
            prop_assert_eq!(alone.reading(), together.reading());
            if item.is_none() {
                break;
            }
        }
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn a_damaged_file_is_converted_up_to_the_damage() {
    let path = temporary("damaged");
    std::fs::write(&path, &TRACES[3]).unwrap();
    let mut output = Vec::new();
    to_0_3(&path, &mut output).unwrap();
    let reader = QlogReader::new(Cursor::new(output)).unwrap();
    assert!(reader.filter(|item| matches!(item, Item::Event(_))).count() > 100);
    std::fs::remove_file(path).unwrap();
}
