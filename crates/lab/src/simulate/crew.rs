//! Jobs for all processors, while the caller's own thread keeps its hands free.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often the caller is called back.
const BEAT: Duration = Duration::from_millis(50);

/// Does `jobs` jobs, as many at once as there are processors, and gives what they gave, in order.
/// Meanwhile calls `beat` on this thread, some twenty times a second.
pub fn work<T: Send>(
    jobs: usize,
    job: impl Fn(usize) -> T + Sync,
    mut beat: impl FnMut(),
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::with_capacity(jobs));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(jobs);
    std::thread::scope(|scope| {
        let (hangs_up, all_gone) = channel::<()>();
        for _ in 0..workers {
            let (hangs_up, next, done, job) = (hangs_up.clone(), &next, &done, &job);
            scope.spawn(move || {
                let _until_the_end = hangs_up;
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= jobs {
                        return;
                    }
                    let result = job(at);
                    done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((at, result));
                }
            });
        }
        drop(hangs_up);
        while all_gone.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
            beat();
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_whoever_was_first() {
        let job = |i: usize| {
            std::thread::sleep(Duration::from_millis(8 - i as u64));
            i * i
        };
        assert_eq!(work(8, job, || ()), [0, 1, 4, 9, 16, 25, 36, 49]);
        assert!(work(0, job, || ()).is_empty());
    }
}
