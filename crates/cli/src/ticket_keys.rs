//! The file of `--ticket-keys`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clearway::TicketKeys;

use crate::events::{Event, note};
use crate::failure::Failure;
use crate::get::bytes_of;

/// Interval at which the file is checked.
const INTERVAL: Duration = Duration::from_secs(1);
/// Number of consecutive failures to read the file after which they are reported.
const TIMEOUT: u32 = 3;

/// The keys in the file: the current one, and the previous one.
#[derive(Clone, PartialEq, Eq)]
struct Secrets {
    current: [u8; 32],
    previous: Option<[u8; 32]>,
}

/// Reads the ticket and address validation token keys from `path`, and watches the file from then
/// on: a new first line is a new key.
///
/// # Errors
/// Returns an error if the file cannot be read or is invalid.
pub(crate) fn follow(path: &Path) -> Result<TicketKeys, Failure> {
    let secrets = read(path).map_err(|why| {
        Failure::new(format!("cannot read the ticket keys in {}: {why}", path.display()))
            .advise("write a line of 64 random hexadecimal digits: openssl rand -hex 32")
    })?;
    let keys = TicketKeys::new(&secrets.current);
    if let Some(previous) = &secrets.previous {
        keys.accept_previous(previous);
    }
    tokio::spawn(watch(path.to_owned(), keys.clone(), secrets));
    Ok(keys)
}

async fn watch(path: PathBuf, keys: TicketKeys, mut known: Secrets) {
    let mut failures: u32 = 0;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let read = read(&path);
        failures = if read.is_err() { failures.saturating_add(1) } else { 0 };
        match read {
            Ok(new) if new != known => {
                keys.rotate(&new.current);
                if let Some(previous) = &new.previous {
                    keys.accept_previous(previous);
                }
                known = new;
                note(Event::TicketKeysReloaded, "reloaded the ticket keys");
            }
            // A file that is being replaced may be missing for a moment.
            Err(why) if failures == TIMEOUT => {
                let path = path.display();
                let line = format!(
                    "clearway: the ticket keys in {path} were not reloaded and the previous ones stay in use: {why}"
                );
                note(Event::TicketKeysNotReloaded, &line);
            }
            _ => {}
        }
    }
}

fn read(path: &Path) -> Result<Secrets, String> {
    parse(&fs::read_to_string(path).map_err(|error| error.to_string())?)
}

fn parse(text: &str) -> Result<Secrets, String> {
    let mut keys = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| {
        let key = bytes_of(line).and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        key.ok_or_else(|| "each key must be a line of 64 hexadecimal digits".to_owned())
    });
    let current = keys.next().ok_or("the file contains no key")??;
    let previous = keys.next().transpose()?;
    if keys.next().is_some() {
        return Err("the file contains more than two keys".to_owned());
    }
    Ok(Secrets { current, previous })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_or_two_keys() {
        let (one, two) = ("01".repeat(32), "ab".repeat(32));
        let secrets = parse(&format!("{one}\n")).unwrap_or_else(|why| panic!("{why}"));
        assert!(secrets.current == [1; 32] && secrets.previous.is_none());
        let secrets = parse(&format!("{one}\n{two}\n")).unwrap_or_else(|why| panic!("{why}"));
        assert!(secrets.previous == Some([0xab; 32]));
        for wrong in ["", "01", &one[1..], &format!("{one}\n{one}\n{two}"), &"xy".repeat(32)] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
