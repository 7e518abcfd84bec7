use core::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// The magic number of gzip (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The magic number of Zstandard (RFC 8878 §3.1.1).
const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// The number of bytes to read at a time.
const CHUNK: usize = 128 << 10;

/// The reason that a file cannot be read at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The file cannot be opened, or its first bytes cannot be read.
    Io {
        /// The path, if the source is a file.
        path: Option<PathBuf>,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The file is empty.
    Empty,
    /// The file is not JSON, or is JSON but not qlog.
    NotQlog {
        /// A description of the problem.
        why: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path: Some(path), source } => {
                write!(formatter, "cannot read {}: {source}", path.display())
            }
            Self::Io { path: None, source } => write!(formatter, "cannot read the data: {source}"),
            Self::Empty => formatter.write_str("the file is empty"),
            Self::NotQlog { why } => write!(formatter, "not a qlog file: {why}"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => source.source(),
            _ => None,
        }
    }
}

/// The decompressed bytes of a file.
pub(super) type Source = Box<dyn Read + Send>;

pub(super) fn open(path: &Path) -> Result<Source, OpenError> {
    let failed = |source| OpenError::Io { path: Some(path.to_owned()), source };
    let file = File::open(path).map_err(failed)?;
    decompress(file).map_err(failed)
}

/// Returns the content of `reader`, which may be compressed with gzip or Zstandard.
pub(super) fn decompress(reader: impl Read + Send + 'static) -> io::Result<Source> {
    let mut reader = BufReader::with_capacity(CHUNK, reader);
    let start = beginning(&mut reader)?;
    if start.starts_with(&GZIP) {
        Ok(Box::new(flate2::bufread::MultiGzDecoder::new(reader)))
    } else if start.starts_with(&ZSTANDARD) {
        Ok(Box::new(Zstandard { state: State::Between(reader) }))
    } else {
        Ok(Box::new(reader))
    }
}

/// Returns the first bytes, which remain in the buffer.
fn beginning(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    Ok(reader.fill_buf()?.iter().take(ZSTANDARD.len()).copied().collect())
}

/// A sequence of Zstandard frames (RFC 8878 §3).
struct Zstandard<R: BufRead> {
    state: State<R>,
}

enum State<R: BufRead> {
    Between(R),
    Inside(Box<ruzstd::decoding::StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    Ended,
}

impl<R: BufRead> Read for Zstandard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match core::mem::replace(&mut self.state, State::Ended) {
                State::Ended => return Ok(0),
                State::Between(mut reader) => {
                    if reader.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let decoder =
                        ruzstd::decoding::StreamingDecoder::new(reader).map_err(|error| {
                            io::Error::new(io::ErrorKind::InvalidData, error.to_string())
                        })?;
                    self.state = State::Inside(Box::new(decoder));
                }
                State::Inside(mut decoder) => {
                    let length = decoder.read(buffer)?;
                    if length > 0 || buffer.is_empty() {
                        self.state = State::Inside(decoder);
                        return Ok(length);
                    }
                    self.state = State::Between(decoder.into_inner());
                }
            }
        }
    }
}
