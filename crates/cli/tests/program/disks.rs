//! Tests files that do not fit on the disk, at any size. The program does not report them as
//! complete, and leaves nothing that could be mistaken for the complete file.
//!
//! A limit on the size of files (RLIMIT_FSIZE) can truncate a file at any byte. A separate file
//! system in a mount namespace reproduces a full disk and a read-only one.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::{Running, Scratch, clearway, fixture, succeed};

const BLOCK: usize = 4096;

/// Returns a command of the program whose files may have at most `limit` bytes.
fn limited(limit: usize, arguments: &[&str]) -> Command {
    let plain = clearway(arguments);
    let mut command = Command::new("sh");
    // Without this trap, the signal would end the program. With it, the write fails.
    command.args(["-c", r#"trap '' XFSZ; exec prlimit --fsize="$0" "$@""#, &limit.to_string()]);
    command.arg(plain.get_program()).args(plain.get_args());
    for (variable, _) in plain.get_envs() {
        command.env_remove(variable);
    }
    command
}

/// Returns limits near the block boundaries of a file of `size` bytes, and one above its size.
fn limits(size: usize) -> Vec<usize> {
    let last_block = size.saturating_sub(1) / BLOCK * BLOCK;
    let mut limits = vec![
        0,
        1,
        size / 2,
        last_block.saturating_sub(1),
        last_block,
        last_block + 1,
        size.saturating_sub(2),
        size.saturating_sub(1),
        size,
    ];
    limits.sort();
    limits.dedup();
    limits.retain(|limit| *limit <= size);
    limits
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The destination of a download.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Destination {
    New,
    /// An existing file with other contents.
    Existing,
    /// A symbolic link to an existing file.
    Link,
    /// A relative symbolic link to a symbolic link to a missing file.
    Chain,
    /// The file is named after the URL (`-O`).
    Named,
    /// Standard output is a file.
    Standard,
}

const DESTINATIONS: [Destination; 6] = [
    Destination::New,
    Destination::Existing,
    Destination::Link,
    Destination::Chain,
    Destination::Named,
    Destination::Standard,
];

const OLD: &[u8] = b"old";

impl Destination {
    /// Prepares the directory. Returns the name passed to the command, and the name of the file to
    /// which it leads.
    fn prepare(self, folder: &Path) -> (&'static str, &'static str) {
        let link = |to, name| std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        match self {
            Self::New | Self::Standard => ("file", "file"),
            Self::Named => ("body", "body"),
            Self::Existing => {
                fs::write(folder.join("file"), OLD).unwrap();
                ("file", "file")
            }
            Self::Link => {
                fs::write(folder.join("file"), OLD).unwrap();
                link("file", "link");
                ("link", "file")
            }
            Self::Chain => {
                fs::create_dir(folder.join("sub")).unwrap();
                link("../file", "sub/second");
                link("sub/second", "link");
                ("link", "file")
            }
        }
    }

    fn had_content(self) -> bool {
        matches!(self, Self::Existing | Self::Link)
    }
}

/// Downloads `url`, whose content is `content`, to a disk with room for `limit` bytes.
fn download(
    server: &[&str],
    url: &str,
    content: &[u8],
    destination: Destination,
    limit: usize,
    folder: &Path,
) {
    let case = format!("{} bytes of {} to {destination:?}, {server:?}", limit, content.len());
    let _ = fs::remove_dir_all(folder);
    fs::create_dir(folder).unwrap();
    let (name, file) = destination.prepare(folder);
    let before = fs::read_dir(folder).unwrap().count();
    let to: &[&str] = match destination {
        Destination::Named => &["-O"],
        Destination::Standard => &[],
        _ => &["-o", name],
    };
    let mut command = limited(limit, &[&["get", "-q"][..], server, to, &[url]].concat());
    command.current_dir(folder);
    if destination == Destination::Standard {
        command.stdout(File::create(folder.join(file)).unwrap());
    }
    let output = command.stderr(Stdio::piped()).output().unwrap();
    let errors = errors(&output);
    let written = fs::read(folder.join(file)).ok();
    assert_eq!(output.status.success(), limit >= content.len(), "{case}: {errors}");
    if output.status.success() {
        assert_eq!(written.as_deref(), Some(content), "{case}");
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{case}: {errors}");
    assert!(errors.contains("cannot write"), "{case}: {errors}");
    if destination == Destination::Standard {
        return;
    }
    let old = destination.had_content().then_some(OLD);
    assert_eq!(written.as_deref(), old, "{case}: a partial file passes for a complete one");
    let after = fs::read_dir(folder).unwrap().count();
    assert_eq!(after, before, "{case}: something is left behind");
}

/// Each size and limit is combined with some of the destinations, and each protocol with all of
/// them.
#[test]
fn a_download_that_does_not_fit_is_not_reported_as_one() {
    let scratch = Scratch::new("full-disk");
    let sizes = [1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 100, 300_001];
    let contents = sizes.map(|size| scratch.fill(&format!("root/{size}/body"), size));
    for protocol in [&[][..], &["--http09"]] {
        let server = Running::serve(&scratch, "root", &[&["-q"][..], protocol].concat());
        let certificate = scratch.path("cert.pem");
        let options = [&["--ca", &certificate][..], protocol].concat();
        let folder = scratch.path("folder");
        let mut number = 0;
        for content in &contents {
            let url = server.url(&format!("{}/body", content.len()));
            for limit in limits(content.len()) {
                for offset in [0, 3] {
                    let destination = DESTINATIONS[(number + offset) % DESTINATIONS.len()];
                    download(&options, &url, content, destination, limit, Path::new(&folder));
                }
                number += 1;
            }
        }
    }
}

/// If some of several downloads do not fit, they fail, and so does the command.
#[test]
fn one_of_several_downloads_that_does_not_fit_makes_the_command_fail() {
    let scratch = Scratch::new("full-disk-several");
    let sizes = [10, 5_000, 20_000, 9_000];
    let contents = sizes.map(|size| scratch.fill(&format!("root/{size}"), size));
    let server = Running::serve(&scratch, "root", &["-q"]);
    let certificate = scratch.path("cert.pem");
    let folder = scratch.path("folder");
    for limit in [0, 4_999, 5_000, 19_999, 20_000] {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let urls = sizes.map(|size| server.url(&size.to_string()));
        let urls: Vec<_> = urls.iter().map(String::as_str).collect();
        let mut command =
            limited(limit, &[&["get", "-q", "--ca", &certificate, "-O"][..], &urls].concat());
        let output = command.current_dir(&folder).output().unwrap();
        assert_eq!(output.status.success(), limit >= 20_000, "{limit}: {}", errors(&output));
        for (size, content) in sizes.iter().zip(&contents) {
            let written = fs::read(Path::new(&folder).join(size.to_string())).ok();
            let expected = (*size <= limit).then_some(content);
            assert_eq!(written.as_ref(), expected, "{limit} {size}");
        }
        let count = sizes.iter().filter(|size| **size <= limit).count();
        assert_eq!(fs::read_dir(&folder).unwrap().count(), count, "{limit}");
    }
}

/// After a failed write of any other output file, the file is absent or has its old contents.
#[test]
fn a_document_that_does_not_fit_is_not_left_in_part() {
    let scratch = Scratch::new("full-disk-documents");
    let (trace, out) = (fixture("quic-go-small.sqlog.gz"), scratch.path("out"));
    let commands: [&[&str]; 2] = [
        &["view", "--html", &out, &trace],
        &["qlog", "convert", "--to", "0.3", "--output", &out, &trace],
    ];
    for arguments in commands {
        succeed(arguments);
        let whole = fs::read(&out).unwrap();
        for old in [None, Some(OLD)] {
            for limit in limits(whole.len()) {
                let _ = fs::remove_file(&out);
                if let Some(old) = old {
                    fs::write(&out, old).unwrap();
                }
                let output = limited(limit, arguments).output().unwrap();
                let written = fs::read(&out).ok();
                let case = format!("{arguments:?} {limit}: {}", errors(&output));
                assert_eq!(output.status.success(), limit >= whole.len(), "{case}");
                let expected = if output.status.success() { Some(&whole[..]) } else { old };
                assert!(written.as_deref() == expected, "{case}");
                let _ = fs::remove_file(&out);
                assert_eq!(scratch.names(), [""; 0], "{case}");
            }
        }
    }
}

/// After a failure, the sessions file has its old contents.
#[test]
fn sessions_that_do_not_fit_are_reported_and_the_old_ones_kept() {
    let scratch = Scratch::new("full-disk-sessions");
    scratch.fill("root/file", 1);
    let server = Running::serve(&scratch, "root", &["-q"]);
    let (certificate, sessions) = (scratch.path("cert.pem"), scratch.path("sessions"));
    let url = server.url("file");
    let arguments = ["get", "-q", "--ca", &certificate, "--sessions", &sessions, &url];
    succeed(&arguments);
    let old = fs::read_to_string(&sessions).unwrap();
    let size = old.len();
    for limit in [0, 1, size / 2, size - 100, 2 * size] {
        let output = limited(limit, &arguments).output().unwrap();
        let written = fs::read_to_string(&sessions).unwrap();
        let errors = errors(&output);
        if output.status.success() {
            assert!(written.ends_with("\nend\n") && limit > size / 2, "{limit}: {written}");
        } else {
            assert!(errors.contains("cannot write the sessions"), "{limit}: {errors}");
            assert_eq!(written, old, "{limit}");
        }
        assert_eq!(scratch.names(), ["cert.pem", "root", "sessions"], "{limit}");
    }
}

/// A certificate is either saved completely, or the file is unchanged.
#[test]
fn a_certificate_that_does_not_fit_is_reported() {
    let scratch = Scratch::new("full-disk-certificate");
    scratch.fill("root/file", 1);
    let (root, certificate) = (scratch.path("root"), scratch.path("cert.pem"));
    let arguments = ["serve", &root, "--listen", "127.0.0.1:0", "--save-cert", &certificate];
    for limit in [0, 1, 100, 400] {
        for old in [None, Some(OLD)] {
            let _ = fs::remove_file(&certificate);
            if let Some(old) = old {
                fs::write(&certificate, old).unwrap();
            }
            let output = limited(limit, &arguments).output().unwrap();
            let errors = errors(&output);
            assert_eq!(output.status.code(), Some(1), "{limit}: {errors}");
            assert!(errors.contains("cannot write the certificate"), "{limit}: {errors}");
            let written = fs::read(&certificate).ok();
            assert_eq!(
                written.as_deref(),
                old,
                "{limit}: a partial file passes for a complete one"
            );
        }
    }
}

/// A truncated qlog file is reported. The download is not affected.
#[test]
fn a_qlog_file_that_does_not_fit_is_reported() {
    let scratch = Scratch::new("full-disk-qlog");
    let content = scratch.fill("root/file", 100_000);
    let server = Running::serve(&scratch, "root", &["-q"]);
    let certificate = scratch.path("cert.pem");
    let url = server.url("file");
    for limit in [0, 1, BLOCK, 10_000, 65_536, 10_000_000] {
        let logs = scratch.path(&format!("logs-{limit}"));
        let arguments = ["get", "-q", "--ca", &certificate, "--qlog", &logs, &url];
        let output = limited(limit, &arguments).output().unwrap();
        let errors = errors(&output);
        assert_eq!(output.stdout, content, "{limit}: {errors}");
        let mut sizes =
            fs::read_dir(&logs).unwrap().map(|log| log.unwrap().metadata().unwrap().len() as usize);
        let is_whole = sizes.all(|size| size < limit);
        assert_eq!(errors.is_empty(), is_whole, "{limit}: {errors}");
    }
}

/// Runs a script in a mount namespace with a separate file system at `folder`. `None` if that is
/// not permitted.
fn in_namespace(options: &str, folder: &str, script: &str, arguments: &[&str]) -> Option<Output> {
    let run = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--map-root-user", "sh", "-c", script, folder, options]);
        command.arg(env!("CARGO_BIN_EXE_clearway")).args(arguments).output()
    };
    let mount = r#"folder="$0"; mount -t tmpfs -o "$1" none "$folder" || exit 77; shift; "#;
    let output = run(&format!("{mount}{script}")).ok()?;
    let is_refused = output.status.code() == Some(77) || errors(&output).starts_with("unshare:");
    if is_refused {
        eprintln!("skipped: {}", errors(&output));
    }
    (!is_refused).then_some(output)
}

/// A real file system returns ENOSPC and EROFS, at sizes around the limit and throughout the last
/// block.
#[test]
fn a_file_system_that_is_full_or_read_only_is_reported() {
    let scratch = Scratch::new("full-file-system");
    let room = 4 * BLOCK;
    let around = [1, room - BLOCK, room - 1, room, room + BLOCK, 5 * room + 7];
    let beyond = (0..BLOCK).step_by(509).flat_map(|more| [room + 1 + more, room - more]);
    let contents: Vec<_> = around
        .into_iter()
        .chain(beyond)
        .map(|size| scratch.fill(&format!("root/{size}"), size))
        .collect();
    let server = Running::serve(&scratch, "root", &["-q"]);
    let certificate = scratch.path("cert.pem");
    let folder = scratch.path("mounted");
    fs::create_dir(&folder).unwrap();
    let target = format!("{folder}/file");
    // Prints the contents of the file, and returns the status of the command.
    let script = r#""$@" >&2; status=$?; cat "$folder/file" 2>/dev/null; ls -A "$folder" | wc -l; exit $status"#;
    for content in &contents {
        let url = server.url(&content.len().to_string());
        let arguments = ["get", "-q", "--ca", &certificate, "-o", &target, &url];
        for (options, fits) in
            [("size=16k".to_owned(), content.len() <= room), ("ro,size=16k".to_owned(), false)]
        {
            let Some(output) = in_namespace(&options, &folder, script, &arguments) else { return };
            let case = format!("{} {options}: {}", content.len(), errors(&output));
            assert_eq!(output.status.success(), fits, "{case}");
            let is_full = !fits && !options.starts_with("ro");
            assert_eq!(case.contains("free some disk space"), is_full, "{case}");
            let mut expected = if fits { content.clone() } else { Vec::new() };
            expected.extend(if fits { b"1\n" } else { b"0\n" });
            assert!(output.stdout == expected, "{case}");
        }
    }
}

/// Every write to `/dev/full` fails.
#[test]
fn a_device_that_is_full_is_reported() {
    let scratch = Scratch::new("full-device");
    for size in [1, BLOCK, 300_001] {
        scratch.fill(&format!("root/{size}"), size);
    }
    let server = Running::serve(&scratch, "root", &["-q"]);
    let certificate = scratch.path("cert.pem");
    for size in [1, BLOCK, 300_001] {
        let url = server.url(&size.to_string());
        let arguments = ["get", "-q", "--ca", &certificate, "-o", "/dev/full", &url];
        let output = clearway(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{size}");
        assert!(errors(&output).contains("cannot write /dev/full"), "{}", errors(&output));
        let mut command = clearway(&["get", "-q", "--ca", &certificate, &url]);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{size}");
        assert!(errors(&output).contains("standard output"), "{}", errors(&output));
    }
}
