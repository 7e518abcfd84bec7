//! The benefit of QPACK's dynamic table for a browser's requests: the number of bytes per request
//! and response, and of exchanges per second. Two HTTP/3 endpoints in one process are connected by
//! in-memory streams.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clearway_http3::{Config, Connection, Event, ReadEnd, Role, Transport, WriteError};
use clearway_units::Random;
use http::header::{ACCEPT_RANGES, CONTENT_TYPE, DATE, ETAG, LAST_MODIFIED};
use http::{Request, Response};

use crate::Outcome;

/// The field lines that Chromium sends for a page with 200 subresources; see the README next to the
/// file.
const PAGE: &str = include_str!("../../crates/http3/tests/fixtures/chromium-page.txt");

/// Number of requests in flight before a response is sent, as in a browser that loads a page with
/// many resources.
const FLIGHT: usize = 20;

/// Test cases: the size of the dynamic tables in bytes, and the maximum number of blocked streams.
const CASES: [(u64, u64); 5] = [(0, 0), (1024, 16), (4096, 0), (4096, 16), (16_384, 100)];

/// Runs each case for approximately `time`, and prints a table row for each.
pub(crate) fn run(time: Duration, is_json: bool) -> Outcome {
    let page = page()?;
    for (capacity, blocked) in CASES {
        let (once, _) = load(&page, capacity, blocked)?;
        let begin = Instant::now();
        let mut exchanges = 0;
        while begin.elapsed() < time {
            load(&page, capacity, blocked)?;
            exchanges += page.len();
        }
        let rate = exchanges as f64 / begin.elapsed().as_secs_f64();
        let each = |bytes: usize| bytes as f64 / page.len() as f64;
        let [request, response] = once.map(each);
        match is_json {
            true => println!(
                "{{\"capacity\":{capacity},\"blocked_streams\":{blocked},\"bytes_per_request\":{request:.1},\"bytes_per_response\":{response:.1},\"exchanges_per_second\":{rate:.0}}}"
            ),
            false => println!(
                "table of {capacity:5} bytes, {blocked:3} blocked streams: {request:6.1} bytes per request, {response:6.1} per response; {rate:7.0} exchanges per second"
            ),
        }
    }
    Ok(())
}

/// Returns the requests that load the page.
fn page() -> Outcome<Vec<Request<()>>> {
    PAGE.split("\n\n").map(request).collect()
}

fn request(lines: &str) -> Outcome<Request<()>> {
    let mut pseudo = BTreeMap::new();
    let mut request = Request::builder();
    for line in lines.lines() {
        // A field name may begin with a colon.
        let end = line.get(1..).and_then(|rest| rest.find(": ")).ok_or("a line has no value")? + 1;
        let (name, value) = (&line[..end], &line[end + 2..]);
        match name.strip_prefix(':') {
            Some(name) => drop(pseudo.insert(name, value)),
            None => request = request.header(name, value),
        }
    }
    let part = |name| pseudo.get(name).copied().unwrap_or_default();
    let uri = format!("{}://{}{}", part("scheme"), part("authority"), part("path"));
    Ok(request.method(part("method")).uri(uri).body(())?)
}

/// Returns the fields with which `clearway serve` responds. content-length is omitted, because the
/// responses here have no content.
fn response(number: usize) -> Outcome<Response<()>> {
    Ok(Response::builder()
        .header(ETAG, format!("\"{number:x}-1f40-6745.{number}\""))
        .header(ACCEPT_RANGES, "bytes")
        .header(LAST_MODIFIED, "Tue, 24 Nov 2026 21:40:18 GMT")
        .header(CONTENT_TYPE, "text/javascript; charset=utf-8")
        .header(DATE, "Tue, 24 Nov 2026 21:42:03 GMT")
        .body(())?)
}

/// Makes the page's requests on one connection, in flights, and answers them. Returns the number of
/// bytes for requests and for responses, including the QPACK streams, and the number of exchanges.
fn load(page: &[Request<()>], capacity: u64, blocked: u64) -> Outcome<([usize; 2], usize)> {
    let config = Config {
        qpack_max_table_capacity: capacity,
        qpack_encoder_table_capacity: capacity,
        qpack_blocked_streams: blocked,
        qpack_encoder_blocked_streams: blocked,
        grease: false,
        ..Config::default()
    };
    let mut ends = [Role::Client, Role::Server]
        .map(|role| Connection::new(role, config.clone(), &mut Random::from_number(1)));
    let mut wire = Wire::default();
    for (side, end) in ends.iter_mut().enumerate() {
        end.on_streams_available(&mut wire.side(side));
    }
    deliver(&mut ends, &mut wire)?;
    // The bytes written before the first request are the same in all cases, except for two stream
    // types.
    wire.written = BTreeMap::new();
    let mut done = 0;
    for flight in page.chunks(FLIGHT) {
        for request in flight {
            ends[0].send_request(&mut wire.side(0), request, true)?;
        }
        done += deliver(&mut ends, &mut wire)?;
    }
    if done != page.len() {
        return Err(format!("{done} of {} requests were answered", page.len()).into());
    }
    let mut bytes = [0; 2];
    for ((side, stream), length) in &wire.written {
        // Each endpoint's decoder stream, the third stream that it opens, acknowledges what the
        // other endpoint has encoded.
        let is_feedback = stream & 2 != 0 && stream / 4 == 2;
        bytes[if is_feedback { 1 - side } else { *side }] += length;
    }
    Ok((bytes, done))
}

