//! Attacks on features that the operator has enabled: metrics, traces, files, a terminal.

use std::fs;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::frames::flood;
use super::{Bound, MIB, Row, Target, USUAL};
use crate::attack::client::ask;
use crate::attack::endpoint::PAYLOAD;
use crate::attack::http3;
use crate::attack::scene::{SMALL, Scene};
use crate::bounded::finish;
use crate::waiting::check_interrupt;

pub(super) fn rows() -> Vec<Row> {
    let row = |name, target, drive| Row { name, target, is_quick: false, bound: USUAL, drive };
    // Traces aggregate frames, and the size of trace files is limited.
    let qlog = Bound { disk: 16 * MIB, memory: 15 * MIB, ..USUAL };
    let live = Bound { memory: 42 * MIB, cpu: 2.5, ..USUAL };
    const QLOG: Target = Target::Serve(&["--qlog", "{folder}"]);
    vec![
        // Each client host may use a quarter of the listener's 128 connections.
        Row {
            bound: Bound { descriptors: 40, ..USUAL },
            ..row("metrics-connections", Target::ServeWithMetrics, metrics)
        },
        Row {
            bound: qlog,
            ..row("qlog-ping-flood", QLOG, |scene| traced(scene, 1, 15_000, |_| vec![1; PAYLOAD]))
        },
        Row {
            bound: qlog,
            ..row("qlog-empty-streams", QLOG, |scene| {
                traced(scene, 1, 15_000, |_| [0x0a, 0, 0].repeat(PAYLOAD / 3))
            })
        },
        // Each of the hundred connections keeps its file open until the connection ends.
        Row {
            bound: Bound { descriptors: 106, ..qlog },
            ..row("qlog-many-files", QLOG, |scene| traced(scene, 100, 100, |_| vec![1; PAYLOAD]))
        },
        Row {
            bound: live,
            ..row("live-flood", Target::Serve(&["--live", "127.0.0.1:0"]), |scene| {
                traced(scene, 64, 600, |_| vec![1; PAYLOAD])
            })
        },
        // Ten requests at a time, each with an open file.
        Row {
            bound: Bound { descriptors: 16, ..USUAL },
            ..row("symlink-race", Target::Serve(&[]), symlink_race)
        },
        row("paths-outside", Target::Serve(&[]), outside),
        Row { is_quick: true, ..row("terminal-escapes", Target::Alone, terminal_escapes) },
        row("doctor-process-name", Target::Alone, process_name),
        row("log-of-long-paths", Target::ServeLoud, long_paths),
    ]
}

/// Opens 1,500 silent TCP connections. The file descriptors for served files must remain available.
fn metrics(scene: &mut Scene<'_>) -> Result<(), String> {
    let address: SocketAddr = scene.metrics.ok_or("the server does not serve metrics")?;
    let (mut held, mut failed) = (Vec::new(), 0);
    // This program needs descriptors too, so connections that cannot be opened are skipped.
    for _ in 0..1_500 {
        match TcpStream::connect_timeout(&address, Duration::from_millis(300)) {
            Ok(stream) => held.push(stream),
            // Refused, or not accepted in time: the server has reached its limit, as intended.
            Err(_) => failed += 1,
        }
        if failed > 20 {
            break;
        }
        check_interrupt()?;
    }
    scene.notes.push(format!("{} connections", held.len()));
    std::thread::sleep(Duration::from_secs(1));
    let mut client = scene.attacker()?;
    let answer = ask(&mut client, "/other.txt");
    scene.check(answer.is_ok(), || {
        format!("the request for a file that was not open yet failed: {answer:?}")
    });
    Ok(())
}

fn traced(
    scene: &mut Scene<'_>,
    connections: usize,
    datagrams: u64,
    payload: impl Fn(u64) -> Vec<u8>,
) -> Result<(), String> {
    for _ in 0..connections {
        let mut attacker = scene.attacker()?;
        flood(&mut attacker, datagrams, &payload)?;
        check_interrupt()?;
    }
    std::thread::sleep(Duration::from_millis(500));
    Ok(())
}

