//! Attacks by hostile trace servers on `clearway view --live`.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::operator::is_dangerous;
use super::{Bound, MIB, Row, Target, USUAL};
use crate::attack::scene::Scene;
use crate::attack::watch::Watch;
use crate::bounded::Server;
use crate::waiting::check_interrupt;

/// Duration for which the viewer follows the traces.
const TIME: Duration = Duration::from_secs(3);
/// A JSON string with escape sequences that a terminal would interpret.
const EVIL: &str = r"\u001b]0;OWNED\u0007\u001b[2J\u001b[31mEVIL\u009b31m\u202egnp";

pub(super) fn rows() -> Vec<Row> {
    let bound = Bound { memory: 64 * MIB, cpu: 0.75, ..USUAL };
    let row = |name, drive| Row { name, target: Target::Alone, is_quick: false, bound, drive };
    vec![
        row("live-server-escapes", |scene| {
            follow(scene, Answers { list: list(EVIL), piece: trace() })
        }),
        row("live-server-endless-list", |scene| {
            follow(scene, Answers { list: endless_list(), piece: Vec::new() })
        }),
        row("live-server-endless-line", |scene| {
            follow(scene, Answers { list: list("one"), piece: vec![b'x'; 1 << 16] })
        }),
        row("live-server-endless-trace", |scene| {
            follow(scene, Answers { list: list("one"), piece: events().repeat(1_000) })
        }),
        row("live-server-many", |scene| {
            let all: Vec<String> = (0..100_000).map(|number| format!("c{number}")).collect();
            let entries = all.iter().map(|name| entry(name)).collect::<Vec<_>>().join(",");
            follow(scene, Answers { list: format!("[{entries}]").into(), piece: trace() })
        }),
    ]
}

/// The server's responses: the list of connections, and a fragment of each trace that the server
/// repeats forever.
struct Answers {
    list: Vec<u8>,
    piece: Vec<u8>,
}

fn entry(name: &str) -> String {
    format!(r#"{{"name":"{name}","has_ended":false}}"#)
}

fn list(name: &str) -> Vec<u8> {
    format!("[{}]", entry(name)).into()
}

/// Returns a list of connections that is too long to read completely.
fn endless_list() -> Vec<u8> {
    let entries = format!("{},", entry("x")).repeat(3_000_000);
    format!("[{entries}").into()
}

fn trace() -> Vec<u8> {
    let header = format!(
        "\u{1e}{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"{EVIL}\",\"trace\":\
         {{\"title\":\"{EVIL}\",\"vantage_point\":{{\"type\":\"client\",\"name\":\"{EVIL}\"}}}}}}\n"
    );
    [header.into_bytes(), events()].concat()
}

fn events() -> Vec<u8> {
    format!("\u{1e}{{\"time\":1,\"name\":\"transport:{EVIL}\",\"data\":{{\"x\":\"{EVIL}\"}}}}\n")
        .into()
}

/// Answers requests until stopped, and counts the bytes sent.
fn serve(
    listener: &TcpListener,
    answers: &Arc<Answers>,
    stop: &Arc<AtomicBool>,
    sent: &Arc<AtomicU64>,
) {
    while !stop.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let (answers, stop, sent) = (answers.clone(), stop.clone(), sent.clone());
        std::thread::spawn(move || {
            // The viewer may disconnect at any time.
            let _ = answer(stream, &answers, &stop, &sent);
        });
    }
}

fn answer(
    mut stream: TcpStream,
    answers: &Answers,
    stop: &AtomicBool,
    sent: &AtomicU64,
) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(TIME))?;
    let mut request = [0; 4_096];
    let length = stream.read(&mut request)?;
    stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
    if request[..length].starts_with(b"GET / ") {
        sent.fetch_add(answers.list.len() as u64, Ordering::Relaxed);
        return stream.write_all(&answers.list);
    }
    while !stop.load(Ordering::Relaxed) && !answers.piece.is_empty() {
        stream.write_all(&answers.piece)?;
        sent.fetch_add(answers.piece.len() as u64, Ordering::Relaxed);
        if answers.piece.len() < 10_000 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

/// Returns the events that a page receives from the viewer within one second.
fn news(page: SocketAddr) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("the viewer: {error}");
    let mut stream = TcpStream::connect(page).map_err(failed)?;
    stream.set_read_timeout(Some(Duration::from_millis(100))).map_err(failed)?;
    stream.write_all(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n").map_err(failed)?;
    let (began, mut all, mut buffer) = (Instant::now(), Vec::new(), [0; 65_536]);
    while began.elapsed() < TIME && all.len() < 1 << 20 {
        if let Ok(length) = stream.read(&mut buffer) {
            all.extend(&buffer[..length]);
        }
        check_interrupt()?;
    }
    Ok(String::from_utf8_lossy(&all).into_owned())
}

fn follow(scene: &mut Scene<'_>, answers: Answers) -> Result<(), String> {
    let failed = |error: std::io::Error| error.to_string();
    let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let origin = listener.local_addr().map_err(failed)?.to_string();
    let (stop, sent, answers) = (Arc::default(), Arc::default(), Arc::new(answers));
    let outcome = std::thread::scope(|threads| {
        threads.spawn(|| serve(&listener, &answers, &stop, &sent));
        let outcome = watched(scene, &origin);
        stop.store(true, Ordering::Relaxed);
        outcome
    });
    scene.counter.bytes.fetch_add(sent.load(Ordering::Relaxed), Ordering::Relaxed);
    outcome
}

fn watched(scene: &mut Scene<'_>, origin: &str) -> Result<(), String> {
    let mut command = Command::new(&scene.site.program);
    command.args(["view", "--no-open", "--live", origin, "--listen", "127.0.0.1:0"]);
    let mut viewer = Server::start(command, &scene.log)?;
    let page = |log: &str| {
        let (_, rest) = log.split_once("the page is at http://")?;
        rest.split('/').next()?.parse::<SocketAddr>().ok()
    };
    viewer.wait(|log| page(log).is_some())?;
    let page = page(&viewer.log()).ok_or("the address of the page")?;
    let watch = Watch::start(viewer.id(), &scene.folder);
    let news = news(page)?;
    scene.measured = Some(watch.stop());
    scene.check(viewer.is_running(), || "the viewer exited".to_owned());
    let log = viewer.log();
    // JSON does not escape the other characters, and the page inserts them as text.
    scene.check(!news.contains('\u{1b}'), || "the page received an escape sequence".to_owned());
    let found = log.chars().find(|letter| is_dangerous(*letter));
    scene.check(found.is_none(), || {
        format!("the terminal received {:?}", found.unwrap_or_default())
    });
    scene.check(!log.contains("panicked"), || "the viewer panicked".to_owned());
    Ok(())
}
