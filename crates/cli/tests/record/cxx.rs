//! Operators new and delete: each form once, each counted once, exceptions passing through.

use crate::support::Bench;
use freehold_trace::{Api, Event};

const FORMS: &str = r#"
#include <cstdint>
#include <cstdlib>
#include <new>
using A = std::align_val_t;
int main() {
  volatile std::size_t huge = PTRDIFF_MAX;
  ::operator delete(::operator new(2001));
  ::operator delete(::operator new(2002), 2002);
  ::operator delete(::operator new(2003, std::nothrow), std::nothrow);
  ::operator delete(::operator new(2004, A(64)), A(64));
  ::operator delete(::operator new(2005, A(128)), 2005, A(128));
  ::operator delete(::operator new(2006, A(256), std::nothrow), A(256), std::nothrow);
  ::operator delete[](::operator new[](3001));
  ::operator delete[](::operator new[](3002), 3002);
  ::operator delete[](::operator new[](3003, std::nothrow), std::nothrow);
  ::operator delete[](::operator new[](3004, A(64)), A(64));
  ::operator delete[](::operator new[](3005, A(128)), 3005, A(128));
  ::operator delete[](::operator new[](3006, A(256), std::nothrow), A(256), std::nothrow);
  int caught = 0;
  for (int i = 0; i < 3; i++) {
    try { ::operator new(huge); } catch (const std::bad_alloc &) { caught++; }
    try { ::operator new[](huge); } catch (const std::bad_alloc &) { caught++; }
  }
  if (::operator new(huge, std::nothrow)) return 2;
  std::set_new_handler([] { std::set_new_handler(nullptr); std::free(std::malloc(2100)); });
  try { ::operator new(huge); } catch (const std::bad_alloc &) { caught++; }
  ::operator delete(::operator new(2007));
  return caught == 7 ? 0 : 1;
}
"#;

pub fn each_form_counts_once_as_what_was_written() {
    let Some(bench) = Bench::cxx(FORMS) else { return };
    let recorded = bench.record(&[]);
    recorded.assert_clean();
    let seen = recorded.seen();
    let requests = seen.requests();
    for (first, api) in [(2001, Api::New), (3001, Api::NewArray)] {
        for (offset, align_log2) in [0, 0, 0, 6, 7, 8].into_iter().enumerate() {
            let size = first + offset as u64;
            let of: Vec<_> = requests.iter().filter(|request| request.size == size).collect();
            assert_eq!(of.len(), 1, "size {size}: {of:?}");
            assert_eq!((of[0].api, of[0].align_log2), (api, align_log2), "size {size}");
            assert_eq!(seen.made_and_freed(0, size), (1, 1), "size {size}");
        }
    }
    assert_eq!(seen.made_and_freed(0, 2007), (1, 1), "after exceptions");
    assert_eq!(seen.made_and_freed(0, 2100), (1, 1), "inside of a new-handler");
    // libstdc++'s aligned forms round up before they allocate: nothing of that may be seen.
    assert!(!requests.iter().any(|request| [2048, 2176, 2304].contains(&request.size)));
    let failed = |event: &Event| matches!(event, Event::Failed { .. });
    assert!(seen.count(0, failed) >= 8, "{}", seen.count(0, failed));
}

/// A library that brings operators of its own, which do not call malloc.
const POOL: &str = r#"
#include <cstddef>
#include <new>
static char pool[1 << 16]; static std::size_t used;
void *operator new(std::size_t size) { void *p = pool + used; used += (size + 15) & ~15ul; return p; }
void operator delete(void *) noexcept {}
int main() { volatile auto p = new char; delete p; return 0; }
"#;

pub fn a_program_with_operators_of_its_own_keeps_them() {
    let Some(bench) = Bench::cxx(POOL) else { return };
    let recorded = bench.record(&[]);
    recorded.assert_clean();
    assert!(!recorded.seen().requests().iter().any(|request| request.api == Api::New));
}

/// Exceptions through many frames, virtual calls, containers, threads: each allocation has the stack that a plain walk finds.
const STACKS: &str = r#"
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
struct Shape { virtual ~Shape() {} virtual std::string name(int depth) = 0; };
struct Square : Shape {
  std::string name(int depth) override {
    if (depth == 0) throw std::runtime_error(std::string(100, 'x'));
    std::string mine(depth * 20, 's');
    return mine + std::unique_ptr<Shape>(new Square)->name(depth - 1);
  }
};
struct Guard { std::string text; Guard(int n) : text(n + 40, 'g') {} ~Guard() { std::string end(text + "!"); } };
static int caught;
__attribute__((noinline)) void tries(int depth) {
  Guard guard(depth);
  try { Square().name(depth); } catch (const std::exception &error) { caught += std::string(error.what()).size() / 100; }
}
static void work() {
  std::map<std::string, std::vector<std::string>> table;
  for (int i = 0; i < 300; i++) table[std::to_string(i % 37) + std::string(30, 'k')].push_back(std::string(i, 'v'));
  std::function<int(int)> down = [&](int n) { std::vector<int> room(n + 1); return n ? down(n - 1) + room[0] : 0; };
  down(60);
  for (int i = 0; i < 40; i++) tries(i % 9);
}
int main() {
  std::thread other(work);
  work();
  other.join();
  ::operator delete(::operator new(7301));
  return caught > 0 ? 0 : 1;
}
"#;

pub fn every_stack_of_cxx_is_that_of_a_plain_walk() {
    let Some(bench) = Bench::optimised_cxx(STACKS) else { return };
    let recorded = bench.record_checked(&[]);
    recorded.assert_clean();
    assert!(recorded.compared() > 3_000, "{}", recorded.compared());
    let stacks = recorded.seen().stacks_of(7301);
    assert_eq!((stacks.len(), &*stacks[0][0]), (1, "main"));
}
