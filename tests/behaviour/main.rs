//! Behaviour of `DataParallel`, one behaviour a file.
