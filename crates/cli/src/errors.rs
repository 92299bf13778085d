//! Errors of a verb, as `main` and those that go on after one need them.

/// The error and its causes in a line.
pub(crate) fn one_line(error: &anyhow::Error) -> String {
    transect_model::people::one_line(error.as_ref())
}

/// Did the error come from a reader that closed our standard output?
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
