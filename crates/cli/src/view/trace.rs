//! Files to what the page draws.

use std::path::{Path, PathBuf};

use clearway_qlog::findings::FindingsBuilder;
use clearway_qlog::model::{Model, ModelBuilder};
use clearway_qlog::read::{Item, Reading};

use super::open;
use super::progress::Progress;
use super::remarks::remarks;
use crate::failure::Failure;

/// Events between two reports of progress.
const INTERVAL: u64 = 1 << 14;

/// A trace that is ready to be shown.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) model: Model,
}

/// Reads the files, in their order; a file may hold several traces.
pub(super) fn read_all(files: &[PathBuf]) -> Result<Vec<Trace>, Failure> {
    let traces = files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    Ok(traces.into_iter().flatten().collect())
}

fn read(path: &Path) -> Result<Vec<Trace>, Failure> {
    let mut reader = open(path)?;
    let mut progress = Progress::start(path);
    let mut builder = Builder::default();
    let mut traces = Vec::new();
    let mut items = 0_u64;
    while let Some(item) = reader.next() {
        match item {
            Item::Trace => {
                let reading = reader.take_finished().unwrap_or_default();
                traces.push(std::mem::take(&mut builder).finish(path, traces.len(), reading));
            }
            Item::Event(event) => {
                builder.findings.on_event(&event);
                builder.model.on_event(&event);
            }
        }
        items += 1;
        if items.is_multiple_of(INTERVAL) {
            progress.advance(reader.offset());
        }
    }
    traces.push(builder.finish(path, traces.len(), reader.reading().clone()));
    Ok(traces)
}

/// A trace of which a part is read.
#[derive(Debug, Default)]
struct Builder {
    findings: FindingsBuilder,
    model: ModelBuilder,
}

impl Builder {
    /// The trace `number` of the file at `path`.
    fn finish(self, path: &Path, number: usize, reading: Reading) -> Trace {
        let report = self.findings.finish(reading);
        let mut reading = report.reading;
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let name = match number {
            0 => file.into_owned(),
            _ => format!("{file} #{}", number + 1),
        };
        let title = reading.title.take().filter(|title| !title.is_empty());
        reading.title = Some(title.map_or(name.clone(), |title| format!("{name}: {title}")));
        Trace { name, model: self.model.finish(&reading, &remarks(&report.findings)) }
    }
}
