//! What stands in for `crate::sync`.

pub use shuttle::sync::{Arc, Condvar, Mutex, atomic};
pub use shuttle::{thread, thread_local};
pub use std::sync::PoisonError;

/// Channels of shuttle, whose `recv_timeout` never times out; this one may at any moment.
pub mod mpsc {
    use std::time::Duration;

    use shuttle::rand::Rng;
    use shuttle::sync::mpsc as inner;
    pub use shuttle::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError};

    pub struct Receiver<T>(inner::Receiver<T>);

    pub struct Sender<T>(inner::Sender<T>);

    impl<T> Clone for Sender<T> {
        fn clone(&self) -> Self {
            Self(self.0.clone())
        }
    }

    // As `std` has it: for messages of any type.
    impl<T> std::fmt::Debug for Sender<T> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("Sender").finish_non_exhaustive()
        }
    }

    impl<T> Sender<T> {
        pub fn send(&self, message: T) -> Result<(), SendError<T>> {
            self.0.send(message)
        }
    }

    pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
        let (sender, receiver) = inner::channel();
        (Sender(sender), Receiver(receiver))
    }

    impl<T> Receiver<T> {
        pub fn recv(&self) -> Result<T, RecvError> {
            self.0.recv()
        }

        pub fn recv_timeout(&self, _: Duration) -> Result<T, RecvTimeoutError> {
            let mut rng = shuttle::rand::thread_rng();
            // Most often it is short; at times all others can end before.
            let patience = if rng.gen_bool(0.3) { 300 } else { 40 };
            for _ in 0..rng.gen_range(0..patience) {
                shuttle::thread::yield_now();
            }
            self.0.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
            })
        }
    }

    impl<T> IntoIterator for Receiver<T> {
        type Item = T;
        type IntoIter = inner::IntoIter<T>;

        fn into_iter(self) -> Self::IntoIter {
            self.0.into_iter()
        }
    }
}
