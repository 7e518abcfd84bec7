//! Executes the steps of a script.

use core::time::Duration;

use clearway_http3::field_section;

use super::condition::Since;
use super::driver::Driver;
use crate::http3;
use crate::quic::{Frame, Level};
use crate::report::StepOutcome;
use crate::script::{Condition, Field, Step};

impl Driver {
    /// Executes all steps and records their outcomes. After the connection has ended, only
    /// expectations are evaluated.
    pub(super) fn execute(&mut self, steps: &[Step]) {
        for (index, step) in steps.iter().enumerate() {
            let result = self.step(step);
            let is_ok = result.is_ok();
            let detail = result.unwrap_or_else(|why| why);
            self.outcomes.push(StepOutcome { step: index, action: step.name(), is_ok, detail });
        }
    }

    /// Executes one step. Returns what happened.
    fn step(&mut self, step: &Step) -> Result<String, String> {
        let now = self.now();
        match step {
            Step::Wait { until, milliseconds } => return self.wait(until.as_ref(), *milliseconds),
            Step::Expect { any, none, milliseconds } => {
                return self.expect(any, none, *milliseconds);
            }
            _ => {}
        }
        if let Some(close) = self.endpoint.close() {
            return Ok(format!("skipped; the connection has ended: {close}"));
        }
        match step {
            Step::Packets { packets } => {
                self.endpoint.send_datagram(now, packets).map_err(|error| error.to_string())?;
            }
            Step::RawDatagram { bytes } => self.endpoint.send_raw(now, bytes.bytes()),
            Step::StreamBytes { stream, data, fin } => {
                self.endpoint.write_stream(*stream, data.bytes(), *fin);
            }
            Step::Http3Frame { stream, kind, payload, fin } => {
                self.endpoint.write_stream(*stream, &http3::frame(*kind, payload.bytes()), *fin);
            }
            Step::Headers { stream, fields, literal, fin } => {
                let section = self.section(fields, *literal);
                self.endpoint.write_stream(*stream, &http3::frame(http3::HEADERS, &section), *fin);
            }
            Step::Settings { stream, settings } => {
                self.endpoint.write_stream(*stream, &http3::settings(settings), false);
            }
            Step::OpenUni { stream, kind, data, fin } => {
                let mut bytes = http3::varints(&[*kind]);
                bytes.extend_from_slice(data.bytes());
                self.endpoint.write_stream(*stream, &bytes, *fin);
            }
            Step::Datagram { stream, data } => {
                // HTTP datagrams begin with the Quarter Stream ID (RFC 9297 §2.1).
                let mut bytes =
                    stream.map(|stream| http3::varints(&[stream / 4])).unwrap_or_default();
                bytes.extend_from_slice(data.bytes());
                self.queue(Frame::Datagram { data: bytes.into() });
            }
            Step::ResetStream { stream, code } => {
                let final_size = self.endpoint.stream(*stream).map_or(0, |state| state.sent());
                self.queue(Frame::ResetStream {
                    stream: (*stream).into(),
                    code: *code,
                    final_size: final_size.into(),
                });
            }
            Step::StopSending { stream, code } => {
                self.queue(Frame::StopSending { stream: (*stream).into(), code: *code });
            }
            Step::Close { layer, code, reason } => {
                let code = code.constant().unwrap_or(0);
                self.endpoint.send_close(now, *layer, code, reason.clone());
            }
            Step::Migrate { keep_id } => {
                self.flush();
                self.endpoint.migrate(*keep_id).map_err(|error| error.to_string())?;
                self.open_path().map_err(|error| format!("cannot open a socket: {error}"))?;
            }
            Step::Impair { rules } => self.impairments.set(rules.clone()),
            Step::UpdateKeys {} => self.endpoint.update_keys(),
            Step::Retry { token, corrupt_tag } => {
                self.endpoint.send_retry(token.bytes(), *corrupt_tag)
            }
            Step::VersionNegotiation { versions } => {
                self.endpoint.send_version_negotiation(versions)
            }
            Step::StatelessReset { token } => {
                let token = token.as_ref().and_then(|token| token.bytes().try_into().ok());
                self.endpoint.send_stateless_reset(token);
            }
            Step::Accept {} => self.endpoint.release(),
            Step::Flush {} | Step::Wait { .. } | Step::Expect { .. } => {}
        }
        if matches!(step, Step::Flush {}) {
            self.flush();
        }
        Ok(String::new())
    }

