//! Tests the files that connections leave: who may read them, and their contents when the disk is
//! full or shared.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use clearway_qlog::read::QlogReader;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Running, Scratch, clearway, fixture, succeed};

fn mode(path: &str) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn only_this_user_may_read_traces_and_keys() {
    let scratch = Scratch::new("private");
    scratch.fill("root/file", 1000);
    let logs = scratch.path("logs");
    let server = Running::serve(&scratch, "root", &["--qlog", &logs]);
    let (certificate, url) = (scratch.path("cert.pem"), server.url("file"));
    let get = |keys: &str| {
        let mut command = clearway(&["get", "--ca", &certificate, "--qlog", &logs, &url]);
        command.env("SSLKEYLOGFILE", keys).stdout(Stdio::null());
        assert!(command.status().unwrap().success());
        fs::read_to_string(keys).unwrap().matches("CLIENT_TRAFFIC_SECRET_0").count()
    };
    let keys = scratch.path("keys");
    assert_eq!(get(&keys), 1);
    assert_eq!(mode(&keys), 0o600);
    assert_eq!(get(&keys), 2, "the second program appends");
    // Data is appended to an existing file, whose contents are otherwise unchanged.
    let shared = scratch.path("shared");
    fs::write(&shared, "# of another program\n").unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o640)).unwrap();
    assert_eq!(get(&shared), 1);
    assert_eq!(mode(&shared), 0o640);
    assert!(fs::read_to_string(&shared).unwrap().starts_with("# of another program\n"));
    server.interrupt();
    let names: Vec<_> = fs::read_dir(&logs).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(names.len(), 6);
    for name in names {
        assert_eq!(mode(name.to_str().unwrap()), 0o600, "{}", name.display());
    }
}

#[test]
fn a_full_disk_is_reported_once_and_files_are_still_served() {
    let scratch = Scratch::new("full");
    let content = scratch.fill("root/file", 1_000_000);
    let (root, logs) = (scratch.path("root"), scratch.path("logs"));
    let (certificate, errors) = (scratch.path("cert.pem"), scratch.path("errors"));
    // Files are limited to 4 KiB, which simulates a full disk.
    let limited = "ulimit -f 8; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", limited, env!("CARGO_BIN_EXE_clearway")]);
    command.args(["serve", &root, "--listen", "127.0.0.1:0", "--save-cert", &certificate]);
    command.args(["--qlog", &logs]).env_remove("SSLKEYLOGFILE");
    command.stderr(fs::File::create(&errors).unwrap());
    let server = Running::listening(command);
    let url = server.url("file");
    for _ in 0..3 {
        assert_eq!(succeed(&["get", "--ca", &certificate, &url]).stdout, content);
    }
    server.interrupt();
    let errors = fs::read_to_string(errors).unwrap();
    let lines: Vec<_> = errors.lines().filter(|line| line.contains("qlog")).collect();
    assert_eq!(lines.len(), 1, "{errors}");
    assert!(lines[0].starts_with("clearway: a qlog file ends early: File too large"), "{errors}");
}

/// Returns the number of events in a file, which must be complete and contain one trace.
fn events(path: &str) -> u64 {
    let mut reader = QlogReader::open(path.as_ref()).unwrap();
    reader.by_ref().for_each(drop);
    assert_eq!(reader.take_finished(), None, "{path}");
    assert_eq!(reader.reading().damage, None, "{path}");
    reader.reading().events
}

#[test]
fn two_demos_in_one_folder_do_not_touch_each_others_files() {
    let scratch = Scratch::new("demos");
    let qlog = scratch.path("qlog");
    let demo = ["demo", "--controller", "reno", "--size", "1000", "--loss-for", "0s"];
    let arguments = [&demo[..], &["--qlog", &qlog, "--runs", "1000000"]].concat();
    let mut first = clearway(&arguments);
    let mut first = first.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(first.stderr.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("reno 1 "));
    let before = fs::read(scratch.path("qlog/reno-1.sqlog")).unwrap();

    let second = succeed(&[&demo[..], &["--qlog", &qlog, "--json"]].concat());
    let errors = String::from_utf8(second.stderr).unwrap();
    assert!(errors.contains("another demo is writing its qlog files to"), "{errors}");
    assert!(errors.contains("_2.sqlog"), "{errors}");
    let outcome: serde_json::Value = serde_json::from_slice(&second.stdout).unwrap();
    let own = scratch.path("qlog/reno-1_2.sqlog");
    assert_eq!(outcome["qlog"], own);
    kill_process(Pid::from_raw(first.id().cast_signed()).unwrap(), Signal::INT).unwrap();
    lines.for_each(drop);
    assert_eq!(first.wait().unwrap().code(), Some(130));
    // The file may have been completed after the line that the test waited for.
    assert!(fs::read(scratch.path("qlog/reno-1.sqlog")).unwrap().starts_with(&before));
    assert!(events(&own) > 20 && events(&scratch.path("qlog/reno-1.sqlog")) > 20);

    // No other demo is running any more, so the next one uses the file names of the first one.
    let third = succeed(&[&demo[..], &["--qlog", &qlog, "--json"]].concat());
    let outcome: serde_json::Value = serde_json::from_slice(&third.stdout).unwrap();
    assert_eq!(outcome["qlog"], scratch.path("qlog/reno-1.sqlog"));
}

#[test]
fn host_names_that_were_not_given_are_refused_at_every_address() {
    let trace = fixture("quinn-small.sqlog.gz");
    let view = Running::view(&["--listen", "0.0.0.0:0", "--name", "build.example.org", &trace]);
    let port = view.address.rsplit_once(':').unwrap().1;
    let status = |host: &str| {
        let asked = ureq::get(format!("http://127.0.0.1:{port}/traces.json"));
        match asked.header("Host", host).call() {
            Ok(answer) => answer.status().as_u16(),
            Err(ureq::Error::StatusCode(status)) => status,
            Err(error) => panic!("{error}"),
        }
    };
    for host in ["127.0.0.1", "192.0.2.1:80", "localhost", "build.example.org:80"] {
        assert_eq!(status(host), 200, "{host}");
    }
    for host in ["example.org", "www.build.example.org"] {
        assert_eq!(status(host), 403, "{host}");
    }
    view.interrupt();
}
