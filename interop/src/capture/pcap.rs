//! Files with captured IP packets, in the classic pcap format with nanosecond timestamps and link
//! type "raw IP".

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;
use std::time::Duration;

/// The magic number of a little-endian pcap file with nanosecond timestamps.
const MAGIC: u32 = 0xa1b2_3c4d;
/// The link type LINKTYPE_RAW: packets start with the IP header.
const RAW_IP: u32 = 101;
/// Maximum packet size that is written without truncation.
const SNAP_LENGTH: u32 = 65_535;
const FILE_HEADER: usize = 24;
const RECORD_HEADER: usize = 16;

/// Writes captured packets to a pcap file.
#[derive(Debug)]
pub(crate) struct Writer(BufWriter<File>);

impl Writer {
    /// Creates the capture file.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        for field in [MAGIC, 0x0004_0002, 0, 0, SNAP_LENGTH, RAW_IP] {
            file.write_all(&field.to_le_bytes())?;
        }
        Ok(Self(file))
    }

    /// Appends an IP packet that was captured at `at`, the time since the Unix epoch.
    pub(crate) fn write(&mut self, at: Duration, packet: &[u8]) -> io::Result<()> {
        let seconds = u32::try_from(at.as_secs()).unwrap_or(u32::MAX);
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX);
        for field in [seconds, at.subsec_nanos(), length, length] {
            self.0.write_all(&field.to_le_bytes())?;
        }
        self.0.write_all(packet)
    }

    /// Writes all buffered data.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Returns all packets in a file with their capture times since the Unix epoch.
pub(crate) fn read(path: &Path) -> io::Result<Vec<(Duration, Vec<u8>)>> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "not a capture of this program");
    if field(&bytes, 0) != Some(MAGIC) || field(&bytes, 20) != Some(RAW_IP) {
        return Err(invalid());
    }
    let mut rest = bytes.get(FILE_HEADER..).ok_or_else(invalid)?;
    let mut packets = Vec::new();
    while let (Some(seconds), Some(nanoseconds), Some(length)) =
        (field(rest, 0), field(rest, 4), field(rest, 8))
    {
        let end = RECORD_HEADER + usize::try_from(length).unwrap_or(usize::MAX);
        let packet = rest.get(RECORD_HEADER..end).ok_or_else(invalid)?;
        packets.push((Duration::new(seconds.into(), nanoseconds), packet.to_vec()));
        rest = rest.get(end..).unwrap_or_default();
    }
    Ok(packets)
}

fn field(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at + 4)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}
