use std::env;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use http::Uri;

/// Exit status for a test that a peer does not support.
pub const UNSUPPORTED: u8 = 127;

/// The ALPN protocol of HTTP/0.9 over QUIC.
pub const HQ: &[u8] = b"hq-interop";

/// The task described by the public interop runner's environment variables.
#[derive(Clone, Debug)]
pub enum Interop {
    /// Serve files until SIGTERM arrives.
    Server(InteropServer),
    /// Download files from the server.
    Client(InteropClient),
}

/// The server's task in a test.
#[derive(Clone, Debug)]
pub struct InteropServer {
    /// The name of the test.
    pub testcase: String,
    /// The folder with the served files.
    pub root: PathBuf,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// Certificate chain in PEM format.
    pub cert: PathBuf,
    /// Private key in PEM format.
    pub key: PathBuf,
    /// The server's preferred address, to which the client may migrate.
    pub preferred: Option<SocketAddr>,
    /// Folder for qlog files.
    pub qlog: Option<PathBuf>,
}

/// The client's task in a test.
#[derive(Clone, Debug)]
pub struct InteropClient {
    /// The name of the test.
    pub testcase: String,
    /// URLs of the files to download.
    pub requests: Vec<Uri>,
    /// The folder in which to store the downloads.
    pub downloads: PathBuf,
    /// The server's address.
    pub connect: SocketAddr,
    /// Certificates to trust, in PEM format.
    pub ca: PathBuf,
    /// Folder for qlog files.
    pub qlog: Option<PathBuf>,
}

impl Interop {
    /// Reads the task from the environment. Returns `None` if the test is not in `client` or
    /// `server`, depending on the role.
    pub fn from_environment(client: &[&str], server: &[&str]) -> Result<Option<Self>> {
        let (role, testcase) = (variable("ROLE")?, variable("TESTCASE")?);
        let qlog = env::var_os("QLOGDIR").map(PathBuf::from);
        Ok(match role.as_str() {
            "server" if server.contains(&testcase.as_str()) => Some(Self::Server(InteropServer {
                testcase,
                root: variable("WWW")?.into(),
                listen: variable("LISTEN")?.parse()?,
                cert: variable("CERT")?.into(),
                key: variable("KEY")?.into(),
                preferred: env::var("PREFERRED_ADDRESS").ok().map(|it| it.parse()).transpose()?,
                qlog,
            })),
            "client" if client.contains(&testcase.as_str()) => Some(Self::Client(InteropClient {
                testcase,
                requests: requests()?,
                downloads: variable("DOWNLOADS")?.into(),
                connect: variable("CONNECT")?.parse()?,
                ca: variable("CA")?.into(),
                qlog,
            })),
            "server" | "client" => None,
            other => bail!("unexpected ROLE {other}: expected client or server"),
        })
    }
}

impl InteropClient {
    /// Returns the requests for each connection. The connections are opened one after the other.
    pub fn connections(&self) -> Vec<&[Uri]> {
        match self.testcase.as_str() {
            "multiconnect" => self.requests.chunks(1).collect(),
            "resumption" | "zerortt" => {
                let (first, others) = self.requests.split_at(1);
                vec![first, others]
            }
            _ => vec![&self.requests],
        }
    }

    /// Returns the server's host name.
    pub fn host(&self) -> &str {
        self.requests[0].host().unwrap_or_default()
    }

    /// Returns the file in which to store the response to a request.
    pub fn file(&self, request: &Uri) -> PathBuf {
        self.downloads.join(request.path().rsplit('/').next().unwrap_or_default())
    }
}

fn variable(name: &str) -> Result<String> {
    env::var(name).with_context(|| format!("environment variable {name}"))
}

fn requests() -> Result<Vec<Uri>> {
    let requests: Result<Vec<Uri>, _> =
        variable("REQUESTS")?.split_whitespace().map(str::parse).collect();
    let requests = requests?;
    if requests.is_empty() {
        bail!("REQUESTS is empty");
    }
    Ok(requests)
}

/// Returns the path in an HTTP/0.9 request.
pub fn hq_path(request: &[u8]) -> Option<&str> {
    std::str::from_utf8(request).ok()?.trim().strip_prefix("GET ")
}
