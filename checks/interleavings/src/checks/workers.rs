//! Jobs of replicas: all run, in whatever order, and the results come in the order of the replicas.

use crate::sync::Arc;
use crate::workers::{Workers, in_replica};
use shuttle::thread;

type Job<T> = Box<dyn FnOnce() -> T + Send>;

fn workers(count: usize) -> Workers {
    let names: Vec<_> = (0..count).map(|index| format!("replica {index}")).collect();
    Workers::start(&names).unwrap()
}

fn jobs(count: usize, round: usize) -> Vec<Job<usize>> {
    let job = |index| -> Job<usize> {
        Box::new(move || {
            assert!(in_replica());
            thread::yield_now();
            round * 10 + index
        })
    };
    (0..count).map(job).collect()
}

pub fn results_come_in_order() {
    shuttle::check_random(
        || {
            let workers = workers(4);
            for round in 0..2 {
                // Fewer jobs than replicas, as for a short batch.
                let count = 4 - round;
                let expected: Vec<_> = (0..count).map(|index| Ok(round * 10 + index)).collect();
                assert_eq!(workers.run(jobs(count, round)), expected);
                assert!(!in_replica());
            }
        },
        10_000,
    );
}

pub fn callers_at_the_same_time_get_their_own_results() {
    shuttle::check_pct(
        || {
            let workers = Arc::new(workers(3));
            let callers: Vec<_> = (0..2)
                .map(|round| {
                    let workers = workers.clone();
                    thread::spawn(move || {
                        let expected = [Ok(round * 10), Ok(round * 10 + 1), Ok(round * 10 + 2)];
                        assert_eq!(workers.run(jobs(3, round)), expected);
                    })
                })
                .collect();
            callers
                .into_iter()
                .for_each(|caller| caller.join().unwrap());
        },
        10_000,
        3,
    );
}

pub fn a_panic_is_one_replicas_result() {
    shuttle::check_random(
        || {
            let workers = workers(3);
            let mut failing = jobs(3, 0);
            failing[1] = Box::new(|| std::panic::resume_unwind(Box::new("one fails")));
            assert_eq!(
                workers.run(failing),
                [Ok(0), Err("one fails".to_string()), Ok(2)]
            );
            assert_eq!(workers.run(jobs(3, 1)), [Ok(10), Ok(11), Ok(12)]);
        },
        10_000,
    );
}
