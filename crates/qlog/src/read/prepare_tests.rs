use serde::Deserialize;
use serde::de::Deserializer;
use serde_json::Value;

use super::{Content, Prepared, prepare};
use crate::read::part::Part;

#[derive(PartialEq, Debug)]
struct Words(String, Option<Value>);

impl Content for Words {
    fn read<'de, D: Deserializer<'de>>(name: &str, data: D) -> Result<Self, D::Error> {
        Ok(Self(name.to_owned(), Some(Value::Object(Deserialize::deserialize(data)?))))
    }

    fn of_name(name: &str) -> Self {
        Self(name.to_owned(), None)
    }
}

fn record(json: &str) -> Part<'_> {
    Part::Record { json: json.as_bytes(), layout: &None }
}

fn read(json: &str) -> String {
    format!("{:?}", prepare::<Words>(record(json)))
}

#[test]
fn the_order_of_members_does_not_matter() {
    let expected =
        read(r#"{"time":1.5,"name":"n","group_id":"g","time_format":"delta","data":{"a":[1]}}"#);
    assert!(expected.contains("Event") && expected.contains("Number(1)"), "{expected}");
    for json in [
        r#"{"data":{"a":[1]},"name":"n","time":1.5,"group_id":"g","time_format":"delta"}"#,
        r#"{"time":1.5,"data":{"a":[1]},"more":{"b":[]},"name":"n","time_format":"delta","group_id":"g"}"#,
        r#" {"time":"1.5","\u006eame":"\u006e","group_id":"g","time_format":"delta","x":1,"data": {"a":[1]} } "#,
    ] {
        assert_eq!(read(json), expected, "{json}");
    }
}

#[test]
fn missing_data_is_empty_and_data_of_another_type_cannot_be_read() {
    assert_eq!(read(r#"{"time":1,"name":"n"}"#), read(r#"{"time":1,"name":"n","data":{}}"#));
    let Prepared::Event(event) = prepare::<Words>(record(r#"{"name":"n","data":[7]}"#)) else {
        panic!("it has a name");
    };
    assert_eq!(event.content, Words("n".to_owned(), None));
}

#[test]
fn errors_in_a_record_are_reported_wherever_they_are() {
    for json in [
        r#"{"time":1,"name":"n","data":{}"#,
        r#"{"time":1,"name":"n","data":{"a":}}"#,
        r#"{"time":1,"name":"n","data":{}} x"#,
        r#"{"time":1,"name":"n","data":{},"name":"m"}"#,
        r#"{"time":{},"name":"n","data":{}}"#,
    ] {
        assert!(read(json).starts_with("Broken"), "{json}: {}", read(json));
    }
    assert!(read(r#"{"qlog_version":"0.3"}"#).starts_with("Nameless"));
    let positional = read(r#" ["1","transport","packet_sent",{}]"#);
    assert!(positional.contains("transport:packet_sent"), "{positional}");
}
