//! The contexts of wakings with perf beside both collectors and trace-cmd.

#[test]
fn both_collectors_trace_cmd_and_perf_agree_on_every_context() {
    crate::host::record_contexts::agree(true);
}
