use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn written(fill: impl FnOnce(&mut Object<'_>)) -> String {
    let mut output = Vec::new();
    Object::write(&mut output, fill);
    String::from_utf8(output).unwrap()
}

#[test]
fn members_and_elements_are_separated() {
    let json = written(|json| {
        json.object("empty", |_| {});
        json.array("list", |json| {
            json.number(1);
            json.text("two");
            json.hex(&[0x03, 0xff]);
            json.object(|json| json.boolean("yes", true));
            json.array(|json| json.number(4));
        });
        json.boolean("no", false);
        json.array("nothing", |_| {});
    });
    assert_eq!(
        json,
        r#"{"empty":{},"list":[1,"two","03ff",{"yes":true},[4]],"no":false,"nothing":[]}"#
    );
}

#[test]
fn integers_above_2_to_the_53_are_strings() {
    let json = written(|json| {
        json.number("zero", 0_u64);
        json.number("exact", (1_u64 << 53) - 1);
        json.number("beyond", 1_u64 << 53);
        json.number("largest", u64::MAX);
    });
    assert_eq!(
        json,
        r#"{"zero":0,"exact":9007199254740991,"beyond":"9007199254740992","largest":"18446744073709551615"}"#
    );
}

#[test]
fn milliseconds_are_exact() {
    let text =
        |nanoseconds| written(|json| json.milliseconds("t", Duration::from_nanos(nanoseconds)));
    assert_eq!(text(0), r#"{"t":0}"#);
    assert_eq!(text(1), r#"{"t":0.000001}"#);
    assert_eq!(text(1_000_000), r#"{"t":1}"#);
    assert_eq!(text(10_050_000), r#"{"t":10.05}"#);
    assert_eq!(text(3_600_000_000_000), r#"{"t":3600000}"#);
    assert_eq!(text(1_999_999_999), r#"{"t":1999.999999}"#);
}

#[test]
fn floats_are_numbers_or_absent() {
    let json = written(|json| {
        json.float("threshold", 1.125);
        json.float("whole", 2.0);
        json.float("nan", f64::NAN);
        json.float("infinite", f64::INFINITY);
    });
    assert_eq!(json, r#"{"threshold":1.125,"whole":2}"#);
}

#[test]
fn text_is_escaped() {
    let json =
        written(|json| json.text("t", "a\"b\\c\nd\re\tf\u{1e}g\u{0}h\u{7f}\u{9b}\u{202e}ü€😀"));
    assert_eq!(
        json,
        "{\"t\":\"a\\\"b\\\\c\\nd\\re\\tf\\u001eg\\u0000h\\u007f\\u009b\\u202eü€😀\"}"
    );
}

proptest! {
    #[test]
    fn any_text_comes_back(text: String) {
        let json = written(|json| json.text("t", &text));
        let breaks = json.bytes().filter(|byte| matches!(byte, b'\n' | 0x1e)).count();
        prop_assert_eq!(breaks, 0);
        let value: Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(value["t"].as_str(), Some(text.as_str()));
    }

    #[test]
    fn any_number_comes_back(number: u64) {
        let value: Value = serde_json::from_str(&written(|json| json.number("n", number))).unwrap();
        let read = value["n"].as_u64().or_else(|| value["n"].as_str()?.parse().ok());
        prop_assert_eq!(read, Some(number));
    }

    #[test]
    fn any_duration_comes_back(nanoseconds in 0..1_u64 << 50) {
        let duration = Duration::from_nanos(nanoseconds);
        let value: Value =
            serde_json::from_str(&written(|json| json.milliseconds("d", duration))).unwrap();
        let read = (value["d"].as_f64().unwrap() * 1e6).round() as u64;
        prop_assert_eq!(read, nanoseconds);
    }
}
