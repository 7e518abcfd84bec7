//! Tests that every error in a file is reported with its location.

use std::path::Path;

use super::super::{Scenario, ScenarioError};
use super::{FLOW, parse};

/// Returns the error message for `text` as shown to users.
fn error(text: &str) -> String {
    match parse(text) {
        Ok(_) => panic!("accepted: {text}"),
        Err(error) => error.to_string(),
    }
}

/// Checks the error message for a file with a summary (line 1), a flow (lines 2 to 4), and then
/// `lines`, which begin at line 5.
#[track_caller]
fn check(lines: &str, expected: &str) {
    let error = error(&format!("summary = \"A test.\"\n{FLOW}{lines}\n"));
    assert!(error.starts_with(expected), "{lines}\n  gives   {error}\n  and not {expected}");
}

#[test]
fn unknown_keys() {
    check("[network]\ndleay = \"5ms\"", "test.toml:6:1: unknown key dleay; did you mean delay?");
    check("[network.to_clint]", "test.toml:5:10: unknown key to_clint; did you mean to_client?");
    check(
        "[network]
to_server.rat = \"1mbit\"",
        "test.toml:6:11: unknown key rat; did you mean rate?",
    );
    check(
        "[expect.renoo]\nwithin = \"1s\"",
        "test.toml:5:9: unknown key renoo; did you mean reno?",
    );
    check(
        "[[variant]]\nname = \"a\"\nlimt = \"1s\"",
        "test.toml:7:1: unknown key limt; did you mean limit?",
    );
    check("[endpoint]\nbandwidth = 1", "test.toml:6:1: unknown key bandwidth (known: stack, ");
    check(
        "[network]\nreorder = { probability = \"1%\", of = \"1ms\" }",
        "test.toml:6:33: unknown key of (known: probability, by)",
    );
}

#[test]
fn tls_that_makes_no_sense() {
    check("[tls]\nkey_exchange = \"x25519\"", "test.toml:6:16: this requires session = \"tls\"");
    let session = |line: &str| format!("[[variant]]\nname = \"a\"\nsession = \"tls\"\n{line}");
    check(
        &session("tls = { certificate_chain = \"999B\" }"),
        "test.toml:8:29: a certificate chain must have 1000 to 60000 bytes",
    );
    check(&session("tls = { key_exchange = \"rsa\" }"), "test.toml:8:24: unknown");
    check("[tls]\nearly_data = \"accepted\"", "test.toml:6:14: this requires session = \"tls\"");
    check(&session("tls = { early_data = \"lost\" }"), "test.toml:8:22: unknown");
}

#[test]
fn wrong_values() {
    check(
        "[network]\ndelay = 5",
        "test.toml:6:9: invalid type: integer `5`, expected a duration with its unit, in quotes",
    );
    check(
        "[network]\ndelay = \"5\"",
        "test.toml:6:9: \"5\" is not a duration: expected a number with a unit (ns",
    );
    check("[network]\nrate = \"10mbps\"", "test.toml:6:8: \"10mbps\" is not a rate");
    check("[network]\ntick = \"never\"", "test.toml:6:8: \"never\" is not a duration");
    check("[network]\nduplicate = \"130%\"", "test.toml:6:13: \"130%\" is not a probability");
    check("[network]\nduplicate = 1.3", "test.toml:6:13: 1.3 is not between 0 and 1");
    check("[network]\nmtu = -1", "test.toml:6:7: -1 is not allowed: expected a size of 1200 bytes");
    check("[network]\necn = \"clear\"", "test.toml:6:7: unknown name clear; did you mean cleared?");
    check(
        "[network]\ndiscipline = \"cdel\"",
        "test.toml:6:14: unknown name cdel; did you mean codel?",
    );
    check("[network]\nqueue = { packets = 1, bytes = \"1kB\" }", "test.toml:6:9: ");
}

