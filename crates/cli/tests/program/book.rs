//! Runs the commands of the book: the `sh` blocks of each page in `docs/book/src`, in order, in a
//! scratch folder.
//!
//! A comment directly before a block states what is special about it:
//!
//! - `<!-- not run: REASON -->`: the block is not run.
//! - `<!-- background: WORDS -->`: the block runs until the end of the page; the next one waits
//!   until it has printed the words.
//! - `<!-- file: NAME -->`, before a block of another language: later blocks find it in this file.
//!
//! Every port in the commands and files of a page is replaced by a free one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::support::{Scratch, clearway};

/// Time limit for a code block, and for a background block to print the text that it is marked with.
const PATIENCE: Duration = Duration::from_secs(120);

/// The languages of blocks. A block without one would be compiled as Rust.
const LANGUAGES: [&str; 7] = ["sh", "rust", "toml", "text", "diff", "promql", "ini"];

/// The meaning of the comment before a block.
#[derive(PartialEq, Eq, Debug)]
enum Mark {
    Plain,
    NotRun,
    Background(String),
    File(String),
}

/// A fenced block of a page.
#[derive(PartialEq, Eq, Debug)]
struct Block {
    /// The line number of the block's fence, counted from 1.
    line: usize,
    language: String,
    mark: Mark,
    text: String,
}

/// Parses a comment before a block. Returns an error if its form is unknown.
fn mark(comment: &str) -> Result<Mark, String> {
    let words = comment.strip_prefix("<!--").and_then(|it| it.strip_suffix("-->"));
    let words = words.ok_or("the comment has to end in its line")?.trim();
    match words.split_once(": ") {
        Some(("not run", reason)) if !reason.is_empty() => Ok(Mark::NotRun),
        Some(("background", words)) => Ok(Mark::Background(words.to_owned())),
        Some(("file", name)) => Ok(Mark::File(name.to_owned())),
        _ => Err(format!("unknown comment {words:?}")),
    }
}

/// Returns the blocks of a page.
fn blocks(page: &str) -> Result<Vec<Block>, String> {
    let mut blocks = Vec::new();
    let mut comment = None;
    let mut lines = (1..).zip(page.lines());
    while let Some((line, text)) = lines.next() {
        let failed = |why: String| format!("line {line}: {why}");
        let text = text.trim_end();
        if text.trim_start().starts_with("<!--") {
            comment = Some(mark(text.trim()).map_err(failed)?);
        } else if let Some(info) = text.strip_prefix("```") {
            let language = info.split(',').next().unwrap_or_default().to_owned();
            let content = lines.by_ref().map(|(_, text)| text);
            let content = content.take_while(|text| *text != "```");
            let text = content.map(|text| format!("{text}\n")).collect();
            let mark = comment.take().unwrap_or(Mark::Plain);
            if !LANGUAGES.contains(&language.as_str()) {
                return Err(failed(format!("unknown language {language:?}")));
            }
            if (language == "sh") == matches!(mark, Mark::File(_)) && mark != Mark::Plain {
                return Err(failed(format!("a {language} block cannot be {mark:?}")));
            }
            blocks.push(Block { line, language, mark, text });
        } else if text.starts_with("    ") && !text.trim_start().starts_with(['-', '*', '|']) {
            return Err(failed("an indented block has no language".to_owned()));
        } else if comment.take().is_some() {
            return Err(failed("the comment is not directly before a block".to_owned()));
        }
    }
    Ok(blocks)
}

/// Returns the pages below `folder`.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            pages.extend(self::pages(&path));
        } else if path.extension().is_some_and(|it| it == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/book/src")
}

/// Replaces the ports in this machine's addresses with free ports; equal ports are replaced with
/// the same one.
fn with_free_ports(text: &str, ports: &mut BTreeMap<String, u16>) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(':') {
        let (before, after) = rest.split_at(at + 1);
        result.push_str(before);
        let digits = after.find(|it: char| !it.is_ascii_digit()).unwrap_or(after.len());
        let (port, after) = after.split_at(digits);
        let is_local = ["localhost:", "127.0.0.1:"].iter().any(|host| before.ends_with(host));
        if is_local && !port.is_empty() {
            let free = *ports.entry(port.to_owned()).or_insert_with(free_port);
            result.push_str(&free.to_string());
        } else {
            result.push_str(port);
        }
        rest = after;
    }
    result + rest
}

/// Returns a port that is free for UDP and TCP.
fn free_port() -> u16 {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        if TcpListener::bind(address).is_ok() {
            return address.port();
        }
    }
}

/// The background shells of a page. When this is dropped, they and their programs are ended.
#[derive(Default)]
struct Background(Vec<Child>);

impl Drop for Background {
    fn drop(&mut self) {
        for child in &mut self.0 {
            end(child);
        }
    }
}

/// Ends a shell and all programs that it has started.
fn end(child: &mut Child) {
    let group = Pid::from_raw(child.id().cast_signed()).unwrap();
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}

/// Runs the commands of one page.
struct Page {
    scratch: Scratch,
    ports: BTreeMap<String, u16>,
    background: Background,
    count: usize,
}

impl Page {
    fn new() -> Self {
        let scratch = Scratch::new("book");
        fs::create_dir(scratch.path("bin")).unwrap();
        fs::create_dir(scratch.path("work")).unwrap();
        symlink(clearway(&[]).get_program(), scratch.path("bin/clearway")).unwrap();
        // No test must open a browser.
        fs::write(scratch.path("bin/xdg-open"), "#!/bin/sh\n").unwrap();
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(scratch.path("bin/xdg-open"), executable).unwrap();
        Self { scratch, ports: BTreeMap::new(), background: Background::default(), count: 0 }
    }

