//! The downloads of one command, in parallel where possible.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clearway::ClientConfig;
use futures_util::stream::{StreamExt, iter};
use serde_json::json;
use tokio::sync::OnceCell;

use super::GetCommand;
use super::connect::{Session, connect};
use super::download::download;
use super::outcome::Outcome;
use super::progress::{Bars, Progress};
use super::sink::Sink;
use super::target::Target;
use crate::failure::Failure;
use crate::foreign::Foreign;
use crate::output;
use crate::units::{bytes_text, rate_text};

/// Maximum number of concurrent downloads.
const AT_ONCE: usize = 64;

/// Maximum number of failed URLs to list in the final message.
const NAMED: usize = 5;

/// One URL and its destination.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) target: Target,
    /// The destination file; `None` for standard output.
    pub(super) file: Option<PathBuf>,
}

/// State shared by the downloads of one command.
pub(super) struct Batch<'a> {
    command: &'a GetCommand,
    config: &'a ClientConfig,
    /// The connection to each server, by its name and port, or the reason why it could not be
    /// established.
    sessions: BTreeMap<String, OnceCell<Result<Session, Failure>>>,
    /// The targets that are requested as early data from each server, if early data is enabled.
    early: BTreeMap<String, Vec<Target>>,
    /// Maximum number of concurrent downloads.
    at_once: usize,
    bars: Bars,
}

impl<'a> Batch<'a> {
    /// Creates a batch; connections and downloads start later.
    pub(super) fn new(command: &'a GetCommand, config: &'a ClientConfig, jobs: &[Job]) -> Self {
        let names = jobs.iter().map(|job| (job.target.host_and_port(), OnceCell::new()));
        let bars = Bars::new(command.quiet || command.json);
        // Content is written to standard output in the order of the URLs.
        let is_ordered = jobs.iter().any(|job| job.file.is_none());
        let at_once = if is_ordered { 1 } else { AT_ONCE };
        let mut early = BTreeMap::<_, Vec<_>>::new();
        if command.early_data && command.tunnel.is_none() {
            for job in jobs.iter().take(at_once) {
                early.entry(job.target.host_and_port()).or_default().push(job.target.clone());
            }
        }
        Self { command, config, sessions: names.collect(), early, at_once, bars }
    }

    /// Performs the jobs, and reports each as soon as it is done.
    ///
    /// # Errors
    ///
    /// Returns the failure of the job if there is only one; otherwise a summary of the failed jobs,
    /// which have already been reported.
    pub(super) async fn run(&self, jobs: &[Job]) -> Result<(), Failure> {
        let downloads = iter(jobs).map(|job| async move { (job, self.download(job).await) });
        let mut downloads = downloads.buffer_unordered(self.at_once);
        let (mut failed, mut reported) = (BTreeSet::new(), BTreeSet::new());
        while let Some((job, outcome)) = downloads.next().await {
            let Err(failure) = outcome else { continue };
            if jobs.len() == 1 {
                return Err(failure);
            }
            // A failed connection is reported once, not for each of the server's URLs.
            if reported.insert(failure.to_string()) {
                self.bars.print(&format!("clearway: {failure}"));
            }
            failed.insert(Foreign(&job.target.uri).to_string());
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(summary(&failed, jobs.len())),
        }
    }

    async fn download(&self, job: &Job) -> Result<(), Failure> {
        // The file is opened first, so that the user learns immediately if it cannot be written.
        let sink = match Sink::open(job.file.as_deref()).await {
            Ok(sink) => sink,
            Err(failure) => {
                self.forget_early(&job.target).await;
                return Err(failure);
            }
        };
        let session = self.session(&job.target).await?;
        let file = job.file.as_ref().map(|file| file.display().to_string());
        let name = file.clone().unwrap_or_else(|| job.target.path().to_owned());
        let mut progress = self.bars.start(&name);
        let outcome = download(self.command, session, &job.target, sink, &mut progress).await?;
        let (bytes, time, rate) = (progress.received(), progress.elapsed(), progress.goodput());
        if self.command.json {
            let line = json_line(&job.target, file.as_deref(), &progress, &outcome);
            // The reader of standard output may be slow, and must not delay other downloads or
            // signals.
            let printing = tokio::task::spawn_blocking(move || output::result(&line));
            return printing.await.unwrap_or(Ok(()));
        }
        drop(progress);
        if !self.command.quiet && file.is_some() {
            let (bytes, rate) = (bytes_text(bytes), rate_text(rate));
            self.bars.print(&format!("{name}: {bytes} in {:.3} s, {rate}", time.as_secs_f64()));
        }
        Ok(())
    }

    /// Returns the connection to a target's server, which is established on first use.
    async fn session(&self, target: &Target) -> Result<&Session, Failure> {
        let name = target.host_and_port();
        let unknown = || Failure::new(format!("no connection to {name}"));
        let session = self.sessions.get(&name).ok_or_else(unknown)?;
        let early = self.early.get(&name).map(Vec::as_slice).unwrap_or_default();
        let connect = || connect(self.command, self.config, target, early);
        let connected = session.get_or_init(connect).await;
        connected.as_ref().map_err(Clone::clone)
    }

    /// Drops the response to an early request whose download is not performed: an unread response
    /// would occupy a part of the connection's flow control window.
    async fn forget_early(&self, target: &Target) {
        let early = self.early.get(&target.host_and_port());
        if early.is_some_and(|early| early.len() > 1)
            && let Ok(session) = self.session(target).await
        {
            session.forget_early(target);
        }
    }

    /// Reports, if requested, whether each connection's early data was accepted.
    pub(super) async fn report(&self) {
        if !self.command.verbose {
            return;
        }
        for (name, session) in &self.sessions {
            if let Some(Ok(session)) = session.get() {
                let outcome = match session.early_data_accepted().await {
                    true => "early data was accepted",
                    false => "no early data was accepted",
                };
                self.bars.print(&format!("{name}: {outcome}"));
            }
        }
    }

    /// Closes the connections.
    pub(super) fn close(self) {
        let sessions = self.sessions.into_values().filter_map(OnceCell::into_inner).flatten();
        sessions.for_each(Session::close);
    }
}

/// Returns a summary of the failed downloads; `all` is the number of downloads.
fn summary(failed: &BTreeSet<String>, all: usize) -> Failure {
    let mut names: Vec<_> = failed.iter().take(NAMED).map(String::as_str).collect();
    let more = failed.len().saturating_sub(NAMED);
    let more = format!("{more} more");
    if failed.len() > NAMED {
        names.push(&more);
    }
    Failure::new(format!(
        "{} of {all} URLs were not downloaded: {}",
        failed.len(),
        names.join(", ")
    ))
}

fn json_line(
    target: &Target,
    file: Option<&str>,
    progress: &Progress,
    outcome: &Outcome,
) -> String {
    let statistics = &outcome.statistics;
    json!({
        "url": target.uri.to_string(),
        "file": file,
        "status": outcome.status,
        "bytes": progress.received(),
        "seconds": progress.elapsed().as_secs_f64(),
        "goodput_bps": progress.goodput(),
        "rtt_seconds": statistics.smoothed_rtt.map(|rtt| rtt.as_secs_f64()),
        "packets_received": statistics.packets_received,
        "packets_sent": statistics.packets_sent,
        "packets_lost": statistics.packets_lost,
        "key_exchange_group": outcome.key_exchange_group,
    })
    .to_string()
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
