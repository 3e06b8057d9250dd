//! (the crate's story goes here)
