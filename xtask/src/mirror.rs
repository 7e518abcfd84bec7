//! The Debian mirror that this machine uses.

use std::fs;
use std::path::PathBuf;

/// Returns the Debian mirror: the value of the environment variable `MIRROR`, or else the mirror
/// that the host's apt uses.
pub(crate) fn mirror() -> Result<String, String> {
    if let Ok(mirror) = std::env::var("MIRROR") {
        return Ok(mirror);
    }
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    let folder = fs::read_dir("/etc/apt/sources.list.d");
    files.extend(folder.into_iter().flatten().flatten().map(|entry| entry.path()));
    files.sort();
    let texts = files.iter().filter_map(|file| fs::read_to_string(file).ok());
    texts.into_iter().find_map(|text| debian(&text)).ok_or_else(|| {
        "apt's configuration does not contain a Debian mirror; set the environment variable MIRROR"
            .to_owned()
    })
}

/// Returns the first Debian mirror in an apt configuration file of either format.
fn debian(text: &str) -> Option<String> {
    let active = text
        .lines()
        .map(str::trim)
        .filter(|line| ["deb ", "deb\t", "URIs:"].iter().any(|start| line.starts_with(start)));
    active.flat_map(str::split_whitespace).find(|word| is_debian(word)).map(str::to_owned)
}

fn is_debian(word: &str) -> bool {
    word.starts_with("http") && word.trim_end_matches('/').ends_with("/debian")
}

#[cfg(test)]
mod tests {
    use super::debian;

    #[test]
    fn the_mirror_is_read_from_both_formats_of_apt() {
        let stanza = "Types: deb\n# http://old.example/debian\nURIs: http://new.example/debian\n";
        assert_eq!(debian(stanza).as_deref(), Some("http://new.example/debian"));
        let lines = "# deb http://old.example/debian sid main\n\
            deb https://other.example/apt stable main\n\
            deb [arch=amd64] https://new.example/debian/ bookworm main\n";
        assert_eq!(debian(lines).as_deref(), Some("https://new.example/debian/"));
        assert_eq!(debian("deb http://new.example/debian-security bookworm main\n"), None);
    }
}
