//! Every scheme under threads that free each other's blocks. (Nothing is switched on: a process has one.)

use super::*;
use std::sync::mpsc::channel;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

#[test]
fn what_one_thread_frees_another_allocated() {
    for scheme in SCHEMES {
        // Threads are numbered through the process's life, over all schemes and tests.
        let mut heaps = Heaps::new(scheme.name, 64, true).unwrap();
        let (send, receive) = channel::<(usize, usize)>();
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (send, heaps) = (send.clone(), &heaps);
                scope.spawn(move || {
                    for n in 0..2_000usize {
                        let size = 1 + (n * 37 + thread) % 300;
                        let payload = heaps.alloc(layout(size, 16 << (n % 3)));
                        assert!(
                            (payload as usize).is_multiple_of(16 << (n % 3)),
                            "{}",
                            scheme.name
                        );
                        // SAFETY: as long as was asked for.
                        unsafe { payload.write_bytes(size as u8, size) };
                        send.send((payload as usize, size)).unwrap();
                    }
                });
            }
            drop(send);
            for (address, size) in receive {
                let payload = NonNull::new(address as *mut u8).unwrap();
                assert!(heaps.holds(payload));
                // SAFETY: written by its thread, and given up by it with the message.
                unsafe {
                    let bytes = std::slice::from_raw_parts(payload.as_ptr(), size);
                    assert!(bytes.iter().all(|&byte| byte == size as u8), "{}", scheme.name);
                    heaps.free(payload);
                }
            }
        });
        let found = heaps.look().unwrap();
        assert_eq!(found.used_bytes, 0, "{}", scheme.name);
        assert!(found.heap_bytes > 0 && found.heap_bytes < 64 << 20, "{} {found:?}", scheme.name);
        let is_locked = scheme.name != "heaps-with-inboxes";
        assert_eq!(found.locks_taken, if is_locked { 12_000 } else { 0 }, "{}", scheme.name);
    }
}

#[test]
fn an_unknown_scheme_is_named_with_those_that_are_known() {
    let error = Heaps::new("two-locks", 1, false).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("two-locks") && error.contains("heap-a-thread"), "{error}");
}

#[test]
fn off_it_is_the_systems() {
    assert!(serving().is_none());
    let (switch, short) = (Switch, layout(10, 8));
    // SAFETY: what one call gives the next takes.
    unsafe {
        let payload = switch.alloc_zeroed(short);
        assert_eq!(payload.read(), 0);
        payload.write(7);
        let longer = switch.realloc(payload, short, 10_000);
        assert_eq!(longer.read(), 7);
        switch.dealloc(longer, layout(10_000, 8));
    }
}
