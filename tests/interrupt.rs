//! Ctrl-C ends `mnist_dp` after the step that is under way, with the weights saved whole if that was asked for.
#![cfg(unix)]

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Built by `cargo test` beside this test.
fn mnist_dp() -> Command {
    let test = std::env::current_exe().expect("this test is a program");
    let profile = test.parent().and_then(|deps| deps.parent());
    let program: PathBuf = profile
        .expect("a folder of the profile")
        .join("examples/mnist_dp");
    assert!(
        program.is_file(),
        "build it first: cargo build --workspace --features full --examples"
    );
    let mut command = Command::new(program);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// A run that has begun to train, and would go on for hours.
fn running(command: &mut Command) -> Child {
    let mut child = command
        .args(["--epochs", "10000", "--replicas", "2"])
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    // The model is shown just before the first step.
    let shown = lines.any(|line| line.expect("text").contains("DataParallel"));
    assert!(shown, "it ended before it trained");
    // Read to the end, so that it never waits for a reader.
    std::thread::spawn(move || lines.for_each(drop));
    std::thread::sleep(std::time::Duration::from_millis(1500));
    child
}

fn interrupt(child: Child) -> (Option<i32>, String) {
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .expect("every unix has it");
    assert!(sent.success());
    let output = child.wait_with_output().expect("it ends");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn the_weights_are_saved_whole_and_can_be_gone_on_from() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("weights");
    let (code, errors) = interrupt(running(mnist_dp().arg("--save").arg(&file)));
    assert_eq!(code, Some(130), "{errors}");
    assert!(
        errors.contains("stopped in epoch") && errors.contains("--load goes on"),
        "{errors}"
    );
    let entries = std::fs::read_dir(folder.path()).expect("it is there");
    let names: Vec<_> = entries
        .map(|entry| entry.expect("it is there").file_name())
        .collect();
    assert_eq!(names, ["weights"], "a partial file was left");
    let load = ["--epochs", "1", "--replicas", "1", "--load"];
    let output = mnist_dp().args(load).arg(&file).output().expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn without_a_file_it_says_that_nothing_was_saved() {
    let (code, errors) = interrupt(running(&mut mnist_dp()));
    assert_eq!(code, Some(130), "{errors}");
    assert!(errors.contains("--save was not given"), "{errors}");
}
