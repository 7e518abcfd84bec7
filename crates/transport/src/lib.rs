//! QUIC version 1 without I/O: endpoint, connection, handshake, recovery, streams.
