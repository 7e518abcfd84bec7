//! Tests parallel downloads, and the server's limits on files and memory.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::support::{Running, Scratch, clearway, succeed};

#[test]
fn one_download_that_fails_does_not_end_the_others() {
    let scratch = Scratch::new("some-fail");
    let content = scratch.fill("root/a", 100_000);
    scratch.fill("root/c \u{fc}", 10);
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, folder) = (scratch.path("cert.pem"), scratch.path("downloads"));
    fs::create_dir(&folder).unwrap();
    let urls = [server.url("a"), server.url("nope"), server.url("c \u{fc}"), server.url("no")];
    let mut command = clearway(&["get", "--quiet", "--ca", &certificate, "-O"]);
    let output = command.args(&urls).current_dir(&folder).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 3, "{errors}");
    let last = errors.lines().last().unwrap();
    assert!(last.starts_with("clearway: 2 of 4 URLs were not downloaded: "), "{last}");
    assert!(last.contains(&urls[1]) && last.contains(&urls[3]) && !last.contains(&urls[0]));
    assert_eq!(fs::read(scratch.path("downloads/a")).unwrap(), content);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
    assert!(fs::exists(scratch.path("downloads/c \u{fc}")).unwrap());

    let twice = [urls[0].as_str(), urls[0].as_str()];
    let mut command = clearway(&["get", "--ca", &certificate, "-O"]);
    let output = command.args(twice).current_dir(&folder).output().unwrap();
    assert!(
        String::from_utf8(output.stderr).unwrap().contains("two of the URLs have the file name a")
    );
}

#[test]
fn fifty_files_are_downloaded_in_parallel_over_one_connection() {
    let scratch = Scratch::new("at-once");
    for number in 0..50 {
        scratch.fill(&format!("root/{number}"), 1000);
    }
    let server = Running::serve(&scratch, "root", &[]);
    // A round trip of 200 ms: sequential downloads would take ten seconds.
    let link = Running::link(&server.address, &["--delay", "100ms"]);
    let (certificate, folder) = (scratch.path("cert.pem"), scratch.path("downloads"));
    fs::create_dir(&folder).unwrap();
    let urls: Vec<_> = (0..50).map(|number| server.url(&number.to_string())).collect();
    let arguments = ["get", "--json", "--ca", &certificate, "--connect", &link.address, "-O"];
    let logs = scratch.path("logs");
    let mut command = clearway(&[&arguments[..], &["--qlog", &logs]].concat());
    let output = command.args(&urls).current_dir(&folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 50);
    assert_eq!(fs::read_dir(&logs).unwrap().count(), 1, "one connection");
    // All files were requested before the first response arrived, so the client sends little between the first and the
    // last completion.
    let lines = String::from_utf8(output.stdout).unwrap();
    let packets = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["packets_sent"].as_u64().unwrap()
    };
    let (first, last) = (lines.lines().next().unwrap(), lines.lines().last().unwrap());
    // The client sent only acknowledgments, and no requests.
    assert!(packets(last) - packets(first) < 40, "{first}\n{last}");
}

#[test]
fn a_server_without_file_descriptors_answers_503() {
    let scratch = Scratch::new("descriptors");
    let content = scratch.fill("root/file", 1000);
    let server =
        Running::serve(&scratch, "root", &["--open-files", "1", "--content-memory", "1MiB"]);
    let (certificate, url) = (scratch.path("cert.pem"), server.url("file"));
    assert_eq!(succeed(&["get", "--ca", &certificate, &url]).stdout, content);
    server.limit_descriptors();
    let output = clearway(&["get", "--ca", &certificate, &url]).output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.contains("503"), "{errors}");
    let log = server.interrupt();
    assert!(log.contains("GET \"/file\" 503"), "{log}");
}

/// A request that finds no free descriptor waits for a while, and is answered when one becomes
/// available.
#[test]
fn a_request_waits_for_a_descriptor() {
    let scratch = Scratch::new("late-descriptors");
    let content = scratch.fill("root/file", 1000);
    let (root, certificate) = (scratch.path("root"), scratch.path("cert.pem"));
    let mut command =
        clearway(&["serve", &root, "--listen", "127.0.0.1:0", "--save-cert", &certificate]);
    command.args(["--open-files", "1"]).stderr(Stdio::piped());
    let mut server = Running::listening(command);
    let url = server.url("file");
    let get = || clearway(&["get", "--ca", &certificate, &url]);
    assert_eq!(get().output().unwrap().stdout, content);
    let process = Pid::from_raw(server.process().cast_signed());
    let (limits, lowest) = (server.descriptor_limits(), Some(3));
    prlimit(process, Resource::Nofile, Rlimit { current: lowest, ..limits }).unwrap();
    let waiting = get().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !server.error_line().contains("cannot open a file") {}
    prlimit(process, Resource::Nofile, limits).unwrap();
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.stdout, content, "{}", String::from_utf8_lossy(&output.stderr));
    server.interrupt();
}

#[test]
fn limits_that_are_too_small_are_refused() {
    let scratch = Scratch::new("refused-options");
    scratch.fill("root/file", 1);
    for (option, value) in
        [("--content-memory", "1kB"), ("--send-timeout", "0s"), ("--open-files", "0")]
    {
        let output = clearway(&["serve", &scratch.path("root"), option, value]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{option}");
        assert!(String::from_utf8(output.stderr).unwrap().contains(option));
    }
}

/// Early requests whose content cannot be written do not occupy a part of the connection's flow
/// control window. Otherwise, the other downloads would never end.
#[test]
fn early_requests_that_cannot_be_written_do_not_hold_up_the_others() {
    let scratch = Scratch::new("early-unwritable");
    fs::create_dir(scratch.path("root")).unwrap();
    let folder = scratch.path("downloads");
    for number in 0..40 {
        let file = fs::File::create(scratch.path(&format!("root/{number}"))).unwrap();
        file.set_len(6_000_000).unwrap();
        if number < 38 {
            // A directory has the name of the file.
            fs::create_dir_all(format!("{folder}/{number}")).unwrap();
        }
    }
    let server = Running::serve(&scratch, "root", &[]);
    let (certificate, sessions) = (scratch.path("cert.pem"), scratch.path("sessions"));
    let (output, first) = (scratch.path("first"), server.url("0"));
    let known = ["get", "--quiet", "--ca", &certificate, "--sessions", &sessions];
    succeed(&[&known[..], &["-o", &output, &first]].concat());
    let mut command = clearway(&[&known[..], &["--early-data", "-O"]].concat());
    command.args((0..40).map(|number| server.url(&number.to_string())));
    let mut child = command.stderr(Stdio::null()).current_dir(&folder).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
            panic!("the downloads do not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(1));
    for number in [38, 39] {
        assert_eq!(fs::metadata(format!("{folder}/{number}")).unwrap().len(), 6_000_000);
    }
}