    /// Runs a block, or starts it in the background. Returns an error if the block fails.
    fn run(&mut self, block: &Block) -> Result<(), String> {
        let text = with_free_ports(&block.text, &mut self.ports);
        if let Mark::File(name) = &block.mark {
            fs::write(self.scratch.path(&format!("work/{name}")), &text).unwrap();
        }
        if block.language != "sh" || block.mark == Mark::NotRun {
            return Ok(());
        }
        let output = PathBuf::from(self.scratch.path(&format!("output-{}", self.count)));
        self.count += 1;
        let mut child = self.shell(&text, &output);
        let begun = Instant::now();
        loop {
            let said = String::from_utf8_lossy(&fs::read(&output).unwrap()).into_owned();
            match (child.try_wait().unwrap(), &block.mark) {
                (Some(status), Mark::Plain) if status.success() => return Ok(()),
                (Some(status), _) => return Err(format!("{status}\n{said}")),
                (None, Mark::Background(words)) if said.contains(words.as_str()) => {
                    self.background.0.push(child);
                    return Ok(());
                }
                (None, _) if begun.elapsed() > PATIENCE => {
                    end(&mut child);
                    return Err(format!("took too long\n{said}"));
                }
                (None, _) => std::thread::sleep(Duration::from_millis(5)),
            }
        }
    }

    /// Starts a shell that exits at the first command that fails.
    fn shell(&self, text: &str, output: &Path) -> Child {
        let output = File::create(output).unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-e", "-u", "-c", text]).current_dir(self.scratch.path("work"));
        shell.env("PATH", format!("{}:{path}", self.scratch.path("bin")));
        shell.env("HOME", self.scratch.path("work")).env_remove("XDG_CACHE_HOME");
        for variable in ["QLOGDIR", "SSLKEYLOGFILE", "RUST_LOG"] {
            shell.env_remove(variable);
        }
        shell.stdin(std::process::Stdio::null());
        shell.stdout(output.try_clone().unwrap()).stderr(output);
        shell.process_group(0).spawn().unwrap()
    }
}

#[test]
fn every_command_of_the_book_works() {
    let mut faults = Vec::new();
    let mut count = 0;
    for path in pages(&source()) {
        let name = path.strip_prefix(source()).unwrap().display().to_string();
        let blocks = match blocks(&fs::read_to_string(&path).unwrap()) {
            Ok(blocks) => blocks,
            Err(fault) => {
                faults.push(format!("{name}: {fault}"));
                continue;
            }
        };
        let mut page = Page::new();
        for block in &blocks {
            if let Err(fault) = page.run(block) {
                faults.push(format!("{name}:{}: {fault}", block.line));
                break;
            }
        }
        count += page.count;
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(count > 40, "only {count} blocks were run");
}

#[test]
fn blocks_and_their_marks_are_read() {
    let read = |page: &str| {
        let blocks = blocks(page).unwrap();
        blocks.into_iter().map(|it| (it.language, it.mark, it.text)).collect::<Vec<_>>()
    };
    let page = "a\n\n```sh\nb\nc\n```\n<!-- not run: d -->\n```sh\ne\n```\n<!-- file: f -->\n```toml\ng\n```\n\
                <!-- background: h i -->\n```sh\nj\n```\n```rust,no_run\nk\n```\n";
    let sh = |mark: Mark, text: &str| ("sh".to_owned(), mark, text.to_owned());
    let expected = [
        sh(Mark::Plain, "b\nc\n"),
        sh(Mark::NotRun, "e\n"),
        ("toml".to_owned(), Mark::File("f".to_owned()), "g\n".to_owned()),
        sh(Mark::Background("h i".to_owned()), "j\n"),
        ("rust".to_owned(), Mark::Plain, "k\n".to_owned()),
    ];
    assert_eq!(read(page), expected);
    for bad in [
        "```\na\n```\n",
        "```bash\na\n```\n",
        "    a\n",
        "<!-- not run: -->\n```sh\na\n```\n",
        "<!-- never -->\n```sh\na\n```\n",
        "<!-- not run: a -->\nb\n```sh\na\n```\n",
        "<!-- file: a -->\n```sh\na\n```\n",
        "<!-- not run: a -->\n```toml\na\n```\n",
    ] {
        assert!(blocks(bad).is_err(), "{bad}");
    }
}

#[test]
fn commands_that_fail_or_do_not_end_are_noticed() {
    let run = |mark: Mark, text: &str| {
        let language = "sh".to_owned();
        Page::new().run(&Block { line: 1, language, mark, text: text.to_owned() })
    };
    let background = || Mark::Background("words".to_owned());
    assert_eq!(run(Mark::Plain, "clearway --version\n"), Ok(()));
    assert_eq!(run(Mark::NotRun, "false\n"), Ok(()));
    assert_eq!(run(background(), "echo words; sleep 300\n"), Ok(()));
    assert!(run(Mark::Plain, "false; true\n").is_err());
    assert!(run(Mark::Plain, "clearway serv\n").is_err());
    assert!(run(background(), "echo word\n").is_err());
}

#[test]
fn ports_on_this_machine_are_replaced() {
    let mut ports = BTreeMap::from([("4433".to_owned(), 1), ("9433".to_owned(), 2)]);
    let text = "--listen 127.0.0.1:4433 https://localhost:4433/a http://127.0.0.1:9433 0.0.0.0:443";
    let expected = "--listen 127.0.0.1:1 https://localhost:1/a http://127.0.0.1:2 0.0.0.0:443";
    assert_eq!(with_free_ports(text, &mut ports), expected);
}
