//! (story)
fn main() {}
