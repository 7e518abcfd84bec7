use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Evidence, Fault, ensure, failed};

/// Checks that every served file was downloaded unchanged, and that no other files were.
pub(super) fn are_complete(evidence: &Evidence<'_>) -> Result<(), Fault> {
    let list = |folder: &Path| match list(folder) {
        Ok(files) => Ok(files),
        Err(error) => failed(format!("{}: {error}", folder.display())),
    };
    let (served, downloaded) = (list(evidence.root)?, list(evidence.downloads)?);
    let missing = served.keys().filter(|name| !downloaded.contains_key(*name));
    let missing: Vec<&str> = missing.map(String::as_str).collect();
    ensure(missing.is_empty(), || {
        let first = missing.first().copied().unwrap_or_default();
        format!("{} of {} files are missing, such as {first}", missing.len(), served.len())
    })?;
    for (name, path) in &downloaded {
        let Some(original) = served.get(name) else {
            return failed(format!("{name} was downloaded, but not requested"));
        };
        let is_same = match (fs::read(original), fs::read(path)) {
            (Ok(original), Ok(copy)) => original == copy,
            _ => false,
        };
        ensure(is_same, || format!("{name} differs from the served file"))?;
    }
    Ok(())
}

fn list(folder: &Path) -> io::Result<BTreeMap<String, PathBuf>> {
    let entry = |entry: io::Result<fs::DirEntry>| {
        let entry = entry?;
        Ok((entry.file_name().to_string_lossy().into_owned(), entry.path()))
    };
    fs::read_dir(folder)?.map(entry).collect()
}
