use http::HeaderValue;

use super::*;

const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";

fn judged(method: Method, fields: &[(HeaderName, &str)], tag: &str) -> Verdict {
    let modified = httpdate::parse_http_date(DATE).unwrap();
    let validators = Validators { entity_tag: tag.to_owned(), modified: Some(modified) };
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    judge(&method, &headers, &validators, 10)
}

fn got(fields: &[(HeaderName, &str)]) -> Verdict {
    judged(Method::GET, fields, "\"a,b\"")
}

#[test]
fn ranges_are_parsed_as_in_the_rfc() {
    for (range, expected) in [
        ("bytes=0-0", Verdict::Part(0..1)),
        ("bytes=2-5", Verdict::Part(2..6)),
        ("bytes=2-", Verdict::Part(2..10)),
        ("bytes=-3", Verdict::Part(7..10)),
        ("bytes=-99", Verdict::Part(0..10)),
        ("bytes=5-18446744073709551615", Verdict::Part(5..10)),
        ("bytes=10-", Verdict::Unsatisfiable),
        ("bytes=-0", Verdict::Unsatisfiable),
        ("bytes=5-2", Verdict::Whole),
        ("bytes=0-1,3-4", Verdict::Whole),
        ("bytes=-", Verdict::Whole),
        ("lines=1-2", Verdict::Whole),
    ] {
        assert_eq!(got(&[(RANGE, range)]), expected, "{range:?}");
    }
    assert_eq!(got(&[]), Verdict::Whole);
    assert_eq!(judged(Method::HEAD, &[(RANGE, "bytes=0-1")], "\"a\""), Verdict::Whole);
    assert_eq!(part(Some("bytes=0-"), 0), Verdict::Unsatisfiable);
}

#[test]
fn a_range_of_another_version_is_not_sent() {
    let range = (RANGE, "bytes=2-5");
    for (condition, expected) in [
        ("\"a,b\"", Verdict::Part(2..6)),
        ("\"other\"", Verdict::Whole),
        ("W/\"a,b\"", Verdict::Whole),
        (DATE, Verdict::Whole),
        ("nonsense", Verdict::Whole),
    ] {
        assert_eq!(got(&[range.clone(), (IF_RANGE, condition)]), expected, "{condition}");
    }
    let fields = [range, (IF_RANGE, "W/\"a\"")];
    assert_eq!(judged(Method::GET, &fields, "W/\"a\""), Verdict::Whole);
}

#[test]
fn preconditions_are_evaluated() {
    for (fields, expected) in [
        (vec![(IF_NONE_MATCH, "\"a,b\"")], Verdict::NotModified),
        (vec![(IF_NONE_MATCH, "\"x\", W/\"a,b\"")], Verdict::NotModified),
        (vec![(IF_NONE_MATCH, "\"x\""), (IF_NONE_MATCH, "\"a,b\"")], Verdict::NotModified),
        (vec![(IF_NONE_MATCH, "*")], Verdict::NotModified),
        (vec![(IF_NONE_MATCH, "\"a\", \"b\", a,b")], Verdict::Whole),
        (vec![(IF_NONE_MATCH, "\"x\""), (IF_MODIFIED_SINCE, DATE)], Verdict::Whole),
        (vec![(IF_MODIFIED_SINCE, DATE)], Verdict::NotModified),
        (vec![(IF_MODIFIED_SINCE, EARLIER)], Verdict::Whole),
        (vec![(IF_MODIFIED_SINCE, "yesterday")], Verdict::Whole),
        (vec![(IF_MATCH, "\"x\"")], Verdict::Failed),
        (vec![(IF_MATCH, "\"x\",\"a,b\"")], Verdict::Whole),
        (vec![(IF_MATCH, "W/\"a,b\"")], Verdict::Failed),
        (vec![(IF_UNMODIFIED_SINCE, EARLIER)], Verdict::Failed),
        (vec![(IF_UNMODIFIED_SINCE, DATE)], Verdict::Whole),
    ] {
        assert_eq!(got(&fields), expected, "{fields:?}");
    }
}

#[test]
fn parsing_a_malformed_list_of_tags_terminates() {
    for list in ["\"", "\"a", ",,,", "", "a b c", "W/", "\u{e9}\"\u{e9}\"\u{e9}"] {
        assert!(tags(list).count() <= 1, "{list}");
    }
}
