//! `freehold record` on programs that need more than a C compiler to build or to run; see `trials`.

mod cxx;
mod neighbours;
#[expect(dead_code, reason = "shared with the tests that need no tool")]
mod support;

freehold_testkit::trials! {
    cxx::each_form_counts_once_as_what_was_written,
    cxx::a_program_with_operators_of_its_own_keeps_them,
    neighbours::a_preloaded_jemalloc_stays_in_use,
    neighbours::a_preloaded_mimalloc_stays_in_use,
    neighbours::a_preloaded_tcmalloc_stays_in_use,
    cxx::every_stack_of_cxx_is_that_of_a_plain_walk,
    neighbours::an_allocator_of_the_program_s_own_need_not_be_ready_before_main,
    neighbours::no_hook_can_panic,
    neighbours::a_thousand_threads_alive_at_once_are_all_recorded,
    neighbours::a_cxx_library_loaded_late_is_recorded_as_what_it_wrote,
}