#[test]
fn settings_that_make_no_sense() {
    check(
        "[network]\nqueue = { bdp = 1 }",
        "test.toml:6:9: this kind of queue needs a rate or a trace",
    );
    check(
        "[network]\nrate = \"1mbit\"\nqueue = { bdp = -1 }",
        "test.toml:7:17: -1 is not greater than 0 and at most 1000",
    );
    check(
        "[network]\nloss = [{ random = \"1%\" }, { for = \"2s\" }]",
        "test.toml:6:28: a loss needs exactly one of random, capped, burst, gilbert_elliott, large and list",
    );
    check(
        "[network]\nloss = [{ random = \"1%\", list = [3] }]",
        "test.toml:6:9: a loss needs exactly one of",
    );
    check("[network]\ntrace = \"no/such\"", "test.toml:6:9: cannot read ./no/such: ");
    check(
        "[endpoint]\ndatagram_size = 1100",
        "test.toml:6:17: a datagram size must be between 1200 and 65527",
    );
    check(
        "[endpoint.client]\nack_eliciting_threshold = 0",
        "test.toml:6:27: ack_eliciting_threshold must be",
    );
    check(
        "[endpoint.client]\nstack = \"quinn\"",
        "test.toml:3:8: quinn requires session = \"tls\"",
    );
    check(
        "[expect]\nshares = [{ flow = \"downlaod\" }]",
        "test.toml:6:20: unknown flow downlaod; did you mean download?",
    );
    check(
        "[expect]\nshares = [{ flow = \"download\", at_least = 0.6, at_most = 0.5 }]",
        "test.toml:6:20: at_least is larger than at_most",
    );
    check("[[variant]]\nname = \"\"", "test.toml:6:8: \"\" is not a unique name");
    check("[[variant]]\nname = \"base\"", "test.toml:6:8: \"base\" is not a unique name");
    check(
        "[[variant]]\nname = \"a\"\nshare = 0",
        "test.toml:7:9: the share of a variant must be above 0",
    );
    check("[[variant]]", "test.toml:5:1: missing key `name`");
    check(
        "[[reference]]\nfigure = \"f\"\nsource = \"s\"\ncontroller = \"cubick\"",
        "test.toml:8:14: unknown controller cubick; did you mean cubic? (known: reno, cubic, bbr)",
    );
    check(
        "[[reference]]\nfigure = \"f\"\nsource = \"s\"\nvariant = \"bas\"",
        "test.toml:8:11: unknown variant bas; did you mean base?",
    );
}

#[test]
fn impossible_values_are_rejected_with_their_place() {
    let network = |line: &str, expected: &str| check(&format!("[network]\n{line}"), expected);
    network(
        "loss = [{ list = [2, 0] }]",
        "test.toml:6:22: 0 is not allowed: expected a number of at least 1",
    );
    network(
        "loss = [{ burst = { start = \"1%\", longest = 0 } }]",
        "test.toml:6:45: 0 is not allowed: expected a number of at least 1",
    );
    network(
        "loss = [{ capped = { probability = \"1%\", longest = 0 } }]",
        "test.toml:6:52: 0 is not allowed: expected a number of at least 1",
    );
    let steps = "[{ at = \"2s\", value = \"5ms\" }, { at = \"1s\", value = \"9ms\" }]";
    network(
        &format!("delay_steps = {steps}"),
        "test.toml:6:15: steps must be in order, each later than",
    );
    let steps = "[{ at = \"2s\", value = \"1mbit\" }, { at = \"2s\", value = \"2mbit\" }]";
    network(
        &format!("rate_steps = {steps}"),
        "test.toml:6:14: steps must be in order, each later than",
    );
    network(
        "mtu_steps = [{ at = \"2s\", value = 1300 }, { at = \"1s\", value = 1400 }]",
        "test.toml:6:13: steps must be in order, each later than",
    );
    network(
        "ecn_steps = [{ at = \"2s\", value = \"kept\" }, { at = \"2s\", value = \"to-ce\" }]",
        "test.toml:6:13: steps must be in order, each later than",
    );
    network("queue = { bdp = 1e300 }", "test.toml:6:17: 1000000000000000000000");
    network("rate = \"0\"", "test.toml:6:8: \"0\" is not above 0: expected a rate above 0");
    network(
        "policer = { rate = \"0mbit\", bucket = \"1kB\" }",
        "test.toml:6:20: \"0mbit\" is not above 0: expected a rate above 0",
    );
    network(
        "mtu = 0",
        "test.toml:6:7: 0 is not allowed: expected a size of 1200 bytes or more (RFC 9000",
    );
    network(
        "ack_filter = { keep_one_of = 0, smaller_than = 9 }",
        "test.toml:6:30: 0 is not allowed: expected a number of at least 1",
    );
    check(
        "[host.client]\nbatch = 0",
        "test.toml:6:9: 0 is not allowed: expected a number of at least 1",
    );
    let endpoint = |line: &str, expected: &str| check(&format!("[endpoint]\n{line}"), expected);
    endpoint(
        "max_ack_delay = \"16384ms\"",
        "test.toml:6:17: \"16384ms\" is too long: max_ack_delay is below 16384 ms (RFC 9000 §18.2)",
    );
    endpoint(
        "packet_threshold = 0",
        "test.toml:6:20: 0 is not allowed: expected a number of packets from 3 (RFC 9002 §6.1.1)",
    );
    endpoint(
        "maximum_window = \"1B\"",
        "test.toml:6:18: maximum_window must be at least BBR's minimum window, 4 datagrams: 4800 bytes",
    );
}

