//! Ctrl-C and SIGTERM: the first ends the run after the step that is under way, the second at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::problem::Problem;

/// The exit code of a program that SIGINT has ended, as shells have it.
pub const EXIT_CODE: u8 = 130;

pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listen from now on.
    pub fn listen() -> Result<Self, Problem> {
        let requested = Arc::new(AtomicBool::new(false));
        let seen = requested.clone();
        ctrlc::set_handler(move || {
            if seen.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_CODE));
            }
            eprintln!("stopping after this step; once more to stop at once");
        })
        .map_err(|error| Problem::Usage(format!("signals cannot be listened to: {error}")))?;
        Ok(Self(requested))
    }

    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
