//! Tests foreign text: whatever text comes from a peer, a file, another process or the environment,
//! the program prints no control characters and no characters that reorder or hide text, and
//! foreign text does not begin a line.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::{Value, json};

use crate::support::{Running, Scratch, clearway};

/// Text that an attacker injects: a terminal title, clearing the screen, two kinds of color codes,
/// right-to-left text, an invisible character, two kinds of line breaks, and a forged line.
const HOSTILE: &str = "\u{1b}]0;OWNED\u{7}\u{1b}[2J\u{1b}[31m\u{9b}31m\u{202e}\u{2066}\u{200b}\u{feff}\u{2028}\r\nFORGED \u{7f}";

/// Checks that the program's output is harmless. Line feeds and the record separator of JSON text
/// sequences are permitted.
fn assert_harmless(printed: &[u8]) {
    let text = std::str::from_utf8(printed).unwrap();
    let is_harmful = |c: &char| {
        let is_invisible = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}');
        (c.is_control() && !matches!(c, '\n' | '\u{1e}')) || is_invisible
    };
    assert_eq!(text.chars().find(is_harmful), None, "{text:?}");
    assert!(text.lines().all(|line| !line.starts_with("FORGED")), "{text}");
}

/// Runs a command with any exit status, and checks its output.
fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert_harmless(&output.stdout);
    assert_harmless(&output.stderr);
    output
}

fn text(output: &Output) -> String {
    let both = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8(both).unwrap()
}

/// Returns a trace in which every text is hostile.
fn hostile_trace() -> String {
    let of = |value: Value| format!("\u{1e}{value}\n");
    let mut trace = of(json!({
        "qlog_version": "0.3", "qlog_format": "JSON-SEQ", "title": HOSTILE, "description": HOSTILE,
        "trace": {
            "title": HOSTILE, "vantage_point": { "type": "client", "name": HOSTILE },
            "common_fields": { "ODCID": HOSTILE, "time_format": "relative", "reference_time": 0, "group_id": HOSTILE },
        },
    }));
    let packet = |frames: Value| json!({ "header": { "packet_type": "1RTT", "packet_number": 0 }, "raw": { "length": 1200 }, "frames": frames });
    let stream = json!([{ "frame_type": "stream", "stream_id": 0, "offset": 0, "length": 1000 }]);
    let close = json!([{
        "frame_type": "connection_close", "error_space": "application", "error_code": HOSTILE, "reason": HOSTILE,
    }]);
    for (time, name, data) in [
        (10, "transport:packet_sent".to_owned(), packet(stream)),
        (
            11,
            "recovery:congestion_state_updated".to_owned(),
            json!({ "old": HOSTILE, "new": HOSTILE, "trigger": HOSTILE }),
        ),
        (12, format!("transport:{HOSTILE}"), json!({ "x": HOSTILE })),
        (
            13,
            "transport:packet_dropped".to_owned(),
            json!({ "raw": { "length": 9 }, "trigger": HOSTILE }),
        ),
        (
            14,
            "connectivity:connection_state_updated".to_owned(),
            json!({ "old": HOSTILE, "new": HOSTILE }),
        ),
        (15, "transport:alpn_information".to_owned(), json!({ "chosen_alpn": HOSTILE })),
        (16, "transport:packet_received".to_owned(), packet(close)),
        (
            17,
            "connectivity:connection_closed".to_owned(),
            json!({ "owner": "remote", "application_code": HOSTILE, "reason": HOSTILE }),
        ),
    ] {
        trace += &of(json!({ "time": time, "name": name, "data": data }));
    }
    trace
}

#[test]
fn traces_are_printed_harmlessly() {
    let scratch = Scratch::new("foreign-traces");
    // The file's name is hostile, too.
    let file = scratch.path(&format!("{HOSTILE}.sqlog"));
    fs::write(&file, hostile_trace()).unwrap();
    let findings = text(&run(&mut clearway(&["view", "--findings", &file])));
    assert!(findings.contains("OWNED") && findings.contains("\\u001b[2J"), "{findings}");
    let printed = run(&mut clearway(&["view", "--findings", "--json", &file]));
    let read: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(read["title"], HOSTILE, "JSON keeps its meaning");
    let converted = text(&run(&mut clearway(&["qlog", "convert", "--to", "0.3", &file])));
    assert!(converted.contains("OWNED"), "{converted}");
    run(&mut clearway(&["view", "--html", &scratch.path(HOSTILE), &file]));
    run(&mut clearway(&["view", "--findings", &scratch.path(&format!("no {HOSTILE}"))]));
}

/// Foreign text on a page is data in a script element, and must not end this element.
#[test]
fn a_page_has_no_markup_of_others() {
    let scratch = Scratch::new("foreign-page");
    let markup = "</script><img src=x onerror=alert(1)><!--";
    let file = scratch.path("<img src=x onerror=alert(1)>.sqlog");
    let trace = hostile_trace().replace("OWNED", markup);
    fs::write(&file, trace).unwrap();
    let page = scratch.path("page.html");
    run(&mut clearway(&["view", "--html", &page, &file]));
    let page = fs::read_to_string(page).unwrap();
    assert!(!page.contains("<img src=x"), "markup of a trace is in the page");
    assert!(page.contains(r"\u003cimg src=x"), "the trace is in the page");
}

