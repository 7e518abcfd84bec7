use std::fmt::Write;
use std::io::Cursor;

use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::Value;

use super::Pool;
use crate::read::envelope::Content;
use crate::read::prepare::prepare;
use crate::read::source;
use crate::read::split::Splitter;

/// Returns a sequence of this many records of various lengths, some of which are not JSON.
fn sequence(records: usize) -> Vec<u8> {
    let mut text = String::from("{\"qlog_version\":\"0.3\"}\n");
    for number in 0..records {
        let padding = "x".repeat(number % 700);
        let end = if number % 1_000 == 999 { "" } else { "}" };
        writeln!(text, r#"{{"time":{number},"name":"{padding}","data":{{"n":{number}}}{end}"#)
            .unwrap();
    }
    text.into_bytes()
}

fn splitter(bytes: &[u8]) -> Splitter {
    let source = source::decompress(Cursor::new(bytes.to_vec())).unwrap();
    Splitter::new(source).unwrap()
}

#[derive(Debug)]
struct Words {
    _name: String,
    _data: Value,
}

impl Content for Words {
    fn read<'de, D: Deserializer<'de>>(name: &str, data: D) -> Result<Self, D::Error> {
        Ok(Self { _name: name.to_owned(), _data: Value::deserialize(data)? })
    }

    fn of_name(name: &str) -> Self {
        Self { _name: name.to_owned(), _data: Value::Null }
    }
}

#[test]
fn several_threads_return_the_same_parts_in_the_same_order() {
    let bytes = sequence(20_000);
    let mut alone = splitter(&bytes);
    let mut pool = Pool::<Words>::new(splitter(&bytes), 3);
    loop {
        let expected = alone.next().unwrap().map(|part| prepare::<Words>(part));
        let is_over = expected.is_none();
        assert_eq!(format!("{:?}", pool.next().unwrap()), format!("{expected:?}"));
        if is_over {
            break;
        }
        assert_eq!(pool.offset(), alone.offset());
    }
    assert!(pool.next().unwrap().is_none(), "nothing follows the end");
}

#[test]
fn a_pool_can_be_dropped_before_the_end() {
    let mut pool = Pool::<Words>::new(splitter(&sequence(50_000)), 2);
    assert!(pool.next().unwrap().is_some());
}