#[test]
fn extreme_but_possible_values_are_accepted() {
    for line in [
        "[network]\nloss = [{ list = [1] }]\nmtu = 1200\nrate = \"8bit\"\nqueue = { bdp = 1000 }",
        "[network]\nrate_steps = [{ at = \"0s\", value = \"0\" }, { at = \"1s\", value = \"1mbit\" }]",
        "[endpoint]\nmax_ack_delay = \"16383ms\"\npacket_threshold = 3\nmaximum_window = \"4800B\"",
    ] {
        let text = format!("summary = \"A test.\"\n{FLOW}{line}\n");
        assert!(parse(&text).is_ok(), "{line}: {}", error(&text));
    }
}

#[test]
fn a_sequence_that_makes_no_sense() {
    for (traffic, expected) in [
        (
            "{ download = \"1B\", upload = \"1B\" }",
            "traffic must be exactly one of download, upload, parallel, requests, paced, cancelled, bulk, \
             or a sequence = [...] of them, or several together = [...]; found download and upload",
        ),
        ("{}", "traffic must be exactly one of"),
        (
            "{ cancelled = { count = 4, size = \"1B\" } }",
            "a message that is canceled midway must have 2 bytes or more",
        ),
        ("{ idle = \"1s\" }", "idle must be a part of a sequence"),
        ("{ together = [] }", "`together` must have 1 to 1000 parts"),
        ("{ together = [{ upload = \"1B\" }], idle = \"1s\" }", "`together` must be the only key"),
        (
            "{ together = [{ upload = \"1B\" }], sequence = [{ upload = \"1B\" }] }",
            "`sequence` must be the only key: put `together` in its list",
        ),
        ("{ sequence = [] }", "`sequence` must have 1 to 1000 parts"),
        ("{ sequence = [{ idle = \"1s\" }] }", "traffic is empty: there is nothing to transfer"),
        (
            "{ sequence = [{ download = \"1B\" }], upload = \"1B\" }",
            "`sequence` must be the only key",
        ),
    ] {
        let flow = format!("summary = \"A test.\"\n[[flow]]\nname = \"a\"\ntraffic = {traffic}\n");
        let (error, expected) = (error(&flow), format!("test.toml:4:11: {expected}"));
        assert!(error.starts_with(&expected), "{error}\n  and not {expected}");
    }
    for (kind, expected) in [
        (
            "{ bulk = { for = \"1s\" } }",
            "`bulk` lasts until the connection ends: it cannot be in `together`",
        ),
        ("{ idle = \"1s\" }", "idle must be a part of a sequence"),
        ("{ together = [{ upload = \"1B\" }] }", "each entry of `together` must be one kind"),
        ("{ sequence = [{ upload = \"1B\" }] }", "each entry of `together` must be one kind"),
        ("{ upload = \"0B\" }", "traffic is empty: there is nothing to transfer"),
        ("{}", "traffic must be exactly one of"),
    ] {
        let flow = format!(
            "summary = \"A test.\"\n[[flow]]\nname = \"a\"\ntraffic = {{ together = [{kind}] }}\n"
        );
        let (error, expected) = (error(&flow), format!("test.toml:4:25: {expected}"));
        assert!(error.starts_with(&expected), "{error}\n  and not {expected}");
    }
    let inner = "{ sequence = [{ bulk = { for = \"1s\" } }, { download = \"1B\" }] }";
    let flow = format!("summary = \"A test.\"\n[[flow]]\nname = \"a\"\ntraffic = {inner}\n");
    assert!(
        error(&flow).starts_with("test.toml:4:25: `bulk` lasts until the connection ends"),
        "{}",
        error(&flow)
    );
}