    fn queue(&mut self, frame: Frame) {
        self.endpoint.queue_frames(Level::OneRtt, vec![frame]);
    }

    fn section(&self, fields: &[Field], literal: bool) -> Vec<u8> {
        let fields: Vec<(Vec<u8>, Vec<u8>)> = fields
            .iter()
            .map(|field| {
                let value = field.value.bytes();
                let value = match value == b"{authority}" {
                    true => self.authority.clone().into_bytes(),
                    false => value.to_vec(),
                };
                (field.name.bytes().to_vec(), value)
            })
            .collect();
        let fields = fields.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        match literal {
            true => http3::literal_section(fields),
            false => field_section::encode(fields),
        }
    }

    fn wait(&mut self, until: Option<&Condition>, milliseconds: u64) -> Result<String, String> {
        let time = Duration::from_millis(milliseconds);
        let since = self.since(until.as_slice());
        let has_happened = self
            .drive(time, |driver| until.is_some_and(|condition| driver.holds(condition, since)));
        match until {
            Some(condition) if !has_happened => {
                let over = Since { is_over: true, ..since };
                match self.holds(condition, over) {
                    true => Ok(condition.to_string()),
                    false => Ok(format!("{condition}: has not happened")),
                }
            }
            Some(condition) => Ok(condition.to_string()),
            None => Ok(String::new()),
        }
    }

    /// Prepares to evaluate conditions: sends a PING frame if one of them needs it.
    fn since(&mut self, conditions: &[impl core::borrow::Borrow<Condition>]) -> Since {
        let needs_ping = conditions.iter().any(|it| matches!(it.borrow(), Condition::Alive {}));
        self.flush();
        let ping = needs_ping.then(|| self.endpoint.ping());
        Since { ping, arrived: self.arrived, is_over: false }
    }

    fn expect(
        &mut self,
        any: &[Condition],
        none: &[Condition],
        milliseconds: Option<u64>,
    ) -> Result<String, String> {
        let time = milliseconds.map_or(self.options.expect_timeout, Duration::from_millis);
        let since = self.since(any);
        self.drive(time, |driver| {
            any.iter().chain(none).any(|condition| driver.holds(condition, since))
        });
        let over = Since { is_over: true, ..since };
        if let Some(forbidden) = none.iter().find(|condition| self.holds(condition, since)) {
            return Err(format!("{forbidden}, which is not allowed"));
        }
        // An endpoint that is still waiting may only claim that the time is over if it is.
        let found = any.iter().find(|condition| self.holds(condition, over));
        match found {
            Some(Condition::Close { .. } | Condition::Reset { .. }) => Ok(self.what_happened()),
            Some(Condition::Response { stream, .. }) => {
                let status =
                    self.status(*stream).map_or_else(String::new, |status| format!(" {status}"));
                Ok(format!("response{status} on stream {stream}"))
            }
            Some(found) => Ok(found.to_string()),
            None => Err(self.what_happened()),
        }
    }

    /// Describes what happened instead of what was expected.
    fn what_happened(&self) -> String {
        if let Some(close) = self.endpoint.close() {
            return format!("connection closed: {close}");
        }
        let resets: Vec<_> = self
            .endpoint
            .streams()
            .filter_map(|(id, stream)| {
                let (event, code) = match stream.reset() {
                    Some(code) => ("reset", code),
                    None => ("stopped", stream.stopped()?),
                };
                Some(format!("stream {id} {event}: {}", crate::error_codes::application(code)))
            })
            .collect();
        match resets.is_empty() {
            true => "accepted silently".to_owned(),
            false => resets.join(", "),
        }
    }
}
