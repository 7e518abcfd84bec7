//! Files to what the page draws.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use clearway_qlog::findings::FindingsBuilder;
use clearway_qlog::model::{Model, ModelBuilder};
use clearway_qlog::read::{Event, Item, QlogReader, Reading};

use super::progress::Progress;
use super::remarks::remarks;

/// Events between two reports of progress.
const INTERVAL: u64 = 1 << 14;
/// Events that are passed from one thread to another at once.
const BATCH: usize = 1 << 10;
/// So many batches wait at most.
const MAX_BATCHES: usize = 4;

/// A trace that is ready to be shown.
#[derive(Debug)]
pub(super) struct Trace {
    pub(super) name: String,
    pub(super) model: Model,
}

/// Reads the files, in their order; a file may hold several traces.
pub(super) fn read_all(files: Vec<(PathBuf, QlogReader)>) -> Vec<Trace> {
    files.into_iter().flat_map(|(path, reader)| read(&path, reader)).collect()
}

fn read(path: &Path, mut reader: QlogReader) -> Vec<Trace> {
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
            Item::Event(event) => builder.on_event(event),
        }
        items += 1;
        if items.is_multiple_of(INTERVAL) {
            progress.advance(reader.offset());
        }
    }
    traces.push(builder.finish(path, traces.len(), reader.reading().clone()));
    traces
}

/// A trace of which a part is read: findings are made here, and the model by a thread of its own.
struct Builder {
    findings: FindingsBuilder,
    /// Events that the findings know, and the model does not.
    batch: Vec<Event>,
    to_model: SyncSender<Vec<Event>>,
    model: JoinHandle<ModelBuilder>,
}

impl Default for Builder {
    fn default() -> Self {
        let (to_model, batches) = sync_channel(MAX_BATCHES);
        Self {
            findings: FindingsBuilder::default(),
            batch: Vec::new(),
            to_model,
            model: thread::spawn(move || build(&batches)),
        }
    }
}

fn build(batches: &Receiver<Vec<Event>>) -> ModelBuilder {
    let mut model = ModelBuilder::default();
    for event in batches.iter().flatten() {
        model.on_event(&event);
    }
    model
}

impl Builder {
    fn on_event(&mut self, event: Event) {
        self.findings.on_event(&event);
        self.batch.push(event);
        if self.batch.len() >= BATCH {
            self.pass_on();
        }
    }

    fn pass_on(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // Who takes them ends after this end of the channel, unless it panics; that is seen when it is joined.
        let _ = self.to_model.send(batch);
    }

    /// The trace `number` of the file at `path`.
    fn finish(mut self, path: &Path, number: usize, reading: Reading) -> Trace {
        self.pass_on();
        let Self { findings, to_model, model, .. } = self;
        drop(to_model);
        let report = findings.finish(reading);
        let mut reading = report.reading;
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let name = match number {
            0 => file.into_owned(),
            _ => format!("{file} #{}", number + 1),
        };
        let title = reading.title.take().filter(|title| !title.is_empty());
        reading.title = Some(title.map_or(name.clone(), |title| format!("{name}: {title}")));
        let model = model.join().unwrap_or_else(|panic| resume_unwind(panic));
        Trace { name, model: model.finish(&reading, &remarks(&report.findings)) }
    }
}