/// The server that `view --live` follows chooses the names of connections and everything in their
/// logs.
#[test]
fn a_followed_server_is_printed_harmlessly() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let list = json!([{ "name": HOSTILE, "has_ended": false }]).to_string();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 2000];
            let length = stream.read(&mut request).unwrap_or(0);
            let is_list = request[..length].starts_with(b"GET / ");
            let content = if is_list { list.clone() } else { hostile_trace() };
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                content.len()
            );
            let _ = stream.write_all((head + &content).as_bytes());
        }
    });
    let mut command = clearway(&["view", "--no-open", "--live", &address]);
    command.stderr(Stdio::piped());
    let mut viewer = Running::printing("the page is at http://", command);
    let line = viewer.error_line();
    assert!(line.starts_with("following ") && line.contains("OWNED"), "{line}");
    assert_harmless(line.as_bytes());
}

/// Any user can choose the names of processes, which appear in the snapshots of a host.
#[test]
fn names_of_processes_and_devices_are_printed_harmlessly() {
    let scratch = Scratch::new("foreign-doctor");
    let escaped = json!(HOSTILE).to_string();
    let escaped = escaped.trim_matches('"');
    for (name, words) in
        [("rate", "Loss at the socket"), ("stopped", "Loss at the socket"), ("backlog", "Loss at")]
    {
        let fixture =
            format!("{}/../doctor/tests/fixtures/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let snapshots = fs::read_to_string(fixture).unwrap();
        let snapshots =
            snapshots.replace("doctor-reader", escaped).replace("eth0", &format!("eth{escaped}"));
        let file = scratch.path("snapshots.jsonl");
        fs::write(&file, snapshots).unwrap();
        let printed = text(&run(&mut clearway(&["doctor", "--from", &file])));
        assert!(printed.contains(words), "{printed}");
        run(&mut clearway(&["doctor", "--json", "--from", &file]));
    }
}

/// Names in requests, paths, files and directories of a server appear in its log and in its
/// clients' output.
#[test]
fn requests_are_logged_harmlessly_and_in_bounded_length() {
    let scratch = Scratch::new("foreign-requests");
    fs::create_dir_all(scratch.path(HOSTILE)).unwrap();
    fs::write(scratch.path(&format!("{HOSTILE}/{HOSTILE}")), b"content").unwrap();
    let root = scratch.path(HOSTILE);
    let certificate = scratch.path("cert.pem");
    let mut command =
        clearway(&["serve", &root, "--listen", "127.0.0.1:0", "--save-cert", &certificate]);
    command.arg("--log").arg("trace").stderr(Stdio::null());
    let server = Running::listening(command);
    let encoded: String = HOSTILE.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let long = "x%1b".repeat(4000);
    for path in [&encoded, &long] {
        run(&mut clearway(&[
            "get",
            "--ca",
            &certificate,
            "-o",
            &scratch.path("file"),
            &server.url(path),
        ]));
        run(&mut clearway(&[
            "get",
            "--json",
            "--ca",
            &certificate,
            "-o",
            &scratch.path(&format!("f{HOSTILE}")),
            &server.url(path),
        ]));
    }
    let log = server.interrupt();
    assert_harmless(log.as_bytes());
    assert_eq!(log.lines().filter(|line| line.contains(" GET ")).count(), 4, "{log}");
    assert!(log.contains(" 200 ") && log.contains(" 404 "), "{log}");
    let longest = log.lines().map(str::len).max();
    assert!(longest < Some(1500), "{longest:?}");
}

/// Foreign text appears in arguments, environment variables, and the names of servers in files.
#[test]
fn arguments_and_files_are_printed_harmlessly() {
    let scratch = Scratch::new("foreign-arguments");
    let backends = scratch.path(&format!("{HOSTILE}.toml"));
    let quoted = HOSTILE.escape_default().to_string().replace("\\u{1b}", "\\u001b");
    let quoted = quoted
        .replace("\\u{7}", "\\u0007")
        .replace("\\u{9b}", "\\u009b")
        .replace("\\u{7f}", "\\u007f");
    let quoted = ["202e", "2066", "200b", "feff", "2028"]
        .iter()
        .fold(quoted, |all, code| all.replace(&format!("\\u{{{code}}}"), &format!("\\u{code}")));
    let server =
        format!("[[server]]\nname = \"{quoted}\"\naddress = \"127.0.0.1:9\"\npreface = false\n");
    fs::write(&backends, &server).unwrap();
    let listed = text(&run(&mut clearway(&[
        "balance",
        "--listen",
        "127.0.0.1:0",
        "--backends",
        &backends,
        "--check",
    ])));
    assert!(listed.contains("OWNED"), "{listed}");
    fs::write(&backends, server.replace("127.0.0.1:9", &quoted)).unwrap();
    run(&mut clearway(&["balance", "--listen", "127.0.0.1:0", "--backends", &backends, "--check"]));

    // clap's messages about an argument have several lines, whose line feeds are kept.
    let one_line = HOSTILE.replace('\n', "");
    let one_line = one_line.as_str();
    for arguments in [
        &[one_line][..],
        &["get", HOSTILE],
        &["get", &format!("https://{HOSTILE}/")],
        &["get", "--ca", HOSTILE, "https://localhost/"],
        &["get", "--sessions", HOSTILE, "--timeout", one_line, "https://localhost/"],
        &["serve", HOSTILE],
        &["serve", ".", "--cert", HOSTILE, "--key", HOSTILE],
        &["lab", "run", HOSTILE],
        &["doctor", "--from", HOSTILE],
        &["link", "--listen", "127.0.0.1:0", "--to", one_line],
        &["view", "--live", one_line],
    ] {
        let output = run(&mut clearway(arguments));
        assert!(!output.status.success(), "{arguments:?}");
    }
    let mut command = clearway(&["get", "https://127.0.0.1:9/", "--connect", "nowhere"]);
    run(command.env("RUST_LOG", HOSTILE));
    // The text is not even valid UTF-8.
    let mut command = clearway(&["get"]);
    run(command.arg(OsStr::from_bytes(b"https://\xff\x1b[2J/")));
}
