//! Other promises of the public documentation: clones share, calls return or fail.
