//! Converts qlog files to the models that the page draws.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use clearway_qlog::findings::FindingsBuilder;
use clearway_qlog::model::{Model, ModelBuilder};
use clearway_qlog::read::{Event, QlogReader, Reading, TraceVisitor, visit_traces};

use super::progress::Progress;

/// Number of events passed between threads at a time.
const BATCH: usize = 1 << 10;
/// Maximum number of queued batches.
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

fn read(path: &Path, reader: QlogReader) -> Vec<Trace> {
    let mut progress = Progress::start(path);
    let mut count = 0_usize;
    let begin = |_: &Reading| {
        count += 1;
        Builder::start(path, count)
    };
    visit_traces(reader, begin, |bytes| progress.advance(bytes))
}

/// A trace that is being read: the findings are computed here, and the model by a separate thread.
struct Builder {
    name: String,
    findings: FindingsBuilder,
    /// Events that were passed to the findings, but not yet to the model.
    batch: Vec<Event>,
    to_model: SyncSender<Vec<Event>>,
    model: JoinHandle<ModelBuilder>,
}

fn build(batches: &Receiver<Vec<Event>>) -> ModelBuilder {
    let mut model = ModelBuilder::default();
    for event in batches.iter().flatten() {
        model.on_event(&event);
    }
    model
}

impl Builder {
    /// Starts trace `number`, counted from 1, of the file at `path`.
    fn start(path: &Path, number: usize) -> Self {
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
        let name = match number {
            1 => file.into_owned(),
            _ => format!("{file} #{number}"),
        };
        let (to_model, batches) = sync_channel(MAX_BATCHES);
        let model = thread::spawn(move || build(&batches));
        Self { name, findings: FindingsBuilder::default(), batch: Vec::new(), to_model, model }
    }

    fn pass_on(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        // The receiver outlives this end of the channel unless its thread panics, which is reported
        // when the thread is joined.
        let _ = self.to_model.send(batch);
    }
}

impl TraceVisitor for Builder {
    type Output = Trace;

    fn on_event(&mut self, event: Event) {
        self.findings.on_event(&event);
        self.batch.push(event);
        if self.batch.len() >= BATCH {
            self.pass_on();
        }
    }

    fn finish(mut self, reading: Reading) -> Trace {
        self.pass_on();
        let Self { name, findings, to_model, model, .. } = self;
        drop(to_model);
        let report = findings.finish(reading);
        let (mut reading, ending) = (report.reading, report.ending);
        let title = reading.title.take().filter(|title| !title.is_empty());
        reading.title = Some(title.map_or(name.clone(), |title| format!("{name}: {title}")));
        let model = model.join().unwrap_or_else(|panic| resume_unwind(panic));
        Trace { name, model: model.finish(&reading, Some(&ending), &report.findings) }
    }
}
