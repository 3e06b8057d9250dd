//! `freehold record` on programs that need more than a C compiler to build; see `trials`.

mod cxx;
#[expect(dead_code, reason = "shared with the tests that need no tool")]
mod support;

freehold_testkit::trials! {
    cxx::each_form_counts_once_as_what_was_written,
    cxx::a_program_with_operators_of_its_own_keeps_them,
}
