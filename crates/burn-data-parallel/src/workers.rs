//! Persistent worker threads: one per replica but the first, which runs on the thread of whoever asks for a step (the caller's,
//! or the coordinator's where there is a time limit).

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::DataParallelError;
use crate::sync::mpsc::{Sender, channel};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::thread_local;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

thread_local! {
    static IN_REPLICA: Cell<bool> = const { Cell::new(false) };
}

/// Whether the current thread is running a replica's closure.
pub(crate) fn in_replica() -> bool {
    IN_REPLICA.with(Cell::get)
}

/// A thread with a queue, which lives until this is dropped.
#[derive(Debug)]
pub(crate) struct Worker {
    queue: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Worker {
    pub(crate) fn start(name: String) -> std::io::Result<Self> {
        let (queue, jobs) = channel::<Job>();
        let thread = thread::Builder::new()
            .name(name)
            .spawn(move || jobs.into_iter().for_each(|job| job()))?;
        Ok(Self {
            queue: Some(queue),
            thread: Some(thread),
        })
    }

    /// Run `job` after those before it. A worker ends only when it is dropped, so the job is not lost; if it were, whoever
    /// waits for its result would see that.
    pub(crate) fn send(&self, job: Job) {
        if let Some(queue) = &self.queue {
            let _ = queue.send(job);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.queue = None;
        let this = thread::current().id();
        if let Some(thread) = self.thread.take()
            // The last clone of a wrapper may be dropped by a worker itself, which cannot wait for itself.
            && thread.thread().id() != this
        {
            let _ = thread.join();
        }
    }
}

/// Threads that live as long as the wrapper. A new thread each step would be a new stream on a GPU.
#[derive(Debug)]
pub(crate) struct Workers(Vec<Worker>);

impl Workers {
    /// Start the threads for replicas `1..names.len()`.
    pub(crate) fn start(names: &[String]) -> Result<Self, DataParallelError> {
        let threads = names.iter().enumerate().skip(1).map(|(replica, name)| {
            let worker = Worker::start(name.clone());
            worker.map_err(|cause| DataParallelError::Thread { replica, cause })
        });
        threads.collect::<Result<_, _>>().map(Self)
    }

    /// Run `jobs[i]` for replica `i`, side by side, and return when all have ended, with each one's result or panic message.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        mut jobs: Vec<Box<dyn FnOnce() -> T + Send>>,
    ) -> Vec<Result<T, String>> {
        let count = jobs.len();
        let (done, results) = channel();
        let rest = jobs.split_off(count.min(1));
        for (index, (job, worker)) in rest.into_iter().zip(&self.0).enumerate() {
            let done = done.clone();
            worker.send(Box::new(move || {
                let result = caught(job);
                // The receiver lives until every result is in, so this cannot fail.
                let _ = done.send((index + 1, result));
            }));
        }
        drop(done);
        let mut out: Vec<Result<T, String>> = Vec::with_capacity(count);
        out.extend(jobs.pop().map(caught));
        out.resize_with(count, || Err("its worker thread has ended".to_string()));
        for (index, result) in results {
            out[index] = result;
        }
        out
    }
}

/// Run `job`, turning a panic into its message.
pub(crate) fn caught<T>(job: impl FnOnce() -> T) -> Result<T, String> {
    let outer = IN_REPLICA.with(|inside| inside.replace(true));
    let result = catch_unwind(AssertUnwindSafe(job));
    IN_REPLICA.with(|inside| inside.set(outer));
    result.map_err(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| text.to_string())
            .or_else(|| panic.downcast_ref::<String>().cloned());
        text.unwrap_or_else(|| "it panicked without a message".into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workers(count: usize) -> Workers {
        Workers::start(
            &(0..count)
                .map(|i| format!("replica {i}"))
                .collect::<Vec<_>>(),
        )
        .unwrap()
    }

    #[test]
    fn results_come_in_order_and_panics_as_messages() {
        let workers = workers(3);
        for _ in 0..100 {
            let jobs: Vec<Box<dyn FnOnce() -> usize + Send>> = vec![
                Box::new(|| 0),
                Box::new(|| panic!("one {}", "fails")),
                Box::new(|| 2),
            ];
            let results = workers.run(jobs);
            assert_eq!(results, [Ok(0), Err("one fails".to_string()), Ok(2)]);
        }
    }

    #[test]
    fn threads_persist() {
        let workers = workers(2);
        let ids = |workers: &Workers| {
            let jobs: Vec<Box<dyn FnOnce() -> _ + Send>> = vec![
                Box::new(|| std::thread::current().id()),
                Box::new(|| std::thread::current().id()),
            ];
            workers.run(jobs)
        };
        let first = ids(&workers);
        assert_eq!(first, ids(&workers));
        assert_eq!(first[0], Ok(std::thread::current().id()));
        assert_ne!(first[0], first[1]);
    }
}