/// Swaps a folder below the document root with a symbolic link to one outside, while clients
/// request a file in it.
fn symlink_race(scene: &mut Scene<'_>) -> Result<(), String> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let failed = |error: std::io::Error| format!("cannot create the files of the race: {error}");
    let (real, link) = (scene.site.folder.join("www/real"), scene.site.folder.join("www/link"));
    let outside = scene.folder.join("outside");
    for folder in [&real, &outside] {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    fs::write(real.join("file"), "inside").map_err(failed)?;
    fs::write(outside.join("file"), "secret").map_err(failed)?;
    std::os::unix::fs::symlink(&outside, &link).map_err(failed)?;
    let stop = AtomicBool::new(false);
    let mut counts = [0_u32; 2];
    let outcome = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // The next iteration retries.
                let _ = renameat_with(CWD, &real, CWD, &link, RenameFlags::EXCHANGE);
            }
        });
        let mut race = || -> Result<(), String> {
            let mut client = scene.attacker()?;
            for _ in 0..200 {
                let streams: Vec<u64> =
                    (0..10).map(|_| http3::request(&mut client, "/real/file")).collect();
                client.until(Duration::from_secs(2), |client| {
                    streams
                        .iter()
                        .all(|id| client.streams.get(id).is_some_and(|one| one.is_complete()))
                })?;
                for stream in streams {
                    let content = client.streams.remove(&stream).map(|one| one.data);
                    let content =
                        String::from_utf8_lossy(&content.unwrap_or_default()).into_owned();
                    counts[0] += u32::from(content.contains("inside"));
                    counts[1] += u32::from(content.contains("secret"));
                }
            }
            Ok(())
        };
        let outcome = race();
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    for path in [real, link] {
        if path.is_symlink() {
            let _ = fs::remove_file(path);
        } else {
            let _ = fs::remove_dir_all(path);
        }
    }
    let [inside, secret] = counts;
    scene.notes.push(format!("{inside} of 2000 responses were from inside the folder"));
    scene.check(secret == 0, || format!("{secret} of 2000 responses were from outside the folder"));
    outcome
}

/// Requests paths that would leave the document root, in every encoding.
fn outside(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut client = scene.attacker()?;
    let key = "key.pem";
    let paths = [
        format!("/../{key}"),
        format!("/%2e%2e/{key}"),
        format!("/..%2f{key}"),
        format!("/.%2e/{key}"),
        format!("/a/../../{key}"),
        format!("/%2e%2e%2f{key}"),
        format!("//../{key}"),
        format!("/..\\{key}"),
        format!("/%252e%252e/{key}"),
        format!("/.//..//{key}"),
        "/%00".to_owned(),
        "/small.txt%00".to_owned(),
        "/small.txt/".to_owned(),
        format!("file:///{key}"),
    ];
    for path in paths {
        let stream = http3::request(&mut client, &path);
        client.until(Duration::from_secs(2), |client| {
            client.streams.get(&stream).is_some_and(|one| one.is_complete() || one.reset.is_some())
        })?;
        let content = client.streams.remove(&stream).map(|one| one.data).unwrap_or_default();
        let is_key = String::from_utf8_lossy(&content).contains("PRIVATE KEY");
        scene.check(!is_key, || format!("{path} returned the private key"));
    }
    Ok(())
}

/// Returns whether a character is a terminal control character, or changes the text direction.
pub(super) fn is_dangerous(letter: char) -> bool {
    let is_control = letter.is_control() && !matches!(letter, '\n' | '\t' | '\r');
    let changes_direction = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    is_control || changes_direction
}

