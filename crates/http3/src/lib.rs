//! HTTP/3 and QPACK without I/O, over any transport that offers its stream trait.
