//! Futures that the documentation calls cancel safe, canceled at every await point.