/// Checks that no command prints a trace's strings unescaped if they are escape sequences.
fn terminal_escapes(scene: &mut Scene<'_>) -> Result<(), String> {
    let evil = r"\u001b]0;OWNED\u0007\u001b[2J\u001b[31mEVIL\u009b31m\u202egnp";
    let header = format!(
        r#"{{"qlog_version":"0.3","qlog_format":"JSON-SEQ","title":"{evil}","description":"{evil}","trace":{{"title":"{evil}","description":"{evil}","vantage_point":{{"type":"client","name":"{evil}"}},"common_fields":{{"ODCID":"{evil}","time_format":"relative","reference_time":0,"group_id":"{evil}","protocol_type":["QUIC"]}}}}}}"#
    );
    let mut trace = format!("\u{1e}{header}\n");
    for number in 0..200 {
        let (sent, lost) = (10 * number, 10 * number + 5);
        let events = [
            format!(
                r#"{{"time":{sent},"name":"transport:packet_sent","data":{{"header":{{"packet_type":"1RTT","packet_number":{number}}},"raw":{{"length":1200}},"frames":[{{"frame_type":"stream","stream_id":0,"offset":{},"length":1000}}]}}}}"#,
                number * 1000
            ),
            format!(
                r#"{{"time":{lost},"name":"recovery:packet_lost","data":{{"header":{{"packet_type":"1RTT","packet_number":{number}}},"trigger":"{evil}"}}}}"#
            ),
            format!(
                r#"{{"time":{lost},"name":"transport:{evil}{number}","data":{{"x":"{evil}"}}}}"#
            ),
            format!(
                r#"{{"time":{lost},"name":"recovery:congestion_state_updated","data":{{"old":"{evil}","new":"{evil}","trigger":"{evil}"}}}}"#
            ),
            format!(
                r#"{{"time":{lost},"name":"transport:connection_closed","data":{{"owner":"remote","reason":"{evil}","connection_code":"{evil}"}}}}"#
            ),
        ];
        for event in events {
            trace.push('\u{1e}');
            trace.push_str(&event);
            trace.push('\n');
        }
    }
    let path = scene.folder.join("evil.sqlog");
    fs::write(&path, &trace).map_err(|error| error.to_string())?;
    let path = path.display().to_string();
    let broken = scene.folder.join("\u{1b}[31mname.sqlog");
    fs::write(&broken, "nothing").map_err(|error| error.to_string())?;
    let broken = broken.display().to_string();
    let commands: [&[&str]; 6] = [
        &["view", "--findings", &path],
        &["view", "--findings", "--json", &path],
        &["qlog", "convert", "--to", "0.3", "-o", "/dev/null", &path],
        &["view", "--findings", &broken],
        &["get", "--timeout", "1s", "https://127.0.0.1:1/\u{1b}[31m"],
        &["balance", "--check", "--backends", &broken],
    ];
    for words in commands {
        let mut command = Command::new(&scene.site.program);
        command.args(words);
        let text = finish(command, Duration::from_secs(20))?.text;
        scene.counter.add(trace.len());
        let found = text.chars().find(|letter| is_dangerous(*letter));
        let name = words.first().copied().unwrap_or_default();
        scene.check(found.is_none(), || {
            format!("{name} {} prints {:?}", words[1].escape_debug(), found.unwrap_or_default())
        });
    }
    Ok(())
}

/// Checks that `doctor` escapes the name of a process that drops datagrams: this process briefly
/// gives itself an escape sequence as its name.
fn process_name(scene: &mut Scene<'_>) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let old = fs::read_to_string("/proc/self/comm").map_err(failed)?;
    let process = std::process::id().to_string();
    let socket = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 2_048);
    let address = socket.local_addr().map_err(failed)?;
    let sender = UdpSocket::bind("127.0.0.1:0").map_err(failed)?;
    let stop = AtomicBool::new(false);
    rustix::thread::set_name(c"\x1b[31mE\x07\x1b[2J").map_err(|error| error.to_string())?;
    let text = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // Dropped, since nothing reads the socket.
                let _ = sender.send_to(&[0; 1_000], address);
                std::thread::sleep(Duration::from_micros(100));
            }
        });
        let mut command = Command::new(&scene.site.program);
        command.args(["doctor", "--for", "1s", "--process", &process]);
        let text = finish(command, Duration::from_secs(20));
        stop.store(true, Ordering::Relaxed);
        text
    });
    let old = std::ffi::CString::new(old.trim()).map_err(|error| error.to_string())?;
    rustix::thread::set_name(&old).map_err(|error| error.to_string())?;
    let text = text?.text;
    let is_named = text.contains("[31mE");
    scene.check(is_named, || "the doctor's output does not contain the process's name".to_owned());
    let found = text.chars().find(|letter| is_dangerous(*letter));
    scene.check(found.is_none(), || format!("the doctor prints {:?}", found.unwrap_or_default()));
    Ok(())
}

/// Sends requests with long paths. Each logged path must be truncated and escaped.
fn long_paths(scene: &mut Scene<'_>) -> Result<(), String> {
    let mut client = scene.attacker()?;
    for letter in ["\"", "\u{1b}[2J", "%1b", "x"] {
        let path = format!("/{}", letter.repeat(8_000 / letter.len()));
        for _ in 0..20 {
            http3::request(&mut client, &path);
            client.pump(Duration::from_millis(5))?;
        }
    }
    ask(&mut client, SMALL)?;
    let log = fs::read_to_string(&scene.log).unwrap_or_default();
    let longest = log.lines().map(str::len).max().unwrap_or_default();
    scene.notes.push(format!("longest line: {longest} bytes"));
    scene.check(longest <= 1_400, || format!("a line of {longest} bytes in the log"));
    scene.check(!log.chars().any(is_dangerous), || "the log has control characters".to_owned());
    Ok(())
}
