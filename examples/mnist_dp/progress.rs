//! Progress: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::report::Epoch;

pub struct Progress {
    bar: ProgressBar,
    epochs: u32,
}

impl Progress {
    pub fn new(epochs: u32, steps: u64) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        if !std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        // The template is a constant that indicatif accepts; its default would serve too.
        if let Ok(style) = ProgressStyle::with_template(
            "{msg} {wide_bar} {pos}/{len} steps, {per_sec}, {eta} left",
        ) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, epochs }
    }

    pub fn epoch(&self, epoch: u32) {
        self.bar.reset();
        self.bar
            .set_message(format!("epoch {epoch}/{}", self.epochs));
    }

    pub fn step(&self) {
        self.bar.inc(1);
    }

    pub fn epoch_done(&self, epoch: &Epoch) {
        let line = format!(
            "epoch {:>2}/{}: loss {:.4}, accuracy {:.4}; test loss {:.4}, accuracy {:.4}; {:.2} s, {:.1} steps/s",
            epoch.epoch,
            self.epochs,
            epoch.train_loss,
            epoch.train_accuracy,
            epoch.test_loss,
            epoch.test_accuracy,
            epoch.seconds,
            epoch.steps_per_second
        );
        self.bar.suspend(|| println!("{line}"));
    }

    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