/// Delivers all data, and answers the requests that arrive. Returns the number of responses that
/// have arrived.
fn deliver(ends: &mut [Connection; 2], wire: &mut Wire) -> Outcome<usize> {
    let mut responses = 0;
    loop {
        let mut is_quiet = true;
        for side in [1, 0] {
            for stream in core::mem::take(&mut wire.readable[side]) {
                is_quiet = false;
                let end = &mut ends[side];
                end.on_streams_arrived(&mut wire.side(side));
                end.on_readable(&mut wire.side(side), stream);
            }
            while let Some(event) = ends[side].next_event() {
                match event {
                    Event::Request { stream, .. } => {
                        let response = response(stream as usize / 4)?;
                        // The content is omitted, because it would be the same in all cases.
                        ends[side].send_response(&mut wire.side(side), stream, &response, true)?;
                    }
                    Event::Response { .. } => responses += 1,
                    Event::Closed(error) => return Err(error.into()),
                    _ => {}
                }
            }
        }
        if is_quiet {
            return Ok(responses);
        }
    }
}

/// The in-memory streams between the endpoints.
#[derive(Default)]
struct Wire {
    halves: BTreeMap<(usize, u64), Half>,
    /// Streams with data to read, by the reading endpoint.
    readable: [Vec<u64>; 2],
    /// Streams opened by the other endpoint that this endpoint has not accepted yet.
    arrived: [VecDeque<u64>; 2],
    opened: [[u64; 2]; 2],
    /// Number of bytes that each endpoint has written to each stream.
    written: BTreeMap<(usize, u64), usize>,
}

/// One direction of an in-memory stream.
#[derive(Default)]
struct Half {
    data: VecDeque<Bytes>,
    is_finished: bool,
}

impl Wire {
    fn side(&mut self, side: usize) -> Side<'_> {
        Side { wire: self, side }
    }
}

struct Side<'a> {
    wire: &'a mut Wire,
    side: usize,
}

impl Side<'_> {
    fn open(&mut self, is_unidirectional: bool) -> Option<u64> {
        let count = &mut self.wire.opened[self.side][usize::from(is_unidirectional)];
        let stream = *count * 4 + u64::from(is_unidirectional) * 2 + self.side as u64;
        *count += 1;
        self.wire.arrived[1 - self.side].push_back(stream);
        Some(stream)
    }

    fn accept(&mut self, is_unidirectional: bool) -> Option<u64> {
        let arrived = &mut self.wire.arrived[self.side];
        let place = arrived.iter().position(|stream| (stream & 2 != 0) == is_unidirectional)?;
        arrived.remove(place)
    }

    fn half(&mut self, stream: u64) -> &mut Half {
        self.wire.readable[1 - self.side].push(stream);
        self.wire.halves.entry((self.side, stream)).or_default()
    }
}

impl Transport for Side<'_> {
    fn open_bidirectional(&mut self) -> Option<u64> {
        self.open(false)
    }

    fn open_unidirectional(&mut self) -> Option<u64> {
        self.open(true)
    }

    fn accept_bidirectional(&mut self) -> Option<u64> {
        self.accept(false)
    }

    fn accept_unidirectional(&mut self) -> Option<u64> {
        self.accept(true)
    }

    fn write(&mut self, stream: u64, data: Bytes) -> Result<usize, WriteError> {
        let length = data.len();
        *self.wire.written.entry((self.side, stream)).or_default() += length;
        self.half(stream).data.push_back(data);
        Ok(length)
    }

    fn finish(&mut self, stream: u64) -> Result<(), WriteError> {
        self.half(stream).is_finished = true;
        Ok(())
    }

    fn reset(&mut self, _: u64, _: u64) {}

    fn stop_sending(&mut self, _: u64, _: u64) {}

    fn read(&mut self, stream: u64, _: usize) -> Result<Option<Bytes>, ReadEnd> {
        let Some(half) = self.wire.halves.get_mut(&(1 - self.side, stream)) else {
            return Ok(None);
        };
        match half.data.pop_front() {
            None if half.is_finished => Err(ReadEnd::Finished),
            data => Ok(data),
        }
    }

    fn close(&mut self, _: u64, _: &str) {}
}
