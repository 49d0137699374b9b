//! Whether the dynamic loader would find a library, without loading it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders in which loaders look of their own accord.
const STANDARD_FOLDERS: &[&str] = &[
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/lib/wsl/lib",
];

/// The file that the dynamic loader would take for `lib<name>.so` (or `<name>.dll`), looked for in
/// `LD_LIBRARY_PATH` (`PATH` on Windows), the loader's cache and the standard folders.
///
/// # Examples
///
/// ```
/// match burn_visible_devices::find_library("nccl") {
///     Some(path) => println!("NCCL: {}", path.display()),
///     None => println!("NCCL is not installed: copies between cards go through the host"),
/// }
/// ```
pub fn find_library(name: &str) -> Option<PathBuf> {
    let file = if cfg!(windows) {
        format!("{name}.dll")
    } else {
        format!("lib{name}.so")
    };
    let variable = if cfg!(windows) {
        "PATH"
    } else {
        "LD_LIBRARY_PATH"
    };
    let listed = std::env::var_os(variable).unwrap_or_default();
    std::env::split_paths(&listed)
        .find_map(|folder| in_folder(&folder, &file))
        .or_else(|| in_cache(&file))
        .or_else(|| {
            STANDARD_FOLDERS
                .iter()
                .find_map(|folder| in_folder(Path::new(folder), &file))
        })
}

/// The file itself or, as with `libcuda.so.1`, one with a version behind its name.
fn in_folder(folder: &Path, file: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| {
            entry
                .file_name()
                .to_str()
                .is_some_and(|name| is_version_of(name, file))
        })
        .map(|entry| entry.path())
        .filter(|path| path.exists()) // a link to nothing does not count
        .collect();
    found.sort_unstable();
    found.into_iter().next()
}

fn is_version_of(name: &str, file: &str) -> bool {
    name.strip_prefix(file)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

fn in_cache(file: &str) -> Option<PathBuf> {
    let print = |program: &str| Command::new(program).arg("-p").output().ok();
    let output = print("ldconfig").or_else(|| print("/sbin/ldconfig"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().find_map(|line| {
        let (names, path) = line.split_once(" => ")?;
        let name = names.split_whitespace().next()?;
        is_version_of(name, file)
            .then(|| PathBuf::from(path.trim()))
            .filter(|path| path.exists())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_the_library_and_a_longer_name_is_not() {
        assert!(is_version_of("libcuda.so", "libcuda.so"));
        assert!(is_version_of("libcuda.so.1", "libcuda.so"));
        assert!(!is_version_of("libcudart.so", "libcuda.so"));
        assert!(!is_version_of("libcuda.sock", "libcuda.so"));
    }

    #[test]
    fn a_library_that_is_nowhere_is_not_found() {
        assert_eq!(find_library("no-such-library-anywhere"), None);
    }
}
