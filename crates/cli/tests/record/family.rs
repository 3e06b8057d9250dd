//! Every function of the malloc family, once.

use crate::support::Bench;
use freehold_trace::{Api, Event, Request};

const FAMILY: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
int main(void) {
  void *p;
  free(malloc(1001));
  free(calloc(2, 501));
  p = realloc(0, 1003); p = realloc(p, 100003); free(p);
  p = reallocarray(0, 2, 502); p = reallocarray(p, 4, 251); free(p);
  free(aligned_alloc(64, 1024 + 64));
  if (posix_memalign(&p, 128, 1006)) return 1; free(p);
  free(memalign(256, 1007));
  free(valloc(1008));
  free(pvalloc(1009));
  p = malloc(1010); errno = 7; realloc(p, 0); if (errno != 7) return 2;
  free(0);
  if (malloc(PTRDIFF_MAX) || errno != ENOMEM) return 3;
  p = malloc(1011); errno = 0;
  if (realloc(p, PTRDIFF_MAX) || errno != ENOMEM) return 4;
  if (reallocarray(p, SIZE_MAX, 2) || errno != ENOMEM) return 5;
  errno = 9; free(p); if (errno != 9) return 6;
  free(malloc(0));
  free(malloc(50000000));
  if (malloc_usable_size(p = malloc(1012)) < 1012) return 7;
  free(p);
  return 0;
}
"#;

fn of_size(requests: &[Request], size: u64) -> Request {
    let found: Vec<_> = requests.iter().filter(|request| request.size == size).collect();
    assert_eq!(found.len(), 1, "size {size}: {found:?}");
    *found[0]
}

#[test]
fn every_function_is_seen_as_itself() {
    let recorded = Bench::c(FAMILY).record(&[]);
    recorded.assert_clean();
    let requests = recorded.seen().requests();
    let expected = [
        (1001, Api::Malloc, 0),
        (1002, Api::Calloc, 0),
        (1003, Api::Malloc, 0),
        (1088, Api::Aligned, 6),
        (1006, Api::Aligned, 7),
        (1007, Api::Aligned, 8),
        (1008, Api::Aligned, 12),
        (1009, Api::Aligned, 12),
        (1010, Api::Malloc, 0),
        (1011, Api::Malloc, 0),
        (0, Api::Malloc, 0),
        (50_000_000, Api::Malloc, 0),
        (1012, Api::Malloc, 0),
    ];
    for (size, api, align_log2) in expected {
        let request = of_size(&requests, size);
        assert_eq!((request.api, request.align_log2), (api, align_log2), "size {size}");
        assert!(request.usable >= size, "usable {} of {size}", request.usable);
        assert_eq!(recorded.seen().made_and_freed(0, size).0, 1);
    }
}

#[test]
fn resizes_keep_their_object_and_failures_are_no_objects() {
    let recorded = Bench::c(FAMILY).record(&[]);
    let seen = recorded.seen();
    let resized_to = |size: u64| {
        seen.count(
            0,
            |event| matches!(event, Event::Realloc { request, .. } if request.size == size),
        )
    };
    assert_eq!((resized_to(100_003), resized_to(1004)), (1, 1));
    let failed = seen.count(0, |event| matches!(event, Event::Failed { .. }));
    assert_eq!(failed, 3, "malloc, realloc and reallocarray of too much");
    // realloc(p, 0) freed 1010; the failed realloc left 1011 for the free after it.
    for size in [1001, 1002, 1088, 1006, 1007, 1008, 1009, 1010, 1011, 50_000_000, 1012] {
        assert_eq!(seen.made_and_freed(0, size), (1, 1), "size {size}");
    }
}
