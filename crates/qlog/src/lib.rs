//! Events to qlog files.
