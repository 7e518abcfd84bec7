/// This endpoint's role: client or server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// The client, which sends requests.
    Client,
    /// The server, which responds to requests.
    Server,
}