#[test]
fn flows_that_make_no_sense() {
    let flow = |text: &str| error(&format!("summary = \"A test.\"\n[[flow]]\n{text}\n"));
    for (text, expected) in [
        ("name = \"a\"", "test.toml:2:1: missing key `traffic`"),
        (
            "name = \"a\"\ntraffic = { download = \"0\" }",
            "test.toml:4:11: traffic is empty: there is nothing to transfer",
        ),
        (
            "name = \"a\"\ntraffic = { bulk = { for = \"0s\" } }",
            "test.toml:4:11: traffic is empty: there is nothing to transfer",
        ),
        (
            "name = \"a\"\ntraffic = { dwnload = \"1\" }",
            "test.toml:4:13: unknown key dwnload; did you mean download?",
        ),
        (
            "name = \"a\"\ncopies = 0\ntraffic = { download = \"1\" }",
            "test.toml:4:10: copies must be at least 1",
        ),
        (
            "name = \"a\"\ncopies = 10001\ntraffic = { download = \"1\" }",
            "test.toml:4:10: copies must be at most 10000",
        ),
        (
            "name = \"a\"\ncontroller = \"vegas\"\ntraffic = { download = \"1\" }",
            "test.toml:4:14: unknown controller vegas (known: reno",
        ),
        (
            "name = \"a\"\ntraffic = { download = \"1\" }\n[[flow]]\nname = \"a\"\ntraffic = { upload = \"1\" }",
            "test.toml:6:8: \"a\" is not a unique name: every flow needs its own name",
        ),
    ] {
        let error = flow(text);
        assert!(error.starts_with(expected), "{text}\n  gives   {error}\n  and not {expected}");
    }
}

#[test]
fn the_file_as_a_whole() {
    assert_eq!(error(FLOW), "test.toml:1:1: missing key `summary`");
    assert_eq!(
        error("summary = \"A test.\""),
        "test.toml:1:1: a scenario needs at least one [[flow]]"
    );
    for (first, expected) in [
        ("seeds = 0", "test.toml:2:9: seeds must be at least 1"),
        ("seeds = -1", "test.toml:2:9: invalid value: integer `-1`"),
        ("controllers = []", "test.toml:2:15: at least one controller must be listed"),
        ("controllers = [\"reno\", \"reno\"]", "test.toml:2:24: reno is listed twice"),
        ("controllers = [\"rno\"]", "test.toml:2:16: unknown controller rno; did you mean reno?"),
        ("base = false", "test.toml:2:8: a file with base = false needs at least one variant"),
        ("limit = 10", "test.toml:2:9: invalid type: integer `10`, expected a duration"),
        ("limit = \"10\"\"", "test.toml:2:"),
        ("properties_off = [{ property = \"S10\" }]", "test.toml:2:19: missing key `because`"),
        (
            "properties_off = [{ property = \"S10\", because = \" \" }]",
            "test.toml:2:49: a reason is required",
        ),
        (
            "properties_off = [{ property = \"S99\", because = \"x\" }]",
            "test.toml:2:32: unknown property S99",
        ),
    ] {
        let error = error(&format!("summary = \"A test.\"\n{first}\n{FLOW}"));
        assert!(error.starts_with(expected), "{first}\n  gives   {error}\n  and not {expected}");
    }
}

#[test]
fn columns_are_characters() {
    let error = error("summary = \"µ\" # ü\nnetwork = { \"ä\" = 1 }");
    assert!(error.starts_with("test.toml:2:13: unknown key ä (known: delay"), "{error}");
}

#[test]
fn a_missing_file() {
    let path = Path::new("no/such.toml");
    let error = Scenario::load(path).expect_err("there is none");
    assert!(matches!(error, ScenarioError::Unreadable { .. }));
    assert!(error.to_string().starts_with("cannot read no/such.toml: "), "{error}");
}
