//! What can go wrong, each in one line with its remedy.

use std::path::{Path, PathBuf};

use burn_dp::DataParallelError;
use burn_dp::visible::VisibilityError;

use crate::interrupt::EXIT_CODE;

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("{0}")]
    Usage(String),
    #[error("cannot use {path}: {detail}")]
    File { path: PathBuf, detail: String },
    #[error("{0}")]
    Data(String),
    #[error("stopped in epoch {epoch} after {steps} of its steps; {saved}")]
    Interrupted {
        epoch: u32,
        steps: usize,
        saved: String,
    },
    #[error(transparent)]
    DataParallel(#[from] DataParallelError),
    #[error(transparent)]
    Visibility(#[from] VisibilityError),
}

impl Problem {
    pub fn file(path: &Path, detail: impl ToString) -> Self {
        Self::File {
            path: path.to_owned(),
            detail: detail.to_string(),
        }
    }

    /// 2 for a wrong command line, as clap has it; 130 for a run that was stopped, as shells have it; 1 for the rest.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Interrupted { .. } => EXIT_CODE,
            _ => 1,
        }
    }
}

/// Fail now if `file` cannot be written at the end.
pub fn check_writable(file: Option<&Path>) -> Result<(), Problem> {
    let Some(file) = file else { return Ok(()) };
    let parent = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if file.file_name().is_none() || file.is_dir() {
        return Err(Problem::file(file, "it is a directory; name a file in it"));
    }
    if !parent.is_dir() {
        return Err(Problem::file(
            file,
            format!(
                "there is no directory {}; create it first",
                parent.display()
            ),
        ));
    }
    tempfile::tempfile_in(parent).map(drop).map_err(|error| {
        Problem::file(
            file,
            format!(
                "{error} in {}; choose a directory that you can write to",
                parent.display()
            ),
        )
    })
}

/// Write through a temporary file beside `file`, so that a run that is stopped leaves no half file.
pub fn write_whole(
    file: &Path,
    write: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<(), Problem> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let partial = file.with_file_name(format!(".{name}.{}.partial", std::process::id()));
    let written = write(&partial)
        .and_then(|()| std::fs::rename(&partial, file).map_err(|error| error.to_string()));
    if written.is_err() {
        // Best effort: what matters to the user is the first error.
        let _ = std::fs::remove_file(&partial);
    }
    written.map_err(|detail| Problem::file(file, detail))
}
