//! `freehold record` from end to end: small C and C++ programs that know what they did, and the
//! traces of them read back.

mod cxx;
mod endings;
mod family;
mod neighbours;
mod processes;
mod support;
mod tally;
