//! Tests the page of `view`: served, written to a file, and live.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Running, Scratch, clearway, fail, fixture, succeed};

/// Timeout that is far longer than anything here takes: a test that reaches it has failed.
const TIMEOUT: Duration = Duration::from_secs(20);

fn get(address: &str, path: &str) -> Vec<u8> {
    let answer = ureq::get(format!("http://{address}/{path}")).call().unwrap();
    answer.into_body().with_config().limit(u64::MAX).read_to_vec().unwrap()
}

#[test]
fn serves_the_page_and_the_traces_until_it_is_interrupted() {
    let (sick, healthy) = (fixture("gallery-001.sqlog.gz"), fixture("quinn-small.sqlog.gz"));
    let view = Running::view(&[&sick, &healthy]);
    assert!(get(&view.address, "").starts_with(b"<!doctype html>"));
    let traces: Value = serde_json::from_slice(&get(&view.address, "traces.json")).unwrap();
    let expected = json!([{ "name": "gallery-001.sqlog.gz" }, { "name": "quinn-small.sqlog.gz" }]);
    assert_eq!(traces, expected);
    let header: Value = serde_json::from_slice(&get(&view.address, "0/header.json")).unwrap();
    assert_eq!(header["findings"][0]["id"], "window-at-floor");
    assert_eq!(header["connection"], "c9d512e0e3deea86b1d5800b");
    let columns = get(&view.address, "0/columns.bin");
    let text = &header["text"];
    let end = text["offset"].as_u64().unwrap() + text["length"].as_u64().unwrap();
    assert!((end..end + 8).contains(&(columns.len() as u64)));
    for missing in ["2/header.json", "2/columns.bin", "x/columns.bin", "live"] {
        let answer = ureq::get(format!("http://{}/{missing}", view.address)).call();
        assert!(answer.is_err(), "{missing}");
    }
    // This is like a browser's request for a page whose name was made to resolve to this machine
    // (DNS rebinding).
    let asked = ureq::get(format!("http://{}/traces.json", view.address));
    let answer = asked.header("Host", "example.org").call();
    assert!(matches!(answer, Err(ureq::Error::StatusCode(403))), "{answer:?}");
    view.interrupt();
}

#[test]
fn an_address_in_use_and_a_file_that_cannot_be_written_are_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let trace = fixture("quinn-small.sqlog.gz");
    let line = fail(&["view", "--no-open", "--listen", &address, &trace]);
    assert!(line.contains(&address), "{line}");
    let line = fail(&["demo", "--live", &address]);
    assert!(line.contains(&address), "{line}");
    let line = fail(&["view", "--html", "/proc/none/page.html", &trace]);
    assert!(line.contains("cannot write /proc/none/page.html"), "{line}");
    let full = fail(&["view", "--html", "/dev/full", &trace]);
    assert!(full.contains("cannot write /dev/full"), "{full}");
}

#[test]
fn a_file_contains_the_page_and_the_traces() {
    let scratch = Scratch::new("view-html");
    let out = scratch.path("page.html");
    succeed(&["view", "--html", &out, &fixture("gallery-001.sqlog.gz")]);
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    assert!(page.contains("id=\"trace-0-header\"") && page.contains("id=\"trace-0-columns\""));
}

/// A program that is killed at the end of the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command. Returns what follows `before` on its standard error.
fn start(command: &mut Command, before: &str) -> (Started, String) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let found = lines
        .map_while(Result::ok)
        .find_map(|line| line.split_once(before).map(|(_, rest)| rest.trim().to_owned()));
    (Started(child), found.unwrap())
}

#[test]
fn a_demo_can_be_followed_while_it_runs() {
    let scratch = Scratch::new("view-live");
    let qlog = scratch.path("qlog");
    let words = ["demo", "--controller", "reno", "--live", "127.0.0.1:0", "--qlog", &qlog];
    let (_demo, origin) = start(&mut clearway(&words), "view --live ");
    let view = Running::view(&["--live", &origin]);
    let answer = ureq::get(format!("http://{}/live", view.address)).call().unwrap();
    let mut lines = BufReader::new(answer.into_body().into_reader()).lines().map(Result::unwrap);
    let begin = Instant::now();
    let mut message = |wanted: &str| {
        let name = format!("event: {wanted}");
        lines.find(|line| *line == name).unwrap();
        let data = lines.next().unwrap();
        assert!(begin.elapsed() < TIMEOUT);
        serde_json::from_str::<Value>(data.strip_prefix("data: ").unwrap()).unwrap()
    };
    assert_eq!(message("header")["title"], "demo, reno");
    let last = |rows: &Value| rows["series"]["congestion_window"].as_array()?.last()?[0].as_f64();
    let mut ends = Vec::new();
    while ends.len() < 3 {
        ends.extend(last(&message("rows")));
    }
    assert!(ends.is_sorted() && ends[0] < ends[2], "{ends:?}");
}
