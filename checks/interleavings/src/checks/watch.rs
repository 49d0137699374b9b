//! The time limit, which may pass at any moment: a step either has ended and its caller has the result, or it was given up, its
//! caller has none, and it leaves nothing behind.

use std::time::Duration;

use crate::error::Phase;
use crate::progress::Progress;
use crate::sync::mpsc::{Receiver, Sender, channel};
use crate::sync::{Arc, Mutex};
use crate::watch::{Missing, Watch};
use crate::workers::{Workers, caught};
use shuttle::thread;

/// What a step changes, and puts back if nobody waits for it any more.
type State = Arc<Mutex<Vec<usize>>>;

/// Steps that have not ended hold the sender.
type Running = Sender<()>;

/// Wait until all steps have ended: nobody who drops a watch does.
fn wait_for_all(running: Running, all: Receiver<()>) {
    drop(running);
    assert!(all.recv().is_err());
}

fn step(watch: &Watch, state: &State, running: &Running, number: usize) -> bool {
    let (changed, running) = (state.clone(), running.clone());
    let outcome = watch.run(move |ticket| {
        let _running = running;
        let progress = Arc::new(Progress::new(1));
        ticket.show(&progress);
        progress.enter(0, Phase::Apply);
        changed.lock().unwrap().push(number);
        thread::yield_now();
        progress.end(0);
        let kept = ticket.end();
        if !kept {
            changed.lock().unwrap().pop();
        }
        (number, kept)
    });
    match outcome {
        Ok(result) => {
            assert_eq!(result, (number, true), "a result that was given up");
            true
        }
        Err(Missing::TimedOut(_)) => false,
        Err(Missing::NoThread) => panic!("the coordinator has ended"),
    }
}

pub fn a_step_is_kept_exactly_if_its_caller_has_the_result() {
    shuttle::check_random(
        || {
            let watch = Watch::start(Duration::from_secs(1)).unwrap();
            let (state, (running, all)) = (State::default(), channel());
            let kept: Vec<_> = (0..3)
                .filter(|&number| step(&watch, &state, &running, number))
                .collect();
            drop(watch);
            wait_for_all(running, all);
            assert_eq!(*state.lock().unwrap(), kept);
        },
        20_000,
    );
}

pub fn callers_at_the_same_time_wait_for_each_other() {
    shuttle::check_pct(
        || {
            let watch = Arc::new(Watch::start(Duration::from_secs(1)).unwrap());
            let (state, (running, all)) = (State::default(), channel());
            let callers: Vec<_> = (0..3)
                .map(|number| {
                    let (watch, state, running) = (watch.clone(), state.clone(), running.clone());
                    thread::spawn(move || step(&watch, &state, &running, number))
                })
                .collect();
            let kept: Vec<_> = callers
                .into_iter()
                .map(|caller| caller.join().unwrap())
                .collect();
            drop(watch);
            wait_for_all(running, all);
            let mut state = state.lock().unwrap().clone();
            state.sort_unstable();
            let expected: Vec<_> = (0..3).filter(|&number| kept[number]).collect();
            assert_eq!(state, expected);
        },
        20_000,
        4,
    );
}

/// A step as it is: on the coordinator, which hands jobs to workers.
pub fn replicas_run_under_the_limit() {
    shuttle::check_random(
        || {
            let names = ["replica 0".to_string(), "replica 1".to_string()];
            let workers = Arc::new(Workers::start(&names).unwrap());
            let watch = Watch::start(Duration::from_secs(1)).unwrap();
            for round in 0..2 {
                let workers = workers.clone();
                let outcome = watch.run(move |ticket| {
                    let job = |index: usize| -> Box<dyn FnOnce() -> usize + Send> {
                        Box::new(move || round + index)
                    };
                    let results = workers.run(vec![job(0), job(1)]);
                    (results, ticket.end())
                });
                if let Ok((results, kept)) = outcome {
                    assert!(kept);
                    assert_eq!(results, [Ok(round), Ok(round + 1)]);
                }
            }
            drop((watch, workers));
        },
        20_000,
    );
}

/// A panic of a step is the caller's, unless the caller has left; the coordinator outlives it.
pub fn a_panic_reaches_the_caller() {
    shuttle::check_random(
        || {
            let watch = Watch::start(Duration::from_secs(1)).unwrap();
            let failing = caught(|| {
                let outcome =
                    watch.run(|_| -> () { std::panic::resume_unwind(Box::new("it fails")) });
                assert!(matches!(outcome, Err(Missing::TimedOut(_))));
            });
            assert!(failing.is_ok() || failing == Err("it fails".into()));
            let (state, (running, all)) = (State::default(), channel());
            let kept = step(&watch, &state, &running, 7);
            drop(watch);
            wait_for_all(running, all);
            assert_eq!(*state.lock().unwrap() == [7], kept);
        },
        10_000,
    );
}

/// Its caller has left, so the step that runs on the coordinator holds the last clone of the wrapper, and drops it.
pub fn the_coordinator_may_be_dropped_by_itself() {
    shuttle::check_random(
        || {
            let names = ["replica 0".to_string(), "replica 1".to_string()];
            let workers = Workers::start(&names).unwrap();
            let watch = Watch::start(Duration::from_secs(1)).unwrap();
            let wrapper = Arc::new((watch, workers));
            let clone = wrapper.clone();
            let outcome = wrapper.0.run(move |ticket| {
                let kept = ticket.end();
                drop(clone);
                kept
            });
            drop(wrapper);
            assert!(!matches!(outcome, Ok(false)));
        },
        20_000,
    );
}

/// Whoever drops the watch does not wait for a step that never ends.
pub fn nobody_waits_for_a_step_that_was_given_up() {
    shuttle::check_random(
        || {
            let watch = Watch::start(Duration::from_secs(1)).unwrap();
            let (end, wait) = channel::<()>();
            let outcome = watch.run(move |ticket| {
                let ended = wait.recv();
                (ended.is_err(), ticket.end())
            });
            // Without a limit that passes, the step would never end: `end` is dropped after the watch.
            assert!(matches!(outcome, Err(Missing::TimedOut(_))));
            drop(watch);
            drop(end);
        },
        10_000,
    );
}
