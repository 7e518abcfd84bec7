//! Tests `view --findings` and `qlog convert`.

use std::fs;

use serde_json::Value;

use crate::support::{Scratch, clearway, fail, fixture, succeed};

/// Returns the exit status, standard output and standard error.
fn run(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = clearway(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn findings_are_printed_and_set_the_exit_status() {
    let sick = fixture("quiche-0.30-idle-fix-off-pinned.sqlog.gz");
    let (status, text, errors) = run(&["view", "--findings", &sick]);
    assert_eq!((status, errors.as_str()), (Some(1), "clearway: 3 findings\n"));
    for part in [
        "still open at the end of the log (9.9 s)\n  server, ",
        "  1. Congestion window pinned at its floor (2 datagrams) for 7.7 s without loss\n",
        "\n     window-at-floor, 2.232 s to 9.928 s\n",
        "(one round trip)",
        "\n     - congestion window: 2,700 bytes (2 datagrams)\n",
        "\n     Meaning: The window is at its floor, the smallest value",
        "\n     Usual causes: A recovery period that every round trip extends",
        "  damaged: the last record is truncated at byte",
        "  not used: 533 http3:frame_created, ",
        "  limited by: congestion window 99.6 %",
    ] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }

    let healthy = fixture("quinn-small.sqlog.gz");
    let (status, text, errors) = run(&["view", "--findings", &healthy]);
    assert_eq!((status, errors.as_str()), (Some(0), ""), "{text}");
    assert!(text.contains("  no findings"), "{text}");

    let (status, text, _) = run(&["view", "--findings", "--json", &healthy, &sick]);
    assert_eq!(status, Some(1));
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let findings = |line: &Value| line["findings"].as_array().map(Vec::len);
    assert_eq!((findings(&lines[0]), findings(&lines[1])), (Some(0), Some(3)));
    let worst = &lines[1]["findings"][0];
    assert_eq!(lines[1]["ending"]["how"], "open");
    assert_eq!(worst["id"], "window-at-floor");
    assert_eq!(worst["title"], "Congestion window pinned at its floor without loss");
    let headline = "Congestion window pinned at its floor (2 datagrams) for 7.7 s without loss";
    assert_eq!(worst["headline"], headline);
    assert_eq!(worst["metrics"][0]["name"], "congestion window");
    assert_eq!(worst["metrics"][0]["value"], "2,700 bytes (2 datagrams)");
}

#[test]
fn unreadable_files_are_reported() {
    let scratch = Scratch::new("view-unreadable");
    scratch.fill("page", 1000);
    let page = scratch.path("page");
    let (status, _, errors) = run(&["view", "--findings", &page]);
    assert_eq!(status, Some(2));
    assert!(errors.contains(&page) && errors.contains("not a qlog file"), "{errors}");
    let (status, _, errors) = run(&["view", "--findings", &scratch.path("none")]);
    assert_eq!(status, Some(2));
    assert!(errors.contains("cannot read") && errors.contains("none"), "{errors}");
    let out = scratch.path("out");
    let (status, _, errors) = run(&["qlog", "convert", "--to", "0.3", &page, "-o", &out]);
    assert_eq!(status, Some(2), "{errors}");
    assert_eq!(scratch.names(), ["page"]);
    // If no events were read, the absence of findings means nothing.
    let old = scratch.path("old");
    let truncated = "{\"qlog_version\":\"0.3\",\"traces\":[{\"events\":[{\"time\":1,";
    fs::write(&old, truncated).unwrap();
    let (status, text, errors) = run(&["view", "--findings", &old]);
    assert_eq!(status, Some(2), "{text}");
    assert!(text.contains("damaged: the data is truncated"), "{text}");
    assert!(text.contains("no events") && !text.contains("no findings"), "{text}");
    assert!(errors.contains(&old) && errors.contains("before its first event"), "{errors}");
}

#[test]
fn a_device_is_written_to_and_not_replaced() {
    let scratch = Scratch::new("qlog-device");
    // The device is accessed through a symbolic link, so that a bug here does not harm it.
    let device = scratch.path("full");
    std::os::unix::fs::symlink("/dev/full", &device).unwrap();
    let input = fixture("quinn-small.sqlog.gz");
    let line = fail(&["qlog", "convert", "--to", "0.3", &input, "-o", &device]);
    assert!(line.contains("cannot write") && line.contains("free some disk space"), "{line}");
    assert!(std::path::Path::new(&device).is_symlink());
}

#[test]
fn a_converted_file_is_one_that_qvis_reads() {
    let scratch = Scratch::new("qlog-convert");
    let out = scratch.path("for-qvis.sqlog");
    let input = fixture("gallery-001.sqlog.gz");
    succeed(&["qlog", "convert", "--to", "0.3", &input, "-o", &out]);
    let text = fs::read_to_string(&out).unwrap();
    let mut records = text.split('\u{1e}').skip(1);
    let header: Value = serde_json::from_str(records.next().unwrap()).unwrap();
    assert_eq!(
        (&header["qlog_version"], &header["qlog_format"]),
        (&"0.3".into(), &"JSON-SEQ".into())
    );
    assert_eq!(header["trace"]["vantage_point"]["type"], "server");
    assert!(
        text.contains("\"transport:packet_sent\"") && text.contains("\"recovery:metrics_updated\"")
    );
    assert!(!text.contains("\"quic:"), "names of the drafts");
    let (status, _, errors) = run(&["qlog", "convert", "--to", "0.3", &out, "-o", &out]);
    assert_eq!(status, Some(1));
    assert!(errors.contains("the output file is the input file"), "{errors}");
    assert_eq!(scratch.names(), ["for-qvis.sqlog"]);
}

#[test]
fn how_a_connection_ended_is_the_first_line_and_foreign_text_is_escaped() {
    let scratch = Scratch::new("view-ending");
    let trace = scratch.path("failed.qlog");
    let text = r#"{"qlog_version":"draft-00","traces":[{"vantage_point":{"type":"CLIENT"},"title":"a\u001b[2Jb","configuration":{"time_units":"us"},"event_fields":["relative_time","CATEGORY","EVENT_TYPE","DATA"],"events":[
[0,"TRANSPORT","PACKET_SENT",{"packet_type":"INITIAL","header":{"packet_number":0,"packet_size":1200},"frames":[{"frame_type":"CRYPTO","offset":0,"length":300}]}],
[20000,"TRANSPORT","PACKET_RECEIVED",{"packet_type":"INITIAL","header":{"packet_number":0,"packet_size":1200},"frames":[{"frame_type":"CONNECTION_CLOSE","error_space":"TRANSPORT","error_code":298,"reason":"no \u202eway\u001b[1A"}]}]]}]}"#;
    fs::write(&trace, format!("\u{feff}{text}")).unwrap();
    let (status, text, errors) = run(&["view", "--findings", &trace]);
    assert_eq!((status, errors.as_str()), (Some(1), "clearway: 2 findings\n"));
    let first = format!(
        "{trace}: closed by the server (the peer) after 20.0 ms: CRYPTO_ERROR 0x12a (TLS alert bad_certificate), \
         reason: \"no \\u202eway\\u001b[1A\"; the handshake was not complete\n  client, draft-00, 2 events"
    );
    assert!(text.starts_with(&first), "{text}");
    assert!(text.contains("  1. Closed by the peer with an error: CRYPTO_ERROR 0x12a\n"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
    let (_, json, _) = run(&["view", "--findings", "--json", &trace]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let ending = &json["ending"];
    assert_eq!((&ending["how"], &ending["by"]), (&"closed".into(), &"remote".into()));
    assert_eq!((&ending["failed"], &ending["handshake_complete"]), (&true.into(), &false.into()));
}

#[test]
fn a_file_without_events_is_not_converted() {
    let scratch = Scratch::new("qlog-convert-nothing");
    let (empty, out) = (scratch.path("empty.qlog"), scratch.path("out.sqlog"));
    fs::write(
        &empty,
        r#"{"qlog_version":"draft-01","traces":[{"event_fields":["time"],"events":[]}]}"#,
    )
    .unwrap();
    let (status, text, errors) = run(&["qlog", "convert", "--to", "0.3", &empty, "-o", &out]);
    assert_eq!((status, text.as_str()), (Some(2), ""));
    assert!(errors.contains("no events (read as draft-01)"), "{errors}");
    assert_eq!(scratch.names(), ["empty.qlog"]);
}
